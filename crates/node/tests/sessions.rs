//! Sessions through the handle of a node: what a token is good for, at any member.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod client;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use fader_node::{Call, Node, Wiring};
use fader_services::catalog::AccountId;
use fader_services::level::{
    self, Cause, ConsistencyOptions, Level, Outcome, Outcomes, ReplyMetadata,
};
use fader_services::simpledb::{Code, Error, Expected, Limits, Reply, Request};

use asking::Ask as _;
use fader_services::Mode;

use client::*;

/// A client that hands each reply's token to the next request.
struct Session<'n> {
    node: &'n Node,
    token: Bytes,
}

impl<'n> Session<'n> {
    fn begin(node: &'n Node) -> Self {
        let token = Bytes::new();
        Session { node, token }
    }

    async fn ask(
        &mut self,
        request: Request,
        consistency: ConsistencyOptions,
    ) -> (Result<Reply, Error>, ReplyMetadata) {
        let consistency = ConsistencyOptions {
            session: Some(self.token.clone()),
            ..consistency
        };
        let (outcome, told) = self
            .node
            .ask(Call::new(&account(), request, consistency))
            .await;
        self.token = told.session.clone().unwrap();
        (outcome.map(|answered| answered.reply), told)
    }

    async fn write(&mut self, request: Request, consistency: ConsistencyOptions) -> ReplyMetadata {
        let (outcome, told) = self.ask(request, consistency).await;
        outcome.unwrap();
        told
    }

    async fn try_values(
        &mut self,
        domain: &str,
        item: &str,
        consistency: ConsistencyOptions,
    ) -> (Result<Vec<String>, Error>, ReplyMetadata) {
        let (outcome, told) = self.ask(read_of(domain, item), consistency).await;
        (outcome.map(values_of), told)
    }

    async fn values(
        &mut self,
        domain: &str,
        item: &str,
        consistency: ConsistencyOptions,
    ) -> Vec<String> {
        self.try_values(domain, item, consistency).await.0.unwrap()
    }
}

#[tokio::test]
async fn a_strong_read_of_a_session_shows_what_it_wrote_eventually() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "carts", Mode::Mixed).await;
    let mut session = Session::begin(&node);
    for number in 0..10 {
        let item = format!("i{number}");
        let told = session.write(put("carts", &item, "1"), eventual(1, 1));
        assert!(told.await.tentative);
        // It is not settled yet: the read waits until it is.
        assert_eq!(session.values("carts", &item, strong()).await, ["1"]);
        let default = session
            .values("carts", &item, ConsistencyOptions::default())
            .await;
        assert_eq!(default, ["1"]);
    }
    node.close().await;
}

#[tokio::test]
async fn a_token_is_its_accounts_own() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "carts", Mode::Mixed).await;
    let mut session = Session::begin(&node);
    session.write(put("carts", "i", "1"), eventual(1, 1)).await;
    let create = Request::CreateDomain {
        domain: "theirs".to_owned(),
        mode: None,
        preference: None,
    };
    let other = AccountId("000000000002".to_owned());
    let with = |token: Bytes| ConsistencyOptions {
        session: Some(token),
        ..ConsistencyOptions::default()
    };
    let (refused, told) = node
        .ask(Call::new(
            &other,
            create.clone(),
            with(session.token.clone()),
        ))
        .await;
    assert_eq!(refused.unwrap_err().code, Code::InvalidParameterValue);
    assert_eq!(told, ReplyMetadata::default());
    let mut forged = session.token.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    for token in [Bytes::from(forged), Bytes::from_static(b"no token")] {
        let (refused, _) = node
            .ask(Call::new(&account(), create.clone(), with(token)))
            .await;
        assert_eq!(refused.unwrap_err().code, Code::InvalidParameterValue);
    }
    // Nothing was done.
    let metadata = Request::DomainMetadata {
        domain: "theirs".to_owned(),
    };
    for account in [&account(), &other] {
        let (missing, _) = node
            .ask(Call::new(
                account,
                metadata.clone(),
                ConsistencyOptions::default(),
            ))
            .await;
        assert_eq!(missing.unwrap_err().code, Code::NoSuchDomain);
    }
    node.close().await;
}

