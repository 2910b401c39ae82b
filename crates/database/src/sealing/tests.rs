//! Sealed bytes open for identities that were granted their key, and for no others.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::*;

/// Different bytes at each call.
#[derive(Debug, Default)]
struct Counted(AtomicU8);

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        let number = self.0.fetch_add(1, Relaxed);
        bytes.fill(number + 1);
        bytes[0] = number;
    }
}

const WHAT: What = What::Records(CollectionId(5));

fn denied<T: fmt::Debug>(result: Result<T>) {
    assert_eq!(result.expect_err("no key").kind, ErrorKind::Denied);
}

#[test]
fn an_identity_is_its_text() {
    let identity = Identity::new(&Counted::default());
    let read = Identity::parse(&identity.reveal()).expect("its own text");
    assert_eq!(read.public(), identity.public());
    assert_eq!(identity.public().to_string().parse(), Ok(identity.public()));
    assert!(!format!("{identity:?}").contains(&identity.reveal()[..]));
    for bad in ["", "00", &"zz".repeat(32), &"00".repeat(33)] {
        assert!(Identity::parse(bad).is_none(), "{bad}");
    }
}

/// It shows SEAL-2.
#[test]
fn a_sealed_record_opens_with_its_key_at_its_place() {
    let entropy = Counted::default();
    let own = Identity::new(&entropy);
    let other = Identity::new(&entropy);
    let key = SealingKey::new("db", [own.public()].into_iter(), &entropy).expect("a key");
    let keys = vec![key];
    let sealer = Sealer::new("db", &keys, Some(&own)).expect("a key that opens");
    let sealed = sealer
        .seal(&WHAT, Bytes::from("text"), &entropy)
        .expect("a key");
    assert_eq!(sealed.len(), 4 + SEAL_BYTES);
    let opened = sealer.open(&WHAT, sealed.clone());
    assert_eq!(opened.expect("a key"), "text");
    let again = sealer
        .seal(&WHAT, Bytes::from("text"), &entropy)
        .expect("a key");
    assert_ne!(again, sealed, "nonces do not repeat");

    let elsewhere = sealer.open(&What::Records(CollectionId(6)), sealed.clone());
    assert_eq!(elsewhere.expect_err("moved").kind, ErrorKind::Malformed);
    let clear = sealer.open(&WHAT, Bytes::from("text"));
    assert_eq!(clear.expect_err("in clear").kind, ErrorKind::Malformed);
    for bit in 0..sealed.len() * 8 {
        let mut bad = sealed.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(sealer.open(&WHAT, bad.into()).is_err(), "bit {bit}");
    }

    for stranger in [None, Some(&other)] {
        let stranger = Sealer::new("db", &keys, stranger).expect("no key is no damage");
        assert!(!stranger.is_open());
        denied(stranger.open(&WHAT, sealed.clone()));
        denied(stranger.seal(&WHAT, Bytes::new(), &entropy));
        denied(stranger.grant(&keys, other.public(), &entropy));
    }
    let moved = Sealer::new("another", &keys, Some(&own));
    assert_eq!(moved.expect_err("moved").kind, ErrorKind::Malformed);
}

#[test]
fn a_grant_opens_older_keys_and_a_rotation_leaves_one_out() {
    let entropy = Counted::default();
    let own = Identity::new(&entropy);
    let other = Identity::new(&entropy);
    let key = SealingKey::new("db", [own.public()].into_iter(), &entropy).expect("a key");
    let first = vec![key];
    let sealer = Sealer::new("db", &first, Some(&own)).expect("a key that opens");
    let old = sealer
        .seal(&WHAT, Bytes::from("old"), &entropy)
        .expect("a key");
    let second = sealer.rotate(&first, None, &entropy).expect("a key");
    let sealer = Sealer::new("db", &second, Some(&own)).expect("keys that open");
    let granted = sealer
        .grant(&second, other.public(), &entropy)
        .expect("a key");
    let theirs = Sealer::new("db", &granted, Some(&other)).expect("keys that open");
    assert_eq!(theirs.open(&WHAT, old).expect("granted"), "old");

    let sealer = Sealer::new("db", &granted, Some(&own)).expect("keys that open");
    let third = sealer
        .rotate(&granted, Some(other.public()), &entropy)
        .expect("a key");
    let sealer = Sealer::new("db", &third, Some(&own)).expect("keys that open");
    let new = sealer
        .seal(&WHAT, Bytes::from("new"), &entropy)
        .expect("a key");
    let theirs = Sealer::new("db", &third, Some(&other)).expect("keys that open");
    denied(theirs.open(&WHAT, new));
}

/// It shows SEAL-3.
#[test]
fn an_identity_that_the_store_adds_gets_no_key() {
    let entropy = Counted::default();
    let own = Identity::new(&entropy);
    let thief = Identity::new(&entropy);
    let key = SealingKey::new("db", [own.public()].into_iter(), &entropy).expect("a key");
    let mut keys = vec![key];
    let grant = keys[0].grants[&own.public()].clone();
    keys[0].grants.insert(thief.public(), grant);
    let sealer = Sealer::new("db", &keys, Some(&own)).expect("a key that opens");
    let refused = sealer
        .rotate(&keys, None, &entropy)
        .expect_err("not granted");
    assert!(refused.to_string().contains(&thief.public().to_string()));
    assert_eq!(refused.kind, ErrorKind::Malformed);
}
