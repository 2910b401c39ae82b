//! The overlay: eventual operations that are not settled yet, by name and by register, and what a
//! member shows because of them.
//!
//! Invariants:
//! - OVERLAY-1 one operation per name: a second attempt of a name that is here changes nothing
//!   (TRACE-10).
//! - OVERLAY-2 an operation loses elements to committed state only, and stays, empty if need be,
//!   until its name is settled (D2, D4, PR-6).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::change::ElementOp;
use crate::entry::RequestId;
use crate::message::Scope;
use crate::operation::Operation;
use crate::record::Lsn;
use crate::register::Register;
use crate::replica::PossibleInputs;
use crate::stamp::Stamp;
use crate::view::{Direction, Scan, View, ViewError, merge_scans};

/// What an operation and each of its elements take of memory beside their bytes, roughly.
const OPERATION_BYTES: usize = 256;
const ELEMENT_BYTES: usize = 64;

/// An operation, and how it is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OverlayEntry {
    pub(super) operation: Arc<Operation>,
    /// Its record.
    pub(super) lsn: Lsn,
    /// When it came, in milliseconds of the member's monotonic clock.
    pub(super) since: u64,
}

/// The operations of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Overlay {
    held: BTreeMap<RequestId, OverlayEntry>,
    names: BTreeMap<Bytes, BTreeSet<RequestId>>,
    bytes: usize,
}

impl Overlay {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// What it takes of memory, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, name: &RequestId) -> Option<&OverlayEntry> {
        self.held.get(name)
    }

    pub(super) fn holds(&self, name: &RequestId) -> bool {
        self.held.contains_key(name)
    }

    /// All of them, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &OverlayEntry> {
        self.held.values()
    }

    /// Those on one register.
    pub(super) fn on<'a>(&'a self, key: &[u8]) -> impl Iterator<Item = &'a Arc<Operation>> {
        let names = self.names.get(key).into_iter().flatten();
        names.map(|name| &self.held[name].operation)
    }

    /// Those on the registers in `start..end`, by register.
    pub(super) fn within<'a>(
        &'a self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = &'a Arc<Operation>> {
        let keys = (start < end).then(|| self.keys(start, end));
        let names = keys.into_iter().flatten().flat_map(|(_, names)| names);
        names.map(|name| &self.held[name].operation)
    }

    /// Those that `scope` names.
    pub(super) fn of(&self, scope: &Scope) -> Vec<Arc<Operation>> {
        match scope {
            Scope::Keys(keys) => {
                let distinct: BTreeSet<&Bytes> = keys.iter().collect();
                let found = distinct.into_iter().flat_map(|key| self.on(key));
                found.cloned().collect()
            }
            Scope::All => self.all().map(|held| held.operation.clone()).collect(),
        }
    }

    /// Adds what is not here.
    pub(super) fn insert(&mut self, operation: Arc<Operation>, lsn: Lsn, since: u64) {
        let name = operation.name;
        if self.holds(&name) {
            return;
        }
        self.bytes += size(&operation);
        let names = self.names.entry(operation.key.clone()).or_default();
        names.insert(name);
        let held = OverlayEntry {
            operation,
            lsn,
            since,
        };
        self.held.insert(name, held);
    }

    /// PR-5: the name is settled.
    pub(super) fn remove(&mut self, name: &RequestId) -> Option<OverlayEntry> {
        let held = self.held.remove(name)?;
        self.bytes -= size(&held.operation);
        let key = &held.operation.key;
        if let Some(names) = self.names.get_mut(key) {
            names.remove(name);
            if names.is_empty() {
                self.names.remove(key);
            }
        }
        Some(held)
    }

    /// PR-6: drops the elements of operations on `key` that `committed` covers.
    pub(super) fn prune(&mut self, key: &[u8], committed: &Register) {
        let Some(names) = self.names.get(key) else {
            return;
        };
        for name in names {
            let Some(held) = self.held.get_mut(name) else {
                continue;
            };
            let operation = &held.operation;
            let ops = committed.survivors(&operation.ops, operation.stamp);
            if ops.len() < operation.ops.len() {
                self.bytes -= size(operation);
                held.operation = Arc::new(Operation {
                    ops,
                    ..Operation::clone(operation)
                });
                self.bytes += size(&held.operation);
            }
        }
    }

    /// Mutant: operations on `key` with a stamp at or below the register's newest leave.
    pub(super) fn drop_below(&mut self, key: &[u8], newest: Stamp) {
        let old = self.on(key).filter(|operation| operation.stamp <= newest);
        let old: Vec<RequestId> = old.map(|operation| operation.name).collect();
        for name in old {
            self.remove(&name);
        }
    }

    /// Mutant: operations on `key` lose the elements that later operations cover.
    pub(super) fn prune_tentative(&mut self, key: &[u8], committed: &Register) {
        let mut held: Vec<Arc<Operation>> = self.on(key).cloned().collect();
        held.sort_unstable_by_key(|operation| std::cmp::Reverse(operation.stamp));
        let mut above = committed.clone();
        for operation in held {
            let ops = above.survivors(&operation.ops, operation.stamp);
            above.merge(&operation.ops, operation.stamp);
            let pruned = Operation {
                ops,
                ..Operation::clone(&operation)
            };
            if let Some(held) = self.remove(&operation.name) {
                self.insert(Arc::new(pruned), held.lsn, held.since);
            }
        }
    }

    /// See [`PossibleInputs`].
    pub(super) fn hash_future<H: Hasher>(
        &self,
        ahead: &PossibleInputs,
        durable: Lsn,
        state: &mut H,
    ) {
        for held in self.held.values() {
            (&held.operation, (durable < held.lsn).then_some(held.lsn)).hash(state);
            if ahead.time {
                held.since.hash(state);
            }
        }
    }

    fn keys(
        &self,
        start: &[u8],
        end: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&Bytes, &BTreeSet<RequestId>)> {
        let range = (Bound::Included(start), Bound::Excluded(end));
        self.names.range::<[u8], _>(range)
    }
}

