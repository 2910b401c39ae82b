//! A queue while a request is decided: its rows, with those that the decision changes laid over.
//!
//! Invariants:
//! - QU-4 the low mark of an index is its least spot: no scan passes rows that were removed.
//! - QU-5 the time of decisions never falls, from entry to entry, at any head.

use bytes::Bytes;
use fader_chain::{Change, Guard, Guards, Layered, Mutations};

use crate::catalog::AccountId;
use crate::key::KeyRange;
use crate::service::Context;
use crate::simpledb::metadata_key;
use crate::sqs::error::Error;
use crate::sqs::layout::{self, Index, Keys, Spot, spot_of};
use crate::sqs::limits::Limits;
use crate::sqs::message::{Body, Counters, Place, Row, State};
use crate::sqs::settings::Settings;
use crate::waiters::Stir;
use crate::{CollectionId, Direction, Table, View, ViewError};

/// What all decisions on queues know.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) view: &'a dyn View,
    pub(crate) account: &'a AccountId,
    pub(crate) limits: &'a Limits,
    pub(crate) guards: &'a Guards,
    pub(crate) chain: fader_chain::ChainId,
    pub(crate) now_ms: u64,
}

impl<'a> Terms<'a> {
    pub(crate) fn new(view: &'a dyn View, context: &Context<'a, Limits>) -> Self {
        Terms {
            view,
            account: context.account,
            limits: context.limits,
            guards: context.guards,
            chain: context.chain,
            now_ms: context.now_ms,
        }
    }
}

/// A queue, with what a decision does to it.
pub(crate) struct Queue<'a> {
    pub(crate) terms: Terms<'a>,
    pub(crate) collection: CollectionId,
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
    /// The time of this decision.
    pub(crate) now_ms: u64,
    found: Counters,
    changed: Mutations,
    /// Whether low marks are looked for at the end ([`Queue::postpone_lows`]), and which of ready
    /// and scheduled are to be.
    is_postponed: bool,
    stale: [bool; 2],
}

/// The first rows of an index.
#[derive(Default)]
pub(crate) struct Front {
    /// In order, each with its value.
    pub(crate) rows: Vec<(Spot, Bytes)>,
    /// The spot of the next row, if there is one.
    pub(crate) next: Option<Spot>,
}

