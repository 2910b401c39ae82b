//! A process of a cluster: the rules of [`fader_chain::membership`], carried as a node carries
//! them, with members that do nothing but have leases.

mod errands;
mod threads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fader_chain::controller::{self};
use fader_chain::membership::{
    Answer, Ask, Change, Keeper, Newest, Ping, ProcessSession, Request, Seen, SessionRecord, Told,
    Watch, WatchCache, WatchedRead, session_name,
};
use fader_chain::{
    ChainId, Configuration, DiskId, EntryId, Guards, Identity, Incarnation, NodeId, Report, Role,
    Version,
};

use super::zookeeper::{Data, Op, Outcome, Path, Znode};
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
    /// Counts the connections of this way.
    pub(super) number: u64,
    pub(super) seen: usize,
    pub(super) call: Option<u64>,
}

/// A member's incarnation.
#[derive(Clone, Debug)]
pub(super) struct MemberIncarnation {
    pub(super) identity: Identity,
    /// When its lease ends, by its process's clock.
    pub(super) lease_until_ms: u64,
    /// The epoch that it adopted last; 0 before it had a membership.
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
    pub(super) incarnations: BTreeMap<ChainId, MemberIncarnation>,
    watch: Watch,
    /// What was read over that way's connection, and which one that is.
    kept: WatchCache<Path, Option<Znode>>,
    kept_of: u64,
    /// The read with a watch that is under way.
    reads: Option<(Path, WatchedRead)>,
    known: u64,
    newest: Newest,
    sessions: Vec<ProcessSession>,
    version: Version,
    errand: Option<Errand>,
}

