//! From what a crash left to a state that a replica can go on from. The log's records are folded,
//! and the engine is brought to where every tree holds the same.
//!
//! What an engine holds was committed, and so was everything before it. What the log holds beyond
//! is for the replica to say, but for a single member. There, to be durable is to be committed
//! (WR-5). Entries are applied as they are read, so that a long log is no matter of memory.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fader_chain::{
    Change, DedupCursor, DiskId, Entry, EntryId, Layered, Mutations, Record, RecoveredState,
    compute,
};

use crate::random;
use crate::status::OpenError;
use crate::storage::disk::{Disk, SyncSite};
use crate::storage::engine::{Engine, EngineError, Snapshot, Tree, pairs};
use crate::storage::log::{Durability, Log, Replayed};

/// Entries applied to the engine in one step.
const ENTRIES_PER_COMMIT: u64 = 256;

/// What was found.
pub(crate) struct Recovered {
    /// What the log held.
    pub(crate) replayed: Replayed,
    /// The entry up to which the engine holds everything.
    pub(crate) applied: EntryId,
    /// The greatest epoch that was adopted.
    pub(crate) epoch: u64,
    /// Entries that were applied again.
    pub(crate) entries_replayed: u64,
}

/// Whether the log is that of a member which is its chain's whole write path.
pub(crate) fn is_alone(kept: &RecoveredState, disk: DiskId) -> bool {
    kept.configuration
        .as_ref()
        .is_none_or(|adopted| matches!(&adopted.members[..], [member] if member.disk == disk))
}

/// Reads the log of the member on `disk`, and applies again what the engine lost.
pub(crate) fn recover(
    log: &mut Log,
    engine: &dyn Engine,
    disk: DiskId,
) -> Result<Recovered, OpenError> {
    let applied: BTreeMap<Tree, EntryId> = Tree::ALL
        .into_iter()
        .map(|tree| (tree, engine.applied(tree)))
        .collect();
    let oldest = applied.values().min().copied().unwrap_or_default();
    let newest = applied.values().max().copied().unwrap_or_default();
    check_reach(log, &applied, oldest, newest)?;
    let mut replay = Replay {
        engine,
        applied,
        below: engine.snapshot(),
        mutations: Mutations::new(),
        swept: DedupCursor::default(),
        last: EntryId::ZERO,
        uncommitted: 0,
        count: 0,
    };
    let is_filling = engine.is_filling();
    let mut check_order = true;
    let replayed = log.replay(oldest, |record, kept| {
        let is_lone = is_alone(kept, disk) && !is_filling;
        check_order &= is_lone;
        if let (true, Record::Entry(entry)) = (is_lone, &record) {
            replay.check(entry)?;
        }
        kept.take(record);
        if is_alone(kept, disk) && !is_filling {
            replay.take_through(kept, kept.last())?;
        } else {
            kept.release(oldest);
        }
        Ok(())
    })?;
    if !is_filling {
        replay.take_through(log.kept_mut(), newest)?;
    }
    replay.commit()?;
    // A log that begins anew has nothing yet; an engine that is being filled stands for nothing.
    let begins_anew = !check_order && replayed.last == EntryId::ZERO;
    if !is_filling && !begins_anew && replayed.last < newest {
        return Err(OpenError::damaged(format!(
            "the log ends at entry {}, but the engine holds entries up to {newest}: acknowledged \
             writes may be lost. Restore the data folder from a copy",
            replayed.last
        )));
    }
    let adopted = log.kept().configuration.as_ref();
    Ok(Recovered {
        applied: newest.max(replay.last),
        epoch: adopted
            .map_or(0, |adopted| adopted.epoch)
            .max(replayed.epoch),
        entries_replayed: replay.count,
        replayed,
    })
}

/// The log is there, and begins where the engine's trees need it.
fn check_reach(
    log: &Log,
    applied: &BTreeMap<Tree, EntryId>,
    oldest: EntryId,
    newest: EntryId,
) -> Result<(), OpenError> {
    if log.is_new() && newest != EntryId::ZERO {
        return Err(OpenError::damaged(format!(
            "the log is missing: {} has no segment, but the engine holds entries up to {newest}. \
             Restore the data folder from a copy",
            log.folder().display()
        )));
    }
    if let Some(missing) = log.missing_before(oldest)
        && let Some((tree, _)) = applied.iter().find(|(_, applied)| **applied == oldest)
    {
        return Err(OpenError::damaged(format!(
            "{} holds entries up to {oldest}, and the log begins behind that: the tree is damaged, \
             or {} is missing. Restore the data folder from a copy",
            log.folder()
                .with_file_name("engine")
                .join(tree.name())
                .display(),
            missing.display()
        )));
    }
    Ok(())
}

