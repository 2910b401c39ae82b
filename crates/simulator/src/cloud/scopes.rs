//! Small scopes of the bucket services of which every schedule is run.
//!
//! Each is a few processes with a script. Before a script begins its process knows settings and
//! manifest. After all have ended or crashed a fresh process drains the queue, and queue and domain
//! are deleted and swept.

use std::sync::Arc;
use std::time::Duration;

use fader_cloud::bucket::Guard;
use fader_cloud::model::{Model, Process, Profile, Skew};
use fader_cloud::{Clock, QueueSettings, ReadConsistency, Receive};
use futures_util::future::join_all;

use super::actors::{Actor, DOMAIN, QUEUE};
use super::checks::{self, Promise};
use super::history::{Failure, Record};
use super::run::{bucket_domains, bucket_queues, drain, is_drained, leave_nothing, logs};
use super::search::{Budget, Search};

/// A run of more steps than this never ends.
const STEPS_MAX: u64 = 200_000;
/// The age of an eventual read of a domain in a bucket.
const VIEW_AGE: Duration = Duration::from_secs(5);

/// Scopes that take more than five seconds: merges leave them out.
const SLOW: [&str; 5] = [
    "time",
    "write-read-ambiguous",
    "write-crash",
    "refusal",
    "domain-deleted",
];

/// What a process does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// Sends messages together.
    Send(usize),
    /// Receives up to ten messages, for seconds, and removes them.
    Receive(u64),
    /// Receives and removes the first message alone.
    RemoveFirst(u64),
    /// Receives, shows the messages again, and tries to remove them.
    GiveBack,
    /// Looks at up to ten messages and removes them.
    Peek,
    /// Reads the counter, strongly, and writes the next value.
    Count,
    /// Writes the first value, though there may be one.
    First,
    Read,
    ReadEventual,
    /// Writes an item that no other call writes.
    Append,
    /// Reads which items were appended, eventually and then strongly.
    Follow,
    /// Deletes what is left of dead incarnations.
    Sweep,
    DeleteDomain,
    CreateDomain,
    DeleteQueue,
    CreateQueue,
}

/// A scope.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Its name.
    pub name: &'static str,
    /// Whether every merge searches it.
    pub is_quick: bool,
    budget: Budget,
    /// Seconds by which time jumps, at any moment.
    jumps: &'static [u64],
    processes: &'static [&'static [Deed]],
    /// Messages that are in the queue at first, a segment each.
    messages: &'static [usize],
    /// Whether a script deletes the queue, with the messages that are in it.
    deletes_queue: bool,
}

/// What a search came to.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Runs to their ends: one for each class of equal schedules.
    pub runs: u64,
    /// Runs that were left since an equal one was known.
    pub blocked: u64,
    /// Choices in the longest run.
    pub depth: usize,
    /// Whether the search came to its end.
    pub is_exhausted: bool,
    /// The first broken promise, with the trace of its run.
    pub failure: Option<(Failure, Vec<String>)>,
}

const NONE: Budget = Budget {
    crashes: 0,
    ambiguous: 0,
};
const CRASH: Budget = Budget {
    crashes: 1,
    ambiguous: 0,
};
const AMBIGUOUS: Budget = Budget {
    crashes: 0,
    ambiguous: 1,
};

/// A scope of queues: the processes begin with these segments in the queue.
fn scope(
    name: &'static str,
    budget: Budget,
    messages: &'static [usize],
    processes: &'static [&'static [Deed]],
) -> Scope {
    Scope {
        name,
        is_quick: !SLOW.contains(&name),
        budget,
        jumps: &[],
        processes,
        messages,
        deletes_queue: processes
            .iter()
            .any(|script| script.contains(&Deed::DeleteQueue)),
    }
}

/// All scopes.
pub fn scopes() -> Vec<Scope> {
    [queues(), queues_besides(), domains()].concat()
}

