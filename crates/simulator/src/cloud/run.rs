//! One run of a simulated cloud.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fader_cloud::bucket::{BucketDomains, BucketQueues, Guard};
use fader_cloud::model::{Model, Process, Profile, Skew};
use fader_cloud::{AttributePut, Clock, Cloud, Domains, ItemPut, QueueSettings, Queues, Receive};
use futures_util::future::join_all;
use object_store::path::Path;

use super::actors::{Actor, DOMAIN, QUEUE};
use super::checks::{self, Claims, Promise};
use super::history::{Failure, History, Record};
use super::plan::{Backend, Fault, Plan, ProcessPlan};
use super::slots::{self, Slot};

/// Steps after which a run counts as stuck.
const STEPS_MAX: u64 = 5_000_000;
/// How long a queue must be empty to count as drained.
const QUIET: Duration = Duration::from_secs(60);
/// Where queues are in the bucket.
const PREFIX: &str = "bucket";
/// How long after its deletion a name has no leftovers but its marker, once it is swept.
const REST: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// When a run counts as stuck: all faults end after a minute and a half.
const STUCK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What became of a run.
#[derive(Debug)]
pub struct Run {
    /// The first broken promise.
    pub failure: Option<Failure>,
    /// How often each promise was put to the test.
    pub claims: Claims,
    /// Tasks polled, timers and events.
    pub steps: u64,
    /// What was asked and answered.
    pub history: History,
    /// The digest of all steps: the same for the same plan.
    pub digest: u64,
    /// What happened, if it was recorded.
    pub trace: Vec<String>,
}

impl History {
    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls
    }
}

/// Queues in the bucket, perhaps without a guard.
pub(super) fn bucket_queues(cloud: &Cloud, removed: Option<Guard>) -> BucketQueues {
    let (objects, prefix) = (cloud.objects.clone(), Path::from(PREFIX));
    let runtime = cloud.runtime.clone();
    #[cfg(feature = "mutants")]
    if let Some(guard) = removed {
        return BucketQueues::without(guard, objects, prefix, runtime);
    }
    assert_eq!(removed, None, "this build has all guards");
    BucketQueues::new(objects, prefix, runtime)
}

/// Domains in the bucket, perhaps without a guard.
pub(super) fn bucket_domains(cloud: &Cloud, removed: Option<Guard>) -> BucketDomains {
    let (objects, prefix) = (cloud.objects.clone(), Path::from(PREFIX));
    let runtime = cloud.runtime.clone();
    #[cfg(feature = "mutants")]
    if let Some(guard) = removed {
        return BucketDomains::without(guard, objects, prefix, runtime);
    }
    assert_eq!(removed, None, "this build has all guards");
    BucketDomains::new(objects, prefix, runtime)
}

struct World<'a> {
    plan: &'a Plan,
    /// When faults end.
    until: Cell<Duration>,
    model: Model,
    record: Record,
}

/// Runs a plan.
pub fn run(plan: &Plan, is_traced: bool) -> Run {
    let model = Model::new(plan.profile.clone());
    let executor = model.executor.clone();
    executor.limit_steps(STEPS_MAX);
    if is_traced {
        executor.record();
    }
    let world = World {
        plan,
        until: Cell::new(plan.faults),
        model,
        record: Record::default(),
    };
    let ended = executor.search(world.live());
    let trace = executor.take_trace();
    let (digest, steps) = (executor.digest(), executor.steps());
    executor.shut_down();
    let history = std::mem::take(&mut *world.record.open());
    let stuck = || Failure {
        guarantee: "live",
        text: format!("the run did not end: {steps} steps, {:?}", executor.now()),
    };
    let promise = Promise {
        answers_at_once: false,
        ids_are_final: plan.backend == Backend::Models || plan.answers_puts(),
    };
    let judged = match ended {
        Some(Ok(())) => checks::all(&history, plan.domain_staleness, promise),
        Some(Err(failure)) => Err(failure),
        None => Err(stuck()),
    };
    let (claims, failure) = match judged {
        Ok(claims) => (claims, None),
        Err(failure) => (Claims::new(), Some(failure)),
    };
    Run {
        failure,
        claims,
        steps,
        history,
        digest,
        trace,
    }
}

