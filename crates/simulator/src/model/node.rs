//! One member of a modelled chain: the real replica, a disk and an engine that are plain values.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    Direction, EntryId, Guards, Identity, Lsn, Now, PossibleInputs, Record, RecoveredState,
    Register, Replica, ReplicaSettings, Scan, Scope, View, ViewError,
};

use super::bytes::{ByteSummary, Holdings};
use super::scenarios::PreparedScenario;
use super::step::{NOW, settings};
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
        View::get(&*self.rows, key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        self.rows.scan(start, end, direction)
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
    pub(super) ahead: PossibleInputs,
    pub(super) store: Store,
    pub(super) fixed: Option<Store>,
    /// What is durable.
    pub(super) durable: RecoveredState,
    /// What is written and not durable.
    pub(super) unsynced: VecDeque<(Lsn, Record)>,
    /// The bytes of a block, in scenarios that have one.
    pub(super) holdings: Holdings,
    pub(super) is_up: bool,
    pub(super) session: Session,
    /// Milliseconds that have passed on its clocks.
    pub(super) passed: u64,
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
        self.holdings.hash(state);
        let durable = &self.durable;
        (&durable.configuration, &durable.entries, durable.before).hash(state);
        (&durable.epoch_history, &durable.operations).hash(state);
        if self.ahead.writes {
            durable.clock_bound.hash(state);
        }
        (self.is_up, self.session, self.ahead.writes, self.passed).hash(state);
    }
}

/// What a strong read shows of a register at a member, here and now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StrongRead {
    pub(super) at: EntryId,
    pub(super) version: EntryId,
    /// The hash of the pairs.
    pub(super) pairs: u64,
}

/// What the search asks of a member again and again.
#[derive(Clone, Debug)]
pub(super) struct MemberSummary {
    pub(super) identity: Identity,
    pub(super) is_up: bool,
    pub(super) session: Session,
    pub(super) epoch: u64,
    pub(super) is_ready: bool,
    pub(super) is_head: bool,
    pub(super) may_serve: bool,
    /// Whether it takes eventual operations that need no other member (AD-8).
    pub(super) takes_alone: bool,
    pub(super) is_unsynced: bool,
    /// Whether it holds eventual operations.
    pub(super) holds: bool,
    /// Whether a request waits there for its answer.
    pub(super) is_asked: bool,
    pub(super) last: EntryId,
    pub(super) commit: EntryId,
    pub(super) applied: EntryId,
    pub(super) bytes: Option<ByteSummary>,
    /// What strong reads show, by register.
    pub(super) sights: Vec<Option<StrongRead>>,
}

impl Node {
    /// A member with an empty disk, which has not started.
    pub(super) fn new(me: Identity, scene: &PreparedScenario) -> Self {
        Node {
            replica: replica(me, settings(scene), &scene.guards),
            ahead: scene.ahead(),
            store: Store::default(),
            fixed: None,
            durable: RecoveredState::default(),
            unsynced: VecDeque::new(),
            holdings: Holdings::default(),
            is_up: true,
            session: Session::Live,
            passed: 0,
        }
    }

    /// What its clocks show.
    pub(super) fn now(&self) -> Now {
        Now {
            monotonic: NOW.monotonic + self.passed,
            wall: NOW.wall + self.passed,
        }
    }

    /// What a read of the state at `at` shows of `key`.
    pub(super) fn register_at(&self, at: EntryId, key: &Bytes) -> Register {
        let view = self.replica.view_at(at, &self.store);
        register(&*view, key)
    }

    pub(super) fn brief(&self, scene: &PreparedScenario) -> MemberSummary {
        let replica = &self.replica;
        let now = self.now();
        let may_serve = self.is_up && replica.may_serve(now);
        let sight = |key: &Bytes| {
            let scope = Scope::Keys(vec![key.clone()]);
            let at = replica.answers_now(now, &scope).filter(|_| may_serve)?;
            let shown = self.register_at(at, key);
            Some(StrongRead {
                at,
                version: shown.version,
                pairs: pairs_hash(&shown),
            })
        };
        let scope = scene.scenario.bytes.as_ref();
        let is_blocked = |(_, record): &(Lsn, Record)| {
            scope.is_some_and(|scope| self.holdings.waits_inside(scope, record))
        };
        let may_sync = self.unsynced.front().is_some_and(|it| !is_blocked(it));
        MemberSummary {
            identity: replica.identity(),
            is_up: self.is_up,
            session: self.session,
            epoch: replica.epoch(),
            is_ready: self.is_up && replica.is_ready(),
            is_head: replica.is_head(),
            may_serve,
            takes_alone: self.is_up && replica.takes_alone(now),
            is_unsynced: self.is_up && may_sync,
            holds: self.is_up && 0 < replica.eventual_counts().held,
            is_asked: self.is_up && replica.awaits_answer(),
            last: replica.last(),
            commit: replica.commit(),
            applied: self.store.applied,
            bytes: scope.map(|scope| self.byte_summary(scope)),
            sights: scene.keys.iter().map(sight).collect(),
        }
    }
}

/// The hash of what a register shows, in any order.
pub(super) fn pairs_hash(register: &Register) -> u64 {
    let mut pairs: Vec<_> = register.pairs().collect();
    pairs.sort_unstable();
    hash(&pairs)
}

/// A replica with its guards.
pub(super) fn replica(me: Identity, settings: ReplicaSettings, guards: &Guards) -> Replica {
    #[cfg(feature = "mutants")]
    return Replica::new(me, settings).with_guards(guards.clone());
    #[cfg(not(feature = "mutants"))]
    {
        let _ = guards;
        Replica::new(me, settings)
    }
}

/// The register at `key`.
pub(super) fn register(view: &dyn View, key: &Bytes) -> Register {
    let bytes = view.get(key).expect("a store in memory does not fail");
    let decoded = bytes.map(|bytes| Register::decode(bytes).expect("what was encoded decodes"));
    decoded.unwrap_or_default()
}
