//! The incarnation of a process: the shell around one replica.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fader_chain::clocks::Clocks;
use fader_chain::{
    Configuration, CorrelationId, Digest, Effect, EntryId, Input, Level as ReadLevel, NodeId,
    Record, Replica, RequestId, Role, Scope, Stamp, TombstonePolicy,
};

use super::coordinator::{CoordinatorReply, Ping};
use super::disk::{Done, Work};
use super::events::{Event, ProcessEvent};
use super::host::{Seen, Shell};
use super::machine::{Process, identity, settings};
use super::network::End;
use super::{LEASE, Micros, RHO_PPM, SESSION, World};
use crate::history::{Bound, Call, Fact, Level, Outcome, Stamping};
use crate::service::State;

/// The newest stamp of each register.
type Newest = BTreeMap<Bytes, Stamp>;

impl World {
    /// A process starts and finds what the disk holds.
    pub(crate) fn start(&mut self, machine: usize) {
        if self.machines[machine].process.is_some() || !self.may_start(machine) {
            return;
        }
        let incarnation = self.random.name();
        let here = &mut self.machines[machine];
        here.incarnation += 1;
        let me = identity(here, incarnation);
        let replica = guarded(Replica::new(me, settings(self.plan.idle_ms)), &self.guards);
        let durable = here.disk.durable();
        let (applied, filling) = (here.disk.state().applied, here.disk.state().is_filling);
        let clocks = clocks(&self.guards);
        let mut process = Process::new(me, replica, here.disk.progress(), clocks);
        let entries = durable.entries.iter();
        process.log = entries.map(|entry| (entry.id, entry.clone())).collect();
        // An engine that was being filled stands for nothing.
        process.commit = if filling { EntryId::ZERO } else { applied };
        here.process = Some(process);
        let node = here.node;
        // A sync that failed may have kept some of what it was to keep.
        let found: Vec<_> = durable.operations.keys().copied().collect();
        for name in found {
            self.note(Fact::Held { node, name });
        }
        let last = durable.last();
        self.trace.say(self.now, || {
            format!("{} starts: applied {applied}, last {last}", me.node)
        });
        self.input(
            machine,
            Input::Recovered {
                durable,
                applied,
                filling,
            },
        );
        self.ping(machine);
        self.plan_tick(machine);
    }

    /// A process ends without a word; what it had to say to clients is unknown.
    pub(crate) fn crash(&mut self, machine: usize, down: Micros) {
        let here = &mut self.machines[machine];
        let Some(process) = here.process.take() else {
            return;
        };
        here.incarnation += 1;
        here.paused_until = 0;
        here.unaware = None;
        let survivors = here.disk.crash(&mut self.random);
        let node = here.node;
        self.trace
            .say(self.now, || format!("{node} is down for {down} us"));
        self.note_durable(node, survivors);
        for call in process.calls.into_values() {
            self.end(call, Outcome::Unknown);
        }
        self.queue.plan(self.now + down, Event::Start { machine });
    }

    pub(crate) fn process_hears(&mut self, machine: usize, what: ProcessEvent) {
        match what {
            ProcessEvent::Tick => {
                self.plan_tick(machine);
                self.ping(machine);
                self.show_clock(machine);
                self.input(machine, Input::Tick);
            }
            ProcessEvent::Flush => {
                self.process(machine).is_flush_planned = false;
                self.input(machine, Input::Flush);
            }
            ProcessEvent::Synced(upto) => self.synced(machine, upto),
            ProcessEvent::Worked => self.worked(machine),
            ProcessEvent::Request { call } => self.request(machine, call),
            ProcessEvent::Outcome { call, names } => {
                let token = second_token_of(call);
                self.process(machine).calls.insert(token, call);
                let outcome = Input::Outcome {
                    token,
                    digest: digest_of(names.first()),
                    names,
                };
                self.input(machine, outcome);
            }
            ProcessEvent::Abandon { call } => {
                let tokens = [token_of(call), second_token_of(call)];
                for token in tokens {
                    let process = self.process(machine);
                    process.requests.remove(&token);
                    if process.calls.remove(&token).is_some() {
                        self.input(machine, Input::Abandon(token));
                    }
                }
            }
            ProcessEvent::Message(envelope) => {
                let node = self.machines[machine].node;
                self.trace.message(self.now, node, &envelope);
                self.input(machine, Input::Message(envelope));
            }
            ProcessEvent::Clock(sent) => self.see_clock(machine, sent),
            ProcessEvent::Pong(pong) => self.pong(machine, pong),
            ProcessEvent::Turn(turn) => self.turn(machine, turn),
        }
    }

    fn process(&mut self, machine: usize) -> &mut Process {
        let process = self.machines[machine].process.as_mut();
        process.expect("events reach processes that run")
    }

