//! Steps beside others: one after the other, each a run of this program of its own.
//!
//! Invariant: a step begins when those before it have ended, and not at all if one that it
//! needs has failed.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use super::score::Score;
use super::{Ended, SEED, Step, is_to_begin};
use crate::command;

/// How long such a step may run: many times as long as it takes.
const LIMIT: Duration = Duration::from_mins(60);

/// What a step said, and what it came to.
pub(super) type Output = (String, Ended);

/// The steps beside others of one run.
pub(super) struct Besides {
    steps: Sender<&'static Step>,
    /// Nothing of a step that did not begin.
    outputs: Receiver<Option<Output>>,
    /// How many outputs are still to come.
    running: usize,
}

impl Besides {
    /// None so far. Each will be run so.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        run: impl Fn(&'static Step) -> Output + Send + 'scope,
    ) -> Besides {
        let (steps, asked) = mpsc::channel::<&'static Step>();
        let (told, outputs) = mpsc::channel();
        scope.spawn(move || {
            let mut failed = Vec::new();
            for step in asked {
                let output = is_to_begin(step, &failed).then(|| run(step));
                if let Some((_, ended)) = &output
                    && ended.score.failed != 0
                {
                    failed.push(step.name);
                }
                if told.send(output).is_err() {
                    return;
                }
            }
        });
        Besides {
            steps,
            outputs,
            running: 0,
        }
    }

    /// Begins a step, after those that were begun before.
    pub(super) fn begin(&mut self, step: &'static Step) -> Result<()> {
        println!("\n{} runs beside what follows", step.name);
        self.running += 1;
        self.steps.send(step).map_err(|_| stopped())
    }

    /// The next step that has ended, printed. None when none has.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        while let Ok(output) = self.outputs.try_recv() {
            self.running -= 1;
            if let Some(output) = output {
                return Some(printed(output));
            }
        }
        None
    }

    /// Waits for the next step that ends, and prints it. None when all have ended.
    pub(super) fn next(&mut self) -> Result<Option<Ended>> {
        while self.running != 0 {
            let output = self.outputs.recv().map_err(|_| stopped())?;
            self.running -= 1;
            if let Some(output) = output {
                return Ok(Some(printed(output)));
            }
        }
        Ok(None)
    }
}

fn stopped() -> anyhow::Error {
    anyhow!("what runs steps beside others has stopped")
}

fn printed(output: Output) -> Ended {
    let (said, ended) = output;
    println!("\n--- {} ---\n{said}", ended.name);
    ended.print();
    ended
}

/// Runs a step to its end, at the lowest priority, from this seed.
pub(super) fn run(step: &'static str, seed: u64) -> Output {
    let start = Instant::now();
    let (said, is_good) = output(step, seed).unwrap_or_else(|error| (format!("{error:#}"), false));
    let (said, score) = split(step, &said);
    (said, Ended::new(step, score, is_good, start.elapsed()))
}

fn output(step: &str, seed: u64) -> Result<(String, bool)> {
    let program = std::env::current_exe().context("xtask has a path")?;
    let mut run = command::giving_way(&program);
    run.args(["ci", "--only", step]).env(SEED, seed.to_string());
    let kept = command::root().join(format!("target/step-{step}.output"));
    command::output(&mut run, &kept, LIMIT)
}

/// The output of a step that ran by itself, without the summary; and its cases, which the last line
/// of the summary counts.
fn split(step: &str, said: &str) -> (String, Score) {
    let mut score = Score::default();
    if let Some(last) = said.lines().next_back() {
        score.add_summary(last);
    }
    let is_end = |line: &&str| line.starts_with(&format!("{step}: ")) && line.ends_with(" s");
    let end = said.lines().find(is_end);
    let whole = end
        .and_then(|end| said.split_once(end))
        .map_or(said, |(before, _)| before);
    let begin = format!("--- {step} ---");
    let body = whole.split_once(&begin).map_or(whole, |(_, after)| after);
    (body.trim().to_owned(), score)
}

#[cfg(test)]
mod tests;
