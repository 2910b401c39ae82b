//! What a plan may say, and how it is told what is wrong.

use std::time::Duration;

use super::{At, Name, Sides, time};

#[test]
fn times_have_units() {
    let read = [("500ms", 500), ("5s", 5000), ("2m", 120_000), ("0s", 0)];
    for (text, ms) in read {
        assert_eq!(time(text), Ok(Duration::from_millis(ms)));
    }
    for text in ["", "5", "s", "-1s", "1.5s", "5 s", "99999999999999999999m"] {
        assert!(time(text).is_err(), "{text}");
    }
}

#[test]
fn a_member_and_a_time_go_together() {
    let at: At<Name> = "n2@5s".parse().unwrap();
    assert_eq!(at.what, Name("n2".to_owned()));
    assert_eq!(at.at, Duration::from_secs(5));
    for text in ["n2", "n2@", "@5s", "m2@5s", "n@5s", "n2@soon"] {
        assert!(text.parse::<At<Name>>().is_err(), "{text}");
    }
}

#[test]
fn sides_are_two_at_least() {
    for text in ["n1,n2/n3", "n1,n2|n3"] {
        let sides: Sides = text.parse().unwrap();
        assert_eq!(sides.0, [vec!["n1", "n2"], vec!["n3"]]);
    }
    for text in ["n1", "n1,n2", "n1/", "n1//n2", "n1,x/n2"] {
        assert!(text.parse::<Sides>().is_err(), "{text}");
    }
}
