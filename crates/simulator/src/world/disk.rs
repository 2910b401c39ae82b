//! A member's disk: records that become durable in order, and an engine whose state follows them.
//!
//! Invariants (docs/internals/protocol, `record.rs` of the chain):
//! - (RECORD-1) after a crash the records are a prefix of what was written, at least up to the last
//!   sync.
//! - (RECORD-2) the engine's state is at most as new as the entries in the surviving records. Each
//!   entry is in it whole, with its id, or not at all (I22).

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    Direction, DiskId, EntryId, Lsn, Mutation, Progress, RangeContent, Record, RecoveredState,
    Register, Scan, TransferStep, View, ViewError,
};

use super::plan::RotHow;
use super::random::Random;

/// The content of an engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pairs: BTreeMap<Bytes, Bytes>,
    /// The exclusive or of all pairs' hashes.
    digest: u64,
    pub(crate) applied: EntryId,
    pub(crate) is_filling: bool,
    /// Whether it holds something else than what it was given.
    pub(crate) is_rotten: bool,
}

/// One change of the engine, done whole or not at all.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Apply(EntryId, Arc<Vec<Mutation>>),
    Fill(TransferStep),
}

/// What has been done, as a replica is to hear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Applied(EntryId),
    Filled,
}

/// The disk.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) id: DiskId,
    durable: RecoveredState,
    unsynced: VecDeque<(Lsn, Record)>,
    /// The state that survives a crash for certain.
    settled: State,
    /// What was done since, which a crash may undo from the end.
    recent: VecDeque<Work>,
    /// What the running process sees.
    state: State,
    fixed: Option<State>,
}

/// Work done since the settled state, at most.
const RECENT_MAX: usize = 32;

impl Disk {
    pub(crate) fn new(id: DiskId) -> Self {
        Disk {
            id,
            durable: RecoveredState::default(),
            unsynced: VecDeque::new(),
            settled: State::default(),
            recent: VecDeque::new(),
            state: State::default(),
            fixed: None,
        }
    }

    pub(crate) fn write(&mut self, lsn: Lsn, record: Record) {
        self.unsynced.push_back((lsn, record));
    }

    /// The last record written that is not durable.
    pub(crate) fn last_unsynced(&self) -> Option<Lsn> {
        self.unsynced.back().map(|(lsn, _)| *lsn)
    }

    /// Makes records up to `upto` durable, and gives them.
    pub(crate) fn sync(&mut self, upto: Lsn) -> Vec<Record> {
        let mut synced = Vec::new();
        while let Some((lsn, _)) = self.unsynced.front()
            && *lsn <= upto
        {
            let (_, record) = self.unsynced.pop_front().expect("it has a front");
            self.durable.take(record.clone());
            synced.push(record);
        }
        synced
    }