impl<'a> Queue<'a> {
    /// The queue in this collection, if it is made.
    pub(crate) fn open(
        terms: Terms<'a>,
        collection: CollectionId,
    ) -> Result<Option<Queue<'a>>, ViewError> {
        let Some(settings) = settings(terms.view, collection)? else {
            return Ok(None);
        };
        let counters = counters(terms.view, collection)?;
        let now_ms = match terms.guards.has(Guard::QueueTime) {
            true => terms.now_ms.max(counters.clock_ms),
            false => terms.now_ms,
        };
        Ok(Some(Queue {
            terms,
            collection,
            settings,
            found: counters.clone(),
            counters,
            now_ms,
            changed: Mutations::new(),
            is_postponed: false,
            stale: [false; 2],
        }))
    }

    /// The queue of a context.
    pub(crate) fn of(
        view: &'a dyn View,
        context: &Context<'a, Limits>,
    ) -> Result<Queue<'a>, Error> {
        let collection = context.collection.ok_or_else(Error::no_such_queue)?;
        let queue = Queue::open(Terms::new(view, context), collection)?;
        queue.ok_or_else(Error::no_such_queue)
    }

    /// One that is being made.
    pub(crate) fn made(
        terms: Terms<'a>,
        collection: CollectionId,
        settings: Settings,
    ) -> Queue<'a> {
        Queue {
            terms,
            collection,
            settings,
            counters: Counters::default(),
            now_ms: terms.now_ms,
            found: Counters::default(),
            changed: Mutations::new(),
            is_postponed: false,
            stale: [false; 2],
        }
    }

    /// Looks for the least ready message again: one that was over may not be any more.
    pub(crate) fn find_low(&mut self) -> Result<(), ViewError> {
        let range = self.keys().index_from(Index::Ready, Spot::MIN);
        let first = self.scan(&range, 1)?;
        let first = first.first().map(|(key, _)| spot_of(key)).transpose()?;
        self.counters.ready_low = first;
        Ok(())
    }

    /// Whether a guard is in place.
    pub(crate) fn has(&self, guard: Guard) -> bool {
        self.terms.guards.has(guard)
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys {
            collection: self.collection,
            era: self.counters.era,
        }
    }

    /// What the decision changes, in order.
    pub(crate) fn finish(mut self) -> Vec<Change> {
        if self.found == self.counters && self.changed.is_empty() {
            return Vec::new();
        }
        if self.found.clock_ms < self.now_ms {
            self.counters.clock_ms = self.now_ms;
        }
        let counters = self.counters.encode();
        let key = layout::counters_key(self.collection);
        self.changed.insert(key, Some(counters));
        let changes = self.changed.into_iter().map(|(key, value)| match value {
            Some(value) => Change::Put { key, value },
            None => Change::Remove { key },
        });
        changes.collect()
    }

    /// Gives the queue other settings.
    pub(crate) fn set(&mut self, settings: Settings) {
        self.put(metadata_key(self.collection), settings.encode());
        self.settings = settings;
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Layered::new(self.terms.view, &self.changed).get(key)
    }

    pub(crate) fn row<R: Row>(&self, key: &[u8]) -> Result<Option<R>, ViewError> {
        Ok(self.get(key)?.map(R::decode).transpose()?)
    }

    pub(crate) fn put(&mut self, key: Bytes, value: Bytes) {
        self.changed.insert(key, Some(value));
    }

    pub(crate) fn remove(&mut self, key: Bytes) {
        self.changed.insert(key, None);
    }

    /// Up to `count` pairs of a range.
    pub(crate) fn scan(
        &self,
        range: &KeyRange,
        count: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, ViewError> {
        let layered = Layered::new(self.terms.view, &self.changed);
        let pairs = layered.scan(&range.start, &range.end, Direction::Forward);
        pairs.take(count).collect()
    }

    fn low(&mut self, index: Index) -> &mut Option<Spot> {
        match index {
            Index::Ready => &mut self.counters.ready_low,
            Index::Scheduled => &mut self.counters.scheduled_low,
        }
    }

    /// Up to `count` rows of an index from its low mark on, or from `least` on.
    pub(crate) fn front(
        &mut self,
        index: Index,
        least: Spot,
        count: usize,
    ) -> Result<Front, ViewError> {
        let mut front = Front::default();
        let Some(low) = *self.low(index) else {
            return Ok(front);
        };
        let range = self.keys().index_from(index, low.max(least));
        for (key, value) in self.scan(&range, count + 1)? {
            let spot = spot_of(&key)?;
            if front.rows.len() == count {
                front.next = Some(spot);
            } else {
                front.rows.push((spot, value));
            }
        }
        Ok(front)
    }

    /// Whether a scheduled message may be due: its low mark tells (QU-4).
    pub(crate) fn is_due(&self) -> bool {
        let low = self.counters.scheduled_low;
        !self.has(Guard::QueueDelay) || low.is_some_and(|low| low.at <= self.now_ms)
    }

    /// Takes the first `count` rows of a front away; its index begins with the next one then.
    pub(crate) fn take(&mut self, index: Index, front: &Front, count: usize) {
        let keys = self.keys();
        for (spot, _) in &front.rows[..count] {
            self.remove(keys.index(index, *spot));
        }
        let next = front.rows.get(count).map(|(spot, _)| *spot);
        *self.low(index) = next.or(front.next);
    }

    pub(crate) fn insert(&mut self, index: Index, spot: Spot, value: Bytes) {
        let key = self.keys().index(index, spot);
        self.put(key, value);
        let lowers = self.has(Guard::QueueMark);
        let low = self.low(index);
        if low.is_none_or(|low| lowers && spot < low) {
            *low = Some(spot);
        }
    }

    pub(crate) fn withdraw(&mut self, index: Index, spot: Spot) -> Result<(), ViewError> {
        let key = self.keys().index(index, spot);
        self.remove(key);
        if *self.low(index) == Some(spot) {
            self.stale[index as usize] = true;
        }
        match self.is_postponed {
            true => Ok(()),
            false => self.settle_lows(),
        }
    }

    /// Until [`Queue::settle_lows`] a low mark may be less than the least spot. A batch looks for
    /// the next one once, not for each row that it withdraws.
    pub(crate) fn postpone_lows(&mut self) {
        self.is_postponed = true;
    }

    /// Each low mark is the least spot again (QU-4).
    pub(crate) fn settle_lows(&mut self) -> Result<(), ViewError> {
        self.is_postponed = false;
        for index in [Index::Ready, Index::Scheduled] {
            if !std::mem::take(&mut self.stale[index as usize]) {
                continue;
            }
            let Some(low) = *self.low(index) else {
                continue;
            };
            let next = self.scan(&self.keys().index_from(index, low), 1)?;
            let next = next.first().map(|(key, _)| spot_of(key)).transpose()?;
            *self.low(index) = next;
        }
        Ok(())
    }

    pub(crate) fn state(&self, number: u64) -> Result<Option<State>, ViewError> {
        self.row(&self.keys().state(number))
    }

    pub(crate) fn put_state(&mut self, number: u64, state: &State) {
        let key = self.keys().state(number);
        self.put(key, state.encode());
    }

    /// The content of a message. Receives do not ask for it (QL-1).
    pub(crate) fn body(&self, number: u64) -> Result<Option<Body>, ViewError> {
        self.row(&self.keys().body(number))
    }

    /// Whether the retention of a message is over.
    pub(crate) fn is_over(&self, state: &State) -> bool {
        self.has(Guard::QueueExpiry)
            && state.kept_from_ms + self.settings.retention_ms() <= self.now_ms
    }

    /// Puts a new message, which can be received from `at_ms` on: its number.
    pub(crate) fn add(
        &mut self,
        body: &Body,
        at_ms: u64,
        receives: u32,
        first_receive_ms: u64,
        kept_from_ms: u64,
    ) -> Result<u64, ViewError> {
        self.counters.last += 1;
        let number = self.counters.last;
        let spot = Spot { at: at_ms, number };
        let is_delayed = self.now_ms < at_ms && self.has(Guard::QueueDelay);
        let group = match self.settings.is_fifo() {
            true => body.group.clone().unwrap_or_default(),
            false => String::new(),
        };
        let state = State {
            place: match is_delayed {
                true => Place::Delayed(spot),
                false => Place::Ready(spot),
            },
            receives,
            first_receive_ms,
            kept_from_ms,
            group,
        };
        let key = self.keys().body(number);
        self.put(key, body.encode());
        self.put_state(number, &state);
        self.enter(&state)?;
        self.note_chore(kept_from_ms + self.settings.retention_ms());
        Ok(number)
    }

    /// Enters a message into the index of its place, and counts it.
    pub(crate) fn enter(&mut self, state: &State) -> Result<(), ViewError> {
        match state.place {
            Place::Delayed(spot) => {
                self.counters.delayed += 1;
                self.insert(Index::Scheduled, spot, group_value(&state.group));
                self.wait_in_group(&state.group, spot)
            }
            Place::Ready(spot) => {
                self.counters.ready += 1;
                match self.settings.is_fifo() {
                    true => self.wait_in_group(&state.group, spot),
                    false => {
                        self.insert(Index::Ready, spot, Bytes::new());
                        Ok(())
                    }
                }
            }
            Place::InFlight { until, .. } => {
                self.counters.in_flight += 1;
                self.insert(Index::Scheduled, until, group_value(&state.group));
                self.hold_group(&state.group, 1)
            }
            Place::Moving(_) => self.hold_group(&state.group, 1),
        }
    }

    /// Takes a message out of the index of its place, and of the count.
    pub(crate) fn leave(&mut self, state: &State) -> Result<(), ViewError> {
        match state.place {
            Place::Delayed(spot) => {
                self.counters.delayed -= 1;
                self.withdraw(Index::Scheduled, spot)?;
                self.leave_group(&state.group, spot)
            }
            Place::Ready(spot) => {
                self.counters.ready -= 1;
                match self.settings.is_fifo() {
                    true => self.leave_group(&state.group, spot),
                    false => self.withdraw(Index::Ready, spot),
                }
            }
            Place::InFlight { until, .. } => {
                self.counters.in_flight -= 1;
                self.withdraw(Index::Scheduled, until)?;
                self.hold_group(&state.group, -1)
            }
            Place::Moving(_) => self.hold_group(&state.group, -1),
        }
    }

    /// Takes a message away, with its rows.
    pub(crate) fn delete(&mut self, number: u64, state: &State) -> Result<(), ViewError> {
        self.leave(state)?;
        self.forget(number);
        Ok(())
    }

    /// Takes a message away whose retention is over, and that is in no index any more.
    pub(crate) fn expire(&mut self, number: u64) {
        self.counters.totals.expired += 1;
        self.forget(number);
    }

    /// Takes the rows of a message away that is in no index any more.
    pub(crate) fn forget(&mut self, number: u64) {
        let keys = self.keys();
        self.remove(keys.body(number));
        self.remove(keys.state(number));
    }

    /// Notes that there is work to do at `due_ms`, unless some is noted for an earlier time.
    pub(crate) fn note_chore(&mut self, due_ms: u64) {
        if self.counters.chore_ms != 0 && self.counters.chore_ms <= due_ms {
            return;
        }
        if self.counters.chore_ms != 0 {
            self.remove(layout::chore_key(self.counters.chore_ms, self.collection));
        }
        self.counters.chore_ms = due_ms.max(1);
        let key = layout::chore_key(self.counters.chore_ms, self.collection);
        self.put(key, Bytes::new());
    }

    /// Forgets the work that is noted.
    pub(crate) fn clear_chore(&mut self) {
        if self.counters.chore_ms != 0 {
            self.remove(layout::chore_key(self.counters.chore_ms, self.collection));
            self.counters.chore_ms = 0;
        }
    }
}

