//! Eventual puts: any member takes them, holds them on its disk, and tells the head, late. The head
//! settles each by one entry. A barrier settles all that is held.

use fader_chain::{Accepted, ElementOp, EntryId, ModeState, Outcome, Register, Settled, Stamp};
use fader_services::request::{self, Request};
use fader_services::s3::Command;
use fader_services::s3::command::PutObject;
use fader_services::{MapView, View as _, blocks};

use super::buckets::Bucket;
use super::chain::{Deed, Entry, MEMBERS, apply};
use super::watch::Broken;
use super::{Event, READABLE, Rule, World};

/// How late a member tells the head of what it holds, and how often, in microseconds.
const LATE: (u64, u64) = (1_000, 2_500_000);
const AGAIN: u64 = 150_000;

/// An eventual put that a member took.
#[derive(Debug)]
pub(super) struct Operation {
    of: Bucket,
    put: PutObject,
    write: Accepted,
    stamp: Stamp,
    /// The last entry in the log of the member that took it.
    accept: EntryId,
    /// When the head is told next.
    due: u64,
    /// Whether it may be lost: all who held it were away, or lost their disks.
    is_excused: bool,
    /// What its member sees.
    seen: MapView,
}

impl World {
    /// An eventual put reaches a member.
    pub(super) fn take(&mut self, call: usize, member: usize) {
        let chain = &self.chains[self.on];
        if !chain.is_reached(member, self.now) || !chain.serves(member) {
            return;
        }
        let here = &chain.members[member];
        let (request, of) = (self.calls[call].request.clone(), self.calls[call].of);
        let Some(of) = of else {
            return;
        };
        let mut newest = here.state.clone();
        here.log[here.applied..]
            .iter()
            .for_each(|entry| apply(&mut newest, entry));
        let wall_ms = here.clock.read(self.now).wall;
        let context = self.context(&here.state, wall_ms, Some(of));
        let Some(collection) = context.collection else {
            return;
        };
        if self.has(Rule::Closed)
            && let Some(attempt) = request.attempt()
            && let Err(refused) = blocks::check_attempt(&newest, collection, attempt)
        {
            self.count("puts of the closed");
            return self.tell(Event::Answer(call, Err(refused)));
        }
        let accepted = match request.accept(&here.state, &context) {
            Ok(accepted) => accepted,
            Err(refused) => return self.tell(Event::Answer(call, Err(refused))),
        };
        let accept = here.log.last().map_or(EntryId::ZERO, |entry| entry.id);
        let write = accepted.writes.into_iter().next().expect("it is one put");
        self.hold(member, of, &request, write, &newest, accept);
        // Many clients do not hear of it, and give up what may be placed after all.
        if self.is_calm() || self.random.chance(700) {
            self.tell(Event::Answer(call, Ok(accepted.answered)));
        }
    }

    fn hold(
        &mut self,
        member: usize,
        of: Bucket,
        request: &Request,
        write: Accepted,
        newest: &MapView,
        accept: EntryId,
    ) {
        let Request::S3(request) = request else {
            return;
        };
        let Command::PutObject(put) = &request.command else {
            return;
        };
        let held = self.chains[self.on].members[member].overlay.iter();
        let held = held.map(|at| &self.operations[*at]);
        let held = held.filter(|held| held.write.key == write.key);
        let base = held.map(|held| held.stamp.base).max().unwrap_or_default();
        let opened = ModeState::of(newest, of.collection.0).expect(READABLE);
        let stamp = Stamp {
            base: base
                .max(register(newest, &write.key).version)
                .max(opened.opened),
            clock: self.now,
            node: u32::try_from(member).expect("there are few members"),
            counter: 0,
        };
        let late = self.random.skewed(LATE.0, LATE.1);
        let number = self.operations.len();
        let seen = self.chains[self.on].members[member].state.clone();
        self.operations.push(Operation {
            of,
            put: PutObject::clone(put),
            write,
            stamp,
            accept,
            due: self.now + late,
            is_excused: false,
            seen,
        });
        self.chains[self.on].members[member].overlay.insert(number);
        self.count("taken");
    }

    /// Members tell the head of what they hold.
    pub(super) fn tell_held(&mut self) {
        for at in 0..MEMBERS {
            let chain = &self.chains[self.on];
            if !chain.is_reached(at, self.now) || !chain.serves(at) {
                continue;
            }
            for operation in self.chains[self.on].members[at].overlay.clone() {
                if self.now < self.operations[operation].due {
                    continue;
                }
                self.operations[operation].due = self.now + AGAIN;
                if let Some(time) = self.travel(50) {
                    self.plan(time, Event::Settle(operation));
                }
            }
        }
    }

