//! Queues in the bucket on stage, and the calls of their tests.

use std::time::Duration;

use fader_cloud::bucket::BucketQueues;
use fader_cloud::model::Process;
use fader_cloud::{QueueSettings, Queues, Receipt, Receive, Received};
use object_store::path::Path;

use super::Stage;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// The queues as a process sees them.
pub(crate) fn of(stage: &Stage, process: &Process) -> BucketQueues {
    BucketQueues::new(stage.objects(), Path::from("p"), process.runtime())
}

/// The queues as a new process sees them.
pub(crate) fn new(stage: &Stage, name: &str) -> BucketQueues {
    of(stage, &stage.process(name))
}

/// A new process, and the queue `q` as it sees it.
pub(crate) async fn start(stage: &Stage) -> BucketQueues {
    let queues = new(stage, "one");
    queues.create("q", &QueueSettings::default()).await.unwrap();
    queues
}

pub(crate) fn texts(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("message {number}"))
        .collect()
}

pub(crate) fn now(max: usize, visibility: u64) -> Receive {
    Receive {
        max,
        visibility: Some(Duration::from_secs(visibility)),
        wait: Duration::ZERO,
    }
}

pub(crate) fn waiting(max: usize, visibility: u64, wait: u64) -> Receive {
    Receive {
        wait: Duration::from_secs(wait),
        ..now(max, visibility)
    }
}

pub(crate) async fn send(queues: &BucketQueues, count: usize) -> Vec<String> {
    let sent = queues.send("q", &texts(count)).await.unwrap();
    sent.into_iter().map(Result::unwrap).collect()
}

pub(crate) fn receipts(messages: &[Received]) -> Vec<Receipt> {
    messages
        .iter()
        .map(|message| message.receipt.clone())
        .collect()
}

pub(crate) async fn remove(queues: &BucketQueues, messages: &[Received]) {
    let removed = queues.remove("q", &receipts(messages)).await.unwrap();
    for outcome in removed {
        outcome.unwrap();
    }
}

/// Receives in vain until what is left over is deleted: the turn of a process comes at one of eight
/// lists.
pub(crate) async fn list_in_vain(queues: &BucketQueues) {
    for _ in 0..8 {
        let found = queues.receive("q", &now(10, 5)).await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}
