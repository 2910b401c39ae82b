//! Point reads, scans, bulk loads and checkpoints of a tree in memory, against a `BTreeMap`.
//!
//! Run with `cargo run --release --package fader-blink --example point_reads`. Both sides run in
//! turns in one process; the ratio is that of the medians.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use fader_blink::{
    Builder, Edition, HybridTime, Op, Page, PageId, Payload, PayloadRef, Record, Sizes, Slot,
    Stamp, apply, range, search,
};

const RECORDS: u64 = 1_000_000;
const READS: u64 = 300_000;
const ROUNDS: usize = 5;
const VALUE_BYTES: usize = 84;
const ROOT: PageId = PageId(0);

struct Random(u64);

impl Random {
    /// The next number of splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

struct Tree {
    pages: HashMap<PageId, Page>,
    root: Page,
}

impl Tree {
    fn page(&self, id: PageId) -> Option<&Page> {
        if id == ROOT {
            Some(&self.root)
        } else {
            self.pages.get(&id)
        }
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        let found = search(ROOT, key, |id| self.page(id)).expect("a whole tree");
        match found.page.get(key)? {
            PayloadRef::Inline(bytes) => Some(bytes.len() + usize::from(bytes[0])),
            PayloadRef::Object(_) => None,
        }
    }
}

fn with_edition<T>(random: &mut Random, body: impl FnOnce(&mut Edition<'_>) -> T) -> T {
    let mut random = || {
        let mut bytes = [0; 24];
        bytes
            .chunks_mut(8)
            .for_each(|part| part.copy_from_slice(&random.next().to_be_bytes()));
        bytes
    };
    body(&mut Edition {
        key: 0,
        written_ms: 0,
        random: &mut random,
    })
}

fn stamp(time: u64) -> Stamp {
    Stamp {
        time: HybridTime(time),
        client: 1,
        sequence: 0,
    }
}

fn build(map: &BTreeMap<Vec<u8>, Vec<u8>>, random: &mut Random) -> (Tree, f64) {
    let start = Instant::now();
    let mut out = Vec::new();
    let root = with_edition(random, |edition| {
        let mut builder = Builder::new(Sizes::default(), Stamp::ZERO);
        for (key, value) in map {
            let slot = Slot::inserted(stamp(1), Payload::Inline(Bytes::copy_from_slice(value)));
            let key = Bytes::copy_from_slice(key);
            builder
                .push(key, slot, edition, &mut out)
                .expect("sorted keys");
        }
        builder.finish(edition, &mut out)
    });
    let pages = out.into_iter().collect();
    (Tree { pages, root }, start.elapsed().as_secs_f64())
}

/// Nanoseconds of one of `READS` reads.
fn reads(keys: &[Vec<u8>], seed: u64, mut read: impl FnMut(&[u8]) -> Option<usize>) -> f64 {
    let mut random = Random(seed);
    let start = Instant::now();
    for _ in 0..READS {
        let key = &keys[(random.next() % keys.len() as u64) as usize];
        assert!(
            black_box(read(black_box(key))).is_some(),
            "every key is there"
        );
    }
    start.elapsed().as_secs_f64() * 1e9 / READS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn measure(name: &str, key: impl Fn(u64) -> Vec<u8>) {
    let mut random = Random(7);
    let keys: Vec<Vec<u8>> = (0..RECORDS).map(key).collect();
    let map: BTreeMap<Vec<u8>, Vec<u8>> = keys
        .iter()
        .map(|key| (key.clone(), vec![random.next() as u8; VALUE_BYTES]))
        .collect();
    let (tree, build_s) = build(&map, &mut random);
    let bytes: usize = tree.pages.values().map(|page| page.encode().len()).sum();
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u64 {
        one.push(reads(&keys, round, |key| tree.get(key)));
        other.push(reads(&keys, round, |key| {
            map.get(key).map(|v| v.len() + usize::from(v[0]))
        }));
    }
    let (pages, btree) = (median(one), median(other));
    println!(
        "{name}: {} pages, {} MB, height {}",
        tree.pages.len() + 1,
        bytes >> 20,
        1 + tree.root.level()
    );
    println!(
        "  point read   {pages:6.0} ns   BTreeMap {btree:6.0} ns   ratio {:.2}",
        btree / pages
    );
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut scan = range(ROOT, b"", None, |id| tree.page(id)).expect("a whole tree");
        let mut sum = 0;
        let mut count = 0;
        let read = |_: &Page, _: fader_blink::KeyRef<'_>, payload: PayloadRef<'_>| match payload {
            PayloadRef::Inline(bytes) => usize::from(bytes[0]),
            PayloadRef::Object(_) => 0,
        };
        while let Some(value) = scan.next_with(read).expect("a whole tree") {
            sum += value;
            count += 1;
        }
        assert_eq!(count, RECORDS);
        one.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let expected: usize = map.values().map(|value| usize::from(value[0])).sum();
        assert_eq!(sum, expected);
        other.push(start.elapsed().as_secs_f64());
    }
    let megabytes = (RECORDS as f64) * 100.0 / 1e6;
    let (scan, walk) = (median(one), median(other));
    println!(
        "  scan         {:6.0} MB/s BTreeMap {:6.0} MB/s ratio {:.2}",
        megabytes / scan,
        megabytes / walk,
        walk / scan
    );
    println!("  bulk load    {:6.0} MB/s", megabytes / build_s);
    decode_and_apply(&tree, &keys, &mut random);
}

/// A page read cold, and one checkpoint of ten records.
fn decode_and_apply(tree: &Tree, keys: &[Vec<u8>], random: &mut Random) {
    let objects: Vec<Bytes> = tree.pages.values().map(Page::encode).collect();
    let start = Instant::now();
    for object in &objects {
        black_box(Page::decode(object.clone()).expect("a good page"));
    }
    let decode = start.elapsed().as_secs_f64() * 1e6 / objects.len() as f64;
    let leaf = search(ROOT, &keys[0], |id| tree.page(id))
        .expect("a whole tree")
        .page;
    let own: Vec<Record> = leaf
        .slots(b"")
        .step_by(70)
        .map(|(key, _)| Record {
            key: key.to_vec().into(),
            stamp: stamp(2),
            op: Op::Update(Payload::Inline(Bytes::from_static(&[1; VALUE_BYTES]))),
        })
        .collect();
    let count = 200;
    let start = Instant::now();
    for _ in 0..count {
        with_edition(random, |edition| {
            black_box(apply(
                leaf,
                &own,
                HybridTime::ZERO,
                &Sizes::default(),
                edition,
            ));
        });
    }
    let apply = start.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    println!(
        "  decode       {decode:6.0} µs a page; checkpoint of {} records {apply:.0} µs",
        own.len()
    );
}

fn main() {
    measure("keys that count up", |n| {
        format!("user{n:012}").into_bytes()
    });
    measure("random keys", |n| {
        let mut random = Random(n);
        [random.next().to_be_bytes(), random.next().to_be_bytes()].concat()
    });
}
