//! Reads: what overlays the pages, leaves that are read ahead, and the pages of a point read.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::stage;
use fader_cloud::model::{Call, Latency, Model, Profile};
use fader_cloud::{Clock, RequestKind};
use fader_database::{CollectionSettings, Database, KeyValue, Level, Transaction};
use stage::{Backend, client, database, on_all, run, small};

const WORKS: &str = "a cloud without faults";
/// The time of a GET.
const GET: Duration = Duration::from_millis(25);

fn key(number: u64) -> Vec<u8> {
    format!("k{number:04}").into_bytes()
}

/// Numbers below `end`, as a generator of the same seed gives them.
fn numbers(seed: u64, end: u64) -> impl Iterator<Item = u64> {
    let next = move |at: &u64| {
        Some(
            at.wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(seed | 1),
        )
    };
    std::iter::successors(Some(seed), next).map(move |at| (at >> 33) % end)
}

/// Puts and deletes of chance, in a transaction and in a map.
async fn write(
    transaction: &mut Transaction,
    expected: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    seed: u64,
    count: usize,
) {
    for (number, what) in numbers(seed, 300).zip(numbers(seed + 7, 3)).take(count) {
        let key = key(number);
        if what == 0 {
            transaction.delete("books", &key).await.expect(WORKS);
            expected.remove(&key);
        } else {
            let value = format!("{seed}-{number}").into_bytes();
            transaction.put("books", &key, &value).await.expect(WORKS);
            expected.insert(key, value);
        }
    }
}

/// A scan in parts of `limit` records.
async fn scan(transaction: &mut Transaction, from: &[u8], limit: usize) -> Vec<KeyValue> {
    let mut from = from.to_vec();
    let mut all = Vec::new();
    loop {
        let rows = transaction.range("books", &from, None, limit).await;
        let rows = rows.expect(WORKS);
        assert!(rows.len() <= limit);
        let is_last = rows.len() < limit;
        if let Some((last, _)) = rows.last() {
            from = [last, &b"\0"[..]].concat();
        }
        all.extend(rows);
        if is_last {
            return all;
        }
    }
}

#[test]
fn parts_of_any_size_show_pages_with_all_that_overlays_them() {
    on_all(|model, backend| async move {
        let mut expected = BTreeMap::new();
        let client = database(&model, "client", backend).await;
        for seed in [1, 2] {
            let mut first = client.begin(Level::Basic);
            write(&mut first, &mut expected, seed, 150).await;
            first.commit().await.expect(WORKS);
            client.settle().await.expect(WORKS);
        }
        // The session has records that no page has.
        let mut second = client.begin(Level::Monotonic);
        write(&mut second, &mut expected, 3, 60).await;
        second.commit().await.expect(WORKS);
        let mut reader = client.begin(Level::Monotonic);
        write(&mut reader, &mut expected, 4, 60).await;
        for limit in [1, 2, 3, 7, 50, usize::MAX] {
            for from in [key(0), key(123), key(299)] {
                let found = scan(&mut reader, &from, limit).await;
                let of_map = expected.range(from..);
                assert!(
                    found
                        .iter()
                        .map(|(key, value)| (&key[..], &value[..]))
                        .eq(of_map.map(|(key, value)| (&key[..], &value[..]))),
                    "limit {limit}"
                );
            }
        }
    });
}

/// A writer of a collection with small leaves, and inner pages of so many bytes.
async fn loaded(model: &Model, node_bytes: u32) -> Database {
    let writer = database(model, "writer", Backend::Bucket).await;
    let settings = CollectionSettings {
        node_bytes,
        ..small()
    };
    writer.drop_collection("books").await.expect(WORKS);
    writer
        .create_collection("books", &settings)
        .await
        .expect(WORKS);
    let mut load = writer.load("books").await.expect("an empty collection");
    for number in 0..2_000 {
        load.push(&key(number), b"text")
            .await
            .expect("ascending keys");
    }
    load.finish().await.expect("no other client writes");
    writer
}

fn gets(model: &Model) -> u64 {
    model.meter.usage().of(RequestKind::ObjectGet).requests
}

#[test]
fn parts_of_a_scan_go_on_reading_ahead_and_a_jump_does_not() {
    let mut profile = Profile::default();
    profile.objects.get = Call {
        latency: Latency::Constant(GET),
        ..Call::default()
    };
    run(Model::new(profile), |model| async move {
        loaded(&model, 57_000).await;
        let client = self::client(&model, "reader", Backend::Bucket).await;
        let mut transaction = client.begin(Level::Basic);
        let (begun, before) = (model.clock.monotonic(), gets(&model));
        let all = scan(&mut transaction, b"", 10).await;
        assert_eq!(all.len(), 2_000);
        let leaves = gets(&model) - before;
        let taken = model.clock.monotonic() - begun;
        assert!(100 < leaves, "{leaves}");
        // Neighbours 0, 1, 2, 4 and 8, then 16 leaves at a time; the root and the first leaf.
        let rounds = leaves.div_ceil(16) + 7;
        assert!(
            taken <= GET * u32::try_from(rounds).expect("few"),
            "{taken:?}, {leaves}"
        );

        // Single records far apart: no neighbour is read.
        let jumping = self::client(&model, "second", Backend::Bucket).await;
        let mut transaction = jumping.begin(Level::Basic);
        for number in [1_000, 200, 1_700] {
            let before = gets(&model);
            let rows = transaction.range("books", &key(number), None, 1).await;
            assert_eq!(rows.expect(WORKS).len(), 1);
            assert!(gets(&model) - before <= 4, "{number}");
        }
    });
}

#[test]
fn a_point_read_gets_one_page_of_each_level_that_the_pool_has_not() {
    run(stage::model(1), |model| async move {
        let writer = loaded(&model, 400).await;
        let height = writer.verify("books").await.expect(WORKS).height as u64;
        assert!(4 <= height, "{height}");
        let client = self::client(&model, "reader", Backend::Bucket).await;
        let mut transaction = client.begin(Level::Basic);
        for (number, most) in [
            (1_000, height),
            (1_000, 0),
            (20, height - 1),
            (1_900, height - 1),
        ] {
            let before = gets(&model);
            let found = transaction.get("books", &key(number)).await;
            assert_eq!(found.expect(WORKS).as_deref(), Some(&b"text"[..]));
            let pages = gets(&model) - before;
            assert!(pages <= most, "{pages} of {most}");
        }
    });
}
