//! Select on whole domains: AWS's sample data, outputs, pages, tokens and refusals.

pub(crate) mod fixture;
mod language;
mod model;

use fixture::{Counting, Domain, Stops, text};

use super::*;
use crate::Unhurried;

/// Items of every expression of AWS's guide; sorted here unless the expression orders them.
const DOCUMENTED: [(&str, &[&str]); 34] = [
    ("where Title = 'The Right Stuff'", &["1579124585"]),
    (
        "where Year > '1985'",
        &["B00005JPLW", "B000SF3NGK", "B000T9886K"],
    ),
    (
        "where Rating like '****%'",
        &["0385333498", "0802131786", "1579124585", "B000SF3NGK"],
    ),
    ("where Pages < '00320'", &["0802131786", "1579124585"]),
    (
        "where Year > '1975' and Year < '2008'",
        &["1579124585", "B00005JPLW", "B000SF3NGK", "B000T9886K"],
    ),
    (
        "where Year between '1975' and '2008'",
        &["1579124585", "B00005JPLW", "B000SF3NGK", "B000T9886K"],
    ),
    (
        "where Rating = '***' or Rating = '*****'",
        &["0385333498", "B00005JPLW", "B000SF3NGK"],
    ),
    (
        "where (Year > '1950' and Year < '1960') or Year like '193%' or Year = '2007'",
        &["0385333498", "0802131786", "B00005JPLW", "B000T9886K"],
    ),
    (
        "where Rating = '4 stars' or Rating = '****'",
        &["0802131786", "1579124585", "B000T9886K"],
    ),
    ("where Keyword = 'Book' and Keyword = 'Hardcover'", &[]),
    (
        "where every(Keyword) in ('Book', 'Paperback')",
        &["0385333498", "0802131786"],
    ),
    ("where Rating = '****'", &["0802131786", "1579124585"]),
    ("where every(Rating) = '****'", &["0802131786"]),
    (
        "where Keyword = 'Book' intersection Keyword = 'Hardcover'",
        &["1579124585"],
    ),
    (
        "where Year < '1980' order by Year asc",
        &["0802131786", "0385333498", "1579124585"],
    ),
    (
        "where Year < '1980' order by Year",
        &["0802131786", "0385333498", "1579124585"],
    ),
    (
        "where Year = '2007' intersection Author is not null order by Author desc",
        &["B00005JPLW", "B000T9886K"],
    ),
    (
        "where Year < '1980' order by Year limit 2",
        &["0802131786", "0385333498", "1579124585"],
    ),
    (
        "where itemName() like 'B000%' order by itemName()",
        &["B00005JPLW", "B000SF3NGK", "B000T9886K"],
    ),
    // The guide's operators on the same data.
    ("where Keyword is null", &["B000SF3NGK"]),
    (
        "where Keyword is null or Year = '1934'",
        &["0802131786", "B000SF3NGK"],
    ),
    (
        "where Pages is null and Title is not null order by Title",
        &["B00005JPLW", "B000SF3NGK", "B000T9886K"],
    ),
    (
        "where Rating != '****'",
        &[
            "0385333498",
            "1579124585",
            "B00005JPLW",
            "B000SF3NGK",
            "B000T9886K",
        ],
    ),
    (
        "where not Rating = '****'",
        &["0385333498", "B00005JPLW", "B000SF3NGK", "B000T9886K"],
    ),
    (
        "where not (Keyword is null or Year > '1950')",
        &["0802131786"],
    ),
    ("where Author like '%Miller'", &["0802131786"]),
    (
        "where Keyword = 'Book' and Author like '%Miller'",
        &["0802131786"],
    ),
    (
        "where Author not like '%o%'",
        &["0802131786", "B000T9886K", "B00005JPLW"],
    ),
    ("where Title like '%\\%%'", &[]),
    (
        "where Year in ('1959', '2007')",
        &["0385333498", "B00005JPLW", "B000T9886K"],
    ),
    (
        "where itemName() in ('0385333498', 'B000SF3NGK', 'x')",
        &["0385333498", "B000SF3NGK"],
    ),
    (
        "where Title = 'Heaven''s Gonna Burn Your Eyes'",
        &["B000SF3NGK"],
    ),
    (
        "where Title = \"Heaven's Gonna Burn Your Eyes\"",
        &["B000SF3NGK"],
    ),
    ("WHERE `Year` = '2007' AND Keyword = 'CD'", &["B000T9886K"]),
];

#[test]
fn answers_the_expressions_of_the_guide() {
    let books = Domain::books();
    for (rest, expected) in DOCUMENTED {
        let expression = format!("select itemName() from mydomain {rest}");
        let mut names = books.names(&expression, &Unhurried).unwrap();
        let mut expected = expected.to_vec();
        if !rest.contains("order by") {
            names.sort();
            expected.sort_unstable();
        }
        assert_eq!(names, expected, "{expression}");
    }
}