    /// The head settles what it is told of.
    pub(super) fn settle(&mut self, operation: usize) {
        let chain = &self.chains[self.on];
        let is_known = chain
            .head_member()
            .log
            .iter()
            .rev()
            .any(|entry| matches!(&entry.deed, Deed::Settle(other, _) if *other == operation));
        if !chain.is_reached(chain.head(), self.now) || is_known {
            return;
        }
        let held = &self.operations[operation];
        let key = &held.write.key;
        let survivors = register(&chain.newest, key).survivors(&held.write.ops, held.stamp);
        let standing = ModeState::of(&chain.newest, held.of.collection.0).expect(READABLE);
        let (outcome, changes) = match survivors.is_empty() {
            _ if !standing.settles(held.accept) => (Outcome::Gone, Vec::new()),
            true => (Outcome::Superseded, Vec::new()),
            false => match self.settled(held, survivors) {
                Settled::Apply(changes) => (Outcome::Applied, changes),
                Settled::Refused(reason) => (Outcome::Refused(reason), Vec::new()),
            },
        };
        let stamp = held.stamp;
        let deed = Deed::Settle(operation, outcome);
        self.chains[self.on].append_stamped(changes, deed, Some(stamp));
    }

    fn settled(&self, held: &Operation, survivors: Vec<ElementOp>) -> Settled {
        let (key, stamp) = (&held.write.key, held.stamp);
        let on = |view: &MapView, survivors| {
            request::settle(view, &self.limits, key, survivors, stamp).expect(READABLE)
        };
        if !self.has(Rule::SettleNewest)
            && let settled @ Settled::Apply(_) = on(&held.seen, survivors.clone())
        {
            return settled;
        }
        on(&self.chains[self.on].newest, survivors)
    }

    /// The head has asked all members of its epoch what they hold: it settles that. Says where its
    /// log ends then; nothing where not all have answered.
    pub(super) fn settle_held(&mut self, epoch: u64) -> Option<usize> {
        let chain = &self.chains[self.on];
        let mut seats = chain.seats.iter();
        let answers = |at: &usize| chain.is_reached(*at, self.now) && chain.serves(*at);
        if chain.epoch != epoch || !seats.all(answers) {
            return None;
        }
        let seats = chain.seats.iter();
        let held = seats.flat_map(|at| chain.members[*at].overlay.iter().copied());
        let mut held: Vec<usize> = held.collect();
        held.sort_by_key(|at| (self.operations[*at].stamp, *at));
        for operation in held {
            self.count("settled by barriers");
            self.settle(operation);
        }
        self.count("barriers");
        Some(self.chains[self.on].head_member().log.len())
    }

    /// A member is back: what it held is judged (JN-7, GC-5).
    pub(super) fn judge_held(&mut self, member: usize) {
        let chain = &self.chains[self.on];
        let safe_point = chain.id_at(chain.floor);
        let settled: Vec<usize> = chain.members[member]
            .log
            .iter()
            .filter_map(settled_by)
            .collect();
        let mut overlay = std::mem::take(&mut self.chains[self.on].members[member].overlay);
        overlay.retain(|at| !settled.contains(at));
        for at in overlay.clone() {
            self.operations[at].due = self.now + self.random.skewed(LATE.0, LATE.1);
            if self.operations[at].accept < safe_point {
                self.operations[at].is_excused = true;
                // Not all are: some bases are above the safe point.
                if self.random.chance(600) {
                    overlay.remove(&at);
                    self.count("forgotten");
                } else {
                    self.count("brought back");
                }
            }
        }
        self.chains[self.on].members[member].overlay = overlay;
    }

    /// A member loses its disk.
    pub(super) fn lose_held(&mut self, member: usize) {
        for at in std::mem::take(&mut self.chains[self.on].members[member].overlay) {
            self.operations[at].is_excused = true;
        }
    }

    /// The settlement of an eventual put is committed.
    pub(super) fn means_settled(
        &mut self,
        operation: usize,
        outcome: &Outcome,
    ) -> Result<(), Broken> {
        let held = &self.operations[operation];
        let (of, put) = (held.of, held.put.clone());
        match outcome {
            Outcome::Applied => {
                self.count("promoted");
                if matches!(put.content, blocks::Content::Blocks(_)) {
                    self.count("promoted with blocks");
                }
                self.means_eventual(of, &put)
            }
            Outcome::Superseded => {
                self.count("superseded");
                Ok(())
            }
            _ if held.is_excused || self.ledger.ended.contains(&of) => {
                self.count("come to nothing");
                Ok(())
            }
            Outcome::Refused(_) | Outcome::Gone => {
                let text = format!("{} was taken, and comes to nothing", put.etag);
                Err(("lost", text))
            }
        }
    }

    /// The end: all that was taken is settled.
    pub(super) fn judge_held_at_end(&self) -> Result<(), Broken> {
        let logs = self.chains.iter().map(|chain| &chain.head_member().log);
        let settled: Vec<usize> = logs.flatten().filter_map(settled_by).collect();
        let mut all = self.operations.iter().enumerate();
        match all.find(|(at, held)| !held.is_excused && !settled.contains(at)) {
            Some((_, held)) => {
                let text = format!("{} was taken, and is not settled", held.put.etag);
                Err(("lost", text))
            }
            None => Ok(()),
        }
    }
}

fn settled_by(entry: &std::rc::Rc<Entry>) -> Option<usize> {
    match entry.deed {
        Deed::Settle(operation, _) => Some(operation),
        _ => None,
    }
}

fn register(view: &MapView, key: &[u8]) -> Register {
    let row = view.get(key).expect(READABLE);
    row.map_or_else(Register::default, |row| {
        Register::decode(row).expect(READABLE)
    })
}
