//! The pool keeps what was used last, within its bytes.

use std::time::Duration;

use bytes::Bytes;
use fader_blink::{Builder, Edition, HybridTime, PageId, Payload, PayloadRef, Sizes, Slot, Stamp};
use object_store::UpdateVersion;

use super::*;

const NOW: Duration = Duration::from_secs(1);

fn held() -> Held {
    leaf(0, 0)
}

fn key(number: u32) -> Bytes {
    format!("user{number:04}").into()
}

/// A leaf whose records have a hundred bytes of one value.
fn leaf(records: u32, value: u8) -> Held {
    let mut random = || [0; fader_blink::NONCE_BYTES];
    let mut edition = Edition {
        key: 0,
        written_ms: 0,
        random: &mut random,
    };
    let mut builder = Builder::new(Sizes::default(), Stamp::ZERO);
    for number in 0..records {
        let stamp = Stamp {
            time: HybridTime(1),
            client: 1,
            sequence: 0,
        };
        let slot = Slot::inserted(stamp, Payload::Inline(vec![value; 100].into()));
        let pushed = builder.push(key(number), slot, &mut edition, &mut Vec::new());
        pushed.expect("records in order");
    }
    Held {
        page: builder.finish(&mut edition, &mut Vec::new()),
        version: UpdateVersion {
            e_tag: None,
            version: None,
        },
    }
}

fn seen(pool: &mut Pool, id: u128) -> Option<Duration> {
    pool.get(PageId(id), Use::Read).map(|(_, seen)| seen)
}

#[test]
fn the_page_that_was_used_least_recently_goes_first() {
    let bytes = held().page.body().len();
    let mut pool = Pool::new(2 * bytes);
    pool.put(PageId(1), held(), NOW, Use::Read);
    pool.put(PageId(2), held(), NOW, Use::Read);
    assert_eq!(seen(&mut pool, 1), Some(NOW));
    pool.put(PageId(3), held(), NOW, Use::Read);
    assert_eq!(seen(&mut pool, 2), None);
    assert_eq!(seen(&mut pool, 1), Some(NOW));
    assert_eq!(seen(&mut pool, 3), Some(NOW));
}

#[test]
fn checkpoints_leave_to_readers_what_they_read() {
    let bytes = held().page.body().len();
    let mut pool = Pool::new(8 * bytes);
    let of = |pool: &mut Pool, used| {
        (0..40)
            .filter(|id| pool.get(PageId(*id), used).is_some())
            .count()
    };
    for id in 0..20 {
        pool.put(PageId(id), held(), NOW, Use::Upkeep);
    }
    assert_eq!(
        of(&mut pool, Use::Upkeep),
        8,
        "without readers all is theirs"
    );
    for id in 20..26 {
        pool.put(PageId(id), held(), NOW, Use::Read);
    }
    for id in 26..40 {
        pool.put(PageId(id), held(), NOW, Use::Upkeep);
    }
    assert_eq!(of(&mut pool, Use::Upkeep), 8);
    assert!((20..26).all(|id| seen(&mut pool, id).is_some()));
    // What is read once belongs to readers; a checkpoint that replaces it changes nothing.
    assert!(seen(&mut pool, 39).is_some());
    pool.put(PageId(39), held(), NOW, Use::Upkeep);
    pool.put(PageId(0), held(), NOW, Use::Upkeep);
    assert!(pool.get(PageId(39), Use::Upkeep).is_some());
    assert_eq!(
        seen(&mut pool, 20),
        None,
        "of what was read it is the oldest"
    );
}

#[test]
fn a_slot_is_read_of_a_leaf_that_readers_have_and_the_store_showed_late_enough() {
    let (id, later) = (PageId(1), NOW + Duration::from_millis(1));
    let mut pool = Pool::new(1_000);
    let read = |pool: &mut Pool, since| {
        let times = Times { now: later, since };
        pool.read(id, b"key", times, |_, slot| slot.is_alive())
    };
    assert_eq!(read(&mut pool, NOW), None);
    pool.put(id, held(), NOW, Use::Upkeep);
    assert_eq!(read(&mut pool, NOW), None, "no transaction has read it");
    pool.put(id, held(), NOW, Use::Read);
    assert_eq!(read(&mut pool, NOW), Some(false));
    assert_eq!(read(&mut pool, later), None);
    pool.confirm(id, later);
    assert_eq!(read(&mut pool, later), Some(false));
}

/// The first byte of a record; none where it is not there.
fn byte(pool: &mut Pool, id: PageId, number: u32, now: Duration) -> Option<Option<u8>> {
    let times = Times { now, since: NOW };
    pool.read(id, &key(number), times, |_, slot| match slot.visible()? {
        PayloadRef::Inline(bytes) => Some(bytes[0]),
        PayloadRef::Object(_) => None,
    })
}

