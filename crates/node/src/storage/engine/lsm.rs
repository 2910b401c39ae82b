//! The engine on a medium: one log-structured merge tree for each [`Tree`], without a journal of
//! its own, for the log is one (docs/internals/decisions/0002-engine.md).
//!
//! A commit goes to the trees' tables in memory. A checkpoint puts a marker with the id of the last
//! entry into each tree, seals its table, and a thread writes it out. A tree's table and its marker
//! become durable in one step (ENGINE-1). Another thread merges tables.
//!
//! Invariants:
//! - (ENGINE-1) to ENGINE-3 of the seam. ENGINE-2: a snapshot reads below `published`, which moves
//!   only between commits; what a snapshot can see is merged away only after it is gone.
//!
//! Deliberately absent: compression; commits from more than one thread.

mod errors;
mod files;
mod marker;
mod merge;
mod row_cache;
mod snapshot;
mod tables;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use fader_chain::{EntryId, RangeContent};
use lsm_tree::config::{FilterPolicy, FilterPolicyEntry};
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, DescriptorTable, SeqNo};
use lsm_tree::{SequenceNumberCounter, Slice};
use parking_lot::{Condvar, Mutex};

use errors::{damaged, engine_error, finds_no_room, is_damage, open_failed, view_error};
use marker::Marker;
use row_cache::RowCache;
use snapshot::LsmSnapshot;
use tables::Replaced;

use super::{Engine, EngineError, Pair, Snapshot, Tree, difference, pairs};
use crate::status::OpenError;

/// Where a tree keeps the id of the last entry it holds: no key of the map, hidden from scans.
const MARKER: &[u8] = &[0xff];
/// Bytes of tables in memory at which a checkpoint is due. Twice as much, and commits wait for it.
const MEMORY_BYTES: u64 = 16 << 20;
/// Unmerged tables of a tree at which checkpoints wait for the merge.
const UNMERGED_MAX: usize = 24;
/// Bytes of tables that are read at a start to see that they are whole: less than a second of a
/// disk's time. Of what is beyond, a block is looked at when it is read.
const VERIFIED_BYTES: u64 = 128 << 20;
/// Bytes of a buffer that copies share, at most: a reader that keeps one of them keeps it.
const SHARED_BYTES: usize = 64 << 10;
/// Open files kept.
const FILES_MAX: usize = 256;
/// How long to wait before trying again after the medium was full.
const RETRY: Duration = Duration::from_secs(1);

struct Snapshots {
    /// Everything below is committed, and whole.
    published: SeqNo,
    /// Snapshots in use, by what they read below.
    open: BTreeMap<SeqNo, usize>,
    /// Of those, the ones that look into the tree of counters no more.
    kept: BTreeMap<SeqNo, usize>,
}

impl Snapshots {
    /// What the oldest that looks into `tree` reads below.
    fn oldest(&self, tree: Tree) -> Option<SeqNo> {
        let looks = |below: &SeqNo, count: usize| {
            tree != Tree::Counters || self.kept.get(below).copied().unwrap_or_default() < count
        };
        let mut open = self.open.iter();
        open.find_map(|(below, count)| looks(below, *count).then_some(*below))
    }
}

struct State {
    /// The entry up to which each tree holds everything, in memory or not.
    applied: BTreeMap<Tree, EntryId>,
    /// Whether it is being filled, and stands for nothing.
    is_filling: bool,
    /// Whether each tree says so in a table of this incarnation.
    is_marked_filling: bool,
    /// Bytes committed since the last checkpoint began.
    memory: u64,
    durable: EntryId,
    /// The checkpoint that is being written, and what will be durable then.
    writing: Option<EntryId>,
    is_merge_due: bool,
    is_merging: bool,
    /// Bytes that are free on the medium, while that is little.
    little_room: Option<u64>,
    /// Of trees whose tables were merged, the merged ones that may be there yet.
    replaced: BTreeMap<Tree, Replaced>,
    /// Whether some table was not ended, as it found no room.
    has_leftovers: bool,
    /// Whether tables are not merged any more, as some cannot be read.
    is_unmergeable: bool,
    /// What stands in the way of the thread that writes, while something does.
    write_error: Option<EngineError>,
    /// The same for the thread that merges.
    merge_error: Option<EngineError>,
    is_closing: bool,
}

