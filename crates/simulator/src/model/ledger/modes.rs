//! I25 and I26: the mode is what the log says, reckoned here on its own. Nothing of another time
//! enters, and no change of mode loses what was acknowledged.

use fader_chain::{Change, Entry, EntryId, Mode, Outcome, TombstonePolicy};

use super::Ledger;
use crate::model::scenarios::PreparedScenario;

/// What the log before an entry says of the collection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turned {
    mode: Mode,
    /// The entry with which the time of the newest eventual writers began.
    opened: EntryId,
    /// The newest entry that had the collection close without those who are absent.
    abandoned: EntryId,
}

impl Turned {
    pub(super) fn take(&mut self, entry: &Entry) {
        for change in &entry.changes {
            let Change::SetMode {
                mode, is_abandoned, ..
            } = change
            else {
                continue;
            };
            let is_over = matches!(self.mode, Mode::Strong | Mode::Drained);
            if is_over && matches!(mode, Mode::Mixed | Mode::Eventual) {
                self.opened = entry.id;
            }
            if *is_abandoned {
                self.abandoned = entry.id;
            }
            self.mode = *mode;
        }
    }

    /// MD-5: whether an operation that was accepted there is settled.
    pub(super) fn settles(&self, accept: EntryId) -> bool {
        let is_over = matches!(self.mode, Mode::Strong | Mode::Drained);
        !is_over && self.opened <= accept
    }
}

impl Ledger {
    /// I25: marks and bases are those of the mode; MD-4: who closes a collection has settled what
    /// was acknowledged.
    pub(super) fn check_turn(
        &self,
        entry: &Entry,
        scene: &PreparedScenario,
        before: &Turned,
    ) -> Result<(), String> {
        if !scene.scenario.has_modes {
            return Ok(());
        }
        for change in &entry.changes {
            match change {
                Change::Merge { marks, .. } => {
                    let drops = before.mode == Mode::Strong;
                    if drops != (*marks == TombstonePolicy::Dropped) {
                        return Err(format!("I25: {} in mode {:?}: {marks:?}", entry.id, before));
                    }
                    if entry.is_settlement() && entry.stamp.base < before.opened {
                        return Err(format!("I25: {} is based below {before:?}", entry.id));
                    }
                }
                Change::SetMode { mode, .. } => self.check_step(scene, entry.id, *mode, before)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_step(
        &self,
        scene: &PreparedScenario,
        id: EntryId,
        mode: Mode,
        before: &Turned,
    ) -> Result<(), String> {
        let is_step = match mode {
            Mode::Drained => before.mode == Mode::Draining,
            Mode::Strong => before.mode == Mode::Drained,
            Mode::Draining => !matches!(before.mode, Mode::Strong | Mode::Drained),
            Mode::Mixed | Mode::Eventual => true,
        };
        if !is_step {
            return Err(format!("MD-4: {id} makes it {mode:?}, after {before:?}"));
        }
        let is_held = (0..self.known.len()).any(|ask| self.is_owed(scene, ask));
        // A member that was absent when it was abandoned may hold what is gone then.
        if mode == Mode::Drained && is_held && before.abandoned < before.opened {
            return Err(format!(
                "I26: {id} closes what was written eventually, and not all is settled"
            ));
        }
        Ok(())
    }

    /// I26, as an operation of `ask` is settled as gone.
    pub(super) fn check_gone(
        &self,
        entry: &Entry,
        ask: usize,
        before: &Turned,
    ) -> Result<(), String> {
        let known = &self.known[ask];
        let accepted = known.accept.iter().max().copied().unwrap_or_default();
        let is_left_behind = accepted < before.abandoned;
        match known.is_held && !is_left_behind {
            true => Err(format!(
                "I26: {:?} was acknowledged, {} says that it is gone",
                entry.request, entry.id
            )),
            false => Ok(()),
        }
    }

    /// I26, as a write is acknowledged.
    pub(super) fn check_kept(&self, scene: &PreparedScenario, ask: usize) -> Result<(), String> {
        let gone = Outcome::Gone.encode();
        let is_gone = self.named(scene, ask).any(|it| it.entry.result == gone);
        let is_abandoned = self.turned().abandoned != EntryId::ZERO;
        match is_gone && self.known[ask].is_held && !is_abandoned {
            true => Err(format!(
                "I26: ask {ask} is acknowledged, and was settled as gone"
            )),
            false => Ok(()),
        }
    }
}
