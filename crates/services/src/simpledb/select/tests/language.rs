//! The language: what is refused, what is understood, and that nothing panics.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::simpledb::select::{Statement, domain};
use crate::simpledb::{Code, Limits, query};

fn refused(expression: &str) -> Option<Code> {
    Statement::parse(expression, &Limits::default())
        .err()
        .map(|error| error.code)
}

#[test]
fn understands() {
    for expression in [
        "select * from d",
        " \t\r\nSELECT\n*\tFROM d ",
        "select itemName ( ) from d",
        "select itemname(), a from d",
        "select `select` from `my-domain.1`",
        "select $a, _b, `c``d` from d",
        "select count from d",
        "select count(*) from d limit 2500",
        "select a from d where count = '1' and itemName = 'x'",
        "select a from d where a='1'and b>='2'or c!='3'intersection d is null",
        "select a from d where not not (a = '1')",
        "select a from d where a in('x')",
        "select a from d where a like '%' or a like '%%' or a like '' or a like '\\%'",
        "select a from d where every(a) is not null order by a",
        "select a from d where a = '' order by a desc limit 1",
        "select a from d where not a = 'x' order by a",
        "select a from d where b is null intersection a is not null order by a",
        "select a from d where itemName() > '' order by itemName() asc",
    ] {
        assert_eq!(refused(expression), None, "{expression}");
    }
}

#[test]
fn refuses() {
    let ors = |field: &str, count: usize| {
        let tests: Vec<_> = (0..count).map(|at| format!("{field}{at} = 'x'")).collect();
        format!("select * from d where {}", tests.join(" or "))
    };
    let attributes = |count: usize| {
        let names: Vec<_> = (0..count).map(|at| format!("a{at}")).collect();
        format!("select {} from d", names.join(", "))
    };
    let list = |count: usize| {
        format!(
            "select * from d where a in ('x'{})",
            ",'x'".repeat(count - 1)
        )
    };
    let open = |count: usize| {
        format!(
            "select * from d where {}a = 'x'{}",
            "(".repeat(count),
            ")".repeat(count)
        )
    };
    for (expression, code) in [
        (ors("a", 20), None),
        (ors("a", 21), Some(Code::InvalidNumberPredicates)),
        (list(20), None),
        (list(21), Some(Code::InvalidNumberValueTests)),
        (attributes(256), None),
        (attributes(257), Some(Code::TooManyRequestedAttributes)),
        (open(64), None),
        (open(65), Some(Code::InvalidQueryExpression)),
        (open(30_000), Some(Code::InvalidQueryExpression)),
        (
            format!("select * from d where {}a = 'x'", "not ".repeat(10_000)),
            Some(Code::InvalidQueryExpression),
        ),
        (
            format!("select * from d where a = '{}'", "x".repeat(1 << 16)),
            Some(Code::InvalidQueryExpression),
        ),
        (
            format!("select {} from d", "a".repeat(1025)),
            Some(Code::InvalidParameterValue),
        ),
    ] {
        assert_eq!(refused(&expression), code, "{:.60}", expression);
    }
}

fn check_words(expression: &str, expected: &str) {
    let error = Statement::parse(expression, &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), expected, "{expression}");
}

#[test]
fn refuses_invalid_expressions() {
    for expression in [
        "",
        "select",
        "select * from",
        "select * from my-domain",
        "select * from 1domain",
        "select * from ``",
        "select * from d;",
        "select *, a from d",
        "select count(*), a from d",
        "select count(a) from d",
        "select a, from d",
        "select from from d",
        "select * from d where",
        "select * from d where a",
        "select * from d where a = 1",
        "select * from d where a = `x`",
        "select * from d where a = 'x",
        "select * from d where a = 'it's'",
        "select * from d where a == 'x'",
        "select * from d where a <> 'x'",
        "select * from d where 'a' = 'x'",
        "select * from d where (a = 'x'",
        "select * from d where a = 'x')",
        "select * from d where a = 'x' and",
        "select * from d where and a = 'x'",
        "select * from d where a = 'x' b = 'y'",
        "select * from d where a between 'x' or 'y'",
        "select * from d where a not between 'x' and 'y'",
        "select * from d where a not in ('x')",
        "select * from d where a in ()",
        "select * from d where a in ('x',)",
        "select * from d where a is 'x'",
        "select * from d where a like 'x%y'",
        "select * from d where a like '%x%y%'",
        "select * from d where every(itemName()) = 'x'",
        "select * from d where every a = 'x'",
        "select * from d where year() = 'x'",
        "select * from d where a = 'x' order a",
        "select * from d where a = 'x' order by a, b",
        "select * from d limit",
        "select * from d limit -1",
        "select * from d limit 'x'",
        "select * from d limit 5 5",
        "select * from d limit 5 where a = 'x'",
        "select * from d where a = 'x' \u{a0}",
    ] {
        check_words(
            expression,
            "InvalidQueryExpression: The specified query expression syntax is not valid.",
        );
    }
}

