//! Exports: they begin within limits, one attempt at a time has a turn, and they are told of.

use fader_chain::{ApplyContext, EntryId};

use super::*;
use crate::MapView;
use crate::key::KeyRange;
use crate::simpledb::{self, Request};

const HOUR: u64 = 3_600_000;
const NOW: u64 = 100 * 24 * HOUR;
const LEASE: u64 = 10_000;

struct Chain {
    rows: MapView,
    index: u64,
    now_ms: u64,
    account: AccountId,
}

impl Chain {
    /// One with the domains `a` and `b`.
    fn new() -> Self {
        let mut chain = Chain {
            rows: MapView::default(),
            index: 0,
            now_ms: NOW,
            account: AccountId("123456789012".to_owned()),
        };
        for domain in ["aaa", "bbb"] {
            let request = Request::CreateDomain {
                domain: domain.to_owned(),
                mode: None,
                preference: None,
            };
            chain.simpledb(&request).expect("a domain is created");
        }
        chain
    }

    fn apply(&mut self, changes: &[Change]) {
        self.index += 1;
        let under = ApplyContext::strong(EntryId::new(1, self.index));
        self.rows.apply(changes, &under).expect("changes apply");
    }

    fn simpledb(&mut self, request: &Request) -> Result<(), simpledb::Code> {
        let limits = simpledb::Limits::default();
        let context = Context::new(&self.account, &limits);
        let decision = simpledb::decide(&self.rows, &context, request);
        self.apply(&decision.changes);
        decision.outcome.map(drop).map_err(|error| error.code)
    }

    fn delete(&mut self, domain: &str) -> Result<(), simpledb::Code> {
        self.simpledb(&Request::DeleteDomain {
            domain: domain.to_owned(),
        })
    }

    fn run(&mut self, command: &Command) -> Result<Reply, Code> {
        let limits = Limits::default();
        let account = self.account.clone();
        let mut context = Context::new(&account, &limits);
        context.now_ms = self.now_ms;
        let decided = decide(&self.rows, &context, command);
        let (reply, changes) = decided.map_err(|error| error.code)?;
        self.apply(&changes);
        Ok(reply)
    }

    fn start(&mut self, token: &str, domain: &str) -> Result<Export, Code> {
        self.start_at(token, domain, "bucket")
    }

    fn start_at(&mut self, token: &str, domain: &str, bucket: &str) -> Result<Export, Code> {
        let start = Start {
            seed: u128::from(self.index) * 0x1234_5678_9abc_def1,
            token: token.to_owned(),
            domain: domain.to_owned(),
            region: "us-east-1".to_owned(),
            place: Place {
                bucket: bucket.to_owned(),
                ..Place::default()
            },
        };
        match self.run(&Command::Start(start))? {
            Reply::Export(export) => Ok(*export),
            other => panic!("{other:?}"),
        }
    }

    fn hold(&self, export: &Export, number: u32) -> Hold {
        Hold {
            attempt: Attempt {
                account: self.account.clone(),
                id: export.id,
                number,
            },
            lease_ms: LEASE,
        }
    }

    fn claim(&mut self, export: &Export, number: u32) -> Result<(), Code> {
        self.run(&Command::Claim(self.hold(export, number)))
            .map(drop)
    }

    fn end(&mut self, export: &Export, number: u32) -> Result<(), Code> {
        let attempt = self.hold(export, number).attempt;
        let finding = Finding::Whole((3, "manifest".to_owned()));
        self.run(&Command::End(End { attempt, finding })).map(drop)
    }

    fn get(&mut self, export: &Export) -> Result<Export, Code> {
        let arn = arn(&self.account, export);
        match self.run(&Command::Get(arn))? {
            Reply::Export(export) => Ok(*export),
            other => panic!("{other:?}"),
        }
    }

    fn due(&mut self) -> Option<u128> {
        match self.run(&Command::Due(vec![ChainId::SYSTEM])) {
            Ok(Reply::Due(due)) => due.map(|(_, export)| export.id),
            other => panic!("{other:?}"),
        }
    }