/// Sends, receives and removes.
fn queues() -> Vec<Scope> {
    use Deed::{GiveBack, Receive, RemoveFirst, Send};
    vec![
        scope("receive", NONE, &[2], &[&[Receive(30)], &[Receive(30)]]),
        scope(
            "receive-twice",
            NONE,
            &[2],
            &[&[Receive(30), Receive(30)], &[Receive(30)]],
        ),
        scope(
            "send-receive",
            NONE,
            &[],
            &[&[Send(2)], &[Receive(30)], &[Receive(30)]],
        ),
        scope(
            "receive-crash",
            CRASH,
            &[2],
            &[&[Receive(30)], &[Receive(30)]],
        ),
        scope(
            "receive-ambiguous",
            AMBIGUOUS,
            &[2],
            &[&[Receive(30)], &[Receive(30)]],
        ),
        scope(
            "send-ambiguous",
            AMBIGUOUS,
            &[],
            &[&[Send(2)], &[Receive(30)]],
        ),
        scope(
            "two-segments",
            NONE,
            &[1, 1],
            &[&[Receive(30)], &[Receive(30)]],
        ),
        scope(
            "remove-one",
            NONE,
            &[2],
            &[&[RemoveFirst(30)], &[Receive(30)]],
        ),
        scope("give-back", NONE, &[2], &[&[GiveBack], &[Receive(30)]]),
    ]
}

/// Peeks, sweeps, time that passes, queues that are deleted.
fn queues_besides() -> Vec<Scope> {
    use Deed::{CreateQueue, DeleteQueue, Peek, Receive, Send, Sweep};
    let jumping = |scope: Scope, jumps| Scope { jumps, ..scope };
    vec![
        scope("peek", NONE, &[2], &[&[Peek], &[Receive(30)]]),
        scope(
            "peek-ambiguous",
            AMBIGUOUS,
            &[2],
            &[&[Peek], &[Receive(30)]],
        ),
        scope(
            "sweep",
            NONE,
            &[2],
            &[&[Receive(30)], &[Receive(30)], &[Sweep]],
        ),
        jumping(
            scope("time", NONE, &[2], &[&[Receive(3)], &[Receive(3)]]),
            &[3, 3],
        ),
        scope(
            "queue-deleted",
            NONE,
            &[1],
            &[&[Receive(30)], &[DeleteQueue], &[Sweep]],
        ),
        scope(
            "queue-created",
            NONE,
            &[],
            &[&[DeleteQueue, CreateQueue], &[Send(1)]],
        ),
    ]
}

/// Writes, reads and deletions of domains.
fn domains() -> Vec<Scope> {
    use Deed::{Append, Count, CreateDomain, DeleteDomain, First, Follow, Read, ReadEventual};
    vec![
        scope("write", NONE, &[], &[&[Count], &[Count], &[Read]]),
        scope("write-ambiguous", AMBIGUOUS, &[], &[&[Count], &[First]]),
        scope(
            "write-read-ambiguous",
            AMBIGUOUS,
            &[],
            &[&[Count], &[First], &[Read]],
        ),
        scope("follow", NONE, &[], &[&[Append], &[Append], &[Follow]]),
        scope(
            "append-ambiguous",
            AMBIGUOUS,
            &[],
            &[&[Append, Append], &[Append, Follow]],
        ),
        scope("write-crash", CRASH, &[], &[&[Count], &[Count], &[Read]]),
        scope(
            "refusal",
            NONE,
            &[],
            &[&[First, Count], &[First, ReadEventual], &[Read]],
        ),
        scope(
            "domain-deleted",
            NONE,
            &[],
            &[&[DeleteDomain, CreateDomain], &[First], &[Read]],
        ),
        scope(
            "domain-ambiguous",
            AMBIGUOUS,
            &[],
            &[&[DeleteDomain, CreateDomain], &[First]],
        ),
        scope(
            "domain-crash",
            CRASH,
            &[],
            &[&[DeleteDomain], &[First, Read]],
        ),
    ]
}

