//! Jobs that are told step by step, each for a rule whose absence few seeds notice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fader_cloud::model::{Call, Latency, Model, Process, Profile, Skew, Staleness};
use fader_cloud::{Clock as _, Domains as _, Queues as _, ReadConsistency, Receive};
use fader_mapreduce::{Definition, Guard, Guards, Program, Register, Shuffle, State};
use futures_util::future::{Either, select};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;

use super::actors::Actor;
use super::checks::{self, broken};
use super::plan::Role;
use super::rows::Record;
use crate::cloud::Failure;

/// A script: what it finds broken under these rules.
type Script = fn(Guards) -> Option<Failure>;

/// The scripts, each with the rule that it needs.
pub(super) const SCRIPTS: [(Guard, Script); 12] = [
    (Guard::ListOnly, a_losers_runs),
    (Guard::LosersDropped, a_losers_messages),
    (Guard::AttemptsBits, a_losers_messages),
    (Guard::WinnersCounts, a_losers_counts),
    (Guard::RepeatsStay, the_only_copy),
    (Guard::WinningPlan, another_plan),
    (Guard::Beats, a_long_task),
    (Guard::StrongCount, a_copy_that_lags),
    (Guard::PlanFirst, a_planner_that_dies),
    (Guard::UnknownIsNotWon, a_winner_without_an_answer),
    (Guard::NothingAtVisibilityMax, a_task_of_a_day),
    (Guard::QueueAfterWinner, a_reducer_that_dies),
];

/// The id of an attempt that did not win.
const LOSER: &str = "ffffffffffffffffffffffffffffffff";

/// A job on a cloud without faults.
struct Stage {
    model: Model,
    rows: Record,
    guards: Guards,
    definition: Definition,
    inputs: Vec<String>,
    mappers: Arc<AtomicU64>,
}

impl Stage {
    fn new(guards: Guards, profile: Profile, inputs: &[&str]) -> Self {
        let definition = Definition {
            reduces: 1,
            lease_ms: 1_000,
            backups: false,
            split_bytes: 1,
            ..Definition::new(Program::new("word-count"), vec!["mem://in/**".to_owned()])
        };
        let model = Model::new(profile);
        Stage {
            rows: Record::new(model.clock.clone()),
            model,
            guards,
            definition,
            inputs: inputs.iter().map(|text| (*text).to_owned()).collect(),
            mappers: Arc::default(),
        }
    }

    fn queue(self) -> Self {
        let definition = Definition {
            shuffle: Shuffle::Queue,
            ..self.definition
        };
        Stage { definition, ..self }
    }

    fn actor(&self, process: &Process) -> Actor {
        Actor {
            cloud: self.rows.of(self.model.cloud(process)),
            role: Role::Run,
            definition: self.definition.clone(),
            guards: self.guards,
            truth: self.model.clock.clone(),
            until: Duration::MAX,
            mappers: self.mappers.clone(),
            calls: Arc::default(),
        }
    }

    fn process(&self, name: &str) -> Process {
        self.model.executor.process(name, Skew::default())
    }

    /// Writes the input and begins the job.
    async fn begin(&self) -> (Process, Actor, Register) {
        for (number, text) in self.inputs.iter().enumerate() {
            self.put(&format!("in/{number:03}"), text).await;
        }
        let process = self.process("first");
        let actor = self.actor(&process);
        let register = actor.output().begin(&self.definition).await;
        let register = register.expect("a free output");
        let submitted = actor.worker(&register).submit().await;
        submitted.expect("a cloud without faults");
        (process, actor, register)
    }

    async fn put(&self, key: &str, text: &str) {
        let (path, text) = (Path::from(key), text.to_owned());
        let put = self.model.objects.put(&path, text.into()).await;
        put.expect("a cloud without faults");
    }

