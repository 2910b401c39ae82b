//! One member of a modelled chain: the real replica, a disk and an engine that are plain values.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    Accepted, Ahead, Change, Decided, Direction, Durable, ElementOp, EntryId, Guards, Host,
    Identity, Lsn, Marks, Operation, Record, Register, Replica, Scan, Scope, Settled, Token,
    Tuning, View, ViewError,
};

use super::scenarios::{Ask, Scene};
use super::step::{NOW, tuning};
use super::table::hash;

/// A member's engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) rows: Arc<BTreeMap<Bytes, Bytes>>,
    pub(super) applied: EntryId,
    pub(super) filling: bool,
}

impl View for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(self.rows.get(key).cloned())
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        let range = Bytes::copy_from_slice(start)..Bytes::copy_from_slice(end);
        let pairs = self.rows.range(range);
        let pairs = pairs.map(|(key, value)| Ok((key.clone(), value.clone())));
        match direction {
            Direction::Forward => Box::new(pairs),
            Direction::Backward => Box::new(pairs.rev()),
        }
    }
}

/// How the coordinator sees a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Session {
    /// Its lease holds.
    Live,
    /// Its lease has ended; its session may be declared over at any time.
    Ended,
}

/// One member.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) replica: Replica,
    pub(super) ahead: Ahead,
    pub(super) store: Store,
    pub(super) fixed: Option<Store>,
    /// What is durable.
    pub(super) durable: Durable,
    /// What is written and not durable.
    pub(super) unsynced: VecDeque<(Lsn, Record)>,
    pub(super) is_up: bool,
    pub(super) session: Session,
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.is_up {
            true => self.replica.hash_future(&self.ahead, state),
            false => self.replica.identity().hash(state),
        }
        self.fixed.hash(state);
        self.unsynced.hash(state);
        self.store.hash(state);
        let durable = &self.durable;
        (&durable.configuration, &durable.entries, durable.before).hash(state);
        (&durable.runs, &durable.operations).hash(state);
        if self.ahead.writes {
            durable.clock_bound.hash(state);
        }
        (self.is_up, self.session, self.ahead.writes).hash(state);
    }
}

/// What a strong read shows of a register at a member, here and now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) at: EntryId,
    pub(super) version: EntryId,
    /// The hash of the pairs.
    pub(super) pairs: u64,
}

/// What the search asks of a member again and again.
#[derive(Clone, Debug)]
pub(super) struct Brief {
    pub(super) identity: Identity,
    pub(super) is_up: bool,
    pub(super) session: Session,
    pub(super) epoch: u64,
    pub(super) is_ready: bool,
    pub(super) is_head: bool,
    pub(super) may_serve: bool,
    pub(super) is_unsynced: bool,
    /// Whether it holds eventual operations.
    pub(super) holds: bool,
    pub(super) last: EntryId,
    pub(super) commit: EntryId,
    pub(super) applied: EntryId,
    /// What strong reads show, by register.
    pub(super) sights: Vec<Option<Sight>>,
}

impl Node {
    /// A member with an empty disk, which has not started.
    pub(super) fn new(me: Identity, scene: &Scene) -> Self {
        Node {
            replica: replica(me, tuning(scene), &scene.guards),
            ahead: scene.ahead(),
            store: Store::default(),
            fixed: None,
            durable: Durable::default(),
            unsynced: VecDeque::new(),
            is_up: true,
            session: Session::Live,
        }
    }

    /// What a read of the state at `at` shows of `key`.
    pub(super) fn register_at(&self, at: EntryId, key: &Bytes) -> Register {
        let view = self.replica.view_at(at, &self.store);
        register(&*view, key)
    }

    pub(super) fn brief(&self, keys: &[Bytes]) -> Brief {
        let replica = &self.replica;
        let may_serve = self.is_up && replica.may_serve(NOW);
        let sight = |key: &Bytes| {
            let scope = Scope::Keys(vec![key.clone()]);
            let at = replica.answers_now(NOW, &scope).filter(|_| may_serve)?;
            let shown = self.register_at(at, key);
            Some(Sight {
                at,
                version: shown.version,
                pairs: pairs_hash(&shown),
            })
        };
        Brief {
            identity: replica.identity(),
            is_up: self.is_up,
            session: self.session,
            epoch: replica.epoch(),
            is_ready: self.is_up && replica.is_ready(),
            is_head: replica.is_head(),
            may_serve,
            is_unsynced: self.is_up && !self.unsynced.is_empty(),
            holds: self.is_up && 0 < replica.eventual_counts().held,
            last: replica.last(),
            commit: replica.commit(),
            applied: self.store.applied,
            sights: keys.iter().map(sight).collect(),
        }
    }
}

