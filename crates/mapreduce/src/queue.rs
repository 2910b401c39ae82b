//! The shuffle `queue`, faithful to Cloud MapReduce: pairs go from map to reduce tasks as messages,
//! by a queue for each partition.
//!
//! A reducer removes no message: another attempt may need it. Queues go when the job is over.
//!
//! Invariants:
//! - QUEUE-4 an attempt commits after all its messages were acknowledged.
//! - QUEUE-5 an empty receive proves nothing: the counts of the winners' manifests do.

use std::time::Duration;

use bytes::Bytes;
use fader_cloud::{ErrorKind, MESSAGE_BYTES_MAX, MESSAGES_MAX, Receive, Received};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::commit::{Attempt, Manifest, key};
use crate::failure::{Failure, Outcome};
use crate::guard::Guard;
use crate::messages::{self, CONTENT_BYTES, Content, Expected, Gather, Sent, Tag, Taken};
use crate::mutant;
use crate::reduce::{List, Place, Source};
use crate::rows::{Phase, Task};
use crate::shuffle::Segment;
use crate::store::is_passing;

/// Messages of a partition, at most: about as many may be received and not removed.
const QUEUE_MESSAGES_MAX: u64 = 100_000;
/// Partitions that are sent to at once, at most.
const SENDS: usize = 16;
/// Receives under way at once, at most.
const RECEIVES: usize = 8;

/// Calls of messages under way at once: each holds its messages twice, as text and on the wire.
fn calls(memory: usize, call_bytes: usize, most: usize) -> usize {
    (memory / 8 / (2 * call_bytes)).clamp(1, most)
}

/// How long a receive waits for a message.
const WAIT: Duration = Duration::from_secs(1);
/// An attempt that gets nothing new for so long, beyond the visibility, fails.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Sends the runs of a segment, each to the queue of its partition.
pub(crate) async fn send(
    attempt: &Attempt<'_>,
    segment: &Segment,
    manifest: &mut Manifest,
) -> Outcome<()> {
    let first = |partition: usize| {
        let before = manifest.sent.iter().filter_map(|sent| sent.get(partition));
        before.map(|sent| sent.messages).sum::<u64>()
    };
    let sends = segment.runs.iter().enumerate().map(|(partition, run)| {
        let (from, sequence) = (run.offset as usize, first(partition));
        let bytes = segment.bytes.slice(from..from + run.bytes as usize);
        async move {
            let messages = send_run(attempt, partition as u32, sequence, &bytes).await?;
            if QUEUE_MESSAGES_MAX < sequence + messages {
                let text = format!(
                    "partition {partition} has more than {QUEUE_MESSAGES_MAX} messages: take more \
                     reduce tasks, or the shuffle object"
                );
                return Err(Failure::Job(text));
            }
            Ok(Sent {
                messages,
                bytes: run.bytes,
                records: run.records,
            })
        }
    });
    let sends: Vec<_> = sends.collect();
    let calls = calls(attempt.job.memory, MESSAGE_BYTES_MAX, SENDS);
    let sent = stream::iter(sends).buffered(calls).try_collect().await?;
    manifest.sent.push(sent);
    Ok(())
}

/// Sends a run to its queue; the number of its messages.
async fn send_run(attempt: &Attempt<'_>, partition: u32, first: u64, run: &Bytes) -> Outcome<u64> {
    let queue = attempt.job.rows.partition_queue(partition);
    let task = attempt.task.to_string();
    let (mut bodies, mut bytes, mut sequence) = (Vec::new(), 0, first);
    for content in messages::cut(run)? {
        let blocks = run.slice(content);
        let tag = Tag {
            task: &task,
            attempt: &attempt.id,
            sequence,
        };
        let body = match blocks.len() <= CONTENT_BYTES {
            true => tag.of_blocks(&blocks),
            false => {
                let name = format!("s-{partition}-{sequence}");
                let size = blocks.len();
                attempt.keep(&name, blocks).await?;
                tag.of_object(&name, size)
            }
        };
        if bodies.len() == MESSAGES_MAX || MESSAGE_BYTES_MAX < bytes + body.len() {
            attempt.send(&queue, std::mem::take(&mut bodies)).await?;
            bytes = 0;
        }
        bytes += body.len();
        bodies.push(body);
        sequence += 1;
    }
    if !bodies.is_empty() {
        attempt.send(&queue, bodies).await?;
    }
    Ok(sequence - first)
}

