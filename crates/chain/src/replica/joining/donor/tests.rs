//! A question that is repeated.

use super::*;

fn question(end: &'static str, hash: u128) -> Vec<RangeHash> {
    let end = Bytes::from_static(end.as_bytes());
    vec![RangeHash { end, hash }]
}

fn part(start: &Bytes) -> Message {
    Message::TransferChunk {
        at: EntryId::new(1, 7),
        start: start.clone(),
        ranges: Vec::new(),
        end: Bytes::from_static(b"m"),
    }
}

#[test]
fn the_same_question_has_the_same_answer_and_any_other_none() {
    let (start, later) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
    let mut last = CachedChunk::default();
    assert_eq!(last.to(&start, &question("m", 1)), None);
    last.keep(&start, &question("m", 1), &part(&start));
    assert_eq!(last.to(&start, &question("m", 1)), Some(part(&start)));
    assert_eq!(last.to(&later, &question("m", 1)), None);
    assert_eq!(last.to(&start, &question("n", 1)), None);
    assert_eq!(last.to(&start, &question("m", 2)), None);
    last.keep(&later, &question("z", 3), &part(&later));
    assert_eq!(last.to(&start, &question("m", 1)), None);
}
