//! Sends to a queue at which receives wait.
//!
//! Two pairs. In one, receives wait all the time, for the messages are delayed. In the other,
//! receives are served, as many as messages are sent, with few or many that wait. A receive that is
//! served is a request more, so sends that serve are compared with sends that serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fader_client::Sqs;
use fader_cloud::Queues;
use fader_measure::{median, ratio_of_medians};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{PRODUCERS, bodies, create, finding, receive};
use crate::Options;
use crate::report::{Finding, Target};

/// Receives that wait at one queue.
pub(super) const MANY: usize = 1_000;
/// Longer than any round.
const DELAY_S: &str = "900";

/// Sends a second, of all rounds.
#[derive(Default)]
pub(super) struct Parked {
    one: Vec<f64>,
    many: Vec<f64>,
    served_by_few: Vec<f64>,
    served_by_many: Vec<f64>,
}

pub(super) async fn measure(queues: &Arc<Sqs>, options: &Options) -> Result<Parked> {
    let mut parked = Parked::default();
    for round in 0..options.runs() {
        let sides = [
            (1, DELAY_S, &mut parked.one),
            (MANY, DELAY_S, &mut parked.many),
            (PRODUCERS, "0", &mut parked.served_by_few),
            (MANY, "0", &mut parked.served_by_many),
        ];
        for (waiters, delay_s, rates) in sides {
            let name = format!("parked-{round}-{waiters}-{delay_s}");
            create(queues, &name, &[("DelaySeconds", delay_s)]).await?;
            rates.push(sends(queues, &name, waiters, options.seconds()).await?);
            queues.delete(&name).await?;
        }
    }
    Ok(parked)
}

impl Parked {
    pub(super) fn findings(&self, seed: u64) -> Vec<Finding> {
        vec![
            finding(
                "1,000 parked receives / one: sends a second",
                ratio_of_medians(&self.many, &self.one, seed),
                Target::AtLeast(0.9),
            ),
            finding(
                "sends that serve 1,000 parked receives / 16: sends a second",
                ratio_of_medians(&self.served_by_many, &self.served_by_few, seed),
                Target::AtLeast(0.9),
            ),
        ]
    }

    pub(super) fn note(&self) -> String {
        format!(
            "sends a second where {MANY} receives wait: {:.0}, where one waits: {:.0}; where each \
             send serves one of {MANY}: {:.0}, of {PRODUCERS}: {:.0}",
            median(&self.many),
            median(&self.one),
            median(&self.served_by_many),
            median(&self.served_by_few),
        )
    }
}

/// Sends a second to a queue at which so many receives wait.
async fn sends(queues: &Arc<Sqs>, name: &str, waiters: usize, time: Duration) -> Result<f64> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut parked: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..waiters {
        let (queues, name, is_over) = (Arc::clone(queues), name.to_owned(), Arc::clone(&is_over));
        parked.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                queues
                    .receive(&name, &receive(1, Duration::from_secs(20)))
                    .await?;
            }
            Ok(())
        });
    }
    // Until they wait.
    sleep(Duration::from_secs(1)).await;
    let until = Instant::now() + time;
    let begin = Instant::now();
    let mut producers: JoinSet<Result<u64>> = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (queues, name) = (Arc::clone(queues), name.to_owned());
        producers.spawn(async move {
            let mut sent = 0;
            while Instant::now() < until {
                for one in queues.send(&name, &bodies(1)).await? {
                    one?;
                    sent += 1;
                }
            }
            Ok(sent)
        });
    }
    let mut sent = 0;
    while let Some(one) = producers.join_next().await {
        sent += one.context("a producer panicked")??;
    }
    let rate = sent as f64 / begin.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    parked.abort_all();
    while parked.join_next().await.is_some() {}
    Ok(rate)
}
