//! What workers do without a rule, in mutant runs: with all rules in place none of it happens.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use fader_cloud::{Receive, Received};
use object_store::path::Path;

use crate::commit::{Attempt, Manifest, manifest};
use crate::failure::Outcome;
use crate::guard::Guard;
use crate::job::prefix;
use crate::messages::{Content, Expected, Sent};
use crate::reduce::List;
use crate::rows::{Phase, Row, Task};
use crate::store::Store;
use crate::view::Job;

/// What an attempt writes after its winner was put.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Without [`Guard::DataFirst`].
    pub(crate) objects: Vec<(Path, Bytes)>,
    /// Without [`Guard::CommitAfterSends`].
    pub(crate) sends: Vec<(String, Vec<String>)>,
}

impl Late {
    pub(crate) async fn write(self, store: &Store) -> Outcome<()> {
        for (key, bytes) in &self.objects {
            store.put(key, bytes).await?;
        }
        for (queue, bodies) in self.sends {
            store.send(&queue, bodies).await?;
        }
        Ok(())
    }
}

/// What a reducer takes from the messages of the shuffle beside what it should.
#[derive(Debug, Default)]
pub(crate) struct Wrong {
    /// Without [`Guard::AttemptsBits`]: sequences of tasks, for any
    /// attempt.
    pub(crate) seen: HashSet<(String, u64)>,
    /// Without [`Guard::OneOfEach`]: repeats that were taken for new.
    pub(crate) repeats: Vec<Content>,
}

impl Wrong {
    pub(crate) fn runs(self) -> impl Iterator<Item = (Expected, Sent, Vec<Content>)> {
        let repeats = self.repeats.into_iter();
        repeats.map(|content| (Expected::default(), Sent::default(), vec![content]))
    }
}

/// Attempts of all map tasks, winners or not.
pub(crate) async fn all_attempts(job: &Job, list: &List) -> Outcome<Vec<(Task, String, Manifest)>> {
    let mut found = Vec::new();
    for (_, number) in list.maps.iter().zip(0..) {
        let task = Phase::Map.task(number);
        let below = prefix(job.id()).join(task.to_string());
        for meta in job.store().list(Some(&below)).await? {
            let mut parts = meta.location.as_ref().rsplit('/');
            if let (Some("manifest"), Some(id)) = (parts.next(), parts.next()) {
                found.push((task, id.to_owned(), manifest(job, task, id).await?));
            }
        }
    }
    Ok(found)
}

/// The manifests of map attempts that did not win.
pub(crate) async fn losers(job: &Job, list: &List) -> Outcome<Vec<Manifest>> {
    let mut all = all_attempts(job, list).await?;
    all.retain(|(_, id, _)| list.maps.iter().all(|winner| winner.attempt != *id));
    Ok(all.into_iter().map(|it| it.2).collect())
}

/// An attempt of the plan, winner or not.
pub(crate) async fn any_plan(job: &Job) -> Outcome<Option<String>> {
    let below = Path::from(format!("{}/{}", prefix(job.id()), Task::PLAN));
    let listed = job.store().list(Some(&below)).await?;
    let random = job.store().0.runtime.random() as usize;
    let any = listed.get(random % listed.len().max(1));
    let id = |path: &Path| path.as_ref().rsplit('/').nth(1).map(str::to_owned);
    Ok(any.and_then(|meta| id(&meta.location)))
}

/// The winners of a phase that seems to be over.
pub(crate) async fn end_of_phase(
    job: &Job,
    phase: Phase,
    rows: &BTreeMap<u32, Row>,
) -> Option<Vec<(String, u64)>> {
    if !job.has(Guard::AllTasks) && !rows.is_empty() {
        return rows.values().map(Row::lap).collect();
    }
    if job.has(Guard::EmptyIsNoEnd) || phase == Phase::Plan {
        return None;
    }
    let how = Receive {
        max: 1,
        visibility: Some(Duration::ZERO),
        wait: Duration::ZERO,
    };
    let queue = job.rows.queue(phase);
    let received = job.store().0.queues.receive(&queue, &how).await.ok()?;
    let is_empty = received.is_empty();
    is_empty.then(|| rows.values().filter_map(Row::lap).collect())
}

/// Removes a message of the shuffle, which must stay.
pub(crate) async fn remove(attempt: &Attempt<'_>, message: &Received) {
    let queue = attempt.job.rows.partition_queue(attempt.task.number);
    let receipts = [message.receipt.clone()];
    drop(attempt.store.0.queues.remove(&queue, &receipts).await);
}
