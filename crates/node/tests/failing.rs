//! One chain of several fails alone. A panic in the thread of a member ends that member, and no
//! request of another chain is refused for it.
//!
//! The panics come from a layer over the engines (`Settings::engine_layer`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod client;
mod processes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fader_chain::{ChainId, EntryId, RangeContent};
use fader_node::coordinator::{ClusterStatus, ZooKeeperCoordinator, ZooKeeperSettings};
use fader_node::engine::{Engine, EngineError, Pair, Snapshot, Tree};
use fader_node::{EngineLayer, Event, Health, Node, Settings, Version};
use fader_services::catalog::Name;
use fader_services::{Direction, Mode, Reason, Scan, View, ViewError};

use client::*;

/// Chains of data.
const CHAINS: u32 = 8;
/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(120);
/// A busy machine is not to end a session: that of a member that fails ends at once.
const SESSION: Duration = Duration::from_secs(30);
/// Part of the name of the item whose write meets the trap in a decision.
const BAIT: &[u8] = b"bait";

/// Where a chain's thread panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    Decide,
    Checkpoint,
    Apply,
    Fill,
}

/// What is armed, and the folder of the member that met it first: it meets all others.
#[derive(Default)]
struct Traps {
    armed: Mutex<Option<Site>>,
    victim: Mutex<Option<PathBuf>>,
}

impl Traps {
    fn is_armed(&self, site: Site, folder: &Path) -> bool {
        let victim = self.victim.lock().unwrap();
        *self.armed.lock().unwrap() == Some(site) && victim.as_deref().is_none_or(|it| it == folder)
    }

    fn pass(&self, site: Site, folder: &Path) {
        if std::thread::current().name() != Some("chain") || !self.is_armed(site, folder) {
            return;
        }
        *self.armed.lock().unwrap() = None;
        *self.victim.lock().unwrap() = Some(folder.to_owned());
        panic!("the trap for {site:?}");
    }

    /// Arms a trap.
    fn arm(&self, site: Site) {
        *self.armed.lock().unwrap() = Some(site);
    }

    async fn sprung(&self) {
        until("the trap is met", || self.armed.lock().unwrap().is_none()).await;
    }
}

struct Trapped {
    engine: Arc<dyn Engine>,
    folder: PathBuf,
    traps: Arc<Traps>,
}

struct TrappedView {
    view: Snapshot,
    folder: PathBuf,
    traps: Arc<Traps>,
}

fn is_bait(key: &[u8]) -> bool {
    key.windows(BAIT.len()).any(|part| part == BAIT)
}

impl View for TrappedView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        if is_bait(key) {
            self.traps.pass(Site::Decide, &self.folder);
        }
        self.view.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        self.view.scan(start, end, direction)
    }

    fn keep(&self) {
        self.view.keep();
    }
}

impl Engine for Trapped {
    fn applied(&self, tree: Tree) -> EntryId {
        self.engine.applied(tree)
    }

    fn snapshot(&self) -> Snapshot {
        Arc::new(TrappedView {
            view: self.engine.snapshot(),
            folder: self.folder.clone(),
            traps: self.traps.clone(),
        })
    }

    fn commit(&self, mutations: &[Pair<'_>], last: EntryId) -> Result<(), EngineError> {
        if mutations.iter().any(|(key, _)| is_bait(key)) {
            self.traps.pass(Site::Apply, &self.folder);
        }
        self.engine.commit(mutations, last)
    }

    fn wants_checkpoint(&self) -> bool {
        self.traps.is_armed(Site::Checkpoint, &self.folder) || self.engine.wants_checkpoint()
    }

    fn checkpoint(&self) -> Result<(), EngineError> {
        self.traps.pass(Site::Checkpoint, &self.folder);
        self.engine.checkpoint()
    }

    fn reclaim(&self, free: u64) -> Result<(), EngineError> {
        self.engine.reclaim(free)
    }

    fn end_reclaim(&self) {
        self.engine.end_reclaim();
    }

    fn durable(&self) -> Result<EntryId, EngineError> {
        self.engine.durable()
    }

    fn is_filling(&self) -> bool {
        self.engine.is_filling()
    }

    fn begin_fill(&self) -> Result<(), EngineError> {
        self.engine.begin_fill()
    }

    fn fill(&self, content: &RangeContent) -> Result<(), EngineError> {
        self.traps.pass(Site::Fill, &self.folder);
        self.engine.fill(content)
    }

    fn end_fill(&self, at: EntryId) -> Result<(), EngineError> {
        self.engine.end_fill(at)
    }

    fn disk_bytes(&self) -> u64 {
        self.engine.disk_bytes()
    }

    fn close(&self) {
        self.engine.close();
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "{what}");
}

/// What happened to members, in the order in which it did.
type Told = Arc<Mutex<Vec<(ChainId, Event)>>>;

/// Two processes of a cluster of eight chains of two members.
struct Pair2 {
    place: ZooKeeperSettings,
    nodes: Vec<Node>,
    traps: Arc<Traps>,
    told: Told,
    _folder: tempfile::TempDir,
}

async fn two() -> Pair2 {
    let folder = tempfile::tempdir().unwrap();
    let names = ["n1", "n2"];
    let place = processes::found(folder.path(), Version::NEWEST, &names, CHAINS, SESSION);
    let (traps, told) = (Arc::<Traps>::default(), Told::default());
    let mut nodes = Vec::new();
    for name in names {
        let (layer, told) = (traps.clone(), told.clone());
        let layer = EngineLayer::new(move |folder, engine| {
            Arc::new(Trapped {
                engine,
                folder: folder.to_owned(),
                traps: layer.clone(),
            })
        });
        let member = Settings {
            slow_after: SESSION,
            engine_layer: layer,
            ..Settings::new(folder.path().join(name))
        };
        let tell = move |chain, event| told.lock().unwrap().push((chain, event));
        let newest = Version::NEWEST;
        nodes.push(processes::join(&place, folder.path(), name, newest, member, tell).await);
    }
    for node in &nodes {
        node.ready().await.unwrap();
    }
    Pair2 {
        place,
        nodes,
        traps,
        told,
        _folder: folder,
    }
}

impl Pair2 {
    async fn look(&self) -> ClusterStatus {
        let place = self.place.clone();
        let look = move || ZooKeeperCoordinator::look(&place).unwrap();
        tokio::task::spawn_blocking(look).await.unwrap()
    }

