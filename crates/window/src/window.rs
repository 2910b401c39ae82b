//! One window: the requests of one kind to one host that wait or are in flight.
//!
//! Invariants:
//! 1. A request is waiting, in flight or over; never two of these.
//! 2. A request is sent only where fewer than the limit are in flight, and not before its time.
//! 3. Where a request waits and none is in flight, `wake_at` names a moment.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::budget::Budget;
use crate::controller::{Controller, InFlight, Rule};
use crate::message::{Effect, Input, Outcome, Request, RequestError, RequestId, Time};
use crate::queue::{Queue, Waiting};

/// What a window can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which rule.
    pub rule: Rule,
    /// How often a request is sent at most. Bound: 1 upwards. Five, as in the seed.
    pub attempts_max: u32,
    /// Requests that may wait. Bound: 1 upwards; what is beyond fails at once. 65,536: a guard of
    /// memory.
    pub waiting_max: usize,
    /// Where the jitter of delays begins: different in each client.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rule: Rule::Adaptive,
            attempts_max: 5,
            waiting_max: 1 << 16,
            seed: 0,
        }
    }
}

/// The longest that a service may ask to be left alone. Bound: 1 s upwards. A mistaken hour must
/// not stop a client; who asks for more is asked again after this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// The delay of a request that is sent again is the time that an answer takes, doubled with each
/// attempt. One that was refused gives way to others. This is the most. Bound: a few answers' time
/// upwards. The window holds back the load; a longer delay would only make its request late.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// The time that an answer takes, before there was one. Bound: above 0. Of the order of a service
/// that is not near.
const LATENCY_UNKNOWN: Duration = Duration::from_millis(100);
/// Pacing lets so much time's worth of requests leave at once, in nanoseconds. Bound: above 0,
/// below a round trip. Runtimes' timers tick so; with less they would hold a fast lane back.
const TICK: u64 = 1_000_000;

/// One window.
#[derive(Debug)]
pub struct Window {
    settings: Settings,
    controller: Controller,
    queue: Queue,
    flights: BTreeMap<RequestId, (InFlight, Waiting)>,
    budget: Budget,
    /// When the last request left, and the part of the interval until the next one.
    paced: Option<(Time, f64)>,
    /// Before this moment nothing is sent: the service asked for it.
    quiet: Time,
    last_ok: Option<Time>,
    random: u64,
    counts: Counts,
}

/// What is to be seen of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// The window, in requests.
    pub window: f64,
    /// Requests that may be in flight now.
    pub limit: u32,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests that wait.
    pub waiting: usize,
    /// The time between two requests, where they are paced.
    pub interval: Duration,
    /// The time that an answer takes, where it is measured.
    pub latency: Option<Duration>,
    /// Latency over what it is without a queue, where it is measured.
    pub delay: Option<f64>,
    /// What happened so far.
    pub counts: Counts,
}

/// Attempts and requests, from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Attempts.
    pub sent: u64,
    /// Attempts answered.
    pub ok: u64,
    /// Attempts refused for overload.
    pub overload: u64,
    /// Attempts without an answer in time.
    pub timeout: u64,
    /// Attempts that ended in an error.
    pub error: u64,
    /// Requests given up.
    pub failed: u64,
}

/// What an attempt leaves behind that was not answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// Nothing, and the window bounds how often that happens.
    Refused,
    /// Nothing; it never left.
    Unsent,
    /// It may have taken effect.
    InDoubt,
}

impl Window {
    /// A window before its first request.
    pub fn new(settings: Settings) -> Window {
        Window {
            settings,
            controller: Controller::new(settings.rule),
            queue: Queue::default(),
            flights: BTreeMap::new(),
            budget: Budget::new(),
            paced: None,
            quiet: Time(0),
            last_ok: None,
            random: settings.seed,
            counts: Counts::default(),
        }
    }

