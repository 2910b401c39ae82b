//! What is forwarded comes back as it went; its bytes are frozen; what is none of it is refused.

mod samples;

use std::fmt::Debug;

use expect_test::{Expect, expect};
use fader_chain::{ChainId, EntryId, RequestId, Stamp};
use proptest::prelude::*;

use self::samples::{asked, metadata, told};
use super::*;
use crate::catalog::{AccessKey, Command, DomainEntry, KeyStatus, Refusal, Rights};
use crate::level::{Bound, Cause, DefaultConsistency, Level, Outcome, Outcomes, SettlementNotice};
use crate::simpledb::{
    Attribute, AttributeDelete, AttributePut, BoxUsage, Code, DomainMetadata, Expected, Item,
    ItemDelete, ItemPut, PageToken, Reply, Request,
};
use crate::{CollectionId, Failure, Mode, ViewError};

#[track_caller]
fn check(all: &[Bytes], frozen: &Expect) {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
    let lines = all.iter().map(|bytes| {
        let lines: Vec<_> = bytes.chunks(40).map(hex).collect();
        lines.join("\n  ") + "\n"
    });
    frozen.assert_eq(&lines.collect::<String>());
}

#[test]
fn the_bytes_of_what_is_asked_are_frozen() {
    let asked: Vec<_> = asked().iter().map(ForwardedRequest::encode).collect();
    check(
        &asked,
        &expect![[r#"
            02000131000164010201030203010100f40300000000000000000000000000000000000000000000
              00
            020001310101640000000000000000000000000000000000000000000000
            020001310401640101690101016e0101760101010165000100000000000000000000000000000000
              0000000000000000
            02000131050164020101690101016e010176010101690101016e0101760100000000000000000000
              00000000000000000000000000
            02000131060164000101016e00010101650001000000000000000000000000000000000000000000
              000000
            0200013107016401000101016e000000000000000000000000000000000000000000000000
            0201013102010d0105746f6b656e02010103010773657373696f6e01000000000000000000000000
              00000001ac0200000000000000000000000000000001020101030203010100f40301ac02
            0201013103016402010103010773657373696f6e0100000000000000000000000000000001ac0200
              000000000000000000000000000001020101030203010100f40301ac02
            02010131080164016901016e0102010103010773657373696f6e0100000000000000000000000000
              000001ac0200000000000000000000000000000001020101030203010100f40301ac02
            02010131090f73656c656374202a2066726f6d2064000002010103010773657373696f6e01000000
              00000000000000000000000001ac0200000000000000000000000000000001020101030203010100
              f40301ac02
            020101310a0f73656c656374202a2066726f6d206402010103010773657373696f6e010000000000
              0000000000000000000001ac0200000000000000000000000000000001020101030203010100f403
              01ac02
            020101310b0164010b5b276127203d202762275d01feffffffffffffffff010105746f6b656e0100
              02010103010773657373696f6e0100000000000000000000000000000001ac020000000000000000
              0000000000000001020101030203010100f40301ac02
            02020004414b49410131067365616c65640105046e6f746500
            02020104414b494100
            02020204414b494101030203010100f403
            02020401310563617274730001
            020208010131046a6f62730200
            020209
            02020304414b494104414b49410131067365616c65640105046e6f746500
            02020501310164ac020200
            02020601310164ac02
            02020701310164ac0201
            02020701310164ac0200
            020500020000ac020000000101310164ac0202000000000000000000000000000000000000000000
              00000000
            020500020000ac020000010101310164ac0200000000000000000000000000000000000000000000
              0000
            0205000201ac020000010101310164ac020000000000000000000000000000000000000000000000
              0000
            0205000201ac020000000101310164ac020000000000000000000000000000000000000000000000
              00000000
            02030131056361727473
            0204
            0206010131046a6f6273
            020700000131056361727473
            02070104414b4941
            020702
            0207030201310670686f746f7300000000000000000000000000000007
        "#]],
    );
}

fn newest(told: &ForwardedReply) -> Bytes {
    told.encode(Version::NEWEST)
}

/// What a node of version 2 could not read is left out.
#[test]
fn a_refusal_tells_of_its_session_where_that_is_read() {
    let error = request::Refusal::from(Error::new(Code::NoSuchDomain, "message"));
    let refusal = ForwardedReply::Request(Err(error.clone()), metadata());
    assert_eq!(
        ForwardedReply::decode(newest(&refusal)),
        Ok(refusal.clone())
    );
    let without = ForwardedReply::Request(Err(error), ReplyMetadata::default());
    let bytes = refusal.encode(Version::OLDEST);
    assert_eq!(bytes, without.encode(Version::OLDEST));
    assert_eq!(bytes, newest(&without));
    assert_eq!(ForwardedReply::decode(bytes), Ok(without));
}

#[test]
fn the_bytes_of_what_is_told_are_frozen() {
    let told: Vec<_> = told().iter().map(newest).collect();
    check(
        &told,
        &expect![[r#"
            020100ac02010101020101020101000301010002010101030201046e657874010000000000000000
              0000000000000001ac0200010100194e756d626572446f6d61696e42797465734578636565646564
            0201010101640105746f6b656eac02010101020101020101000301010002010101030201046e6578
              740100000000000000000000000000000001ac0200010100194e756d626572446f6d61696e427974
              65734578636565646564
            02010201000000000007ac02010101020101020101000301010002010101030201046e6578740100
              000000000000000000000000000001ac0200010100194e756d626572446f6d61696e427974657345
              78636565646564
            02010301016e0176ac02010101020101020101000301010002010101030201046e65787401000000
              00000000000000000000000001ac0200010100194e756d626572446f6d61696e4279746573457863
              6565646564
            02010401016901016e017600ac02010101020101020101000301010002010101030201046e657874
              0100000000000000000000000000000001ac0200010100194e756d626572446f6d61696e42797465
              734578636565646564
            0201050101690105746f6b656eac02010101020101020101000301010002010101030201046e6578
              740100000000000000000000000000000001ac0200010100194e756d626572446f6d61696e427974
              65734578636565646564
            02010601046c696e65ac02010101020101020101000301010002010101030201046e657874010000
              0000000000000000000000000001ac0200010100194e756d626572446f6d61696e42797465734578
              636565646564
            02000c6e6f74207468652068656164
            020100ac02000000000000
            02020a496e76616c6964555249076d65737361676583b60d
            02050c4e6f53756368446f6d61696e076d65737361676583b60d0101010201010201010003010100
              02010101030201046e6578740100000000000000000000000000000001ac0200010100194e756d62
              6572446f6d61696e42797465734578636565646564
            0203
            020400026964
            020401026964
            02040203776879
            02040303776879
            020404056361727473
            02080201000000000000
            020802000121000000000000
            020600
            0206010301026e3202026e33026e34
            02070106666f72206e32
            020a000103726f77
            020a0100
            020a010104414b49410131067365616c65640105046e6f746500
            020a020104414b49410131067365616c65640105046e6f746500
            020a03010900000000000000000000000000000000000000000000000000000000000000000000
        "#]],
    );
}

/// What an older process answers to the step of a domain is what came of a command.
#[test]
fn a_step_of_a_domain_is_answered_as_a_command() {
    let done = || {
        ForwardedReply::Request(
            Ok(Taken::Done(Bytes::new()).into()),
            ReplyMetadata::default(),
        )
    };
    let command = ForwardedReply::Request(Ok(names::Done.into()), ReplyMetadata::default());
    assert_eq!(newest(&done()), newest(&command));
    let (outcome, _) = command.clone().of(ServiceName::Step).unwrap();
    assert_eq!(outcome, Ok(Taken::Done(Bytes::new()).into()));
    for refusal in [
        Failure::of_words("why".to_owned()).into(),
        steps::Refusal::Invalid("why".to_owned()),
    ] {
        let told = ForwardedReply::Request(Err(refusal.clone().into()), ReplyMetadata::default());
        let heard = ForwardedReply::decode(newest(&told)).unwrap();
        let (outcome, _) = heard.of(ServiceName::Step).unwrap();
        assert_eq!(outcome, Err(refusal.into()));
    }
    assert_eq!(
        command.of(ServiceName::SimpleDb),
        None,
        "of another service"
    );
    assert_eq!(ForwardedReply::Why(Vec::new()).of(ServiceName::Step), None);
}

#[track_caller]
fn comes_back<T: Debug>(it: &T, bytes: &Bytes, decode: impl Fn(Bytes) -> Result<T, DecodeError>) {
    let decoded = decode(bytes.clone()).unwrap();
    assert_eq!(format!("{decoded:?}"), format!("{it:?}"));
    for size in 0..bytes.len() {
        assert!(decode(bytes.slice(..size)).is_err(), "{size} of {it:?}");
    }
    let longer = Bytes::from([&bytes[..], &[0]].concat());
    assert!(decode(longer).is_err());
}

#[test]
fn all_comes_back_and_nothing_else_does() {
    for it in asked() {
        comes_back(&it, &it.encode(), ForwardedRequest::decode);
    }
    for it in told() {
        comes_back(&it, &newest(&it), ForwardedReply::decode);
    }
}

#[test]
fn unknown_names_are_refused_by_name() {
    let refused = |bytes: &'static [u8]| {
        let error = ForwardedReply::decode(Bytes::from_static(bytes)).unwrap_err();
        error.to_string()
    };
    let version = "malformed bytes: the version of what is forwarded";
    assert_eq!(refused(&[1, 3]), version);
    assert_eq!(refused(&[2, 11]), "malformed bytes: what is told");
    assert_eq!(refused(&[2, 8, 7]), "malformed bytes: a service");
    assert_eq!(refused(&[2, 8, 1]), "malformed bytes: what is told");
    assert_eq!(
        refused(&[2, 4, 5]),
        "malformed bytes: a refusal of the catalog"
    );
    let code = "malformed bytes: the code of an error";
    assert_eq!(refused(b"\x02\x02\x04What"), code);
}

proptest! {
    #[test]
    fn noise_never_panics(
        tag in 0_u8..12,
        kind in 0_u8..13,
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let asked = Bytes::from([&[VERSION, tag, 0, kind], &noise[..]].concat());
        if let Ok(it) = ForwardedRequest::decode(asked) {
            let again = ForwardedRequest::decode(it.encode()).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{it:?}"));
        }
        let told = Bytes::from([&[VERSION, tag, kind], &noise[..]].concat());
        if let Ok(it) = ForwardedReply::decode(told) {
            prop_assert_eq!(ForwardedReply::decode(newest(&it)), Ok(it));
        }
    }

    #[test]
    fn a_flipped_byte_never_panics(
        which: prop::sample::Index,
        at: prop::sample::Index,
        flip in 1_u8..,
    ) {
        let mut all: Vec<_> = asked().iter().map(ForwardedRequest::encode).collect();
        all.extend(told().iter().map(newest));
        let mut bytes = which.get(&all).to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let bytes = Bytes::from(bytes);
        drop((ForwardedRequest::decode(bytes.clone()), ForwardedReply::decode(bytes)));
    }

    #[test]
    fn numbers_with_a_sign_come_back(number: i64) {
        let mut bytes = Vec::new();
        number.put(&mut bytes);
        prop_assert_eq!(i64::read(&mut Reader::new(bytes.into())), Ok(number));
    }
}
