//! What a disk shows, and what is known of it, compared.

use super::*;

fn at(epoch: u64, last: (u64, u64)) -> Progress {
    Progress {
        epoch,
        last: EntryId::new(last.0, last.1),
    }
}

#[test]
fn known_progress_rises_with_reports_and_never_falls() {
    let safe_point = |epoch, index, gap| Report::Floor {
        epoch,
        applied: EntryId::new(1, index),
        gap,
    };
    let mut known = Progress::default();
    for (report, expected) in [
        (Report::Adopted { epoch: 1 }, at(1, (0, 0))),
        (safe_point(1, 7, false), at(1, (1, 7))),
        (safe_point(1, 5, false), at(1, (1, 7))),
        (safe_point(1, 9, true), at(1, (1, 7))),
        // A report of it may be late.
        (Report::Adopted { epoch: 1 }, at(1, (1, 7))),
        // In a later epoch less may be there, lawfully: the log begins anew where a gap is opened.
        (Report::Adopted { epoch: 2 }, at(2, (0, 0))),
        (safe_point(2, 6, false), at(2, (1, 6))),
    ] {
        known.note(&report);
        assert_eq!(known, expected, "{report:?}");
    }
}

#[test]
fn an_older_state_of_the_same_epoch_is_less() {
    let known = at(3, (2, 9));
    for older in [at(3, (2, 8)), at(3, (1, 20)), at(2, (2, 9)), at(2, (2, 30))] {
        assert!(older < known, "{older:?}");
    }
    for newer in [known, at(3, (3, 1)), at(4, (0, 0)), at(4, (2, 5))] {
        assert!(known <= newer, "{newer:?}");
    }
}
