//! A stand-in for a chain of three members. It has one log, which a head appends to, members that
//! apply it as far as they are told, and their overlays. It has no messages, no failures and no
//! time; what rests on those is the simulator's to show.
//!
//! It follows the rules by name: WR-1 and XO-2 for strong writes, EV-2 and EV-3 for eventual ones.
//! PR-3, PR-5 and PR-6 are for their settlement, ER-1 for reads.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{
    ApplyContext, Change, ElementOp, EntryId, ModeState, Outcome, Register, RequestId, Stamp,
};

use super::super::*;
use crate::{View, split_item_key};

pub(super) const ACCOUNT: &str = "000000000001";
pub(super) const NOW_MS: u64 = 1_317_975_502_999;
const EPOCH: u64 = 1;

/// An eventual operation in an overlay.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) stamp: Stamp,
    /// The last entry of the log when it was accepted.
    pub(super) accept: EntryId,
    pub(super) key: Bytes,
    /// What no committed state here covers.
    pub(super) ops: Vec<ElementOp>,
}

/// One member: committed state, and overlay.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub(super) view: MapView,
    pub(super) applied: usize,
    pub(super) is_held: bool,
    pub(super) overlay: BTreeMap<RequestId, Operation>,
    pub(super) tentative: Tentative,
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    under: ApplyContext,
    name: Option<RequestId>,
    result: Option<Bytes>,
    changes: Vec<Change>,
}

/// A chain of three.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) members: [Member; 3],
    /// The newest state of the log.
    pub(super) newest: MapView,
    pub(super) log: Vec<Logged>,
    pub(super) limits: Limits,
    account: AccountId,
    floor: EntryId,
    clock: u64,
}

/// How a strong request ended: by an entry, unless it was refused in any state.
pub(super) struct Decided {
    pub(super) entry: Option<EntryId>,
    pub(super) outcome: Result<CostedReply, Error>,
    pub(super) changes: Vec<Change>,
}

impl World {
    pub(super) fn new() -> Self {
        World {
            members: Default::default(),
            newest: MapView::default(),
            log: Vec::new(),
            limits: Limits::default(),
            account: AccountId(ACCOUNT.to_owned()),
            floor: EntryId::ZERO,
            clock: 0,
        }
    }

