//! A second service on real nodes: counters wait, move between chains, come and go. No file of the
//! node or the chain names them (docs/internals/decisions/0012-counter.md).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "counter/figures.rs"]
mod figures;
#[path = "counter/kills.rs"]
mod kills;
mod processes;

use std::path::Path;
use std::time::{Duration, SystemTime};

use fader_node::coordinator::{ZooKeeperCoordinator, ZooKeeperSettings};
use fader_node::{Call, ChainId, EngineLayer, Node, Settings, Version};
use fader_services::catalog::{AccountId, Name};
use fader_services::counter::{Counter, Refusal, Reply, Request};
use fader_services::level::ConsistencyOptions;
use fader_services::request::own;
use fader_services::service::WAIT_MAX;
use fader_services::{Kind, Reason};

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(120);
/// A busy machine is not to end a session.
const SESSION: Duration = Duration::from_secs(30);
const MUCH: u64 = 1 << 40;

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

async fn ask(node: &Node, request: Request) -> Result<Reply, Refusal> {
    let call = Call::new(&account(), request, ConsistencyOptions::default());
    own::<Counter>(node.call(call).await.0)
}

async fn create(node: &Node, name: &str) {
    let created = ask(node, Request::Create(name.to_owned())).await;
    assert_eq!(created, Ok(Reply::Done));
}

async fn add(node: &Node, name: &str, by: u64) -> Result<Reply, Refusal> {
    let name = name.to_owned();
    let limit = MUCH;
    ask(node, Request::Add { name, by, limit }).await
}

async fn value(node: &Node, name: &str) -> Result<Reply, Refusal> {
    ask(node, Request::Read(name.to_owned())).await
}

/// A wait for so much, for so long.
fn wait(name: &str, least: u64, time: Duration) -> Request {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Request::Wait {
        name: name.to_owned(),
        least,
        until_ms: (now.unwrap() + time).as_millis() as u64,
    }
}

fn role_change(name: &str, to: &str, by: u64) -> Request {
    Request::Move {
        name: name.to_owned(),
        to: to.to_owned(),
        by,
        limit: MUCH,
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "{what}");
}

async fn waiting_are(nodes: &[Node], count: u64) {
    let waiting = || nodes.iter().map(|node| node.counters().parked).sum::<u64>();
    until("so many wait", async || waiting() == count).await;
}

fn alone(folder: &tempfile::TempDir) -> Node {
    Node::open(Settings::new(folder.path().to_owned()))
        .unwrap()
        .0
}

/// Two processes with two chains of data of two members.
struct Pair {
    nodes: Vec<Node>,
    place: ZooKeeperSettings,
    _folder: tempfile::TempDir,
}

async fn join(place: &ZooKeeperSettings, folder: &Path, name: &str, layer: EngineLayer) -> Node {
    let member = Settings {
        slow_after: SESSION,
        engine_layer: layer,
        ..Settings::new(folder.join(name))
    };
    processes::join(place, folder, name, Version::NEWEST, member, |_, _| {}).await
}

async fn two(version: Version, layer: EngineLayer) -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let names = ["n1", "n2"];
    let place = processes::found(folder.path(), version, &names, 2, SESSION);
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(join(&place, folder.path(), name, layer.clone()).await);
    }
    for node in &nodes {
        node.ready().await.unwrap();
    }
    Pair {
        nodes,
        place,
        _folder: folder,
    }
}

impl Pair {
    /// Creates counters, the first two of which are on different chains, with this much in the
    /// first.
    async fn counters(&self, names: [&str; 2], much: u64) {
        let mut chains = Vec::new();
        for name in names {
            create(&self.nodes[0], name).await;
            let owner = account();
            let name = Name::new(Kind::Counter, &owner, name);
            chains.push(self.nodes[1].chain_with(name).await.unwrap());
        }
        chains.sort_unstable();
        assert_eq!(chains, [ChainId(1), ChainId(2)]);
        let added = add(&self.nodes[1], names[0], much).await;
        assert_eq!(added, Ok(Reply::Value(much)));
    }

