//! What must hold in every state of the model, and at rest. What a member does is checked by the
//! ledger.

use fader_chain::{ChainMember, EntryId, Role};

use super::client_requests::ClientRequest;
use super::node::MemberSummary;
use super::world::{State, World};

impl World {
    /// Every strong read that could be answered here and now, at every member.
    pub(super) fn observe(&mut self, before: &State, state: &mut State) -> Result<(), String> {
        let mut is_greater = false;
        for place in 0..self.count() {
            let node = state.nodes[place];
            if node == before.nodes[place] && state.ledger == before.ledger {
                continue;
            }
            let key = u64::from(state.ledger) << 32 | u64::from(node);
            let ledger = &self.ledgers[state.ledger];
            let is_compared = !self.compared.insert(key, ());
            for (place, sight) in self.briefs[node as usize].sights.iter().enumerate() {
                let Some(sight) = sight else { continue };
                if !is_compared {
                    ledger.check_sight(sight, &self.scene.keys[place], EntryId::ZERO)?;
                }
                let version = ledger.version_of(sight, &self.scene.keys[place]);
                is_greater |= ledger.shown(place) < version;
            }
        }
        // Any order of the reads is possible: first all show, then each must show the greatest.
        if is_greater {
            let mut ledger = self.ledgers[state.ledger].clone();
            for node in state.nodes.iter().take(self.count()) {
                for (place, sight) in self.briefs[*node as usize].sights.iter().enumerate() {
                    if let Some(sight) = sight {
                        let version = ledger.version_of(sight, &self.scene.keys[place]);
                        ledger.show(place, version);
                    }
                }
            }
            state.ledger = self.ledgers.put(ledger).0;
        }
        let ledger = &self.ledgers[state.ledger];
        for node in state.nodes.iter().take(self.count()) {
            for (place, sight) in self.briefs[*node as usize].sights.iter().enumerate() {
                let Some(sight) = sight else { continue };
                let (key, greatest) = (&self.scene.keys[place], ledger.shown(place));
                let version = ledger.version_of(sight, key);
                if version < greatest {
                    return Err(format!(
                        "G1: {key:?} is shown as of {version} though {greatest} had been shown"
                    ));
                }
            }
        }
        Ok(())
    }

    /// I16: what was acknowledged, of which not all holders are absent, is settled.
    fn check_promises(&self, state: &State) -> Result<(), String> {
        let scenario = &self.scene.scenario;
        let newest = self.newest(state);
        let absent = self.count() - newest.serving().count();
        let ledger = &self.ledgers[state.ledger];
        for (ask, known) in scenario.asks.iter().zip(&ledger.known) {
            let w = ask.tentative().map_or(0, |(w, _)| w);
            // Of what returns below a safe point it is unknown whether it was removed since (GC-5).
            let is_judged = newest.safe_point != EntryId::ZERO || scenario.forged.is_some();
            if known.is_held && absent < w && !is_judged {
                return Err(format!(
                    "I16: {ask:?} was acknowledged, and is not settled at rest"
                ));
            }
        }
        Ok(())
    }

    /// G3: nothing is due any more.
    pub(super) fn check_rest(&self, state: &State) -> Result<(), String> {
        let newest = self.newest(state);
        let scenario = &self.scene.scenario;
        let is_lossy = state.budget.losses < scenario.losses;
        if is_lossy && !scenario.ticks {
            return Ok(());
        }
        // What a barrier asks of who is not ready yet it asks again after a while.
        let is_gathered = |ask: &ClientRequest| ask.is_barrier() || *ask == ClientRequest::Close;
        let asks_again = !scenario.ticks && scenario.asks.iter().any(is_gathered);
        let log = &self.ledgers[state.ledger].log;
        let last = log.last().map_or(EntryId::ZERO, |last| last.entry.id);
        let briefs = newest
            .members
            .iter()
            .map(|member| (member, self.brief(state, member.node.0 as usize - 1)));
        let takes_part = |(member, brief): (&ChainMember, &MemberSummary)| {
            brief.is_up
                && brief.identity.incarnation == member.incarnation
                && brief.is_ready
                && member.role == Role::Serving
        };
        if !briefs.clone().all(takes_part) {
            return Ok(());
        }
        for (member, brief) in briefs {
            let id = member.node;
            if brief.last != last || brief.applied != last {
                return Err(format!(
                    "G3: at rest {id} ends at {}, not {last}",
                    brief.last
                ));
            }
            if brief.is_asked && !asks_again {
                return Err(format!(
                    "I20: at rest a request waits at {id} for its answer"
                ));
            }
            if brief.holds && scenario.forged.is_none() {
                return Err(format!("G3: at rest {id} holds what is not settled"));
            }
        }
        self.check_promises(state)
    }
}
