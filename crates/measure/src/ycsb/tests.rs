//! Mixes, and which items they are about.

use super::*;

fn share(workload: &Ycsb, is_wanted: impl Fn(&Intent) -> bool) -> f64 {
    let wanted = (0..20_000).filter(|sequence| is_wanted(&workload.plan(*sequence)));
    wanted.count() as f64 / 20_000.0
}

fn workload(letter: char) -> Ycsb {
    Ycsb::new(Mix::named(letter).unwrap(), 1000, vec![1.0], 5)
}

#[test]
fn mixes_have_their_shares() {
    for (letter, act, expected) in [
        ('a', Act::Read, 0.5),
        ('a', Act::Write, 0.5),
        ('B', Act::Read, 0.95),
        ('c', Act::Read, 1.0),
        ('d', Act::Write, 0.05),
        ('e', Act::Scan, 0.95),
        ('e', Act::Write, 0.05),
        ('f', Act::Modify, 0.5),
    ] {
        let found = share(&workload(letter), |intent| intent.act == act);
        assert!((found - expected).abs() < 0.01, "{letter}: {found}");
    }
    assert_eq!(Mix::named('g'), None);
}

#[test]
fn levels_have_their_shares() {
    let workload = Ycsb::new(Mix::named('a').unwrap(), 10, vec![1.0, 3.0], 5);
    let found = share(&workload, |intent| intent.level == 1);
    assert!((found - 0.75).abs() < 0.01, "{found}");
}

#[test]
fn written_values_are_all_different() {
    let workload = workload('a');
    let mut values: Vec<u64> = (0..1000).filter_map(|n| workload.plan(n).value).collect();
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    assert!(values.len() == count && !values.contains(&0));
    assert_eq!(Fill.plan(7).value, Some(0));
    assert_eq!(Fill.plan(7).key, 7);
}

/// Operations are about items that are there: an insert counts when it and all before it are done.
#[test]
fn inserted_items_are_read_when_they_are_there() {
    let insert = Mix {
        inserts: 1.0,
        ..Mix::named('d').unwrap()
    };
    let workload = Ycsb::new(
        Mix {
            reads: 0.0,
            ..insert
        },
        10,
        Vec::new(),
        5,
    );
    let inserts: Vec<Intent> = (0..3).map(|sequence| workload.plan(sequence)).collect();
    assert_eq!(
        inserts.iter().map(|i| i.key).collect::<Vec<_>>(),
        [10, 11, 12]
    );
    let count = || workload.items.lock().count;
    workload.done(&inserts[1]);
    assert_eq!(count(), 10);
    workload.done(&inserts[0]);
    assert_eq!(count(), 12);
    workload.done(&inserts[2]);
    assert_eq!(count(), 13);
}