    /// Changes the engine.
    pub(crate) fn work(&mut self, work: Work) -> Option<Done> {
        let done = self.state.take(&work);
        let is_fill = matches!(work, Work::Fill(_));
        self.recent.push_back(work);
        // A part of a fill is durable before the next begins.
        let keep = match is_fill {
            true => 0,
            false => RECENT_MAX,
        };
        while keep < self.recent.len() {
            let oldest = self.recent.pop_front().expect("it is longer");
            self.settled.take(&oldest);
        }
        done
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// One row is another; says whether there was one, and nothing but a comparison can tell.
    pub(crate) fn bit_rot(&mut self, row: u64, how: RotHow) -> bool {
        let count = self.settled.pairs.len().max(1);
        let row = self.settled.pairs.iter().nth(row as usize % count);
        let Some((key, value)) = row.map(|(key, value)| (key.clone(), value.clone())) else {
            return false;
        };
        let mut bytes = value.to_vec();
        let (key, value) = match how {
            RotHow::Drop => (key, None),
            RotHow::Double => (Bytes::from([&key[..], b"'"].concat()), Some(value)),
            RotHow::Flip => {
                let last = bytes.last_mut().expect("no row of a register is empty");
                *last ^= 4;
                let bytes = Bytes::from(bytes);
                let is_register = |bytes: &Bytes| Register::decode(bytes.clone()).is_ok();
                if is_register(&value) && !is_register(&bytes) {
                    return false;
                }
                (key, Some(bytes))
            }
        };
        let mutation = Mutation { key, value };
        for state in [&mut self.state, &mut self.settled] {
            state.set(&mutation);
            state.is_rotten = true;
        }
        true
    }

    pub(crate) fn fix(&mut self) {
        self.fixed = Some(self.state.clone());
    }

    pub(crate) fn unfix(&mut self) {
        self.fixed = None;
    }

    pub(crate) fn fixed(&self) -> Option<&State> {
        self.fixed.as_ref()
    }

    /// The process ends; what is not durable survives as chance has it. Gives the records that do.
    pub(crate) fn crash(&mut self, random: &mut Random) -> Vec<Record> {
        let count = random.below(self.unsynced.len() + 1);
        let survivors = self.unsynced.drain(..).take(count);
        let survivors: Vec<Record> = survivors.map(|(_, record)| record).collect();
        for record in &survivors {
            self.durable.take(record.clone());
        }
        let works = random.below(self.recent.len() + 1);
        let last = self.durable.last();
        for work in self.recent.drain(..).take(works) {
            match &work {
                Work::Apply(id, _) if last < *id => break,
                _ => drop(self.settled.take(&work)),
            }
        }
        self.state = self.settled.clone();
        self.fixed = None;
        self.durable.release(self.state.applied);
        survivors
    }

    /// A copy as a crash now might leave it.
    pub(crate) fn copy(&self, random: &mut Random) -> Self {
        let mut copy = self.clone();
        copy.crash(random);
        copy
    }

    /// What it shows to a member that starts on it.
    pub(crate) fn progress(&self) -> Progress {
        let applied = match self.state.is_filling {
            true => EntryId::ZERO,
            false => self.state.applied,
        };
        Progress::of_disk(&self.durable, applied)
    }

    /// What a starting process finds.
    pub(crate) fn durable(&self) -> RecoveredState {
        self.durable.clone()
    }
}

impl State {
    /// The registers and everything else, in order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.pairs.iter()
    }

    /// A number that differs where the content does.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    fn take(&mut self, work: &Work) -> Option<Done> {
        match work {
            Work::Apply(id, mutations) => {
                mutations.iter().for_each(|mutation| self.set(mutation));
                self.applied = *id;
                Some(Done::Applied(*id))
            }
            Work::Fill(fill) => {
                match fill {
                    TransferStep::Begin => self.is_filling = true,
                    TransferStep::Range(range) => self.replace(range),
                    TransferStep::End { at } => {
                        self.is_filling = false;
                        self.is_rotten = false;
                        self.applied = *at;
                    }
                }
                Some(Done::Filled)
            }
        }
    }

    fn set(&mut self, mutation: &Mutation) {
        let Mutation { key, value } = mutation;
        let old = match value {
            Some(value) => {
                self.digest ^= hash(key, value);
                self.pairs.insert(key.clone(), value.clone())
            }
            None => self.pairs.remove(key),
        };
        if let Some(old) = old {
            self.digest ^= hash(key, &old);
        }
    }

    fn replace(&mut self, range: &RangeContent) {
        let gone: Vec<Bytes> = self
            .pairs
            .range(range.start.clone()..)
            .map(|(key, _)| key.clone())
            .take_while(|key| *key < range.end)
            .collect();
        for key in gone {
            self.set(&Mutation { key, value: None });
        }
        for (key, value) in &range.rows {
            self.set(&Mutation {
                key: key.clone(),
                value: Some(value.clone()),
            });
        }
    }
}

fn hash(key: &Bytes, value: &Bytes) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}

impl View for State {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        View::get(&self.pairs, key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        self.pairs.scan(start, end, direction)
    }
}
