//! When a task is sent again, and when it gets a backup.

use super::*;

const LEASE: Duration = Duration::from_secs(30);

fn row(beat: &str, winner: Option<u64>) -> Row {
    Row {
        beat: beat.to_owned(),
        winner: winner.map(|_| "w".to_owned()),
        ms: winner.unwrap_or_default(),
        ..Row::default()
    }
}

fn look(watch: &mut Watch, rows: &[Row], seconds: u64) -> Wishes {
    let count = rows.len() as u32;
    let rows = rows
        .iter()
        .cloned()
        .zip(0..)
        .map(|(row, number)| (number, row))
        .collect();
    watch.look(
        Phase::Map,
        count,
        &rows,
        Duration::from_secs(seconds),
        LEASE,
    )
}

#[test]
fn a_beat_that_stands_still_for_a_lease_is_sent_again() {
    let mut watch = Watch::default();
    assert_eq!(look(&mut watch, &[row("a:0", None)], 0).again, []);
    assert_eq!(look(&mut watch, &[row("a:1", None)], 29).again, []);
    assert_eq!(look(&mut watch, &[row("a:1", None)], 58).again, []);
    let again = look(&mut watch, &[row("a:1", None)], 59).again;
    assert_eq!(again.len(), 1);
    assert_eq!((&*again[0].task, &*again[0].beat), ("m-00000", "a:1"));
    watch.sent(Duration::from_secs(59));
    assert_eq!(look(&mut watch, &[row("a:1", None)], 88).again, []);
    assert_eq!(look(&mut watch, &[row("a:1", None)], 89).again.len(), 1);
}

#[test]
fn a_task_without_a_row_waits_a_lease_too() {
    let mut watch = Watch::default();
    let rows = BTreeMap::new();
    let mut look = |now| watch.look(Phase::Reduce, 2, &rows, now, LEASE).again;
    assert_eq!(look(Duration::ZERO), []);
    let again = look(LEASE);
    assert_eq!(again.len(), 2);
    assert_eq!(again[1].beat, "");
}

#[test]
fn the_oldest_task_gets_a_backup_when_none_waits() {
    let mut watch = Watch::default();
    let waiting = [row("", None), row("a:0", None), row("w", Some(10_000))];
    look(&mut watch, &waiting, 0);
    let mut rows = [row("b:0", None), row("a:1", None), row("w", Some(10_000))];
    assert_eq!(look(&mut watch, &rows, 10).backup, None, "not late");
    assert_eq!(look(&mut watch, &waiting, 16).backup, None, "one waits");
    let mut watch = Watch::default();
    look(&mut watch, &rows[1..], 0);
    rows[1].beat = "a:2".to_owned();
    let late = look(&mut watch, &rows[1..], 16).backup;
    assert_eq!(
        late.map(|task| task.number),
        Some(0),
        "other beats of one attempt"
    );
    rows[1].has_backup = true;
    assert_eq!(
        look(&mut watch, &rows[1..], 17).backup,
        None,
        "one is enough"
    );
}

/// MR-9.
#[test]
fn a_turn_that_another_took_is_free_after_a_lease() {
    let mut watch = Watch::default();
    let mut may = |ticket, seconds| {
        let now = Duration::from_secs(seconds);
        watch.may_take("list", ticket, now, LEASE)
    };
    assert!(!may(1, 5), "another worker took it");
    assert!(!may(1, 34));
    assert!(may(1, 35), "it stood still for a lease");
    assert!(!may(2, 36), "another worker repeats it");
    assert!(may(2, 66));
}
