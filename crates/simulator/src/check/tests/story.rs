//! A history written by hand: what is not said happens as it should.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    ChainMember, Change, Configuration, DiskId, ElementOp, Entry, EntryId, Incarnation, NodeId,
    Register, RequestId, Role, Stamp, TombstonePolicy, Wiring,
};

use crate::history::*;
use crate::service::{PAIRS, Service, State, pairs_value};

pub(crate) const SERVICE: Service = Service { pairs_max: 3 };

pub(crate) fn id(epoch: u64, index: u64) -> EntryId {
    EntryId::new(epoch, index)
}

pub(crate) fn add(value: &str) -> ElementOp {
    ElementOp::Add {
        group: "a".into(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

pub(crate) fn remove(value: &str) -> ElementOp {
    ElementOp::Remove {
        group: "a".into(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

pub(crate) fn clear() -> ElementOp {
    ElementOp::Clear { group: "a".into() }
}

pub(crate) fn put(key: &str, ops: &[ElementOp]) -> Request {
    Request {
        writes: vec![Write {
            key: Bytes::copy_from_slice(key.as_bytes()),
            ops: ops.to_vec(),
        }],
        ..Request::default()
    }
}

pub(crate) fn get(key: &str) -> Request {
    Request {
        reads: vec![Bytes::copy_from_slice(key.as_bytes())],
        ..Request::default()
    }
}

pub(crate) fn eventual(quorum: usize) -> Level {
    Level::Eventual {
        quorum,
        sloppy: false,
    }
}

/// The registers after some entries.
#[derive(Clone, Default)]
struct Memory(BTreeMap<Bytes, Register>);

impl State for Memory {
    fn register(&self, key: &Bytes) -> Register {
        self.0.get(key).cloned().unwrap_or_default()
    }

    fn pairs(&self) -> u64 {
        self.0
            .values()
            .map(|register| register.pairs().count() as u64)
            .sum()
    }
}

/// A history with the log as it grows.
pub(crate) struct Story {
    pub(crate) history: History,
    pub(crate) epoch: u64,
    pub(crate) safe_point: EntryId,
    members: Vec<(u32, u128, Role)>,
    log: Vec<Arc<Entry>>,
    step: u64,
}

impl Story {
    /// Members 1, 2 and 3, in epoch 1.
    pub(crate) fn new() -> Self {
        let mut story = Story {
            history: History::default(),
            epoch: 0,
            safe_point: EntryId::ZERO,
            members: Vec::new(),
            log: Vec::new(),
            step: 0,
        };
        story.publish(&[(1, 1), (2, 1), (3, 1)]);
        story
    }

    /// The next moment, a millisecond later.
    pub(crate) fn tick(&mut self) -> Moment {
        self.step += 1;
        Moment {
            nanos: self.step * 1_000_000,
            step: self.step,
        }
    }

    pub(crate) fn fact(&mut self, fact: Fact) {
        let at = self.tick();
        self.history.events.push(Event { at, fact });
    }

    /// The next epoch: serving members, each with its incarnation.
    pub(crate) fn publish(&mut self, members: &[(u32, u128)]) {
        self.members = members
            .iter()
            .map(|(node, incarnation)| (*node, *incarnation, Role::Serving))
            .collect();
        self.epoch += 1;
        let members = self
            .members
            .iter()
            .map(|(node, incarnation, role)| ChainMember {
                node: NodeId(*node),
                incarnation: Incarnation(*incarnation),
                disk: DiskId(u128::from(*node)),
                role: *role,
            });
        let configuration = Configuration {
            epoch: self.epoch,
            wiring: Wiring::Star,
            members: members.collect(),
            last_serving: Vec::new(),
            absent: Vec::new(),
            safe_point: self.safe_point,
            lossy: fader_chain::UncleanRecovery::default(),
            version: fader_chain::Version::NEWEST,
        };
        self.fact(Fact::Published(Arc::new(configuration)));
    }

    /// A client asks member `node`; every call has a name.
    pub(crate) fn ask(&mut self, node: u32, level: Level, request: Request) -> usize {
        let invoked = self.tick();
        let call = self.history.calls.len();
        self.history.calls.push(Call {
            client: 1,
            session: None,
            name: Some(RequestId {
                client: 1_u128.into(),
                seq: call as u64 + 1,
                part: 0,
            }),
            borrowed: None,
            node: NodeId(node),
            invoked,
            level,
            request,
            end: None,
        });
        call
    }

    pub(crate) fn in_session(&mut self, session: u32, call: usize) -> usize {
        self.history.calls[call].session = Some(session);
        call
    }

    pub(crate) fn end(&mut self, call: usize, outcome: Outcome) {
        let at = self.tick();
        self.history.calls[call].end = Some((at, outcome));
    }

    pub(crate) fn name(&self, call: usize) -> RequestId {
        self.history.calls[call]
            .name
            .expect("every call has a name")
    }

    pub(crate) fn last(&self) -> EntryId {
        self.log.last().map_or(EntryId::ZERO, |entry| entry.id)
    }

    /// The registers after the entries up to `at`.
    fn memory(&self, at: EntryId) -> Memory {
        let mut memory = Memory::default();
        for entry in self.log.iter().filter(|entry| entry.id <= at) {
            merge(&mut memory, entry.id, entry.stamp, &entry.changes);
        }
        memory
    }

    pub(crate) fn register(&self, key: &str, at: EntryId) -> Register {
        self.memory(at)
            .register(&Bytes::copy_from_slice(key.as_bytes()))
    }

    /// Appends and commits an entry of the current epoch.
    pub(crate) fn append(
        &mut self,
        stamp: Option<Stamp>,
        request: Option<RequestId>,
        result: Bytes,
        writes: &[Write],
    ) -> EntryId {
        let prev = self.last();
        let id = EntryId::new(self.epoch, prev.index + 1);
        let stamp = stamp.unwrap_or(Stamp::strong(id));
        let mut changes: Vec<Change> = writes
            .iter()
            .map(|write| Change::Merge {
                key: write.key.clone(),
                ops: write.ops.clone(),
                marks: TombstonePolicy::Kept,
            })
            .collect();
        let mut memory = self.memory(prev);
        merge(&mut memory, id, stamp, &changes);
        if !changes.is_empty() {
            changes.push(Change::Put {
                key: PAIRS.into(),
                value: pairs_value(memory.pairs()),
            });
        }
        let entry = Arc::new(Entry {
            id,
            prev,
            safe_point: self.safe_point,
            stamp,
            request,
            result,
            changes,
        });
        self.log.push(entry.clone());
        for node in self.members.clone() {
            let node = NodeId(node.0);
            let entry = entry.clone();
            self.fact(Fact::Committed { node, entry });
        }
        id
    }

    /// Decides and commits a strong call.
    pub(crate) fn commit(&mut self, call: usize) -> EntryId {
        let request = self.history.calls[call].request.clone();
        let decision = SERVICE.decide(&request, &self.memory(self.last()));
        let name = self.name(call);
        self.append(None, Some(name), decision.answer.encode(), &decision.writes)
    }

    /// Answers a strong call by its entry.
    pub(crate) fn answer(&mut self, call: usize, entry: EntryId) {
        let known = self.log.iter().find(|known| known.id == entry);
        let result = known.map_or_else(Bytes::new, |known| known.result.clone());
        self.end(call, Outcome::Done(Reply::Decided { entry, result }));
    }

    /// A strong write from beginning to end.
    pub(crate) fn write(&mut self, key: &str, ops: &[ElementOp]) -> EntryId {
        let call = self.ask(1, Level::Strong, put(key, ops));
        let entry = self.commit(call);
        self.answer(call, entry);
        entry
    }

    /// Answers a read with the state at `commit`, and these operations above it.
    pub(crate) fn show(&mut self, call: usize, commit: EntryId, above: &[(Stamp, ElementOp)]) {
        let key = self.history.calls[call].request.reads[0].clone();
        let mut register = self.memory(commit).register(&key);
        for (stamp, op) in above {
            register.merge(std::slice::from_ref(op), *stamp);
        }
        let shown = Shown {
            key,
            register,
            tentative: !above.is_empty(),
        };
        let reply = Reply::Shown {
            epoch: self.epoch,
            commit,
            safe_point: self.safe_point,
            registers: vec![shown],
        };
        self.end(call, Outcome::Done(reply));
    }

    /// A read from beginning to end.
    pub(crate) fn read(
        &mut self,
        level: Level,
        key: &str,
        commit: EntryId,
        above: &[(Stamp, ElementOp)],
    ) -> usize {
        let call = self.ask(2, level, get(key));
        self.show(call, commit, above);
        call
    }

    /// Member `node` stamps an eventual call and holds it.
    pub(crate) fn stamp(&mut self, call: usize, node: u32, base: EntryId, clock: u64) -> Stamp {
        let stamp = Stamp {
            base,
            clock,
            node,
            counter: 0,
        };
        let write = self.history.calls[call].request.writes[0].clone();
        let name = self.name(call);
        self.fact(Fact::Stamped(Stamping {
            shown: Stamp::ZERO,
            node: NodeId(node),
            lease: true,
            name,
            stamp,
            accept: self.last(),
            key: write.key,
            ops: write.ops,
        }));
        self.hold(call, node);
        stamp
    }

    pub(crate) fn hold(&mut self, call: usize, node: u32) {
        let name = self.name(call);
        let node = NodeId(node);
        self.fact(Fact::Held { node, name });
    }

    /// Member `node` acknowledges an eventual call as attached, and the client hears of it.
    pub(crate) fn accept(&mut self, call: usize, node: u32, stamp: Stamp) {
        let Level::Eventual { quorum, .. } = self.history.calls[call].level else {
            panic!("only eventual calls are accepted");
        };
        let name = self.name(call);
        self.fact(Fact::Acknowledged {
            node: NodeId(node),
            name,
            quorum,
            attached: true,
            lease: true,
        });
        let reply = Reply::Accepted {
            stamps: vec![stamp],
            attached: true,
            statuses: Vec::new(),
        };
        self.end(call, Outcome::Done(reply));
    }

    /// An eventual write from beginning to acknowledgement: stamped by the first of `holders`.
    pub(crate) fn put_eventually(
        &mut self,
        key: &str,
        ops: &[ElementOp],
        (base, clock): (EntryId, u64),
        holders: &[u32],
    ) -> (usize, Stamp) {
        let call = self.ask(holders[0], eventual(holders.len()), put(key, ops));
        let stamp = self.stamp(call, holders[0], base, clock);
        holders[1..]
            .iter()
            .for_each(|holder| self.hold(call, *holder));
        self.accept(call, holders[0], stamp);
        (call, stamp)
    }

    /// Settles an eventual call by what survives on the log.
    pub(crate) fn settle(&mut self, call: usize, stamp: Stamp) -> EntryId {
        let write = self.history.calls[call].request.writes[0].clone();
        let memory = self.memory(self.last());
        let ops = memory.register(&write.key).survivors(&write.ops, stamp);
        let fits = SERVICE.settle(&write.key, &ops, stamp, &memory).is_some();
        let (ops, status) = match (ops.is_empty(), fits) {
            (true, _) => (ops, WriteStatus::Superseded),
            (false, true) => (ops, WriteStatus::Applied),
            (false, false) => (Vec::new(), WriteStatus::Refused),
        };
        self.settle_as(call, stamp, ops, status)
    }

    pub(crate) fn settle_as(
        &mut self,
        call: usize,
        stamp: Stamp,
        ops: Vec<ElementOp>,
        status: WriteStatus,
    ) -> EntryId {
        let name = self.name(call);
        let key = self.history.calls[call].request.writes[0].key.clone();
        let writes = match ops.is_empty() {
            true => Vec::new(),
            false => vec![Write { key, ops }],
        };
        let entry = self.append(Some(stamp), Some(name), Bytes::new(), &writes);
        self.fact(Fact::Settled {
            name,
            entry,
            status,
        });
        entry
    }

    /// Nothing is left to happen: every member has applied the log.
    pub(crate) fn rest(&mut self) {
        let memory = self.memory(self.last());
        let members = self.members.iter().map(|(node, ..)| MemberState {
            node: NodeId(*node),
            applied: self.last(),
            pairs: memory.pairs(),
            registers: memory.0.clone(),
            overlay: Vec::new(),
            quarantine: Vec::new(),
        });
        self.history.rest = members.collect();
    }

    /// How many claims the check of this name found true.
    #[track_caller]
    pub(crate) fn holds(&self, check: &str) -> usize {
        match super::all(&self.history, SERVICE) {
            Ok(claims) => {
                let known = claims.iter().find(|(name, _)| *name == check);
                known.expect("the check's name").1
            }
            Err(violation) => panic!("{violation}"),
        }
    }

    /// The run breaks this guarantee, and no other first.
    #[track_caller]
    pub(crate) fn violates(&self, guarantee: &str) -> String {
        match super::all(&self.history, SERVICE) {
            Ok(claims) => panic!("{guarantee} seems to hold: {claims:?}"),
            Err(violation) => {
                assert_eq!(violation.guarantee, guarantee, "{violation}");
                violation.to_string()
            }
        }
    }
}

fn merge(memory: &mut Memory, id: EntryId, stamp: Stamp, changes: &[Change]) {
    for change in changes {
        if let Change::Merge { key, ops, .. } = change {
            let register = memory.0.entry(key.clone()).or_default();
            register.merge(ops, stamp);
            register.version = id;
        }
    }
}