impl State {
    /// That of trees which were opened with everything up to these entries.
    fn opened(applied: &BTreeMap<Tree, EntryId>, is_filling: bool) -> State {
        State {
            applied: applied.clone(),
            is_filling,
            is_marked_filling: false,
            memory: 0,
            durable: applied.values().min().copied().unwrap_or_default(),
            writing: None,
            is_merge_due: true,
            is_merging: false,
            little_room: None,
            replaced: BTreeMap::new(),
            has_leftovers: false,
            is_unmergeable: false,
            write_error: None,
            merge_error: None,
            is_closing: false,
        }
    }

    /// The worse of what stands in the way.
    fn error(&self) -> Option<&EngineError> {
        let errors = self.write_error.iter().chain(&self.merge_error);
        errors.min_by_key(|error| error.is_full)
    }
}

/// One of the places for an error in the state.
type Slot = fn(&mut State) -> &mut Option<EngineError>;

struct Core {
    trees: BTreeMap<Tree, AnyTree>,
    seqno: SequenceNumberCounter,
    /// Held by a commit: what is published is whole.
    committing: Mutex<()>,
    snapshots: Mutex<Snapshots>,
    recent: RowCache,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether it goes on with what can be read.
    tolerates: AtomicBool,
}

/// The engine on a medium.
pub struct LsmEngine {
    core: Arc<Core>,
    opened: BTreeMap<Tree, EntryId>,
    was_filling: bool,
    damage: Vec<String>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl LsmEngine {
    /// Opens the engine in `folder`, which is created if absent.
    ///
    /// # Errors
    /// [`OpenError`]: damaged, with the file, or refused by the operating system.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let failed = |error: lsm_tree::Error| open_failed(folder, error);
        files::create_folders(folder, Tree::ALL.map(Tree::name))
            .map_err(|error| failed(error.into()))?;
        let seqno = SequenceNumberCounter::new(1);
        let cache = Arc::new(Cache::with_capacity_bytes(cache_bytes));
        let files = Arc::new(DescriptorTable::new(FILES_MAX));
        let mut trees = BTreeMap::new();
        let mut opened = BTreeMap::new();
        let mut was_filling = false;
        let (mut damage, mut unverified) = (Vec::new(), VERIFIED_BYTES);
        for tree in Tree::ALL {
            let path = folder.join(tree.name());
            let found = files::check(&path, &mut unverified);
            damage.extend(found.map_err(|reason| damaged(folder, &reason))?);
            // What the trees believe to be visible is not what snapshots go by (ENGINE-2).
            let config = Config::new(path, seqno.clone(), SequenceNumberCounter::default())
                .use_cache(cache.clone())
                .use_descriptor_table(Some(files.clone()));
            let failed = |error| match damage.last() {
                Some(words) => OpenError::damaged(words.clone()),
                None => open_failed(folder, error),
            };
            let opening = configure(config, tree).open().map_err(failed)?;
            seqno.fetch_max(opening.get_highest_seqno().map_or(1, |highest| highest + 1));
            let marker = opening.get(MARKER, SeqNo::MAX).map_err(failed)?;
            let marker = marker.map_or(Ok(Marker::default()), |bytes| Marker::decode(bytes.into()));
            let marker = marker.map_err(|error| damaged(folder, &error.to_string()))?;
            was_filling |= marker.is_filling;
            opened.insert(tree, marker.applied);
            trees.insert(tree, opening);
        }
        let published = seqno.get();
        let core = Arc::new(Core {
            trees,
            seqno,
            committing: Mutex::default(),
            snapshots: Mutex::new(Snapshots {
                published,
                open: BTreeMap::new(),
                kept: BTreeMap::new(),
            }),
            recent: RowCache::default(),
            state: Mutex::new(State::opened(&opened, was_filling)),
            changed: Condvar::new(),
            tolerates: AtomicBool::new(false),
        });
        let threads = [
            start("engine-write", core.clone(), Core::write_checkpoints),
            start("engine-merge", core.clone(), Core::merge_tables),
        ];
        let threads = threads.into_iter().collect::<io::Result<Vec<_>>>();
        let threads = threads.map_err(|error| failed(error.into()))?;
        Ok(LsmEngine {
            core,
            opened,
            was_filling,
            damage,
            threads: Mutex::new(threads),
        })
    }

    /// Goes on when a table cannot be merged since it is damaged. What can be read is served, and
    /// what is written becomes durable beside it.
    pub fn tolerate_damage(&self) {
        self.core.tolerates.store(true, Ordering::Relaxed);
    }

    /// Blocks of tables that were found to be damaged, each with its file and offset.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }
}

fn start(name: &str, core: Arc<Core>, run: fn(&Core)) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || run(&core))
}

fn configure(config: Config, tree: Tree) -> Config {
    match tree {
        Tree::Registers | Tree::Counters => config,
        // Read by range only: a filter would cost memory and never be asked.
        Tree::Index => config.filter_policy(FilterPolicy::all(FilterPolicyEntry::None)),
    }
}