/// What a process wants of the world.
#[derive(Debug)]
pub(super) enum Wish {
    Send(Way, Op),
    /// A lease was given to the incarnation on this chain.
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

/// What a chain's znode tells, if it is there, where this epoch was known before.
fn told_of(znode: Option<Znode>, known: u64) -> Told {
    let newest = znode.and_then(|znode| match znode.data {
        Data::Chain(newest) => Some(newest),
        _ => None,
    });
    Told::Configuration(newest, known)
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
            numbers: BTreeMap::new(),
            ways: Default::default(),
            keeper: None,
            is_finding: false,
            said: None,
            incarnations: BTreeMap::new(),
            watch: Watch::new(SESSION, speaks),
            kept: WatchCache::new(guards.clone()),
            kept_of: 0,
            reads: None,
            guards,
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

    /// Whether an incarnation has a lease now.
    pub(super) fn is_leased(&self, incarnation: &MemberIncarnation, at: u64) -> bool {
        self.is_up && self.ms(at) < incarnation.lease_until_ms
    }

    /// Whether it has an incarnation with a lease on each chain, and knows what is newest.
    pub(super) fn is_well(&self, at: u64) -> bool {
        let leased = self
            .incarnations
            .values()
            .filter(|incarnation| self.is_leased(incarnation, at));
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

    /// It pings for all its incarnations, and begins those that are missing.
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
                incarnations: Vec::new(),
            };
            self.keeper = Some(Keeper::new(record, SESSION));
        }
        let asked_ms = self.ms(now.at);
        for slot in 1..=CHAINS {
            let chain = ChainId(slot - 1);
            if let (None, Some(node)) = (self.incarnations.get(&chain), self.numbers.get(&slot))
                && !self.is_hung(chain, now.at)
            {
                let identity = Identity {
                    node: *node,
                    incarnation: Incarnation(now.fresh ^ u128::from(slot)),
                    disk: self.disk(slot),
                };
                let keeper = self.keeper.as_mut().expect("it has begun");
                keeper.open(chain, identity, fader_chain::Progress::default());
                let incarnation = MemberIncarnation {
                    identity,
                    lease_until_ms: 0,
                    epoch: 0,
                    serves: false,
                    asked_ms: None,
                    stepped_ms: asked_ms,
                    is_open: false,
                };
                self.incarnations.insert(chain, incarnation);
            }
        }
        self.look_at_threads(now.at);
        let mut wishes = self.run_errand();
        wishes.extend(self.drive(now));
        wishes
    }

    /// Sends the session's next request, if one is wanted and none is under way.
    fn drive(&mut self, now: Now) -> Vec<Wish> {
        let mut wishes = Vec::new();
        let Some(keeper) = self.keeper.as_mut() else {
            return wishes;
        };
        self.incarnations.retain(|chain, incarnation| {
            let Some(asked_ms) = incarnation.asked_ms else {
                return true;
            };
            match keeper.ping(incarnation.identity, asked_ms) {
                Ping::Over => false,
                Ping::Due => true,
                Ping::At(sent_ms) => {
                    incarnation.asked_ms = None;
                    incarnation.is_open = true;
                    incarnation.lease_until_ms = incarnation.lease_until_ms.max(sent_ms + LEASE_MS);
                    wishes.push(Wish::Leased(*chain));
                    true
                }
            }
        });
        self.said = self.said.filter(|said| !keeper.is_acknowledged(*said));
        let is_wanted =
            self.said.is_some() || self.incarnations.values().any(|it| it.asked_ms.is_some());
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
                let chain = *chain;
                return self.ask_configuration(now, chain);
            }
            Some(Ask::Sessions) => Op::Sessions,
            Some(Ask::Session(name)) => Op::Get(Path::Session(name.clone())),
            Some(Ask::Note { .. }) => return self.on_told(now, Told::Noted),
            Some(Ask::End { name, version }) => Op::Delete(Path::Session(name.clone()), *version),
        };
        vec![Wish::Send(Way::Watch, op)]
    }

    /// Takes a configuration as it was read last over this connection, unless its watch fired, or a
    /// newer one is known.
    fn ask_configuration(&mut self, now: Now, chain: ChainId) -> Vec<Wish> {
        let path = Path::Chain(chain);
        self.known = self.newest.epoch(chain);
        let number = self.ways[Way::Watch as usize].number;
        if self.kept_of != number {
            self.kept = WatchCache::new(self.guards.clone());
            self.kept_of = number;
        }
        if let Some(kept) = self.kept.get(&path) {
            let told = told_of(kept.clone(), self.known);
            if matches!(&told, Told::Configuration(it, known)
                if *known <= it.as_ref().map_or(0, |it| it.epoch))
            {
                return self.on_told(now, told);
            }
            self.kept.forget(&path);
        }
        let read = self.kept.begin(&path);
        self.reads = Some((path.clone(), read));
        let op = match read.watches {
            true => Op::Watched(path),
            false => Op::Get(path),
        };
        vec![Wish::Send(Way::Watch, op)]
    }

    /// Watches of the connection of this way fired.
    pub(super) fn on_notices(&mut self, way: Way, notices: &[Path]) {
        if way == Way::Watch && self.kept_of == self.ways[Way::Watch as usize].number {
            notices.iter().for_each(|path| self.kept.on_notice(path));
        }
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
                let read = self.reads.take();
                if let (Some((path, read)), Outcome::Got(znode)) = (read, &outcome) {
                    self.kept.on_read(path, read, znode.clone());
                }
                let told = match outcome {
                    Outcome::Got(znode) => match (self.watch.ask(), znode) {
                        (Some(Ask::Configuration(_)), znode) => told_of(znode, self.known),
                        (_, None) => Told::Session(None),
                        (_, Some(znode)) => match znode.data {
                            Data::Cluster(version) => {
                                self.version = version;
                                Told::Cluster(version)
                            }
                            Data::Session(record) => Told::Session(Some(Seen {
                                version: znode.version,
                                created: znode.created,
                                record: Ok(SessionRecord::clone(&record)),
                            })),
                            Data::Next(_) | Data::Chain(_) => return Vec::new(),
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
            // Who waited is told so; an incarnation that did not begin is given up.
            self.said = None;
            self.incarnations.retain(|_, incarnation| {
                incarnation.asked_ms = None;
                if !incarnation.is_open {
                    keeper.leave_out(incarnation.identity);
                }
                incarnation.is_open
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

    /// Members adopt what is new, report, and end where they have no membership any more.
    fn adopt(&mut self, at: u64) {
        let Some(keeper) = self.keeper.as_mut() else {
            return;
        };
        let mut said = self.said;
        let hung = self.hung.filter(|(_, until)| at < *until);
        self.incarnations.retain(|chain, incarnation| {
            if hung.is_some_and(|(of, _)| of == *chain) {
                return true;
            }
            let Some(newest) = self.newest.get(*chain) else {
                return true;
            };
            let me = incarnation.identity;
            let is_mine = |member: &&fader_chain::ChainMember| controller::is_of(member, &me);
            let member = newest.members.iter().find(is_mine);
            let has_left = newest
                .absent
                .iter()
                .any(|it| it.incarnation == me.incarnation);
            let Some(member) = member else {
                let is_over = incarnation.epoch != 0 || has_left;
                if is_over && keeper.close(me).is_some() {
                    said = said.max(Some(keeper.leave_out(me)));
                }
                return !is_over;
            };
            if newest.epoch <= incarnation.epoch {
                return true;
            }
            (incarnation.epoch, incarnation.serves) = (newest.epoch, member.role == Role::Serving);
            let epoch = newest.epoch;
            said = said.max(keeper.report(me, Report::Adopted { epoch }));
            if member.role == Role::Syncing {
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
}
