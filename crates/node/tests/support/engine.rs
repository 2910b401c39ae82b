//! An engine in memory, as forgetful as an engine may be: the model beside [`SimulatedDisk`].
//!
//! [`MemoryEngine::crash`] gives the engine that the next start finds. Each tree is as it was after
//! some commit since the last checkpoint, one tree apart from the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use fader_chain::{EntryId, RangeContent};
use fader_node::disk::SyncSite;
use fader_node::engine::{Engine, EngineError, Pair, Snapshot, Tree, difference, pairs};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::SimulatedDisk;

pub(crate) type Map = BTreeMap<Bytes, Bytes>;

/// The entry up to which each tree holds everything.
type Applied = BTreeMap<Tree, EntryId>;

#[derive(Clone, Debug)]
struct Version {
    applied: Applied,
    is_filling: bool,
    map: Arc<Map>,
}

#[derive(Debug)]
struct State {
    /// What it was when it was opened.
    opened: Version,
    /// The states that a crash may leave, oldest first.
    older: Vec<Version>,
    newest: Version,
    /// What a checkpoint, as far as the engine knows, made durable.
    durable: EntryId,
    commits_since_checkpoint: u32,
    /// Bytes that are free on the medium, while that is little.
    little_room: Option<u64>,
}

/// An engine in memory.
#[derive(Debug)]
pub(crate) struct MemoryEngine {
    disk: SimulatedDisk,
    state: Mutex<State>,
}

/// Commits between checkpoints: few, so that tests see many.
const COMMITS_PER_CHECKPOINT: u32 = 5;

impl MemoryEngine {
    /// An empty engine whose checkpoints count as syncs of `disk`.
    pub(crate) fn new(disk: SimulatedDisk) -> Self {
        let applied = Tree::ALL.map(|tree| (tree, EntryId::ZERO)).into();
        Self::holding(
            disk,
            Version {
                applied,
                is_filling: false,
                map: Arc::default(),
            },
        )
    }

    /// The engine after a power cut that left `disk`. The same seed loses the same.
    pub(crate) fn crash(&self, disk: SimulatedDisk, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let state = self.state.lock();
        let versions: Vec<&Version> = state.older.iter().chain([&state.newest]).collect();
        let mut map = Map::new();
        let mut applied = Applied::new();
        let mut is_filling = false;
        for tree in Tree::ALL {
            let version = versions[random.random_range(0..versions.len())];
            let kept = version.map.iter().filter(|(key, _)| Tree::of(key) == tree);
            map.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
            applied.insert(tree, version.applied[&tree]);
            is_filling |= version.is_filling;
        }
        Self::holding(
            disk,
            Version {
                applied,
                is_filling,
                map: Arc::new(map),
            },
        )
    }

    /// Bytes that are free on the medium, as it was told, while that is little.
    pub(crate) fn little_room(&self) -> Option<u64> {
        self.state.lock().little_room
    }

    /// Puts the same rows elsewhere, as a merge does; what they were in before is there as long as
    /// a snapshot has it.
    pub(crate) fn merge(&self) -> Weak<Map> {
        let mut state = self.state.lock();
        let merged = Arc::new(Map::clone(&state.newest.map));
        Arc::downgrade(&std::mem::replace(&mut state.newest.map, merged))
    }

    /// The engine after an orderly end, on a copy of its disk.
    pub(crate) fn copy(&self, disk: SimulatedDisk) -> Self {
        Self::holding(disk, self.state.lock().newest.clone())
    }

    fn holding(disk: SimulatedDisk, newest: Version) -> Self {
        let state = State {
            opened: newest.clone(),
            older: Vec::new(),
            durable: oldest(&newest.applied),
            newest,
            commits_since_checkpoint: 0,
            little_room: None,
        };
        MemoryEngine {
            disk,
            state: Mutex::new(state),
        }
    }
}

fn oldest(applied: &Applied) -> EntryId {
    applied.values().min().copied().unwrap_or_default()
}

impl Engine for MemoryEngine {
    fn applied(&self, tree: Tree) -> EntryId {
        self.state.lock().opened.applied[&tree]
    }

    fn snapshot(&self) -> Snapshot {
        self.state.lock().newest.map.clone()
    }

    fn commit(&self, mutations: &[Pair<'_>], last: EntryId) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        let before = state.newest.clone();
        let map = Arc::make_mut(&mut state.newest.map);
        for (key, value) in mutations {
            match value {
                Some(value) => map.insert((*key).clone(), (*value).clone()),
                None => map.remove(*key),
            };
        }
        state
            .newest
            .applied
            .values_mut()
            .for_each(|applied| *applied = last.max(*applied));
        state.older.push(before);
        state.commits_since_checkpoint += 1;
        Ok(())
    }

    fn wants_checkpoint(&self) -> bool {
        COMMITS_PER_CHECKPOINT <= self.state.lock().commits_since_checkpoint
    }

    fn checkpoint(&self) -> Result<(), EngineError> {
        let synced = self.disk.sync_elsewhere(SyncSite::Engine);
        let synced = synced.map_err(|error| EngineError {
            message: error.to_string(),
            is_full: false,
        })?;
        let mut state = self.state.lock();
        state.commits_since_checkpoint = 0;
        state.durable = oldest(&state.newest.applied);
        if synced {
            state.older.clear();
        }
        Ok(())
    }

    fn reclaim(&self, free: u64) -> Result<(), EngineError> {
        self.state.lock().little_room = Some(free);
        self.checkpoint()
    }

    fn end_reclaim(&self) {
        self.state.lock().little_room = None;
    }

    fn durable(&self) -> Result<EntryId, EngineError> {
        Ok(self.state.lock().durable)
    }

    fn is_filling(&self) -> bool {
        self.state.lock().opened.is_filling
    }

    fn begin_fill(&self) -> Result<(), EngineError> {
        self.state.lock().newest.is_filling = true;
        self.checkpoint()
    }

    fn fill(&self, content: &RangeContent) -> Result<(), EngineError> {
        let mutations = difference(&*self.snapshot(), content)?;
        self.commit(&pairs(&mutations), EntryId::ZERO)
    }

    fn end_fill(&self, at: EntryId) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        state.newest.is_filling = false;
        let applied = state.newest.applied.values_mut();
        applied.for_each(|applied| *applied = at);
        drop(state);
        self.checkpoint()
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn close(&self) {}
}
