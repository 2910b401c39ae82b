//! Messages of a run come back as the run, with any order of the queues.

use proptest::prelude::*;

use super::*;
use crate::shuffle::{Codec, SegmentWriter};

/// A run of these records.
fn run(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut writer = SegmentWriter::new(Codec::Lz4);
    writer.begin();
    writer.take_bytes();
    records
        .iter()
        .for_each(|(key, value)| writer.push(key, value));
    writer.end();
    writer.take_bytes()
}

/// Bytes that do not compress.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn expected(attempt: &str, counts: &[u64]) -> Expected {
    let sent = |messages: &u64| Sent {
        messages: *messages,
        bytes: 0,
        records: 1,
    };
    Expected {
        task: "m-00000".to_owned(),
        attempt: attempt.to_owned(),
        sent: counts.iter().map(sent).collect(),
    }
}

fn message(attempt: &str, sequence: u64, blocks: &[u8]) -> String {
    let tag = Tag {
        task: "m-00000",
        attempt,
        sequence,
    };
    tag.of_blocks(blocks)
}

#[test]
fn a_run_is_cut_at_blocks_and_no_message_is_too_long() {
    let records: Vec<_> = (0..40_u64)
        .map(|number| (number.to_be_bytes().to_vec(), noise(30_000, number)))
        .collect();
    let run = run(&records);
    let contents = cut(&run).unwrap();
    assert!(3 < contents.len());
    let mut at = 0;
    for content in &contents {
        assert_eq!(content.start, at);
        assert!(content.len() <= CONTENT_BYTES);
        let body = message(&"f".repeat(32), u64::MAX, &run[content.clone()]);
        assert!(body.len() <= MESSAGE_BYTES_MAX);
        at = content.end;
    }
    assert_eq!(at, run.len());
    assert!(cut(b"").unwrap().is_empty());
}

#[test]
fn a_block_that_is_larger_than_a_message_stands_alone() {
    let small = (b"a".to_vec(), b"1".to_vec());
    let large = (b"b".to_vec(), noise(400_000, 7));
    let contents = cut(&run(&[small.clone(), large, small])).unwrap();
    let sizes: Vec<bool> = contents.iter().map(|it| CONTENT_BYTES < it.len()).collect();
    assert!(sizes.contains(&true), "{contents:?}");
    let mut gather = Gather::new(vec![expected("x", &[1])], Guards::default());
    let tag = Tag {
        task: "m-00000",
        attempt: "x",
        sequence: 0,
    };
    gather.take(&tag.of_object("s-0-0", 400_100)).unwrap();
    let content = Content::Object("s-0-0".to_owned(), 400_100);
    assert_eq!(gather.runs()[0].2, [content]);
}

#[test]
fn losers_and_repeats_do_not_count() {
    let mut gather = Gather::new(vec![expected("won", &[1, 2])], Guards::default());
    let steps = [
        ("lost", 0, Taken::Losers, 3),
        ("won", 1, Taken::New, 2),
        ("won", 1, Taken::Repeat, 2),
        ("lost", 2, Taken::Losers, 2),
        ("won", 0, Taken::New, 1),
        ("won", 2, Taken::New, 0),
    ];
    for (attempt, sequence, taken, missing) in steps {
        let body = message(attempt, sequence, &[sequence as u8]);
        assert_eq!(gather.take(&body).unwrap(), taken);
        assert_eq!(gather.missing(), missing);
    }
    let runs = gather.runs();
    let blocks = |bytes: &'static [u8]| Content::Blocks(Bytes::from_static(bytes));
    assert_eq!(runs[0].2, [blocks(&[0])]);
    assert_eq!(runs[1].2, [blocks(&[1]), blocks(&[2])]);
}

#[test]
fn kept_messages_are_found_again_in_order() {
    let mut gather = Gather::new(vec![expected("x", &[3])], Guards::default());
    gather.take(&message("x", 2, b"ccc")).unwrap();
    gather.take(&message("x", 0, b"a")).unwrap();
    assert_eq!(gather.keep("q-0"), b"accc");
    gather.take(&message("x", 1, b"bb")).unwrap();
    let kept = |at, bytes| Content::Kept("q-0".to_owned(), at, bytes);
    let blocks = Content::Blocks(Bytes::from_static(b"bb"));
    assert_eq!(gather.runs()[0].2, [kept(0, 1), blocks, kept(1, 3)]);
}

#[test]
fn a_damaged_message_is_refused() {
    for body in [
        "",
        "m-00000 x 0",
        "m-00000 x 0 b !",
        "m-00000 x 0 c ab",
        "m-00000 x -1 b ab",
        "m-00000 x 1 b YQ==",
        "m-00000 x 18446744073709551615 b YQ==",
        "m-00000 x 0 o ../../part-00000 7",
        "m-00000 x 0 o name -7",
    ] {
        let mut gather = Gather::new(vec![expected("x", &[1])], Guards::default());
        assert!(gather.take(body).is_err(), "{body}");
        assert_eq!(gather.missing(), 1);
    }
}

proptest! {
    #[test]
    fn any_text_is_refused_or_taken(body in ".{0,80}") {
        let mut gather = Gather::new(vec![expected("x", &[1])], Guards::default());
        drop(gather.take(&body));
    }

    #[test]
    fn any_order_with_any_repeats_gives_the_run(
        sizes in prop::collection::vec(0..90_000_usize, 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let records: Vec<_> = sizes
            .iter()
            .zip(0_u64..)
            .map(|(size, number)| (number.to_be_bytes().to_vec(), noise(*size, number)))
            .collect();
        let run = run(&records);
        let contents = cut(&run).unwrap();
        let mut gather =
            Gather::new(vec![expected("x", &[contents.len() as u64])], Guards::default());
        let all = (0..contents.len()).rev();
        for at in order.iter().map(|at| at.index(contents.len())).chain(all) {
            gather.take(&message("x", at as u64, &run[contents[at].clone()])).unwrap();
        }
        prop_assert_eq!(gather.missing(), 0);
        let mut found = Vec::new();
        for content in &gather.runs()[0].2 {
            let Content::Blocks(blocks) = content else { panic!("{content:?}") };
            found.extend_from_slice(blocks);
        }
        prop_assert_eq!(found, run);
    }
}
