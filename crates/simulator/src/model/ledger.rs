//! What has been committed anywhere, and what clients know: against this every step is checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{Change, Entry, EntryId, Register, RequestId, View, ViewError};
use fader_chain::{Direction, Scan, Stamp};

use super::node::decide;
use super::scenarios::{Ask, keys_of};

/// One committed entry, with the state it leads to.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) entry: Arc<Entry>,
    /// Every register, with every mark, after it.
    pub(super) registers: Arc<BTreeMap<Bytes, Register>>,
}

/// What a client knows of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// It was sent, so many times.
    pub(super) sent: u8,
    /// It was answered: strong ones with their entry.
    pub(super) answered: Option<EntryId>,
    /// The stamp of an eventual write, once it is acknowledged.
    pub(super) stamp: Option<Stamp>,
    /// What had been shown of the register when a read began.
    pub(super) began: EntryId,
    /// The greatest stamp on its registers that was acknowledged when it was first sent.
    pub(super) above: Stamp,
    /// Which asks had been acknowledged as eventual writes when it was first sent, by bits.
    pub(super) before: u32,
    /// An eventual write was stamped: later attempts may be stamped again.
    pub(super) is_stamped: bool,
}

/// The committed log, and what was shown of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    pub(super) log: Vec<Arc<Committed>>,
    /// The newest version of each register that any client was told of.
    pub(super) shown: BTreeMap<Bytes, EntryId>,
    pub(super) known: Vec<Known>,
}

/// The registers as the service sees them.
struct Replayed<'a>(&'a BTreeMap<Bytes, Register>);

impl View for Replayed<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(self.0.get(key).map(Register::encode))
    }

    fn scan(&self, _start: &[u8], _end: &[u8], _direction: Direction) -> Scan<'_> {
        Box::new(std::iter::empty())
    }
}

impl Ledger {
    /// A member handed `entry` to its engine: it is committed.
    ///
    /// # Errors
    /// What is wrong with that, in words.
    pub(super) fn commit(&mut self, entry: &Arc<Entry>, asks: &[Ask]) -> Result<(), String> {
        let place = entry.id.index as usize - 1;
        if let Some(committed) = self.log.get(place) {
            if committed.entry.id != entry.id || committed.entry.changes != entry.changes {
                let other = committed.entry.id;
                return Err(format!("I3: {} and {other} are both committed", entry.id));
            }
            return Ok(());
        }
        if place != self.log.len() {
            return Err(format!(
                "I3: {} is committed before what it follows",
                entry.id
            ));
        }
        if let Some(name) = entry.request {
            self.check_once(entry, name)?;
            let known = &self.known[name.seq as usize - 1];
            if !entry.is_settlement() && entry.stamp < known.above {
                let above = known.above;
                return Err(format!(
                    "G2: {} is below {above:?}, acknowledged before",
                    entry.id
                ));
            }
            if !entry.is_settlement() {
                self.check_decision(entry, &asks[name.seq as usize - 1])?;
            }
        }
        self.check_stamp(entry)?;
        let registers = self.replay(entry);
        self.log.push(Arc::new(Committed {
            entry: entry.clone(),
            registers: Arc::new(registers),
        }));
        Ok(())
    }

    fn check_once(&self, entry: &Entry, name: RequestId) -> Result<(), String> {
        let earlier = self
            .log
            .iter()
            .find(|other| other.entry.request == Some(name));
        match earlier {
            Some(other) => Err(format!(
                "I12: {name:?} is committed as {} and as {}",
                other.entry.id, entry.id
            )),
            None => Ok(()),
        }
    }

    /// I11: the outcome is what the log before it gives.
    fn check_decision(&self, entry: &Entry, ask: &Ask) -> Result<(), String> {
        let empty = BTreeMap::new();
        let before = self.log.last().map_or(&empty, |last| &*last.registers);
        let (writes, result) = decide(ask, &Replayed(before));
        let merged = entry.changes.iter().filter_map(|change| match change {
            Change::Merge { key, ops, .. } => Some((key.clone(), ops.clone())),
            _ => None,
        });
        match result == entry.result && merged.eq(writes) {
            true => Ok(()),
            false => Err(format!(
                "I11: {} was decided {:?}, the log before it says {result:?}",
                entry.id, entry.result
            )),
        }
    }

    /// I14, I17: no element enters below what was committed of it before.
    fn check_stamp(&self, entry: &Entry) -> Result<(), String> {
        let Some(last) = self.log.last() else {
            return Ok(());
        };
        for change in &entry.changes {
            if let Change::Merge { key, ops, .. } = change
                && let Some(register) = last.registers.get(key)
                && register.survivors(ops, entry.stamp) != *ops
            {
                return Err(format!(
                    "I14: {} with stamp {:?} enters below {register:?}",
                    entry.id, entry.stamp
                ));
            }
        }
        Ok(())
    }

    fn replay(&self, entry: &Entry) -> BTreeMap<Bytes, Register> {
        let before = self.log.last().map(|last| (*last.registers).clone());
        let mut registers = before.unwrap_or_default();
        for change in &entry.changes {
            if let Change::Merge { key, ops, .. } = change {
                let register: &mut Register = registers.entry(key.clone()).or_default();
                register.merge(ops, entry.stamp);
                register.version = entry.id;
            }
        }
        registers
    }

    /// The state after the entry `at`.
    pub(super) fn state_at(&self, at: EntryId) -> Option<&BTreeMap<Bytes, Register>> {
        let place = (at.index as usize).checked_sub(1)?;
        Some(&self.log.get(place)?.registers)
    }

    /// The version that `key` has in the committed prefix up to `at`.
    pub(super) fn version_at(&self, key: &Bytes, at: EntryId) -> EntryId {
        let register = self.state_at(at).and_then(|registers| registers.get(key));
        register.map_or(EntryId::ZERO, |register| register.version)
    }

    /// The greatest stamp of acknowledged eventual writes of the registers that `ask` is about.
    pub(super) fn held_on(&self, asks: &[Ask], ask: usize) -> Stamp {
        let keys = keys_of(&asks[ask]);
        let of_keys = asks
            .iter()
            .zip(&self.known)
            .filter(|(other, _)| keys_of(other).iter().any(|key| keys.contains(key)));
        of_keys
            .filter_map(|(_, known)| known.stamp)
            .max()
            .unwrap_or_default()
    }

    /// The asks that were acknowledged as eventual writes, by bits.
    pub(super) fn held(&self) -> u32 {
        let held = self.known.iter().enumerate();
        held.filter(|(_, known)| known.stamp.is_some())
            .fold(0, |bits, (ask, _)| bits | 1 << ask)
    }

    /// A client was told of `version` of `key`.
    pub(super) fn show(&mut self, key: &Bytes, version: EntryId) {
        let shown = self.shown.entry(key.clone()).or_default();
        *shown = version.max(*shown);
    }

    /// What was shown of `key` so far.
    pub(super) fn shown(&self, key: &Bytes) -> EntryId {
        self.shown.get(key).copied().unwrap_or_default()
    }
}
