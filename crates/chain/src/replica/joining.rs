//! Joining: the gap of a member that returns, how it is filled, and when it is done
//! (docs/internals/protocol/reconfiguration.md, section 5;
//! docs/internals/decisions/0004-state-transfer.md).
//!
//! ```text
//!   Hello ──▶ the donor's log reaches back to here ──▶ entries, as for everyone
//!     │
//!     └─────▶ it does not: the log begins anew at J, the engine is marked *filling*
//!               FillAsk: hashes of ranges ──▶
//!                                         ◀── FillPart: those that differ, as at S
//!               ... to the end of the keys, then Fill::End, durable: Filled
//!               entries above S, held until now, are computed and applied, some at each tick
//! ```
//!
//! Invariants:
//! - JOIN-1 while a gap is open the log's base is its top, the engine stands for nothing, entries
//!   are persisted, confirmed and not computed (D9).
//! - JOIN-2 every key below `cursor` is as in the donor's state at `at`. A new donor begins anew,
//!   and the comparison passes over what is equal already (JN-8).
//! - what is compared is what the engine shows: a question waits until it has taken all
//!   parts.
//! - JOIN-4 `SyncDone` speaks of the handshake of its own epoch.
//!
//! - JOIN-5 what is compared and taken in a second is bounded, and rests after each part (BP-4),
//!   but is more than nothing (I20). A question is sent when the rate allows it, and the engine has
//!   taken the part before it.

mod donor;
mod rate;

use bytes::Bytes;

use rate::Rate;

use super::{Effect, Replica, Report, Step, TransferStep, write};
use crate::epoch_history::EpochHistory;
use crate::guard::Guard;
use crate::keys;
use crate::log::Log;
use crate::message::{Message, RangeContent};
use crate::range_diff;
use crate::record::Record;
use crate::stamp::EntryId;
use crate::view::ViewError;

/// What this member was told when it was greeted as a joining one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct JoinHandshake {
    /// J: what the donor had committed.
    commit: EntryId,
    /// L: what it had persisted.
    last: EntryId,
    /// Whether the state has reached J, and what was held before it was judged (JN-7).
    is_caught_up: bool,
    /// When `SyncDone` was said.
    done_at: Option<u64>,
}

/// An engine that lacks entries at or below the log's base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Gap {
    /// S, when the donor has named it.
    at: Option<EntryId>,
    /// The first key that is not compared.
    cursor: Bytes,
    /// When the donor was asked for what follows the cursor.
    asked_at: Option<u64>,
    /// What the parts so far have cost.
    rate: Rate,
    /// Whether all is compared, and the engine is to say that it is durable.
    is_ending: bool,
}

/// The state of a joining member, and of a donor that fills one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Joining {
    handshake: Option<JoinHandshake>,
    gap: Option<Gap>,
    /// Whether the engine differs from the others' (I21): a gap is to be opened with any content of
    /// the log.
    is_wrong: bool,
    /// Whether this incarnation has been filled since the configuration says so (DG-3).
    is_mended: bool,
    /// Until when it does not say that it holds everything, as it was made syncing while it served
    /// (SL-5).
    rests_until: u64,
    /// Steps of filling that the engine has not taken yet.
    untaken: usize,
    /// Donor: whether the host keeps a state for the joining member of this epoch.
    is_fixed: bool,
    /// Donor: what it answered last in this epoch.
    last_answer: donor::CachedChunk,
}

impl Joining {
    /// Whether the engine stands for no commit id.
    pub(super) fn is_open(&self) -> bool {
        self.gap.is_some()
    }

    /// The engine is to be compared with the donor's, all of it: once in this incarnation, for as
    /// long as the configuration says so.
    pub(super) fn refill(&mut self, must_fill: bool) {
        self.is_mended &= must_fill;
        self.is_wrong = must_fill && !self.is_mended;
    }

    /// It served in the epoch before, and is to show that it keeps its budget.
    pub(super) fn rest_until(&mut self, until: u64) {
        self.rests_until = until;
    }

    /// Whether it has the donor's state, and has judged what it held before (JN-7).
    pub(super) fn is_caught_up(&self) -> bool {
        self.handshake
            .is_some_and(|handshake| handshake.is_caught_up)
    }

    pub(super) fn recover(&mut self, filling: bool) {
        self.gap = filling.then(Gap::default);
    }

    /// JN-8: a gap stays, what was said of it is void. Says whether a state is kept in vain.
    pub(super) fn on_epoch(&mut self, same_epoch: bool) -> bool {
        if same_epoch {
            self.handshake = None;
        }
        if let Some(gap) = self.gap.as_mut().filter(|gap| !gap.is_ending) {
            *gap = Gap::default();
        }
        self.last_answer = donor::CachedChunk::default();
        std::mem::take(&mut self.is_fixed)
    }
}

