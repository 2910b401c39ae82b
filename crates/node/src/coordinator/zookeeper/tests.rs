//! Names and places.

use super::{check_root, is_name};

#[test]
fn names_and_places_are_plain() {
    for name in ["n1", "rack-2.b", "A_b"] {
        assert!(is_name(name), "{name}");
    }
    for name in ["", "a b", "a/b", "ä", &"n".repeat(65)] {
        assert!(!is_name(name), "{name}");
    }
    for root in ["/fader", "/a/b"] {
        assert_eq!(check_root(root), Ok(()));
    }
    for root in ["", "fader", "/", "/fader/", "/a//b", "/a/./b", "/a/../b"] {
        assert!(check_root(root).is_err(), "{root}");
    }
}