    fn ping(&mut self, machine: usize) {
        let here = &mut self.machines[machine];
        let now = here.clock.steady(self.now);
        let Some(process) = here.process.as_mut() else {
            return;
        };
        let ping = Ping {
            from: process.me,
            number: process.lease.ping(now),
            epoch: process.replica.epoch(),
            reports: process.reports.clone(),
            shown: process.shown,
        };
        let from = End::Member(here.node);
        self.send(from, End::Coordinator, &Event::Ping(ping));
    }

    fn pong(&mut self, machine: usize, pong: CoordinatorReply) {
        let is_deaf = self.now < self.machines[machine].deaf_until;
        let process = self.process(machine);
        match pong {
            CoordinatorReply::Heard { number, news } => {
                let length = LEASE - LEASE * RHO_PPM / 1_000_000;
                let clocks = &process.clocks;
                let holds = |sent_at: u64| clocks.holds(sent_at / 1_000);
                process.lease.heard(number, length, holds);
                let (sent, until) = (process.lease.sent, process.lease.until / 1_000);
                self.is_leased_anew(machine, sent);
                self.input(machine, Input::Lease { until });
                if let Some(news) = news.filter(|_| !is_deaf) {
                    self.news(machine, news);
                }
            }
            CoordinatorReply::News(news) if !is_deaf => self.news(machine, news),
            CoordinatorReply::News(_) => {}
            // FN-6: it comes back in another incarnation.
            CoordinatorReply::Over => self.crash(machine, 1_000),
            CoordinatorReply::Refused => self.refused(machine),
        }
    }

    fn news(&mut self, machine: usize, news: Arc<Configuration>) {
        let Some(process) = self.machines[machine].process.as_ref() else {
            return;
        };
        let is_out = process.replica.ends_with(&news);
        let was_joining = process.replica.is_joining();
        self.input(machine, Input::Configuration(news));
        if is_out {
            // I24: it is over for this incarnation. One that was joining made others wait (SL-1).
            let here = &mut self.machines[machine];
            if was_joining {
                here.left_out = (here.left_out + 1).min(6);
            }
            let wait = match was_joining {
                true => 50_000 << here.left_out,
                false => 1_000,
            };
            self.crash(machine, wait);
        }
    }

    fn synced(&mut self, machine: usize, upto: fader_chain::Lsn) {
        let here = &mut self.machines[machine];
        if std::mem::take(&mut here.fails_sync) {
            // I23: never again on this file.
            self.input(machine, Input::PersistFailed);
            self.crash(machine, 50_000);
            return;
        }
        let node = here.node;
        let records = here.disk.sync(upto);
        self.note_durable(node, records);
        self.process(machine).syncing = None;
        self.input(machine, Input::Persisted(upto));
        self.sync(machine);
    }

    /// What has become durable of eventual operations.
    fn note_durable(&mut self, node: NodeId, records: Vec<Record>) {
        for record in records {
            match record {
                Record::Operation(operation) => {
                    let name = operation.name;
                    self.note(Fact::Held { node, name });
                }
                Record::Forgotten(names) => {
                    let forgotten = |name| Fact::Forgotten { node, name };
                    names
                        .into_iter()
                        .for_each(|name| self.note(forgotten(name)));
                }
                _ => {}
            }
        }
    }

    /// Begins a sync, unless one is under way or nothing is to be synced.
    fn sync(&mut self, machine: usize) {
        let here = &mut self.machines[machine];
        let Some(process) = here.process.as_mut() else {
            return;
        };
        let Some(upto) = here
            .disk
            .last_unsynced()
            .filter(|_| process.syncing.is_none())
        else {
            return;
        };
        process.syncing = Some(upto);
        let slowness = if self.now < here.slow_until {
            100_000
        } else {
            0
        };
        let delay = slowness + self.random.skewed(0, self.plan.sync_max);
        self.plan_for(machine, delay, ProcessEvent::Synced(upto));
    }

    /// The engine has done some of its work.
    fn worked(&mut self, machine: usize) {
        let here = &mut self.machines[machine];
        let Some(process) = here.process.as_mut() else {
            return;
        };
        let mut last = None;
        while let Some(work) = process.works.pop_front() {
            let is_fill = matches!(work, Work::Fill(_));
            let done = here.disk.work(work);
            last = done.or(last);
            let state = here.disk.state();
            if !state.is_filling && !state.is_rotten {
                let (applied, digest) = (state.applied, state.digest());
                if let Err(text) = self.watch.digest(here.node, applied, digest) {
                    self.failure.get_or_insert(super::Failure::new("I21", text));
                }
            }
            let next_is_fill = matches!(process.works.front(), Some(Work::Fill(_)));
            if is_fill || next_is_fill {
                break;
            }
        }
        if !process.works.is_empty() {
            self.plan_for(machine, self.plan.work_rest, ProcessEvent::Worked);
        }
        match last {
            Some(Done::Applied(id)) => self.input(machine, Input::Applied(id)),
            Some(Done::Filled) => self.input(machine, Input::Filled),
            None => {}
        }
    }