    /// Runs a script on the executor, for a limited virtual time.
    fn play<F: Future<Output = Option<Failure>>>(
        &self,
        limit: Duration,
        script: F,
    ) -> Option<Failure> {
        let executor = self.model.executor.clone();
        let harness = executor.harness();
        let limited = async move { harness.runtime().timeout(limit, script).await };
        let stuck = || Some(broken("live", format!("no end within {limit:?}")));
        let found = executor.search(limited).flatten().unwrap_or_else(stuck);
        executor.shut_down();
        found
    }

    /// Brings the job to its end by one more process, and judges the output.
    async fn end(&self, actor: &Actor) -> Option<Failure> {
        let ended = actor.run().await;
        match ended {
            Ok(register) if register.state == State::Failed => Some(broken(
                "live",
                format!("the job failed: {}", register.reason),
            )),
            _ => self.judge(),
        }
    }

    /// Waits until an attempt of a task wrote its manifest.
    async fn manifest(&self, register: &Register, task: &str) {
        self.object(register, task, "/manifest").await;
    }

    /// Waits until an attempt of a task wrote an object of that name.
    async fn object(&self, register: &Register, task: &str, name: &str) {
        let below = format!("_fader/{}/{task}/", register.job);
        let is_own = |key: &String| key.starts_with(&below) && key.ends_with(name);
        while !self.model.object_keys().iter().any(is_own) {
            self.model.clock.sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether the one map task had one attempt.
    fn once(&self) -> Option<Failure> {
        match self.mappers.load(Ordering::Relaxed) {
            1 => None,
            count => Some(broken("once", format!("{count} attempts of one map task"))),
        }
    }

    fn judge(&self) -> Option<Failure> {
        let success = match checks::success(&self.model) {
            Ok(Some(success)) => success,
            Ok(None) => return Some(broken("live", "there is no output")),
            Err(failure) => return Some(failure),
        };
        let inputs = [self.inputs.clone()];
        let judged = checks::is_right(&self.model, &success, &inputs);
        judged
            .and_then(|()| self.rows.beats_are_new())
            .and_then(|()| checks::are_linear(&self.rows.log()))
            .err()
    }

    /// Looks at the beat of the first map task until a former one returns.
    async fn returning_beat(&self, register: &Register) -> Failure {
        let domain = format!("mr-{}-0", register.job);
        let (mut seen, mut last) = (BTreeSet::new(), None);
        loop {
            self.model.clock.sleep(Duration::from_millis(20)).await;
            let names = ["beat".to_owned()];
            let domains = &self.model.domains;
            let read = domains.get(&domain, "m-00000", &names, ReadConsistency::Strong);
            let found = read.await.unwrap_or_default().pop();
            let beat = found.map(|attribute| attribute.value);
            if beat.is_none() || beat == last {
                continue;
            }
            if !seen.insert(beat.clone()) {
                return broken("beats", format!("{beat:?} returned"));
            }
            last = beat;
        }
    }
}

/// Each call takes a while.
fn slow() -> Profile {
    let mut profile = Profile::default();
    for call in profile.calls_mut() {
        call.latency = Latency::Constant(Duration::from_millis(20));
    }
    profile
}

/// The manifest of a loser is there, and what it names is gone.
fn a_losers_runs(guards: Guards) -> Option<Failure> {
    let stage = Stage::new(guards, Profile::default(), &["a b\n"]);
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (_, actor, register) = stage.begin().await;
        let below = format!("_fader/{}/m-00000/{LOSER}", register.job);
        let object = r#"{"name":"0","bytes":9,"records":1,"crc32c":0,"runs":[[0,[0,9,1]]]}"#;
        let manifest = format!(r#"{{"objects":[{object}]}}"#);
        stage.put(&format!("{below}/manifest"), &manifest).await;
        stage.end(&actor).await
    })
}

/// Messages of a loser are in the queue, before those of the winner with the same sequences.
fn a_losers_messages(guards: Guards) -> Option<Failure> {
    let stage = Stage::new(guards, Profile::default(), &["a b\n"]).queue();
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (_, actor, register) = stage.begin().await;
        let queue = format!("mr-{}-s-00000", register.job);
        let body = format!("m-00000 {LOSER} 0 b AAAA");
        for _ in 0..8 {
            let bodies = vec![body.clone(); 10];
            let sent = stage.model.queues.send(&queue, &bodies).await;
            sent.expect("a cloud without faults");
        }
        stage.end(&actor).await
    })
}