    async fn close(self) {
        for node in &self.nodes {
            node.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_counter_lives_on_a_lone_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder);
    assert_eq!(add(&node, "a", 1).await, Err(Refusal::NoCounter));
    create(&node, "a").await;
    create(&node, "a").await;
    create(&node, "b").await;
    assert_eq!(add(&node, "a", 5).await, Ok(Reply::Value(5)));
    let moved = ask(&node, role_change("a", "b", 3)).await;
    assert_eq!(moved, Ok(Reply::Value(2)));
    let refused = ask(&node, role_change("a", "b", 3)).await;
    assert_eq!(refused, Err(Refusal::Value(2)));
    let nowhere = ask(&node, role_change("a", "c", 1)).await;
    assert_eq!(nowhere, Err(Refusal::NotMoved));
    node.close().await;
    drop(node);
    let node = alone(&folder);
    assert_eq!(value(&node, "a").await, Ok(Reply::Value(2)));
    assert_eq!(value(&node, "b").await, Ok(Reply::Value(3)));
    assert_eq!(
        ask(&node, Request::Delete("a".to_owned())).await,
        Ok(Reply::Done)
    );
    assert_eq!(value(&node, "a").await, Err(Refusal::NoCounter));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiters_are_served_in_order_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder);
    create(&node, "a").await;
    let mut waits = Vec::new();
    for least in [1, 2, 2, 3] {
        let node = node.clone();
        waits.push(tokio::spawn(async move {
            ask(&node, wait("a", least, WAIT_MAX / 2)).await
        }));
    }
    waiting_are(std::slice::from_ref(&node), 4).await;
    add(&node, "a", 1).await.unwrap();
    assert_eq!(waits.remove(0).await.unwrap(), Ok(Reply::Value(1)));
    waiting_are(std::slice::from_ref(&node), 3).await;
    add(&node, "a", 1).await.unwrap();
    for wait in waits.drain(..2) {
        assert_eq!(wait.await.unwrap(), Ok(Reply::Value(2)));
    }
    // Its collection goes: so does what it waits for.
    ask(&node, Request::Delete("a".to_owned())).await.unwrap();
    let last = waits.remove(0).await.unwrap();
    assert_eq!(last, Err(Refusal::NoCounter));
    waiting_are(std::slice::from_ref(&node), 0).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wait_ends_at_its_deadline_and_never_begins_beyond_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder);
    create(&node, "a").await;
    let short = ask(&node, wait("a", 1, Duration::from_millis(30))).await;
    assert_eq!(short, Ok(Reply::Value(0)));
    let past = wait("a", 1, Duration::ZERO);
    assert_eq!(ask(&node, past).await, Ok(Reply::Value(0)));
    let long = ask(&node, wait("a", 1, WAIT_MAX * 2)).await;
    let Err(Refusal::Failed(why)) = long else {
        panic!("{long:?}");
    };
    assert_eq!(why.reason(), Reason::WaitTooLong);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_hangs_up_leaves_nothing_behind() {
    let pair = two(Version::NEWEST, EngineLayer::default()).await;
    pair.counters(["a", "b"], 1).await;
    // One of the two nodes is not the head of the chain: it hands the request on.
    let mut waits = Vec::new();
    for node in pair.nodes.clone() {
        waits.push(tokio::spawn(async move {
            ask(&node, wait("a", 9, WAIT_MAX / 2)).await
        }));
    }
    waiting_are(&pair.nodes, 2).await;
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    waiting_are(&pair.nodes, 0).await;
    // And one that stays is served from wherever it asks.
    for node in pair.nodes.clone() {
        waits.push(tokio::spawn(async move {
            ask(&node, wait("a", 2, WAIT_MAX / 2)).await
        }));
    }
    waiting_are(&pair.nodes, 2).await;
    add(&pair.nodes[0], "a", 1).await.unwrap();
    for wait in waits.drain(2..) {
        assert_eq!(wait.await.unwrap(), Ok(Reply::Value(2)));
    }
    // A node that ends hangs up too.
    let last = pair.nodes[1].clone();
    let ends = tokio::spawn(async move { ask(&last, wait("a", 9, WAIT_MAX / 2)).await });
    waiting_are(&pair.nodes, 1).await;
    pair.nodes[1].close().await;
    ends.abort();
    waiting_are(&pair.nodes[..1], 0).await;
    pair.nodes[0].close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_unknown_to_an_older_cluster_are_refused() {
    let pair = two(Version(3), EngineLayer::default()).await;
    let refused = ask(&pair.nodes[0], Request::Create("a".to_owned())).await;
    // Both processes speak version 4, so the cluster's version rises by itself.
    match refused {
        Err(Refusal::Failed(why)) => assert_eq!(why.reason(), Reason::ClusterOld),
        other => assert_eq!(other, Ok(Reply::Done)),
    }
    until("the version rises", async || {
        ask(&pair.nodes[1], Request::Create("a".to_owned())).await == Ok(Reply::Done)
    })
    .await;
    pair.close().await;
}