#[test]
fn refuses_to_sort_by_what_may_be_absent() {
    for rest in [
        "order by a",
        "order by itemName()",
        "where a is null order by a",
        "where not a is not null order by a",
        "where b = 'x' order by a",
        "where a = 'x' order by A",
    ] {
        check_words(
            &format!("select * from d {rest}"),
            "InvalidSortExpression: Invalid sort expression. The sort attribute must be present in \
             at least one of the predicates, and the predicate cannot contain the is null \
             operator.",
        );
    }
}

#[test]
fn refuses_pages_of_no_or_too_many_items() {
    for limit in ["0", "2501", "18446744073709551616", "00"] {
        check_words(
            &format!("select * from d limit {limit}"),
            &format!(
                "InvalidParameterValue: Value ({limit}) for parameter MaxNumberOfItems is invalid. \
                 MaxNumberOfItems must be between 1 and 2500."
            ),
        );
    }
}

#[test]
fn finds_the_domain_of_any_expression() {
    for (expression, expected) in [
        ("select * from books", Some("books")),
        ("select * from `my-books` where", Some("my-books")),
        ("select `from`, a From b limit", Some("b")),
        ("from x", Some("x")),
        ("select * from where", None),
        ("select * from `a``b`", None),
        ("select * from 'books'", None),
        ("select 'from books'", None),
        ("select * from", None),
        ("select * from books where a = 'x", None),
        ("", None),
    ] {
        assert_eq!(domain(expression), expected, "{expression}");
    }
}

/// Pieces that make expressions likely.
const PIECES: [&str; 48] = [
    "select",
    "*",
    "from",
    "d",
    "where",
    "a",
    "b",
    "=",
    "!=",
    "<",
    ">=",
    "'x'",
    "'y'",
    "\"z\"",
    "and",
    "or",
    "not",
    "intersection",
    "(",
    ")",
    "every",
    "(a)",
    "itemName()",
    "count(*)",
    "in",
    "('x')",
    ",",
    "between",
    "like",
    "'x%'",
    "'%'",
    "is",
    "null",
    "order",
    "by",
    "asc",
    "desc",
    "limit",
    "5",
    "`q`",
    "['a'='x']",
    "union",
    "sort",
    "'a'",
    "starts-with",
    "[",
    "]",
    "\\",
];

fn valid() -> impl Strategy<Value = String> {
    let test = prop::sample::select(vec![
        "a = 'x'",
        "a != 'x'",
        "b < 'y'",
        "every(a) like 'x%'",
        "a is null",
        "b is not null",
        "itemName() in ('x', 'y')",
        "a between 'x' and 'y'",
        "`q-r` not like '%\\%%'",
    ]);
    let condition = test
        .prop_map(str::to_owned)
        .prop_recursive(4, 16, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone())
                    .prop_map(|(one, other)| format!("{one} and {other}")),
                (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("{one} or {other}")),
                (inner.clone(), inner.clone())
                    .prop_map(|(one, other)| format!("({one}) intersection {other}")),
                inner.clone().prop_map(|one| format!("not {one}")),
                inner.prop_map(|one| format!("({one})")),
            ]
        });
    (
        condition,
        prop::sample::select(vec!["", " order by b", " order by b desc"]),
    )
        .prop_map(|(condition, order)| {
            format!("select * from d where b > '' and ({condition}){order}")
        })
}

