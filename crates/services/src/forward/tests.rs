//! What is forwarded comes back as it went; its bytes are frozen; what is none of it is refused.

use std::fmt::Debug;

use expect_test::{Expect, expect};
use fader_chain::{ChainId, EntryId, RequestId, Stamp};
use proptest::prelude::*;

use super::*;
use crate::catalog::{AccessKey, Command, DomainEntry, KeyStatus, Refusal, Rights};
use crate::level::{Bound, Cause, Level, Notice, Outcome, Outcomes, Preference};
use crate::simpledb::{
    Attribute, AttributeDelete, AttributePut, BoxUsage, Code, DomainMetadata, Expected, Item,
    ItemDelete, ItemPut, PageToken, Reply, Request,
};
use crate::{CollectionId, Mode, ViewError};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn token() -> Option<PageToken> {
    Some(PageToken(Bytes::from_static(b"token")))
}

fn preference() -> Preference {
    Preference {
        level: Level::Eventual {
            r: 2,
            w: 3,
            sloppy: true,
        },
        bound: Some(Bound::Millis(500)),
    }
}

fn expected() -> Vec<Expected> {
    vec![Expected {
        name: text("e"),
        value: None,
        exists: Some(false),
    }]
}

fn put() -> ItemPut {
    ItemPut {
        item: text("i"),
        attributes: vec![AttributePut {
            name: text("n"),
            value: text("v"),
            replace: true,
        }],
    }
}

fn delete() -> ItemDelete {
    ItemDelete {
        item: None,
        attributes: vec![AttributeDelete {
            name: text("n"),
            value: None,
        }],
    }
}

fn writes() -> Vec<Request> {
    let domain = || "d".to_owned();
    vec![
        Request::CreateDomain {
            domain: domain(),
            mode: Some(Mode::Mixed),
            preference: Some(preference()),
        },
        Request::DeleteDomain { domain: domain() },
        Request::PutAttributes {
            domain: domain(),
            put: put(),
            expected: expected(),
        },
        Request::BatchPutAttributes {
            domain: domain(),
            puts: vec![put(), put()],
        },
        Request::DeleteAttributes {
            domain: domain(),
            delete: delete(),
            expected: expected(),
        },
        Request::BatchDeleteAttributes {
            domain: domain(),
            deletes: vec![delete()],
        },
    ]
}

fn reads() -> Vec<Request> {
    let domain = || "d".to_owned();
    vec![
        Request::ListDomains {
            max_count: Some(-7),
            next_token: token(),
        },
        Request::DomainMetadata { domain: domain() },
        Request::GetAttributes {
            domain: domain(),
            item: "i".to_owned(),
            names: vec!["n".to_owned()],
            consistent: true,
        },
        Request::Select {
            expression: "select * from d".to_owned(),
            next_token: None,
            consistent: false,
        },
        Request::ExplainSelect {
            expression: "select * from d".to_owned(),
        },
        Request::Query {
            domain: domain(),
            expression: text("['a' = 'b']"),
            max_count: Some(i64::MAX),
            next_token: token(),
            attributes: Some(Vec::new()),
        },
    ]
}

fn name() -> RequestId {
    RequestId {
        client: 1_u128.into(),
        seq: 300,
        part: 0,
    }
}

fn demand() -> Demand {
    Demand {
        level: Level::Barrier,
        bound: Some(Bound::Versions(3)),
        session: Some(Bytes::from_static(b"session")),
        request: Some(name()),
        digest: 0x0102,
        outcome: true,
        preference: Some(preference()),
        collection: Some(CollectionId(300)),
    }
}

fn access_key() -> AccessKey {
    AccessKey {
        id: "AKIA".to_owned(),
        account: AccountId("1".to_owned()),
        sealed_secret: Bytes::from_static(b"sealed"),
        status: KeyStatus::Disabled,
        created_ms: 5,
        note: "note".to_owned(),
        preference: None,
        rights: Rights::All,
    }
}

