//! What is seen of each chain comes back, and of one chain as before there were several.

use fader_chain::{EntryId, RequestId, Stamp};

use super::*;

fn session(index: u64) -> Session {
    let name = RequestId {
        client: 7,
        seq: index,
        part: 0,
    };
    Session {
        committed: EntryId::new(3, index),
        tentative: vec![(Bytes::from_static(b"key"), Stamp::default(), name)],
    }
}

#[test]
fn the_session_of_one_chain_is_as_it_always_was() {
    let mut sessions = Sessions::default();
    sessions.see(ChainId::SYSTEM, session(9));
    let mut alone = Vec::new();
    session(9).encode(&mut alone);
    assert_eq!(sessions.encode(), alone);
    assert_eq!(Sessions::decode(alone.into()), Ok(sessions));
}

#[test]
fn f3_each_chain_has_its_own() {
    let mut sessions = Sessions::default();
    sessions.see(ChainId(2), session(9));
    sessions.see(ChainId(300), session(4));
    sessions.see(ChainId(2), session(10));
    assert_eq!(sessions.of(ChainId(2)), session(10));
    assert_eq!(sessions.of(ChainId(300)), session(4));
    assert_eq!(sessions.of(ChainId::SYSTEM), Session::default());
    let bytes = Bytes::from(sessions.encode());
    assert_eq!(Sessions::decode(bytes.clone()), Ok(sessions));
    for size in 0..bytes.len() {
        assert!(Sessions::decode(bytes.slice(..size)).is_err(), "{size}");
    }
    let longer = Bytes::from([&bytes[..], &[0]].concat());
    assert!(Sessions::decode(longer).is_err());
}
