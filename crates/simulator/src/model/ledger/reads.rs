//! What reads must show.

use bytes::Bytes;
use fader_chain::{EntryId, Level, Register};

use super::Ledger;
use crate::model::client_requests::ClientRequest;
use crate::model::node::{StrongRead, pairs_hash};
use crate::model::scenarios::PreparedScenario;
use crate::model::step::MOMENT_MS;

impl Ledger {
    /// What a member's engine has at `at` is what the committed log gives.
    pub(super) fn check_state(
        &self,
        at: EntryId,
        key: &Bytes,
        held: &Register,
    ) -> Result<(), String> {
        let nothing = Register::default();
        let committed = self.state_at(at).and_then(|state| state.get(key));
        let committed = committed.map_or(&nothing, |(register, _)| register);
        match pairs_hash(held) == pairs_hash(committed) {
            true => Ok(()),
            false => Err(format!(
                "I19: a member has {held:?} at {at}, the log gives {committed:?}"
            )),
        }
    }

    /// G1, I9: what is shown is the committed state, and not before `began`, which had been shown
    /// when the read began.
    pub(in crate::model) fn check_sight(
        &self,
        sight: &StrongRead,
        key: &Bytes,
        began: EntryId,
    ) -> Result<(), String> {
        let StrongRead { at, pairs, .. } = *sight;
        let version = self.version_of(sight, key);
        if version < began {
            return Err(format!(
                "G1: {key:?} is shown as of {version} though {began} had been shown before"
            ));
        }
        let committed = self.state_at(at).and_then(|state| state.get(key));
        let expected =
            committed.map_or_else(|| pairs_hash(&Register::default()), |(_, hash)| *hash);
        match pairs == expected {
            true => Ok(()),
            false => Err(format!(
                "I9: {key:?} is not shown at {at} as the log gives it: {committed:?}"
            )),
        }
    }

    /// G4: a quorum's read shows what was acknowledged by a quorum before it began.
    pub(super) fn check_covers(
        &mut self,
        scene: &PreparedScenario,
        ask: usize,
        size: usize,
        shown: &Register,
    ) -> Result<(), String> {
        let asks = &scene.scenario.asks;
        let (ClientRequest::Read { key, .. }, Some(r)) = (&asks[ask], asks[ask].quorum()) else {
            return Ok(());
        };
        self.check_shows(scene, "G4", ask, key, shown, |w| size < w + r)?;
        self.known[ask].answered = Some(shown.version);
        self.known[ask].is_over = true;
        Ok(())
    }

    /// G8: what is done behind a barrier takes note of what was acknowledged before it was invoked.
    /// That holds if not all of its holders can be lost.
    pub(super) fn check_behind_barrier(
        &self,
        scene: &PreparedScenario,
        ask: usize,
        seen: &Register,
    ) -> Result<(), String> {
        let it = &scene.scenario.asks[ask];
        let key = match it {
            ClientRequest::Read { key, .. } | ClientRequest::PutIfAbsent { key, .. }
                if it.is_barrier() =>
            {
                key
            }
            _ => return Ok(()),
        };
        let lost = usize::from(scene.scenario.crashes + scene.scenario.lease_ends);
        self.check_shows(scene, "G8", ask, key, seen, |w| lost < w)
    }

    /// What was acknowledged by as many members as count, before `ask` began, is covered (D3).
    fn check_shows(
        &self,
        scene: &PreparedScenario,
        claim: &str,
        ask: usize,
        key: &Bytes,
        shown: &Register,
        counts: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        let before = self.known[ask].before;
        for (place, other) in scene.scenario.asks.iter().enumerate() {
            let Some((w, writes)) = other.tentative() else {
                continue;
            };
            let Some(stamp) = self.known[place].stamps[scene.place(key)] else {
                continue;
            };
            if before & 1 << place == 0 || !counts(w) {
                continue;
            }
            let written = writes.iter().filter(|(written, _)| written == key);
            for (_, ops) in written {
                if !shown.covers(ops, stamp) {
                    return Err(format!(
                        "{claim}: {shown:?} is shown, {ops:?} with {stamp:?} was acknowledged"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Section 8 of semantics.md: of what was acknowledged before a bounded read began it hides no
    /// more, or nothing older, than it says.
    pub(super) fn check_bound(
        &self,
        scene: &PreparedScenario,
        ask: usize,
        at: EntryId,
    ) -> Result<(), String> {
        let ClientRequest::Read { key, level } = &scene.scenario.asks[ask] else {
            return Ok(());
        };
        let known = &self.known[ask];
        let others = self.known.iter().enumerate();
        let hidden = others.filter(|(place, its)| {
            let entry = its.answered.filter(|entry| at < *entry);
            let is_of_key = entry.is_some_and(|entry| self.version_at(key, entry) == entry);
            known.before & 1 << *place != 0 && is_of_key
        });
        let ages: Vec<u64> = hidden
            .map(|(_, its)| u64::from(known.moment - its.moment) * MOMENT_MS)
            .collect();
        let holds = match level {
            Level::BoundVersions(bound) => ages.len() as u64 <= *bound,
            Level::BoundMillis(bound) => ages.iter().all(|age| age <= bound),
            _ => true,
        };
        match holds {
            true => Ok(()),
            false => Err(format!(
                "bounds: {level:?} shows {at}; hidden are writes of these ages in ms: {ages:?}"
            )),
        }
    }
}
