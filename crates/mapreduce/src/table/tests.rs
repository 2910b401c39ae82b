//! What is full becomes a segment, also within a batch.

use super::*;
use crate::builtin::BuiltIn;
use crate::user::{Library, Program};

const MEMORY: usize = 64 << 10;
const RECORDS: u64 = 10_000;

fn table(program: &str) -> Table {
    let code = BuiltIn.open(&Program::new(program)).expect("built in");
    Table::new(code, None, 2, Vec::new(), Codec::Lz4, MEMORY)
}

/// Room of the table's buffers.
fn capacities(table: &Table) -> (usize, usize) {
    match &table.gathered {
        Gathered::Pairs(pairs) => (pairs.lines.capacity(), pairs.bytes.capacity()),
        Gathered::Sums(sums) => (sums.entries.capacity(), sums.keys.capacity()),
    }
}

fn records(segments: &[Segment]) -> u64 {
    let runs = segments.iter().flat_map(|segment| &segment.runs);
    runs.map(|run| run.records).sum()
}

#[test]
fn a_batch_above_memory_leaves_the_buffers_as_they_were() {
    for program in ["sort", "word-count"] {
        let mut table = table(program);
        let before = capacities(&table);
        for number in 0..RECORDS {
            let key = format!("key {number:096}");
            match program {
                "sort" => table.emit(key.as_bytes(), b""),
                _ => table.add(key.as_bytes(), 1),
            }
        }
        let segments = table.finish().expect("small records");
        assert_eq!(capacities(&table), before, "{program}");
        assert!(10 < segments.len(), "{program}: {}", segments.len());
        assert_eq!(records(&segments), RECORDS, "{program}");
    }
}

#[test]
fn a_record_above_memory_is_refused_by_its_size() {
    let mut table = table("sort");
    table.emit(&[b'x'; MEMORY], b"");
    let refused = table.take().expect_err("too large").to_string();
    assert!(refused.contains("a key of 65536 bytes"), "{refused}");
}
