//! Logs are compared by the ids in them.

use super::EpochHistory;
use crate::EntryId;

fn epoch_history(ids: &[(u64, u64)]) -> EpochHistory {
    let mut epoch_history = EpochHistory::default();
    ids.iter()
        .for_each(|(epoch, index)| epoch_history.push(EntryId::new(*epoch, *index)));
    epoch_history
}

#[test]
fn the_common_prefix_ends_where_epochs_part() {
    let ours = epoch_history(&[(1, 1), (1, 2), (1, 3), (1, 4)]);
    let theirs = epoch_history(&[(1, 1), (1, 2), (2, 3), (2, 4), (2, 5)]);
    assert_eq!(ours.common(&theirs), Some(EntryId::new(1, 2)));
    assert_eq!(theirs.common(&ours), Some(EntryId::new(1, 2)));
    assert_eq!(ours.common(&epoch_history(&[(2, 1)])), None);
}

/// It shows EPOCHS-1.
#[test]
fn one_index_in_two_epochs_is_two_entries() {
    let ours = epoch_history(&[(1, 1), (1, 2)]);
    assert!(ours.contains(EntryId::new(1, 2)));
    assert!(!ours.contains(EntryId::new(2, 2)));
    assert_eq!(
        ours.common(&epoch_history(&[(1, 1), (2, 2)])),
        Some(EntryId::new(1, 1))
    );
}

#[test]
fn cutting_drops_what_is_above() {
    let mut ours = epoch_history(&[(1, 1), (1, 2), (2, 3), (2, 4)]);
    ours.cut(EntryId::new(1, 2));
    assert_eq!(ours, epoch_history(&[(1, 1), (1, 2)]));
    ours.cut(EntryId::new(1, 1));
    assert_eq!(ours, epoch_history(&[(1, 1)]));
    ours.cut(EntryId::ZERO);
    assert_eq!(ours, EpochHistory::default());
}