/// Opens the log in the data folder, and creates both if absent; says so if a segment was never
/// finished.
pub(crate) fn open_log(
    data: &Path,
    durability: Durability,
    segment_bytes: u64,
    disk: &Arc<dyn Disk>,
) -> Result<(Log, Option<String>), OpenError> {
    let folder = data.join("log");
    let failed = |source| creating(&folder, source);
    disk.create_folder(&folder).map_err(failed)?;
    let chain = random::number().map_err(failed)?;
    let (log, unfinished) = Log::open(disk.clone(), &folder, durability, segment_bytes, chain)?;
    if log.is_new() {
        // An earlier first start may have been cut short before this.
        sync_names(&**disk, data).map_err(failed)?;
    }
    Ok((log, unfinished))
}

/// Makes durable that the data folder is there, and the log's folder in it.
fn sync_names(disk: &dyn Disk, data: &Path) -> io::Result<()> {
    disk.sync_folder(data, SyncSite::DataFolder)?;
    match data.parent() {
        Some(parent) if parent == Path::new("") => {
            disk.sync_folder(Path::new("."), SyncSite::DataFolder)
        }
        Some(parent) => disk.sync_folder(parent, SyncSite::DataFolder),
        None => Ok(()),
    }
}

/// The folder could not be made.
pub(crate) fn creating(folder: &Path, source: io::Error) -> OpenError {
    OpenError::io(format!("creating {}", folder.display()), source)
}

struct Replay<'a> {
    engine: &'a dyn Engine,
    applied: BTreeMap<Tree, EntryId>,
    below: Snapshot,
    mutations: Mutations,
    swept: DedupCursor,
    last: EntryId,
    uncommitted: u64,
    count: u64,
}

impl Replay<'_> {
    /// A log without gaps and cuts names every entry that the engine holds.
    fn check(&self, entry: &Entry) -> Result<(), OpenError> {
        let id = entry.id;
        let mut ahead = self.applied.values();
        match ahead.find(|ahead| ahead.index == id.index && **ahead != id) {
            None => Ok(()),
            Some(ahead) => Err(OpenError::damaged(format!(
                "the log's entry {id} is not the {ahead} that the engine holds: the folder mixes \
                 two nodes. Restore it from a copy"
            ))),
        }
    }

    /// Applies the kept entries up to `last`, and lets go of them.
    fn take_through(&mut self, kept: &mut RecoveredState, last: EntryId) -> Result<(), OpenError> {
        for entry in kept.entries.iter().take_while(|entry| entry.id <= last) {
            self.take(entry)?;
        }
        kept.release(last);
        Ok(())
    }

    fn take(&mut self, entry: &Entry) -> Result<(), OpenError> {
        let id = entry.id;
        if self.applied.values().all(|applied| id <= *applied) {
            return Ok(());
        }
        let lacks = |key: &[u8]| self.applied[&Tree::of(key)] < id;
        let lacking = |change: &&Change| lacks(change.key());
        let changes = entry.changes.iter().filter(lacking).cloned().collect();
        let entry = Entry {
            changes,
            ..entry.clone()
        };
        // What an entry does to a tree that is ahead is not done again, and nothing learned of it.
        let mut anew = DedupCursor::default();
        let swept = match self.applied.values().any(|applied| id <= *applied) {
            true => &mut anew,
            false => &mut self.swept,
        };
        let view = Layered::new(&*self.below, &self.mutations);
        let mutations = compute(&entry, &view, swept).map_err(|error| {
            OpenError::damaged(format!("the engine cannot take entry {id}: {error}"))
        })?;
        let mutations = mutations
            .into_iter()
            .filter(|mutation| lacks(&mutation.key))
            .map(|mutation| (mutation.key, mutation.value))
            .collect::<Vec<_>>();
        self.mutations.extend(mutations);
        self.last = id;
        self.count += 1;
        self.uncommitted += 1;
        if self.uncommitted == ENTRIES_PER_COMMIT {
            self.commit()
        } else {
            Ok(())
        }
    }

    fn commit(&mut self) -> Result<(), OpenError> {
        if self.uncommitted == 0 {
            return Ok(());
        }
        self.engine
            .commit(&pairs(&self.mutations), self.last)
            .map_err(stopped)?;
        if self.engine.wants_checkpoint() {
            self.engine.checkpoint().map_err(stopped)?;
        }
        self.below = self.engine.snapshot();
        self.mutations.clear();
        self.uncommitted = 0;
        Ok(())
    }
}

fn stopped(error: EngineError) -> OpenError {
    OpenError::io("applying the log", std::io::Error::other(error.message))
}