    /// All pages of so many, and how many pages there were.
    fn list(&mut self, domain: Option<&str>, count: usize) -> (Vec<u128>, usize) {
        let (mut ids, mut pages) = (Vec::new(), 0);
        let mut list = List {
            domain: domain.map(str::to_owned),
            count: Some(count),
            next: None,
        };
        loop {
            let Ok(Reply::Page((exports, next))) = self.run(&Command::List(list.clone())) else {
                panic!("a list is answered");
            };
            pages += 1;
            ids.extend(exports.iter().map(|export| export.id));
            if next.is_none() {
                return (ids, pages);
            }
            list.next = next;
        }
    }
}

#[test]
fn an_export_is_found_by_its_arn_and_its_account_alone() {
    let mut chain = Chain::new();
    let export = chain.start("t", "aaa").expect("it begins");
    let id = id_text(export.id);
    assert_eq!((id.len(), id.get(14..15)), (36, Some("7")));
    assert_eq!(
        arn(&chain.account, &export),
        format!("arn:aws:sdb:us-east-1:123456789012:domain/aaa/export/{id}")
    );
    assert_eq!(chain.get(&export), Ok(export.clone()));
    assert_eq!(export.state, State::Pending);
    let mut others = export.clone();
    others.domain = "bbb".to_owned();
    assert_eq!(chain.get(&others), Err(Code::NoSuchExport));
    chain.account = AccountId("999999999999".to_owned());
    assert_eq!(chain.get(&export), Err(Code::NoSuchExport));
    let odd = Command::Get("arn:short".to_owned());
    assert_eq!(chain.run(&odd), Err(Code::InvalidParameterValue));
}

#[test]
fn a_token_stands_for_its_request_for_eight_hours() {
    let mut chain = Chain::new();
    let first = chain.start("t", "aaa").expect("it begins");
    chain.now_ms += 8 * HOUR - 1;
    assert_eq!(chain.start("t", "aaa"), Ok(first.clone()));
    assert_eq!(chain.start("t", "bbb"), Err(Code::Conflict));
    assert_eq!(chain.start_at("t", "aaa", "other"), Err(Code::Conflict));
    chain.now_ms += 1;
    let second = chain.start("t", "aaa").expect("it begins anew");
    assert_ne!(first.id, second.id);
}

#[test]
fn so_many_exports_of_a_domain_and_of_an_account_begin_within_a_day() {
    let mut chain = Chain::new();
    for number in 0..5 {
        chain.start(&number.to_string(), "aaa").expect("it begins");
        chain.now_ms += HOUR;
    }
    let limit = Err(Code::NumberExportsLimitExceeded);
    assert_eq!(chain.start("more", "aaa"), limit);
    chain
        .start("other", "bbb")
        .expect("another domain has its own");
    chain.now_ms = NOW + 24 * HOUR;
    chain.start("later", "aaa").expect("the first is a day old");
    assert_eq!(chain.start("more", "aaa"), limit);
    let limits = Limits {
        of_account: 6,
        ..Limits::default()
    };
    let mut context = Context::new(&chain.account, &limits);
    context.now_ms = chain.now_ms;
    let start = Start {
        seed: 1,
        token: "of the account".to_owned(),
        domain: "bbb".to_owned(),
        region: String::new(),
        place: Place {
            bucket: "bucket".to_owned(),
            ..Place::default()
        },
    };
    let refused = decide(&chain.rows, &context, &Command::Start(start));
    assert_eq!(
        refused.map(drop).map_err(|error| error.code),
        limit.map(drop)
    );
}

