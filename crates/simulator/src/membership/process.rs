//! A process of a cluster: the rules of [`fader_chain::membership`], carried as a node carries
//! them, with members that do nothing but have leases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fader_chain::controller::{self, Facts, Reports};
use fader_chain::membership::{
    Answer, Ask, Change, Keeper, Newest, Ping, Put, Request, Seen, Session, SessionRecord,
    Stillness, Told, Watch, number, publish, risen, session_name, stillness,
};
use fader_chain::{
    ChainId, Configuration, DiskId, EntryId, Guards, Identity, Incarnation, NodeId, Report, Role,
    Version, Wiring,
};

use super::zookeeper::{Data, Op, Outcome, Path};
use super::{CHAINS, LEASE_MS, SESSION};
use crate::world::clock::Clock;

/// On which connection a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Session,
    Watch,
    Control,
}

/// A connection: which server it is to, how new the newest state is that came over it, and the
/// request that is under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    pub(super) server: usize,
    pub(super) seen: usize,
    pub(super) call: Option<u64>,
}

/// A member's life.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) identity: Identity,
    /// When its lease ends, by its process's clock.
    pub(super) lease_until_ms: u64,
    /// The epoch that it adopted last; 0 before it had a seat.
    epoch: u64,
    /// Whether it serves in that one.
    pub(super) serves: bool,
    /// When it asked for a ping that has not come yet.
    asked_ms: Option<u64>,
    /// When its thread made a step last.
    stepped_ms: u64,
    is_open: bool,
}

/// What a process changes beside its session.
#[derive(Clone, Debug)]
enum Errand {
    /// A number for its disk, or for that of one of its members.
    Number {
        slot: u32,
        given: Option<NodeId>,
    },
    Publish(ChainId, u64, Arc<Configuration>),
    Raise(Version),
}

/// A process, and its machine.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) name: String,
    place: u32,
    pub(super) speaks: Version,
    pub(super) clock: Clock,
    /// Counts its starts.
    pub(super) run: u64,
    pub(super) is_up: bool,
    pub(super) paused_until: u64,
    /// The chain whose member's thread stands still, and until when.
    pub(super) hung: Option<(ChainId, u64)>,
    guards: Guards,
    /// The numbers of its disks: its own is the first.
    pub(super) numbers: BTreeMap<u32, NodeId>,
    ways: [Connection; 3],
    keeper: Option<Keeper>,
    is_finding: bool,
    said: Option<Change>,
    pub(super) lives: BTreeMap<ChainId, Life>,
    watch: Watch,
    known: u64,
    newest: Newest,
    sessions: Vec<Session>,
    version: Version,
    errand: Option<Errand>,
}

/// What a process wants of the world.
#[derive(Debug)]
pub(super) enum Wish {
    Send(Way, Op),
    /// A lease was given to the life on this chain.
    Leased(ChainId),
    /// A number was given to a disk.
    Numbered(NodeId),
}

/// What the world tells with each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// The real time, in microseconds.
    pub(super) at: u64,
    /// A name that no process has.
    pub(super) fresh: u128,
}

impl Process {
    pub(super) fn new(place: u32, speaks: Version, clock: Clock, guards: Guards) -> Self {
        Process {
            name: format!("n{place}"),
            place,
            speaks,
            clock,
            run: 0,
            is_up: false,
            paused_until: 0,
            hung: None,
            guards,
            numbers: BTreeMap::new(),
            ways: Default::default(),
            keeper: None,
            is_finding: false,
            said: None,
            lives: BTreeMap::new(),
            watch: Watch::new(SESSION, speaks),
            known: 0,
            newest: Newest::default(),
            sessions: Vec::new(),
            version: Version::OLDEST,
            errand: None,
        }
    }

    /// What is kept in memory is gone.
    pub(super) fn stop(&mut self) {
        let (run, numbers) = (self.run + 1, std::mem::take(&mut self.numbers));
        let (clock, guards) = (self.clock, self.guards.clone());
        *self = Process {
            run,
            numbers,
            ..Process::new(self.place, self.speaks, clock, guards)
        };
    }

