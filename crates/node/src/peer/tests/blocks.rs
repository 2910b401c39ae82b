//! Blocks go between nodes on connections of their own, each question with its answer.

use fader_services::ErrorCode;

use super::*;
use crate::storage::blocks::{BLOCK_BYTES_MAX, Block, BlockBytes};

fn block(id: u128, bytes: &[u8]) -> Block {
    Block::of(BlockId(id), bytes)
}

/// Waits for the answer that may come when nodes know each other.
fn asked(peers: &Peers, whom: NodeId, asked: &BlockAsked) -> BlockTold {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        if let Some(told) = peers.ask_blocks(whom, CHAIN, asked) {
            return told;
        }
        assert!(std::time::Instant::now() < end, "no answer");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_block_is_held_and_fetched_as_it_is() {
    let key = ClusterKey::random().unwrap();
    let (one, two) = (node(1, &key), node(2, &key));
    know(&[&one, &two]);
    for size in [1, 70_000, BLOCK_BYTES_MAX as usize] {
        let bytes = Bytes::from(vec![7; size]);
        let of = block(size as u128, &bytes);
        let (first, rest) = (bytes.slice(..size / 2), bytes.slice(size / 2..));
        let hold = BlockAsked::Hold(of, BlockBytes::of(of.id, vec![first, rest]));
        assert_eq!(asked(&one.peers, two.number(), &hold), BlockTold::Held);
        let whole = BlockAsked::Fetch(of.id, None);
        let told = asked(&one.peers, two.number(), &whole);
        assert_eq!(told, BlockTold::Bytes(bytes.clone()));
        let end = of.size;
        let last = BlockAsked::Fetch(of.id, Some(end - 1..end));
        let told = asked(&one.peers, two.number(), &last);
        assert_eq!(told, BlockTold::Bytes(bytes.slice(size - 1..)));
    }
    let other = BlockAsked::Fetch(BlockId(99), None);
    assert_eq!(asked(&one.peers, two.number(), &other), BlockTold::Gone);
}

/// It shows BCONN-3.
#[test]
fn many_concurrent_callers_have_each_their_answer() {
    let key = ClusterKey::random().unwrap();
    let (one, two) = (node(1, &key), node(2, &key));
    know(&[&one, &two]);
    std::thread::scope(|scope| {
        for number in 0..20_u8 {
            let (one, whom) = (&one.peers, two.number());
            scope.spawn(move || {
                let bytes = Bytes::from(vec![number; 100_000]);
                let of = block(u128::from(number), &bytes);
                let hold = BlockAsked::Hold(of, BlockBytes::of(of.id, vec![bytes.clone()]));
                assert_eq!(asked(one, whom, &hold), BlockTold::Held);
                let fetch = BlockAsked::Fetch(of.id, None);
                assert_eq!(asked(one, whom, &fetch), BlockTold::Bytes(bytes));
            });
        }
    });
}

#[test]
fn a_stranger_is_told_nothing_about_blocks() {
    let key = ClusterKey::random().unwrap();
    let (one, two) = (node(1, &key), node(2, &key));
    // Only one of them knows the other.
    one.peers.know([(two.number(), two.peer())].into()).unwrap();
    let fetch = BlockAsked::Fetch(BlockId(1), None);
    assert_eq!(one.peers.ask_blocks(two.number(), CHAIN, &fetch), None);
    eventually(|| 0 < two.peers.refused());
    know(&[&one, &two]);
    assert_eq!(asked(&one.peers, two.number(), &fetch), BlockTold::Gone);
    // A member that is none any more has no connection left.
    two.peers.know(BTreeMap::new()).unwrap();
    assert_eq!(one.peers.ask_blocks(two.number(), CHAIN, &fetch), None);
}

#[test]
fn another_key_and_an_end_are_heard() {
    let key = ClusterKey::random().unwrap();
    let (one, two) = (node(1, &key), node(2, &ClusterKey::random().unwrap()));
    know(&[&one, &two]);
    let fetch = BlockAsked::Fetch(BlockId(1), None);
    assert_eq!(one.peers.ask_blocks(two.number(), CHAIN, &fetch), None);
    one.peers.close();
    assert_eq!(one.peers.ask_blocks(two.number(), CHAIN, &fetch), None);
}

/// The bytes of a failure: in a cluster below version 7 its words, from then on its code.
#[test]
fn a_failure_of_blocks_has_a_code_from_version_7_on() {
    let code = ErrorCode::Refused(Reason::BlockMemory);
    let failed = |code| BlockTold::Failed {
        code,
        detail: "no room".to_owned(),
    };
    let bytes = |told: &BlockTold, version| {
        let mut out = Vec::new();
        told.encode(version, &mut out);
        Bytes::from(out)
    };
    let old = bytes(&failed(code), Version::SIXTH);
    assert_eq!(old, &b"\x05no room"[..]);
    let store = ErrorCode::Refused(Reason::Store);
    assert_eq!(BlockTold::decode(old), Ok(failed(store)));
    let new = bytes(&failed(code), Version::SEVENTH);
    assert_eq!(new, &b"\x08\x0cblock-memory\x07no room"[..]);
    assert_eq!(BlockTold::decode(new), Ok(failed(code)));
    let newer = Bytes::from_static(b"\x08\x0bof-tomorrow\x07no room");
    let unknown = BlockTold::UnknownCode("of-tomorrow".to_owned());
    assert_eq!(BlockTold::decode(newer), Ok(unknown));
    // What is too long is cut between two characters.
    let long = BlockTold::Failed {
        code,
        detail: "é".repeat(1000),
    };
    for version in [Version::SIXTH, Version::SEVENTH] {
        let Ok(BlockTold::Failed { detail, .. }) = BlockTold::decode(bytes(&long, version)) else {
            panic!("a failure");
        };
        assert_eq!(detail, "é".repeat(250));
    }
}
