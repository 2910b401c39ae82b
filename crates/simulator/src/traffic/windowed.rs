//! Clients that are driven by `fader_window`.

use fader_window::{Effect, Input, Outcome, Request, RequestId, Rule, Settings, Time, Window};
use std::time::Duration;

use super::client::{Client, Reply, Turn};
use super::scenario::Moment;

/// Of an endless supply so many requests wait at the window.
const WAITING: usize = 64;

pub(super) struct Windowed {
    window: Window,
    effects: Vec<Effect>,
}

impl Windowed {
    pub(super) fn new(rule: Rule, seed: u64) -> Windowed {
        Windowed {
            window: Window::new(Settings {
                rule,
                seed,
                ..Settings::default()
            }),
            effects: Vec::new(),
        }
    }

    fn step(&mut self, turn: &mut Turn<'_>, input: Input) {
        self.window.step(Time(turn.now), input, &mut self.effects);
    }

    fn finish(&mut self, turn: &mut Turn<'_>) {
        while self.window.state().waiting < WAITING {
            let Some(request) = turn.work.take() else {
                break;
            };
            let request = Request {
                id: RequestId(u64::from(request)),
                deadline: None,
                is_repeatable: true,
            };
            self.step(turn, Input::Submit(request));
        }
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Send { id, .. } => turn.sends.push(id.0 as u32),
                Effect::Fail { id, .. } => turn.failures.push(id.0 as u32),
            }
        }
        turn.wake = self.window.wake_at().map(|at| at.0);
    }
}

impl Client for Windowed {
    fn turn(&mut self, turn: &mut Turn<'_>) {
        self.step(turn, Input::Tick);
        self.finish(turn);
    }

    fn reply(&mut self, turn: &mut Turn<'_>, request: u32, _sent: Moment, reply: Reply) {
        let id = RequestId(u64::from(request));
        let outcome = match reply {
            Reply::Ok => Outcome::Ok,
            Reply::Refused(after) => Outcome::Overload {
                retry_after: after.map(|after| Duration::from_millis(u64::from(after))),
            },
            Reply::Error => Outcome::Error,
            Reply::Timeout => Outcome::Timeout,
        };
        self.step(turn, Input::Report { id, outcome });
        self.finish(turn);
    }
}