    /// The context of `request` on `view`.
    pub(super) fn context(&self, view: &dyn View, request: &Request) -> Context<'_> {
        let domain = request.domain();
        let entry = domain.and_then(|name| catalog::domain(view, &self.account, name).unwrap());
        let collection = entry.as_ref().map(|entry| entry.collection);
        Context {
            collection,
            mode: entry.map(|entry| entry.mode).unwrap_or_default(),
            now_ms: NOW_MS,
            ..Context::new(&self.account, &self.limits)
        }
    }

    /// A strong write at the head (WR-1).
    pub(super) fn strong(&mut self, name: Option<RequestId>, request: &Request) -> Decided {
        if let Some(decided) = name.and_then(|name| self.known(name)) {
            return decided;
        }
        let decision = decide(&self.newest, &self.context(&self.newest, request), request);
        let Decision { outcome, changes } = decision;
        let Some(result) = encode_outcome(outcome.as_ref()) else {
            assert!(changes.is_empty(), "what is no entry changes nothing");
            let entry = None;
            return Decided {
                entry,
                outcome,
                changes,
            };
        };
        let stamp = Stamp::strong(self.next_id());
        let id = self.append(stamp, name, result, changes.clone());
        Decided {
            entry: Some(id),
            outcome,
            changes,
        }
    }

    /// A command to the catalog, at the head.
    pub(super) fn catalog(
        &mut self,
        command: &catalog::Command,
    ) -> Result<Option<EntryId>, catalog::Refusal> {
        let Decision { outcome, changes } = catalog::decide(&self.newest, command);
        outcome?;
        Ok(self.append_changes(changes))
    }

    /// The next step of a closing domain, at the head.
    pub(super) fn close(&mut self, collection: CollectionId) -> Option<EntryId> {
        let changes = catalog::close_collection(&self.newest, collection).unwrap();
        self.append_changes(changes)
    }

    fn append_changes(&mut self, changes: Vec<Change>) -> Option<EntryId> {
        let stamp = Stamp::strong(self.next_id());
        (!changes.is_empty()).then(|| self.append(stamp, None, Bytes::new(), changes))
    }

    /// The result of a name that the log has (XO-2).
    fn known(&self, name: RequestId) -> Option<Decided> {
        let logged = self.log.iter().find(|logged| logged.name == Some(name))?;
        let result = logged.result.clone().expect("a name has a result");
        Some(Decided {
            entry: Some(logged.under.id),
            outcome: decode_outcome(result).unwrap(),
            changes: Vec::new(),
        })
    }

    /// An eventual write at member `at`: accepted, stamped, in its overlay (EV-2).
    pub(super) fn eventual(
        &mut self,
        at: usize,
        name: RequestId,
        request: &Request,
    ) -> Result<Vec<(RequestId, Stamp)>, Error> {
        let view = self.shown(at);
        let acceptance = accept(
            &view,
            &self.context(&self.members[at].view, request),
            request,
        )?;
        assert_eq!(acceptance.answered.reply, Reply::Done);
        let mut stamped = Vec::new();
        for (part, write) in (0..).zip(acceptance.writes) {
            let name = RequestId { part, ..name };
            let known = self.members[at].overlay.get(&name).map(|known| known.stamp);
            let stamp = known.unwrap_or_else(|| self.stamp(at, &write.key));
            let operation = Operation {
                stamp,
                accept: self.last_id(),
                key: write.key,
                ops: write.ops,
            };
            self.offer(at, name, operation);
            stamped.push((name, stamp));
        }
        Ok(stamped)
    }

    /// The base is the register's version in the log, or of its operations in the overlay. Every
    /// member has persisted the log, with any part of it applied (D5).
    fn stamp(&mut self, at: usize, key: &Bytes) -> Stamp {
        self.clock += 1;
        let overlay = self.members[at].overlay.values();
        let bases = overlay.filter(|operation| operation.key == *key);
        let bases = bases.map(|operation| operation.stamp.base);
        let version = register(&self.newest, key).version.max(self.floor);
        let version = version.max(self.standing(key).opened);
        Stamp {
            base: bases.fold(version, EntryId::max),
            clock: self.clock,
            node: u32::try_from(at).unwrap() + 1,
            counter: 0,
        }
    }

    /// A member takes an operation, unless its name is settled there (EV-3).
    pub(super) fn offer(&mut self, at: usize, name: RequestId, operation: Operation) {
        let applied = &self.log[..self.members[at].applied];
        if applied.iter().any(|logged| logged.name == Some(name)) {
            return;
        }
        let member = &mut self.members[at];
        let key = operation.key.clone();
        member.overlay.entry(name).or_insert(operation);
        member.refresh(&key);
    }

    /// Settles an operation as the head (PR-3): what became of it, unless its name was settled.
    pub(super) fn promote(
        &mut self,
        name: RequestId,
        operation: &Operation,
    ) -> Option<(Outcome, Vec<Change>)> {
        if self.log.iter().any(|logged| logged.name == Some(name)) {
            return None;
        }
        let Operation {
            stamp,
            accept,
            key,
            ops,
        } = operation;
        let survivors = register(&self.newest, key).survivors(ops, *stamp);
        let (outcome, changes) = match survivors.is_empty() {
            _ if !self.standing(key).settles(*accept) => (Outcome::Gone, Vec::new()),
            true => (Outcome::Superseded, Vec::new()),
            false => self.settle(key, survivors, *stamp),
        };
        self.append(*stamp, Some(name), outcome.encode(), changes.clone());
        Some((outcome, changes))
    }

    fn settle(&self, key: &Bytes, ops: Vec<ElementOp>, stamp: Stamp) -> (Outcome, Vec<Change>) {
        let settled = settle(&self.newest, &self.limits, key, ops, stamp).unwrap();
        match settled.into() {
            fader_chain::Settled::Apply(changes) => (Outcome::Applied, changes),
            fader_chain::Settled::Refused(cause) => (Outcome::Refused(cause), Vec::new()),
        }
    }

    /// What the chain keeps of the mode of an item's domain (MD-1).
    fn standing(&self, key: &[u8]) -> ModeState {
        let (collection, _) = split_item_key(key).unwrap();
        ModeState::of(&self.newest, collection.0).unwrap()
    }

    /// Raises the floor to the last entry, and collects every mark at or below it (GC-2 to GC-4).
    pub(super) fn collect(&mut self) -> usize {
        self.floor = self.last_id();
        let end = fader_chain::row_key(EntryId::new(u64::MAX, u64::MAX), b"");
        let rows: Vec<_> = self
            .newest
            .iter()
            .filter(|(key, _)| **key < end)
            .filter_map(|(key, value)| {
                let (entry, register) = fader_chain::parse_row_key(key)?;
                let mut reader = fader_chain::Reader::new(value.clone());
                Some(Change::Collect {
                    key: Bytes::copy_from_slice(register),
                    entry,
                    stamp: Stamp::decode(&mut reader).unwrap(),
                })
            })
            .collect();
        let (count, stamp) = (rows.len(), Stamp::strong(self.next_id()));
        self.append(stamp, None, Bytes::new(), rows);
        count
    }

    fn append(
        &mut self,
        stamp: Stamp,
        name: Option<RequestId>,
        result: Bytes,
        changes: Vec<Change>,
    ) -> EntryId {
        let under = ApplyContext {
            id: self.next_id(),
            stamp,
            safe_point: self.floor,
        };
        self.newest.apply(&changes, &under).unwrap();
        self.log.push(Logged {
            under,
            name,
            result: name.map(|_| result),
            changes,
        });
        (0..self.members.len())
            .filter(|at| !self.members[*at].is_held)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|at| self.catch_up(at));
        under.id
    }

    /// Applies all that the log has, entry by entry.
    pub(super) fn catch_up(&mut self, at: usize) {
        for logged in &self.log[self.members[at].applied..] {
            self.members[at].apply(logged);
        }
    }

    fn last_id(&self) -> EntryId {
        EntryId::new(EPOCH, self.log.len() as u64)
    }

    fn next_id(&self) -> EntryId {
        EntryId::new(EPOCH, self.log.len() as u64 + 1)
    }

    /// What a member shows to eventual readers.
    pub(super) fn shown(&self, at: usize) -> MapView {
        let member = &self.members[at];
        let mut view = member.view.clone();
        let changes = member.tentative.mutations().iter();
        let changes = changes.map(|(key, value)| match value.clone() {
            Some(value) => Change::Put {
                key: key.clone(),
                value,
            },
            None => Change::Remove { key: key.clone() },
        });
        let changes: Vec<_> = changes.collect();
        view.apply(&changes, &ApplyContext::strong(EntryId::ZERO))
            .unwrap();
        view
    }

    /// The join of what members hold committed, and of what they show (ER-1).
    pub(super) fn joined(&self, members: &[usize], key: &[u8]) -> (Register, Register) {
        let mut committed = Register::default();
        for at in members {
            committed.join(&register(&self.members[*at].view, key));
        }
        let mut shown = committed.clone();
        for operation in members
            .iter()
            .flat_map(|at| self.members[*at].overlay.values())
        {
            if operation.key == key {
                shown.merge(&operation.ops, operation.stamp);
            }
        }
        (committed, shown)
    }
}

