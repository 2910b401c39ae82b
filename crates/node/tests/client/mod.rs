//! A client of a node: what it asks for, and what it is told.

#![allow(dead_code, reason = "each file of tests asks for a part of it")]

use std::time::Duration;

use fader_chain::RequestId;
use fader_node::{Call, ClusterSettings, MemberStatus, Node, Settings, Wiring};
use fader_services::Mode;
use fader_services::catalog::AccountId;
use fader_services::level::{ConsistencyOptions, Level, ReplyMetadata};
use fader_services::request;
use fader_services::simpledb::{AttributePut, Error, ItemPut, Limits, Reply, Request};

use crate::asking::Ask as _;

/// What a test waits for at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(1);
/// The time of a session. It outlasts a test: members are given up when that moves the clock, and
/// not when the machine is slow.
pub(crate) const SESSION: Duration = Duration::from_secs(600);
/// Longer than the time between two pings.
pub(crate) const PING: Duration = Duration::from_secs(SESSION.as_secs() / 8);
/// A member whose session is over hears of that in this time, gets another one, and pings.
pub(crate) const RETURN: Duration = Duration::from_secs(SESSION.as_secs() / 2);
/// Longer than any test moves the clock.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

pub(crate) fn alone(folder: &tempfile::TempDir, limits: Limits) -> Node {
    let settings = Settings {
        limits: request::Limits {
            simpledb: limits,
            ..request::Limits::default()
        },
        ..Settings::new(folder.path().to_owned())
    };
    Node::open(settings).unwrap().0
}

/// Three members, none of which is given up or slow before the test says so.
pub(crate) fn three(folder: &tempfile::TempDir, wiring: Wiring) -> Node {
    let settings = ClusterSettings {
        size: 3,
        wiring,
        session: SESSION,
        delay: Duration::ZERO,
        member: Settings {
            slow_after: 2 * SESSION,
            safe_point_interval: DAY,
            ..Settings::new(folder.path().to_owned())
        },
    };
    Node::open_cluster(settings, |_| {}).unwrap()
}

pub(crate) async fn create_domain(node: &Node, domain: &str, mode: Mode) {
    let request = Request::CreateDomain {
        domain: domain.to_owned(),
        mode: Some(mode),
        preference: None,
    };
    write(node, request, ConsistencyOptions::default())
        .await
        .unwrap();
}

pub(crate) fn put(domain: &str, item: &str, value: &str) -> Request {
    let attribute = AttributePut {
        name: Some("a".to_owned()),
        value: Some(value.to_owned()),
        replace: false,
    };
    Request::PutAttributes {
        domain: domain.to_owned(),
        put: ItemPut {
            item: Some(item.to_owned()),
            attributes: vec![attribute],
        },
        expected: Vec::new(),
    }
}

pub(crate) async fn write(
    node: &Node,
    request: Request,
    consistency: ConsistencyOptions,
) -> Result<ReplyMetadata, Error> {
    let (outcome, metadata) = node.ask(Call::new(&account(), request, consistency)).await;
    outcome.map(|_| metadata)
}

/// The values of an item, and what is told of them.
pub(crate) async fn get(
    node: &Node,
    domain: &str,
    item: &str,
    consistency: ConsistencyOptions,
) -> (Vec<String>, ReplyMetadata) {
    let request = read_of(domain, item);
    let (answered, metadata) = node.ask(Call::new(&account(), request, consistency)).await;
    (values_of(answered.unwrap().reply), metadata)
}

/// A read of all of an item, of the level that the request is told.
pub(crate) fn read_of(domain: &str, item: &str) -> Request {
    Request::GetAttributes {
        domain: domain.to_owned(),
        item: item.to_owned(),
        names: Vec::new(),
        consistent: false,
    }
}

/// The values that a read shows.
pub(crate) fn values_of(reply: Reply) -> Vec<String> {
    let Reply::Attributes(pairs) = reply else {
        panic!("attributes are asked");
    };
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    pairs.iter().map(|pair| text(&pair.value)).collect()
}