/// It shows EXPORT-2.
#[test]
fn one_attempt_has_a_turn_until_its_lease_is_over() {
    let mut chain = Chain::new();
    let export = chain.start("t", "aaa").expect("it begins");
    assert_eq!(chain.due(), Some(export.id));
    assert_eq!(chain.claim(&export, 2), Err(Code::NotYours));
    assert_eq!(chain.claim(&export, 1), Ok(()));
    assert_eq!(chain.due(), None);
    assert_eq!(chain.claim(&export, 2), Err(Code::NotYours));
    chain.now_ms += LEASE - 1;
    let beat = Command::Beat(chain.hold(&export, 1));
    assert_eq!(chain.run(&beat), Ok(Reply::Done));
    chain.now_ms += LEASE - 1;
    assert_eq!(chain.due(), None);
    chain.now_ms += 1;
    assert_eq!(chain.due(), Some(export.id));
    assert_eq!(chain.claim(&export, 2), Ok(()));
    // The one before hears that it lost its turn, at its next step.
    assert_eq!(chain.run(&beat), Err(Code::NotYours));
    assert_eq!(chain.end(&export, 1), Err(Code::NotYours));
    assert_eq!(chain.get(&export).map(|it| it.state), Ok(State::Running));
    assert_eq!(chain.end(&export, 2), Ok(()));
    let ended = chain.get(&export).expect("it is known").state;
    assert_eq!(
        ended,
        State::Ended(Finding::Whole((3, "manifest".to_owned())))
    );
    chain.now_ms += LEASE;
    assert_eq!(chain.due(), None);
    assert_eq!(chain.claim(&export, 3), Err(Code::NotYours));
}

/// It shows EXPORT-1.
#[test]
fn a_domain_stays_until_its_exports_have_ended() {
    let mut chain = Chain::new();
    let export = chain.start("t", "aaa").expect("it begins");
    let other = chain.start("u", "aaa").expect("it begins");
    let conflict = Err(simpledb::Code::DeleteConflict);
    assert_eq!(chain.delete("aaa"), conflict);
    assert_eq!(chain.delete("bbb"), Ok(()));
    for (export, expected) in [(&export, conflict), (&other, Ok(()))] {
        chain.claim(export, 1).expect("it is free");
        chain.end(export, 1).expect("it ends");
        assert_eq!(chain.delete("aaa"), expected);
    }
    assert_eq!(chain.start("v", "aaa"), Err(Code::NoSuchDomain));
    assert!(chain.get(&export).is_ok());
}

/// It shows EXPORT-3.
#[test]
fn exports_are_listed_in_order_and_pages_of_an_account_or_a_domain() {
    let mut chain = Chain::new();
    let mut all = Vec::new();
    for number in 0..6 {
        let domain = ["aaa", "bbb"][number % 2];
        let export = chain.start(&number.to_string(), domain).expect("it begins");
        all.push(export.id);
        chain.now_ms += 1;
    }
    assert_eq!(chain.list(None, 100), (all.clone(), 1));
    assert_eq!(chain.list(None, 2), (all.clone(), 3));
    assert_eq!(chain.list(None, 4), (all.clone(), 2));
    let of_a = vec![all[0], all[2], all[4]];
    assert_eq!(chain.list(Some("aaa"), 2), (of_a, 2));
    let list = |domain: Option<&str>, count, next| {
        Command::List(List {
            domain: domain.map(str::to_owned),
            count,
            next,
        })
    };
    for count in [0, 101] {
        let refused = chain.run(&list(None, Some(count), None));
        assert_eq!(refused, Err(Code::InvalidParameterValue));
    }
    assert_eq!(
        chain.run(&list(Some("ccc"), None, None)),
        Err(Code::NoSuchDomain)
    );
    let Ok(Reply::Page((_, next))) = chain.run(&list(None, Some(2), None)) else {
        panic!("a list is answered");
    };
    // A token is of its own list.
    let of_other = chain.run(&list(Some("aaa"), None, next));
    assert_eq!(of_other, Err(Code::InvalidNextToken));
}

