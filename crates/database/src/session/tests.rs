//! What a session remembers.

use fader_blink::{Edition, HybridTime, Op, Payload, Stamp};

use super::*;

const BOOKS: CollectionId = CollectionId(1);

fn record(key: &str, ms: u64) -> Record {
    Record {
        key: key.as_bytes().to_vec().into(),
        stamp: Stamp {
            time: HybridTime::from_ms(ms),
            client: 1,
            sequence: 0,
        },
        op: Op::Insert(Payload::Inline(Bytes::from_static(b"v"))),
    }
}

/// The versions of a page: empty, then with each record more.
fn versions(records: &[Record]) -> Vec<Page> {
    let mut random = || [7; fader_blink::NONCE_BYTES];
    let mut edition = Edition {
        key: 0,
        written_ms: 0,
        random: &mut random,
    };
    let mut pages = vec![Page::empty(Stamp::ZERO, &mut edition)];
    for record in records {
        let last = pages.last().expect("one at least");
        let sizes = fader_blink::Sizes::default();
        let records = std::slice::from_ref(record);
        let applied = fader_blink::apply(last, records, HybridTime::ZERO, &sizes, &mut edition);
        pages.push(applied.change.expect("a new record").page);
    }
    pages
}

fn own(session: &Session) -> Vec<Bytes> {
    session
        .own_in(BOOKS, b"", None)
        .map(|record| record.key.clone())
        .collect()
}

/// It shows SESSION-3.
#[test]
fn own_records_stay_until_a_page_covers_them() {
    let mut session = Session::new(Guards::default());
    let records = [record("a", 1), record("b", 2)];
    let pages = versions(&records);
    session.wrote(BOOKS, &records);
    assert_eq!(own(&session), ["a", "b"]);
    assert!(session.take(BOOKS, &pages[1], b""));
    assert_eq!(own(&session), ["b"]);
    assert!(session.take(BOOKS, &pages[2], b""));
    assert!(own(&session).is_empty());
    assert_eq!(session.own_bytes(), 0);
}

#[test]
fn own_records_of_a_dropped_collection_are_forgotten() {
    let mut session = Session::new(Guards::default());
    let other = CollectionId(2);
    session.wrote(BOOKS, &[record("a", 1), record("b", 2)]);
    session.wrote(other, &[record("c", 3)]);
    assert_eq!(session.own_from(BOOKS, b"aa"), Some(Bytes::from("b")));
    assert_eq!(session.own_from(BOOKS, b"bb"), None);
    session.forget(BOOKS);
    assert_eq!(session.own_trees(), [other]);
    assert_eq!(session.own_bytes(), record("c", 3).encoded_bytes());
}

/// It shows SESSION-2.
#[test]
fn an_older_version_of_a_page_is_not_taken() {
    let mut session = Session::new(Guards::default());
    let pages = versions(&[record("a", 1)]);
    assert!(session.take(BOOKS, &pages[1], b""));
    assert!(!session.take(BOOKS, &pages[0], b"a"));
    assert!(
        session.take(CollectionId(2), &pages[0], b"a"),
        "marks are of one collection"
    );
}

/// It shows SESSION-1.
#[test]
fn the_clock_passes_each_stamp_that_was_read() {
    let mut session = Session::new(Guards::default());
    let pages = versions(&[record("a", 5_000)]);
    session.observe_stamp(pages[1].find(b"a").newest());
    let ticked = session.tick(1).expect("a clock");
    assert!(HybridTime::from_ms(5_000) < ticked);
}
