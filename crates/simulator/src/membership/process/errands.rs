//! A process as a controller: it decides on a change, reads what the change is about, and writes.

use std::sync::Arc;

use fader_chain::controller::{self, ObservedState, Reports};
use fader_chain::membership::{Put, number, publish, risen};
use fader_chain::{ChainId, Wiring};

use super::{Errand, Process, Way, Wish};
use crate::membership::zookeeper::{Data, Op, Outcome, Path};
use crate::membership::{CHAINS, PROCESSES};

impl Process {
    /// Decides on the next errand of a controller, if there is one.
    pub(super) fn control(&mut self) {
        let names: Vec<String> = (0..PROCESSES).map(|it| format!("n{it}")).collect();
        let wanted = risen(self.version, names.iter().map(|it| &**it), &self.sessions);
        if let Some(wanted) = wanted {
            self.errand = Some(Errand::Raise(wanted));
            return;
        }
        for chain in (0..CHAINS).map(ChainId) {
            let mut reports = Reports::default();
            let (mut sessions, mut unheard) = (Vec::new(), Vec::new());
            let incarnations = self.sessions.iter().flat_map(|it| {
                it.record
                    .incarnations
                    .iter()
                    .map(move |incarnation| (it, incarnation))
            });
            for (session, incarnation) in
                incarnations.filter(|(_, incarnation)| incarnation.chain == chain)
            {
                sessions.push(incarnation.identity);
                if !session.is_present() {
                    unheard.push(incarnation.identity);
                }
                let said = incarnation.reports.iter();
                said.for_each(|report| reports.note(incarnation.identity.node, *report));
            }
            let current = self.newest.get(chain);
            let next = match current {
                None if sessions.len() < names.len() => None,
                None => Some(controller::first(&sessions, Wiring::Star, self.version)),
                Some(current) => {
                    let observed = ObservedState {
                        restart: controller::returned(current, &sessions).first().copied(),
                        sessions,
                        unheard,
                        reports,
                        size: PROCESSES as usize,
                        unwanted: Vec::new(),
                        wiring: Wiring::Star,
                        role_change: None,
                        raise_safe_point: false,
                        version: self.version,
                    };
                    controller::next(current, &observed)
                }
            };
            if let Some(next) = next {
                let expected = current.map_or(0, |current| current.epoch);
                self.errand = Some(Errand::Publish(chain, expected, Arc::new(next)));
                return;
            }
        }
    }

    /// Reads what an errand is about, if none is under way.
    pub(super) fn run_errand(&mut self) -> Vec<Wish> {
        if self.ways[Way::Control as usize].call.is_some() {
            return Vec::new();
        }
        let missing = (0..=CHAINS).find(|slot| !self.numbers.contains_key(slot));
        if let Some(slot) = missing {
            self.errand = Some(Errand::Number { slot, given: None });
        }
        let path = match &self.errand {
            None => return Vec::new(),
            Some(Errand::Number { .. }) => Path::Next,
            Some(Errand::Publish(chain, ..)) => Path::Chain(*chain),
            Some(Errand::Raise(_)) => Path::Cluster,
        };
        vec![Wish::Send(Way::Control, Op::Get(path))]
    }

    /// Goes on with an errand after an answer.
    pub(super) fn on_errand(&mut self, outcome: Outcome) -> Vec<Wish> {
        let op = match (&mut self.errand, outcome) {
            (Some(Errand::Number { given, .. }), Outcome::Got(Some(znode))) => match znode.data {
                Data::Next(next) => {
                    let (node, next) = number(next);
                    *given = Some(node);
                    Op::Set(Path::Next, Data::Next(next), znode.version)
                }
                _ => return Vec::new(),
            },
            (Some(Errand::Publish(chain, expected, next)), Outcome::Got(znode)) => {
                let known = znode.as_ref().and_then(|znode| match &znode.data {
                    Data::Chain(newest) => Some((newest.epoch, znode.version)),
                    _ => None,
                });
                let (path, data) = (Path::Chain(*chain), Data::Chain(next.clone()));
                match publish(known, *expected, next.epoch) {
                    Some(Put::Create) => Op::Create(path, data),
                    Some(Put::Replace(version)) => Op::Set(path, data, version),
                    None => {
                        self.errand = None;
                        return Vec::new();
                    }
                }
            }
            (Some(Errand::Raise(wanted)), Outcome::Got(Some(znode))) => match znode.data {
                Data::Cluster(known) if known < *wanted => {
                    Op::Set(Path::Cluster, Data::Cluster(*wanted), znode.version)
                }
                _ => {
                    self.errand = None;
                    return Vec::new();
                }
            },
            (errand, outcome) => {
                let is_done = matches!(outcome, Outcome::Done);
                return match errand.take().filter(|_| is_done) {
                    Some(Errand::Number {
                        slot,
                        given: Some(node),
                    }) => {
                        self.numbers.insert(slot, node);
                        vec![Wish::Numbered(node)]
                    }
                    Some(Errand::Publish(chain, _, next)) => {
                        self.newest.take(chain, next);
                        Vec::new()
                    }
                    _ => Vec::new(),
                };
            }
        };
        vec![Wish::Send(Way::Control, op)]
    }
}