impl Engine for LsmEngine {
    fn applied(&self, tree: Tree) -> EntryId {
        self.opened[&tree]
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshots = self.core.snapshots.lock();
        let below = snapshots.published;
        *snapshots.open.entry(below).or_default() += 1;
        drop(snapshots);
        Arc::new(LsmSnapshot::new(self.core.clone(), below))
    }

    fn commit(&self, mutations: &[Pair<'_>], last: EntryId) -> Result<(), EngineError> {
        let core = &self.core;
        let committing = core.committing.lock();
        let seqno = core.seqno.next();
        core.recent.commit(mutations, seqno + 1);
        let mut size = 0;
        let mut copies = Copies::of(mutations);
        for (key, value) in mutations {
            let tree = &core.trees[&Tree::of(key)];
            let key = copies.copy(key);
            size += match value {
                Some(value) => tree.insert(key, copies.copy(value), seqno).0,
                None => tree.remove(key, seqno).0,
            };
        }
        core.publish(seqno);
        drop(committing);
        let mut state = core.state.lock();
        state.memory += size;
        state
            .applied
            .values_mut()
            .for_each(|applied| *applied = last.max(*applied));
        Ok(())
    }

    fn wants_checkpoint(&self) -> bool {
        let state = self.core.state.lock();
        let limit = if state.writing.is_some() {
            2 * MEMORY_BYTES
        } else {
            MEMORY_BYTES
        };
        limit <= state.memory
    }

    fn checkpoint(&self) -> Result<(), EngineError> {
        let core = &self.core;
        let mut state = core.state.lock();
        while state.error().is_none() && (state.writing.is_some() || core.is_crowded(&state)) {
            core.changed.wait(&mut state);
        }
        if let Some(error) = state.error() {
            return Err(error.clone());
        }
        if !state.is_marked_filling {
            core.mark(&state);
        }
        state.is_marked_filling = state.is_filling;
        for tree in core.trees.values() {
            tree.rotate_memtable();
        }
        state.memory = 0;
        state.writing = Some(state.applied.values().min().copied().unwrap_or_default());
        core.changed.notify_all();
        Ok(())
    }

    fn reclaim(&self, free: u64) -> Result<(), EngineError> {
        let core = &self.core;
        let mut state = core.state.lock();
        state.little_room = Some(free);
        if state.is_merging || state.is_unmergeable || !core.has_unmerged(&state) {
            return Ok(());
        }
        if !core.wants_tables(&state) {
            state.is_merge_due = true;
            core.changed.notify_all();
            return Ok(());
        }
        drop(state);
        self.checkpoint()?;
        // Both tables have the tree's mark: they overlap, and are cut into small ones.
        self.checkpoint_and_wait()
    }

    fn end_reclaim(&self) {
        self.core.state.lock().little_room = None;
    }

    fn durable(&self) -> Result<EntryId, EngineError> {
        let state = self.core.state.lock();
        state.error().cloned().map_or(Ok(state.durable), Err)
    }

    fn is_filling(&self) -> bool {
        self.was_filling
    }

    fn begin_fill(&self) -> Result<(), EngineError> {
        self.core.state.lock().is_filling = true;
        self.checkpoint_and_wait()
    }

    fn fill(&self, content: &RangeContent) -> Result<(), EngineError> {
        if self.wants_checkpoint() {
            self.checkpoint()?;
        }
        let mutations = difference(&*self.snapshot(), content)?;
        self.commit(&pairs(&mutations), EntryId::ZERO)
    }

    fn end_fill(&self, at: EntryId) -> Result<(), EngineError> {
        let mut state = self.core.state.lock();
        (state.is_filling, state.is_marked_filling) = (false, false);
        let applied = state.applied.values_mut();
        applied.for_each(|applied| *applied = at);
        drop(state);
        self.checkpoint_and_wait()
    }

    fn disk_bytes(&self) -> u64 {
        self.core.trees.values().map(AnyTree::disk_space).sum()
    }

    fn close(&self) {
        let mut state = self.core.state.lock();
        while state.writing.is_some() && state.error().is_none() {
            self.core.changed.wait(&mut state);
        }
        drop(state);
        self.end_threads();
    }
}

impl LsmEngine {
    fn checkpoint_and_wait(&self) -> Result<(), EngineError> {
        self.checkpoint()?;
        let mut state = self.core.state.lock();
        while state.writing.is_some() && state.error().is_none() {
            self.core.changed.wait(&mut state);
        }
        state.error().cloned().map_or(Ok(()), Err)
    }

