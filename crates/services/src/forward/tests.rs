//! What is forwarded comes back as it went; its bytes are frozen; what is none of it is refused.

mod samples;

use std::fmt::Debug;

use expect_test::{Expect, expect};
use fader_chain::{ChainId, EntryId, RequestId, Stamp};
use proptest::prelude::*;

use self::samples::{asked, coded, metadata, told};
use super::*;
use crate::catalog::{AccessKey, Command, DomainEntry, KeyStatus, Refusal, Rights};
use crate::level::{Bound, Cause, DefaultConsistency, Level, Outcome, Outcomes, SettlementNotice};
use crate::simpledb::{
    Attribute, AttributeDelete, AttributePut, BoxUsage, Code, DomainMetadata, Expected, Item,
    ItemDelete, ItemPut, PageToken, Reply, Request,
};
use crate::{CollectionId, ErrorCode, Failure, Mode, Reason, Rule, Unavailable, ViewError};

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

/// In a cluster in which failures are texts.
fn sixth(told: &ForwardedReply) -> Bytes {
    told.encode(Version::SIXTH)
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
    let told: Vec<_> = told().iter().map(sixth).collect();
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

/// From version 7 on: answers 11, 12 and 13.
#[test]
fn the_bytes_of_failures_are_frozen() {
    let coded: Vec<_> = coded().iter().map(newest).collect();
    check(
        &coded,
        &expect![[r#"
            020b056d6f766564020000
            020b0573746f72651a0001176e6f207370616365206c656674206f6e20646576696365
            020b1073746f72652d756e7265616461626c65070664616d616765
            020c000a6f7665726c6f616465647c1253657276696365556e617661696c61626c65675365727669
              636520416d617a6f6e53696d706c6544422069732063757272656e746c7920756e617661696c6162
              6c652e20506c656173652074727920616761696e206c617465722028746f6f206d616e7920777269
              7465732061726520756e646572207761792900000000000000
            020c030a6f7665726c6f616465643719355365727669636520697320756e617661696c61626c653a
              20746f6f206d616e79207772697465732061726520756e64657220776179000000000000
            020c040a6f7665726c6f6164656422211d746f6f206d616e79207772697465732061726520756e64
              657220776179000000000000000000
            020c060a6f7665726c6f616465641f081d746f6f206d616e79207772697465732061726520756e64
              657220776179000000000000
            020c010b756e636f6e6669726d6564020100000000000000
            020c011073746f72652d756e7265616461626c65070664616d616765000000000000
            020c050b756e636f6e6669726d6564020100000000000000
            020c050c63616c6c2d696e76616c69640c0b626c6f636b2d636f756e74000000000000
            020c02096e6f2d6d656d626572020000000000000000
            020c010c63616c6c2d696e76616c696407066b65792d6964000000000000
            020c010c63616c6c2d696e76616c696408076163636f756e74000000000000
            020c010c63616c6c2d696e76616c696405046e6f7465000000000000
            020c010c63616c6c2d696e76616c696408076162616e646f6e000000000000
            020c010c63616c6c2d696e76616c69640c0b7374726f6e672d6f6e6c79000000000000
            020c010c63616c6c2d696e76616c69640b0a72656164732d6f6e6c79000000000000
            020c010c63616c6c2d696e76616c69640c0b626c6f636b2d636f756e74000000000000
            020c010c63616c6c2d696e76616c69640e0d6e6f2d636f6c6c656374696f6e000000000000
            020c010c63616c6c2d696e76616c69640b0a6e616d652d74616b656e000000000000
            020c010c63616c6c2d696e76616c69640d0c6e616d652d746f6f2d666172000000000000
            020c010c63616c6c2d696e76616c69640a0671756f72756d01ac02000000000000
            020c010c63616c6c2d696e76616c69640e0d737472616e67652d746f6b656e000000000000
            020c010c63616c6c2d696e76616c696418046c6f737400000000000000000000000000000001ac02
              00000000000000
            020c010c63616c6c2d696e76616c69640a09666f72676f7474656e000000000000
            020c010c63616c6c2d696e76616c69640d0a71756575652d6d6f64650102000000000000
            020c010c63616c6c2d696e76616c69640d0b6275636b65742d6d6f646504000000000000
            020c010c63616c6c2d696e76616c6964100f6275636b65742d76657273696f6e73000000000000
            020c010c63616c6c2d696e76616c69640c0b6f662d746f6d6f72726f77000000000000
            020d18077265737461727424020100000000000000000000000000000007ac020000000000000000
              0000000000000008066f746865727324020100000000000000000000000000000007ac0200000000
              0000000000000000000000080773657373696f6e01010b7075626c69636174696f6e02ac02086164
              6f7074696f6e0301ac02076172726976616c01010768656172696e6701010768616e646f66660101
              04736c6f770101047475726e0301ac020b696e6361726e6174696f6e0101076d656d626572730202
              03046469736b01010a6d656d6265727368697001010968616e647368616b650301ac02056c656173
              650101087472616e73666572070101ac02ac02070c636f6e6669726d6174696f6e0401ac0207086f
              70657261746f720301ac02076661696c75726501010764616d6167656403026e31066661696c6564
              23026e31020573746f726501176e6f207370616365206c656674206f6e206465766963650a737461
              6e647374696c6c05026e31d00f08647261696e696e670b056361727473010101ac02
            020c000b6f662d746f6d6f72726f7700000000000000
            020c010c63616c6c2d696e76616c696408076163636f756e74010101020101020101000301010002
              010101030201046e6578740100000000000000000000000000000001ac0200010100194e756d6265
              72446f6d61696e42797465734578636565646564
        "#]],
    );
}

/// A process of version 6 is told what it was always told, in words, and one of version 7 reads it.
#[test]
fn a_failure_is_told_in_words_below_version_7() {
    let unsure = Unavailable {
        is_unsure: true,
        ..Reason::Unconfirmed.into()
    };
    let failures: [Failure; 3] = [
        Reason::Moved.into(),
        unsure.into(),
        ViewError::BlockLost(7).into(),
    ];
    for failure in failures {
        let told = sixth(&ForwardedReply::NotHere(failure.clone()));
        let words = failure.to_string();
        assert_eq!(told[..3], [VERSION, 0, u8::try_from(words.len()).unwrap()]);
        assert_eq!(told[3..], *words.as_bytes());
        let Ok(ForwardedReply::NotHere(heard)) = ForwardedReply::decode(told) else {
            panic!("{failure}");
        };
        assert_eq!(heard.to_string(), words);
        assert_eq!(heard.reason(), failure.reason());
    }
    // The words of a rule are kept, and no more.
    let refusal = request::Refusal::from(Refusal::from(Rule::Account));
    let told = sixth(&ForwardedReply::Request(
        Err(refusal.clone()),
        ReplyMetadata::default(),
    ));
    let (outcome, _) = ForwardedReply::decode(told)
        .unwrap()
        .of(ServiceName::Catalog)
        .unwrap();
    assert_eq!(outcome.unwrap_err().to_string(), refusal.to_string());
}

/// It is not found in a text: a message with the sentence of another reason keeps its own.
#[test]
fn the_reason_of_a_refusal_is_its_code() {
    let misleading = Reason::Stopping.sentence();
    let error = Error::unavailable(Reason::Overloaded, misleading);
    let told = ForwardedReply::Request(Err(error.into()), ReplyMetadata::default());
    let reason = |bytes| {
        let heard = ForwardedReply::decode(bytes).unwrap();
        let (outcome, _) = heard.of(ServiceName::SimpleDb).unwrap();
        outcome.unwrap_err().reason()
    };
    assert_eq!(reason(newest(&told)), Some(Reason::Overloaded));
    assert_eq!(reason(sixth(&told)), Some(Reason::Stopping));
}

/// What one of a newer process is to the reader: WIRE-1.
#[test]
fn a_code_that_is_not_known_is_told_apart() {
    let put = |first: &[u8], code: &str, rest: &[u8]| {
        let mut bytes = [&[VERSION], first].concat();
        code.to_owned().put(&mut bytes);
        bytes.extend_from_slice(rest);
        ForwardedReply::decode(bytes.into())
    };
    let arguments = [2, 7, 7];
    let mut rest = arguments.to_vec();
    ReplyMetadata::default().put(&mut rest);
    // A refusal of SimpleDB, of the catalog and of blocks.
    for service in [0, 1, 5] {
        let told = put(&[12, service], "of-tomorrow", &rest);
        assert_eq!(
            told,
            Ok(ForwardedReply::UnknownCode("of-tomorrow".to_owned()))
        );
    }
    // Nothing was done there: it may be done elsewhere.
    let told = put(&[11], "of-tomorrow", &arguments);
    assert_eq!(told, Ok(ForwardedReply::NotHere(Reason::NoMember.into())));
    let told = put(&[13, 1], "of-tomorrow", &arguments);
    let wait = MemberWait::Newer("of-tomorrow".to_owned());
    assert_eq!(told, Ok(ForwardedReply::Why(vec![wait])));
    // A known code that is no refusal's of that service is none that is known here.
    let told = put(&[12, 1], ErrorCode::DataLocked.name(), &rest);
    let locked = ErrorCode::DataLocked.name().to_owned();
    assert_eq!(told, Ok(ForwardedReply::UnknownCode(locked)));
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
        steps::Refusal::from(Failure::of_words("why".to_owned())),
        Rule::Told("why".to_owned()).into(),
    ] {
        let told = ForwardedReply::Request(Err(refusal.clone().into()), ReplyMetadata::default());
        for bytes in [sixth(&told), newest(&told)] {
            let heard = ForwardedReply::decode(bytes).unwrap();
            let (outcome, _) = heard.of(ServiceName::Step).unwrap();
            assert_eq!(outcome, Err(refusal.clone().into()));
        }
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
        comes_back(&it, &sixth(&it), ForwardedReply::decode);
        comes_back(&it, &newest(&it), ForwardedReply::decode);
    }
    for it in coded() {
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
    assert_eq!(refused(&[2, 14]), "malformed bytes: what is told");
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
        tag in 0_u8..15,
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
        all.extend(told().iter().map(sixth));
        all.extend(coded().iter().map(newest));
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