impl World<'_> {
    fn services(&self, cloud: &Cloud) -> (Arc<dyn Queues>, Arc<dyn Domains>) {
        match self.plan.backend {
            Backend::Models => (cloud.queues.clone(), cloud.domains.clone()),
            Backend::Bucket => {
                let removed = self.plan.removed;
                let queues = Arc::new(bucket_queues(cloud, removed));
                (queues, Arc::new(bucket_domains(cloud, removed)))
            }
        }
    }

    fn actor(&self, process: &Process) -> Actor {
        let cloud = self.model.cloud(process);
        let (queues, domains) = self.services(&cloud);
        Actor {
            process: process.id(),
            queues,
            domains,
            cloud,
            removed: self.plan.removed,
            record: self.record.clone(),
            executor: self.model.executor.clone(),
            truth: self.model.clock.clone(),
            until: self.until.get(),
            visibilities: self.plan.visibilities.clone(),
            splits_batches: self.plan.splits_batches,
        }
    }

    async fn live(&self) -> Result<(), Failure> {
        let harness = self.model.executor.harness();
        let lived = harness.runtime().timeout(STUCK, self.phases()).await;
        lived.unwrap_or_else(|| {
            Err(Failure {
                guarantee: "live",
                text: format!("the queue was not drained within {STUCK:?}"),
            })
        })
    }

    async fn phases(&self) -> Result<(), Failure> {
        let executor = &self.model.executor;
        self.set_up().await?;
        let begun = self.plan.processes.iter().enumerate().map(|(at, planned)| {
            let process = executor.process(&format!("p{at}"), planned.skew);
            self.live_one(process, planned)
        });
        join_all(begun).await;
        self.model.set_profile(self.plan.calm());
        self.model.clock.sleep(self.plan.settled_after()).await;
        let process = self.model.executor.process("drain", Skew::default());
        drain(&self.actor(&process), &*self.model.clock).await?;
        if self.plan.backend == Backend::Models {
            return Ok(());
        }
        self.record.open().logs = logs(&self.model);
        is_drained(&self.model)?;
        leave_nothing(&self.model, self.plan.removed).await
    }

    /// Creates queue and domain, and writes slots, before any fault and without delay.
    async fn set_up(&self) -> Result<(), Failure> {
        self.model.set_profile(Profile::default());
        let process = self.model.executor.process("setup", Skew::default());
        let actor = self.actor(&process);
        let created = async {
            actor
                .queues
                .create(QUEUE, &QueueSettings::default())
                .await?;
            actor.domains.create(DOMAIN).await?;
            if self.plan.backend == Backend::Bucket {
                for number in 0..self.plan.slots_before {
                    actor.domains.put(DOMAIN, &before(number), None).await?;
                }
            }
            Ok(())
        };
        created.await.map_err(|error: fader_cloud::Error| Failure {
            guarantee: "live",
            text: format!("nothing was created: {error}"),
        })?;
        self.model.set_profile(self.plan.profile.clone());
        self.until
            .set(self.model.clock.monotonic() + self.plan.faults);
        Ok(())
    }

    /// The life of one process until faults end, with its faults.
    async fn live_one(&self, process: Process, planned: &ProcessPlan) {
        let start = || self.actor(&process).start();
        live_one(&self.model, &process, planned, self.until.get(), start).await;
    }
}

