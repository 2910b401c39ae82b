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
    pool.get(PageId(id)).map(|(_, seen)| seen)
}

#[test]
fn the_page_that_was_used_least_recently_goes_first() {
    let bytes = held().page.body().len();
    let mut pool = Pool::new(2 * bytes);
    pool.put(PageId(1), held(), NOW);
    pool.put(PageId(2), held(), NOW);
    assert_eq!(seen(&mut pool, 1), Some(NOW));
    pool.put(PageId(3), held(), NOW);
    assert_eq!(seen(&mut pool, 2), None);
    assert_eq!(seen(&mut pool, 1), Some(NOW));
    assert_eq!(seen(&mut pool, 3), Some(NOW));
}

#[test]
fn a_page_larger_than_the_pool_is_kept_until_the_next() {
    let mut pool = Pool::new(1);
    pool.put(PageId(1), held(), NOW);
    assert_eq!(seen(&mut pool, 1), Some(NOW));
    pool.put(PageId(2), held(), NOW);
    assert_eq!(seen(&mut pool, 1), None);
}

#[test]
fn a_confirmed_version_is_as_new_as_its_confirmation() {
    let mut pool = Pool::new(1_000);
    pool.put(PageId(1), held(), NOW);
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
    pool.put(id, held(), NOW);
    assert!(pool.may_ask(id, NOW, interval));
    assert!(!pool.may_ask(id, NOW + interval - Duration::from_millis(1), interval));
    assert!(pool.may_ask(id, NOW + interval, interval));
    pool.put(id, held(), NOW + interval);
    assert!(pool.may_ask(id, NOW + interval, interval));
}