    pub(super) fn way(&mut self, way: Way) -> &mut Connection {
        &mut self.ways[way as usize]
    }

    pub(super) fn ms(&self, at: u64) -> u64 {
        self.clock.steady(at) / 1_000
    }

    /// Whether the thread of a chain's member stands still.
    fn is_hung(&self, chain: ChainId, at: u64) -> bool {
        self.hung
            .is_some_and(|(of, until)| of == chain && at < until)
    }

    /// Whether a life has a lease now.
    pub(super) fn is_leased(&self, life: &Life, at: u64) -> bool {
        self.is_up && self.ms(at) < life.lease_until_ms
    }

    /// Whether it has a life with a lease on each chain, and knows what is newest.
    pub(super) fn is_well(&self, at: u64) -> bool {
        let leased = self.lives.values().filter(|life| self.is_leased(life, at));
        leased.count() == CHAINS as usize
    }

    /// Whether that is the name of its session.
    pub(super) fn is_in(&self, name: &str) -> bool {
        let keeper = self.keeper.as_ref();
        keeper.is_some_and(|it| session_name(it.record().identity, self.speaks) == name)
    }

    fn disk(&self, slot: u32) -> DiskId {
        DiskId(u128::from(self.place) << 8 | u128::from(slot))
    }

    /// It pings for all its lives, and begins those that are missing.
    pub(super) fn tick(&mut self, now: Now) -> Vec<Wish> {
        let Some(own) = self.numbers.get(&0).copied() else {
            return self.run_errand();
        };
        if self.keeper.is_none() {
            let record = SessionRecord {
                identity: Identity {
                    node: own,
                    incarnation: Incarnation(0),
                    disk: self.disk(0),
                },
                name: self.name.clone(),
                address: String::new(),
                lives: Vec::new(),
            };
            self.keeper = Some(Keeper::new(record, SESSION));
        }
        let asked_ms = self.ms(now.at);
        for slot in 1..=CHAINS {
            let chain = ChainId(slot - 1);
            if let (None, Some(node)) = (self.lives.get(&chain), self.numbers.get(&slot))
                && !self.is_hung(chain, now.at)
            {
                let identity = Identity {
                    node: *node,
                    incarnation: Incarnation(now.fresh ^ u128::from(slot)),
                    disk: self.disk(slot),
                };
                let keeper = self.keeper.as_mut().expect("it has begun");
                keeper.open(chain, identity, fader_chain::Progress::default());
                let life = Life {
                    identity,
                    lease_until_ms: 0,
                    epoch: 0,
                    serves: false,
                    asked_ms: None,
                    stepped_ms: asked_ms,
                    is_open: false,
                };
                self.lives.insert(chain, life);
            }
        }
        self.look_at_threads(now.at);
        let mut wishes = self.run_errand();
        wishes.extend(self.drive(now));
        wishes
    }

    /// SL-6: it asks for pings for members whose threads make steps, and ends the lives of others
    /// with their leases.
    fn look_at_threads(&mut self, at: u64) {
        let (now_ms, hung) = (self.ms(at), self.hung.filter(|(_, until)| at < *until));
        let Some(keeper) = self.keeper.as_mut() else {
            return;
        };
        let (guards, said) = (&self.guards, &mut self.said);
        self.lives.retain(|chain, life| {
            if hung.is_none_or(|(of, _)| of != *chain) {
                life.stepped_ms = now_ms;
            }
            let still_ms = now_ms - life.stepped_ms;
            let session_ms = SESSION.as_millis() as u64;
            let lease = (now_ms, life.lease_until_ms);
            match stillness(still_ms, session_ms, lease, guards) {
                Stillness::Moves => {
                    life.asked_ms.get_or_insert(now_ms);
                }
                Stillness::Still => life.asked_ms = None,
                Stillness::Over => {
                    if keeper.close(life.identity).is_some() {
                        *said = (*said).max(Some(keeper.leave_out(life.identity)));
                    }
                    return false;
                }
            }
            true
        });
    }