/// Runs every schedule of a scope, or so many; perhaps without a guard, in builds for mutants.
pub fn explore(scope: &Scope, runs_max: u64, removed: Option<Guard>) -> Explored {
    let search = Search::new(scope.budget);
    let mut explored = Explored::default();
    loop {
        let (failure, trace) = run(scope, &search, removed, false);
        match search.is_blocked() {
            true => explored.blocked += 1,
            false => explored.runs += 1,
        }
        explored.depth = explored.depth.max(search.depth());
        if let Some(failure) = failure {
            drop(trace);
            let (_, trace) = replay(scope, &search, removed);
            explored.failure = Some((failure, trace));
            return explored;
        }
        if !search.advance() {
            explored.is_exhausted = true;
            return explored;
        }
        if runs_max <= explored.runs + explored.blocked {
            return explored;
        }
    }
}

/// The same run once more, for its trace.
fn replay(
    scope: &Scope,
    search: &Search,
    removed: Option<Guard>,
) -> (Option<Failure>, Vec<String>) {
    search.restart();
    run(scope, search, removed, true)
}

fn run(
    scope: &Scope,
    search: &Search,
    removed: Option<Guard>,
    is_traced: bool,
) -> (Option<Failure>, Vec<String>) {
    let mut profile = Profile::default();
    profile.objects.put.late_max = Duration::ZERO;
    profile.objects.delete.late_max = Duration::ZERO;
    let model = Model::new(profile);
    model.executor.limit_steps(STEPS_MAX);
    model.executor.set_scheduler(Box::new(search.clone()));
    if is_traced {
        model.executor.record();
    }
    let record = Record::default();
    let ended = model
        .executor
        .search(live(scope, search, &model, &record, removed));
    let trace = model.executor.take_trace();
    let steps = model.executor.steps();
    model.executor.shut_down();
    let mut history = std::mem::take(&mut *record.open());
    if scope.deletes_queue {
        // An acknowledged message may be deleted with its queue.
        history.sends.clear();
    }
    let promise = Promise {
        answers_at_once: true,
        ids_are_final: scope.budget.ambiguous == 0,
    };
    let failure = match ended {
        None if search.is_blocked() => None,
        None => Some(Failure {
            guarantee: "live",
            text: format!("the run did not end: {steps} steps"),
        }),
        Some(Err(failure)) => Some(failure),
        Some(Ok(())) => checks::all(&history, VIEW_AGE, promise).err(),
    };
    (failure, trace)
}

async fn live(
    scope: &Scope,
    search: &Search,
    model: &Model,
    record: &Record,
    removed: Option<Guard>,
) -> Result<(), Failure> {
    let actor = |name: &str| {
        let process = model.executor.process(name, Skew::default());
        (actor(model, record, &process, removed), process)
    };
    let (setup, _) = actor("setup");
    let failed = |error: fader_cloud::Error| Failure {
        guarantee: "live",
        text: format!("setting up: {error}"),
    };
    let settings = QueueSettings::default();
    setup
        .queues
        .create(QUEUE, &settings)
        .await
        .map_err(failed)?;
    setup.domains.create(DOMAIN).await.map_err(failed)?;
    for count in scope.messages {
        setup.send(*count).await;
    }
    let names = ["a", "b", "c", "d"];
    let actors: Vec<(Actor, Process)> = names.map(actor).into_iter().collect();
    let scripts = scope.processes.iter().zip(&actors);
    for (_, (actor, _)) in scripts.clone() {
        actor.queues.counts(QUEUE).await.map_err(failed)?;
        actor.domains.metadata(DOMAIN).await.map_err(failed)?;
    }
    let started: Vec<_> = scripts
        .map(|(script, (actor, process))| process.runtime().spawn(act(actor.clone(), script)))
        .collect();
    search.begin(actors.iter().map(|(_, process)| process.id()));
    let jump = async {
        for seconds in scope.jumps {
            model.clock.sleep(Duration::from_secs(*seconds)).await;
        }
    };
    futures_util::future::join(join_all(started), jump).await;
    search.end();
    model.executor.note(|| "all scripts have ended".to_owned());
    // Settings are cached for a minute, and what is late lands.
    model.clock.sleep(Duration::from_secs(120)).await;
    let (last, _) = actor("last");
    let _ = last.queues.create(QUEUE, &settings).await;
    last.domains.create(DOMAIN).await.map_err(failed)?;
    drain(&last, &*model.clock).await?;
    record.open().logs = logs(model);
    if !scope.deletes_queue {
        is_drained(model)?;
    }
    leave_nothing(model, removed).await
}

