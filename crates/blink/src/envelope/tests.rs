//! Envelopes: damage is named, sealing round-trips, and nothing of a sealed page can be exchanged.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use proptest::prelude::*;

use super::*;
use crate::tests::{Tree, insert, small};
use crate::{Edition, HybridTime, Sizes, apply};

fn page() -> Page {
    let mut tree = Tree::new(small());
    tree.write_all(
        crate::tests::ROOT,
        &[insert("a", 1, "one"), insert("b", 2, "two")],
    );
    tree.pages[&crate::tests::ROOT].clone()
}

#[test]
fn each_mistake_is_named() {
    let good = page().encode();
    let error = |bytes: &[u8]| {
        Page::decode(Bytes::copy_from_slice(bytes))
            .expect_err("bad")
            .to_string()
    };
    assert_eq!(error(b""), "the object is not a Fader page");
    assert_eq!(error(&[b'x'; 100]), "the object is not a Fader page");
    assert_eq!(error(&good[..40]), "the page is damaged: an early end");
    let cut = &good[..good.len() - 1];
    assert_eq!(
        error(cut),
        "the page is damaged: its size is not the one it names"
    );
    let mut newer = good.to_vec();
    newer[5] = 2;
    assert_eq!(
        error(&newer),
        "the page has format 2, this build reads format 1"
    );
    let sealed = Envelope {
        key: 9,
        ..*page().envelope()
    }
    .join(b"secret");
    assert_eq!(error(&sealed), "the page is sealed with key 9");
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let good = page().encode();
    for bit in 0..good.len() * 8 {
        let mut bad = good.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Page::decode(bad.into()).is_err(), "bit {bit}");
    }
}

#[test]
fn decoding_copies_nothing() {
    let object = page().encode();
    let page = Page::decode(object.clone()).expect("a good page");
    let body = object.as_ptr() as usize + ENVELOPE_BYTES;
    assert_eq!(page.body().as_ptr() as usize, body);
    let Some(crate::PayloadRef::Inline(found)) = page.get(b"b") else {
        panic!("b is there")
    };
    assert_eq!(page.share(found).as_ptr(), found.as_ptr());
}

#[test]
fn a_sealed_page_opens_with_its_key_uri_and_version_only() {
    let cipher = XChaCha20Poly1305::new(&[7; 32].into());
    let mut random = || [5; NONCE_BYTES];
    let mut edition = Edition {
        key: 42,
        written_ms: 7,
        random: &mut random,
    };
    let none = HybridTime::ZERO;
    let change = apply(
        &page(),
        &[insert("secret key", 9, "x")],
        none,
        &Sizes::default(),
        &mut edition,
    )
    .change
    .expect("a new record");
    let page = change.page;
    let uri = "s3://bucket/shop/books/1";
    let aad = page.envelope().associated_data(uri);
    let nonce = XNonce::from(page.envelope().nonce);
    let sealed = cipher
        .encrypt(
            &nonce,
            Payload {
                msg: page.body(),
                aad: &aad,
            },
        )
        .expect("room");
    let object = page.encode_sealed(&sealed);
    assert!(
        !object.windows(6).any(|part| part == b"secret"),
        "no key shows"
    );
    let stored = Stored::parse(object).expect("a good envelope");
    assert_eq!(stored.clone().open(), Err(PageError::Sealed { key: 42 }));
    let open = |uri: &str, envelope: &Envelope| {
        let aad = envelope.associated_data(uri);
        let nonce = XNonce::from(envelope.nonce);
        cipher.decrypt(
            &nonce,
            Payload {
                msg: stored.body(),
                aad: &aad,
            },
        )
    };
    let body = open(uri, stored.envelope()).expect("the right key, URI and version");
    assert_eq!(stored.clone().unsealed(body.into()), Ok(page));
    assert!(
        open("s3://bucket/shop/books/2", stored.envelope()).is_err(),
        "another URI"
    );
    let older = Envelope {
        lsn: 1,
        ..*stored.envelope()
    };
    assert!(open(uri, &older).is_err(), "another LSN");
    let other = Envelope {
        key: 43,
        ..*stored.envelope()
    };
    assert!(open(uri, &other).is_err(), "another key id");
}

#[test]
#[should_panic(expected = "a page with a key is sealed")]
fn a_page_with_a_key_is_not_stored_in_clear() {
    let mut random = || [5; NONCE_BYTES];
    let mut edition = Edition {
        key: 42,
        written_ms: 7,
        random: &mut random,
    };
    Page::empty(crate::Stamp::ZERO, &mut edition).encode();
}

proptest! {
    #[test]
    fn any_bytes_are_refused_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        prop_assert!(Stored::parse(bytes.clone().into()).is_err());
        // With a right envelope the body's own checks are reached.
        let envelope = *page().envelope();
        if let Ok(page) = Page::parse(envelope, bytes.into()) {
            prop_assert_eq!(Page::decode(page.encode()), Ok(page));
        }
    }
}
