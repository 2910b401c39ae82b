//! Any caller and any service: what must hold of both rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use crate::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    Submit {
        deadline_ms: Option<u64>,
        is_repeatable: bool,
    },
    /// One in flight, by its place, ends so.
    Report(usize, u8),
    /// One waiting or in flight.
    Cancel(usize),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (proptest::option::of(1_u64..2_000), any::<bool>()).prop_map(
            |(deadline_ms, is_repeatable)| Event::Submit { deadline_ms, is_repeatable }
        ),
        8 => (any::<usize>(), 0_u8..9).prop_map(|(place, how)| Event::Report(place, how)),
        1 => any::<usize>().prop_map(Event::Cancel),
        4 => (0_u64..200).prop_map(Event::Wait),
    ]
}

/// A caller that keeps its own books.
struct Caller {
    now: Time,
    window: Window,
    waiting: BTreeSet<RequestId>,
    in_flight: Vec<RequestId>,
    attempts: BTreeMap<RequestId, u32>,
    retries: u64,
    answers: u64,
    next: u64,
}

impl Caller {
    fn new(rule: Rule, seed: u64) -> Caller {
        let settings = Settings {
            rule,
            seed,
            ..Settings::default()
        };
        Caller {
            now: Time(0),
            window: Window::new(settings),
            waiting: BTreeSet::new(),
            in_flight: Vec::new(),
            attempts: BTreeMap::new(),
            retries: 0,
            answers: 0,
            next: 0,
        }
    }

    fn step(&mut self, input: Input) {
        // Sends are decided on the limit after the input.
        let mut effects = Vec::new();
        self.window.step(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { id, attempt } => {
                    assert!(self.waiting.remove(&id), "sent what did not wait");
                    let attempts = self.attempts.entry(id).or_default();
                    *attempts += 1;
                    assert_eq!(*attempts, attempt);
                    assert!(attempt <= 5, "sent too often");
                    self.in_flight.push(id);
                    let state = self.window.state();
                    assert!(
                        self.in_flight.len() <= state.limit as usize,
                        "over the limit"
                    );
                }
                Effect::Fail { id, .. } => {
                    assert!(self.waiting.remove(&id), "failed what did not wait");
                }
            }
        }
        let state = self.window.state();
        assert_eq!(
            state.in_flight as usize,
            self.in_flight.len(),
            "a permit leaked"
        );
        assert_eq!(state.waiting, self.waiting.len(), "a request was lost");
        assert!(0.0 < state.window && state.window <= 100_000.0);
        // Progress: what waits will be sent, given up, or waits for a report.
        if !self.waiting.is_empty() && self.in_flight.is_empty() {
            assert!(self.window.wake_at().is_some(), "stuck");
        }
    }

    fn perform(&mut self, event: &Event) {
        match event {
            Event::Submit {
                deadline_ms,
                is_repeatable,
            } => {
                self.next += 1;
                let id = RequestId(self.next);
                self.waiting.insert(id);
                self.step(Input::Submit(Request {
                    id,
                    deadline: deadline_ms.map(|ms| self.now.after(Duration::from_millis(ms))),
                    is_repeatable: *is_repeatable,
                }));
            }
            Event::Report(place, how) => {
                if self.in_flight.is_empty() {
                    return;
                }
                let id = self.in_flight.remove(place % self.in_flight.len());
                let outcome = match how {
                    0 => Outcome::Overload { retry_after: None },
                    1 => Outcome::Overload {
                        retry_after: Some(Duration::from_millis(70)),
                    },
                    2 => Outcome::Timeout,
                    3 => Outcome::Error,
                    4 => Outcome::Unsent,
                    _ => Outcome::Ok,
                };
                match outcome {
                    Outcome::Ok => self.answers += 1,
                    // It waits again, unless it fails.
                    _ => drop(self.waiting.insert(id)),
                }
                self.step(Input::Report { id, outcome });
                let is_waiting = self.waiting.contains(&id) || self.in_flight.contains(&id);
                let is_failure =
                    matches!(outcome, Outcome::Timeout | Outcome::Error | Outcome::Unsent);
                if is_failure && is_waiting {
                    self.retries += 1;
                }
            }
            Event::Cancel(place) => {
                let all = self.waiting.iter().chain(&self.in_flight);
                let all: Vec<RequestId> = all.copied().collect();
                if let Some(id) = all.get(place % all.len().max(1)).copied() {
                    self.waiting.remove(&id);
                    self.in_flight.retain(|it| *it != id);
                    self.step(Input::Cancel(id));
                }
            }
            Event::Wait(milliseconds) => {
                let end = self.now.after(Duration::from_millis(*milliseconds));
                while let Some(at) = self.window.wake_at()
                    && at <= end
                {
                    self.now = self.now.max(at);
                    self.step(Input::Tick);
                    let later = self.window.wake_at();
                    assert!(
                        later.is_none_or(|later| self.now < later),
                        "woken for nothing"
                    );
                }
                self.now = end;
            }
        }
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![Just(Rule::Adaptive), Just(Rule::Aimd)]
}

proptest! {
    /// Limits, permits, books and progress, in all cases; retries stay in their budget.
    #[test]
    fn a_window_keeps_its_books(
        rule in rule(),
        seed in any::<u64>(),
        events in proptest::collection::vec(event(), 0..400),
    ) {
        let mut caller = Caller::new(rule, seed);
        for event in &events {
            caller.perform(event);
        }
        prop_assert!(caller.retries <= 100 + caller.answers / 10 + 1);
    }

    /// However badly a service behaved: once it answers, everything that waits is answered.
    #[test]
    fn everything_ends_once_the_service_answers(
        rule in rule(),
        seed in any::<u64>(),
        events in proptest::collection::vec(event(), 0..200),
    ) {
        let mut caller = Caller::new(rule, seed);
        for event in &events {
            caller.perform(event);
        }
        for _ in 0..10_000 {
            if caller.waiting.is_empty() && caller.in_flight.is_empty() {
                break;
            }
            caller.perform(&Event::Wait(100));
            for _ in 0..caller.in_flight.len() {
                caller.perform(&Event::Report(0, 7));
            }
        }
        prop_assert!(caller.waiting.is_empty() && caller.in_flight.is_empty());
    }

    /// In the seed, many failures of one window cut as one does, and late ones do not cut again.
    #[test]
    fn the_seeds_cut_is_idempotent(size in 2_u64..60, failures in 1_usize..60) {
        let mut caller = Caller::new(Rule::Aimd, 0);
        for _ in 0..4_000 {
            caller.perform(&Event::Submit { deadline_ms: None, is_repeatable: true });
        }
        while caller.window.state().window < size as f64 {
            caller.perform(&Event::Report(0, 7));
        }
        let issued = caller.window.state().limit;
        let flying = caller.in_flight.clone();
        for id in flying.iter().take(failures) {
            let place = caller.in_flight.iter().position(|it| it == id);
            caller.perform(&Event::Report(place.unwrap(), 0));
        }
        let least = (f64::from(issued) / 2.0 - 1.0).max(1.0);
        prop_assert!(caller.window.state().window <= f64::from(issued) / 2.0 + 1.0);
        prop_assert!(flying.len() < 4 || least / 2.0 <= caller.window.state().window);
    }
}
