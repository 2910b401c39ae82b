//! One of each that is forwarded: what is asked, and what is told.

use fader_chain::{DiskId, NodeId, TransferProgress, WaitReason};

use super::*;
use crate::service::Trouble;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn token() -> Option<PageToken> {
    Some(PageToken(Bytes::from_static(b"token")))
}

fn preference() -> DefaultConsistency {
    DefaultConsistency {
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

fn consistency() -> ConsistencyOptions {
    ConsistencyOptions {
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

pub(super) fn asked() -> Vec<ForwardedRequest> {
    let account = || AccountId("1".to_owned());
    let id = || "AKIA".to_owned();
    let asks = |request: Request, consistency| {
        ForwardedRequest::Request(Call::new(&account(), request, consistency))
    };
    let writes = writes().into_iter();
    let writes = writes.map(|it| asks(it, ConsistencyOptions::default()));
    let reads = reads().into_iter().map(|it| asks(it, consistency()));
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
        ForwardedRequest::Request(call)
    };
    let commands = commands.map(of_node);
    let steps = steps(Kind::Domain).map(|it| ForwardedRequest::Request(Call::of_node(it)));
    let newer = steps_of_queue().map(|it| ForwardedRequest::Request(Call::of_node(it)));
    let questions = [
        ForwardedRequest::Mode(named(Kind::Domain, "carts")),
        ForwardedRequest::Why,
        ForwardedRequest::Mode(named(Kind::Queue, "jobs")),
        ForwardedRequest::Catalog(CatalogQuestion::Name(named(Kind::Domain, "carts"))),
        ForwardedRequest::Catalog(CatalogQuestion::Key(id())),
        ForwardedRequest::Catalog(CatalogQuestion::Keys),
        ForwardedRequest::Catalog(CatalogQuestion::Attempt(named(Kind::Bucket, "photos"), 7)),
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

pub(super) fn metadata() -> ReplyMetadata {
    ReplyMetadata {
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
        settled: vec![SettlementNotice {
            name: name(),
            outcome: Outcome::Superseded(Some(Cause::Limit(Code::NumberDomainBytesExceeded))),
        }],
    }
}

pub(super) fn told() -> Vec<ForwardedReply> {
    let answered = |reply| CostedReply {
        reply,
        box_usage: BoxUsage(300),
    };
    let replies = replies()
        .into_iter()
        .map(|it| ForwardedReply::Request(Ok(answered(it).into()), metadata()));
    let refused =
        |refusal: Refusal| ForwardedReply::Request(Err(refusal.into()), ReplyMetadata::default());
    let others = [
        ForwardedReply::NotHere(Failure::of_words("not the head".to_owned())),
        ForwardedReply::Request(Ok(answered(Reply::Done).into()), ReplyMetadata::default()),
        ForwardedReply::Request(
            Err(Error::new(Code::InvalidUri, "message").into()),
            ReplyMetadata::default(),
        ),
        ForwardedReply::Request(
            Err(Error::new(Code::NoSuchDomain, "message").into()),
            metadata(),
        ),
        ForwardedReply::Request(Ok(names::Done.into()), ReplyMetadata::default()),
        refused(Refusal::NoSuchKey("id".to_owned())),
        refused(Refusal::KeyExists("id".to_owned())),
        refused(Rule::Told("why".to_owned()).into()),
        refused(Refusal::View(ViewError::Told {
            words: "why".to_owned(),
        })),
        refused(Refusal::NoSuchDomain("carts".to_owned())),
        ForwardedReply::Request(Ok(Taken::Passed.into()), ReplyMetadata::default()),
        ForwardedReply::Request(
            Ok(Taken::Done(Bytes::from_static(b"!")).into()),
            ReplyMetadata::default(),
        ),
        ForwardedReply::Mode(None),
        ForwardedReply::Mode(Some(DomainMode {
            mode: Mode::Draining,
            absent: vec!["n2".to_owned()],
            silent: vec!["n3".to_owned(), "n4".to_owned()],
        })),
        ForwardedReply::Why(vec![MemberWait::Words("for n2".to_owned())]),
        ForwardedReply::Catalog(CatalogAnswer::Name(Some(Bytes::from_static(b"row")))),
        ForwardedReply::Catalog(CatalogAnswer::Key(None)),
        ForwardedReply::Catalog(CatalogAnswer::Key(Some(access_key()))),
        ForwardedReply::Catalog(CatalogAnswer::Keys(vec![access_key()])),
        ForwardedReply::Catalog(CatalogAnswer::Attempt(Some((
            CollectionId(9),
            Attempt::default(),
        )))),
    ];
    replies.chain(others).collect()
}

/// All rules, but for that of a newer process.
fn rules() -> Vec<Rule> {
    vec![
        Rule::KeyId,
        Rule::Account,
        Rule::Note,
        Rule::Abandon,
        Rule::StrongOnly,
        Rule::ReadsOnly,
        Rule::BlockCount,
        Rule::NoCollection,
        Rule::NameTaken,
        Rule::NameTooFar,
        Rule::Quorum {
            is_write: true,
            size: 300,
        },
        Rule::StrangeToken,
        Rule::Lost(name()),
        Rule::Forgotten,
        Rule::QueueMode {
            is_fifo: true,
            mode: Mode::Mixed,
        },
        Rule::BucketMode(Mode::Eventual),
        Rule::BucketVersions,
        Rule::Newer("of-tomorrow".to_owned()),
    ]
}

fn waits() -> Vec<MemberWait> {
    use WaitReason as Of;
    let (one, two) = (NodeId(1), NodeId(300));
    let disks = || vec![(one, DiskId(7)), (two, DiskId(8))];
    let filling = TransferProgress {
        by: Some(two),
        bytes: 300,
        bytes_per_second: 7,
    };
    let reasons = [
        Of::Restart(disks()),
        Of::Others(disks()),
        Of::Session(one),
        Of::Publication(300),
        Of::Adoption(one, 300),
        Of::Arrival(one),
        Of::Hearing(one),
        Of::Handoff(one),
        Of::Slow(one),
        Of::Turn(one, two),
        Of::Incarnation(one),
        Of::Members(2, 3),
        Of::Disk(one),
        Of::Membership(one),
        Of::Handshake(one, two),
        Of::Lease(one),
        Of::Transfer(one, filling),
        Of::Confirmation(one, 300, 7),
        Of::Operator(one, 300),
        Of::Failure(one),
    ];
    let others = [
        MemberWait::Damaged("n1".to_owned()),
        MemberWait::Failed {
            member: "n1".to_owned(),
            times: 2,
            code: ErrorCode::Refused(Reason::Store),
            detail: text("no space left on device"),
        },
        MemberWait::standstill("n1".to_owned(), std::time::Duration::from_secs(2)),
        MemberWait::Draining {
            domain: "carts".to_owned(),
            absent: vec![one],
            silent: vec![two],
        },
    ];
    reasons
        .map(MemberWait::Of)
        .into_iter()
        .chain(others)
        .collect()
}

/// What has a code of its own, from version 7 on.
pub(super) fn coded() -> Vec<ForwardedReply> {
    let unsure = Unavailable {
        is_unsure: true,
        ..Reason::Unconfirmed.into()
    };
    let full = Unavailable {
        detail: Some("no space left on device".into()),
        ..Reason::Store.into()
    };
    let failures: [Failure; 3] = [
        Reason::Moved.into(),
        full.into(),
        ViewError::Told {
            words: "damage".to_owned(),
        }
        .into(),
    ];
    let refused =
        |refusal: request::Refusal| ForwardedReply::Request(Err(refusal), ReplyMetadata::default());
    let overloaded = Reason::Overloaded;
    let refusals: [request::Refusal; 9] = [
        Error::unavailable(overloaded, overloaded.sentence()).into(),
        crate::sqs::Error::unavailable(overloaded, overloaded.sentence()).into(),
        crate::s3::Error::unavailable(overloaded, overloaded.sentence()).into(),
        ServiceName::Export.word(Trouble::from(overloaded)),
        Refusal::Unavailable(unsure.clone()).into(),
        Refusal::View(ViewError::Told {
            words: "damage".to_owned(),
        })
        .into(),
        crate::blocks::Refusal::from(Failure::from(unsure)).into(),
        crate::blocks::Refusal::from(Rule::BlockCount).into(),
        crate::steps::Refusal::from(Failure::from(Reason::NoMember)).into(),
    ];
    let of_rules = rules()
        .into_iter()
        .map(|rule| refused(Refusal::from(rule).into()));
    let others = [
        ForwardedReply::Why(waits()),
        ForwardedReply::UnknownCode("of-tomorrow".to_owned()),
        ForwardedReply::Request(Err(Refusal::from(Rule::Account).into()), metadata()),
    ];
    let failures = failures.map(ForwardedReply::NotHere).into_iter();
    failures
        .chain(refusals.map(refused))
        .chain(of_rules)
        .chain(others)
        .collect()
}
