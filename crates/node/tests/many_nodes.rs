//! Six processes, of which five have the system chain: the sixth serves every name, key and object.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "buckets/mod.rs"]
mod asked;
mod processes;

use std::time::Duration;

use asked::{BLOCK, bytes_of, find, put, read};
use fader_chain::placement::layout::SYSTEM_NODES_MAX;
use fader_node::coordinator::{ClusterStatus, ZooKeeperCoordinator, ZooKeeperSettings};
use fader_node::{ChainId, KnownKey, Node, Secret, Settings, Version};
use fader_services::Kind;
use fader_services::catalog::{AccountId, Command, KeyNature, KeyStatus, Name};
use fader_services::counter::{Counter, Refusal, Reply, Request};
use fader_services::level::ConsistencyOptions;
use fader_services::request::own;

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(240);
/// A busy machine is not to end a session.
const SESSION: Duration = Duration::from_secs(20);
const NAMES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
/// The node that the system chain leaves.
const WITHOUT: usize = 5;

struct World {
    nodes: Vec<Node>,
    place: ZooKeeperSettings,
    folder: tempfile::TempDir,
}

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

async fn ask(node: &Node, request: Request) -> Result<Reply, Refusal> {
    let call = fader_node::Call::new(&account(), request, ConsistencyOptions::default());
    own::<Counter>(node.call(call).await.0)
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "{what}");
}

impl World {
    /// One chain of data, with members on two of the nodes.
    async fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        let place = processes::found(folder.path(), Version::NEWEST, &NAMES, 1, SESSION);
        let mut world = World {
            nodes: Vec::new(),
            place,
            folder,
        };
        for name in NAMES {
            world.join(name).await;
        }
        for node in &world.nodes {
            node.ready().await.unwrap();
        }
        world
    }

    async fn join(&mut self, name: &str) {
        let member = Settings {
            slow_after: SESSION,
            ..asked::settings(&self.folder)
        };
        let (place, folder) = (&self.place, self.folder.path());
        let joined = processes::join(place, folder, name, Version::NEWEST, member, |_, _| {}).await;
        self.nodes.push(joined);
    }

    async fn status(&self) -> ClusterStatus {
        let place = self.place.clone();
        let look = move || ZooKeeperCoordinator::look(&place).unwrap();
        tokio::task::spawn_blocking(look).await.unwrap()
    }

    /// Waits until the system chain has five members, all of which serve.
    async fn settles(&self) {
        until("the system chain has five members", async || {
            let status = self.status().await;
            let newest = &status.configurations[&ChainId::SYSTEM];
            let placed = status.layout.nodes(ChainId::SYSTEM).len();
            placed == SYSTEM_NODES_MAX
                && newest.members.len() == SYSTEM_NODES_MAX
                && newest.serving().count() == SYSTEM_NODES_MAX
                && !self.nodes[WITHOUT].chains_here().contains(&ChainId::SYSTEM)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_without_the_system_chain_serves_everything() {
    let world = World::start().await;
    world.settles().await;
    let (first, last) = (&world.nodes[0], &world.nodes[WITHOUT]);
    // It has a session, and can be given members: that of the chain of data is on others.
    let status = world.status().await;
    assert_eq!(status.live.len(), NAMES.len());
    last.ready().await.unwrap();

    names(first, last).await;
    keys(first, last).await;
    objects(first, last).await;
    for node in &world.nodes {
        node.close().await;
    }
}

/// A name that comes, goes, and comes again for another collection is never taken for the old one.
async fn names(first: &Node, last: &Node) {
    let name = || "a".to_owned();
    let add = |by| Request::Add {
        name: name(),
        by,
        limit: 1 << 40,
    };
    assert_eq!(ask(last, Request::Create(name())).await, Ok(Reply::Done));
    assert_eq!(ask(last, add(5)).await, Ok(Reply::Value(5)));
    assert_eq!(ask(first, Request::Read(name())).await, Ok(Reply::Value(5)));
    assert_eq!(ask(first, Request::Delete(name())).await, Ok(Reply::Done));
    assert_eq!(
        ask(last, Request::Read(name())).await,
        Err(Refusal::NoCounter)
    );
    assert_eq!(ask(first, Request::Create(name())).await, Ok(Reply::Done));
    assert_eq!(ask(last, Request::Read(name())).await, Ok(Reply::Value(0)));
    let (owner, name) = (account(), name());
    let name = Name::new(Kind::Counter, &owner, &name);
    assert_eq!(last.chain_with(name).await, Ok(ChainId(1)));
}

/// CATALOG-2: a key works as soon as it was created, and not for ever after it was disabled.
async fn keys(first: &Node, last: &Node) {
    let made = first
        .create_key(&account(), None, "", KeyNature::default())
        .await;
    let id = made.unwrap().key.id;
    assert!(matches!(last.known_key(&id), Ok(KnownKey::Elsewhere)));
    let open = last.open_key(&id).await.unwrap().unwrap();
    assert_eq!(open.key.status, KeyStatus::Active);
    assert!(matches!(last.known_key(&id), Ok(KnownKey::Key(_))));
    absent_keys(first, last).await;
    assert_eq!(last.keys().await.unwrap(), first.keys().await.unwrap());
    let status = KeyStatus::Disabled;
    let disable = Command::SetKeyStatus {
        id: id.clone(),
        status,
    };
    first.catalog(disable).await.unwrap();
    until("the key is disabled at the last node", async || {
        let known = last.open_key(&id).await.unwrap().unwrap();
        known.key.status == KeyStatus::Disabled
    })
    .await;
    let rotated = last.rotate_key(&id).await.unwrap();
    let open = first.open_key(&rotated.key.id).await.unwrap().unwrap();
    assert_eq!(open.key.status, KeyStatus::Active);
}

/// CATALOG-3: an id without a key is asked for once. A key that gets the id works within S, and at
/// once where it is made.
async fn absent_keys(first: &Node, last: &Node) {
    let pair = |id: &str| Some((id.to_owned(), Secret::new("a-secret-of-a-test".to_owned())));
    for (id, node) in [("AKIANONE", first), ("AKIANONETOO", last)] {
        assert!(matches!(last.known_key(id), Ok(KnownKey::Elsewhere)));
        assert!(last.open_key(id).await.unwrap().is_none());
        assert!(matches!(last.known_key(id), Ok(KnownKey::None)));
        let nature = KeyNature::default();
        let made = node.create_key(&account(), pair(id), "", nature).await;
        assert_eq!(made.unwrap().key.id, id);
    }
    assert!(last.open_key("AKIANONETOO").await.unwrap().is_some());
    until("the new key works at the last node", async || {
        last.open_key("AKIANONE").await.unwrap().is_some()
    })
    .await;
}

/// Bytes that come to a node without the chain of buckets are stored there, and read from there.
async fn objects(first: &Node, last: &Node) {
    asked::create(last).await.unwrap();
    let owner = last.bucket_owner(asked::B).await.unwrap();
    assert_eq!(owner, Some(account()));
    let bytes = bytes_of(7, 3 * BLOCK + 5);
    put(last, "k", &bytes).await.unwrap();
    for node in [last, first] {
        let found = find(node, "k", 0).await.unwrap();
        assert!(read(node, "k", found).await.unwrap() == bytes);
    }
}
