//! What a run was: its phases, and what was served and in flight, step by step. Other programs
//! write the same, as JSON, so that all are told and drawn alike.

use std::time::Duration;

use fader_history::object::Log;
use serde::{Deserialize, Serialize};

use super::Lap;
use crate::generator::nanoseconds;
use crate::{Axis, Plot, Scale, Series};

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Who sent.
    pub client: String,
    /// To how many addresses.
    pub addresses: usize,
    /// How many items.
    pub items: u32,
    /// Seconds of a step.
    pub step_s: f64,
    /// Requests answered in each step.
    pub served: Vec<u64>,
    /// Requests in flight at the end of each step, and so connections in use.
    pub connections: Vec<u32>,
    /// The five phases.
    pub phases: Vec<Phase>,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Seconds from the start of the run to its start.
    pub start_s: f64,
    /// The same to its end.
    pub end_s: f64,
    /// Requests answered.
    pub answered: u64,
    /// Attempts refused for overload.
    pub refused: u64,
    /// Requests that were given up.
    pub given_up: u64,
    /// Answers that were not what had been put, and items that a query should have found, or not.
    pub unexpected: u64,
}

/// What the seed tells of a phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArticlePhase {
    /// The phase.
    pub(super) name: &'static str,
    /// About how many seconds it took.
    pub(super) seconds: f64,
    /// Requests a second, in its words.
    pub(super) rate: &'static str,
}

/// The article's run: 10,000 items, EC2, 2008, one address of SimpleDB.
pub(super) const SEED: [ArticlePhase; 5] = [
    seed("put", 120.0, "50-100"),
    seed("query all, get one", 9.0, "1300"),
    seed("query one, get the other", 5.0, "1300"),
    seed("query both, get both", 7.0, "1300"),
    seed("delete", 110.0, "50-100"),
];

const fn seed(name: &'static str, seconds: f64, rate: &'static str) -> ArticlePhase {
    ArticlePhase {
        name,
        seconds,
        rate,
    }
}

impl Phase {
    /// A phase as the log tells it: what returned in its time.
    pub(super) fn of(lap: &Lap, log: &Log) -> Phase {
        let [start, end] = [lap.start, lap.end].map(nanoseconds);
        let returned = log.operations.iter();
        let returned = returned.filter(|one| (start..=end).contains(&one.returned().nanos));
        let (answered, given_up): (Vec<_>, Vec<_>) = returned.partition(|one| one.done().is_some());
        Phase {
            name: lap.name.to_owned(),
            start_s: lap.start.as_secs_f64(),
            end_s: lap.end.as_secs_f64(),
            answered: answered.len() as u64,
            refused: lap.refused,
            given_up: given_up.len() as u64,
            unexpected: lap.unexpected,
        }
    }
}

/// How many requests of a log were answered in each of so many steps.
pub(super) fn served(log: &Log, step: Duration, steps: usize) -> Vec<u64> {
    let mut served = vec![0; steps];
    for (returned, _) in log.operations.iter().filter_map(|one| one.done()) {
        let at = returned.nanos / nanoseconds(step);
        if let Some(count) = served.get_mut(at as usize) {
            *count += 1;
        }
    }
    served
}

impl Recording {
    /// Whether every request was answered, and as it should be.
    pub fn is_right(&self) -> bool {
        let mut phases = self.phases.iter();
        phases.all(|phase| phase.given_up == 0 && phase.unexpected == 0)
    }

    /// Requests in flight on average, from one second of the run to another.
    fn mean_connections(&self, from_s: f64, to_s: f64) -> f64 {
        let at = |second: f64| (second / self.step_s) as usize;
        let last = at(to_s).max(at(from_s) + 1).min(self.connections.len());
        let part = &self.connections[at(from_s).min(last)..last];
        part.iter().copied().map(f64::from).sum::<f64>() / part.len().max(1) as f64
    }

    /// The phases as lines of text, beside the article's.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}, {} items, {} {}\n{:<26}{:>9}{:>9}{:>9}{:>10}{:>9}{:>7}{:>12}  the seed\n",
            self.client,
            self.items,
            self.addresses,
            if self.addresses == 1 {
                "address"
            } else {
                "addresses"
            },
            "phase",
            "requests",
            "seconds",
            "a second",
            "refused %",
            "given up",
            "wrong",
            "connections",
        );
        for (phase, seed) in self.phases.iter().zip(SEED) {
            let seconds = phase.end_s - phase.start_s;
            let attempts = (phase.answered + phase.refused).max(1);
            text += &format!(
                "{:<26}{:>9}{:>9.1}{:>9.0}{:>10.2}{:>9}{:>7}{:>12.1}  {} s, {} a second\n",
                phase.name,
                phase.answered,
                seconds,
                phase.answered as f64 / seconds,
                phase.refused as f64 * 100.0 / attempts as f64,
                phase.given_up,
                phase.unexpected,
                self.mean_connections(phase.start_s, phase.end_s),
                seed.seconds,
                seed.rate,
            );
        }
        text
    }
}

/// The article's plot of a run: requests served a second in green, connections in red.
pub fn chart(recording: &Recording) -> String {
    let total = recording.served.len() as f64 * recording.step_s;
    // A point a second, as the seed; of a run of seconds each step.
    let group = match 20.0 < total {
        true => (1.0 / recording.step_s).round().max(1.0) as usize,
        false => 1,
    };
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let points = |values: &[f64]| {
        let groups = values.chunks(group).enumerate();
        let at = |index: usize| (index * group) as f64 * recording.step_s;
        groups
            .map(|(index, part)| (at(index), mean(part)))
            .collect()
    };
    let rates: Vec<f64> = recording
        .served
        .iter()
        .map(|count| *count as f64 / recording.step_s)
        .collect();
    let connections: Vec<f64> = recording
        .connections
        .iter()
        .copied()
        .map(f64::from)
        .collect();
    let plot = Plot {
        title: format!("{}: the article's five phases", recording.client),
        x: Axis {
            label: "seconds".to_owned(),
            scale: Scale::Linear,
        },
        y: Axis {
            label: "requests served a second; connections".to_owned(),
            scale: Scale::Linear,
        },
        series: vec![
            Series {
                name: "requests a second".to_owned(),
                points: points(&rates),
            },
            Series {
                name: "connections".to_owned(),
                points: points(&connections),
            },
        ],
    };
    plot.svg_in(&["#009e73", "#d5301e"])
}