    /// Sends the session's next request, if one is wanted and none is under way.
    fn drive(&mut self, now: Now) -> Vec<Wish> {
        let mut wishes = Vec::new();
        let Some(keeper) = self.keeper.as_mut() else {
            return wishes;
        };
        self.lives.retain(|chain, life| {
            let Some(asked_ms) = life.asked_ms else {
                return true;
            };
            match keeper.ping(life.identity, asked_ms) {
                Ping::Over => false,
                Ping::Due => true,
                Ping::At(sent_ms) => {
                    life.asked_ms = None;
                    life.is_open = true;
                    life.lease_until_ms = life.lease_until_ms.max(sent_ms + LEASE_MS);
                    wishes.push(Wish::Leased(*chain));
                    true
                }
            }
        });
        self.said = self.said.filter(|said| !keeper.is_acknowledged(*said));
        let is_wanted = self.said.is_some() || self.lives.values().any(|it| it.asked_ms.is_some());
        if !is_wanted || self.ways[Way::Session as usize].call.is_some() {
            return wishes;
        }
        let name = |session| Path::Session(session_name(session, self.speaks));
        let ms = self.clock.steady(now.at) / 1_000;
        let op = match keeper.next(ms, Incarnation(now.fresh)) {
            None => return wishes,
            Some(Request::Create(record)) => {
                Op::Create(name(record.identity), Data::Session(Arc::new(record)))
            }
            Some(Request::Write { record, version }) => {
                let path = name(record.identity);
                Op::Set(path, Data::Session(Arc::new(record)), version)
            }
            Some(Request::Delete { session, version }) => Op::Delete(name(session), version),
            Some(Request::Find { .. }) => {
                self.is_finding = true;
                Op::Sync
            }
        };
        wishes.push(Wish::Send(Way::Session, op));
        wishes
    }

    /// It looks at everything.
    pub(super) fn look(&mut self, now: Now) -> Vec<Wish> {
        let at = self.time(now);
        self.watch.begin(at);
        self.ask(now)
    }

    fn time(&self, now: Now) -> Duration {
        Duration::from_micros(self.clock.steady(now.at))
    }

    /// Asks what the look wants next.
    fn ask(&mut self, now: Now) -> Vec<Wish> {
        let op = match self.watch.ask() {
            None => return self.on_look(now),
            Some(Ask::Cluster) => Op::Get(Path::Cluster),
            Some(Ask::Layout) => {
                let chains = (0..CHAINS).map(ChainId).collect();
                return self.on_told(now, Told::Layout(chains));
            }
            Some(Ask::Configuration(chain)) => {
                self.known = self.newest.epoch(*chain);
                Op::Get(Path::Chain(*chain))
            }
            Some(Ask::Sessions) => Op::Sessions,
            Some(Ask::Session(name)) => Op::Get(Path::Session(name.clone())),
            Some(Ask::Note { .. }) => return self.on_told(now, Told::Noted),
            Some(Ask::End { name, version }) => Op::Delete(Path::Session(name.clone()), *version),
        };
        vec![Wish::Send(Way::Watch, op)]
    }

    fn on_told(&mut self, now: Now, told: Told) -> Vec<Wish> {
        match self.watch.on_told(self.time(now), told) {
            Ok(()) => self.ask(now),
            Err(_) => Vec::new(),
        }
    }

    /// What came of a request.
    pub(super) fn on_outcome(&mut self, way: Way, outcome: Outcome, now: Now) -> Vec<Wish> {
        match way {
            Way::Session => self.on_session(outcome, now),
            Way::Control => self.on_errand(outcome),
            Way::Watch => {
                let told = match outcome {
                    Outcome::Got(znode) => match (self.watch.ask(), znode) {
                        (Some(Ask::Configuration(_)), None) => {
                            Told::Configuration(None, self.known)
                        }
                        (_, None) => Told::Session(None),
                        (_, Some(znode)) => match znode.data {
                            Data::Cluster(version) => {
                                self.version = version;
                                Told::Cluster(version)
                            }
                            Data::Chain(newest) => Told::Configuration(Some(newest), self.known),
                            Data::Session(record) => Told::Session(Some(Seen {
                                version: znode.version,
                                created: znode.created,
                                record: Ok(SessionRecord::clone(&record)),
                            })),
                            Data::Next(_) => return Vec::new(),
                        },
                    },
                    Outcome::Names(names) => Told::Sessions(names),
                    Outcome::Done | Outcome::Missing => Told::Ended,
                    Outcome::Stale => Told::Outlived,
                    // The look is given up.
                    Outcome::Exists | Outcome::Lost => return Vec::new(),
                };
                self.on_told(now, told)
            }
        }
    }

