//! From what a crash left to a state that serves: the log's entries, applied again where a tree of
//! the engine lacks them.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Change, Entry, EntryId};

use crate::engine::{Engine, EngineError, Tree};
use crate::log::{Log, Replayed};
use crate::pending::Pending;
use crate::status::OpenError;

/// Entries applied to the engine in one step.
const ENTRIES_PER_COMMIT: u64 = 256;

/// Applies again what the engine lost. Says what the log held and how many entries were applied.
pub(crate) fn replay(log: &mut Log, engine: &dyn Engine) -> Result<(Replayed, u64), OpenError> {
    let applied: BTreeMap<Tree, EntryId> = Tree::ALL
        .into_iter()
        .map(|tree| (tree, engine.applied(tree)))
        .collect();
    let oldest = applied.values().min().copied().unwrap_or_default();
    let newest = applied.values().max().copied().unwrap_or_default();
    if log.is_new() && newest != EntryId::ZERO {
        return Err(OpenError::Damaged(format!(
            "the log is missing, but the engine holds entries up to {newest}. Restore the data \
             folder from a copy"
        )));
    }
    let mut replay = Replay {
        engine,
        applied,
        pending: Pending::new(engine.snapshot()),
        uncommitted: 0,
        count: 0,
    };
    let replayed = log.replay(oldest, |entry| replay.take(&entry))?;
    replay.commit()?;
    if replayed.last < newest {
        return Err(OpenError::Damaged(format!(
            "the log ends at entry {}, but the engine holds entries up to {newest}: acknowledged \
             writes may be lost. Restore the data folder from a copy",
            replayed.last
        )));
    }
    Ok((replayed, replay.count))
}

struct Replay<'a> {
    engine: &'a dyn Engine,
    applied: BTreeMap<Tree, EntryId>,
    pending: Pending,
    uncommitted: u64,
    count: u64,
}

impl Replay<'_> {
    fn take(&mut self, entry: &Entry) -> Result<(), OpenError> {
        let id = entry.id;
        let ahead = self
            .applied
            .values()
            .find(|ahead| ahead.index == id.index && **ahead != id);
        if let Some(ahead) = ahead {
            return Err(OpenError::Damaged(format!(
                "the log's entry {id} is not the {ahead} that the engine holds: the folder mixes \
                 two nodes. Restore it from a copy"
            )));
        }
        let lacks = |key: &Bytes| self.applied[&Tree::of(key)] < id;
        let lacking: Vec<&Change> = entry
            .changes
            .iter()
            .filter(|change| lacks(change.key()))
            .collect();
        if self.applied.values().all(|applied| id <= *applied) {
            return Ok(());
        }
        let taken = self.pending.apply(&entry.under(), lacking);
        taken.map_err(|error| {
            OpenError::Damaged(format!("the engine cannot take entry {id}: {error}"))
        })?;
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
            .commit(self.pending.mutations(), self.pending.last())
            .map_err(stopped)?;
        if self.engine.wants_checkpoint() {
            self.engine.checkpoint().map_err(stopped)?;
        }
        self.pending = Pending::new(self.engine.snapshot());
        self.uncommitted = 0;
        Ok(())
    }
}

fn stopped(error: EngineError) -> OpenError {
    OpenError::Io {
        context: "applying the log".to_owned(),
        source: std::io::Error::other(error.message),
    }
}
