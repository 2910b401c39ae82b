//! Requests at the head: decided, waiting, answered; steps and work that is due.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{ChainId, Change, Guard, Stamp};
use fader_services::request::{self, Outcome, ServiceName};
use fader_services::service::{Context, Service as _, Trouble};
use fader_services::sqs::{self, Reply, Sqs};
use fader_services::steps::{self, Ask, Command, Finish, Heard, Step};
use fader_services::{Decision, MapView, Mode, Reason};

use super::chain::{Deed, Operation, apply};
use super::{Asker, CALM, Event, LOOK, PATIENCE, QUEUES, WORK, World};

/// Rows that one entry of work that is due changes.
const ROWS: usize = 64;
const READABLE: &str = "a view in memory can be read";

impl World {
    fn context<'a>(
        &'a self,
        at: usize,
        view: &MapView,
        name: Option<&str>,
    ) -> Context<'a, request::Limits> {
        let chain = &self.chains[at];
        let place = name.and_then(|name| chain.place(view, &self.account, name));
        let queue = QUEUES.iter().find(|it| Some(it.name) == name);
        Context {
            collection: place.map(|place| place.collection),
            mode: match queue.is_some_and(|it| it.is_mixed) {
                true => Mode::Mixed,
                false => Mode::Strong,
            },
            now_ms: chain.wall_ms(self.now),
            chain: chain.id,
            guards: &self.guards,
            ..Context::new(&self.account, &self.limits)
        }
    }

    /// Makes all queues, on chains that are quiet.
    pub(super) fn create_queues(&mut self) {
        for queue in &QUEUES {
            let dead = queue.dead.map(|(to, receives)| (&QUEUES[to], receives));
            let towards = dead.and_then(|(to, _)| {
                let chain = &self.chains[to.chain];
                chain.place(&chain.committed, &self.account, to.name)
            });
            let request = super::clients::creation(queue, dead);
            let chain = &self.chains[queue.chain];
            let context = Context {
                towards,
                ..self.context(queue.chain, &chain.committed, None)
            };
            let request = request::Request::Sqs(request);
            let made = request.decide(&chain.committed, &context);
            let made = made.expect("a creation does not wait");
            made.outcome.expect("the queue is made");
            self.put(queue.chain, &made.changes);
            self.link(queue.chain);
        }
    }

    fn put(&mut self, at: usize, changes: &[fader_chain::Change]) {
        let chain = &mut self.chains[at];
        apply(&mut chain.committed, changes, 1);
        chain.newest = chain.committed.clone();
    }

    /// Tells dead-letter queues on the other chain of their sources.
    fn link(&mut self, at: usize) {
        let origin = self.chains[at].id;
        for step in steps::unsettled(&self.chains[at].committed, 8).expect(READABLE) {
            let taken = steps::take(&self.chains[1 - at].committed, &self.guards, origin, &step);
            let taken = taken.expect(READABLE);
            self.put(1 - at, &taken.changes);
            let done = Bytes::new();
            let settled = steps::settle(&self.chains[at].committed, &step, &done);
            self.put(at, &settled.expect(READABLE));
        }
    }

    /// A call reaches its chain.
    pub(super) fn arrive(&mut self, call: usize) {
        let at = self.calls[call].chain;
        if self.calls[call].is_eventual {
            return self.accept(call);
        }
        if self.chains[at].is_served() {
            self.decide(call, None);
        }
    }

    /// Decides a call, perhaps one that waits.
    fn decide(&mut self, call: usize, token: Option<u64>) {
        let at = self.calls[call].chain;
        let name = self.calls[call].name;
        let chain = &self.chains[at];
        let kept = name.filter(|_| self.guards.has(Guard::Dedupe));
        if let Some(kept) = kept.and_then(|name| chain.kept(name)) {
            let outcome = Sqs::kept(kept).expect("what was kept can be read");
            let outcome = match outcome {
                Ok(reply) => Ok(reply.into()),
                Err(error) => Err(error.into()),
            };
            self.count("repeated");
            return self.append(at, Vec::new(), Deed::Call(call, outcome), None);
        }
        let request = self.calls[call].request.clone();
        let context = self.context(at, &chain.newest, request.command.queue());
        let collection = context.collection;
        let now_ms = context.now_ms;
        let request = request::Request::Sqs(request);
        match request.decide(&chain.newest, &context) {
            Ok(decision) => {
                if let Some(token) = token {
                    let chain = &mut self.chains[at];
                    chain.waiters.leave(fader_chain::CorrelationId(token));
                    chain.parked.remove(&token);
                }
                self.decided(at, call, decision);
            }
            Err(wait) => {
                let Some(collection) = collection else { return };
                let size = request.size();
                let waiters = &mut self.chains[at].waiters;
                let waits = match token {
                    Some(token) => {
                        let again = waiters.again(fader_chain::CorrelationId(token), now_ms);
                        waiters.alarm(collection, wait);
                        again
                    }
                    None => {
                        let token = fader_chain::CorrelationId(call as u64);
                        waiters.wait(token, collection, wait, now_ms, size)
                    }
                };
                self.count("waits");
                match waits {
                    Ok(()) => drop(self.chains[at].parked.insert(call as u64, call)),
                    Err(reason) => self.refuse(call, reason),
                }
            }
        }
    }

    fn decided(&mut self, at: usize, call: usize, decision: Decision<Outcome>) {
        let is_entry = match &decision.outcome {
            Ok(_) => true,
            Err(refusal) => refusal.depends_on_state(),
        };
        if !is_entry {
            return self.reply(call, decision.outcome);
        }
        let name = self.calls[call].name;
        let kept = name.and_then(|name| Some((name, request::keep(&decision.outcome)?)));
        self.append(
            at,
            decision.changes,
            Deed::Call(call, decision.outcome),
            kept,
        );
    }

    fn append(
        &mut self,
        at: usize,
        changes: Vec<fader_chain::Change>,
        deed: Deed,
        kept: Option<(u64, Bytes)>,
    ) {
        let now_ms = self.chains[at].wall_ms(self.now);
        self.trace
            .say(self.now, || format!("c{at} at {now_ms}: {deed:?}"));
        self.chains[at].append(now_ms, changes, deed, kept);
        self.send_log(at);
    }

    fn refuse(&mut self, call: usize, reason: Reason) {
        let refusal = ServiceName::Sqs.word(Trouble::from(reason));
        self.reply(call, Err(refusal));
    }

    /// Sends an answer to a client.
    pub(super) fn reply(&mut self, call: usize, outcome: Outcome) {
        if let Some(at) = self.travel(60) {
            self.queue.plan(at, Event::Answer(call, outcome));
        }
    }

    /// A member that is up takes an eventual send.
    fn accept(&mut self, call: usize) {
        let at = self.calls[call].chain;
        let member = self.random.below(super::chain::MEMBERS);
        let chain = &self.chains[at];
        if !chain.is_reached(member, self.now) || !chain.seats.contains(&member) {
            return self.refuse(call, Reason::NoMember);
        }
        let request = self.calls[call].request.clone();
        let now_ms = chain.members[member].clock.read(self.now).wall;
        let context = Context {
            now_ms,
            ..self.context(at, &chain.committed, request.command.queue())
        };
        let request = request::Request::Sqs(request);
        let accepted = match request.accept(&chain.committed, &context) {
            Ok(accepted) => accepted,
            Err(refusal) => return self.reply(call, Err(refusal)),
        };
        let [write] = &accepted.writes[..] else {
            return self.fail("eventual", "a send of one message is one operation");
        };
        let operation = Operation {
            call,
            ops: write.ops.clone(),
            sent_ms: now_ms,
        };
        self.calls[call].stamped = Some((operation, accepted.answered));
        self.arrivals.insert(write.key.clone(), call);
        let life = chain.members[member].life;
        let synced = self.now + self.random.skewed(100, 2_000);
        let kept = Event::Kept(at, member, life, write.key.clone(), call);
        self.queue.plan(synced, kept);
        let other = (member + 1 + self.random.below(2)) % super::chain::MEMBERS;
        // The copy leaves when it is synced here, and late often enough to matter.
        let late = self.random.skewed(20_000, 300_000);
        self.queue
            .plan(synced + late, Event::Copy(at, other, write.key.clone()));
        self.count("eventual");
    }

    /// The head enters the eventual sends that it hears of.
    pub(super) fn promote(&mut self, at: usize) {
        let chain = &self.chains[at];
        if !chain.is_served() || !chain.is_reached(chain.head(), self.now) {
            return;
        }
        let mut known: BTreeMap<Bytes, Operation> = BTreeMap::new();
        for member in 0..super::chain::MEMBERS {
            if chain.is_reached(member, self.now) {
                known.extend(chain.members[member].operations.clone());
            }
        }
        known.retain(|key, _| !chain.is_promoted(key));
        for (key, operation) in known {
            let chain = &self.chains[at];
            let settled =
                request::settle(&chain.newest, &self.limits, &key, operation.ops, Stamp::MAX);
            match settled.expect(READABLE) {
                fader_chain::Settled::Apply(changes) => {
                    self.append(at, changes, Deed::Promotion(key), None);
                }
                fader_chain::Settled::Refused(_) => self.fail("eventual", "a send is refused"),
            }
        }
    }

    /// Work that is due.
    pub(super) fn work(&mut self, at: usize) {
        self.queue.plan(self.now + WORK, Event::Work(at));
        for _ in 0..8 {
            let chain = &self.chains[at];
            if !chain.is_served() {
                return;
            }
            let (view, now_ms) = (&chain.newest, chain.wall_ms(self.now));
            let (limits, guards) = (&self.limits, &self.guards);
            let changes = request::upkeep(view, limits, guards, chain.id, now_ms, ROWS);
            let changes = changes.expect(READABLE);
            if changes.is_empty() {
                return;
            }
            self.append(at, changes, Deed::Upkeep, None);
            self.count("upkeep");
        }
    }

    /// An entry is committed: waiters and clients hear.
    pub(super) fn commit_all(&mut self, at: usize) {
        while let Some(entry) = self.chains[at].commit() {
            if let Err((guarantee, text)) = self.watch_commit(at, &entry) {
                self.fail(guarantee, &text);
            }
            for change in &entry.changes {
                let value = match change {
                    Change::Put { value, .. } => Some(value),
                    _ => None,
                };
                if let Some((collection, stir)) = request::stir(change.key(), value) {
                    self.chains[at].waiters.stirred(collection, stir);
                }
            }
            match &entry.deed {
                Deed::Call(call, outcome) => {
                    if let Ok(reply) = outcome
                        && let Some(step) = reply.begun()
                    {
                        self.finish(at, step.clone());
                    }
                    self.reply(*call, outcome.clone());
                }
                Deed::Step(asker, command, outcome) => {
                    let told = Event::Told(*asker, command.clone(), outcome.clone());
                    if let Some(at) = self.travel(100) {
                        self.queue.plan(at, told);
                    }
                }
                Deed::Promotion(key) => self.chains[at].forget(key),
                Deed::Upkeep => {}
            }
        }
        self.wake(at);
    }

    fn wake(&mut self, at: usize) {
        while let Some(token) = self.chains[at].waiters.pop() {
            match self.chains[at].parked.get(&token.0).copied() {
                Some(call) if self.chains[at].is_served() && self.is_awaited(call) => {
                    self.decide(call, Some(token.0));
                }
                _ => {
                    self.chains[at].waiters.leave(token);
                    self.chains[at].parked.remove(&token.0);
                }
            }
        }
    }

    /// Time passes for those that wait.
    pub(super) fn attend(&mut self, at: usize) {
        let wall_ms = self.chains[at].wall_ms(self.now);
        self.chains[at].waiters.pass(wall_ms);
        self.wake(at);
    }

    /// Another member is head: those that waited at the old one are told.
    pub(super) fn dismiss(&mut self, at: usize) {
        for token in self.chains[at].waiters.end() {
            if let Some(call) = self.chains[at].parked.remove(&token.0) {
                self.refuse(call, Reason::NoMember);
            }
        }
    }

    /// The head's process ended, with those that waited.
    pub(super) fn forget_waiters(&mut self, at: usize) {
        self.chains[at].waiters.end();
        self.chains[at].parked.clear();
    }

    /// Steps that are not settled are finished.
    pub(super) fn look(&mut self, at: usize) {
        self.queue.plan(self.now + LOOK, Event::Look(at));
        self.promote(at);
        self.attend(at);
        self.check_woken(at);
        let unsettled = steps::unsettled(&self.chains[at].committed, 64).expect(READABLE);
        for step in unsettled {
            self.finish(at, step);
        }
    }

    fn finish(&mut self, origin: usize, step: Step) {
        self.next_finisher += 1;
        let finish = Finish::new(self.chains[origin].id, step, self.guards.clone());
        self.finishers.insert(self.next_finisher, (finish, 0));
        self.ask_next(self.next_finisher);
    }

    fn ask_next(&mut self, finisher: u64) {
        // Its node ends here, in any state.
        if self.now < CALM && self.random.chance(150) {
            self.finishers.remove(&finisher);
            return;
        }
        let Some((finish, asked)) = self.finishers.get_mut(&finisher) else {
            return;
        };
        *asked += 1;
        let asker = Asker {
            finisher,
            asked: *asked,
        };
        match finish.ask() {
            Ask::Of(ChainId(at), command) => {
                for _ in 0..if self.random.chance(200) { 2 } else { 1 } {
                    if let Some(time) = self.travel(100) {
                        let ask = Event::Ask(asker, at as usize, command.clone());
                        self.queue.plan(time, ask);
                    }
                }
                self.queue.plan(self.now + PATIENCE, Event::Timeout(asker));
            }
            Ask::Nothing(_) => {
                self.finishers.remove(&finisher);
                self.count("finished");
            }
        }
    }

    pub(super) fn decide_step(&mut self, asker: Asker, at: usize, command: Command) {
        let chain = &self.chains[at];
        if !chain.is_served() {
            return;
        }
        let request = request::Request::Step(command.clone());
        let context = self.context(at, &chain.newest, None);
        let decision = request.decide(&chain.newest, &context);
        let Decision { outcome, changes } = decision.expect("steps do not wait");
        self.append(at, changes, Deed::Step(asker, command, outcome), None);
    }

    pub(super) fn told(&mut self, asker: Asker, command: &Command, outcome: Outcome) {
        let heard = match (command, outcome) {
            (Command::Take(..), Ok(request::Reply::Step(taken))) => Heard::Taken(taken),
            (_, Ok(_)) => Heard::Settled,
            (_, Err(_)) => Heard::Nothing,
        };
        self.hear_finisher(asker, heard);
    }

    pub(super) fn hear_finisher(&mut self, asker: Asker, heard: Heard) {
        match self.finishers.get_mut(&asker.finisher) {
            Some((finish, asked)) if *asked == asker.asked => finish.hear(heard),
            _ => return,
        }
        self.ask_next(asker.finisher);
    }

    /// What a committed view of a chain answers to a request.
    pub(super) fn read(&self, at: usize, request: &sqs::Request) -> Option<Reply> {
        let view = &self.chains[at].committed;
        let context = self.context(at, view, request.command.queue());
        let request = request::Request::Sqs(request.clone());
        match request.answer(view, &context) {
            Ok(request::Reply::Sqs(reply)) => Some(reply),
            _ => None,
        }
    }

    /// What the first of those that wait would be given now.
    pub(super) fn would_give(&self, at: usize, call: usize) -> Option<usize> {
        let chain = &self.chains[at];
        let request = self.calls[call].request.clone();
        let context = self.context(at, &chain.newest, request.command.queue());
        let decision = request::Request::Sqs(request).decide(&chain.newest, &context);
        match decision.ok()?.outcome.ok()? {
            request::Reply::Sqs(Reply::Received(received)) => Some(received.messages.len()),
            _ => None,
        }
    }
}
