//! A server that is honest passes; each lie is caught.

use fader_cloud::{Attribute, Item};

use super::{COUNT, COUNTER, DomainLog, Noted, content};

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

fn log() -> DomainLog {
    let mut one = DomainLog::default();
    one.put(&names(&["a", "b"]), true);
    one.delete("b", true);
    one.increment(true);
    one.increment(false);
    let mut other = DomainLog::default();
    other.put(&names(&["c", "d"]), false);
    other.put(&names(&["e"]), true);
    other.delete("e", false);
    other.increment(true);
    one.merge(other);
    one
}

#[test]
fn possible_histories_pass() {
    for found in [
        vec![item("a"), counter("2")],
        vec![item("a"), item("e"), counter("3")],
        vec![counter("2"), item("d"), item("c"), item("a")],
    ] {
        assert_eq!(log().check(&found), Ok(()));
    }
    assert_eq!(DomainLog::default().check(&[]), Ok(()));
    assert_eq!(
        log().noted(),
        Noted {
            acknowledged: 4,
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
        (
            vec![counter("2")],
            "a: whole was acknowledged and is lost: nothing",
        ),
        (
            vec![item("a"), item("b"), counter("2")],
            "b: nothing was acknowledged and is lost: whole",
        ),
        (
            vec![item("a"), item("c"), counter("2")],
            "batch c d: 1 of 2 items is shown, which was never written",
        ),
        (
            vec![item("a"), item("z"), counter("2")],
            "z: whole is shown, which was never written",
        ),
        (
            vec![item("a"), item("a"), counter("2")],
            "item a is shown twice",
        ),
        (vec![item("a")], "counter: the counter shows 0"),
        (vec![item("a"), counter("1")], "the counter shows 1"),
        (vec![item("a"), counter("4")], "the counter shows 4"),
        (vec![item("a"), counter("two")], "the counter shows two"),
        (vec![bad, counter("2")], "which was never written"),
        (vec![torn, counter("2")], "which was never written"),
    ] {
        let error = log().check(&found).unwrap_err();
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