    fn on_session(&mut self, outcome: Outcome, now: Now) -> Vec<Wish> {
        let Some(keeper) = self.keeper.as_mut() else {
            return Vec::new();
        };
        let is_finding = std::mem::take(&mut self.is_finding);
        let answer = match outcome {
            Outcome::Done if is_finding => {
                let session = keeper.record().identity;
                let path = Path::Session(session_name(session, self.speaks));
                return vec![Wish::Send(Way::Session, Op::Get(path))];
            }
            Outcome::Done => Answer::Done,
            Outcome::Stale => Answer::Stale,
            Outcome::Missing => Answer::Missing,
            Outcome::Exists => Answer::Exists,
            Outcome::Got(znode) => Answer::Found(znode.map(|it| it.version)),
            Outcome::Names(_) | Outcome::Lost => Answer::Lost,
        };
        keeper.on_answer(answer);
        if answer == Answer::Lost {
            // Who waited is told so; a life that did not begin is given up.
            self.said = None;
            self.lives.retain(|_, life| {
                life.asked_ms = None;
                if !life.is_open {
                    keeper.leave_out(life.identity);
                }
                life.is_open
            });
        }
        self.drive(now)
    }

    /// A look has ended: members hear of configurations, and a controller acts.
    fn on_look(&mut self, now: Now) -> Vec<Wish> {
        let Ok(reading) = self.watch.end(self.time(now)) else {
            return Vec::new();
        };
        for (chain, configuration) in reading.configurations {
            self.newest.take(chain, configuration);
        }
        self.sessions = reading.sessions;
        self.adopt(now.at);
        if self.errand.is_none() {
            self.control();
        }
        let mut wishes = self.run_errand();
        wishes.extend(self.drive(now));
        wishes
    }

    /// Members adopt what is new, report, and end where they have no seat any more.
    fn adopt(&mut self, at: u64) {
        let Some(keeper) = self.keeper.as_mut() else {
            return;
        };
        let mut said = self.said;
        let hung = self.hung.filter(|(_, until)| at < *until);
        self.lives.retain(|chain, life| {
            if hung.is_some_and(|(of, _)| of == *chain) {
                return true;
            }
            let Some(newest) = self.newest.get(*chain) else {
                return true;
            };
            let me = life.identity;
            let is_mine = |seat: &&fader_chain::Seat| controller::is_of(seat, &me);
            let seat = newest.seats.iter().find(is_mine);
            let has_left = newest
                .away
                .iter()
                .any(|it| it.incarnation == me.incarnation);
            let Some(seat) = seat else {
                let is_over = life.epoch != 0 || has_left;
                if is_over && keeper.close(me).is_some() {
                    said = said.max(Some(keeper.leave_out(me)));
                }
                return !is_over;
            };
            if newest.epoch <= life.epoch {
                return true;
            }
            (life.epoch, life.serves) = (newest.epoch, seat.role == Role::Serving);
            let epoch = newest.epoch;
            said = said.max(keeper.report(me, Report::Adopted { epoch }));
            if seat.role == Role::Syncing {
                let last = EntryId::ZERO;
                said = said.max(keeper.report(me, Report::SyncDone { epoch, last }));
            }
            if let Some(node) = newest
                .syncing()
                .filter(|_| newest.commit_point() == me.node)
            {
                said = said.max(keeper.report(me, Report::Heard { epoch, node }));
            }
            true
        });
        self.said = said;
    }

