//! A step beside others: a run of this program of its own, for that step alone.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::score::Score;
use super::{Ended, SEED};
use crate::command;

/// How long such a step may run: many times as long as it takes.
const LIMIT: Duration = Duration::from_mins(60);

/// What it said, and what it came to.
pub(super) type Output = (String, Ended);

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
