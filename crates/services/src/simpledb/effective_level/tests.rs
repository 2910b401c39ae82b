//! Which of request, access key, collection and API has the word.

use super::*;
use crate::simpledb::{Expected, ItemDelete, ItemPut};

fn get(consistent: bool) -> Request {
    Request::GetAttributes {
        domain: "cats".to_owned(),
        item: "tom".to_owned(),
        names: Vec::new(),
        consistent,
    }
}

fn put(expected: Vec<Expected>) -> Request {
    Request::PutAttributes {
        domain: "cats".to_owned(),
        put: ItemPut::default(),
        expected,
    }
}

fn conditional() -> Request {
    put(vec![Expected::default()])
}

fn select() -> Request {
    Request::Select {
        expression: "select * from cats".to_owned(),
        next_token: None,
        consistent: false,
    }
}

fn drop_domain() -> Request {
    Request::DeleteDomain {
        domain: "cats".to_owned(),
    }
}

/// What a request comes to, as text; asked, of the key and of the collection, each may be empty.
#[track_caller]
fn check(mode: Mode, request: &Request, [asked, key, collection]: [&str; 3], expected: &str) {
    let preference = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
    let asked = if asked.is_empty() { "default" } else { asked };
    let consistency = ConsistencyOptions {
        preference: preference(key),
        ..asked.parse().unwrap()
    };
    let comes_to = match effective_level(Some(mode), preference(collection), &consistency, request)
    {
        Ok((level, bound)) => DefaultConsistency { level, bound }.to_string(),
        Err(error) => error.code.name(),
    };
    assert_eq!(comes_to, expected);
}

#[test]
fn the_first_that_says_something_has_the_word() {
    let (one, two) = ("eventual; r=1; w=2", "eventual; r=2; w=1; bound=10v");
    for (texts, expected) in [
        (["strong", one, two], "strong"),
        ([two, "strong", "strong"], two),
        (["", one, two], one),
        (["default", "", two], two),
        (["", "barrier", two], "barrier"),
        (["", "", ""], "eventual; r=1; w=1"),
    ] {
        check(Mode::Mixed, &get(false), texts, expected);
    }
    check(Mode::Mixed, &put(vec![]), ["", one, two], one);
    check(Mode::Mixed, &put(vec![]), ["", "", ""], "strong");
    check(
        Mode::Eventual,
        &put(vec![]),
        ["", "", ""],
        "eventual; r=1; w=1",
    );
}

#[test]
fn simpledbs_own_parameters_go_before_preferences() {
    for request in [get(true), conditional(), drop_domain()] {
        check(
            Mode::Mixed,
            &request,
            ["", "eventual", "eventual"],
            "strong",
        );
        let refused = "InvalidParameterCombination";
        check(Mode::Mixed, &request, ["eventual", "", ""], refused);
    }
}

#[test]
fn a_preference_that_is_not_permitted_is_passed_over() {
    let (one, two) = ("eventual; r=1; w=1", "eventual; r=2; w=2");
    check(Mode::Strong, &put(vec![]), ["", two, one], "strong");
    check(Mode::Eventual, &put(vec![]), ["", "strong", two], two);
    check(Mode::Mixed, &select(), ["", two, "strong"], "strong");
    check(Mode::Mixed, &select(), ["", "barrier", ""], one);
    check(
        Mode::Mixed,
        &put(vec![]),
        ["", "eventual; bound=5v", ""],
        one,
    );
    let delete = Request::DeleteAttributes {
        domain: "cats".to_owned(),
        delete: ItemDelete::default(),
        expected: vec![],
    };
    check(
        Mode::Strong,
        &delete,
        [two, "", ""],
        "InvalidParameterCombination",
    );
    check(
        Mode::Eventual,
        &delete,
        ["strong", "", ""],
        "InvalidParameterCombination",
    );
}

#[test]
fn an_unknown_domain_is_refused_by_each_node() {
    for level in [Level::Strong, Level::EVENTUAL] {
        let consistency = ConsistencyOptions {
            level,
            ..ConsistencyOptions::default()
        };
        let permitted = effective_level(None, None, &consistency, &put(vec![]));
        assert_eq!(permitted, Ok((level, None)));
    }
}

#[test]
fn a_quorum_has_no_more_members_than_there_are() {
    let eventual = |r, w| Level::Eventual {
        r,
        w,
        sloppy: false,
    };
    for (level, size) in [
        (eventual(3, 3), 3),
        (eventual(1, 1), 1),
        (Level::Strong, 1),
        (Level::Barrier, 1),
    ] {
        assert_eq!(permits_quorum(level, size), Ok(()));
    }
    for (level, message) in [
        (
            eventual(4, 1),
            "Value (4) for parameter r is invalid. r must be between 1 and 3.",
        ),
        (
            eventual(1, 255),
            "Value (255) for parameter w is invalid. w must be between 1 and 3.",
        ),
    ] {
        let error = permits_quorum(level, 3).unwrap_err();
        let expected = (Code::InvalidParameterValue, message);
        assert_eq!((error.code, &*error.message), expected);
    }
}