    /// A client's request arrives.
    fn request(&mut self, machine: usize, call: usize) {
        let token = token_of(call);
        let session = self.session_of(call);
        let asked = &self.history.calls[call];
        if asked.end.is_some() {
            return;
        }
        let input = input_of(asked, token, session);
        let request = asked.request.clone();
        let process = self.process(machine);
        process.calls.insert(token, call);
        process.requests.insert(token, request);
        self.input(machine, input);
    }

    /// One step of a replica, and its effects.
    pub(crate) fn input(&mut self, machine: usize, input: Input) {
        let here = &mut self.machines[machine];
        let now = here.clock.read(self.now);
        let Some(process) = here.process.as_mut() else {
            return;
        };
        let has_modes = self.plan.modes;
        let is_flush = matches!(input, Input::Flush);
        let is_write = match &input {
            Input::Write { token, .. } => process.requests.get(token),
            _ => None,
        };
        let shown = is_write.map(|request| {
            let view = process.replica.tentative_view(here.disk.state());
            let newest = |key: &&Bytes| Seen(view.as_ref()).register(key).newest();
            let keys = request.keys().into_iter();
            keys.map(|key| (key.clone(), newest(&key))).collect()
        });
        let mut shell = Shell {
            disk: &mut here.disk,
            requests: &process.requests,
            turns: &process.turns,
            service: self.service,
            marks: match self.plan.mixed {
                _ if has_modes => None,
                true => Some(TombstonePolicy::Kept),
                false => Some(TombstonePolicy::Dropped),
            },
            answers: RefCell::default(),
        };
        let mut effects = Vec::new();
        let stepped = process.replica.step(now, input, &mut shell, &mut effects);
        stepped.expect("a simulated engine reads");
        let answers = shell.answers.into_inner();
        for (token, answer) in answers {
            if let Some(call) = process.calls.get(&token) {
                self.watch.decided(*call, answer);
            }
        }
        if !is_flush && !process.is_flush_planned {
            process.is_flush_planned = true;
            let delay = self.random.between(0, self.plan.flush_max);
            self.plan_for(machine, delay, ProcessEvent::Flush);
        }
        for effect in effects {
            self.perform(machine, effect, shown.as_ref());
        }
        self.look_at(machine);
    }

    fn perform(&mut self, machine: usize, effect: Effect, shown: Option<&Newest>) {
        match effect {
            Effect::Persist { lsn, record } => {
                self.write(machine, &record, shown);
                self.machines[machine].disk.write(lsn, record);
                self.sync(machine);
            }
            Effect::Send { to, envelope } => {
                let from = End::Member(self.machines[machine].node);
                self.send(from, End::Member(to), &Event::Message(envelope));
            }
            Effect::Apply { id, mutations } => self.work(machine, Work::Apply(id, mutations)),
            Effect::Fill(fill) => self.work(machine, Work::Fill(fill)),
            Effect::Reply { token, reply } => {
                let process = self.process(machine);
                process.requests.remove(&token);
                process.turns.remove(&token);
                if let Some(call) = process.calls.remove(&token) {
                    self.answer(machine, call, reply);
                }
            }
            Effect::Coordinator(report) => self.process(machine).report(report),
            // The chain never begins again with a copy that passes for its disk (AL-1): this is a
            // violation.
            Effect::Stop(stop) => panic!("I3, I6: a member stops, {stop:?}"),
            Effect::StaleMessage { .. } => {}
        }
    }

    fn work(&mut self, machine: usize, work: Work) {
        let process = self.process(machine);
        process.works.push_back(work);
        if process.works.len() == 1 {
            let delay = self.random.skewed(0, self.plan.work_max);
            self.plan_for(machine, delay, ProcessEvent::Worked);
        }
    }

    /// What the history wants to know of a record; of one that a client's eventual write made, with
    /// what the member showed before.
    fn write(&mut self, machine: usize, record: &Record, shown: Option<&Newest>) {
        let here = &mut self.machines[machine];
        let (node, now) = (here.node, here.clock.steady(self.now));
        let process = here.process.as_mut().expect("it has just stepped");
        match record {
            Record::Entry(entry) => {
                process.log.insert(entry.id, entry.clone());
            }
            Record::Cut { after } => process.log.retain(|id, _| id <= after),
            Record::Operation(operation) => {
                let Some(shown) = shown else {
                    return;
                };
                let stamping = Stamping {
                    node,
                    lease: now < process.lease.until,
                    name: operation.name,
                    stamp: operation.stamp,
                    accept: operation.accept,
                    key: operation.key.clone(),
                    ops: operation.ops.clone(),
                    shown: shown.get(&operation.key).copied().unwrap_or_default(),
                };
                self.note(Fact::Stamped(stamping));
            }
            _ => {}
        }
    }

