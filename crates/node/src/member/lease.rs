//! Keeps a member's session: pings the coordinator, passes on configurations and reports, and gives
//! the member another incarnation when one is over (FN-1, FN-6, I24).
//!
//! Invariants:
//! - a lease counts from before its ping was sent (FN-1).
//! - configurations are read again on each ping: a missed change delays, and no more
//!   (COORD-4, I24).
//! - LEASE-3 nothing here waits for the member's thread, which may stand still (SL-6).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use fader_chain::membership::{Stillness, stillness};
use fader_chain::{ALL_GUARDS, Configuration, EntryId, Identity, Progress, Report};

use super::cluster_links::{Lease, MemberEvent};
use super::copying::Copying;
use super::local_network::LocalNetwork;
use super::state::Shared;
use super::thread::Job;
use crate::coordinator::{Coordinator, CoordinatorError, PingTime, Wakeup, lease};
use crate::peer::Outbox;
use crate::random;

/// How often a member pings in the time of a session.
const PINGS: u32 = 10;
/// The part of the time between two pings by which the first member of a process is early.
const EARLY: u128 = 10;
/// How often it looks while something is not as it should be.
const LOOK: Duration = Duration::from_millis(10);
/// How long a member waits that was left out for the first time, and how often that doubles.
const LEFT_OUT: Duration = Duration::from_secs(1);
const LEFT_OUT_MAX: u32 = 6;
/// Reports kept while the coordinator cannot be reached; the newest say all.
const REPORTS_MAX: usize = 16;

/// The next of the moments at which members of this process ping. The first member pings a little
/// earlier than the others: its write is theirs, and is acknowledged when they ask.
fn next_ping(now: Instant, pause: Duration, is_first: bool) -> Instant {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let pause_ms = pause.as_millis().max(1);
    let early_ms = if is_first { pause_ms / EARLY } else { 0 };
    let passed = (now.saturating_duration_since(*BEGUN).as_millis() + early_ms) % pause_ms;
    now + Duration::from_millis((pause_ms - passed) as u64)
}

/// The keeper of one member's session.
pub(crate) struct SessionKeeper {
    pub(crate) me: Identity,
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) links: Arc<LocalNetwork>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: SyncSender<Job>,
    pub(crate) notices: Receiver<MemberEvent>,
    /// Wakes this thread: an event of the member, or a change of what the coordinator knows.
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) is_ending: Arc<AtomicBool>,
    /// The epoch of the last configuration passed on in this incarnation.
    pub(crate) told: u64,
    /// Whether the member and the coordinator know all that there is to tell.
    pub(crate) has_told: bool,
    pub(crate) reports: VecDeque<Report>,
    /// Until when the last lease of this incarnation holds.
    pub(crate) leased_ms: u64,
    /// How far the disk has come.
    pub(crate) progress: Progress,
    /// Whether this incarnation is over, and no other has begun.
    pub(crate) is_over: bool,
    /// Why it was given no session, when it was told.
    pub(crate) refused: Option<String>,
    /// Whether the member takes nothing: no other incarnation is to begin before it says so.
    pub(crate) has_stopped: bool,
    /// How often it was left out since it served, and when it may join again.
    pub(crate) left_out: u32,
    pub(crate) again_at: Option<Instant>,
    /// The way to the other members' blocks.
    pub(crate) outbox: Arc<dyn Outbox>,
    /// What is copied before another incarnation begins.
    pub(crate) copying: Copying,
}

impl SessionKeeper {
    /// Keeps the session until the member ends. Which incarnation is the last one.
    pub(crate) fn run(mut self) -> Identity {
        self.coordinator.listen(&self.wakeup);
        static KEEPERS: AtomicUsize = AtomicUsize::new(0);
        let is_first = KEEPERS.fetch_add(1, Ordering::Relaxed) == 0;
        let mut ping_at = self.shared.clock.instant();
        while !self.is_ending.load(Ordering::Relaxed) {
            self.wakeup.wait(self.patience(ping_at));
            self.shared.gate.pass();
            if !self.hear() {
                break;
            }
            self.act(&mut ping_at, is_first);
            self.shared.turns.on_turn();
        }
        self.shared.turns.on_end();
        self.end()
    }

    /// One turn: what is due is done.
    fn act(&mut self, ping_at: &mut Instant, is_first: bool) {
        // The coordinator is on side 0.
        if self.has_stopped || self.links.side(self.me.node) != 0 {
            return;
        }
        if self.stands_still() {
            return;
        }
        if self.is_over && !self.copy() {
            return;
        }
        let now = self.shared.clock.instant();
        if *ping_at <= now {
            let pause = self.coordinator.session() / PINGS;
            *ping_at = next_ping(now, pause, is_first);
            match self.is_over {
                true if self.again_at.is_some_and(|at| now < at) => {}
                true => self.live_again(),
                false => self.ping(),
            }
        }
        if !self.is_over {
            self.tell();
        }
    }

    /// Until the next ping, where all is told; else it looks again and again.
    fn patience(&self, ping_at: Instant) -> Duration {
        let is_steady = self.has_told && !self.is_over && !self.has_stopped;
        match ping_at.saturating_duration_since(self.shared.clock.instant()) {
            left if is_steady && LOOK < left => left,
            _ => LOOK,
        }
    }