/// The life of one process until faults end: `start` begins it, and again after each crash.
pub(crate) async fn live_one(
    model: &Model,
    process: &Process,
    planned: &ProcessPlan,
    faults_end: Duration,
    start: impl Fn(),
) {
    let clock = &model.clock;
    start();
    for strike in &planned.strikes {
        clock.sleep(strike.after).await;
        if faults_end <= clock.monotonic() {
            break;
        }
        match strike.fault {
            Fault::Pause(time) => process.pause(time),
            Fault::Jump(offset_ms) => process.set_skew(Skew {
                offset_ms,
                ..planned.skew
            }),
            Fault::Crash(awaits, down) => {
                process.crash_after(awaits);
                let harness = model.executor.harness().runtime();
                let left = faults_end.saturating_sub(clock.monotonic());
                if harness.timeout(left, process.crashed()).await.is_none() {
                    process.crash();
                }
                clock.sleep(down).await;
                process.restart();
                start();
            }
        }
    }
    let left = faults_end.saturating_sub(clock.monotonic());
    clock.sleep(left).await;
}

/// A write of before the run; one in a hundred makes a slot that becomes a stub.
fn before(number: u64) -> ItemPut {
    let values = if number % 100 == 1 { 80 } else { 1 };
    let attributes = (0..values).map(|at| AttributePut {
        name: format!("a{at}"),
        value: "x".repeat(if values == 1 { 1 } else { 1000 }),
        replace: true,
    });
    ItemPut {
        name: format!("before{}", number % 7),
        attributes: attributes.collect(),
    }
}

/// The logs of the domain in the bucket.
pub(super) fn logs(model: &Model) -> BTreeMap<String, Vec<Slot>> {
    slots::logs(model, &format!("{PREFIX}/logs/{DOMAIN}/"))
}

/// Nothing of the queue's messages is left in the bucket.
pub(super) fn is_drained(model: &Model) -> Result<(), Failure> {
    let folder = format!("{PREFIX}/messages/");
    let mut left = model.object_keys();
    left.retain(|key| key.starts_with(&folder));
    match left.is_empty() {
        true => Ok(()),
        false => Err(Failure {
            guarantee: "leftovers",
            text: format!("in a queue that is drained: {left:?}"),
        }),
    }
}

/// Receives and removes until the queue has been empty for a while. No receive may fail: faults
/// have ended.
pub(super) async fn drain(actor: &Actor, clock: &dyn Clock) -> Result<(), Failure> {
    let mut quiet_since = clock.monotonic();
    while clock.monotonic() < quiet_since + QUIET {
        let how = Receive {
            max: 10,
            visibility: Some(Duration::from_secs(30)),
            wait: Duration::from_secs(5),
        };
        let received = actor.receive(&how).await;
        let (found, _) = received.map_err(|error| Failure {
            guarantee: "live",
            text: format!("a receive failed without a fault: {error}"),
        })?;
        for message in &found {
            actor.remove(message).await;
            quiet_since = clock.monotonic();
        }
    }
    Ok(())
}

/// Deletes queue and domain and sweeps; a marker of each is all that may be left.
pub(super) async fn leave_nothing(model: &Model, removed: Option<Guard>) -> Result<(), Failure> {
    let broken = |text| Failure {
        guarantee: "leftovers",
        text,
    };
    let process = model.executor.process("sweep", Skew::default());
    let cloud = model.cloud(&process);
    let queues = bucket_queues(&cloud, removed);
    let domains = bucket_domains(&cloud, removed);
    let cleared = async {
        queues.delete(QUEUE).await?;
        domains.delete(DOMAIN).await?;
        model.clock.sleep(REST).await;
        queues.sweep(false).await?;
        domains.sweep(false).await
    };
    let swept = cleared.await;
    swept.map_err(|error| broken(format!("nothing was deleted: {error}")))?;
    let prefix = format!("{PREFIX}/");
    let mut left = model.object_keys();
    left.retain(|key| key.starts_with(&prefix));
    match left.len() {
        0..=2 => Ok(()),
        _ => Err(broken(format!("{left:?}"))),
    }
}
