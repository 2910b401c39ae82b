//! The collectors, as the head of a chain has them: garbage, leases that are over, notes, and work
//! that is due. What they ask is late, and asked again. Garbage and closed attempts wait by the
//! code of nodes ([`Waits`], [`Found`]).

use std::collections::{BTreeMap, VecDeque};

use fader_chain::{ChainId, EntryId};
use fader_services::blocks::{self, Fenced, Found, Known, Row, Waits};
use fader_services::catalog;
use fader_services::request::{self, Outcome, Request};
use fader_services::s3;
use fader_services::s3::command::{Extent, List};
use fader_services::s3::reply::Entry as Listed;
use fader_services::steps::Heard;

use super::buckets::Bucket;
use super::chain::Deed;
use super::clients::upload_of;
use super::{Event, LEASE_MS, LOOK, READABLE, Rule, WAIT_MS, World};

/// How long something that was asked is not asked again, in microseconds.
const AGAIN: u64 = 1_000_000;
/// How often it is noted what was committed, in milliseconds.
const SAMPLE_MS: u64 = 250;
/// Rows that one entry of work that is due changes.
const ROWS: usize = 16;

/// Something that a node asks for itself.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    of: Option<Bucket>,
    pub(super) request: Request,
    then: Then,
}

/// What is done with the answer.
#[derive(Clone, Debug)]
pub(super) enum Then {
    Nothing,
    /// It is a fence of this row.
    Judge(u128, Row),
    /// The next is asked.
    Next(Request),
    /// A finisher hears what came of what it asked: of a step to be taken, or settled.
    Finish(usize, u64, bool),
}

/// What the head's process remembers.
#[derive(Debug, Default)]
pub(super) struct Collector {
    of: (usize, u64),
    waits: Waits,
    samples: VecDeque<(u64, EntryId)>,
    closed: Option<Closed>,
    /// When what was asked the last time.
    asked: BTreeMap<String, u64>,
}

/// Blocks of closed attempts that are to end.
#[derive(Debug)]
struct Closed {
    rows: Found<(u128, Row)>,
    /// The epoch of the barrier, and where the log ended that has all settlements.
    barrier: Option<(u64, usize)>,
    /// Whether these are committed.
    is_settled: bool,
}

impl World {
    /// The head looks for what is to go.
    pub(super) fn look(&mut self) {
        self.plan(self.now + LOOK, Event::Look);
        let head = self.chains[self.on].head();
        if !self.chains[self.on].is_reached(head, self.now) {
            return;
        }
        let of = (head, self.chains[self.on].members[head].life);
        if self.collectors[self.on].of != of {
            // A new head begins anew.
            self.collectors[self.on] = Collector {
                of,
                ..Collector::default()
            };
        }
        self.look_for_garbage();
        self.look_for_leases();
        self.look_for_steps();
        self.move_notes();
        self.upkeep();
        if self.is_calm() {
            self.abort_uploads();
        }
    }

    fn monotonic_ms(&self) -> u64 {
        let clock = &self.chains[self.on].head_member().clock;
        match self.has(Rule::Monotonic) {
            true => clock.steady(self.now) / 1_000,
            false => clock.read(self.now).wall,
        }
    }

    /// What the head knows of its chain.
    fn known(&self) -> Known {
        let chain = &self.chains[self.on];
        Known {
            newest: chain.id_at(chain.commits),
            safe_point: chain.id_at(chain.head_member().floor.min(chain.floor)),
        }
    }

    fn look_for_garbage(&mut self) {
        let (known, now_ms) = (self.known(), self.monotonic_ms());
        let chain = &mut self.chains[self.on];
        let head = chain.head();
        let head = &mut chain.members[head];
        let seen = head.garbage.take(known.safe_point);
        let waits = &mut self.collectors[self.on].waits;
        let looked = waits.look(now_ms, known, seen, &head.state);
        looked.expect(READABLE);
        let wait_ms = match self.without {
            Some(Rule::Wait) => 0,
            _ => WAIT_MS,
        };
        let over = waits.over(now_ms, wait_ms, usize::MAX);
        for at in over {
            if !self.may_ask(format!("{at:?}")) {
                continue;
            }
            let state = &self.chains[self.on].head_member().state;
            let Some(removal) = blocks::removal(state, at).expect(READABLE) else {
                self.collectors[self.on].waits.forget(&[at]);
                continue;
            };
            let ids = removal.blocks.into_values().flatten().collect();
            let rows = blocks::Command::Remove(ids);
            self.count("garbage");
            self.send_ask(rows.into(), Then::Next(removal.then));
        }
    }