impl Replica {
    /// JN-2, JN-3: the donor's log has these `epoch_history`, can be sent from `base` on, is
    /// committed up to `commit` and persisted up to `last`.
    pub(super) fn begin_joining(
        &mut self,
        epoch_history: &EpochHistory,
        base: EntryId,
        commit: EntryId,
        last: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        self.joining.handshake.get_or_insert(JoinHandshake {
            commit,
            last,
            is_caught_up: false,
            done_at: None,
        });
        let here = self.log.last();
        let reaches = match &self.joining.gap {
            None => base <= here && !self.joining.is_wrong,
            Some(gap) if gap.is_ending => gap.at.is_some_and(|at| base <= here.max(at)),
            // Entries up to J are not worth sending: the state will be above it.
            Some(_) => commit <= here,
        };
        if !reaches {
            // What this member knows committed its donor has persisted, and will learn.
            let top = match self.joining.is_wrong {
                true => commit.max(self.commit),
                false => commit,
            };
            self.open_gap(top, epoch_history, step);
        }
        self.ask_fill(step)
    }

    /// AL-4: what was committed here may be lost to the chain. All of it is, unless a gap is open,
    /// in which nothing is held, or was closed in this incarnation, which brought the donor's
    /// state.
    pub(super) fn forget(
        &mut self,
        commit: EntryId,
        epoch_history: &EpochHistory,
        step: &mut Step<'_>,
    ) {
        if self.joining.is_wrong && !self.joining.is_open() {
            self.commit = EntryId::ZERO;
            self.open_gap(commit, epoch_history, step);
        }
    }

    /// The log begins anew at `top`: all below will come with the state.
    fn open_gap(&mut self, top: EntryId, epoch_history: &EpochHistory, step: &mut Step<'_>) {
        assert!(
            self.commit <= top,
            "I6: {} is committed here, the donor knows {top}",
            self.commit
        );
        for token in self.writes.cut(EntryId::ZERO) {
            step.reply(token, super::Reply::Unknown);
        }
        let after = EntryId::ZERO;
        self.persist(Record::Cut { after }, step);
        if self.joining.gap.as_ref().is_none_or(|gap| gap.is_ending) {
            self.fill(TransferStep::Begin, step);
        }
        self.log = Log::after(top, epoch_history.up_to(top));
        (self.persisted, self.commit, self.applying) = (top, top, top);
        self.joining.gap = Some(Gap::default());
        self.joining.is_wrong = false;
        self.counters.fill_bytes = 0;
    }

    fn fill(&mut self, fill: TransferStep, step: &mut Step<'_>) {
        self.joining.untaken += 1;
        step.effects.push(Effect::Fill(fill));
    }

    /// Asks for what follows the cursor, unless that is under way.
    fn ask_fill(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let is_fresh = |at: u64| step.now.monotonic < at + self.settings.retry_ms;
        let Some(gap) = &mut self.joining.gap else {
            return Ok(());
        };
        let is_busy = gap.is_ending || self.joining.untaken != 0;
        let is_due = gap.rate.allows(step.now.monotonic);
        if is_busy || !is_due || gap.asked_at.is_some_and(is_fresh) {
            return Ok(());
        }
        let adopted = self.configuration.as_ref().expect("it was acquainted");
        let Some(donor) = adopted.source(self.me.node) else {
            return Ok(());
        };
        gap.asked_at = Some(step.now.monotonic);
        gap.rate.begin(step.now.monotonic);
        let start = gap.cursor.clone();
        let seed = donor::seed(self.me.incarnation);
        let ranges = range_diff::hashes(step.host.committed(), &start, seed)?;
        let looked_at = ranges.len() * range_diff::RANGE_BYTES_MAX;
        let per_second = self.settings.fill_bytes_per_second;
        gap.rate.spend(looked_at, per_second, step.now.monotonic);
        self.counters.fill_bytes += looked_at as u64;
        let above = self.log.base();
        let ask = Message::TransferRequest {
            above,
            start,
            ranges,
        };
        self.send(donor, ask, step);
        Ok(())
    }

    /// JN-4: the donor compared the ranges from `start` to `end`, and these differ.
    fn on_fill_part(
        &mut self,
        at: EntryId,
        start: &Bytes,
        end: Bytes,
        ranges: Vec<RangeContent>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let top = self.log.base();
        let Some(gap) = self.joining.gap.as_mut().filter(|gap| !gap.is_ending) else {
            return Ok(());
        };
        // An answer to a question that was asked twice has been taken.
        if *start != gap.cursor || *gap.at.get_or_insert(at) != at {
            return Ok(());
        }
        assert!(top <= at, "JN-4: filled to {at}, below the gap's top {top}");
        let rows = ranges.iter().flat_map(|range| &range.rows);
        let taken = rows.map(|(key, value)| key.len() + value.len()).sum();
        let per_second = self.settings.fill_bytes_per_second;
        gap.rate.spend(taken, per_second, step.now.monotonic);
        self.counters.fill_bytes += taken as u64;
        (gap.cursor, gap.asked_at) = (end, None);
        gap.is_ending = gap.cursor == keys::END[..];
        let is_ending = gap.is_ending;
        for range in ranges {
            self.fill(TransferStep::Range(range), step);
        }
        if is_ending {
            self.fill(TransferStep::End { at }, step);
        }
        self.ask_fill(step)
    }