pub(crate) async fn values(
    node: &Node,
    domain: &str,
    item: &str,
    consistency: ConsistencyOptions,
) -> Vec<String> {
    get(node, domain, item, consistency).await.0
}

/// The items that a Select finds.
pub(crate) async fn select(
    node: &Node,
    expression: &str,
    consistency: ConsistencyOptions,
) -> (Vec<String>, ReplyMetadata) {
    let request = Request::Select {
        expression: expression.to_owned(),
        next_token: None,
        consistent: false,
    };
    let (answered, metadata) = node.ask(Call::new(&account(), request, consistency)).await;
    let answered = answered.unwrap();
    let Reply::Items { items, .. } = answered.reply else {
        panic!("items are asked");
    };
    let names = items
        .into_iter()
        .map(|item| String::from_utf8(item.name.to_vec()).unwrap());
    (names.collect(), metadata)
}

pub(crate) fn strong() -> ConsistencyOptions {
    ConsistencyOptions {
        level: Level::Strong,
        ..ConsistencyOptions::default()
    }
}

pub(crate) fn eventual(r: u8, w: u8) -> ConsistencyOptions {
    ConsistencyOptions {
        level: Level::Eventual {
            r,
            w,
            sloppy: false,
        },
        ..ConsistencyOptions::default()
    }
}

pub(crate) fn barrier() -> ConsistencyOptions {
    ConsistencyOptions {
        level: Level::Barrier,
        ..ConsistencyOptions::default()
    }
}

/// The reply waits until the write is settled.
pub(crate) fn settled(consistency: ConsistencyOptions) -> ConsistencyOptions {
    ConsistencyOptions {
        outcome: true,
        ..consistency
    }
}

pub(crate) fn named(seq: u64, consistency: ConsistencyOptions) -> ConsistencyOptions {
    ConsistencyOptions {
        request: Some(RequestId {
            client: 7_u128.into(),
            seq,
            part: 0,
        }),
        ..consistency
    }
}

/// Kills a member, whose session is over at once.
pub(crate) fn kill(node: &Node, name: &str) {
    let cluster = node.cluster().unwrap();
    cluster.kill(name).unwrap();
    cluster.end_session(name).unwrap();
}

/// Waits until all members serve, and know it.
pub(crate) async fn whole(node: &Node) {
    serve(node, &["n1", "n2", "n3"]).await;
}

/// Waits until these members serve and know it, and no other has a place.
pub(crate) async fn serve(node: &Node, names: &[&str]) {
    let cluster = node.cluster().unwrap();
    let is_so = || {
        let (newest, members) = cluster.status();
        let epoch = newest.map(|newest| newest.epoch);
        let is_as_said = |member: &MemberStatus| match names.contains(&&*member.name) {
            true => matches!(member.role, Some("head" | "serving")) && Some(member.epoch) == epoch,
            false => member.role.is_none(),
        };
        members.iter().all(is_as_said)
    };
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(LOOK).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "not {names:?}: {:?}", cluster.status());
}

/// The epoch of the newest configuration.
pub(crate) fn epoch(node: &Node) -> u64 {
    node.cluster().unwrap().status().0.unwrap().epoch
}

/// Which member alone takes what any may.
pub(crate) fn ask_only(node: &Node, name: &str) {
    node.cluster().unwrap().ask_only(Some(name)).unwrap();
}

/// Members take it in turn.
pub(crate) fn ask_any(node: &Node) {
    node.cluster().unwrap().ask_only(None).unwrap();
}

/// Cuts n3 off from the others and the coordinator.
pub(crate) fn cut_off_n3(node: &Node) {
    let sides = [
        vec!["n1".to_owned(), "n2".to_owned()],
        vec!["n3".to_owned()],
    ];
    node.cluster().unwrap().partition(&sides).unwrap();
}