fn actor(model: &Model, record: &Record, process: &Process, removed: Option<Guard>) -> Actor {
    let cloud = model.cloud(process);
    Actor {
        process: process.id(),
        queues: Arc::new(bucket_queues(&cloud, removed)),
        domains: Arc::new(bucket_domains(&cloud, removed)),
        cloud,
        removed,
        record: record.clone(),
        executor: model.executor.clone(),
        truth: model.clock.clone(),
        until: Duration::MAX,
        visibilities: Vec::new(),
        splits_batches: false,
    }
}

async fn act(actor: Actor, script: &'static [Deed]) {
    for deed in script {
        actor.act(*deed).await;
    }
}

impl Actor {
    async fn act(&self, deed: Deed) {
        const COUNTER: &str = "counter";
        match deed {
            Deed::Send(count) => self.send(count).await,
            Deed::Receive(seconds) => self.receive_and_remove(seconds, 10).await,
            Deed::RemoveFirst(seconds) => self.receive_and_remove(seconds, 1).await,
            Deed::Peek => self.receive_and_remove(0, 10).await,
            Deed::GiveBack => {
                let (found, by) = self.receive(&receive_of(30)).await.unwrap_or_default();
                for message in &found {
                    self.hide(message, by, 0).await;
                    self.remove(message).await;
                }
            }
            Deed::Count => {
                if let Some(expected) = self.read(COUNTER, ReadConsistency::Strong).await {
                    self.write(COUNTER, expected).await;
                }
            }
            Deed::First => self.write(COUNTER, None).await,
            Deed::Read => drop(self.read(COUNTER, ReadConsistency::Strong).await),
            Deed::ReadEventual => drop(self.read(COUNTER, ReadConsistency::Eventual).await),
            Deed::Append => self.append().await,
            Deed::Follow => {
                let follower = self.follower();
                self.follow(follower, ReadConsistency::Eventual).await;
                self.follow(follower, ReadConsistency::Strong).await;
            }
            Deed::Sweep => {
                let queues = bucket_queues(&self.cloud, self.removed);
                let domains = bucket_domains(&self.cloud, self.removed);
                let _ = queues.sweep(false).await;
                let _ = domains.sweep(false).await;
            }
            Deed::DeleteDomain => drop(self.domains.delete(DOMAIN).await),
            Deed::CreateDomain => drop(self.domains.create(DOMAIN).await),
            Deed::DeleteQueue => drop(self.queues.delete(QUEUE).await),
            Deed::CreateQueue => {
                let settings = QueueSettings::default();
                drop(self.queues.create(QUEUE, &settings).await);
            }
        }
    }

    async fn receive_and_remove(&self, seconds: u64, max: usize) {
        let (found, _) = self.receive(&receive_of(seconds)).await.unwrap_or_default();
        for message in found.iter().take(max) {
            self.remove(message).await;
        }
    }
}

fn receive_of(seconds: u64) -> Receive {
    Receive {
        max: 10,
        visibility: Some(Duration::from_secs(seconds)),
        wait: Duration::ZERO,
    }
}
