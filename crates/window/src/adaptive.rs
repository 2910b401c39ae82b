//! The default rule: as many requests as a service takes at the price of a few refused ones a
//! second. It sends no more than the service can work on. `docs/explanation/congestion-window.md`
//! says why each part is there.
//!
//! - **Balance.** Each answer raises the window a little, each refusal lowers it more. The ratio of
//!   both is the share of refused requests at which the window rests. It falls with the window, so
//!   that clients of one service come to equal windows.
//! - **Silence.** The window grows faster the longer no request is refused, measured in refusals
//!   that should have come. It grows by up to one and a sixteenth of itself in a round trip.
//! - **Memory.** Where the window has long been less than half of what it once settled at, capacity
//!   was lost that may come back. The share of refused requests is larger then, so that it is found
//!   soon.
//! - **Few in flight.** The fewer requests, the higher that price: below 40 a client pays it once,
//!   and then goes on with what it has learnt (`few.rs`). It holds its pace, not its window.
//! - **Cuts** are bounded as in the article of 2008: never below a part of the window when the
//!   refused request was *sent*. So a burst of refusals cuts about once in a round trip.
//! - **Restart.** After a time in which nothing was accepted the window doubles in a round trip,
//!   up to half of what it was before.
//! - **Queues.** Where latency rises over what it is without a queue, growth slows down and the
//!   window shrinks (`delay.rs`).
//! - **Pacing.** Requests leave evenly, a window of them in the time that an answer takes.
//!
//! Invariants: the window is positive and at most `WINDOW_MAX`. Below one request it is a rate that
//! no refusal lowers below one request in `PROBE`, or in `PROBE_TAKEN` where some are accepted.

use std::f64::consts::LN_2;
use std::time::Duration;

use crate::controller::InFlight;
use crate::delay::Delay;
use crate::message::Time;
use crate::small_window::{self, SmallWindow};

/// The share of refused requests at rest: `SHARE / (window + SHARE_OFFSET) ^ SHARE_POWER`, of which
/// some two times as many are seen since silence makes the window grow faster. Bound: 0 to 1. Some
/// 1.9 % at a window of ten and 0.9 % at forty; less, and capacity that returns is found later.
const SHARE: f64 = 0.40;
/// In requests. Bound: above 0. Keeps the share of windows below one finite and falling.
const SHARE_OFFSET: f64 = 2.0;
/// Bound: above 0. The higher, the fairer. Clients know each other by refusals only, and the spread
/// of their windows is the inverse of this times the root of the refusals seen.
const SHARE_POWER: f64 = 1.5;
/// From this window on there are many in flight, and what `few.rs` says counts for nothing. Bound:
/// about where both shares meet; here they differ by a tenth.
const FEW: f64 = 40.0;
/// What a refusal takes from a large window, in requests. Bound: above 0. One too many was in
/// flight; but what had left before the cut is refused too, so half is right.
const CUT: f64 = 0.5;
/// What it takes from small windows beside that, over the window. Bound: 0 upwards. At a window of
/// ten a whole request, so that the same balance allows twice the growth.
const CUT_SMALL: f64 = 6.0;
/// The part of the window at the time of sending below which a refusal does not cut. Bound: 0 to 1.
/// The seed halves; refusals that tell the truth within a round trip need less.
const KEPT: f64 = 0.87;
/// Growth rises with silence, as `silence ^ BOOST`. Bound: 1 to 8. The steeper, the sooner full
/// speed comes after twice the usual silence, and the more refusals there are at rest.
const BOOST: i32 = 5;
/// The same is divided by one and this, where few are in flight and no more were once. Bound: 0
/// upwards. Chance makes silences of three times the usual there, and what growth adds by chance
/// makes clients unequal.
const QUIET: f64 = 2.0;
/// Growth at full speed, beside one request: a part of the window in a round trip. Bound: 0 to 1.
/// From 1 to 40 requests in 19 round trips; what is too much when a limit is met is a sixteenth.
const RISE: f64 = 1.0 / 16.0;
/// Latency over its baseline at which the window stops growing: a part, and so many requests over
/// the window. Growth slows down from half of it, and the window rests about there. Bound: above
/// the error of `Delay`, some 0.1. Less leaves slots idle whose service times spread.
const QUEUE_SHARE: f64 = 0.32;
/// In requests; small windows see few latencies. Bound: 0 upwards.
const QUEUE_REQUESTS: f64 = 5.0;
/// The most that the window shrinks by for latency in a round trip, as a part. Bound: 0 to 0.1.
/// Averages lag four round trips; more would empty the queue before it is seen.
const FALL: f64 = 0.03;
/// Bound: 1 upwards. A guard of memory: 100,000 requests in flight.
const WINDOW_MAX: f64 = 100_000.0;
/// The longest time between two requests, where there are any. Bound: above 0. Half a second: a
/// service that refuses everything gets two requests a second, and is found soon when it returns.
const PROBE: f64 = 0.5;
/// The same where the service accepts some. Bound: `PROBE` upwards. Several clients share a service
/// of a few requests a second.
const PROBE_TAKEN: f64 = 10.0;
/// The time of an answer where all was refused so far, in seconds. Bound: above 0. Without it a
/// service that never took anything would not be left alone.
const LATENCY_GUESSED: f64 = 0.1;
/// The least part of the window that is remembered. Bound: 0 to 0.01. A service that took a
/// thousand requests a second and takes none now gets five: little to it, and it is found sooner.
const PROBE_PART: f64 = 0.005;
/// Answers in the average of the window that is called settled, in windows. Bound: 16 upwards. So
/// many that what clients take from each other at random is no loss of capacity.
const SETTLED_WINDOWS: f64 = 64.0;
/// Round trips after which half of a remembered window is forgotten. Bound: 100 upwards. A minute
/// or two: capacity that stays away longer is not looked for at a higher price.
const MEMORY: f64 = 2_000.0;
/// Capacity was lost where the settled window, and so many requests, is less than this part of what
/// is remembered. Bound: 0 to 1. Chance moves small windows by that much.
const LOST: f64 = 0.5;
const LOST_REQUESTS: f64 = 2.0;
/// The share of refused requests over what it is otherwise, until lost capacity is back or
/// forgotten. Bound: 1 to 2. Silence tells so much sooner.
const SOUGHT: f64 = 1.75;
/// Where few are in flight, the share rises as this power of what is remembered over the window.
/// Bound: 0 to 8. At half of what was once taken 64 times as much is borne, at nine tenths twice.
const LOST_POWER: i32 = 6;
/// The share of timeouts that are taken for chance. Bound: 0 to 0.1.
const CHANCE: f64 = 0.02;
/// Silence before the first refusal, in refusals: growth at full speed. Bound: 10 upwards.
const UNKNOWN: f64 = 100.0;

