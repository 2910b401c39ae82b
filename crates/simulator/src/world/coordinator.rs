//! The coordinator (docs/protocol/reconfiguration.md, section 11), as a process of the world.
//!
//! Invariants:
//! - FN-2 a session ends no earlier than S after the last ping that was acknowledged was received,
//!   on the coordinator's clock; only then its member goes.
//! - C1 each configuration follows the one before.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::leavings::Leavings;
use fader_chain::controller::{self, Facts, Reports, Returning, Shift};
use fader_chain::{
    Configuration, DiskId, Guard, Guards, Identity, Incarnation, NodeId, Progress, Report, Role,
    Version, Wiring,
};

/// What a member says to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ping {
    pub(crate) from: Identity,
    pub(crate) number: u64,
    /// The newest epoch that the member has heard of.
    pub(crate) epoch: u64,
    pub(crate) reports: Vec<Report>,
    /// What its disk showed when it began.
    pub(crate) shown: Progress,
}

/// What the coordinator says to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pong {
    /// The session lives.
    Heard {
        number: u64,
        /// The configuration, if the member had not heard of it.
        news: Option<Arc<Configuration>>,
    },
    /// The session is over, for ever.
    Over,
    /// There is none for this disk: it is an old copy (C5).
    Refused,
    /// The configuration has changed.
    News(Arc<Configuration>),
}

#[derive(Clone, Copy, Debug)]
struct Session {
    member: Identity,
    heard_at: u64,
}

/// The coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Coordinator {
    /// S, in microseconds of the coordinator's clock.
    session: u64,
    size: usize,
    wiring: Wiring,
    configuration: Option<Arc<Configuration>>,
    /// In the order in which they began; a life that is over stays, without a session.
    sessions: BTreeMap<Incarnation, Option<Session>>,
    order: Vec<Incarnation>,
    /// How far each disk came, as was reported, or shown (C5).
    progress: BTreeMap<DiskId, Progress>,
    reports: Reports,
    returning: Returning,
    shift: Option<Shift>,
    raises_floor: bool,
    guards: Guards,
    /// Who was removed from among those that serve while its session lived (RM-1).
    pub(crate) wronged: Option<NodeId>,
    /// Who is to leave.
    pub(crate) leavings: Leavings,
}

impl Coordinator {
    pub(crate) fn new(session: u64, size: usize, wiring: Wiring, guards: Guards) -> Self {
        Coordinator {
            session,
            size,
            wiring,
            configuration: None,
            sessions: BTreeMap::new(),
            order: Vec::new(),
            progress: BTreeMap::new(),
            reports: Reports::default(),
            returning: Returning::default(),
            shift: None,
            raises_floor: false,
            guards,
            wronged: None,
            leavings: Leavings::default(),
        }
    }

    pub(crate) fn configuration(&self) -> Option<&Arc<Configuration>> {
        self.configuration.as_ref()
    }

    /// Members whose sessions live.
    pub(crate) fn members(&self) -> impl Iterator<Item = Identity> {
        let sessions = self.order.iter().filter_map(|life| self.sessions[life]);
        sessions.map(|session| session.member)
    }

    /// A member is heard.
    pub(crate) fn on_ping(&mut self, now: u64, ping: Ping) -> Pong {
        let life = ping.from.incarnation;
        let is_new = !self.sessions.contains_key(&life);
        let known = self.progress(ping.from.disk);
        if is_new && ping.shown < known && self.guards.has(Guard::CopyRefused) {
            return Pong::Refused;
        }
        if is_new {
            self.order.push(life);
            self.progress.insert(ping.from.disk, known.max(ping.shown));
        }
        let session = self.sessions.entry(life).or_insert(Some(Session {
            member: ping.from,
            heard_at: now,
        }));
        let Some(session) = session else {
            return Pong::Over;
        };
        session.heard_at = now;
        for report in ping.reports {
            self.reports.note(ping.from.node, report);
            self.progress
                .entry(ping.from.disk)
                .or_default()
                .note(&report);
        }
        let newer = |newest: &&Arc<Configuration>| ping.epoch < newest.epoch;
        Pong::Heard {
            number: ping.number,
            news: self.configuration.as_ref().filter(newer).cloned(),
        }
    }

    /// How far a disk came.
    pub(crate) fn progress(&self, disk: DiskId) -> Progress {
        self.progress.get(&disk).copied().unwrap_or_default()
    }