/// The manifest of a loser tells of more messages than the winner sent.
fn a_losers_counts(guards: Guards) -> Option<Failure> {
    let stage = Stage::new(guards, Profile::default(), &["a b\n"]).queue();
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (_, actor, register) = stage.begin().await;
        let below = format!("_fader/{}/m-00000/{:032x}", register.job, 0);
        let manifest = r#"{"objects":[],"sent":[[[99,9900,99]]]}"#;
        stage.put(&format!("{below}/manifest"), manifest).await;
        stage.end(&actor).await
    })
}

/// A reducer that received a message twice dies before it has the others. The message is the only
/// copy that there is.
fn the_only_copy(guards: Guards) -> Option<Failure> {
    let stage = Stage::new(guards, slow(), &["a b\n", "c d\n"]).queue();
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (process, actor, register) = stage.begin().await;
        let queue = format!("mr-{}-s-00000", register.job);
        drop(process.runtime().spawn(async move { actor.run().await }));
        // One of the two messages is held back, so that the reducer waits for it.
        let how = Receive {
            max: 1,
            visibility: Some(Duration::from_secs(60)),
            wait: Duration::ZERO,
        };
        loop {
            let held = stage.model.queues.receive(&queue, &how).await;
            if !held.expect("a cloud without faults").is_empty() {
                break;
            }
            stage.model.clock.sleep(Duration::from_millis(1)).await;
        }
        stage.model.clock.sleep(Duration::from_secs(20)).await;
        process.crash();
        stage.end(&stage.actor(&stage.process("second"))).await
    })
}

/// Other planners left plans of less input.
fn another_plan(guards: Guards) -> Option<Failure> {
    let stage = Stage::new(guards, Profile::default(), &["a b\n", "c d\n"]);
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (_, actor, register) = stage.begin().await;
        let plan = r#"{"bases":["mem://in"],"splits":[[{"i":0,"k":"000","b":4,"s":4}]]}"#;
        for number in 0..16 {
            let below = format!("_fader/{}/p-00000/{number:032x}", register.job);
            stage.put(&format!("{below}/plan"), plan).await;
        }
        stage.end(&actor).await
    })
}

/// A map task takes several leases.
fn a_long_task(guards: Guards) -> Option<Failure> {
    one_attempt(guards, Duration::from_secs(1))
}

/// A map task takes longer than any message stays hidden.
fn a_task_of_a_day(guards: Guards) -> Option<Failure> {
    one_attempt(guards, Duration::from_secs(60 * 60))
}

/// A map task reads 120 objects, eight at once, each for this long. A lease is five such times. Its
/// worker lives, so no other one may take it over.
fn one_attempt(guards: Guards, read: Duration) -> Option<Failure> {
    let mut profile = Profile::default();
    profile.objects.get = Call {
        latency: Latency::Constant(read),
        timeout: 60 * read,
        ..Call::default()
    };
    let inputs = ["a\n"; 120];
    let mut stage = Stage::new(guards, profile, &inputs);
    stage.definition.split_bytes = 1 << 30;
    stage.definition.lease_ms = 5 * read.as_millis() as u64;
    stage.play(24 * 60 * 60 * read, async {
        let (_, actor, _) = stage.begin().await;
        let other = stage.process("other");
        let helper = stage.actor(&other);
        drop(other.runtime().spawn(async move { helper.run().await }));
        if let Some(failure) = stage.end(&actor).await {
            return Some(failure);
        }
        stage.once()
    })
}

