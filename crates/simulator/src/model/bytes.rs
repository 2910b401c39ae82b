//! The bytes of one block at a member: they come apart from records, and go when their row is gone.
//!
//! Messages wait for bytes as they do at a node, by the same code ([`Intake`]). What may go is
//! decided as a node's thread decides it (`fader-node`, `member/holding.rs`).

use std::collections::BTreeSet;

use fader_chain::{Change, EntryId, Envelope, Input, Message, Record, Report};
use fader_services::blocks::{self, Intake, Standpoint};

use super::node::{Node, Store};
use super::scenarios::PreparedScenario;
use super::step::{Emitted, SimpleEvent};

/// The block.
pub(super) const BLOCK: u128 = 0xb1;

/// A rule of those who carry bytes, which a search can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum ByteRule {
    /// BGATE-1: entries wait for the bytes of the rows that they put.
    Gate,
    /// BGATE-1: a part of a state waits for the bytes of its rows.
    FillGate,
    /// BGATE-2: what waits is in no log.
    Outside,
    /// Bytes that are waited for are fetched.
    Fetch,
    /// A sender that has reclaimed the bytes says so.
    Gone,
    /// BGATE-3: of a row above the safe point a sender says nothing by that.
    Epoch,
    /// The head decides a put of a row only when it has the bytes at that moment.
    OwnBytes,
    /// Bytes of a row in the log, committed or not, are not dropped.
    KeepLogged,
    /// HO-1: a row is there until its removal is applied: that may be cut.
    KeepRemoved,
    /// HO-1: nothing is dropped while something waits, or entries are not computed.
    KeepWaited,
    /// MB-2: bytes are reclaimed when the safe point has passed the removal of their row.
    Floor,
    /// A row without bytes is damage where the state is at the safe point.
    ByState,
}

impl ByteRule {
    /// All rules.
    pub const ALL: [ByteRule; 12] = [
        ByteRule::Gate,
        ByteRule::FillGate,
        ByteRule::Outside,
        ByteRule::Fetch,
        ByteRule::Gone,
        ByteRule::Epoch,
        ByteRule::OwnBytes,
        ByteRule::KeepLogged,
        ByteRule::KeepRemoved,
        ByteRule::KeepWaited,
        ByteRule::Floor,
        ByteRule::ByState,
    ];

    /// Whether something is told without it: BGATE-3 stands before one of them.
    pub fn is_needed(self) -> bool {
        self != ByteRule::KeepWaited
    }
}

/// What happens to bytes in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct ByteScope {
    /// The rule that is left out.
    pub without: Option<ByteRule>,
    /// How often the upload brings the bytes to each member at most.
    pub deliveries: u8,
    /// How often it is found during the upload that bytes have no row.
    pub drops: u8,
    /// Whether a crash may set the engine back.
    pub sets_back: bool,
    /// The rules that it tells the absence of.
    pub tells: &'static [ByteRule],
}

impl ByteScope {
    pub(super) fn has(&self, rule: ByteRule) -> bool {
        self.without != Some(rule)
    }
}

/// What a member has of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Held {
    #[default]
    Absent,
    /// A crash may lose them.
    Written,
    Durable,
}

/// What a member has beside its records and its engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Holdings {
    pub(super) held: Held,
    /// How often the upload brought the bytes.
    pub(super) came: u8,
    intake: Intake,
    /// The entries that removed the row, since the process began.
    removed: Vec<EntryId>,
    /// The last entry that was applied when no row was found.
    rowless: Option<EntryId>,
    /// Earlier states of the engine, to which a crash may set it back.
    past: Vec<Store>,
}

/// What the search asks of a member's bytes.
#[derive(Clone, Debug)]
pub(super) struct ByteSummary {
    pub(super) held: Held,
    pub(super) came: u8,
    /// Whether something waits for the bytes.
    pub(super) wants: bool,
    pub(super) may_be_rowless: bool,
    pub(super) may_drop: bool,
    pub(super) may_reclaim: bool,
    pub(super) may_set_back: bool,
    /// Whether its log shows the row, with what is not committed.
    pub(super) shows: bool,
    /// Whether its engine has the row.
    pub(super) has_row: bool,
    pub(super) is_damage: bool,
    /// Whether nothing waits, and nothing of the bytes is left.
    pub(super) is_clean: bool,
    pub(super) progress: Option<Report>,
}

fn rows_of(record: &Record) -> BTreeSet<u128> {
    match record {
        Record::Entry(entry) => blocks::rows_of(&entry.changes),
        _ => BTreeSet::new(),
    }
}