    /// What can be seen of a member from outside after a step.
    fn look_at(&mut self, machine: usize) {
        let here = &mut self.machines[machine];
        let node = here.node;
        let Some(process) = here.process.as_mut() else {
            return;
        };
        let replica = &process.replica;
        let (before, commit) = (process.commit, replica.commit());
        process.commit = commit;
        let is_ready = replica.is_ready();
        let epoch = replica.epoch();
        let has_become_ready = is_ready && (!process.was_ready || process.ready_in != epoch);
        process.was_ready = is_ready;
        if has_become_ready {
            process.ready_in = epoch;
            let member = replica
                .configuration()
                .and_then(|adopted| adopted.member(node));
            let last = replica.last();
            if member.is_some_and(|member| member.role == Role::Serving) {
                self.machines[machine].left_out = 0;
                self.note(Fact::Ready { node, epoch, last });
            }
        }
        if commit < before {
            let text = format!("the commit id of {node} fell from {before} to {commit}");
            self.fail("I5", text);
        } else if before < commit {
            let process = self.machines[machine].process.as_ref();
            let log = process.map(|process| &process.log).into_iter();
            let learned = log.flat_map(|log| {
                let above = std::ops::Bound::Excluded(before);
                log.range((above, std::ops::Bound::Included(commit)))
            });
            let learned: Vec<_> = learned.map(|(_, entry)| entry.clone()).collect();
            for entry in learned {
                self.settle(&entry);
                self.note(Fact::Committed { node, entry });
            }
        }
        self.watch_commits();
    }
}

/// The input that a call is.
fn input_of(call: &Call, token: CorrelationId, session: fader_chain::Session) -> Input {
    let scope = Scope::Keys(call.request.reads.clone());
    let read = |level| Input::Read {
        token,
        scope,
        level,
        session: call.session.map(|_| session.clone()),
    };
    match call.level {
        Level::Eventual { quorum, sloppy } if !call.request.is_read() => Input::Write {
            token,
            request: call.name.or(call.borrowed),
            digest: match call.borrowed {
                Some(_) => Some(Digest(u128::MAX - u128::from(token.0))),
                None => digest_of(call.name.as_ref()),
            },
            w: quorum,
            sloppy,
            session,
        },
        Level::Eventual { quorum, sloppy } => read(ReadLevel::Eventual { r: quorum, sloppy }),
        Level::Bounded(Bound::Micros(bound)) => read(ReadLevel::BoundMillis(bound / 1_000)),
        Level::Bounded(Bound::Versions(bound)) => read(ReadLevel::BoundVersions(bound as u64)),
        Level::Strong if call.request.is_read() => read(ReadLevel::Strong),
        Level::Barrier if call.request.is_read() => read(ReadLevel::Barrier),
        Level::Strong | Level::Barrier => Input::Submit {
            token,
            request: call.name,
            barrier: match call.level {
                Level::Barrier => call.request.keys().into_iter().cloned().collect(),
                _ => Vec::new(),
            },
        },
    }
}

/// The digest of the only request whose name it is: of a retry it is the same.
fn digest_of(name: Option<&RequestId>) -> Option<Digest> {
    name.map(|name| Digest(u128::from(name.seq)))
}

/// Tokens are never used twice in one incarnation, calls never at all.
pub(crate) fn token_of(call: usize) -> CorrelationId {
    CorrelationId(call as u64)
}

/// The token of a second question about a call: how its writes ended.
pub(crate) fn second_token_of(call: usize) -> CorrelationId {
    CorrelationId(call as u64 | 1 << 32)
}

#[cfg(feature = "mutants")]
fn guarded(replica: Replica, guards: &fader_chain::Guards) -> Replica {
    replica.with_guards(guards.clone())
}

#[cfg(not(feature = "mutants"))]
fn guarded(replica: Replica, _guards: &fader_chain::Guards) -> Replica {
    replica
}

/// The clocks of peers as a new process sees them.
#[cfg(feature = "mutants")]
fn clocks(guards: &fader_chain::Guards) -> Clocks {
    Clocks::new(Duration::from_micros(SESSION)).with_guards(guards.clone())
}

#[cfg(not(feature = "mutants"))]
fn clocks(_guards: &fader_chain::Guards) -> Clocks {
    Clocks::new(Duration::from_micros(SESSION))
}