#[test]
fn exports_are_known_for_ninety_days() {
    let mut chain = Chain::new();
    let old = chain.start("old", "aaa").expect("it begins");
    chain.claim(&old, 1).expect("it is free");
    chain.end(&old, 1).expect("it ends");
    chain.now_ms += 90 * 24 * HOUR;
    assert!(chain.get(&old).is_ok());
    chain.now_ms += 1;
    assert_eq!(chain.get(&old), Err(Code::NoSuchExport));
    assert_eq!(chain.list(None, 10).0, []);
    let rows = |chain: &Chain| {
        let KeyRange { start, end } = exports_of(&chain.account, 0);
        chain.rows.scan(&start, &end, Direction::Forward).count()
    };
    assert_eq!(rows(&chain), 1);
    chain.start("new", "aaa").expect("it begins");
    assert_eq!(rows(&chain), 1);
}

#[test]
fn malformed_input_is_refused() {
    let mut chain = Chain::new();
    for bucket in ["", "ab", "-abc", "abc-", "a b", &"a".repeat(256)] {
        let refused = chain.start_at("t", "aaa", bucket);
        assert_eq!(refused, Err(Code::InvalidParameterValue), "{bucket}");
    }
    assert_eq!(chain.start("", "aaa"), Err(Code::InvalidParameterValue));
    assert_eq!(chain.start("t", "zzz"), Err(Code::NoSuchDomain));
}

#[test]
fn objects_lie_below_the_prefix() {
    let mut chain = Chain::new();
    let mut export = chain.start("t", "aaa").expect("it begins");
    let id = id_text(export.id);
    assert_eq!(
        export.key_of("_started"),
        format!("AWSSimpleDB/{id}/aaa/_started")
    );
    for prefix in ["p/q", "p/q/"] {
        export.place.prefix = Some(prefix.to_owned());
        assert_eq!(export.key_of("x"), format!("p/q/AWSSimpleDB/{id}/aaa/x"));
    }
}

#[test]
fn commands_and_replies_travel_between_nodes() {
    use crate::forward::{ForwardedReply, ForwardedRequest};
    use crate::level::{ConsistencyOptions, ReplyMetadata};
    use crate::{Call, request};

    let mut chain = Chain::new();
    let export = chain.start("t", "aaa").expect("it begins");
    let hold = chain.hold(&export, 1);
    let end = |finding| End {
        attempt: hold.attempt.clone(),
        finding,
    };
    let commands = [
        Command::Get("arn".to_owned()),
        Command::List(List {
            domain: Some("d".to_owned()),
            count: Some(3),
            next: Some(Bytes::from_static(b"n")),
        }),
        Command::Due(vec![ChainId(3)]),
        Command::Claim(hold.clone()),
        Command::Beat(hold.clone()),
        Command::End(end(Finding::Failed(("C".to_owned(), "m".to_owned())))),
        Command::End(end(Finding::Whole((7, "k".to_owned())))),
    ];
    for command in commands {
        let call = Call::new(
            &chain.account,
            command.clone(),
            ConsistencyOptions::default(),
        );
        let bytes = ForwardedRequest::Request(call).encode();
        let Ok(ForwardedRequest::Request(read)) = ForwardedRequest::decode(bytes) else {
            panic!("it is read");
        };
        match read.request {
            request::Request::Export(read) => assert_eq!(read, command),
            other => panic!("{other:?}"),
        }
    }
    let due = Reply::Due(Some((chain.account.clone(), Box::new(export.clone()))));
    let page = Reply::Page((vec![export.clone()], None));
    for reply in [due, page, Reply::Export(Box::new(export)), Reply::Done] {
        let told = ForwardedReply::Request(Ok(reply.into()), ReplyMetadata::default());
        let bytes = told.encode(fader_chain::Version::FOURTH);
        assert_eq!(ForwardedReply::decode(bytes), Ok(told));
    }
    let refused = ForwardedReply::Request(Err(Error::not_yours().into()), ReplyMetadata::default());
    let bytes = refused.encode(fader_chain::Version::FOURTH);
    assert_eq!(ForwardedReply::decode(bytes), Ok(refused));
}
