//! What happens to the bytes of a block among members, and what must hold of them.

use fader_chain::controller::Reports;
use fader_chain::{NodeId, Report, Role};

use super::{Cause, State, World};
use crate::model::actions::Action;
use crate::model::bytes::{ByteRule, ByteSummary, Held};
use crate::model::node::MemberSummary;
use crate::model::step::SimpleEvent;

/// The places of the two requests among those of a scenario with bytes.
const PUT: usize = 0;
const REMOVE: usize = 1;

impl World {
    /// Every member with its bytes, in scenarios that have them.
    fn holders<'a>(
        &'a self,
        state: &'a State,
    ) -> impl Iterator<Item = (usize, &'a MemberSummary, &'a ByteSummary)> {
        let briefs = (0..self.count()).map(|place| (place, self.brief(state, place)));
        briefs.filter_map(|(place, brief)| Some((place, brief, brief.bytes.as_ref()?)))
    }

    /// Every step of bytes that can be taken.
    pub(in crate::model) fn byte_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let Some(scope) = self.scene.scenario.bytes else {
            return;
        };
        let is_uploading = state.budget.is_uploading;
        if is_uploading {
            actions.push(Action::EndUpload);
        }
        for (place, brief, bytes) in self.holders(state) {
            let mut may = |may: bool, action: Action| actions.extend(may.then_some(action));
            let is_head = brief.is_ready && brief.is_head;
            let has_bytes = bytes.held == Held::Durable || !scope.has(ByteRule::OwnBytes);
            let is_new = brief.last.index == 0;
            may(
                is_uploading && is_head && has_bytes && is_new,
                Action::Row(PUT, place),
            );
            let is_old = !is_uploading && bytes.has_row && bytes.shows;
            may(is_head && is_old, Action::Row(REMOVE, place));
            let comes = (is_uploading || 0 < bytes.came) && bytes.came < scope.deliveries;
            let step = |kind| Action::Bytes(place, kind);
            let is_absent = bytes.held == Held::Absent;
            may(
                brief.is_up && comes && is_absent,
                step(SimpleEvent::BytesCome),
            );
            let is_written = bytes.held == Held::Written;
            may(brief.is_up && is_written, step(SimpleEvent::BytesSynced));
            may(!brief.is_up && is_written, step(SimpleEvent::BytesLost));
            may(bytes.wants && is_absent, Action::Fetch(place));
            may(bytes.may_reclaim, step(SimpleEvent::BytesReclaimed));
            let is_rowless = bytes.may_be_rowless;
            may(is_rowless && !is_uploading, step(SimpleEvent::BytesRowless));
            let is_early = is_rowless && 0 < state.budget.drops;
            may(is_early, Action::RowlessEarly(place));
            may(bytes.may_drop, step(SimpleEvent::BytesDropped));
            may(self.waits_for_word(state, place), Action::Tick(place));
            may(
                !brief.is_up && bytes.may_set_back,
                step(SimpleEvent::SetBack),
            );
        }
    }

    /// Whether nothing is under way, and a member waits for what another one is to say again. That
    /// is a handshake that came before its configuration, or a part of a state. A member that waits
    /// for bytes waits for no word.
    fn waits_for_word(&self, state: &State, place: usize) -> bool {
        let epoch = self.newest(state).epoch;
        let is_quiet = state.links.iter().all(|queue| *queue == 0);
        let has_all = self.holders(state).all(|(_, _, bytes)| !bytes.wants);
        let waits = |(_, brief, bytes): (usize, &MemberSummary, &ByteSummary)| {
            let has_gap = matches!(bytes.progress, Some(Report::Floor { gap: true, .. }));
            brief.is_up && brief.epoch == epoch && (!brief.is_ready || has_gap)
        };
        let is_up = self.brief(state, place).is_up;
        is_up && is_quiet && has_all && self.holders(state).any(waits)
    }

    /// Whether a step is taken sooner or later, with any uploader, operator and faults.
    pub(in crate::model) fn is_due(&self, action: Action) -> bool {
        let is_of_members = match action {
            Action::Row(ask, _) => ask == REMOVE,
            Action::Bytes(_, kind) => !matches!(
                kind,
                SimpleEvent::BytesCome | SimpleEvent::BytesLost | SimpleEvent::SetBack
            ),
            Action::Fetch(_) | Action::EndUpload | Action::Return(_) | Action::Publish(None, _) => {
                true
            }
            _ => false,
        };
        action.is_due() || (self.scene.scenario.bytes.is_some() && is_of_members)
    }

    /// Asks for bytes that are waited for: the sender of the records, then all others.
    pub(super) fn fetch(&mut self, state: &mut State, place: usize) -> Result<(), String> {
        let Some(scope) = self.scene.scenario.bytes else {
            return Ok(());
        };
        let node = &self.nodes[state.nodes[place]];
        let adopted = node.replica.configuration();
        let me = node.replica.identity().node;
        let source = adopted.and_then(|adopted| adopted.source(me));
        let of = |node: NodeId| node.0 as usize - 1;
        let answers = |from: usize| {
            let brief = self.brief(state, from);
            brief.bytes.as_ref().filter(|_| brief.is_up)
        };
        let has = |from: usize| answers(from).is_some_and(|it| it.held == Held::Durable);
        let of_source = source.and_then(|source| answers(of(source)));
        let is_gone = of_source.is_some_and(|it| it.held != Held::Durable && !it.has_row);
        let members = adopted.into_iter().flat_map(|adopted| adopted.others(me));
        let is_there = members.map(of).any(has);
        let event = if is_gone && scope.has(ByteRule::Gone) {
            SimpleEvent::BytesGone
        } else if is_there && scope.has(ByteRule::Fetch) {
            SimpleEvent::BytesFetched
        } else {
            return Ok(());
        };
        self.happen(state, place, Cause::Plain(event))
    }

    /// What members of the epoch have applied, besides what they reported. An earlier report is one
    /// of an earlier state.
    pub(super) fn reports_of_floors(&self, state: &State) -> Reports {
        let mut reports = self.coordinators[state.coordinator].reports.clone();
        let epoch = self.newest(state).epoch;
        for (place, _, bytes) in self.holders(state) {
            let progress = bytes.progress.filter(|report| report.epoch() == epoch);
            if let Some(progress) = progress {
                reports.note(NodeId(place as u32 + 1), progress);
            }
        }
        reports
    }

    /// A serving member has the bytes of every row that it shows, and no member reports damage that
    /// is none.
    pub(super) fn check_bytes(&self, state: &State) -> Result<(), String> {
        let newest = self.newest(state);
        for (_, brief, bytes) in self.holders(state) {
            let id = brief.identity.node;
            let is_held = bytes.held == Held::Durable;
            if brief.may_serve && bytes.shows && !is_held {
                return Err(format!("{id} serves without the bytes of a row of its log"));
            }
            let serves = newest.serving().any(|node| node == id);
            if brief.is_up && serves && bytes.is_damage {
                return Err(format!("{id} reports damage that is none"));
            }
        }
        Ok(())
    }

    /// Whether all members serve, have one log and state, and nothing of the block is left.
    pub(in crate::model) fn is_end(&self, state: &State) -> bool {
        let newest = self.newest(state);
        let log = &self.ledgers[state.ledger].log;
        let last = log.last().map(|last| last.entry.id).unwrap_or_default();
        let serves = |brief: &MemberSummary| {
            let member = newest.member(brief.identity.node);
            member.is_some_and(|member| {
                member.role == Role::Serving && member.incarnation == brief.identity.incarnation
            })
        };
        !state.budget.is_uploading
            && self.holders(state).all(|(_, brief, bytes)| {
                brief.is_up
                    && brief.is_ready
                    && brief.epoch == newest.epoch
                    && serves(brief)
                    && (brief.last, brief.applied) == (last, last)
                    && bytes.is_clean
                    && !bytes.shows
            })
    }
}