#[tokio::test]
async fn a_refusal_goes_on_with_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "orders", Mode::Strong).await;
    let mut session = Session::begin(&node);
    let Request::PutAttributes { domain, put, .. } = put("orders", "i", "1") else {
        panic!("it is a put");
    };
    let expected = vec![Expected {
        name: Some("a".to_owned()),
        value: Some("0".to_owned()),
        exists: None,
    }];
    let conditional = Request::PutAttributes {
        domain,
        put,
        expected,
    };
    let before = session.token.clone();
    let (refused, told) = session
        .ask(conditional, ConsistencyOptions::default())
        .await;
    assert_eq!(refused.unwrap_err().code, Code::AttributeDoesNotExist);
    let token = told.session.unwrap();
    assert!(!token.is_empty() && token != before);
    node.close().await;
}

#[tokio::test]
async fn a_token_names_what_is_not_settled_and_no_more_than_it_has_room_for() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "carts", Mode::Mixed).await;
    let mut session = Session::begin(&node);
    for size in [1, 1_000] {
        for number in 0..40 {
            let item = format!("{number}-{}", "i".repeat(size));
            session
                .write(put("carts", &item, "1"), eventual(1, 1))
                .await;
            assert!(session.token.len() < 16 << 10);
        }
        for number in 0..40 {
            let item = format!("{number}-{}", "i".repeat(size));
            assert_eq!(session.values("carts", &item, strong()).await, ["1"]);
        }
    }
    node.close().await;
}

#[tokio::test]
async fn a_session_is_told_what_was_not_applied_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        domain_pairs: 1,
        ..Limits::default()
    };
    let node = alone(&folder, limits);
    create_domain(&node, "carts", Mode::Mixed).await;
    let (mut one, mut other) = (Session::begin(&node), Session::begin(&node));
    // Both are accepted: they are judged by committed counters.
    tokio::join!(
        one.write(put("carts", "i", "1"), eventual(1, 1)),
        other.write(put("carts", "j", "1"), named(1, eventual(1, 1))),
    );
    let (values, told) = one.try_values("carts", "i", strong()).await;
    assert_eq!(values.unwrap(), ["1"]);
    assert_eq!(told.settled, []);
    let (values, told) = other.try_values("carts", "j", strong()).await;
    assert!(values.unwrap().is_empty());
    let cause = Cause::Limit(Code::NumberDomainAttributesExceeded);
    let [notice] = told.settled[..] else {
        panic!("one write is told of: {told:?}");
    };
    let name = named(1, strong()).request.unwrap();
    assert_eq!(level::show_name(&notice.name), level::show_name(&name));
    assert_eq!(notice.outcome, Outcome::Superseded(Some(cause)));
    // Once.
    let (_, told) = other.try_values("carts", "j", strong()).await;
    assert_eq!(told.settled, []);
    node.close().await;
}

const APART: [&[&str]; 3] = [&["n1"], &["n2"], &["n3"]];

fn part(node: &Node) {
    let sides = APART.map(|side| side.iter().map(|name| (*name).to_owned()).collect());
    node.cluster().unwrap().partition(&sides).unwrap();
}

/// Three members that serve. Apart, they stay as they are.
async fn three_that_stay(folder: &tempfile::TempDir) -> Node {
    let node = three(folder, Wiring::Star);
    node.ready().await.unwrap();
    create_domain(&node, "carts", Mode::Mixed).await;
    whole(&node).await;
    node
}

