//! One run of simulated jobs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fader_cloud::model::{Model, Process, Skew};
use fader_cloud::{Clock, Domains, Error, Queues, ReadConsistency, Receive};
use fader_mapreduce::{Guards, State, Success};
use futures_util::future::{Either, join_all, select};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::actors::Actor;
use super::checks::{self, Claims, Versions, broken};
use super::plan::{Change, Plan, Role};
use super::rows::Record;
use crate::cloud::Failure;
use crate::cloud::run::live_one;

/// Steps after which a run counts as stuck.
const STEPS_MAX: u64 = 10_000_000;
/// When a run counts as stuck: all faults end after a minute and a half.
const STUCK: Duration = Duration::from_secs(24 * 60 * 60);
/// How often the output is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How often the rows are looked at.
const LOOK_AT_ROWS: Duration = Duration::from_millis(100);
/// By when every late write has landed.
const REST: Duration = Duration::from_secs(10 * 60);
/// Jobs that the last process begins, at most.
const JOBS_MAX: usize = 8;

/// What became of a run.
#[derive(Debug)]
pub struct Run {
    /// The first broken promise.
    pub failure: Option<Failure>,
    /// How often each promise was put to the test.
    pub claims: Claims,
    /// Tasks polled, timers and events.
    pub steps: u64,
    /// Jobs, joins and cleanings.
    pub calls: u64,
    /// The digest of all steps: the same for the same plan.
    pub digest: u64,
    /// What happened, if it was recorded.
    pub trace: Vec<String>,
}

struct World<'a> {
    plan: &'a Plan,
    model: Model,
    until: Cell<Duration>,
    mappers: Arc<AtomicU64>,
    calls: Arc<AtomicU64>,
    rows: Record,
    /// The output when it was complete first.
    published: RefCell<Option<Versions>>,
    /// Set when it was seen complete and was not whole.
    torn: RefCell<Option<Failure>>,
}

/// Runs a plan.
pub fn run(plan: &Plan, is_traced: bool) -> Run {
    let model = Model::new(plan.cloud.profile.clone());
    let executor = model.executor.clone();
    executor.limit_steps(STEPS_MAX);
    if is_traced {
        executor.record();
    }
    let world = World {
        plan,
        rows: Record::new(model.clock.clone()),
        model,
        until: Cell::default(),
        mappers: Arc::default(),
        calls: Arc::default(),
        published: RefCell::default(),
        torn: RefCell::default(),
    };
    let ended = executor.search(world.live());
    let trace = executor.take_trace();
    let (digest, steps) = (executor.digest(), executor.steps());
    executor.shut_down();
    let stuck = || {
        let text = format!("the run did not end: {steps} steps, {:?}", executor.now());
        broken("live", text)
    };
    let (claims, failure) = match ended {
        Some(Ok(claims)) => (claims, None),
        Some(Err(failure)) => (Claims::new(), Some(failure)),
        None => (Claims::new(), Some(stuck())),
    };
    Run {
        failure,
        claims,
        steps,
        calls: world.calls.load(Ordering::Relaxed),
        digest,
        trace,
    }
}

