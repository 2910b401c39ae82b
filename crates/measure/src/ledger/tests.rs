//! A server that is honest passes; each lie is caught.

use fader_cloud::{Attribute, Item};

use super::{COUNT, COUNTER, Checked, Ledger, content};

fn item(name: &str) -> Item {
    Item {
        name: name.to_owned(),
        attributes: content(name),
    }
}

fn counter(value: &str) -> Item {
    let attribute = Attribute {
        name: COUNT.to_owned(),
        value: value.to_owned(),
    };
    Item {
        name: COUNTER.to_owned(),
        attributes: vec![attribute],
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ledger() -> Ledger {
    let mut one = Ledger::default();
    one.put(&names(&["a", "b"]), true);
    one.delete("b", true);
    one.increment(true);
    one.increment(false);
    let mut other = Ledger::default();
    other.put(&names(&["c", "d"]), false);
    other.put(&names(&["e"]), true);
    other.delete("e", false);
    other.increment(true);
    one.merge(other);
    one
}

#[test]
fn what_may_be_passes() {
    for found in [
        vec![item("a"), counter("2")],
        vec![item("a"), item("e"), counter("3")],
        vec![counter("2"), item("d"), item("c"), item("a")],
    ] {
        assert_eq!(ledger().check(&found), Ok(()));
    }
    assert_eq!(Ledger::default().check(&[]), Ok(()));
    assert_eq!(
        ledger().summary(),
        Checked {
            acknowledged: 2,
            increments: 2,
            doubtful: 4
        }
    );
}

#[test]
fn each_lie_is_caught() {
    let mut bad = item("a");
    bad.attributes[1].value.push('x');
    let mut torn = item("a");
    torn.attributes.pop();
    for (found, lie) in [
        (vec![counter("2")], "item a is lost"),
        (
            vec![item("a"), item("b"), counter("2")],
            "item b was deleted",
        ),
        (
            vec![item("a"), item("c"), counter("2")],
            "1 of a batch's 2 items",
        ),
        (
            vec![item("a"), item("z"), counter("2")],
            "item z was never written",
        ),
        (
            vec![item("a"), item("a"), counter("2")],
            "item a is shown twice",
        ),
        (vec![item("a")], "the counter stands at 0"),
        (vec![item("a"), counter("1")], "the counter stands at 1"),
        (vec![item("a"), counter("4")], "the counter stands at 4"),
        (
            vec![item("a"), counter("two")],
            "the counter stands at \"two\"",
        ),
        (vec![bad, counter("2")], "item a holds"),
        (vec![torn, counter("2")], "item a holds"),
    ] {
        let error = ledger().check(&found).unwrap_err();
        assert!(error.contains(lie), "{error}");
    }
}

#[test]
fn contents_differ_by_name_and_fit_a_value() {
    for number in 0..1000 {
        let [_, text] = &content(&format!("item-{number}"))[..] else {
            panic!("two attributes")
        };
        assert!((1..=900).contains(&text.value.len()));
    }
    assert_ne!(content("item-1"), content("item-2"));
}
