//! The Query language, on AWS's sample data.

use crate::UnlimitedBudget;
use crate::simpledb::select::tests::fixture::{Domain, text};
use crate::simpledb::{Code, CostedReply, Error, PageToken, Reply, Request, answer};

fn query(
    domain: &Domain,
    expression: &str,
    max_count: Option<i64>,
    next_token: Option<PageToken>,
) -> Result<(Vec<String>, Option<PageToken>), Error> {
    let request = Request::Query {
        domain: "mydomain".to_owned(),
        expression: Some(expression.to_owned()),
        max_count,
        next_token,
        attributes: None,
    };
    match answer(&domain.view, &domain.context(&UnlimitedBudget), &request)? {
        CostedReply {
            reply: Reply::ItemNames { names, next_token },
            ..
        } => Ok((names.iter().map(text).collect(), next_token)),
        other => panic!("{other:?} to a Query"),
    }
}

#[test]
fn answers_the_expressions_of_the_guide() {
    let books = Domain::books();
    let check = |expression: &str, expected: &[&str]| {
        let (mut names, token) = query(&books, expression, None, None).unwrap();
        let mut expected = expected.to_vec();
        if !expression.contains("sort") {
            names.sort();
            expected.sort_unstable();
        }
        assert_eq!(names, expected, "{expression}");
        assert_eq!(token, None, "{expression}");
    };
    let all = [
        "0385333498",
        "0802131786",
        "1579124585",
        "B00005JPLW",
        "B000SF3NGK",
        "B000T9886K",
    ];
    check("", &all);
    check("['Title' = 'The Right Stuff']", &["1579124585"]);
    check(
        "['Keyword' = 'CD'] intersection ['Year' = '2007']",
        &["B000T9886K"],
    );
    check(
        "['Keyword' = 'Frank Miller'] union ['Rating' starts-with '****']",
        &[
            "0385333498",
            "0802131786",
            "1579124585",
            "B00005JPLW",
            "B000SF3NGK",
        ],
    );
    check(
        "['Year' >= '1900' and 'Year' < '2000'] intersection ['Keyword' = 'Book'] \
         intersection ['Rating' starts-with '4' or 'Rating' = '****'] \
         union ['Title' = '300'] union ['Author' = 'Paul Van Dyk']",
        &["0802131786", "1579124585", "B00005JPLW", "B000T9886K"],
    );
    check("['Keyword' = 'Book' and 'Keyword' = 'Hardcover']", &[]);
    check(
        "['Keyword' = 'Book'] intersection ['Keyword' = 'Hardcover']",
        &["1579124585"],
    );
    check(
        "not ['Year' < '2000']",
        &["B00005JPLW", "B000SF3NGK", "B000T9886K"],
    );
    check(
        "['Year' does-not-start-with '19']",
        &["B00005JPLW", "B000SF3NGK", "B000T9886K"],
    );
    check(
        "['Title' = 'Heaven\\'s Gonna Burn Your Eyes']",
        &["B000SF3NGK"],
    );
    check(
        "['Year' < '1980'] sort 'Year' asc",
        &["0802131786", "0385333498", "1579124585"],
    );
    check(
        "['Year' < '1980'] sort 'Year'",
        &["0802131786", "0385333498", "1579124585"],
    );
    check(
        "['Year' = '2007'] intersection ['Author' starts-with ''] sort 'Author' desc",
        &["B00005JPLW", "B000T9886K"],
    );
}

#[test]
fn refuses() {
    let books = Domain::books();
    let check = |expression: &str, max_count: Option<i64>, code: Code| {
        let error = query(&books, expression, max_count, None).unwrap_err();
        assert_eq!(error.code, code, "{expression}");
    };
    let many = format!("['a' = 'x'{}]", " or 'a' = 'x'".repeat(20));
    for (expression, code) in [
        ("[]", Code::InvalidQueryExpression),
        ("['a' = 'x'", Code::InvalidQueryExpression),
        ("['a' = 'x'] ['b' = 'y']", Code::InvalidQueryExpression),
        ("['a' = 'x' and 'b' = 'y']", Code::InvalidQueryExpression),
        ("['a' starts with 'x']", Code::InvalidQueryExpression),
        ("[a = 'x']", Code::InvalidQueryExpression),
        ("['a' = 'x'] union", Code::InvalidQueryExpression),
        ("['a' = 'x\\']", Code::InvalidQueryExpression),
        ("['a' = 'x'] sort 'b'", Code::InvalidSortExpression),
        (
            "['a' = 'x'] union ['b' = 'y'] sort 'a'",
            Code::InvalidSortExpression,
        ),
        ("not ['a' = 'x'] sort 'a'", Code::InvalidSortExpression),
        (many.as_str(), Code::InvalidNumberPredicates),
    ] {
        check(expression, None, code);
    }
    for max_count in [i64::MIN, -1, 0, 251, i64::MAX] {
        check("['a' = 'x']", Some(max_count), Code::InvalidParameterValue);
    }
}

#[test]
fn pages_with_attributes() {
    let books = Domain::books();
    let (first, token) = query(&books, "['Year' > '1950']", Some(3), None).unwrap();
    let (second, end) = query(&books, "['Year' > '1950']", Some(3), token.clone()).unwrap();
    assert_eq!((first.len(), second.len(), end), (3, 2, None));
    let other = query(&books, "['Year' > '1951']", Some(3), token);
    assert_eq!(other.unwrap_err().code, Code::InvalidNextToken);

    let request = Request::Query {
        domain: "mydomain".to_owned(),
        expression: Some("['Year' = '2002' or 'Year' = '1934']".to_owned()),
        max_count: None,
        next_token: None,
        attributes: Some(vec!["Pages".to_owned()]),
    };
    let answered = answer(&books.view, &books.context(&UnlimitedBudget), &request).unwrap();
    let Reply::Items { items, .. } = answered.reply else {
        panic!("no items")
    };
    let pairs = |at: usize| -> Vec<_> {
        items[at]
            .attributes
            .iter()
            .map(|pair| (text(&pair.name), text(&pair.value)))
            .collect()
    };
    assert_eq!(pairs(0), [("Pages".to_owned(), "00318".to_owned())]);
    assert_eq!(
        (text(&items[1].name).as_str(), pairs(1)),
        ("B000SF3NGK", Vec::new())
    );
}