    /// Takes what the member says; whether it may say more.
    fn hear(&mut self) -> bool {
        loop {
            match self.notices.try_recv() {
                Ok(event) => self.on_event(&event),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Where the incarnation is over, the coordinator is told what it reported before that.
    fn on_event(&mut self, event: &MemberEvent) {
        if !matches!(event, MemberEvent::Report(_)) {
            self.report_if_heard();
        }
        match event {
            MemberEvent::Report(report) => self.on_report(*report),
            MemberEvent::IncarnationOver => (self.is_over, self.has_stopped) = (true, false),
            MemberEvent::LeftOut => self.wait_longer(),
            MemberEvent::Stopped => {
                self.coordinator.close(self.me);
                self.has_stopped = true;
            }
        }
    }

    fn on_report(&mut self, report: Report) {
        self.progress.note(&report);
        self.reports.push_back(report);
        if REPORTS_MAX < self.reports.len() {
            self.reports.pop_front();
        }
    }

    /// A member that ends in order says at last how far it came (COORD-5).
    fn end(mut self) -> Identity {
        let reports = self.notices.iter().filter_map(|event| match event {
            MemberEvent::Report(report) => Some(report),
            _ => None,
        });
        let last: Vec<Report> = reports.collect();
        last.into_iter().for_each(|report| self.on_report(report));
        self.report_if_heard();
        self.me
    }

    /// Reports, if the incarnation lives and the coordinator is on its side.
    fn report_if_heard(&mut self) {
        if !self.is_over && !self.has_stopped && self.links.side(self.me.node) == 0 {
            self.report();
        }
    }

    fn report(&mut self) {
        for report in self.reports.drain(..) {
            self.coordinator.report(self.me, report);
        }
    }

    /// SL-6: whether the member's thread has stood still for so long that its leases are to end,
    /// and when they have, its incarnation. The process lives, and pings for its other members.
    fn stands_still(&mut self) -> bool {
        let (still, session) = (self.shared.still_for(), self.coordinator.session());
        let millis = |time: Duration| time.as_millis() as u64;
        let (now_ms, leased_ms) = (self.shared.clock.monotonic_ms(), self.leased_ms);
        let (still_ms, session_ms) = (millis(still), millis(session));
        match stillness(still_ms, session_ms, now_ms, leased_ms, &ALL_GUARDS) {
            Stillness::Moves => false,
            Stillness::Still => true,
            Stillness::Over => {
                if !self.is_over {
                    let seconds = still.as_secs();
                    tracing::error!(
                        seconds,
                        "this member did nothing for too long (its disk may hang): it is given up"
                    );
                    self.wait_longer();
                }
                true
            }
        }
    }

    /// Copies blocks that it lacks. Whether it may ask for a membership.
    fn copy(&mut self) -> bool {
        let newest = self.coordinator.configuration().ok().flatten();
        let (blocks, outbox) = (&*self.shared.blocks, &*self.outbox);
        self.copying
            .step(self.me.node, newest.as_deref(), blocks, outbox)
    }

    fn ping(&mut self) {
        match self.coordinator.ping(self.me) {
            Ok(PingTime(sent)) => {
                let lease = lease(self.coordinator.session());
                let until = sent + lease.as_millis() as u64;
                self.shared.on_lease(Lease {
                    incarnation: self.me.incarnation,
                    sent,
                    until,
                });
                self.leased_ms = self.leased_ms.max(until);
            }
            Err(CoordinatorError::SessionOver) => {
                self.is_over = true;
            }
            Err(error) => tracing::debug!(%error, "no ping"),
        }
    }

    /// SL-1: a member that made others wait comes back, each time after twice as long, until it
    /// serves.
    fn wait_longer(&mut self) {
        self.coordinator.close(self.me);
        self.is_over = true;
        self.again_at = Some(self.shared.clock.instant() + LEFT_OUT * 2_u32.pow(self.left_out));
        self.left_out = (self.left_out + 1).min(LEFT_OUT_MAX);
    }

    /// Passes on what is new in both directions.
    fn tell(&mut self) {
        self.report();
        let newest = self.coordinator.configuration().ok().flatten();
        let news = newest.filter(|newest| self.told < newest.epoch);
        self.has_told = news.is_none_or(|newest| self.pass_on(&newest));
    }

    /// Whether the member's thread will take a configuration.
    fn pass_on(&mut self, newest: &Arc<Configuration>) -> bool {
        let is_sent = self.send(Job::Configuration(newest.clone()));
        if is_sent {
            self.told = newest.epoch;
            if newest.serving().any(|node| node == self.me.node) {
                self.left_out = 0;
            }
        }
        is_sent
    }

    /// Begins another incarnation, if it gets a session: what the last one's configurations said is
    /// not for this one.
    fn live_again(&mut self) {
        self.coordinator.close(self.me);
        self.reports.clear();
        let Ok(incarnation) = random::incarnation() else {
            return;
        };
        let adopted = Progress {
            epoch: self.shared.epoch(),
            last: EntryId::ZERO,
        };
        self.progress = self.progress.max(adopted);
        let opened = self
            .coordinator
            .open(self.me.disk, incarnation, self.progress);
        match opened {
            Ok(me) => {
                self.me = me;
                self.refused = None;
                self.told = 0;
                self.leased_ms = 0;
                self.copying = Copying::default();
                // If not, it gets another one.
                self.is_over = !self.send(Job::Live(me));
            }
            Err(error) => self.tell_once(&error),
        }
    }

    /// It is tried again and again: what is refused is told once.
    fn tell_once(&mut self, error: &CoordinatorError) {
        let CoordinatorError::Refused {
            context: reason, ..
        } = error
        else {
            tracing::debug!(%error, "no session yet");
            return;
        };
        if self.refused.as_ref() != Some(reason) {
            tracing::error!(reason, "this member is given no session");
            self.refused = Some(reason.clone());
        }
    }

    /// Whether the member's thread will take it; not if very much waits for it, or it is ending.
    fn send(&self, job: Job) -> bool {
        self.jobs.try_send(job).is_ok()
    }
}