proptest! {
    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        let limits = Limits::default();
        let _ = Statement::parse(&text, &limits);
        let _ = Statement::parse(&format!("select * from d where {text}"), &limits);
        let _ = Statement::parse(&format!("select * from d where a like '{text}'"), &limits);
        let _ = query::selection("d", &text, &limits);
        let _ = domain(&text);
    }

    #[test]
    fn any_words_are_answered(
        words in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..40),
    ) {
        let text = words.join(" ");
        let _ = Statement::parse(&text, &Limits::default());
        let _ = Statement::parse(&format!("select * from d where {text}"), &Limits::default());
        let _ = query::selection("d", &text, &Limits::default());
    }

    #[test]
    fn mutated_expressions_are_answered(text in valid(), at in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(), piece in prop::sample::select(PIECES.to_vec())
    ) {
        let cut = |index: prop::sample::Index| {
            (0..=index.index(text.len() + 1)).rev().find(|&at| text.is_char_boundary(at)).unwrap()
        };
        let (at, other) = (cut(at), cut(other));
        let (from, to) = (at.min(other), at.max(other));
        let mutated = format!("{}{piece}{}", &text[..from], &text[to..]);
        let _ = Statement::parse(&mutated, &Limits::default());
    }

    #[test]
    fn canonical_text_says_the_same(text in valid()) {
        let limits = Limits { select_comparisons: 1000, ..Limits::default() };
        let statement = Statement::parse(&text, &limits).unwrap();
        let again = Statement::parse(&format!("select * {}", statement.selection), &limits);
        prop_assert_eq!(Ok(statement), again);
    }
}

/// Page tokens outlive releases, and are bound to this text.
#[test]
fn canonical_text_is_frozen() {
    let check = |rest: &str, expected: Expect| {
        let text = format!("select count(*) from {rest} limit 7");
        let statement = Statement::parse(&text, &Limits::default()).unwrap();
        expected.assert_eq(&statement.selection.to_string());
    };
    for (rest, expected) in [
        ("d", expect!["from d"]),
        (
            "`my-domain` WHERE ((a = \"it's\"))",
            expect!["from `my-domain` where a = 'it''s'"],
        ),
        (
            "d where a > '1' and b is null and (a <= '2' or a = '') order by a",
            expect!["from d where ((a > '1' and (a <= '2' or a = '')) and b is null) order by a"],
        ),
        (
            "d where a = '' or every(`or`) in ('x', 'y') intersection not c = ''",
            expect!["from d where ((a = '' or every(`or`) in ('x', 'y')) intersection not c = '')"],
        ),
        (
            "d where `a``b` like '%5\\%%' or `a``b` not like 'x'",
            expect![[r#"from d where (`a``b` like '%5\%%' or `a``b` not like 'x')"#]],
        ),
        (
            "d where itemName() between 'a' and 'b' order by ITEMNAME() DESC",
            expect!["from d where itemName() between 'a' and 'b' order by itemName() desc"],
        ),
        (
            "d where a >= '' or b < '' or c is not null",
            expect!["from d where (a >= '' or b < '' or c is not null)"],
        ),
    ] {
        check(rest, expected);
    }
}

/// It shows GRAMMAR-1.
#[test]
fn depth_is_bounded_with_any_limits() {
    let limits = Limits {
        expression_depth: usize::MAX,
        expression_bytes: usize::MAX,
        select_comparisons: usize::MAX,
        ..Limits::default()
    };
    let nested = |open: &str, close: &str, count: usize| {
        let text = format!(
            "select * from d where {}b = 'y'{}",
            open.repeat(count),
            close.repeat(count)
        );
        let parsed = Statement::parse(&text, &limits);
        parsed
            .map(|statement| statement.selection.to_string().len())
            .map_err(|error| error.code)
    };
    for (open, close) in [
        ("(", ")"),
        ("not ", ""),
        ("(a = 'x' intersection c = 'z' or ", ")"),
    ] {
        assert!(nested(open, close, 200).is_ok(), "{open}");
        let refused = Err(Code::InvalidQueryExpression);
        assert_eq!(nested(open, close, 201), refused, "{open}");
        assert_eq!(nested(open, close, 50_000), refused, "{open}");
    }
    let count = 100_000;
    let steps = "union ['a' = 'x'] intersection ['b' = 'y'] ".repeat(count);
    let error = query::selection("d", &format!("['a' = 'x'] {steps}"), &limits).unwrap_err();
    assert_eq!(error.code, Code::InvalidQueryExpression);
}