    /// Decides on the next errand of a controller, if there is one.
    fn control(&mut self) {
        let names: Vec<String> = (0..super::PROCESSES).map(|it| format!("n{it}")).collect();
        let wanted = risen(self.version, names.iter().map(|it| &**it), &self.sessions);
        if let Some(wanted) = wanted {
            self.errand = Some(Errand::Raise(wanted));
            return;
        }
        for chain in (0..CHAINS).map(ChainId) {
            let mut reports = Reports::default();
            let (mut sessions, mut unheard) = (Vec::new(), Vec::new());
            let lives = self
                .sessions
                .iter()
                .flat_map(|it| it.record.lives.iter().map(move |life| (it, life)));
            for (session, life) in lives.filter(|(_, life)| life.chain == chain) {
                sessions.push(life.identity);
                if !session.is_present() {
                    unheard.push(life.identity);
                }
                let said = life.reports.iter();
                said.for_each(|report| reports.note(life.identity.node, *report));
            }
            let current = self.newest.get(chain);
            let next = match current {
                None if sessions.len() < names.len() => None,
                None => Some(controller::first(&sessions, Wiring::Star, self.version)),
                Some(current) => {
                    let facts = Facts {
                        restart: controller::returned(current, &sessions).first().copied(),
                        sessions,
                        unheard,
                        reports,
                        size: super::PROCESSES as usize,
                        unwanted: Vec::new(),
                        wiring: Wiring::Star,
                        shift: None,
                        raise_floor: false,
                        version: self.version,
                    };
                    controller::next(current, &facts)
                }
            };
            if let Some(next) = next {
                let expected = current.map_or(0, |current| current.epoch);
                self.errand = Some(Errand::Publish(chain, expected, Arc::new(next)));
                return;
            }
        }
    }

    /// Reads what an errand is about, if none is under way.
    fn run_errand(&mut self) -> Vec<Wish> {
        if self.ways[Way::Control as usize].call.is_some() {
            return Vec::new();
        }
        let missing = (0..=CHAINS).find(|slot| !self.numbers.contains_key(slot));
        if let Some(slot) = missing {
            self.errand = Some(Errand::Number { slot, given: None });
        }
        let path = match &self.errand {
            None => return Vec::new(),
            Some(Errand::Number { .. }) => Path::Next,
            Some(Errand::Publish(chain, ..)) => Path::Chain(*chain),
            Some(Errand::Raise(_)) => Path::Cluster,
        };
        vec![Wish::Send(Way::Control, Op::Get(path))]
    }

    fn on_errand(&mut self, outcome: Outcome) -> Vec<Wish> {
        let op = match (&mut self.errand, outcome) {
            (Some(Errand::Number { given, .. }), Outcome::Got(Some(znode))) => match znode.data {
                Data::Next(next) => {
                    let (node, next) = number(next);
                    *given = Some(node);
                    Op::Set(Path::Next, Data::Next(next), znode.version)
                }
                _ => return Vec::new(),
            },
            (Some(Errand::Publish(chain, expected, next)), Outcome::Got(znode)) => {
                let known = znode.as_ref().and_then(|znode| match &znode.data {
                    Data::Chain(newest) => Some((newest.epoch, znode.version)),
                    _ => None,
                });
                let (path, data) = (Path::Chain(*chain), Data::Chain(next.clone()));
                match publish(known, *expected, next.epoch) {
                    Some(Put::Create) => Op::Create(path, data),
                    Some(Put::Replace(version)) => Op::Set(path, data, version),
                    None => {
                        self.errand = None;
                        return Vec::new();
                    }
                }
            }
            (Some(Errand::Raise(wanted)), Outcome::Got(Some(znode))) => match znode.data {
                Data::Cluster(known) if known < *wanted => {
                    Op::Set(Path::Cluster, Data::Cluster(*wanted), znode.version)
                }
                _ => {
                    self.errand = None;
                    return Vec::new();
                }
            },
            (errand, outcome) => {
                let is_done = matches!(outcome, Outcome::Done);
                return match errand.take().filter(|_| is_done) {
                    Some(Errand::Number {
                        slot,
                        given: Some(node),
                    }) => {
                        self.numbers.insert(slot, node);
                        vec![Wish::Numbered(node)]
                    }
                    Some(Errand::Publish(chain, _, next)) => {
                        self.newest.take(chain, next);
                        Vec::new()
                    }
                    _ => Vec::new(),
                };
            }
        };
        vec![Wish::Send(Way::Control, op)]
    }
}