    /// The engine has taken a step of filling.
    pub(super) fn on_filled(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.joining.untaken -= 1;
        if self.joining.untaken != 0 {
            return Ok(());
        }
        if let Some(gap) = &mut self.joining.gap {
            gap.rate.end(step.now.monotonic);
        }
        match self.joining.gap.take_if(|gap| gap.is_ending) {
            Some(gap) => self.close_gap(gap.at.expect("the donor has named it"), step),
            None if self.is_ready() => self.ask_fill(step),
            None => Ok(()),
        }
    }

    /// JN-5: the engine is, durably, the state at S; what came above it is applied now.
    fn close_gap(&mut self, at: EntryId, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.persist(Record::Filled { at }, step);
        (self.joining.is_wrong, self.joining.is_mended) = (false, true);
        self.log.on_filled(at);
        self.persisted = self.persisted.max(at);
        self.commit = self.commit.max(at);
        self.applying = self.applying.max(at);
        self.forget_filled(step)?;
        self.catch_up(self.settings.catch_up_max, step)
    }

    /// Whether what this member has applied is not what its log says: a gap is open, or what came
    /// above one is not applied yet.
    pub(super) fn is_behind_gap(&self) -> bool {
        self.joining.is_open() || self.log.holds_back()
    }

    /// JN-5: computes so many of the entries that were held above the gap, and applies what is
    /// committed of them.
    pub(super) fn catch_up(&mut self, max: usize, step: &mut Step<'_>) -> Result<(), ViewError> {
        if !self.joining.is_open() && self.log.holds_back() {
            self.log
                .compute_held(step.host.committed(), max, write::compute)?;
            self.apply_committed(step);
        }
        Ok(())
    }

    /// JN-6, JN-7: looks whether the joining member has arrived.
    pub(super) fn advance_joining(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        if !self.is_ready() || !self.is_syncing() {
            return Ok(());
        }
        let applied = self.log.applied();
        // Who began again knows less of commits than there was when the safe point rose.
        let safe_point = self
            .configuration
            .as_ref()
            .map(|adopted| adopted.safe_point);
        let is_behind = self.is_behind_gap();
        let Some(handshake) = &mut self.joining.handshake else {
            return Ok(());
        };
        if !is_behind
            && !handshake.is_caught_up
            && handshake.commit <= applied
            && safe_point.is_none_or(|safe_point| safe_point.min(handshake.last) <= applied)
        {
            handshake.is_caught_up = true;
            self.on_caught_up_eventual(step)?;
        }
        self.report_done(step);
        Ok(())
    }

    fn report_done(&mut self, step: &mut Step<'_>) {
        let is_fresh = |at: u64| step.now.monotonic < at + self.settings.retry_ms;
        let Some(handshake) = self.joining.handshake.filter(|_| !self.is_leaving()) else {
            return;
        };
        let is_closed = match &self.joining.gap {
            None => handshake.is_caught_up,
            Some(gap) => gap.is_ending && !self.guards.has(Guard::FillPersisted),
        };
        let is_done = (is_closed || !self.guards.has(Guard::FillDoneLast))
            && handshake.commit <= self.commit
            && handshake.last <= self.persisted
            && !self.is_resting(step.now.monotonic);
        if !is_done || handshake.done_at.is_some_and(is_fresh) {
            return;
        }
        if let Some(handshake) = &mut self.joining.handshake {
            handshake.done_at = Some(step.now.monotonic);
        }
        let (epoch, last) = (self.epoch(), handshake.last);
        step.effects
            .push(Effect::Coordinator(Report::SyncDone { epoch, last }));
        // The commit point must have heard it in this epoch, and a confirmation may be lost. Where
        // nothing is written, no client waits for it that would ask again.
        self.writes.confirm_sent = None;
    }

    /// SL-5: whether it is still to show that it keeps its budget. Where one member serves alone,
    /// its word is needed more: until it is back, no answer comes to what is asked of two.
    fn is_resting(&self, now: u64) -> bool {
        let serving = self
            .adopted()
            .map_or(0, |adopted| adopted.serving().count());
        now < self.joining.rests_until && 1 < serving
    }

    pub(super) fn tick_joining(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        self.catch_up(self.settings.catch_up_max, step)?;
        self.ask_fill(step)
    }
}