/// The runs of the attempt's partition, gathered from its queue.
pub(crate) async fn gather(attempt: &Attempt<'_>, list: &List) -> Outcome<Vec<Source>> {
    let job = attempt.job;
    let expected = expected(attempt, list).await?;
    let mut gather = Gather::new(expected, job.output.guards);
    let clock = &attempt.store.0.runtime.clock;
    let (mut last, mut held, mut kept) = (clock.monotonic(), 0, 0);
    while 0 < gather.missing() {
        let received = receive(attempt, gather.missing()).await?;
        if received.is_empty() && !job.has(Guard::MessagesCounted) {
            break;
        }
        let mut is_new = false;
        for message in received {
            let taken = gather.take(&message.body)?;
            if taken == Taken::New {
                is_new = true;
                held += message.body.len() / 4 * 3;
            }
            let goes = match taken {
                Taken::New => !job.has(Guard::WinnersMessagesStay),
                Taken::Repeat => !job.has(Guard::RepeatsStay),
                Taken::Losers => false,
            };
            if goes {
                mutant::remove(attempt, &message).await;
            }
        }
        if job.memory / 4 < held {
            let name = format!("q-{kept}");
            let bytes = gather.keep(&name);
            attempt.keep(&name, bytes.into()).await?;
            (held, kept) = (0, kept + 1);
        }
        let now = clock.monotonic();
        let patience = job.rows.visibility() + PATIENCE;
        if is_new {
            last = now;
        } else if patience < now.saturating_sub(last) && job.has(Guard::GiveUp) {
            let (missing, time) = (gather.missing(), patience.as_secs());
            let text = format!("{missing} messages of map tasks did not come for {time} s");
            return Err(Failure::task(text));
        }
    }
    if !job.has(Guard::QueueAfterWinner) {
        let queue = job.rows.partition_queue(attempt.task.number);
        drop(attempt.store.0.queues.delete(&queue).await);
    }
    let runs = gather.runs().into_iter();
    runs.map(|(winner, sent, contents)| source(attempt, &winner, sent, contents))
        .collect()
}

/// What the winners sent to the attempt's partition.
async fn expected(attempt: &Attempt<'_>, list: &List) -> Outcome<Vec<Expected>> {
    let job = attempt.job;
    let partition = attempt.task.number as usize;
    let mut counted = Vec::new();
    if !job.has(Guard::WinnersCounts) {
        counted = mutant::all_attempts(job, list).await?;
    }
    let mut all = Vec::new();
    for (winner, number) in list.maps.iter().zip(0..) {
        let task = Phase::Map.task(number);
        let other = counted.iter().find(|(of, ..)| *of == task);
        let manifest = other.map_or(&winner.manifest, |(_, _, manifest)| manifest);
        let sent = manifest
            .sent
            .iter()
            .map(|sent| sent.get(partition).copied());
        let sent: Option<Vec<Sent>> = sent.collect();
        let sent = sent.ok_or_else(|| Failure::task("a manifest lacks a partition"))?;
        all.push(Expected {
            task: task.to_string(),
            attempt: winner.attempt.clone(),
            sent,
        });
    }
    Ok(all)
}

/// Some messages of the partition, by several receives at once where many are missing.
async fn receive(attempt: &Attempt<'_>, missing: u64) -> Outcome<Vec<Received>> {
    let rows = &attempt.job.rows;
    let queue = rows.partition_queue(attempt.task.number);
    let how = Receive {
        max: MESSAGES_MAX,
        visibility: Some(rows.visibility()),
        wait: WAIT,
    };
    let bytes = MESSAGES_MAX * MESSAGE_BYTES_MAX;
    let calls = calls(attempt.job.memory, bytes, RECEIVES) as u64;
    let count = missing.div_ceil(MESSAGES_MAX as u64).clamp(1, calls);
    let receives = (0..count).map(|_| attempt.store.0.queues.receive(&queue, &how));
    let (mut all, mut is_refused) = (Vec::new(), false);
    for received in join_all(receives).await {
        match received {
            Ok(received) => all.extend(received),
            Err(error) if is_passing(&error) => is_refused = true,
            Err(error) if error.kind == ErrorKind::NotFound => {
                return Err(Failure::task(format!("queue {queue} is gone")));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if is_refused {
        attempt.store.pause(4).await;
    }
    Ok(all)
}

fn source(
    attempt: &Attempt<'_>,
    winner: &Expected,
    sent: Sent,
    contents: Vec<Content>,
) -> Outcome<Source> {
    let mut source = Source {
        records: sent.records,
        ..Source::default()
    };
    for content in contents {
        let bytes = content.bytes();
        let place = match content {
            Content::Blocks(blocks) => Place::Memory(blocks),
            Content::Kept(name, at, _) => {
                Place::Object(key(attempt.job.id(), attempt.task, &attempt.id, &name), at)
            }
            Content::Object(name, _) => {
                let task = Task::parse(&winner.task);
                let task = task.ok_or_else(|| Failure::task("a winner without a task"))?;
                Place::Object(key(attempt.job.id(), task, &winner.attempt, &name), 0)
            }
        };
        source.bytes += bytes;
        source.ranges.push((place, bytes));
    }
    Ok(source)
}