/// A map task takes many leases, and half of the puts into rows land late and unheard. No beat that
/// was seen may return.
pub(super) fn beats_that_land_late(guards: Guards) -> Option<Failure> {
    let mut profile = Profile::default();
    profile.objects.get = Call {
        latency: Latency::Constant(Duration::from_secs(4)),
        timeout: Duration::from_secs(60),
        ..Call::default()
    };
    let mut stage = Stage::new(guards, profile.clone(), &["a\n"; 120]);
    stage.definition.split_bytes = 1 << 30;
    stage.definition.lease_ms = 5_000;
    let write = &mut profile.domains.write;
    write.faults.late = 500;
    write.timeout = Duration::from_millis(100);
    write.late_max = Duration::from_secs(10);
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (_, actor, register) = stage.begin().await;
        stage.model.set_profile(profile);
        let (ended, returned) = (stage.end(&actor), stage.returning_beat(&register));
        match select(Box::pin(ended), Box::pin(returned)).await {
            Either::Left((failure, _)) => failure,
            Either::Right((failure, _)) => Some(failure),
        }
    })
}

/// A planner dies before its plan won. The next one finds less input.
fn a_planner_that_dies(guards: Guards) -> Option<Failure> {
    let mut stage = Stage::new(guards, slow(), &["a b\n", "c d\n"]);
    stage.definition.failed_max = 1;
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (process, actor, register) = stage.begin().await;
        drop(process.runtime().spawn(async move { actor.run().await }));
        stage.object(&register, "p-00000", "/plan").await;
        // The winner's put is lost if it is on its way already.
        let mut lossy = slow();
        lossy.domains.write.faults.lost_request = 1_000;
        stage.model.set_profile(lossy);
        stage.manifest(&register, "p-00000").await;
        process.crash();
        stage.model.set_profile(slow());
        let deleted = stage.model.objects.delete(&Path::from("in/001")).await;
        deleted.expect("a cloud without faults");
        let ended = stage.actor(&stage.process("second")).run().await;
        match ended {
            Ok(register) if register.state == State::Publishing => None,
            ended => Some(broken("live", format!("{ended:?}"))),
        }
    })
}

/// A reducer dies when it has all messages, before it won.
fn a_reducer_that_dies(guards: Guards) -> Option<Failure> {
    let stage = Stage::new(guards, slow(), &["a b\n"]).queue();
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (process, actor, register) = stage.begin().await;
        drop(process.runtime().spawn(async move { actor.run().await }));
        stage.manifest(&register, "r-00000").await;
        process.crash();
        stage.end(&stage.actor(&stage.process("second"))).await
    })
}

/// The winner's put of a map task is lost, and nothing says so.
fn a_winner_without_an_answer(guards: Guards) -> Option<Failure> {
    let mut stage = Stage::new(guards, slow(), &["a b\n"]);
    stage.definition.split_bytes = 1 << 30;
    stage.definition.lease_ms = 60_000;
    stage.play(Duration::from_secs(24 * 60 * 60), async {
        let (process, actor, register) = stage.begin().await;
        let ended = process.runtime().spawn(async move { actor.run().await });
        stage.manifest(&register, "m-00000").await;
        let mut lossy = slow();
        lossy.domains.write.faults.lost_request = 1_000;
        stage.model.set_profile(lossy);
        stage.model.clock.sleep(Duration::from_secs(3)).await;
        stage.model.set_profile(slow());
        drop(ended.await);
        stage.judge().or_else(|| stage.once())
    })
}

/// The copies of a domain that eventual reads see are an hour behind.
fn a_copy_that_lags(guards: Guards) -> Option<Failure> {
    let mut profile = slow();
    profile.domains.staleness = Staleness::Constant(Duration::from_secs(60 * 60));
    let stage = Stage::new(guards, profile, &["a b\n", "c d\n"]);
    stage.play(Duration::from_secs(10 * 60), async {
        let (_, actor, _) = stage.begin().await;
        stage.end(&actor).await
    })
}