#[derive(Debug)]
pub(crate) struct Adaptive {
    window: f64,
    /// Its slow average.
    settled: f64,
    /// The most that this was, less what is forgotten.
    remembered: f64,
    /// Up to here the window doubles in a round trip.
    threshold: f64,
    /// Mean latency of answers, in seconds; zero before the first.
    latency: f64,
    answers: f64,
    /// Mean time until a refusal is known, in seconds.
    refusal: f64,
    /// Refusals that were due since the last one.
    silence: f64,
    /// Whether anything was accepted since the last refusal.
    is_accepting: bool,
    /// Timeouts that may still be chance.
    lenience: f64,
    delay: Delay,
    few: SmallWindow,
}

impl Adaptive {
    pub(crate) fn new() -> Adaptive {
        Adaptive {
            window: 1.0,
            settled: 0.0,
            remembered: 0.0,
            threshold: 1.0,
            latency: 0.0,
            answers: 0.0,
            refusal: 0.0,
            silence: UNKNOWN,
            is_accepting: false,
            lenience: 1.0,
            delay: Delay::new(),
            few: SmallWindow::new(),
        }
    }

    pub(crate) fn window(&self) -> f64 {
        self.window
    }

    pub(crate) fn latency(&self) -> Option<Duration> {
        (0.0 < self.latency).then(|| Duration::from_secs_f64(self.latency))
    }

