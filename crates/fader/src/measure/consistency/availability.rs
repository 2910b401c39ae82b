//! What each level answers while the head is cut off from the others and from the coordinator, to
//! clients that can reach every member.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use fader_client::SimpleDb;
use serde::Serialize;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::load::{demand, one};

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
}

/// Asks at every level at the same time, before, during and after.
pub(super) async fn measure(cluster: &Cluster) -> Result<Vec<Level>> {
    note_part!("\ravailability ");
    let control = cluster.control();
    let begin = Instant::now();
    let askers: Vec<_> = ASKED
        .into_iter()
        .map(|(_, is_write, level)| {
            let client = cluster.client.clone();
            tokio::spawn(ask(client, is_write, level, begin))
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
            let some = asked.iter().filter(|(at, _)| from <= *at && *at < to);
            let answers: Vec<bool> = some.map(|(_, is_answered)| *is_answered).collect();
            let answered = answers.iter().filter(|is_answered| **is_answered).count();
            answered as f64 / answers.len() as f64
        };
        levels.push(Level {
            name,
            before: share(Duration::ZERO, cut),
            during: share(cut, healed),
            after: share(healed, Duration::MAX),
        });
    }
    note!();
    Ok(levels)
}

/// When each request began, and whether it was answered in time.
async fn ask(
    client: Arc<SimpleDb>,
    is_write: bool,
    level: &'static str,
    begin: Instant,
) -> Result<Vec<(Duration, bool)>> {
    let mut tasks = JoinSet::new();
    let mut ticks = tokio::time::interval(PERIOD);
    let mut number = 0;
    while begin.elapsed() < BEFORE + PARTITION + AFTER {
        ticks.tick().await;
        let client = client.clone();
        number += 1;
        tasks.spawn(async move {
            let at = begin.elapsed();
            // Items of its own: levels do not wait for each other.
            let item = format!("{level} {is_write}");
            let asked = one(&client, is_write, &item, number, demand(level)?);
            let answer = tokio::time::timeout(PATIENCE, asked).await;
            anyhow::Ok((at, matches!(answer, Ok(Ok(())))))
        });
    }
    let mut asked = Vec::new();
    while let Some(done) = tasks.join_next().await {
        asked.push(done??);
    }
    Ok(asked)
}