impl Member {
    fn apply(&mut self, logged: &Logged) {
        self.view.apply(&logged.changes, &logged.under).unwrap();
        self.applied += 1;
        let removed = logged.name.and_then(|name| self.overlay.remove(&name));
        let merged = logged.changes.iter().map(|change| change.key().clone());
        let merged = merged.filter(|key| split_item_key(key).is_some());
        for key in merged.chain(removed.map(|operation| operation.key)) {
            self.refresh(&key);
        }
    }

    /// Prunes the overlay's operations on a register (PR-6), and shows it anew.
    fn refresh(&mut self, key: &Bytes) {
        let committed = register(&self.view, key);
        let of_key = self.overlay.values_mut();
        for operation in of_key.filter(|operation| operation.key == *key) {
            operation.ops = committed.survivors(&operation.ops, operation.stamp);
        }
        let of_key = self.overlay.values();
        let unsettled = of_key.filter(|operation| operation.key == *key);
        let unsettled = unsettled.map(|operation| Unsettled {
            ops: &operation.ops,
            stamp: operation.stamp,
        });
        self.tentative.show(&self.view, key, unsettled).unwrap();
    }
}

pub(super) fn register(view: &dyn View, key: &[u8]) -> Register {
    pairs::stored_register(view, key).unwrap()
}