    fn end_threads(&self) {
        self.core.state.lock().is_closing = true;
        self.core.changed.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the engine ended by a broken invariant");
            }
        }
    }
}

impl Drop for LsmEngine {
    fn drop(&mut self) {
        self.end_threads();
    }
}

impl Core {
    /// Puts into each tree what it stands for. A tree that is filled says it once. With its last
    /// key in it, each table would overlap all that come after it, which come in order. Merging
    /// would write them anew instead of moving them down.
    fn mark(&self, state: &State) {
        let _committing = self.committing.lock();
        let seqno = self.seqno.next();
        for (name, tree) in &self.trees {
            let marker = Marker {
                applied: state.applied[name],
                is_filling: state.is_filling,
            };
            tree.insert(MARKER, marker.encode(), seqno);
        }
        self.publish(seqno);
    }

    fn publish(&self, seqno: SeqNo) {
        self.snapshots.lock().published = seqno + 1;
    }

    /// What no snapshot, present or future, looks below in `tree`.
    fn watermark(&self, tree: Tree) -> SeqNo {
        let snapshots = self.snapshots.lock();
        let oldest = snapshots.oldest(tree);
        oldest.unwrap_or(snapshots.published).saturating_sub(1)
    }

    /// Whether merging must catch up first.
    fn is_crowded(&self, state: &State) -> bool {
        let unmerged = self.trees.values().map(AnyTree::l0_run_count).max();
        (state.is_merge_due || state.is_merging)
            && unmerged.is_some_and(|unmerged| UNMERGED_MAX <= unmerged)
    }

    fn write_checkpoints(&self) {
        self.work(
            |state| &mut state.write_error,
            |_, state| state.writing.is_some(),
            |core| {
                for (name, tree) in &core.trees {
                    tree.flush(&tree.get_flush_lock(), core.watermark(*name))?;
                }
                let mut state = core.state.lock();
                if let Some(durable) = state.writing.take() {
                    state.durable = durable;
                    state.is_merge_due = !state.is_unmergeable;
                }
                Ok(())
            },
        );
    }

    /// Works whenever something is due, until the engine is closed or fails.
    fn work(
        &self,
        slot: Slot,
        is_due: fn(&Self, &State) -> bool,
        run: fn(&Self) -> lsm_tree::Result<()>,
    ) {
        let _failed_if_it_panics = FailOnPanic { core: self, slot };
        loop {
            let mut state = self.state.lock();
            while !is_due(self, &state) && !state.is_closing {
                match state.replaced.is_empty() {
                    true => self.changed.wait(&mut state),
                    // The end of a snapshot is not told.
                    false => drop(self.changed.wait_for(&mut state, RETRY)),
                }
            }
            if state.is_closing {
                return;
            }
            drop(state);
            let error = run(self).err().map(|error| engine_error(&error));
            let mut state = self.state.lock();
            slot(&mut state).clone_from(&error);
            state.has_leftovers |= error.as_ref().is_some_and(|error| error.is_full);
            self.changed.notify_all();
            match error {
                Some(error) if error.is_full => {
                    let end = Instant::now() + RETRY;
                    while !state.is_closing && Instant::now() < end {
                        self.changed.wait_until(&mut state, end);
                    }
                }
                Some(_) => return,
                None => {}
            }
        }
    }
}

/// Copies of what is committed: a piece of a request's buffer would keep all of it in memory. Many
/// share a buffer. With memory of its own, each would be taken here and given back by the thread
/// that writes tables, which costs more than the copy.
struct Copies {
    buffer: BytesMut,
    /// Bytes that are to be copied.
    left: usize,
}

impl Copies {
    fn of(mutations: &[Pair<'_>]) -> Self {
        let size = |(key, value): &Pair<'_>| key.len() + value.map_or(0, Bytes::len);
        Copies {
            buffer: BytesMut::new(),
            left: mutations.iter().map(size).sum(),
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Slice {
        if self.buffer.capacity() < bytes.len() {
            let size = bytes.len().max(self.left.min(SHARED_BYTES));
            self.buffer = BytesMut::with_capacity(size);
        }
        self.left -= bytes.len();
        self.buffer.extend_from_slice(bytes);
        self.buffer.split().freeze().into()
    }
}

struct FailOnPanic<'a> {
    core: &'a Core,
    slot: Slot,
}

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = "an invariant of the engine was broken".to_owned();
            let error = EngineError {
                message,
                is_full: false,
            };
            *(self.slot)(&mut self.core.state.lock()) = Some(error);
            self.core.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