impl World<'_> {
    fn guards(&self) -> Guards {
        #[cfg(feature = "mutants")]
        if let Some(guard) = self.plan.removed {
            return Guards::without(guard);
        }
        assert_eq!(self.plan.removed, None, "this build has all rules");
        Guards::default()
    }

    fn actor(&self, process: &Process, role: Role) -> Actor {
        Actor {
            cloud: self.rows.of(self.model.cloud(process)),
            role,
            definition: self.plan.definition.clone(),
            guards: self.guards(),
            truth: self.model.clock.clone(),
            until: self.until.get(),
            mappers: self.mappers.clone(),
            calls: self.calls.clone(),
        }
    }

    async fn live(&self) -> Result<Claims, Failure> {
        let watched = Box::pin(self.watch());
        let lived = async {
            let harness = self.model.executor.harness();
            let lived = harness.runtime().timeout(STUCK, self.phases()).await;
            let stuck = || broken("live", format!("no end within {STUCK:?}"));
            lived.unwrap_or_else(|| Err(stuck()))
        };
        let watched = futures_util::future::join(watched, Box::pin(self.watch_winners()));
        let Either::Left((ended, _)) = select(Box::pin(lived), watched).await else {
            unreachable!("the watch has no end");
        };
        match self.torn.borrow_mut().take() {
            Some(torn) => Err(torn),
            None => ended,
        }
    }

    /// Looks at the output all the time, without a request.
    async fn watch(&self) {
        loop {
            self.model.clock.sleep(LOOK).await;
            if self.published.borrow().is_some() || self.torn.borrow().is_some() {
                return std::future::pending().await;
            }
            match checks::success(&self.model) {
                Ok(None) => {}
                Ok(Some(success)) => {
                    if let Err(failure) = checks::is_whole(&self.model, &success) {
                        *self.torn.borrow_mut() = Some(failure);
                        continue;
                    }
                    let versions = self.versions(&success).await;
                    *self.published.borrow_mut() = Some(versions);
                }
                Err(failure) => *self.torn.borrow_mut() = Some(failure),
            }
        }
    }

    /// Looks at the rows now and then: a winner never changes.
    async fn watch_winners(&self) {
        let mut winners: BTreeMap<(String, String), String> = BTreeMap::new();
        while self.published.borrow().is_none() {
            self.model.clock.sleep(LOOK_AT_ROWS).await;
            let domains = self.model.domains.list().await.unwrap_or_default();
            for domain in domains.iter().filter(|domain| domain.starts_with("mr-")) {
                let select = format!("select winner from `{domain}` limit 2500");
                let page = self
                    .model
                    .domains
                    .select(&select, None, ReadConsistency::Strong)
                    .await;
                for item in page.unwrap_or_default().items {
                    for attribute in item.attributes {
                        let row = (domain.clone(), item.name.clone());
                        let first = winners.entry(row).or_insert(attribute.value.clone());
                        if *first != attribute.value {
                            let text = format!("{domain} {}: {first}, then another", item.name);
                            *self.torn.borrow_mut() = Some(broken("winner", text));
                        }
                    }
                }
            }
        }
        std::future::pending().await
    }

    /// The versions of an output's objects.
    async fn versions(&self, success: &Success) -> Versions {
        let mut versions = BTreeMap::new();
        let names = success.files.iter().map(|file| file.name.as_str());
        for name in names.chain(["_SUCCESS"]) {
            let path = Path::from(name);
            let tag = loop {
                match self.model.objects.head(&path).await {
                    Ok(meta) => break meta.e_tag,
                    Err(object_store::Error::NotFound { .. }) => break None,
                    Err(_) => {}
                }
            };
            versions.insert(name.to_owned(), tag.unwrap_or_default());
        }
        versions
    }

    async fn phases(&self) -> Result<Claims, Failure> {
        let executor = &self.model.executor;
        let plan = self.plan;
        self.model.set_profile(plan.calm());
        for (number, text) in plan.inputs.iter().enumerate() {
            self.put(number, text).await;
        }
        self.model.set_profile(plan.cloud.profile.clone());
        let until = self.model.clock.monotonic() + plan.cloud.faults;
        self.until.set(until);
        let mut processes = Vec::new();
        for at in 0..plan.cloud.processes.len() {
            processes.push(executor.process(&format!("p{at}"), plan.cloud.processes[at].skew));
        }
        let begun = plan
            .cloud
            .processes
            .iter()
            .enumerate()
            .map(async |(at, planned)| {
                let start = || self.actor(&processes[at], plan.roles[at]).start();
                live_one(&self.model, &processes[at], planned, until, start).await;
            });
        let lives = join_all(begun);
        futures_util::future::join3(lives, self.change(), self.expire()).await;
        self.model.set_profile(plan.calm());
        if plan.all_die {
            processes
                .iter()
                .filter(|process| process.is_alive())
                .for_each(Process::crash);
        }
        let mut claims = self.finish().await?;
        self.rows.beats_are_new()?;
        claims.insert("rows", checks::are_linear(&self.rows.log())?);
        Ok(claims)
    }

    async fn put(&self, number: usize, text: &str) {
        let path = Path::from(format!("in/{number}"));
        while self
            .model
            .objects
            .put(&path, text.to_owned().into())
            .await
            .is_err()
        {}
    }

    /// Changes the input once, if that is planned.
    async fn change(&self) {
        let Some((after, change)) = self.plan.change else {
            return;
        };
        self.model.clock.sleep(after).await;
        match change {
            Change::Rewritten => self.put(0, "other words\n").await,
            Change::Deleted => {
                let path = Path::from("in/0");
                while self.model.objects.delete(&path).await.is_err() {}
            }
        }
    }

    /// Loses a message of the shuffle, if that is planned: the first that is found.
    async fn expire(&self) {
        let Some(after) = self.plan.expiry else {
            return;
        };
        self.model.clock.sleep(after).await;
        let how = Receive {
            max: 1,
            visibility: Some(Duration::ZERO),
            wait: Duration::ZERO,
        };
        while self.model.clock.monotonic() < self.until.get() {
            let queues = self.model.queues.list("mr-").await.unwrap_or_default();
            for queue in queues.iter().filter(|queue| queue.contains("-s-")) {
                let received = self.model.queues.receive(queue, &how).await;
                if let Some(message) = received.unwrap_or_default().pop() {
                    let receipts = [message.receipt];
                    drop(self.model.queues.remove(queue, &receipts).await);
                    return;
                }
            }
            self.model.clock.sleep(LOOK_AT_ROWS).await;
        }
    }

    /// The inputs that a job may have read.
    fn inputs(&self) -> Vec<Vec<String>> {
        let first = self.plan.inputs.clone();
        let mut other = first.clone();
        match self.plan.change {
            None => return vec![first],
            Some((_, Change::Rewritten)) => other[0] = "other words\n".to_owned(),
            Some((_, Change::Deleted)) => drop(other.remove(0)),
        }
        vec![first, other]
    }

    /// One last process brings the output to its end. No call may fail: faults have ended.
    async fn finish(&self) -> Result<Claims, Failure> {
        let process = self.model.executor.process("last", Skew::default());
        let last = self.actor(&process, Role::Run);
        let output = last.output();
        let mut claims = Claims::new();
        let mut jobs = 0;
        let success = loop {
            if let Some(success) = checks::success(&self.model)? {
                break Some(success);
            }
            let ended = last.run().await;
            if checks::success(&self.model)?.is_some() {
                continue;
            }
            let register = ended.map_err(|error| live("the job does not end", &error))?;
            // Between this worker's end and now another's output may have become complete.
            if checks::success(&self.model)?.is_none() {
                checks::has_no_output(&self.model, &register)?;
                *claims.entry("end").or_default() += 1;
            }
            if register.state == State::Failed {
                self.may_fail(&register.reason)?;
            }
            jobs += 1;
            let is_empty = self.plan.inputs.len() == 1
                && matches!(self.plan.change, Some((_, Change::Deleted)));
            if is_empty && register.state == State::Failed {
                break None;
            }
            if JOBS_MAX < jobs {
                return Err(broken("live", format!("{jobs} jobs ended: {register:?}")));
            }
        };
        if let Some(success) = &success {
            self.judge(success, &mut claims).await?;
        }
        // Late writes of dead workers land, and paused ones end.
        self.model.clock.sleep(REST).await;
        if self.guards().has(fader_mapreduce::Guard::CleanAgain) {
            let cleaned = output.clean().await;
            cleaned.map_err(|error| live("nothing is cleaned", &error))?;
        }
        self.is_left_clean().await?;
        *claims.entry("orphans").or_default() += 1;
        if let Some(success) = &success {
            checks::is_whole(&self.model, success)?;
            let now = self.versions(success).await;
            let published = self.published.borrow().clone();
            if published.as_ref() != Some(&now) {
                let text = format!("{now:?} was {published:?}");
                return Err(broken("quiet", text));
            }
            *claims.entry("quiet").or_default() += 1;
        }
        Ok(claims)
    }

    fn may_fail(&self, reason: &str) -> Result<(), Failure> {
        let is_named = reason.contains("was changed or removed") || reason.contains("no input");
        let has_expired = reason.contains("messages of map tasks did not come");
        let may_expire = self.plan.expiry.is_some() && has_expired;
        match may_expire || self.plan.change.is_some() && is_named {
            true => Ok(()),
            false => Err(broken("live", format!("the job failed: {reason}"))),
        }
    }

    async fn judge(&self, success: &Success, claims: &mut Claims) -> Result<(), Failure> {
        // The watch looks at what was there first.
        while self.published.borrow().is_none() && self.torn.borrow().is_none() {
            self.model.clock.sleep(LOOK).await;
        }
        checks::is_whole(&self.model, success)?;
        checks::is_right(&self.model, success, &self.inputs())?;
        for claim in ["last", "bytes", "counters"] {
            *claims.entry(claim).or_default() += 1;
        }
        let process = self.model.executor.process("reader", Skew::default());
        let output = self.actor(&process, Role::Run).output();
        let register = output.register().await;
        let register = register.map_err(|error| live("the register cannot be read", &error))?;
        let is_own = register.as_ref().is_some_and(|register| {
            register.job == success.job && register.state == State::Publishing
        });
        if !is_own {
            return Err(broken(
                "register",
                format!("{register:?}, {:?}", success.job),
            ));
        }
        *claims.entry("register").or_default() += 1;
        if self.plan.is_once {
            let maps = success
                .timeline
                .iter()
                .filter(|lap| lap.task.starts_with('m'));
            let (maps, mappers) = (maps.count() as u64, self.mappers.load(Ordering::Relaxed));
            if maps != mappers {
                return Err(broken(
                    "once",
                    format!("{mappers} attempts of {maps} map tasks"),
                ));
            }
            *claims.entry("once").or_default() += 1;
        }
        Ok(())
    }

    async fn is_left_clean(&self) -> Result<(), Failure> {
        checks::is_clean(&self.model)?;
        let queues = self.model.queues.list("mr-").await;
        let queues = queues.map_err(|error| live("no list", &error))?;
        let domains = self.model.domains.list().await;
        let mut domains = domains.map_err(|error| live("no list", &error))?;
        domains.retain(|domain| domain.starts_with("mr-"));
        match queues.is_empty() && domains.is_empty() {
            true => Ok(()),
            false => Err(broken("orphans", format!("{queues:?}, {domains:?}"))),
        }
    }
}

fn live(what: &str, error: &Error) -> Failure {
    broken(
        "live",
        format!("{what} without a fault: {error}: {:?}", error.source),
    )
}