impl Holdings {
    pub(super) fn on_crash(&mut self) {
        self.intake.forget();
        self.removed.clear();
        self.rowless = None;
    }

    /// A new epoch, or incarnation.
    pub(super) fn forget(&mut self) {
        self.intake.forget();
    }

    /// The process begins again with the bytes that it finds.
    pub(super) fn on_return(&mut self) {
        self.intake.forget();
        self.rowless = None;
        if self.held == Held::Written {
            self.held = Held::Durable;
        }
    }

    /// The engine has this state from now on, and had `before`.
    pub(super) fn on_applied(
        &mut self,
        scope: &ByteScope,
        id: EntryId,
        changes: &[Change],
        before: Store,
    ) {
        if scope.sets_back {
            self.past.push(before);
        }
        let is_its = |key: &[u8]| blocks::block_of(key) == Some(BLOCK);
        let removes = changes
            .iter()
            .any(|it| matches!(it, Change::Remove { key } if is_its(key)));
        if removes {
            self.removed.push(id);
        }
    }

    /// The engine was filled: it is not set back behind that.
    pub(super) fn on_filled(&mut self) {
        self.past.clear();
    }

    /// Whether a record waits for bytes inside of the log, where messages do not wait outside.
    pub(super) fn waits_inside(&self, scope: &ByteScope, record: &Record) -> bool {
        let is_inside = !scope.has(ByteRule::Outside);
        let mut intake = self.intake.clone();
        is_inside && !intake.may_log(&rows_of(record), |_| self.held == Held::Durable)
    }

    /// A record is written.
    pub(super) fn on_logged(&mut self, scope: &ByteScope, record: &Record) -> Result<(), String> {
        let is_held = self.held == Held::Durable;
        let may = self.intake.may_log(&rows_of(record), |_| is_held);
        let is_checked = [ByteRule::Gate, ByteRule::FillGate, ByteRule::OwnBytes]
            .into_iter()
            .all(|rule| scope.has(rule));
        match may || !is_checked {
            true => Ok(()),
            false => Err("BGATE-1: a record is logged without the bytes of its row".to_owned()),
        }
    }
}

impl Node {
    /// A message of another member: it is heard when the bytes are here that it speaks of.
    pub(super) fn hear(
        &mut self,
        scene: &PreparedScenario,
        envelope: Envelope,
        out: &mut Emitted,
    ) -> Result<(), String> {
        let scope = scene
            .scenario
            .bytes
            .filter(|_| envelope.epoch == self.replica.epoch());
        let Some(scope) = scope else {
            return self.step(scene, 0, Input::Message(envelope), out);
        };
        let is_held = |_| self.holdings.held == Held::Durable;
        let rows = match &envelope.message {
            Message::Append { entries, .. }
                if scope.has(ByteRule::Gate) && scope.has(ByteRule::Outside) =>
            {
                let entries = entries.iter().map(|entry| &**entry);
                blocks::rows_of_entries(entries, self.replica.last())
            }
            Message::TransferChunk { ranges, end, .. } if scope.has(ByteRule::FillGate) => {
                let rows = blocks::rows_of_part(ranges, end, &self.store, is_held);
                rows.map_err(|error| error.to_string())?
            }
            _ => return self.step(scene, 0, Input::Message(envelope), out),
        };
        let is_held = self.holdings.held == Held::Durable;
        match self.holdings.intake.hear(envelope, rows, |_| is_held) {
            Some(envelope) => self.step(scene, 0, Input::Message(envelope), out),
            None => self.look_for_bytes(scene, out),
        }
    }

    fn look_for_bytes(
        &mut self,
        scene: &PreparedScenario,
        out: &mut Emitted,
    ) -> Result<(), String> {
        let is_held = self.holdings.held == Held::Durable;
        let ready = self.holdings.intake.ready(|_| is_held);
        ready
            .into_iter()
            .try_for_each(|envelope| self.step(scene, 0, Input::Message(envelope), out))
    }

