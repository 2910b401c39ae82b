//! The coordinator (docs/internals/protocol/reconfiguration.md, section 11), as a process of the
//! world.
//!
//! Invariants:
//! - (FN-2) a session ends no earlier than S after the last ping that was acknowledged was
//!   received, on the coordinator's clock. Only then its member goes.
//! - (COORD-1) each configuration follows the one before.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::decommission::Decommissions;
use fader_chain::controller::{self, ObservedState, Reports, Returning, RoleChange};
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
pub(crate) enum CoordinatorReply {
    /// The session lives.
    Heard {
        number: u64,
        /// The configuration, if the member had not heard of it.
        news: Option<Arc<Configuration>>,
    },
    /// The session is over, for ever.
    Over,
    /// There is none for this disk: it is an old copy (COORD-5).
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
    /// In the order in which they began; an incarnation that is over stays, without a session.
    sessions: BTreeMap<Incarnation, Option<Session>>,
    order: Vec<Incarnation>,
    /// How far each disk came, as was reported, or shown (COORD-5).
    progress: BTreeMap<DiskId, Progress>,
    reports: Reports,
    returning: Returning,
    role_change: Option<RoleChange>,
    raises_safe_point: bool,
    guards: Guards,
    /// Who was removed from among those that serve while its session lived (RM-1).
    pub(crate) wronged: Option<NodeId>,
    /// Who is to leave.
    pub(crate) decommissions: Decommissions,
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
            role_change: None,
            raises_safe_point: false,
            guards,
            wronged: None,
            decommissions: Decommissions::default(),
        }
    }

    pub(crate) fn configuration(&self) -> Option<&Arc<Configuration>> {
        self.configuration.as_ref()
    }

    /// Members whose sessions live.
    pub(crate) fn members(&self) -> impl Iterator<Item = Identity> {
        let sessions = self
            .order
            .iter()
            .filter_map(|incarnation| self.sessions[incarnation]);
        sessions.map(|session| session.member)
    }

    /// A member is heard.
    pub(crate) fn on_ping(&mut self, now: u64, ping: Ping) -> CoordinatorReply {
        let incarnation = ping.from.incarnation;
        let is_new = !self.sessions.contains_key(&incarnation);
        let known = self.progress(ping.from.disk);
        if is_new && ping.shown < known && self.guards.has(Guard::CopyRefused) {
            return CoordinatorReply::Refused;
        }
        if is_new {
            self.order.push(incarnation);
            self.progress.insert(ping.from.disk, known.max(ping.shown));
        }
        let session = self.sessions.entry(incarnation).or_insert(Some(Session {
            member: ping.from,
            heard_at: now,
        }));
        let Some(session) = session else {
            return CoordinatorReply::Over;
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
        CoordinatorReply::Heard {
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
        let observed = self.observed(now);
        let next = self.next(current.as_deref(), &observed)?;
        self.publish(current.map_or(0, |current| current.epoch), next)
    }

    /// What a controller that knows this publishes.
    pub(crate) fn next(
        &self,
        current: Option<&Configuration>,
        observed: &ObservedState,
    ) -> Option<Configuration> {
        match current {
            None => {
                let all = observed.sessions.len() == self.size;
                all.then(|| {
                    controller::first(&observed.sessions, observed.wiring, observed.version)
                })
            }
            Some(current) => controller::next_guarded(current, observed, &self.guards),
        }
    }

    /// COORD-1: takes a configuration from a controller that read the one of epoch `expected`.
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
            .is_some_and(|current| current.safe_point < next.safe_point)
        {
            self.raises_safe_point = false;
        }
        self.wronged = self.wronged.or(self.wrong(&next));
        self.decommissions
            .on_published(self.configuration.as_deref(), &next);
        let next = Arc::new(next);
        self.configuration = Some(next.clone());
        Some(next)
    }

    /// RM-1: who serves, and whose session lives, and has no membership in `next`.
    fn wrong(&self, next: &Configuration) -> Option<NodeId> {
        let current = self.configuration.as_ref()?;
        let mut members = current.members.iter();
        let wronged = members.find(|member| {
            let incarnations = matches!(self.sessions.get(&member.incarnation), Some(Some(_)));
            member.role == Role::Serving && incarnations && next.member(member.node).is_none()
        });
        wronged.map(|member| member.node)
    }

    /// An incarnation is over by its own word.
    pub(crate) fn close(&mut self, incarnation: Incarnation) {
        self.sessions.insert(incarnation, None);
    }

    /// It was down: no session may end for what was not heard meanwhile.
    pub(crate) fn restart(&mut self, now: u64) {
        for session in self.sessions.values_mut().flatten() {
            session.heard_at = now;
        }
        self.returning = Returning::default();
    }

    /// An operator, or the judge of slow members, wants this.
    pub(crate) fn role_change(&mut self, role_change: RoleChange) {
        self.role_change = Some(role_change);
    }

    /// No client wants anything any more.
    pub(crate) fn content(&mut self) {
        self.role_change = None;
        self.raises_safe_point = false;
        if let Some(newest) = &self.configuration {
            self.decommissions.on_calm(newest);
        }
    }

    pub(crate) fn rewire(&mut self) {
        self.wiring = match self.wiring {
            Wiring::Star => Wiring::Chain,
            Wiring::Chain => Wiring::Star,
        };
    }

    pub(crate) fn raise_safe_point(&mut self) {
        self.raises_safe_point = true;
    }

    /// What a controller finds. A wish that cannot be had now is given up.
    pub(crate) fn observed(&mut self, now: u64) -> ObservedState {
        let sessions: Vec<Identity> = self.members().collect();
        ObservedState {
            restart: self.chosen(now, &sessions),
            sessions,
            unheard: Vec::new(),
            reports: self.reports.clone(),
            size: self.size - self.decommissions.missing(),
            unwanted: self.decommissions.unwanted(),
            wiring: self.wiring,
            role_change: self.role_change.take(),
            raise_safe_point: self.raises_safe_point,
            version: Version::NEWEST,
        }
    }

    /// AL-1.
    fn chosen(&mut self, now: u64, sessions: &[Identity]) -> Option<Identity> {
        let current = self.configuration.as_deref()?;
        let chosen = self.returning.choose_guarded(
            Duration::from_micros(now),
            Duration::from_micros(self.session),
            current,
            sessions,
            |disk| Ok::<_, Infallible>(self.progress.get(&disk).copied().unwrap_or_default()),
            &self.guards,
        );
        chosen.unwrap_or_else(|never| match never {})
    }
}
