//! What is full becomes a segment, also within a batch.

use std::collections::BTreeSet;

use super::*;
use crate::builtin::BuiltIn;
use crate::user::{Library, Program};

const MEMORY: usize = 64 << 10;
const RECORDS: u64 = 10_000;

fn table(program: &str) -> Table {
    let code = BuiltIn.open(&Program::new(program)).expect("built in");
    let room = Room::new(code.combining(), MEMORY);
    Table::new(code, None, 2, Vec::new(), Codec::Lz4, room)
}

/// Room of the table's buffers.
fn capacities(table: &Table) -> (usize, usize) {
    match &table.gathered {
        Gathered::Pairs(pairs) => (pairs.lines.capacity(), pairs.bytes.capacity()),
        Gathered::Sums(sums) => sums.capacities(),
        Gathered::Unique(unique) => unique.capacities(),
    }
}

fn records(segments: &[Segment]) -> u64 {
    let runs = segments.iter().flat_map(|segment| &segment.runs);
    runs.map(|run| run.records).sum()
}

#[test]
fn a_batch_above_memory_leaves_the_buffers_as_they_were() {
    for program in ["sort", "word-count", "inverted-index"] {
        let mut table = table(program);
        let before = capacities(&table);
        for number in 0..RECORDS {
            let key = format!("key {number:096}");
            match program {
                "word-count" => table.add(key.as_bytes(), 1),
                _ => table.emit(key.as_bytes(), b""),
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

/// Short keys stand beside their sums, long ones apart; zeros at the end of a key count.
#[test]
fn sums_are_those_of_a_map_and_in_its_order() {
    let mut sums = Entries::sums(1 << 20);
    let mut expected = BTreeMap::new();
    let mut number: u64 = 1;
    for _ in 0..50_000 {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let key = number.to_le_bytes().repeat(4);
        let (size, zeros) = ((number >> 59) as usize, (number >> 50) as usize % 3);
        // Few bytes differ, so that many keys come again.
        let key: Vec<u8> = key[..size].iter().map(|byte| byte & 1).collect();
        let key = [&key[..], &[0; 3][..zeros]].concat();
        // Bytes before and behind a key are none of it, and there may be none.
        let around = number.to_be_bytes().repeat(number as usize >> 20 & 3);
        let text = [&around[..], &key, &around].concat();
        sums.add(&text, around.len()..around.len() + key.len(), number >> 40);
        *expected.entry((key.len() as u32 % 2, key)).or_insert(0) += number >> 40;
    }
    let mut found = Vec::new();
    let partition = |key: &[u8]| key.len() as u32 % 2;
    sums.drain(
        2,
        partition,
        |_| 0,
        |partition, key, sum| found.push(((partition, key.to_vec()), sum)),
    );
    assert_eq!(found, Vec::from_iter(expected));
    assert_eq!(sums.len(), 0);
}

/// Keys are prefixes of others, and so are values; each pair is there in several tables.
#[test]
fn pairs_are_those_of_a_set_and_in_its_order() {
    let mut unique = Unique::new(1 << 20);
    for round in 0..3_u64 {
        let (mut expected, mut written) = (BTreeSet::new(), 0);
        let mut number = round;
        for _ in 0..20_000 {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let bytes = |of: u64| vec![b'a' + (of >> 4 & 1) as u8; of as usize % 40];
            let (key, value) = (bytes(number >> 40), bytes(number >> 50));
            unique.push(&key, 0..key.len(), &value);
            let bytes = key.len() + value.len();
            if expected.insert((key.len() as u32 % 2, key, value)) {
                written += bytes;
            }
        }
        assert_eq!((unique.len(), unique.written()), (expected.len(), written));
        let mut found = Vec::new();
        let partition = |key: &[u8]| key.len() as u32 % 2;
        unique.drain(2, partition, |partition, key, value| {
            found.push((partition, key.to_vec(), value.to_vec()));
        });
        assert_eq!(found, Vec::from_iter(expected));
    }
}

/// Refuses each pair.
struct Refusing;

impl Combine for Refusing {
    fn pair(&mut self, _: &[u8], _: &[u8], _: &mut dyn Emit) -> Outcome<()> {
        Err(Failure::task("no pair"))
    }

    fn end(&mut self, _: &mut dyn Emit) -> Outcome<()> {
        Ok(())
    }
}

#[test]
fn pairs_that_a_combiner_refused_are_gone() {
    let code = BuiltIn.open(&Program::new("sort")).expect("built in");
    let combiner: Box<dyn Combine> = Box::new(Refusing);
    let room = Room::new(code.combining(), MEMORY);
    let mut table = Table::new(code, Some(combiner), 2, Vec::new(), Codec::Lz4, room);
    table.emit(b"key", b"");
    assert!(table.finish().is_err());
    let Gathered::Pairs(pairs) = &table.gathered else {
        panic!("a sort adds nothing up");
    };
    assert_eq!(pairs.bytes(), 0);
}
