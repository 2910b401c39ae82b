//! The language of the scripts.
//!
//! ```text
//! rule seed                   before anything else: the article's rule
//! submit 1 2 3 [lane=puts] [deadline=500] [once]
//!                             requests that want to be sent; `once`: not to be repeated blindly
//! ok 1 · refuse 1 [after=300] · timeout 1 · error 1 · unsent 1 · cancel 1
//! wait 20                     milliseconds pass, each wake-up is followed
//! rounds 10 40 [refused=0.5]  so many times: all in flight end after so many milliseconds, these
//!                             of them refused, and as many new requests are there
//! state                       what is to be seen
//! ```

use std::error::Error;
use std::time::Duration;

use goldenscript::{Command, Context, Runner};

use crate::*;

struct Script {
    now: Time,
    windows: Windows<String>,
    lane: String,
    in_flight: Vec<RequestId>,
    next: u64,
    output: String,
}

/// Runs `testscripts/window/{name}` and compares its output.
#[track_caller]
pub(super) fn check(name: &str) {
    let mut script = Script {
        now: Time(0),
        windows: Windows::new(Settings::default()),
        lane: "gets".into(),
        in_flight: Vec::new(),
        next: 1_000,
        output: String::new(),
    };
    goldenscript::run(&mut script, format!("testscripts/window/{name}")).unwrap();
}

impl Script {
    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.windows.step(self.now, &self.lane, input, &mut effects);
        for effect in effects {
            let at = self.now.0 / 1_000_000;
            match effect {
                Effect::Send { id, attempt } => {
                    self.in_flight.push(id);
                    self.output += &format!("{at} ms: send {}, attempt {attempt}\n", id.0);
                }
                Effect::Fail { id, why } => {
                    self.output += &format!("{at} ms: fail {}, {why:?}\n", id.0);
                }
            }
        }
    }

    fn report(&mut self, id: RequestId, outcome: Outcome) {
        self.in_flight.retain(|it| *it != id);
        self.step(Input::Report { id, outcome });
    }

    fn wait(&mut self, milliseconds: u64) {
        let end = Time(self.now.0 + milliseconds * 1_000_000);
        while let Some((at, lane)) = self.windows.wake_at()
            && at <= end
        {
            self.now = self.now.max(at);
            self.lane = lane.clone();
            self.step(Input::Tick);
        }
        self.now = end;
    }

    /// A service that answers after a time.
    fn rounds(&mut self, count: u64, milliseconds: u64, refused: f64) {
        for _ in 0..count {
            let flying = self.in_flight.clone();
            for _ in 0..2 * flying.len() + 4 {
                self.submit(None, true);
            }
            self.wait(milliseconds);
            let spared = (flying.len() as f64 * (1.0 - refused)).round() as usize;
            for (index, id) in flying.into_iter().enumerate() {
                let outcome = match index < spared {
                    true => Outcome::Ok,
                    false => Outcome::Overload { retry_after: None },
                };
                self.report(id, outcome);
            }
        }
        self.output.clear();
    }

    fn submit(&mut self, deadline: Option<Time>, is_repeatable: bool) {
        self.next += 1;
        let id = RequestId(self.next);
        self.step(Input::Submit(Request {
            id,
            deadline,
            is_repeatable,
        }));
    }

    fn state(&mut self) {
        for (lane, state) in self.windows.states() {
            let counts = state.counts;
            self.output += &format!(
                "{lane}: window {:.2}, limit {}, {} in flight, {} waiting, every {:.1} ms\n",
                state.window,
                state.limit,
                state.in_flight,
                state.waiting,
                state.interval.as_secs_f64() * 1e3,
            );
            self.output += &format!(
                "  {} sent, {} ok, {} refused, {} late, {} errors, {} failed\n",
                counts.sent,
                counts.ok,
                counts.overload,
                counts.timeout,
                counts.error,
                counts.failed
            );
        }
    }
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let number = |text: Option<&str>| -> Result<Option<u64>, Box<dyn Error>> {
            Ok(text.map(str::parse).transpose()?)
        };
        let lane = args.take_key("lane").unwrap_or("gets").to_owned();
        let deadline = number(args.take_key("deadline"))?;
        let after = number(args.take_key("after"))?.map(Duration::from_millis);
        let refused: f64 = args.take_key("refused").unwrap_or("0").parse()?;
        let mut words = Vec::new();
        while let Some(word) = args.next_pos() {
            words.push(word.to_owned());
        }
        args.reject_next()?;
        self.lane = lane;
        let is_repeatable = !words.iter().any(|word| word == "once");
        words.retain(|word| word != "once");
        let numbers: Vec<u64> = match command.name.as_str() {
            "rule" => Vec::new(),
            _ => words
                .iter()
                .map(|word| word.parse())
                .collect::<Result<_, _>>()?,
        };
        match command.name.as_str() {
            "rule" => {
                let rule = Rule::Aimd;
                self.windows = Windows::new(Settings {
                    rule,
                    ..Settings::default()
                });
            }
            "wait" => self.wait(numbers[0]),
            "rounds" => self.rounds(numbers[0], numbers[1], refused),
            "state" => self.state(),
            name => {
                for number in numbers {
                    let id = RequestId(number);
                    match name {
                        "submit" => self.step(Input::Submit(Request {
                            id,
                            deadline: deadline.map(|at| Time(at * 1_000_000)),
                            is_repeatable,
                        })),
                        "ok" => self.report(id, Outcome::Ok),
                        "refuse" => self.report(id, Outcome::Overload { retry_after: after }),
                        "timeout" => self.report(id, Outcome::Timeout),
                        "error" => self.report(id, Outcome::Error),
                        "unsent" => self.report(id, Outcome::Unsent),
                        "cancel" => {
                            self.in_flight.retain(|it| *it != id);
                            self.step(Input::Cancel(id));
                        }
                        _ => return Err(format!("what is {name}?").into()),
                    }
                }
            }
        }
        Ok(std::mem::take(&mut self.output))
    }
}