    fn look_for_leases(&mut self) {
        let head = self.chains[self.on].head_member();
        let wall_ms = self.chains[self.on].wall_ms(self.now);
        let due = blocks::due(&head.state, None, wall_ms, 64).expect(READABLE);
        let ids: Vec<u128> = due.into_iter().map(|(_, id)| id).collect();
        let leased = blocks::leased(&head.state, &ids).expect(READABLE);
        let (closed, others): (Vec<_>, Vec<_>) =
            leased.into_iter().partition(|(_, row)| row.is_closed());
        let ids: Vec<u128> = others.into_iter().map(|(id, _)| id).collect();
        self.fence_all(&ids);
        self.end_closed(closed);
    }

    /// Ends attempts that are closed (COLLECT-5).
    fn end_closed(&mut self, rows: Vec<(u128, Row)>) {
        let (on, known) = (self.on, self.known());
        let (epoch, commits) = (self.chains[on].epoch, self.chains[on].commits);
        let gathers = self.has(Rule::Barrier);
        let Some(closed) = &mut self.collectors[on].closed else {
            if !rows.is_empty() {
                self.collectors[on].closed = Some(Closed {
                    rows: Found::new(rows),
                    barrier: None,
                    is_settled: false,
                });
            }
            return;
        };
        let is_passed = closed.rows.is_passed(known);
        let is_committed = |(of, length)| of == epoch && length <= commits;
        closed.is_settled |= closed.barrier.is_some_and(is_committed);
        if is_passed && (closed.is_settled || !gathers) {
            let closed = self.collectors[on].closed.take();
            let rows = closed.map(|closed| closed.rows.into_found());
            for (id, row) in rows.unwrap_or_default() {
                if self.may_ask(format!("end {id} {}", row.number)) {
                    self.count("ended attempts");
                    self.send_ask(blocks::end_attempt(row.owner, id), Then::Judge(id, row));
                }
            }
        } else if is_passed
            && !closed.is_settled
            && closed.barrier.is_none_or(|(of, _)| of != epoch)
            && let Some(time) = self.travel(20)
        {
            self.plan(time, Event::Gathered(epoch));
        }
    }

    /// All members have told the head what they hold.
    pub(super) fn gathered(&mut self, epoch: u64) {
        if self.collectors[self.on].closed.is_none() {
            return;
        }
        let settled = self.settle_held(epoch);
        if let Some(closed) = &mut self.collectors[self.on].closed
            && let Some(length) = settled
        {
            closed.barrier = Some((epoch, length));
        }
    }

    /// Asks what becomes of blocks whose leases are over, or whose puts were given up.
    pub(super) fn fence_all(&mut self, ids: &[u128]) {
        let state = &self.chains[self.on].head_member().state;
        for (id, row) in blocks::leased(state, ids).expect(READABLE) {
            if !self.may_ask(format!("{id} {}", row.number)) {
                continue;
            }
            self.count("fences");
            match self.has(Rule::Fence) {
                true => self.send_ask(blocks::close_attempt(row.owner, id), Then::Judge(id, row)),
                false => self.judge(id, row, Fenced::Fenced),
            }
        }
    }

    fn judge(&mut self, id: u128, row: Row, fate: Fenced) {
        self.count(match fate {
            Fenced::Kept => "kept",
            Fenced::Fenced => "fenced",
            Fenced::NoAnswer => "no answer",
        });
        for command in blocks::verdicts(&[(id, row, fate)]) {
            self.send_ask(command.into(), Then::Nothing);
        }
    }

    fn move_notes(&mut self) {
        let now_ms = self.chains[self.on].head_member().clock.steady(self.now) / 1_000;
        let newest = self.collectors[self.on].samples.back().map(|(at, _)| *at);
        if newest.is_some_and(|at| now_ms < at + SAMPLE_MS) {
            return;
        }
        let committed = self.chains[self.on].id_at(self.chains[self.on].commits);
        self.collectors[self.on]
            .samples
            .push_back((now_ms, committed));
        let mut note = None;
        while let Some((at, id)) = self.collectors[self.on].samples.front()
            && at + LEASE_MS <= now_ms
        {
            note = Some(*id);
            self.collectors[self.on].samples.pop_front();
        }
        let Some(note) = note else {
            return;
        };
        let asked = blocks::notes(&self.chains[self.on].head_member().state, note);
        for request in asked.expect(READABLE) {
            self.count("notes");
            self.send_ask(request, Then::Nothing);
        }
    }

