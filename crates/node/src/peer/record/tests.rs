//! Messages come out as they went in, however they are cut into frames; damage ends the reading.

use std::io::Cursor;

use proptest::prelude::*;

use super::super::noise::{Handshake, KEY_SIZE};
use super::*;

fn pair() -> (Sealer, Opener) {
    let cipher = || Handshake::new(&[7; KEY_SIZE], b"").split().0;
    (Sealer::new(cipher()), Opener::new(cipher()))
}

fn messages(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut lane = Vec::new();
    for body in bodies {
        assert!(put_message(&mut lane, |out| out.extend_from_slice(body)));
    }
    lane
}

/// Reads to the end: what came, and why no more did.
fn read(opener: &mut Opener, frames: &[u8]) -> (Vec<Vec<u8>>, PeerError) {
    let mut stream = Cursor::new(frames);
    let mut taken = Vec::new();
    let end = loop {
        let mut take = |message: Bytes| {
            taken.push(message.to_vec());
            Ok(())
        };
        if let Err(error) = opener.read(&mut stream, &mut take) {
            break error;
        }
    };
    (taken, end)
}

proptest! {
    #[test]
    fn messages_come_out_however_they_are_cut(
        prompt in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
        bulk in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
        cuts in prop::collection::vec((any::<bool>(), 1_usize..40), 0..100),
    ) {
        let (mut sealer, mut opener) = pair();
        let lanes = [messages(&prompt), messages(&bulk)];
        let mut rest = [&lanes[0][..], &lanes[1][..]];
        let mut frames = Vec::new();
        let all = [(false, usize::MAX), (true, usize::MAX)];
        for (is_bulk, size) in cuts.into_iter().chain(all) {
            let lane = if is_bulk { Lane::Bulk } else { Lane::Prompt };
            let rest = &mut rest[lane as usize];
            let (piece, after) = rest.split_at(size.min(rest.len()));
            sealer.frames(lane, piece, &mut frames);
            *rest = after;
            sealer.sign_of_life(&mut frames);
        }
        let (mut taken, end) = read(&mut opener, &frames);
        prop_assert!(matches!(end, PeerError::Ended));
        let mut expected = [prompt, bulk].concat();
        taken.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(taken, expected);
    }

    #[test]
    fn noise_opens_nothing(noise in prop::collection::vec(any::<u8>(), 1..400)) {
        let (_, mut opener) = pair();
        let (taken, end) = read(&mut opener, &noise);
        prop_assert!(taken.is_empty());
        prop_assert!(matches!(end, PeerError::Frame | PeerError::Truncated));
    }
}

#[test]
fn a_long_message_goes_through_and_others_between_its_pieces() {
    let (mut sealer, mut opener) = pair();
    let long = vec![7; 3 * PIECE_MAX];
    let lane = messages(std::slice::from_ref(&long));
    let mut frames = Vec::new();
    for piece in lane.chunks(PIECE_MAX) {
        sealer.frames(Lane::Bulk, piece, &mut frames);
        sealer.frames(Lane::Prompt, &messages(&[vec![1]]), &mut frames);
    }
    let (taken, _) = read(&mut opener, &frames);
    let short = vec![1];
    assert_eq!(
        taken,
        [short.clone(), short.clone(), short.clone(), long, short]
    );
}

#[test]
fn a_stream_that_is_cut_says_whether_it_was_within_a_frame() {
    let (mut sealer, _) = pair();
    let mut frames = Vec::new();
    sealer.frames(Lane::Prompt, &messages(&[vec![1; 10]]), &mut frames);
    for size in 0..frames.len() {
        let (_, mut opener) = pair();
        let (taken, end) = read(&mut opener, &frames[..size]);
        assert!(taken.is_empty());
        let is_between = matches!(end, PeerError::Ended);
        assert_eq!(is_between, size == 0, "{size}: {end}");
    }
}

#[test]
fn a_message_beyond_the_limit_is_neither_sent_nor_waited_for() {
    let mut lane = messages(&[vec![1]]);
    let before = lane.clone();
    let too_long = |out: &mut Vec<u8>| out.resize(out.len() + MESSAGE_MAX + 1, 0);
    assert!(!put_message(&mut lane, too_long));
    assert_eq!(lane, before);

    let (mut sealer, mut opener) = pair();
    let mut frames = Vec::new();
    let size = u32::try_from(MESSAGE_MAX + 1).unwrap();
    sealer.frames(Lane::Bulk, &size.to_le_bytes(), &mut frames);
    let (_, end) = read(&mut opener, &frames);
    assert!(matches!(end, PeerError::TooLong));
}

/// It shows SFRAME-1.
#[test]
fn f1_a_size_alone_takes_no_memory() {
    let (mut sealer, mut opener) = pair();
    let mut frames = Vec::new();
    let size = u32::try_from(MESSAGE_MAX).unwrap();
    sealer.frames(Lane::Bulk, &size.to_le_bytes(), &mut frames);
    read(&mut opener, &frames);
    assert!(opener.lanes[Lane::Bulk as usize].partial.capacity() < 1024);
}