fn asked() -> Vec<Asked> {
    let account = || AccountId("1".to_owned());
    let id = || "AKIA".to_owned();
    let asks = |request: Request, demand| Asked::Request(Call::new(&account(), request, demand));
    let writes = writes().into_iter();
    let writes = writes.map(|it| asks(it, Demand::default()));
    let reads = reads().into_iter().map(|it| asks(it, demand()));
    let commands = [
        Command::CreateKey(access_key()),
        Command::SetKeyStatus {
            id: id(),
            status: KeyStatus::Active,
        },
        Command::SetKeyPreference {
            id: id(),
            preference: Some(preference()),
        },
        Command::SetMode {
            name: named(Kind::Domain, "carts"),
            mode: Mode::Strong,
            abandon: true,
        },
        Command::SetMode {
            name: named(Kind::Queue, "jobs"),
            mode: Mode::Mixed,
            abandon: false,
        },
        Command::Confirm,
        Command::RotateKey {
            id: id(),
            replacement: access_key(),
        },
    ];
    let of_node = |command: Command| {
        let mut call = Call::of_node(command);
        if let request::Request::Catalog(Command::SetMode { name, .. }) = &call.request {
            call.account = name.account.clone();
        }
        Asked::Request(call)
    };
    let commands = commands.map(of_node);
    let steps = steps(Kind::Domain).map(|it| Asked::Request(Call::of_node(it)));
    let newer = steps_of_queue().map(|it| Asked::Request(Call::of_node(it)));
    let questions = [
        Asked::Mode(named(Kind::Domain, "carts")),
        Asked::Why,
        Asked::Mode(named(Kind::Queue, "jobs")),
    ];
    let asked = writes.chain(reads).chain(commands).chain(steps);
    asked.chain(newer).chain(questions).collect()
}

fn named(kind: Kind, name: &str) -> NameBuf {
    NameBuf {
        kind,
        account: AccountId("1".to_owned()),
        name: name.to_owned(),
    }
}

/// To found a collection, to raze it, and to settle each, as decoding knows them.
fn steps(kind: Kind) -> [steps::Command; 4] {
    let collection = CollectionId(300);
    let mixed = DomainEntry {
        mode: Mode::Mixed,
        ..DomainEntry::strong(collection)
    };
    let step = |action| steps::Step {
        number: 300,
        to: ChainId::SYSTEM,
        floor: 0,
        action,
    };
    let founded = |entry| step(steps::Action::Found(named(kind, "d"), entry));
    let razed = || step(steps::Action::Raze(named(kind, "d"), collection));
    [
        steps::Command::Take(ChainId::SYSTEM, founded(mixed)),
        steps::Command::Take(ChainId::SYSTEM, razed()),
        steps::Command::Settle(razed(), Bytes::new()),
        steps::Command::Settle(founded(DomainEntry::strong(collection)), Bytes::new()),
    ]
}

fn steps_of_queue() -> [steps::Command; 4] {
    steps(Kind::Queue)
}

fn replies() -> Vec<Reply> {
    let bytes = Bytes::from_static;
    let attribute = || Attribute {
        name: bytes(b"n"),
        value: bytes(b"v"),
    };
    vec![
        Reply::Done,
        Reply::Domains {
            names: vec!["d".to_owned()],
            next_token: token(),
        },
        Reply::Metadata(DomainMetadata {
            item_count: 1,
            timestamp_s: 7,
            ..DomainMetadata::default()
        }),
        Reply::Attributes(vec![attribute()]),
        Reply::Items {
            items: vec![Item {
                name: bytes(b"i"),
                attributes: vec![attribute()],
            }],
            next_token: None,
        },
        Reply::ItemNames {
            names: vec![bytes(b"i")],
            next_token: token(),
        },
        Reply::Plan(vec!["line".to_owned()]),
    ]
}

fn receipt() -> Receipt {
    Receipt {
        stamp: Some(Stamp::strong(EntryId::new(1, 2))),
        version: Some(EntryId::new(1, 2)),
        tentative: true,
        outcome: Some(Outcomes {
            common: Outcome::Applied,
            parts: vec![
                (1, Outcome::Superseded(None)),
                (2, Outcome::Superseded(Some(Cause::Gone))),
                (3, Outcome::Detached),
            ],
        }),
        session: Some(Bytes::from_static(b"next")),
        settled: vec![Notice {
            name: name(),
            outcome: Outcome::Superseded(Some(Cause::Limit(Code::NumberDomainBytesExceeded))),
        }],
    }
}

fn told() -> Vec<Told> {
    let answered = |reply| Answered {
        reply,
        box_usage: BoxUsage(300),
    };
    let replies = replies()
        .into_iter()
        .map(|it| Told::Request(Ok(answered(it).into()), receipt()));
    let refused = |refusal: Refusal| Told::Request(Err(refusal.into()), Receipt::default());
    let others = [
        Told::NotHere("not the head".to_owned()),
        Told::Request(Ok(answered(Reply::Done).into()), Receipt::default()),
        Told::Request(
            Err(Error::new(Code::InvalidUri, "message").into()),
            Receipt::default(),
        ),
        Told::Request(
            Err(Error::new(Code::NoSuchDomain, "message").into()),
            receipt(),
        ),
        Told::Request(Ok(names::Done.into()), Receipt::default()),
        refused(Refusal::NoSuchKey("id".to_owned())),
        refused(Refusal::KeyExists("id".to_owned())),
        refused(Refusal::Invalid("why".to_owned())),
        refused(Refusal::View(ViewError("why".to_owned()))),
        refused(Refusal::NoSuchDomain("carts".to_owned())),
        Told::Request(Ok(Taken::Passed.into()), Receipt::default()),
        Told::Request(
            Ok(Taken::Done(Bytes::from_static(b"!")).into()),
            Receipt::default(),
        ),
        Told::Mode(None),
        Told::Mode(Some(DomainMode {
            mode: Mode::Closing,
            away: vec!["n2".to_owned()],
            silent: vec!["n3".to_owned(), "n4".to_owned()],
        })),
        Told::Why(vec!["for n2".to_owned()]),
    ];
    replies.chain(others).collect()
}

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
    let asked: Vec<_> = asked().iter().map(Asked::encode).collect();
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
        "#]],
    );
}