    /// Something happens to the bytes.
    pub(super) fn take_bytes(
        &mut self,
        scene: &PreparedScenario,
        kind: SimpleEvent,
        out: &mut Emitted,
    ) -> Result<(), String> {
        let Some(scope) = scene.scenario.bytes else {
            return Ok(());
        };
        match kind {
            SimpleEvent::BytesCome => {
                self.holdings.held = Held::Written;
                self.holdings.came += 1;
            }
            SimpleEvent::BytesFetched => self.holdings.held = Held::Written,
            SimpleEvent::BytesSynced => {
                self.holdings.held = Held::Durable;
                return self.look_for_bytes(scene, out);
            }
            SimpleEvent::BytesGone => {
                let safe_point = match scope.has(ByteRule::Epoch) {
                    true => self.standpoint().safe_point,
                    false => EntryId::new(u64::MAX, u64::MAX),
                };
                self.holdings.intake.on_gone([BLOCK], safe_point);
                return self.look_for_bytes(scene, out);
            }
            SimpleEvent::BytesReclaimed => {
                let standpoint = self.standpoint();
                let is_floor = !scope.has(ByteRule::Floor);
                let stays = |at: &EntryId| !is_floor && !standpoint.may_reclaim(*at);
                self.holdings.removed.retain(stays);
                if !self.may_have_row() {
                    self.holdings.held = Held::Absent;
                }
            }
            SimpleEvent::BytesRowless => self.holdings.rowless = Some(self.store.applied),
            SimpleEvent::BytesDropped => {
                self.holdings.rowless = None;
                if self.is_rowless(&scope) {
                    self.holdings.held = Held::Absent;
                }
            }
            SimpleEvent::BytesLost => self.holdings.held = Held::Absent,
            SimpleEvent::SetBack => {
                if let Some(before) = self.holdings.past.pop() {
                    self.store = before;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn standpoint(&self) -> Standpoint {
        let adopted = self.replica.configuration();
        Standpoint {
            state: self.store.applied,
            safe_point: adopted.map_or(EntryId::ZERO, |adopted| adopted.safe_point),
            oldest_snapshot: self.fixed.as_ref().map(|fixed| fixed.applied),
        }
    }

    /// Whether the newest state of its log has the row.
    fn shows_row(&self) -> bool {
        let view = self.replica.view_at(self.replica.last(), &self.store);
        matches!(blocks::row(&*view, BLOCK), Ok(Some(_)))
    }

    /// Whether the bytes are to go as those that have no row.
    fn is_rowless(&self, scope: &ByteScope) -> bool {
        match scope.without {
            Some(ByteRule::KeepLogged) => !self.has_row(),
            Some(ByteRule::KeepRemoved) => !self.shows_row(),
            Some(ByteRule::Floor) => !self.may_have_row(),
            _ => !self.may_have_row() && self.holdings.removed.is_empty(),
        }
    }

    fn may_have_row(&self) -> bool {
        let changes = |key: &[u8]| self.replica.changes(key);
        blocks::may_have_row(&self.store, changes, BLOCK).unwrap_or(true)
    }

    fn has_row(&self) -> bool {
        matches!(blocks::row(&self.store, BLOCK), Ok(Some(_)))
    }

    pub(super) fn byte_summary(&self, scope: &ByteScope) -> ByteSummary {
        let Holdings {
            held,
            came,
            intake,
            removed,
            rowless,
            past,
        } = &self.holdings;
        let progress = match self.is_up {
            true => self.replica.progress(),
            false => None,
        };
        // HO-1.
        let is_known = matches!(progress, Some(Report::Floor { gap: false, .. }));
        let may_go = self.is_up
            && ((is_known && intake.is_empty()) || !scope.has(ByteRule::KeepWaited))
            && *held == Held::Durable;
        let (shows, has_row) = (self.shows_row(), self.has_row());
        let standpoint = self.standpoint();
        let is_passed = |at: &EntryId| standpoint.may_reclaim(*at) || !scope.has(ByteRule::Floor);
        let is_held = *held == Held::Durable;
        let inside = self.unsynced.front();
        let wants_inside = inside.is_some_and(|(_, it)| self.holdings.waits_inside(scope, it));
        ByteSummary {
            held: *held,
            came: *came,
            wants: self.is_up && (intake.missing().next().is_some() || wants_inside),
            may_be_rowless: self.is_up && is_held && rowless.is_none() && self.is_rowless(scope),
            may_drop: may_go && rowless.as_ref().is_some_and(is_passed),
            may_reclaim: may_go && removed.iter().any(is_passed),
            may_set_back: !past.is_empty(),
            shows,
            has_row,
            is_damage: has_row
                && !is_held
                && (standpoint.shows_damage() || !scope.has(ByteRule::ByState)),
            is_clean: *held == Held::Absent && intake.is_empty() && self.unsynced.is_empty(),
            progress,
        }
    }
}
