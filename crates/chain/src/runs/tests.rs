//! Logs are compared by the ids in them.

use super::Runs;
use crate::EntryId;

fn runs(ids: &[(u64, u64)]) -> Runs {
    let mut runs = Runs::default();
    ids.iter()
        .for_each(|(epoch, index)| runs.push(EntryId::new(*epoch, *index)));
    runs
}

#[test]
fn the_common_prefix_ends_where_epochs_part() {
    let ours = runs(&[(1, 1), (1, 2), (1, 3), (1, 4)]);
    let theirs = runs(&[(1, 1), (1, 2), (2, 3), (2, 4), (2, 5)]);
    assert_eq!(ours.common(&theirs), Some(EntryId::new(1, 2)));
    assert_eq!(theirs.common(&ours), Some(EntryId::new(1, 2)));
    assert_eq!(ours.common(&runs(&[(2, 1)])), None);
}

#[test]
fn one_index_in_two_epochs_is_two_entries() {
    let ours = runs(&[(1, 1), (1, 2)]);
    assert!(ours.contains(EntryId::new(1, 2)));
    assert!(!ours.contains(EntryId::new(2, 2)));
    assert_eq!(
        ours.common(&runs(&[(1, 1), (2, 2)])),
        Some(EntryId::new(1, 1))
    );
}

#[test]
fn cutting_drops_what_is_above() {
    let mut ours = runs(&[(1, 1), (1, 2), (2, 3), (2, 4)]);
    ours.cut(EntryId::new(1, 2));
    assert_eq!(ours, runs(&[(1, 1), (1, 2)]));
    ours.cut(EntryId::new(1, 1));
    assert_eq!(ours, runs(&[(1, 1)]));
    ours.cut(EntryId::ZERO);
    assert_eq!(ours, Runs::default());
}
