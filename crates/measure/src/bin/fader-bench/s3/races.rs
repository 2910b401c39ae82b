//! Clients that put one key at the same time, each under a condition that only one can meet.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use fader_client::{ErrorKind, S3, S3Request};
use fader_measure::Interval;
use hyper::Method;
use tokio::task::JoinSet;

use super::{BUCKET, finding};
use crate::report::{Finding, Target};

const CLIENTS: u64 = 64;

/// Rounds, and those that had one winner.
pub(super) struct Races {
    rounds: u64,
    won_once: u64,
}

impl Races {
    pub(super) fn findings(&self) -> Vec<Finding> {
        let share = self.won_once as f64 / self.rounds.max(1) as f64;
        let name = format!("{CLIENTS} clients put one key: rounds with one winner");
        vec![finding(name, Interval::single(share), Target::AtLeast(1.0))]
    }
}

/// So many rounds of `If-None-Match: *` on a new key, and as many of `If-Match` on it.
pub(super) async fn run(client: &Arc<S3>, rounds: u64) -> Result<Races> {
    let mut races = Races {
        rounds: 2 * rounds,
        won_once: 0,
    };
    for round in 0..rounds {
        let key = format!("race/{round:08}");
        races.won_once += u64::from(winners(client, &key, ("if-none-match", "*")).await? == 1);
        let head = client
            .call(S3Request::new(Method::HEAD, BUCKET, &key))
            .await?;
        let etag = head.header("etag").to_owned();
        races.won_once += u64::from(winners(client, &key, ("if-match", &etag)).await? == 1);
    }
    Ok(races)
}

async fn winners(client: &Arc<S3>, key: &str, condition: (&str, &str)) -> Result<usize> {
    let mut clients: JoinSet<Result<bool>> = JoinSet::new();
    for number in 0..CLIENTS {
        let (client, key) = (Arc::clone(client), key.to_owned());
        let (name, value) = (condition.0.to_owned(), condition.1.to_owned());
        clients.spawn(async move {
            let headers = [(name.as_str(), value.as_str())];
            let request = S3Request {
                headers: &headers,
                // Other bytes of each client: equal bytes would have equal ETags.
                body: Bytes::from(format!("{name} {number}")),
                ..S3Request::new(Method::PUT, BUCKET, &key)
            };
            match client.call(request).await {
                Ok(_) => Ok(true),
                Err(error) => match error.kind {
                    ErrorKind::Refused { status: 412, .. } => Ok(false),
                    _ => Err(error.into()),
                },
            }
        });
    }
    let mut won = 0;
    while let Some(ended) = clients.join_next().await {
        won += usize::from(ended.context("a client panicked")??);
    }
    Ok(won)
}
