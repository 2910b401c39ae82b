//! The published vector of the pattern; what is changed, repeated or reordered does not open.

use super::*;

/// `tests/vectors/cacophony.txt` of the Noise implementations, the one of this pattern. The result
/// of X25519 on its two private keys is in no message; it was computed apart.
const PROLOGUE: &str = "4a6f686e2047616c74";
const KEY: &str = "54686973206973206d7920417573747269616e20706572737065637469766521";
const SHARED: &str = "934eec08e1e6aad416990e8efcc5aca54520a3ceb2fb2d8bd54ed2bfe4129e2f";
const HASH: &str = "f4d03dc34495c95729ea6de9e1b59004b59733102488b3e24bc441e0be208eaf";
const FIRST: (&str, &str) = (
    "4c756477696720766f6e204d69736573",
    "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
     79b962b8aff8485742ac32f905ba45369e2465fb59e138a93d67a0d1266b6a54",
);
const SECOND: (&str, &str) = (
    "4d757272617920526f746862617264",
    "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
     d6062704d5a9c422a8e834423f8c1feada7e8d0d910a1a2cd030fb584221e3",
);
/// Those that follow, each from the other side than the one before.
const LATER: [(&str, &str); 4] = [
    (
        "462e20412e20486179656b",
        "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f",
    ),
    (
        "4361726c204d656e676572",
        "64c6bee32ea91c8474bb4c21d7a700109ad45af77b29764ba5eb1e",
    ),
    (
        "4a65616e2d426170746973746520536179",
        "e2fa0bed0603b62d3ccac2ecabbf3fe33f3e86514909b323361626266cb2471cc8",
    ),
    (
        "457567656e2042f6686d20766f6e2042617765726b",
        "0c01dc9cec1fe4ddd692e8dd32188aa351088dc91183639a53b57aa4692b5ebdef8b8ca111",
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn key(hex: &str) -> [u8; KEY_SIZE] {
    bytes(hex).try_into().unwrap()
}

/// It shows NOISE-1.
#[test]
fn the_published_vector_comes_out() {
    let mut ours = Handshake::new(&key(KEY), &bytes(PROLOGUE));
    let mut theirs = Handshake::new(&key(KEY), &bytes(PROLOGUE));
    for (payload, message) in [FIRST, SECOND] {
        let (payload, message) = (bytes(payload), bytes(message));
        let (public, sealed) = message.split_first_chunk().unwrap();
        for side in [&mut ours, &mut theirs] {
            side.mix_public(public);
            if message == bytes(SECOND.1) {
                side.mix_secret(&bytes(SHARED));
            }
        }
        let mut out = Vec::new();
        ours.seal(&payload, &mut out);
        assert_eq!(out, sealed);
        assert_eq!(theirs.open(sealed), Ok(payload));
    }
    assert_eq!(ours.hash, key(HASH));
    assert_eq!(theirs.hash, key(HASH));
    let (first, second) = ours.split();
    let mut seals = [first, second];
    let (first, second) = theirs.split();
    let mut opens = [first, second];
    for (at, (payload, message)) in LATER.into_iter().enumerate() {
        let mut out = bytes(payload);
        seals[at % 2].seal(&[], &mut out, 0);
        assert_eq!(out, bytes(message));
        assert_eq!(opens[at % 2].open(&[], &mut out), Ok(&bytes(payload)[..]));
    }
}

/// The ciphers of a side that seals and of one that opens.
fn ciphers() -> (Cipher, Cipher) {
    let side = || Handshake::new(&[7; KEY_SIZE], b"").split().0;
    (side(), side())
}

fn sealed(cipher: &mut Cipher, text: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    cipher.seal(&[], &mut out, 0);
    out
}

#[test]
fn every_bit_counts() {
    let (mut seals, _) = ciphers();
    let message = sealed(&mut seals, b"text");
    for bit in 0..message.len() * 8 {
        let (_, mut opens) = ciphers();
        let mut changed = message.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(opens.open(&[], &mut changed), Err(DoesNotOpen), "{bit}");
    }
}

/// It shows NOISE-2.
#[test]
fn z2_a_record_with_repeated_or_missing_parts_does_not_open() {
    let (mut seals, mut opens) = ciphers();
    let messages: Vec<_> = (0..3).map(|_| sealed(&mut seals, b"text")).collect();
    assert!(opens.open(&[], &mut messages[0].clone()).is_ok());
    assert!(opens.open(&[], &mut messages[0].clone()).is_err(), "again");
    let (_, mut opens) = ciphers();
    assert!(opens.open(&[], &mut messages[1].clone()).is_err(), "later");
}

#[test]
fn another_key_or_prologue_opens_nothing() {
    let public = [9; KEY_SIZE];
    let begin = |key: u8, prologue: &[u8]| {
        let mut side = Handshake::new(&[key; KEY_SIZE], prologue);
        side.mix_public(&public);
        side
    };
    let mut message = Vec::new();
    begin(1, b"here").seal(b"hello", &mut message);
    assert_eq!(begin(1, b"here").open(&message), Ok(b"hello".to_vec()));
    assert_eq!(begin(2, b"here").open(&message), Err(DoesNotOpen));
    assert_eq!(begin(1, b"there").open(&message), Err(DoesNotOpen));
}