fn newest(told: &Told) -> Bytes {
    told.encode(Version::NEWEST)
}

/// What a node of version 2 could not read is left out.
#[test]
fn a_refusal_tells_of_its_session_where_that_is_read() {
    let error = request::Refusal::from(Error::new(Code::NoSuchDomain, "message"));
    let refusal = Told::Request(Err(error.clone()), receipt());
    assert_eq!(Told::decode(newest(&refusal)), Ok(refusal.clone()));
    let without = Told::Request(Err(error), Receipt::default());
    let bytes = refusal.encode(Version::OLDEST);
    assert_eq!(bytes, without.encode(Version::OLDEST));
    assert_eq!(bytes, newest(&without));
    assert_eq!(Told::decode(bytes), Ok(without));
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
        "#]],
    );
}

/// What an older process answers to the step of a domain is what came of a command.
#[test]
fn a_step_of_a_domain_is_answered_as_a_command() {
    let done = || Told::Request(Ok(Taken::Done(Bytes::new()).into()), Receipt::default());
    let command = Told::Request(Ok(names::Done.into()), Receipt::default());
    assert_eq!(newest(&done()), newest(&command));
    let (outcome, _) = command.clone().of(ServiceName::Step).unwrap();
    assert_eq!(outcome, Ok(Taken::Done(Bytes::new()).into()));
    for refusal in [
        steps::Refusal::Failed("why".to_owned()),
        steps::Refusal::Invalid("why".to_owned()),
    ] {
        let told = Told::Request(Err(refusal.clone().into()), Receipt::default());
        let heard = Told::decode(newest(&told)).unwrap();
        let (outcome, _) = heard.of(ServiceName::Step).unwrap();
        assert_eq!(outcome, Err(refusal.into()));
    }
    assert_eq!(
        command.of(ServiceName::SimpleDb),
        None,
        "of another service"
    );
    assert_eq!(Told::Why(Vec::new()).of(ServiceName::Step), None);
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
        comes_back(&it, &it.encode(), Asked::decode);
    }
    for it in told() {
        comes_back(&it, &newest(&it), Told::decode);
    }
}

#[test]
fn what_is_unknown_is_refused_by_name() {
    let refused = |bytes: &'static [u8]| {
        let error = Told::decode(Bytes::from_static(bytes)).unwrap_err();
        error.to_string()
    };
    let version = "malformed bytes: the version of what is forwarded";
    assert_eq!(refused(&[1, 3]), version);
    assert_eq!(refused(&[2, 10]), "malformed bytes: what is told");
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
        tag in 0_u8..11,
        kind in 0_u8..13,
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let asked = Bytes::from([&[VERSION, tag, 0, kind], &noise[..]].concat());
        if let Ok(it) = Asked::decode(asked) {
            let again = Asked::decode(it.encode()).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{it:?}"));
        }
        let told = Bytes::from([&[VERSION, tag, kind], &noise[..]].concat());
        if let Ok(it) = Told::decode(told) {
            prop_assert_eq!(Told::decode(newest(&it)), Ok(it));
        }
    }

    #[test]
    fn a_flipped_byte_never_panics(
        which: prop::sample::Index,
        at: prop::sample::Index,
        flip in 1_u8..,
    ) {
        let mut all: Vec<_> = asked().iter().map(Asked::encode).collect();
        all.extend(told().iter().map(newest));
        let mut bytes = which.get(&all).to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let bytes = Bytes::from(bytes);
        drop((Asked::decode(bytes.clone()), Told::decode(bytes)));
    }

    #[test]
    fn numbers_with_a_sign_come_back(number: i64) {
        let mut bytes = Vec::new();
        number.put(&mut bytes);
        prop_assert_eq!(i64::read(&mut Reader::new(bytes.into())), Ok(number));
    }
}