#[test]
fn a_leaf_that_is_often_read_has_a_table_whose_bytes_count() {
    let id = PageId(1);
    let mut pool = Pool::new(1_000_000);
    pool.put(id, leaf(100, 7), NOW, Use::Read);
    let body = leaf(100, 7).page.body().len() as u64;
    for _ in 1..READS_BEFORE_TABLE {
        assert_eq!(byte(&mut pool, id, 3, NOW), Some(Some(7)));
    }
    assert_eq!(pool.read.bytes(), body);
    assert_eq!(byte(&mut pool, id, 3, NOW), Some(Some(7)));
    let both = pool.read.bytes();
    assert!(body < both && both <= body + body / 8, "{both} of {body}");
    for number in 0..120 {
        let expected = (number < 100).then_some(7);
        assert_eq!(byte(&mut pool, id, number, NOW), Some(expected));
    }
    // Another version has none yet, and all of its values.
    pool.put(id, leaf(100, 8), NOW, Use::Read);
    assert_eq!(pool.read.bytes(), body);
    assert_eq!(byte(&mut pool, id, 3, NOW), Some(Some(8)));
    pool.remove(id);
    assert_eq!(pool.read.bytes(), 0);
}

#[test]
fn a_table_takes_the_place_of_the_oldest_page() {
    let body = leaf(100, 7).page.body().len();
    let mut pool = Pool::new(2 * body);
    pool.put(PageId(2), leaf(100, 7), NOW, Use::Read);
    pool.put(PageId(1), leaf(100, 7), NOW, Use::Read);
    for _ in 0..READS_BEFORE_TABLE {
        assert_eq!(byte(&mut pool, PageId(1), 3, NOW), Some(Some(7)));
    }
    assert_eq!(byte(&mut pool, PageId(2), 3, NOW), None, "it had to go");
    assert_eq!(byte(&mut pool, PageId(1), 3, NOW), Some(Some(7)));
}

#[test]
fn a_point_read_keeps_a_page_that_was_moved_some_time_ago() {
    let body = leaf(100, 7).page.body().len();
    for (later, kept) in [(MOVED_FOR / 2, PageId(2)), (MOVED_FOR, PageId(1))] {
        let mut pool = Pool::new(2 * body);
        for id in [1, 2] {
            pool.put(PageId(id), leaf(100, 7), NOW, Use::Read);
        }
        assert_eq!(byte(&mut pool, PageId(1), 3, NOW + later), Some(Some(7)));
        pool.put(PageId(3), leaf(100, 7), NOW, Use::Read);
        let other = PageId(3 - kept.0);
        assert!(byte(&mut pool, kept, 3, NOW + later).is_some());
        assert_eq!(byte(&mut pool, other, 3, NOW + later), None);
    }
}

#[test]
fn a_page_larger_than_the_pool_is_kept_until_the_next() {
    let mut pool = Pool::new(1);
    pool.put(PageId(1), held(), NOW, Use::Read);
    assert_eq!(seen(&mut pool, 1), Some(NOW));
    pool.put(PageId(2), held(), NOW, Use::Read);
    assert_eq!(seen(&mut pool, 1), None);
}

#[test]
fn a_confirmed_version_is_as_new_as_its_confirmation() {
    let mut pool = Pool::new(1_000);
    pool.put(PageId(1), held(), NOW, Use::Read);
    pool.confirm(PageId(1), 2 * NOW);
    assert_eq!(seen(&mut pool, 1), Some(2 * NOW));
    pool.confirm(PageId(1), NOW);
    assert_eq!(seen(&mut pool, 1), Some(2 * NOW), "it never gets older");
    pool.remove(PageId(1));
    assert_eq!(seen(&mut pool, 1), None);
    pool.confirm(PageId(1), NOW);
}

#[test]
fn a_reader_asks_once_in_an_interval_and_anew_for_a_new_version() {
    let mut pool = Pool::new(1_000_000);
    let (id, interval) = (PageId(1), Duration::from_secs(15));
    assert!(!pool.may_ask(id, NOW, interval), "it is not there");
    pool.put(id, held(), NOW, Use::Read);
    assert!(pool.may_ask(id, NOW, interval));
    assert!(!pool.may_ask(id, NOW + interval - Duration::from_millis(1), interval));
    assert!(pool.may_ask(id, NOW + interval, interval));
    pool.put(id, held(), NOW + interval, Use::Read);
    assert!(pool.may_ask(id, NOW + interval, interval));
}