/// The hash of what a register shows.
pub(super) fn pairs_hash(register: &Register) -> u64 {
    let pairs: Vec<_> = register.pairs().collect();
    hash(&pairs)
}

/// A replica with its guards.
pub(super) fn replica(me: Identity, tuning: Tuning, guards: &Guards) -> Replica {
    #[cfg(feature = "mutants")]
    return Replica::new(me, tuning).with_guards(guards.clone());
    #[cfg(not(feature = "mutants"))]
    {
        let _ = guards;
        Replica::new(me, tuning)
    }
}

/// The register at `key`.
pub(super) fn register(view: &dyn View, key: &Bytes) -> Register {
    let bytes = view.get(key).expect("a store in memory does not fail");
    let decoded = bytes.map(|bytes| Register::decode(bytes).expect("what was encoded decodes"));
    decoded.unwrap_or_default()
}

/// Element operations that leave one value, or none.
pub(super) fn replacement(value: Option<&Bytes>) -> Vec<ElementOp> {
    let group = Bytes::from_static(b"g");
    let clear = ElementOp::Clear {
        group: group.clone(),
    };
    let add = value.map(|value| ElementOp::Add {
        group,
        value: value.clone(),
    });
    [clear].into_iter().chain(add).collect()
}

/// The shell of one step: the requests of the scenario over a member's engine.
pub(super) struct Shell<'a> {
    pub(super) store: &'a mut Store,
    pub(super) fixed: &'a mut Option<Store>,
    pub(super) asks: &'a [Ask],
}

impl Shell<'_> {
    fn ask(&self, token: Token) -> &Ask {
        &self.asks[token.0 as usize % self.asks.len()]
    }
}

/// What a strong request does to the state, and the outcome kept under its name.
pub(super) fn decide(ask: &Ask, newest: &dyn View) -> (Vec<(Bytes, Vec<ElementOp>)>, Bytes) {
    let has = |key| !register(newest, key).is_empty();
    let (yes, no) = (Bytes::from_static(b"yes"), Bytes::from_static(b"no"));
    match ask {
        Ask::Put { keys, value } => {
            let put = |key: &Bytes| (key.clone(), replacement(Some(value)));
            (keys.iter().map(put).collect(), yes)
        }
        Ask::Delete { key } => (vec![(key.clone(), replacement(None))], yes),
        Ask::PutIfAbsent { key, value } => match has(key) {
            false => (vec![(key.clone(), replacement(Some(value)))], yes),
            true => (Vec::new(), no),
        },
        Ask::Move { from, to } => {
            let held = register(newest, from);
            let value = held.pairs().next().map(|(_, value)| value.clone());
            match value.filter(|_| !has(to)) {
                Some(value) => {
                    let put = (to.clone(), replacement(Some(&value)));
                    (vec![(from.clone(), replacement(None)), put], yes)
                }
                None => (Vec::new(), no),
            }
        }
        Ask::Eventual { .. } | Ask::Read { .. } => (Vec::new(), no),
    }
}

fn merge(key: &Bytes, ops: &[ElementOp]) -> Change {
    Change::Merge {
        key: key.clone(),
        ops: ops.to_vec(),
        marks: Marks::Kept,
    }
}

impl Host for Shell<'_> {
    fn committed(&self) -> &dyn View {
        &*self.store
    }

    fn decide(&self, token: Token, newest: &dyn View) -> Result<Decided, ViewError> {
        let (writes, result) = decide(self.ask(token), newest);
        Ok(Decided {
            result,
            changes: writes.iter().map(|(key, ops)| merge(key, ops)).collect(),
            depends_on_state: true,
        })
    }

    fn accept(
        &self,
        token: Token,
        _tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError> {
        let Ask::Eventual { keys, value, .. } = self.ask(token) else {
            return Ok(None);
        };
        let accepted = keys.iter().map(|key| Accepted {
            key: key.clone(),
            ops: replacement(value.as_ref()),
        });
        Ok(Some(accepted.collect()))
    }

    fn settle(&self, operation: &Operation, _newest: &dyn View) -> Result<Settled, ViewError> {
        Ok(Settled::Apply(vec![merge(&operation.key, &operation.ops)]))
    }

    fn fix(&mut self) {
        *self.fixed = Some(self.store.clone());
    }

    fn fixed(&self) -> Option<(EntryId, &dyn View)> {
        let fixed = self.fixed.as_ref()?;
        Some((fixed.applied, fixed))
    }

    fn unfix(&mut self) {
        *self.fixed = None;
    }
}
