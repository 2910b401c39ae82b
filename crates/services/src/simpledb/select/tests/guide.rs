//! Every expression of AWS's guide on AWS's sample data.

use super::fixture::{Domain, Stops};
use crate::UnlimitedBudget;

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
        let mut names = books.names(&expression, &UnlimitedBudget).unwrap();
        let mut expected = expected.to_vec();
        if !rest.contains("order by") {
            names.sort();
            expected.sort_unstable();
        }
        assert_eq!(names, expected, "{expression}");
    }
}

#[test]
fn pages_join_at_any_end() {
    let books = Domain::books();
    for (rest, _) in DOCUMENTED {
        let expression = format!("select itemName() from mydomain {rest}");
        let whole = books.names(&expression, &UnlimitedBudget).unwrap();
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