/// What the change of a queue's row means to receives that wait. Each entry that changes a queue
/// writes its counters, which have its time and the first message of each order. The other rows say
/// nothing more.
pub(crate) fn stir(key: &[u8], value: Option<&Bytes>) -> Stir {
    if key.get(size_of::<CollectionId>()) != Some(&(Table::QueueCounters as u8)) {
        return Stir::Nothing;
    }
    // Without them the queue goes.
    let Some(Ok(counters)) = value.map(|value| Counters::decode(value.clone())) else {
        return Stir::Now;
    };
    match counters.scheduled_low {
        _ if counters.ready_low.is_some() => Stir::Now,
        Some(low) if low.at <= counters.clock_ms => Stir::Now,
        Some(low) => Stir::At(low.at),
        None => Stir::Nothing,
    }
}

/// The settings of a queue; none of one that is not made.
pub(crate) fn settings(
    view: &dyn View,
    collection: CollectionId,
) -> Result<Option<Settings>, ViewError> {
    match view.get(&metadata_key(collection))? {
        Some(value) if !value.is_empty() => Ok(Some(Settings::decode(value)?)),
        _ => Ok(None),
    }
}

pub(crate) fn counters(view: &dyn View, collection: CollectionId) -> Result<Counters, ViewError> {
    let row = view.get(&layout::counters_key(collection))?;
    Ok(row.map(Counters::decode).transpose()?.unwrap_or_default())
}

fn group_value(group: &str) -> Bytes {
    Bytes::copy_from_slice(group.as_bytes())
}