    /// Ends sessions.
    pub(crate) fn expire(&mut self, now: u64) {
        for session in self.sessions.values_mut() {
            *session = session.filter(|session| now < session.heard_at + self.session);
        }
    }

    /// Ends sessions, and publishes what follows from what is known.
    pub(crate) fn step(&mut self, now: u64) -> Option<Arc<Configuration>> {
        self.expire(now);
        let current = self.configuration.clone();
        let facts = self.facts(now);
        let next = self.next(current.as_deref(), &facts)?;
        self.publish(current.map_or(0, |current| current.epoch), next)
    }

    /// What a controller that knows this publishes.
    pub(crate) fn next(
        &self,
        current: Option<&Configuration>,
        facts: &Facts,
    ) -> Option<Configuration> {
        match current {
            None => {
                let all = facts.sessions.len() == self.size;
                all.then(|| controller::first(&facts.sessions, facts.wiring, facts.version))
            }
            Some(current) => controller::next_guarded(current, facts, &self.guards),
        }
    }

    /// C1: takes a configuration from a controller that read the one of epoch `expected`.
    pub(crate) fn publish(
        &mut self,
        expected: u64,
        next: Configuration,
    ) -> Option<Arc<Configuration>> {
        let newest = self.configuration.as_ref().map_or(0, |it| it.epoch);
        if newest != expected && self.guards.has(Guard::CasPublish) {
            return None;
        }
        if self
            .configuration
            .as_ref()
            .is_some_and(|current| current.floor < next.floor)
        {
            self.raises_floor = false;
        }
        self.wronged = self.wronged.or(self.wrong(&next));
        self.leavings
            .on_published(self.configuration.as_deref(), &next);
        let next = Arc::new(next);
        self.configuration = Some(next.clone());
        Some(next)
    }

    /// RM-1: who serves, and whose session lives, and has no seat in `next`.
    fn wrong(&self, next: &Configuration) -> Option<NodeId> {
        let current = self.configuration.as_ref()?;
        let mut seats = current.seats.iter();
        let wronged = seats.find(|seat| {
            let lives = matches!(self.sessions.get(&seat.incarnation), Some(Some(_)));
            seat.role == Role::Serving && lives && next.seat(seat.node).is_none()
        });
        wronged.map(|seat| seat.node)
    }

    /// A life is over by its own word.
    pub(crate) fn close(&mut self, life: Incarnation) {
        self.sessions.insert(life, None);
    }

    /// It was down: no session may end for what was not heard meanwhile.
    pub(crate) fn restart(&mut self, now: u64) {
        for session in self.sessions.values_mut().flatten() {
            session.heard_at = now;
        }
        self.returning = Returning::default();
    }

    /// An operator, or the judge of slow members, wants this.
    pub(crate) fn shift(&mut self, shift: Shift) {
        self.shift = Some(shift);
    }

    /// Nobody wants anything any more.
    pub(crate) fn content(&mut self) {
        self.shift = None;
        self.raises_floor = false;
        if let Some(newest) = &self.configuration {
            self.leavings.on_calm(newest);
        }
    }

    pub(crate) fn rewire(&mut self) {
        self.wiring = match self.wiring {
            Wiring::Star => Wiring::Chain,
            Wiring::Chain => Wiring::Star,
        };
    }

    pub(crate) fn raise_floor(&mut self) {
        self.raises_floor = true;
    }

    /// What a controller finds. A wish that cannot be had now is given up.
    pub(crate) fn facts(&mut self, now: u64) -> Facts {
        let sessions: Vec<Identity> = self.members().collect();
        Facts {
            restart: self.chosen(now, &sessions),
            sessions,
            unheard: Vec::new(),
            reports: self.reports.clone(),
            size: self.size - self.leavings.missing(),
            unwanted: self.leavings.unwanted(),
            wiring: self.wiring,
            shift: self.shift.take(),
            raise_floor: self.raises_floor,
            version: Version::NEWEST,
        }
    }

    /// AL-1.
    fn chosen(&mut self, now: u64, sessions: &[Identity]) -> Option<Identity> {
        let current = self.configuration.as_deref()?;
        let chosen = self.returning.choose_guarded(
            (
                Duration::from_micros(now),
                Duration::from_micros(self.session),
            ),
            current,
            sessions,
            |disk| Ok::<_, Infallible>(self.progress.get(&disk).copied().unwrap_or_default()),
            &self.guards,
        );
        chosen.unwrap_or_else(|never| match never {})
    }
}
