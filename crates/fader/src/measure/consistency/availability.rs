//! What each level answers while the head is cut off from the others and from the coordinator, to
//! clients that can reach every member. It tells the share of answered requests, and the longest
//! time without an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use fader_history::object::{Outcome, Request, Value, Verb};
use fader_measure::{InSimpleDb, Provider};
use serde::Serialize;
use tokio::task::JoinSet;

use super::cluster::Cluster;

/// How long the partition lasts, and after it.
const PARTITION: Duration = Duration::from_secs(6);
const AFTER: Duration = Duration::from_secs(2);
const BEFORE: Duration = Duration::from_secs(1);
/// Between a level's requests.
const PERIOD: Duration = Duration::from_millis(50);
/// What is not answered within this time is not available.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is asked, by name.
const ASKED: [(&str, bool, &str); 7] = [
    ("strong read", false, "strong"),
    ("strong write", true, "strong"),
    ("eventual read, R = 2", false, "eventual; r=2"),
    ("eventual write, W = 2", true, "eventual; w=2"),
    ("eventual read, R = 1", false, "eventual"),
    ("eventual write, W = 1", true, "eventual; w=1"),
    ("eventual write, sloppy", true, "eventual; sloppy"),
];

/// One level.
#[derive(Serialize)]
pub(super) struct Level {
    pub(super) name: &'static str,
    /// Requests that were answered in a second, of those that began before the partition.
    pub(super) before: f64,
    /// Of those that began while it lasted.
    pub(super) during: f64,
    /// Of those that began after it.
    pub(super) after: f64,
    /// The longest time without an answer while it lasted, in seconds.
    pub(super) longest_gap_s: f64,
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// When it began.
    begun: Duration,
    /// When it was answered; none if it was not answered in time, or refused.
    answered: Option<Duration>,
}

/// Asks at every level at the same time, before, during and after.
pub(super) async fn measure(cluster: &Cluster) -> Result<Vec<Level>> {
    note_part!("\ravailability ");
    let control = cluster.control();
    let begin = Instant::now();
    let askers: Vec<_> = ASKED
        .into_iter()
        .map(|(_, is_write, level)| {
            let objects = cluster.objects.clone();
            tokio::spawn(ask(objects, is_write, level, begin))
        })
        .collect();
    tokio::time::sleep(BEFORE).await;
    let sides = [
        vec!["n2".to_owned(), "n3".to_owned()],
        vec!["n1".to_owned()],
    ];
    control.partition(&sides).await?;
    let cut = begin.elapsed();
    tokio::time::sleep(PARTITION).await;
    control.heal().await?;
    let healed = begin.elapsed();
    let mut levels = Vec::new();
    for (asker, (name, ..)) in askers.into_iter().zip(ASKED) {
        let asked = asker.await??;
        let share = |from: Duration, to: Duration| {
            let some = asked.iter().filter(|it| (from..to).contains(&it.begun));
            let answers: Vec<bool> = some.map(|it| it.answered.is_some()).collect();
            let answered = answers.iter().filter(|is_answered| **is_answered).count();
            answered as f64 / answers.len() as f64
        };
        levels.push(Level {
            name,
            before: share(Duration::ZERO, cut),
            during: share(cut, healed),
            after: share(healed, Duration::MAX),
            longest_gap_s: longest_gap(&asked, cut, healed).as_secs_f64(),
        });
    }
    note!();
    Ok(levels)
}

/// The longest time from one answer to the next within a time; its ends count as answers.
fn longest_gap(asked: &[Asked], from: Duration, to: Duration) -> Duration {
    let answers = asked.iter().filter_map(|it| it.answered);
    let mut answers: Vec<Duration> = answers.filter(|at| (from..to).contains(at)).collect();
    answers.extend([from, to]);
    answers.sort_unstable();
    let gaps = answers.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or_default()
}

/// What became of each request.
async fn ask(
    objects: Arc<InSimpleDb>,
    is_write: bool,
    level: &'static str,
    begin: Instant,
) -> Result<Vec<Asked>> {
    let mut tasks = JoinSet::new();
    let mut ticks = tokio::time::interval(PERIOD);
    let mut number = 0;
    while begin.elapsed() < BEFORE + PARTITION + AFTER {
        ticks.tick().await;
        let objects = objects.clone();
        number += 1;
        let request = Request {
            // Items of its own: levels do not wait for each other.
            key: format!("{level} {is_write}").into(),
            verb: match is_write {
                true => Verb::Write(Value::Number(number)),
                false => Verb::Read,
            },
        };
        tasks.spawn(async move {
            let begun = begin.elapsed();
            let asked = objects.ask(0, &request, level);
            let outcome = tokio::time::timeout(PATIENCE, asked).await;
            let is_answered = matches!(outcome, Ok(Outcome::Done(_)));
            Asked {
                begun,
                answered: is_answered.then(|| begin.elapsed()),
            }
        });
    }
    let mut asked = Vec::new();
    while let Some(done) = tasks.join_next().await {
        asked.push(done?);
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::{Asked, longest_gap};
    use std::time::Duration;

    #[test]
    fn a_gap_is_between_answers_or_to_an_end() {
        let seconds = Duration::from_secs;
        let asked = |answers: &[Option<u64>]| -> Vec<Asked> {
            let asked = |answered: &Option<u64>| Asked {
                begun: Duration::ZERO,
                answered: answered.map(seconds),
            };
            answers.iter().map(asked).collect()
        };
        let gap = |answers: &[Option<u64>]| longest_gap(&asked(answers), seconds(10), seconds(20));
        assert_eq!(gap(&[Some(13), Some(11), Some(17), None]), seconds(4));
        assert_eq!(gap(&[Some(9), Some(15), Some(21)]), seconds(5));
        assert_eq!(gap(&[Some(12)]), seconds(8));
        assert_eq!(gap(&[None]), seconds(10));
    }
}
