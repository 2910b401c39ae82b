//! Members die between the steps of moves, and what was there stays.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fader_chain::{EntryId, RangeContent};
use fader_node::engine::{Engine, EngineError, Pair, Snapshot, Tree};

use super::*;

/// How many commits of data chains are still to come before the one in which a member dies; 0 when
/// none is to die.
#[derive(Default)]
struct Trap(AtomicU64);

impl Trap {
    /// A commit of a member of this folder.
    fn pass(&self, folder: &Path) {
        let is_data = folder.file_name().is_some_and(|name| name != "0");
        let is_thread = std::thread::current().name() == Some("chain");
        if !is_data || !is_thread {
            return;
        }
        let left = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        assert!(left != Ok(1), "the trap of this test");
    }

    fn is_armed(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }
}

struct Mortal {
    engine: Arc<dyn Engine>,
    folder: std::path::PathBuf,
    trap: Arc<Trap>,
}

impl Engine for Mortal {
    fn applied(&self, tree: Tree) -> EntryId {
        self.engine.applied(tree)
    }

    fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    fn commit(&self, mutations: &[Pair<'_>], last: EntryId) -> Result<(), EngineError> {
        self.trap.pass(&self.folder);
        self.engine.commit(mutations, last)
    }

    fn wants_checkpoint(&self) -> bool {
        self.engine.wants_checkpoint()
    }

    fn checkpoint(&self) -> Result<(), EngineError> {
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

impl super::Pair {
    /// Waits until every chain has its two members again.
    async fn whole(&self) {
        until("all members serve", async || {
            let place = self.place.clone();
            let look = move || ZooKeeperCoordinator::look(&place).unwrap();
            let standing = tokio::task::spawn_blocking(look).await.unwrap();
            let mut chains = standing.configurations.values();
            chains.all(|it| it.serving().count() == 2) && standing.faults.is_empty()
        })
        .await;
    }

    async fn values(&self) -> Option<(u64, u64)> {
        let of = async |name| match value(&self.nodes[1], name).await {
            Ok(Reply::Value(value)) => Some(value),
            _ => None,
        };
        Some((of("a").await?, of("b").await?))
    }
}

const MUCH_AT_FIRST: u64 = 1000;
/// Commits of one move: begun, taken and settled, by two members each.
const COMMITS: u64 = 6;

/// It shows COUNTER-1.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_sum_stays_where_a_member_dies_between_any_two_steps_of_a_move() {
    let trap = Arc::<Trap>::default();
    let layer = {
        let trap = trap.clone();
        EngineLayer::new(move |folder, engine| {
            Arc::new(Mortal {
                engine,
                folder: folder.to_owned(),
                trap: trap.clone(),
            })
        })
    };
    let pair = two(Version::NEWEST, layer).await;
    pair.counters(["a", "b"], MUCH_AT_FIRST).await;
    pair.whole().await;
    let (mut least, mut most) = (0, 0);
    for at in 1..=COMMITS {
        trap.0.store(at, Ordering::SeqCst);
        // The second node takes turns with the first in asking.
        let node = &pair.nodes[at as usize % 2];
        match ask(node, role_change("a", "b", at)).await {
            Ok(_) => (least, most) = (least + at, most + at),
            // It is not known whether it was moved, or will be.
            Err(Refusal::Failed(_)) => most += at,
            Err(refusal) => panic!("{refusal}"),
        }
        // Commits of what others finish count too.
        until("the trap is met", async || {
            if trap.is_armed() {
                drop(add(&pair.nodes[0], "a", 0).await);
                drop(add(&pair.nodes[0], "b", 0).await);
            }
            !trap.is_armed()
        })
        .await;
        pair.whole().await;
        until("what was under way has arrived", async || {
            let sum = pair.values().await.map(|(a, b)| a + b);
            sum == Some(MUCH_AT_FIRST)
        })
        .await;
    }
    let (_, moved) = pair.values().await.unwrap();
    assert!(
        (least..=most).contains(&moved),
        "{least} <= {moved} <= {most}"
    );
    let failures = || {
        let failures = pair.nodes.iter().flat_map(Node::failures);
        failures.map(|(_, total, _)| total).sum::<u64>()
    };
    // The last one may have died and not be missed yet.
    until("a member died each time", async || COMMITS <= failures()).await;
    assert_eq!(failures(), COMMITS, "and no other");
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn moves_from_all_sides_keep_the_sum() {
    let pair = two(Version::NEWEST, EngineLayer::default()).await;
    pair.counters(["a", "b"], MUCH_AT_FIRST).await;
    let mut movers = Vec::new();
    for mover in 0..8_u64 {
        let node = pair.nodes[mover as usize % 2].clone();
        movers.push(tokio::spawn(async move {
            for step in 0..10_u64 {
                let (from, to) = match (mover + step) % 3 {
                    0 => ("b", "a"),
                    _ => ("a", "b"),
                };
                match ask(&node, role_change(from, to, 1 + mover)).await {
                    Ok(_) | Err(Refusal::Value(_)) => {}
                    Err(refusal) => panic!("{refusal}"),
                }
            }
        }));
    }
    for mover in movers {
        mover.await.unwrap();
    }
    let (a, b) = pair.values().await.unwrap();
    assert_eq!(a + b, MUCH_AT_FIRST);
    let nowhere = ask(&pair.nodes[0], role_change("a", "c", 1)).await;
    assert_eq!(nowhere, Err(Refusal::NotMoved));
    let gone = ask(&pair.nodes[0], Request::Delete("b".to_owned())).await;
    assert_eq!(gone, Ok(Reply::Done));
    let back = ask(&pair.nodes[1], role_change("a", "b", 1)).await;
    assert_eq!(back, Err(Refusal::NotMoved));
    assert_eq!(value(&pair.nodes[0], "a").await, Ok(Reply::Value(a)));
    pair.close().await;
}
