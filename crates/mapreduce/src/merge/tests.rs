//! Merges of any runs, in pieces of any size, give what sorting gives.

use proptest::prelude::*;

use super::*;
use crate::shuffle::{Segment, SegmentWriter};

type Pair = (Vec<u8>, Vec<u8>);

fn run(mut pairs: Vec<Pair>) -> Segment {
    pairs.sort();
    let mut writer = SegmentWriter::new(Codec::Lz4);
    writer.begin();
    pairs
        .iter()
        .for_each(|(key, value)| writer.push(key, value));
    writer.end();
    writer.finish()
}

fn merged(runs: &[Segment], piece: usize, full: usize) -> Outcome<Vec<Pair>> {
    let sizes = runs
        .iter()
        .map(|run| (run.runs[0].bytes, run.runs[0].records));
    let mut merger = Merger::new(Codec::Lz4, sizes);
    let mut found = Vec::new();
    loop {
        let step = merger.step(|key, value| {
            found.push((key.to_vec(), value.to_vec()));
            Ok(!found.len().is_multiple_of(full))
        })?;
        match step {
            Step::Done => return Ok(found),
            Step::Full => {}
            Step::Need(number) => {
                let run = runs[number].runs[0];
                let end = run.offset + run.bytes;
                let from = (end - merger.missing(number)) as usize;
                let until = (from + piece).min(end as usize);
                merger.feed(number, runs[number].bytes.slice(from..until));
            }
        }
    }
}

/// Bytes of which many have their first in common.
fn text(same: usize) -> impl Strategy<Value = Vec<u8>> {
    let parts = (0..same, prop::collection::vec(0u8..3, 0..4));
    parts.prop_map(|(same, end)| [vec![0; same], end].concat())
}

proptest! {
    /// It shows MERGE-1 and SHUFFLE-2.
    #[test]
    fn a_merge_is_a_sort(
        pairs in prop::collection::vec(
            prop::collection::vec((text(20), text(10)), 0..60),
            0..6,
        ),
        piece in 1usize..400,
        full in 1usize..50,
    ) {
        let runs: Vec<Segment> = pairs.iter().cloned().map(run).collect();
        let mut all: Vec<Pair> = pairs.concat();
        all.sort();
        prop_assert_eq!(merged(&runs, piece, full).expect("whole runs"), all);
    }
}

/// It shows MERGE-2.
#[test]
fn a_run_that_lacks_a_record_fails() {
    let one = run(vec![(b"a".to_vec(), b"1".to_vec())]);
    for records in [0, 2] {
        let mut lying = one.clone();
        lying.runs[0].records = records;
        let found = merged(&[lying], 1000, 1000);
        assert!(
            matches!(found, Err(Failure::Task(_))),
            "{records}: {found:?}"
        );
    }
}

#[test]
fn a_run_that_is_cut_off_fails() {
    let mut one = run(vec![(b"a".to_vec(), b"1".to_vec())]);
    one.runs[0].bytes -= 1;
    assert!(matches!(merged(&[one], 1000, 1000), Err(Failure::Task(_))));
}