/// Each member is cut off from the others, and n2 takes a write of the session.
async fn write_at_n2(session: &mut Session<'_>, item: &str) {
    part(session.node);
    ask_only(session.node, "n2");
    let told = session.write(put("carts", item, "1"), eventual(1, 1)).await;
    assert_eq!(told.stamp.unwrap().node, 2);
    ask_any(session.node);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_lags_waits_for_what_a_session_has_seen() {
    let folder = tempfile::tempdir().unwrap();
    let node = three_that_stay(&folder).await;
    let mut session = Session::begin(&node);
    write_at_n2(&mut session, "i").await;
    for (name, expected) in [("n1", None), ("n2", Some("1")), ("n3", None)] {
        ask_only(&node, name);
        let shown = values(&node, "carts", "i", eventual(1, 1)).await;
        assert_eq!(shown, Vec::from_iter(expected), "{name}");
    }
    ask_any(&node);
    for _member in 0..3 {
        let followed = session.values("carts", "i", eventual(1, 1)).await;
        assert_eq!(followed, ["1"]);
    }
    session.write(put("carts", "i", "2"), eventual(1, 1)).await;
    node.cluster().unwrap().heal();
    for name in ["n1", "n2", "n3"] {
        ask_only(&node, name);
        let both = session.values("carts", "i", eventual(1, 1)).await;
        assert_eq!(both, ["1", "2"], "{name}");
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_told_that_what_it_wrote_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let node = three_that_stay(&folder).await;
    let mut session = Session::begin(&node);
    write_at_n2(&mut session, "i").await;
    kill(&node, "n2");
    node.cluster().unwrap().heal();
    serve(&node, &["n1", "n3"]).await;
    for level in [strong(), eventual(1, 1)] {
        let mut copy = Session {
            token: session.token.clone(),
            ..session
        };
        let gone = copy.try_values("carts", "i", level.clone()).await.0;
        let gone = gone.unwrap_err();
        assert_eq!(gone.code, Code::TentativeValueLost, "{gone}");
        // The next token goes on without it.
        let values = copy.try_values("carts", "i", level).await.0.unwrap();
        assert!(values.is_empty());
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_missed_its_quorum_is_named_by_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let node = three_that_stay(&folder).await;
    let mut session = Session::begin(&node);
    // The token of a session that has seen something, and nothing unsettled.
    session.values("carts", "i", strong()).await;
    let before = session.token.len();
    cut_off_n3(&node);
    ask_only(&node, "n1");
    let asking = session.ask(put("carts", "i", "1"), eventual(1, 3));
    let given_up = async {
        while values(&node, "carts", "i", eventual(1, 1)).await != ["1"] {
            tokio::time::sleep(LOOK).await;
        }
        // No other one is left that could have it.
        kill(&node, "n3");
    };
    let ((missed, _), ()) = tokio::join!(asking, given_up);
    assert_eq!(missed.unwrap_err().code, Code::ServiceUnavailable);
    ask_any(&node);
    node.cluster().unwrap().heal();
    node.cluster().unwrap().restart("n3").unwrap();
    whole(&node).await;
    assert!(before < session.token.len());
    assert_eq!(session.values("carts", "i", strong()).await, ["1"]);
    node.close().await;
}

/// A put that leaves no other value of its attribute.
fn replace(item: &str, value: &str) -> Request {
    let mut request = put("carts", item, value);
    if let Request::PutAttributes { put, .. } = &mut request {
        put.attributes[0].replace = true;
    }
    request
}

/// The head alone knows of a strong write, and so of the version that a first write there is based
/// on. `follows` is of the same session, or of one that has read the first; it is taken elsewhere.
async fn is_above_what_was_seen_elsewhere(is_written: bool) {
    let folder = tempfile::tempdir().unwrap();
    let node = three_that_stay(&folder).await;
    let before = epoch(&node);
    let (mut one, mut other) = (Session::begin(&node), Session::begin(&node));
    part(&node);
    let mut unknown = Box::pin(write(&node, replace("i", "0"), strong()));
    // It is in the head's queue now, and cannot be confirmed.
    let pending = tokio::time::timeout(Duration::ZERO, &mut unknown).await;
    assert!(pending.is_err());
    ask_only(&node, "n1");
    let first = one.write(replace("i", "1"), eventual(1, 1)).await.stamp;
    assert_eq!(first.map(|stamp| stamp.node), Some(1));
    if !is_written {
        assert_eq!(other.values("carts", "i", eventual(1, 1)).await, ["1"]);
    }
    ask_only(&node, "n2");
    let session = if is_written { &mut one } else { &mut other };
    let second = session.write(replace("i", "2"), eventual(1, 1)).await.stamp;
    assert_eq!(second.map(|stamp| stamp.node), Some(2));
    assert_eq!(epoch(&node), before);
    ask_any(&node);
    node.cluster().unwrap().heal();
    drop(unknown.await);
    whole(&node).await;
    assert!(first < second);
    for session in [&mut one, &mut other] {
        assert_eq!(session.values("carts", "i", barrier()).await, ["2"]);
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_writes_above_what_it_wrote_elsewhere() {
    is_above_what_was_seen_elsewhere(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_writes_above_what_it_read_elsewhere() {
    is_above_what_was_seen_elsewhere(false).await;
}

/// The wall clock that stamps are made with.
fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_told_that_another_one_stands() {
    let folder = tempfile::tempdir().unwrap();
    let node = three_that_stay(&folder).await;
    let mut late = Session::begin(&node);
    cut_off_n3(&node);
    ask_only(&node, "n3");
    let told = late
        .write(replace("i", "late"), named(1, eventual(1, 1)))
        .await;
    let stamp = told.stamp.unwrap();
    assert_eq!(stamp.node, 3);
    // Of two writes of one millisecond the one at the later member stands.
    while milliseconds() <= stamp.clock {
        tokio::time::sleep(LOOK).await;
    }
    // It is settled when the one that is cut off is given up.
    kill(&node, "n3");
    ask_only(&node, "n1");
    let stands = write(&node, replace("i", "stands"), settled(eventual(1, 1))).await;
    let stands = stands.unwrap();
    assert_eq!(stands.outcome, Some(Outcomes::single(Outcome::Applied)));
    ask_any(&node);
    node.cluster().unwrap().heal();
    node.cluster().unwrap().restart("n3").unwrap();
    whole(&node).await;
    let (values, told) = late.try_values("carts", "i", strong()).await;
    assert_eq!(values.unwrap(), ["stands"]);
    let [notice] = told.settled[..] else {
        panic!("one write is told of: {told:?}");
    };
    let name = named(1, strong()).request.unwrap();
    assert_eq!(level::show_name(&notice.name), level::show_name(&name));
    assert_eq!(notice.outcome, Outcome::Superseded(None));
    // Under its name, too.
    let again = named(1, settled(eventual(1, 1)));
    let again = write(&node, replace("i", "late"), again).await.unwrap();
    let superseded = Outcomes::single(Outcome::Superseded(None));
    assert_eq!(again.outcome, Some(superseded));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sloppy_write_without_a_lease_is_detached() {
    let folder = tempfile::tempdir().unwrap();
    let node = three_that_stay(&folder).await;
    let before = epoch(&node);
    let sloppy = ConsistencyOptions {
        level: Level::Eventual {
            r: 1,
            w: 1,
            sloppy: true,
        },
        ..ConsistencyOptions::default()
    };
    cut_off_n3(&node);
    ask_only(&node, "n3");
    let detached = Some(Outcomes::single(Outcome::Detached));
    for (time, expected) in [(Duration::ZERO, None), (SESSION / 2, detached)] {
        // Its lease ends before it is given up.
        node.cluster().unwrap().advance(time);
        let told = write(&node, replace("i", "1"), sloppy.clone())
            .await
            .unwrap();
        assert_eq!(told.stamp.map(|stamp| stamp.node), Some(3));
        assert_eq!(told.outcome, expected, "{time:?}");
        assert_eq!(epoch(&node), before);
    }
    node.close().await;
}

/// Read your writes, through the death of each member in turn.
async fn follows_through_deaths(wiring: Wiring) {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, wiring);
    node.ready().await.unwrap();
    create_domain(&node, "carts", Mode::Mixed).await;
    let mut session = Session::begin(&node);
    let mut expected = Vec::new();
    for (number, victim) in ["n1", "n2", "n3"].into_iter().enumerate() {
        let (strongly, eventually) = (format!("{number}s"), format!("{number}w"));
        let writes = [(&strongly, strong()), (&eventually, eventual(1, 2))];
        for (value, level) in writes {
            session.write(put("carts", "i", value), level).await;
        }
        expected.extend([strongly, eventually]);
        let cluster = node.cluster().unwrap();
        cluster.kill(victim).unwrap();
        cluster.advance(SESSION);
        for level in [
            eventual(1, 1),
            strong(),
            ConsistencyOptions::default(),
            eventual(1, 1),
        ] {
            assert_eq!(session.values("carts", "i", level).await, expected);
        }
        cluster.restart(victim).unwrap();
        whole(&node).await;
        for _member in 0..3 {
            let read = session.values("carts", "i", eventual(1, 1));
            assert_eq!(read.await, expected);
        }
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_members_of_a_star() {
    follows_through_deaths(Wiring::Star).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_members_of_a_chain() {
    follows_through_deaths(Wiring::Chain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_a_session_shows_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, Wiring::Star);
    node.ready().await.unwrap();
    let mut session = Session::begin(&node);
    for number in 0..20 {
        let domain = format!("carts{number}");
        let create = Request::CreateDomain {
            domain: domain.clone(),
            mode: Some(Mode::Mixed),
            preference: None,
        };
        session.write(create, ConsistencyOptions::default()).await;
        session.write(put(&domain, "i", "1"), eventual(1, 1)).await;
        for level in [Level::EVENTUAL, Level::Strong] {
            let consistency = ConsistencyOptions {
                level,
                ..ConsistencyOptions::default()
            };
            let select = Request::Select {
                expression: format!("select * from {domain} where a = '1'"),
                next_token: None,
                consistent: false,
            };
            let (found, _) = session.ask(select, consistency).await;
            let Reply::Items { items, .. } = found.unwrap() else {
                panic!("items are asked");
            };
            assert_eq!(items.len(), 1, "{domain} {level:?}");
        }
    }
    node.close().await;
}