    /// Takes an input in; the effects are to be performed in order. `now` does not go back.
    pub fn step(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Submit(request) => self.submit(request, effects),
            Input::Report { id, outcome } => self.report(now, id, outcome, effects),
            Input::Cancel(id) => {
                self.queue.remove(id);
                self.flights.remove(&id);
            }
            Input::Tick => {}
        }
        self.send(now, effects);
    }

    /// When to step next if nothing else happens; none if only a report can change anything.
    pub fn wake_at(&self) -> Option<Time> {
        let can_send = self.queue.has_ready() && self.in_flight() < self.controller.limit();
        let paced = can_send.then(|| self.next_send());
        self.queue.wake_at().into_iter().chain(paced).min()
    }

    /// Whether no request waits or is in flight.
    pub fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.queue.len() == 0
    }

    /// What is to be seen.
    pub fn state(&self) -> State {
        State {
            window: self.controller.window(),
            limit: self.controller.limit(),
            in_flight: self.in_flight(),
            waiting: self.queue.len(),
            interval: self.controller.interval(),
            latency: self.controller.latency(),
            delay: self.controller.delay(),
            counts: self.counts,
        }
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.flights.len()).unwrap_or(u32::MAX)
    }

    fn submit(&mut self, request: Request, effects: &mut Vec<Effect>) {
        assert!(!self.queue.contains(request.id), "a request waits already");
        assert!(
            !self.flights.contains_key(&request.id),
            "a request is in flight already"
        );
        if self.settings.waiting_max <= self.queue.len() {
            self.fail(request.id, RequestError::Full, effects);
            return;
        }
        self.queue.push(Waiting {
            request,
            attempts: 0,
        });
    }

    fn report(&mut self, now: Time, id: RequestId, outcome: Outcome, effects: &mut Vec<Effect>) {
        // A report of what was cancelled comes too late to matter.
        let Some((flight, waiting)) = self.flights.remove(&id) else {
            return;
        };
        match outcome {
            Outcome::Ok => {
                self.counts.ok += 1;
                self.controller.on_ok(now, &flight, self.in_flight() + 1);
                self.budget.earn();
                self.last_ok = Some(now);
            }
            Outcome::Overload { retry_after } => {
                self.counts.overload += 1;
                self.controller.on_overload(now, &flight);
                let pause = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
                // One among accepted ones speaks for itself; where none was accepted since this
                // one left, it speaks for all.
                if self.last_ok.is_none_or(|last| last < flight.sent) {
                    self.quiet = self.quiet.max(now.after(pause));
                }
                self.again(now, waiting, pause, Repeat::Refused, effects);
            }
            Outcome::Timeout => {
                self.counts.timeout += 1;
                self.controller.on_timeout(now, &flight);
                self.again(now, waiting, Duration::ZERO, Repeat::InDoubt, effects);
            }
            Outcome::Error | Outcome::Unsent => {
                self.counts.error += 1;
                self.controller.on_error(&flight);
                let repeat = match outcome {
                    Outcome::Unsent => Repeat::Unsent,
                    _ => Repeat::InDoubt,
                };
                self.again(now, waiting, Duration::ZERO, repeat, effects);
            }
        }
    }

    /// Puts a request behind the others, if it may be sent again.
    fn again(
        &mut self,
        now: Time,
        waiting: Waiting,
        pause: Duration,
        repeat: Repeat,
        effects: &mut Vec<Effect>,
    ) {
        let Request {
            id,
            deadline,
            is_repeatable,
        } = waiting.request;
        let due = now.after(self.delay(waiting.attempts).max(pause));
        if self.settings.attempts_max <= waiting.attempts {
            self.fail(id, RequestError::Attempts, effects);
        } else if repeat == Repeat::InDoubt && !is_repeatable {
            self.fail(id, RequestError::Ambiguous, effects);
        } else if deadline.is_some_and(|deadline| deadline <= due) {
            self.fail(id, RequestError::Deadline, effects);
        } else if repeat != Repeat::Refused && !self.budget.spend() {
            self.fail(id, RequestError::Budget, effects);
        } else if due <= now {
            self.queue.push(waiting);
        } else {
            self.queue.delay(waiting, due);
        }
    }

    fn fail(&mut self, id: RequestId, why: RequestError, effects: &mut Vec<Effect>) {
        self.counts.failed += 1;
        effects.push(Effect::Fail { id, why });
    }

    /// How long a request keeps back that was sent so often; not at all in the seed.
    fn delay(&mut self, attempts: u32) -> Duration {
        if self.settings.rule == Rule::Aimd {
            return Duration::ZERO;
        }
        let latency = self.controller.latency().unwrap_or(LATENCY_UNKNOWN);
        let doubled = latency.saturating_mul(1 << (attempts - 1).min(16));
        doubled.min(DELAY_MAX).mul_f64(0.5 + self.chance())
    }

    /// When the next request may leave. The pace is that of the window now. After an outage the
    /// first answer ends the long wait that was meant for a service that takes nothing.
    fn next_send(&self) -> Time {
        let paced = self.paced.map_or(Time(0), |(last, part)| {
            last.after(self.controller.interval().mul_f64(part))
        });
        paced.max(self.quiet)
    }

    fn send(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some(id) = self.queue.expire(now) {
            self.fail(id, RequestError::Deadline, effects);
        }
        self.queue.release(now);
        while self.in_flight() < self.controller.limit() {
            let due = self.next_send();
            if now < due {
                break;
            }
            let Some(mut waiting) = self.queue.pop() else {
                break;
            };
            waiting.attempts += 1;
            let id = waiting.request.id;
            let flight = InFlight {
                sent: now,
                in_flight: self.in_flight() + 1,
                window: self.controller.window(),
                is_limited: self.queue.has_ready(),
            };
            self.flights.insert(id, (flight, waiting));
            self.counts.sent += 1;
            let attempt = waiting.attempts;
            effects.push(Effect::Send { id, attempt });
            // A little out of step, so that clients of one service do not march together.
            let part = 0.9 + 0.2 * self.chance();
            let earliest = Time(now.0.saturating_sub(TICK));
            self.paced = Some((due.max(earliest), part));
        }
    }

    /// A number from 0 up to 1: splitmix64.
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}