    /// Latency over its baseline.
    pub(crate) fn delay(&self) -> f64 {
        self.delay.ratio()
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.span() / self.window)
    }

    /// The time of an answer, in seconds; zero until something is known.
    fn span(&self) -> f64 {
        match self.latency {
            0.0 if 0.0 < self.refusal => LATENCY_GUESSED,
            latency => latency,
        }
    }

    pub(crate) fn on_ok(&mut self, now: Time, flight: &InFlight) {
        let latency = now.since(flight.sent).as_secs_f64();
        // Two windows of answers: late enough to be smooth, soon enough to follow.
        self.answers = (self.answers + 1.0).min((2.0 * self.window).max(16.0));
        let before = self.latency;
        self.latency += (latency - self.latency) / self.answers;
        self.hold_pace(before);
        self.few.on_ok();
        self.delay.add(latency, self.window);
        self.lenience = (self.lenience + CHANCE).min(2.0);
        self.is_accepting = true;
        self.remember();

        let ratio = self.delay.ratio();
        let bound = 1.0 + QUEUE_SHARE + QUEUE_REQUESTS / self.window;
        if let Some(window) = self.delay.watch(bound < ratio, self.window) {
            self.window = window;
            self.silence = UNKNOWN;
        } else if bound < ratio {
            self.silence = 0.0;
            let window = self.window - (ratio - bound).min(FALL).min(self.window / 2.0);
            self.shrink(window, self.probing());
        } else if flight.is_limited {
            let room = (2.0 * (bound - ratio) / (bound - 1.0)).clamp(0.0, 1.0);
            self.grow(room);
        }
    }

    pub(crate) fn on_overload(&mut self, now: Time, flight: &InFlight) {
        let span = now.since(flight.sent).as_secs_f64().max(1e-9);
        self.refusal += (span - self.refusal) / 8.0;
        self.few.on_refusal(self.silence);
        self.silence = 0.0;
        let kept = self.window.min(KEPT * flight.window);
        let window = (self.window - self.cut()).max(kept);
        let mut least = self.probing();
        if self.is_accepting {
            self.is_accepting = false;
            self.threshold = self.window / 2.0;
            least = least.min(self.span() / PROBE_TAKEN);
        }
        self.shrink(window, least);
    }

    /// A few timeouts are chance; more mean what a refusal means.
    pub(crate) fn on_timeout(&mut self, now: Time, flight: &InFlight) {
        if 1.0 <= self.lenience {
            self.lenience -= 1.0;
        } else {
            self.on_overload(now, flight);
        }
    }

    /// After an accepted request that used the window; `room` is 1 far from a queue and 0 at one.
    fn grow(&mut self, room: f64) {
        let share = self.share();
        self.silence += share * room;
        let step = if self.window < self.threshold {
            // What refusals told before is not known of the service that came back.
            self.silence = UNKNOWN;
            (self.threshold - self.window).min(1.0)
        } else {
            let rest = self.cut() * share;
            let full = (RISE + 1.0 / self.window).min(self.window);
            // Where refusals are known late, growth waits for them.
            let slow = (self.latency / self.refusal.max(1e-9)).min(1.0);
            let quiet = QUIET * self.fewness() / self.lost();
            let silence = self.silence / (1.0 + quiet);
            (rest * silence.max(1.0).powi(BOOST)).min(full * slow)
        };
        self.window = (self.window + step * room).min(WINDOW_MAX);
    }

    /// Down to `window`, but not below `least`.
    fn shrink(&mut self, window: f64, least: f64) {
        self.window = window.max(least.clamp(1e-6, 1.0).min(self.window));
    }

    /// The window of a client that asks whether a service takes anything again.
    fn probing(&self) -> f64 {
        (self.span() / PROBE).max(PROBE_PART * self.remembered)
    }

    /// What is known where few are in flight is the pace. It stays as it is when the time of an
    /// answer, known from few answers, is seen to be another than `before`.
    fn hold_pace(&mut self, before: f64) {
        let known = (1.0 - self.few.unknown()) * self.fewness();
        if 0.0 < before && 0.0 < known {
            let window = self.window * (self.latency / before).powf(known);
            self.window = window.min(WINDOW_MAX);
        }
    }

    /// After an answer: what the window settles at, and once settled at.
    fn remember(&mut self) {
        let answers = (SETTLED_WINDOWS * self.window).max(SETTLED_WINDOWS);
        self.settled += (self.window - self.settled) / answers;
        let forgotten = LN_2 / (MEMORY * self.window.max(1.0));
        self.remembered = (self.remembered * (1.0 - forgotten)).max(self.settled);
    }

    /// The share of refused requests that is borne now.
    fn share(&self) -> f64 {
        let many = match self.is_sought() {
            true => SOUGHT * self.share_of_many(),
            false => self.share_of_many(),
        };
        if self.fewness() == 0.0 {
            return many;
        }
        let rest = (small_window::share(self.window) * self.lost()).min(many);
        let learning = small_window::learning_share(self.window / self.span());
        rest + self.few.unknown() * (learning.max(many) - rest)
    }

    /// How much more is borne where few are in flight and more was once taken: at least 1.
    fn lost(&self) -> f64 {
        let now = self.settled.min(self.window).max(f64::MIN_POSITIVE);
        (self.remembered / now).max(1.0).powi(LOST_POWER)
    }

    fn share_of_many(&self) -> f64 {
        SHARE / (self.window + SHARE_OFFSET).powf(SHARE_POWER)
    }

    /// Whether capacity was lost that may come back.
    fn is_sought(&self) -> bool {
        let is_lost = self.settled + LOST_REQUESTS < LOST * self.remembered;
        is_lost && self.window < self.remembered
    }

    /// How far the window is one of few requests: from 0 to 1. Not at all before the first refusal,
    /// nor where lost capacity is sought.
    fn fewness(&self) -> f64 {
        if FEW <= self.window || self.refusal == 0.0 || self.is_sought() {
            return 0.0;
        }
        (1.0 - small_window::share(self.window) / self.share_of_many()).max(0.0)
    }

    /// What a refusal takes, in requests.
    fn cut(&self) -> f64 {
        let whole = (CUT + CUT_SMALL / (self.window + SHARE_OFFSET)).min(1.0);
        let many = whole * (self.window / 2.0).min(1.0);
        let few = many.min(self.few.cut() * self.window);
        many + self.fewness() * (few - many)
    }
}
