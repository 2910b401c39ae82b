//! The two rules behind one face.

use std::time::Duration;

use crate::adaptive::Adaptive;
use crate::aimd::Aimd;
use crate::message::Time;

/// Requests in flight over the window. Bound: 1 to 1.5. Latencies spread; with less slack they, not
/// the pace, would say when a request leaves, and requests would leave in lumps.
const SLACK: f64 = 1.1;
/// And so many more. Bound: 1 upwards.
const SLACK_REQUESTS: f64 = 2.0;

/// What is noted when a request is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) sent: Time,
    /// Requests in flight, this one among them.
    pub(crate) in_flight: u32,
    /// The window then.
    pub(crate) window: f64,
    /// Whether more would have been sent if the window had allowed.
    pub(crate) is_limited: bool,
}

/// Which rule a window follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// The default: paced, with a delay signal.
    #[default]
    Adaptive,
    /// The article's, as it was described in 2008.
    Aimd,
}

#[derive(Debug)]
pub(crate) enum Controller {
    Adaptive(Adaptive),
    Seed(Aimd),
}

impl Controller {
    pub(crate) fn new(rule: Rule) -> Controller {
        match rule {
            Rule::Adaptive => Controller::Adaptive(Adaptive::new()),
            Rule::Aimd => Controller::Seed(Aimd::new()),
        }
    }

    /// The window, in requests. Below one it is a rate, kept by pacing.
    pub(crate) fn window(&self) -> f64 {
        match self {
            Controller::Adaptive(rule) => rule.window(),
            Controller::Seed(rule) => rule.window,
        }
    }

    /// How many requests may be in flight: at least one, and in the default rule a few more than
    /// the window. There the pace is what holds requests back, for evenness; the limit is for when
    /// answers stop coming.
    pub(crate) fn limit(&self) -> u32 {
        let limit = match self {
            Controller::Adaptive(rule) if rule.window() < 1.0 => 1.0,
            Controller::Adaptive(rule) => (SLACK * rule.window()).ceil() + SLACK_REQUESTS,
            Controller::Seed(rule) => rule.window.floor(),
        };
        // Saturates; windows are far below.
        (limit as u32).max(1)
    }

    /// The time between two requests; none at all in the seed.
    pub(crate) fn interval(&self) -> Duration {
        match self {
            Controller::Adaptive(rule) => rule.interval(),
            Controller::Seed(_) => Duration::ZERO,
        }
    }

    pub(crate) fn on_ok(&mut self, now: Time, flight: &InFlight, in_flight: u32) {
        match self {
            Controller::Adaptive(rule) => rule.on_ok(now, flight),
            Controller::Seed(rule) => rule.on_ok(in_flight),
        }
    }

    pub(crate) fn on_overload(&mut self, now: Time, flight: &InFlight) {
        match self {
            Controller::Adaptive(rule) => rule.on_overload(now, flight),
            Controller::Seed(rule) => rule.on_failure(flight),
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Time, flight: &InFlight) {
        match self {
            Controller::Adaptive(rule) => rule.on_timeout(now, flight),
            Controller::Seed(rule) => rule.on_failure(flight),
        }
    }

    pub(crate) fn on_error(&mut self, flight: &InFlight) {
        match self {
            Controller::Adaptive(_) => {}
            Controller::Seed(rule) => rule.on_failure(flight),
        }
    }

    /// The time that an answer takes, where the rule measures it.
    pub(crate) fn latency(&self) -> Option<Duration> {
        match self {
            Controller::Adaptive(rule) => rule.latency(),
            Controller::Seed(_) => None,
        }
    }

    /// Latency over what it is without a queue, where the rule measures it.
    pub(crate) fn delay(&self) -> Option<f64> {
        match self {
            Controller::Adaptive(rule) => Some(rule.delay()),
            Controller::Seed(_) => None,
        }
    }
}