    fn upkeep(&mut self) {
        let (view, now_ms) = (
            &self.chains[self.on].newest,
            self.chains[self.on].wall_ms(self.now),
        );
        let chain = ChainId(u32::try_from(self.on).expect("there are few chains"));
        let changes = request::upkeep(view, &self.limits, &self.guards, chain, now_ms, ROWS);
        let mut changes = changes.expect(READABLE);
        if changes.is_empty() {
            changes = catalog::purge(view, ROWS).expect(READABLE);
        }
        if !changes.is_empty() {
            self.chains[self.on].append(changes, Deed::Upkeep);
        }
    }

    /// Uploads that clients left open end with the run.
    fn abort_uploads(&mut self) {
        for bucket in self.ledger.on(self.on) {
            let list = s3::Command::ListUploads(List {
                bucket: bucket.name.to_owned(),
                ..List::default()
            });
            let page = self.show(&self.chains[self.on].committed, bucket, list);
            let Some(s3::Reply::Page(page)) = page else {
                continue;
            };
            for entry in page.entries {
                if let Listed::Upload { key, id, .. } = entry
                    && self.may_ask(format!("upload {id}"))
                {
                    let abort = s3::Command::AbortUpload(upload_of(bucket, &key, id));
                    let request = s3::Request::of(&self.account, 0, abort);
                    self.send_ask_of(Some(bucket), Request::S3(request), Then::Nothing);
                }
            }
        }
    }

    /// What a view of a bucket says to a read.
    pub(super) fn show(
        &self,
        view: &fader_services::MapView,
        bucket: Bucket,
        command: s3::Command,
    ) -> Option<s3::Reply> {
        let context = self.context(view, 0, Some(bucket));
        let request = Request::S3(s3::Request::of(&self.account, 0, command));
        match request.answer(view, &context) {
            Ok(request::Reply::S3(reply)) => Some(reply),
            _ => None,
        }
    }

    pub(super) fn may_ask(&mut self, what: String) -> bool {
        let now = self.now;
        let last = self.collectors[self.on].asked.get(&what);
        let may = last.is_none_or(|last| last + AGAIN <= now);
        if may {
            self.collectors[self.on].asked.insert(what, now);
        }
        may
    }

    pub(super) fn send_ask(&mut self, request: Request, then: Then) {
        self.send_ask_of(None, request, then);
    }

    fn send_ask_of(&mut self, of: Option<Bucket>, request: Request, then: Then) {
        let ask = self.asks.len();
        self.asks.push(Ask { of, request, then });
        for time in self.arrivals(true) {
            self.plan(time, Event::Ask(ask));
        }
    }

    /// Rows go that are not to.
    pub(super) fn remove_rows(&mut self, rows: blocks::Command) {
        self.send_ask(rows.into(), Then::Nothing);
    }

    /// What was asked reaches the head.
    pub(super) fn ask(&mut self, ask: usize) {
        let chain = &self.chains[self.on];
        if chain.is_reached(chain.head(), self.now) {
            let (request, of) = (self.asks[ask].request.clone(), self.asks[ask].of);
            self.decide(&request, of, |outcome| Deed::Node(ask, outcome));
        }
    }

    /// It was decided and committed.
    pub(super) fn told(&mut self, ask: usize, outcome: &Outcome) {
        match self.asks[ask].then.clone() {
            Then::Nothing => {}
            Then::Judge(id, row) => {
                if let Some(fate) = blocks::fate(outcome) {
                    self.judge(id, row, fate);
                }
            }
            Then::Next(request) if outcome.is_ok() => self.send_ask(request, Then::Nothing),
            Then::Next(_) => {}
            Then::Finish(finisher, asked, is_take) => {
                let heard = match outcome {
                    Ok(request::Reply::Step(taken)) if is_take => Heard::Taken(taken.clone()),
                    Ok(_) => Heard::Settled,
                    Err(_) => Heard::Nothing,
                };
                self.hear_step(finisher, asked, heard);
            }
        }
    }

    /// All of an object, of a view.
    pub(super) fn object(
        &self,
        view: &fader_services::MapView,
        bucket: Bucket,
        key: &str,
        version: Option<s3::rows::VersionId>,
    ) -> Option<s3::reply::Found> {
        let get = s3::command::GetObject {
            bucket: bucket.name.to_owned(),
            key: key.to_owned(),
            version,
            conditions: s3::conditions::ReadConditions::default(),
            extent: Extent::From(0),
            action: s3::Action::GetObject,
        };
        match self.show(view, bucket, s3::Command::GetObject(get)) {
            Some(s3::Reply::Object(found)) => Some(*found),
            _ => None,
        }
    }
}
