//! The pool keeps what was used last, within its bytes.

use std::time::Duration;

use fader_blink::{Edition, Page, PageId, Stamp};
use object_store::UpdateVersion;

use super::*;

const NOW: Duration = Duration::from_secs(1);

fn held() -> Held {
    let mut random = || [0; fader_blink::NONCE_BYTES];
    let mut edition = Edition {
        key: 0,
        written_ms: 0,
        random: &mut random,
    };
    Held {
        page: Page::empty(Stamp::ZERO, &mut edition),
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
    let read = |pool: &mut Pool, since| pool.read(id, b"key", since, |_, slot| slot.is_alive());
    assert_eq!(read(&mut pool, NOW), None);
    pool.put(id, held(), NOW, Use::Upkeep);
    assert_eq!(read(&mut pool, NOW), None, "no transaction has read it");
    pool.put(id, held(), NOW, Use::Read);
    assert_eq!(read(&mut pool, NOW), Some(false));
    assert_eq!(read(&mut pool, later), None);
    pool.confirm(id, later);
    assert_eq!(read(&mut pool, later), Some(false));
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
