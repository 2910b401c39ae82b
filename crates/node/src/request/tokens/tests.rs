//! What is seen of each chain comes back, and of one chain as before there were several; a token
//! opens for its account alone.

use std::path::Path;

use fader_chain::{EntryId, RequestId, Stamp};
use proptest::prelude::*;

use super::*;
use crate::secrets::seal::Secret;
use crate::storage::disk::Disk;
use crate::support::SimulatedDisk;

fn new_seal() -> Seal {
    let disk = SimulatedDisk::new();
    disk.create_folder(Path::new("/data")).unwrap();
    Seal::load(&disk, Path::new("/data"), true).unwrap()
}

fn seen(session: &Session) -> SessionToken {
    let mut sessions = SessionToken::default();
    sessions.see(ChainId::SYSTEM, session.clone());
    sessions
}

fn session(index: u64) -> Session {
    let name = RequestId {
        client: 7_u128.into(),
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
    let mut sessions = SessionToken::default();
    sessions.see(ChainId::SYSTEM, session(9));
    let mut alone = Vec::new();
    session(9).encode(&mut alone);
    assert_eq!(sessions.encode(), alone);
    assert_eq!(SessionToken::decode(alone.into()), Ok(sessions));
}

/// It shows TOKEN-3.
#[test]
fn f3_each_chain_has_its_own() {
    let mut sessions = SessionToken::default();
    sessions.see(ChainId(2), session(9));
    sessions.see(ChainId(300), session(4));
    sessions.see(ChainId(2), session(10));
    assert_eq!(sessions.of(ChainId(2)), session(10));
    assert_eq!(sessions.of(ChainId(300)), session(4));
    assert_eq!(sessions.of(ChainId::SYSTEM), Session::default());
    let bytes = Bytes::from(sessions.encode());
    assert_eq!(SessionToken::decode(bytes.clone()), Ok(sessions));
    for size in 0..bytes.len() {
        assert!(SessionToken::decode(bytes.slice(..size)).is_err(), "{size}");
    }
    let longer = Bytes::from([&bytes[..], &[0]].concat());
    assert!(SessionToken::decode(longer).is_err());
}

#[test]
fn a_session_is_its_accounts_own() {
    let seal = new_seal();
    let (own, other) = (
        AccountId("000000000001".to_owned()),
        AccountId("000000000002".to_owned()),
    );
    let session = Session {
        committed: EntryId::new(2, 7),
        tentative: Vec::new(),
    };
    let token = super::seal(&seal, &own, &seen(&session)).unwrap();
    assert_eq!(unseal(&seal, &own, &token), Some(seen(&session)));
    assert_eq!(unseal(&seal, &own, b""), Some(SessionToken::default()));
    assert_eq!(unseal(&seal, &other, &token), None);
    for at in 0..token.len() {
        let mut forged = token.to_vec();
        forged[at] ^= 1;
        assert_eq!(unseal(&seal, &own, &forged), None);
        assert_eq!(unseal(&seal, &own, &token[..at.max(1)]), None);
    }
    let strange = new_seal();
    assert_eq!(unseal(&strange, &own, &token), None);
    let secret = seal.seal("AKIA1", &Secret::new("s".to_owned())).unwrap();
    assert_eq!(unseal(&seal, &own, &secret), None);
}

proptest! {
    /// D15: of all that a client sends, only what was given out opens, and it opens as it was.
    /// It shows TOKEN-1.
    #[test]
    fn no_other_token_opens(
        committed in any::<(u64, u64)>(),
        noise in prop::collection::vec(any::<u8>(), 1..200),
        (at, bit) in (any::<prop::sample::Index>(), 0..8_u32),
        cut in any::<prop::sample::Index>(),
    ) {
        let seal = new_seal();
        let own = AccountId("000000000001".to_owned());
        let session = Session {
            committed: EntryId::new(committed.0, committed.1),
            tentative: Vec::new(),
        };
        let token = super::seal(&seal, &own, &seen(&session)).unwrap();
        prop_assert_eq!(unseal(&seal, &own, &token), Some(seen(&session)));
        prop_assert_eq!(unseal(&seal, &own, &noise), None);
        let versioned = [&[1], &noise[..]].concat();
        prop_assert_eq!(unseal(&seal, &own, &versioned), None);
        let mut changed = token.to_vec();
        changed[at.index(token.len())] ^= 1 << bit;
        prop_assert_eq!(unseal(&seal, &own, &changed), None);
        let longer = [&token[..], &noise[..]].concat();
        prop_assert_eq!(unseal(&seal, &own, &longer), None);
        let shorter = &token[..cut.index(token.len()).max(1)];
        prop_assert_eq!(unseal(&seal, &own, shorter), None);
        prop_assert_eq!(unseal(&seal, &own, &vec![1; TOKEN_BYTES_MAX + 1]), None);
    }
}
