//! What a member says of itself, of one epoch, and names.

use fader_chain::{EntryId, Report};

use super::{check_root, is_name, note};

#[test]
fn the_newest_epochs_last_report_of_each_kind_is_kept() {
    let floor = |epoch, index| Report::Floor {
        epoch,
        applied: EntryId::new(1, index),
        gap: false,
    };
    let adopted = |epoch| Report::Adopted { epoch };
    let mut reports = Vec::new();
    for (report, kept) in [
        (adopted(2), vec![adopted(2)]),
        (floor(2, 1), vec![adopted(2), floor(2, 1)]),
        (floor(2, 5), vec![adopted(2), floor(2, 5)]),
        (adopted(1), vec![adopted(2), floor(2, 5)]),
        (floor(3, 6), vec![floor(3, 6)]),
        (adopted(3), vec![floor(3, 6), adopted(3)]),
    ] {
        note(&mut reports, report);
        assert_eq!(reports, kept);
    }
}

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