#[test]
fn counts() {
    let books = Domain::books();
    let check = |expression: &str, expected: &str| {
        let (items, token) = books.select(expression, None, &Unhurried).unwrap();
        assert_eq!(items.len(), 1, "{expression}");
        assert_eq!(text(&items[0].name), "Domain", "{expression}");
        assert_eq!(text(&items[0].attributes[0].name), "Count", "{expression}");
        assert_eq!(
            text(&items[0].attributes[0].value),
            expected,
            "{expression}"
        );
        token
    };
    assert_eq!(check("select count(*) from mydomain", "6"), None);
    assert_eq!(
        check(
            "select count(*) from mydomain where Title = 'The Right Stuff'",
            "1"
        ),
        None
    );
    assert_eq!(
        check("select COUNT ( * ) from mydomain where Year > '1985'", "3"),
        None
    );
    assert_eq!(check("select count(*) from mydomain limit 500", "6"), None);
    assert_eq!(check("select count(*) from mydomain limit 6", "6"), None);
    assert!(check("select count(*) from mydomain limit 4", "4").is_some());
}

#[test]
fn pages_join_whatever_ends_them() {
    let books = Domain::books();
    for (rest, _) in DOCUMENTED {
        let expression = format!("select itemName() from mydomain {rest}");
        let whole = books.names(&expression, &Unhurried).unwrap();
        for every in 1..4 {
            let paged = books.names(&expression, &Stops::every(every)).unwrap();
            assert_eq!(paged, whole, "{expression}, stopped every {every}");
        }
        let counting = expression.replace("itemName()", "count(*)");
        if !expression.contains("where itemName()") {
            assert_eq!(
                books.count(&counting, &Stops::every(2)),
                whole.len() as u64,
                "{counting}"
            );
        }
    }
}

/// Items, ten of which have any one `ten`.
fn many(items: usize) -> Domain {
    let mut domain = Domain::new();
    for item in 0..items {
        let (name, ten) = (format!("item{item:06}"), format!("{:05}", item / 10));
        let even = if item % 2 == 0 { "yes" } else { "no" };
        domain.put(
            &name,
            [
                ("ten", ten.as_str()),
                ("even", even),
                ("name", name.as_str()),
            ],
        );
    }
    domain
}

#[test]
fn reads_what_it_returns_and_not_the_domain() {
    let domain = many(100_000);
    let check = |rest: &str, results: usize, reads_max: usize| {
        let expression = format!("select * from mydomain where {rest}");
        let view = Counting::new(&domain.view);
        let answered = answer(&view, &domain.context(&Unhurried), &expression, None).unwrap();
        let Reply::Items { items, .. } = answered.reply else {
            panic!("no items")
        };
        assert_eq!(items.len(), results, "{expression}");
        assert!(
            view.reads.get() <= reads_max,
            "{} reads for {expression}",
            view.reads.get()
        );
    };
    check("ten = '00042'", 10, 30);
    check("every(ten) = '00042'", 10, 30);
    check("ten like '0004%'", 100, 220);
    check("ten between '00042' and '00043'", 20, 50);
    check("ten in ('00042', '00999', 'none')", 20, 50);
    check("ten = '00042' and even = 'yes'", 5, 60);
    check("even = 'yes' intersection ten = '00042'", 5, 60);
    check(
        "even = 'yes' and (ten = '00042' or name = 'item000777')",
        5,
        80,
    );
    check("itemName() = 'item000777'", 1, 5);
    check("itemName() in ('item000777', 'item000778')", 2, 8);
    check("not (not ten = '00042' or even = 'no')", 5, 60);
    check("name like '%00777'", 1, 100_010);
    check("ten > '00500' order by ten limit 5", 5, 20);
    check("name is not null order by name desc limit 5", 5, 20);
    check(
        "name is not null and ten = '00042' order by name desc",
        10,
        200,
    );
}

#[test]
fn explains() {
    let domain = many(100);
    let check = |expression: &str, expected: expect_test::Expect| {
        let expression = expression.to_owned();
        let answered = explain(&domain.view, &domain.context(&Unhurried), &expression).unwrap();
        let Reply::Plan(lines) = answered.reply else {
            panic!("no plan")
        };
        expected.assert_eq(&lines.join("\n"));
    };
    check(
        "select * from mydomain",
        expect_test::expect![[r#"
            read items: all
            that is 100 entries
            give them as read
            end a page at 100 items or 1048576 bytes"#]],
    );
    check(
        "select * from mydomain where ten = '00004' and even = 'yes' limit 5",
        expect_test::expect![[r#"
            read the index of ten: = '00004'
            that is 10 entries
            keep those where even = 'yes'
            give them as read
            end a page at 5 items or 1048576 bytes"#]],
    );
    check(
        "select count(*) from mydomain where ten > '00004' and ten <= '00007' or even like 'y%'",
        expect_test::expect![[r#"
            read the index of even: >= 'y' and < 'z'
            read the index of ten: > '00004' and <= '00007'
            that is 80 entries
            keep those where ((ten > '00004' and ten <= '00007') or even like 'y%')
            give them as read
            count them"#]],
    );
    check(
        "select * from mydomain where ten = '00004' and name is not null order by name desc",
        expect_test::expect![[r#"
            read the index of ten: = '00004'
            that is 10 entries
            keep those where name is not null
            sort them by name, greatest first
            end a page at 100 items or 1048576 bytes"#]],
    );
    check(
        "select * from mydomain where ten in ('1', '2', '3', '4', '5') and every(even) != 'no'",
        expect_test::expect![[r#"
            read the index of ten: = '1', = '2', = '3', and 2 more
            that is 0 entries
            keep those where every(even) != 'no'
            give them as read
            end a page at 100 items or 1048576 bytes"#]],
    );
}