    /// Waits until both members of the chain serve.
    async fn whole(&self, chain: ChainId) {
        let waiting = async {
            loop {
                let standing = self.look().await;
                let newest = standing.configurations.get(&chain);
                if newest.is_some_and(|it| it.serving().count() == 2) && standing.faults.is_empty()
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "{:?}", self.look().await);
    }

    fn has_told(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        let told = self.told.lock().unwrap();
        told.iter().filter(|(_, event)| is_it(event)).count()
    }
}

/// Writes to a domain, again and again, through both nodes; no write may be refused.
async fn write_on(node: Node, domain: String, ends: Arc<AtomicBool>, count: Arc<AtomicU64>) {
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        number += 1;
        let item = format!("i{}", number % 50);
        let request = put(&domain, &item, &number.to_string());
        let written = write(&node, replace(request), strong()).await;
        assert!(written.is_ok(), "{domain}: {written:?}");
        count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn replace(request: fader_services::simpledb::Request) -> fader_services::simpledb::Request {
    use fader_services::simpledb::Request;
    match request {
        Request::PutAttributes {
            domain,
            mut put,
            expected,
        } => {
            put.attributes.iter_mut().for_each(|it| it.replace = true);
            Request::PutAttributes {
                domain,
                put,
                expected,
            }
        }
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_eight_chains_fails_alone() {
    let pair = two().await;
    let mut domains: BTreeMap<ChainId, String> = BTreeMap::new();
    for number in 0.. {
        let domain = format!("domain{number}");
        create_domain(&pair.nodes[0], &domain, Mode::Strong).await;
        let owner = account();
        let name = Name::domain(&owner, &domain);
        let chain = pair.nodes[0].chain_with(name).await.unwrap();
        domains.entry(chain).or_insert(domain);
        if domains.len() == CHAINS as usize {
            break;
        }
        assert!(number < 200, "{domains:?}");
    }
    let (chain, domain) = domains.pop_first().unwrap();
    pair.whole(chain).await;

    let (ends, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let others = domains.into_values().enumerate().map(|(at, domain)| {
        let node = pair.nodes[at % 2].clone();
        tokio::spawn(write_on(node, domain, ends.clone(), count.clone()))
    });
    let others: Vec<_> = others.collect();

    let is_failure = |event: &Event| matches!(event, Event::Failed(..));
    let bait = |number: u32| put(&domain, &format!("bait{number}"), "1");
    for (number, site) in (0..).zip([Site::Decide, Site::Checkpoint, Site::Apply]) {
        pair.traps.arm(site);
        // What the head decides when it panics is answered as unknown.
        drop(write(&pair.nodes[0], bait(number), strong()).await);
        pair.traps.sprung().await;
        if site == Site::Apply {
            // The third failure: the member is filled again, on an empty folder, and fails.
            pair.traps.arm(Site::Fill);
            pair.traps.sprung().await;
        }
        // The head may have moved under them: they are answered, or it is not known what they did.
        for node in &pair.nodes {
            let met = write(node, bait(20 + number), strong()).await;
            let reason = met.err().and_then(|error| error.reason);
            let may_be = [None, Some(Reason::Lost), Some(Reason::Broken)];
            assert!(may_be.contains(&reason), "{site:?}: {reason:?}");
        }
        let failed = || [1, 2, 4][number as usize] <= pair.has_told(is_failure);
        until("its failure is told", failed).await;
        let before = count.load(Ordering::Relaxed);
        pair.whole(chain).await;
        let served = write(&pair.nodes[1], bait(10 + number), strong()).await;
        assert!(served.is_ok(), "{site:?}: {served:?}");
        let written = || 50 < count.load(Ordering::Relaxed) - before;
        until("the others are served meanwhile", written).await;
    }

    assert_eq!(pair.has_told(is_failure), 4);
    let is_replaced = |event: &Event| matches!(event, Event::Replaced(..));
    assert_eq!(pair.has_told(is_replaced), 1);
    let victim = pair.traps.victim.lock().unwrap().clone().unwrap();
    assert!(victim.with_extension("damaged-1").is_dir(), "{victim:?}");
    let failures = pair.nodes.iter().flat_map(Node::failures);
    let failures = failures.filter(|(_, total, _)| *total != 0);
    assert_eq!(failures.collect::<Vec<_>>(), [(chain, 4, 0)]);
    for node in &pair.nodes {
        assert_eq!(node.health(), Health::Serving);
    }

    ends.store(true, Ordering::Relaxed);
    for other in others {
        other.await.unwrap();
    }
    for node in &pair.nodes {
        node.close().await;
    }
}