fn size(operation: &Operation) -> usize {
    let ops = operation.ops.iter().map(|op| match op {
        ElementOp::ClearAll => 0,
        ElementOp::Clear { group } => group.len(),
        ElementOp::Add { group, value } | ElementOp::Remove { group, value } => {
            group.len() + value.len()
        }
    });
    let fixed = OPERATION_BYTES + operation.ops.len() * ELEMENT_BYTES;
    fixed + operation.key.len() + ops.sum::<usize>()
}

/// Committed state with an overlay's operations merged into its registers.
#[derive(Clone, Copy)]
pub(super) struct Tentative<'a> {
    pub(super) committed: &'a dyn View,
    pub(super) overlay: &'a Overlay,
}

impl Tentative<'_> {
    fn merged(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let mut register = committed_register(self.committed, key)?;
        for operation in self.overlay.on(key) {
            register.merge(&operation.ops, operation.stamp);
        }
        Ok((!register.is_vacant()).then(|| register.encode()))
    }
}

impl View for Tentative<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        match self.overlay.on(key).next() {
            Some(_) => self.merged(key),
            None => self.committed.get(key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        if end <= start {
            return Box::new(std::iter::empty());
        }
        let below = self.committed.scan(start, end, direction);
        let keys: Vec<&Bytes> = self.overlay.keys(start, end).map(|(key, _)| key).collect();
        let merged = keys
            .into_iter()
            .map(|key| Ok((key.clone(), self.merged(key)?)));
        match merged.collect::<Result<Vec<_>, ViewError>>() {
            Err(error) => Box::new(std::iter::once(Err(error))),
            Ok(mut above) => {
                if direction == Direction::Backward {
                    above.reverse();
                }
                merge_scans(below, above.into_iter(), direction)
            }
        }
    }
}

/// The register at `key`; where nothing is, one that knows nothing.
pub(in crate::replica) fn committed_register(
    state: &dyn View,
    key: &[u8],
) -> Result<Register, ViewError> {
    match state.get(key)? {
        Some(bytes) => Ok(Register::decode(bytes)?),
        None => Ok(Register::default()),
    }
}

/// Whether an operation decided what `shown` shows, which is `committed` with operations merged
/// into it (SDB-6.3). That is a visible pair, its stamp, or that a pair is not there.
pub(super) fn is_tentative(committed: &Register, shown: &Register) -> bool {
    let pairs = |register: &Register| -> BTreeSet<(Bytes, Bytes, Stamp)> {
        let groups = register.groups.iter();
        let live = groups.flat_map(|group| {
            let members = group.members.iter().filter(|member| member.live);
            members.map(|member| (group.name.clone(), member.value.clone(), member.written))
        });
        live.collect()
    };
    pairs(committed) != pairs(shown)
}
