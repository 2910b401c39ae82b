//! One run of a simulated database.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fader_cloud::model::{Conditions, Latency, Model, Process, Profile, Skew, Staleness};
use fader_cloud::{Clock, Cloud, Error};
use fader_database::{
    CollectionSettings, Database, DiskTier, Guard, Identity, IndexRange, IndexValue, Level,
    Options, PendingQueues, Verified,
};
use futures_util::future::join_all;
use object_store::path::Path;

use super::checks::{self, Claims};
use super::client::{COLLECTION, Client, GROUPS, Habits, INDEX, group_of};
use super::files::Files;
use super::history::Record;
use crate::cloud::plan::{Fault, Plan as CloudPlan, Strike, process};
use crate::cloud::run::live_one;
use crate::cloud::{Backend, Failure};
use crate::world::Random;

/// Steps after which a run counts as stuck.
const STEPS_MAX: u64 = 20_000_000;
/// When a run counts as stuck: all faults end after a minute and a half.
const STUCK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long a received transaction is left to its receiver, at most.
const ADOPTION: Duration = Duration::from_secs(31);

/// A plan of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) cloud: CloudPlan,
    pub(super) settings: CollectionSettings,
    pub(super) options: Options,
    /// Bytes of the disk tier of each process, if they have one.
    pub(super) disk_bytes: Option<u64>,
    pub(super) levels: Vec<Level>,
    pub(super) habits: Habits,
    /// A rule that is missing, in builds for mutants.
    pub removed: Option<Guard>,
}

/// What became of a run.
#[derive(Debug)]
pub struct Run {
    /// The first broken promise.
    pub failure: Option<Failure>,
    /// How often each promise was put to the test.
    pub claims: Claims,
    /// Tasks polled, timers and events.
    pub steps: u64,
    /// Transactions, reads and checkpoints of clients.
    pub calls: u64,
    /// The digest of all steps: the same for the same plan.
    pub digest: u64,
    /// What happened, if it was recorded.
    pub trace: Vec<String>,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let backend = Backend::ALL[(seed % Backend::ALL.len() as u64) as usize];
        let mut cloud = CloudPlan::new(seed, backend);
        let mut random = Random::new(seed ^ 0xDB);
        // As S3 was in 2007. Queues in a bucket need reads that are not stale.
        if backend == Backend::Models && random.chance(400) {
            let age = Duration::from_millis(random.skewed(100, 5_000));
            cloud.profile.objects.reads = Staleness::Uniform(age);
        }
        let bytes = *random.pick(&[256, 300, 500, 2_000]);
        let settings = CollectionSettings {
            minimum: Level::Basic,
            queues: *random.pick(&[
                PendingQueues::PerCollection(1),
                PendingQueues::PerCollection(3),
                PendingQueues::PerLeaf,
                PendingQueues::PerLeaf,
            ]),
            leaf_bytes: bytes,
            node_bytes: bytes,
            // In other runs a client creates the index while all write.
            indexes: match random.chance(500) {
                true => [(INDEX.to_owned(), INDEX.to_owned())].into(),
                false => [].into(),
            },
            ..CollectionSettings::default()
        };
        let is_encrypted = random.chance(250);
        let identity = Identity::parse(&"17".repeat(32)).filter(|_| is_encrypted);
        let settings = CollectionSettings {
            is_encrypted,
            ..settings
        };
        let options = Options {
            identity,
            pool_bytes: *random.pick(&[1_000, 100_000]),
            ttl: Duration::from_millis(random.skewed(1, 30_000)),
            checkpoint_after: Duration::from_millis(random.skewed(10, 20_000)),
            finish_after: Duration::from_millis(random.skewed(1, 2_000)),
            catalogue_ttl: Duration::from_millis(random.between(5_000, 10_000)),
            has_lock_hint: seed.is_multiple_of(3),
            has_reader_checkpoints: seed.is_multiple_of(4),
            // Clocks jump: stamps of the future are a case of their own.
            clock_bound: Duration::from_secs(2 * 60 * 60),
            ..Options::default()
        };
        let levels = match random.below(4) {
            0 => vec![Level::Basic],
            1 => vec![Level::Atomic],
            _ => vec![Level::Basic, Level::Monotonic, Level::Atomic],
        };
        let plan = Plan {
            cloud,
            settings,
            options,
            disk_bytes: None,
            levels,
            habits: Habits::default(),
            removed: None,
        };
        let plan = plan.with_disk_and_clients(seed);
        match seed % 10 {
            2 => plan.with_token(&mut random),
            6 => plan.with_updates_first(),
            8 => plan.with_stale_reads(),
            9 => plan.with_slow_claims(&mut random),
            _ => plan,
        }
    }

    /// Some seeds have a disk tier, some many clients.
    fn with_disk_and_clients(mut self, seed: u64) -> Self {
        // A stream of its own: the draws of other parts do not depend on it.
        let mut random = Random::new(seed ^ 0xD15C);
        if matches!(seed % 5, 3 | 4) {
            self.disk_bytes = Some(*random.pick(&[1_500, 20_000, 1 << 20]));
        }
        match seed % 8 {
            5 => self.with_many_clients(&mut random),
            _ => self,
        }
    }

    /// Up to 16 clients; together they do about what two to four do otherwise.
    fn with_many_clients(mut self, random: &mut Random) -> Self {
        let has_faults = self.cloud.processes.iter().any(|it| !it.strikes.is_empty());
        let count = random.between(5, 16) as usize;
        while self.cloud.processes.len() < count {
            self.cloud.processes.push(process(random, has_faults));
        }
        self.habits.pause_ms *= 1 + count as u64 / 3;
        self
    }

    /// Updates often come before the inserts that they wait for, and each checkpoint has a few.
    fn with_updates_first(mut self) -> Self {
        self.settings.queues = PendingQueues::PerCollection(3);
        self.settings.indexes = [(INDEX.to_owned(), INDEX.to_owned())].into();
        self.options.checkpoint_after = Duration::from_millis(10);
        self.levels = vec![Level::Basic, Level::Atomic];
        self.habits = Habits {
            keys: 40,
            puts: 4,
            updates: 6,
            pause_ms: 300,
            ..self.habits
        };
        self
    }

    /// The store keeps no conditions of puts. The cloud is within what the token assumes: no put is
    /// late, no received message is shown early, reads are not stale. Clients stand still for
    /// longer than the token's time.
    fn with_token(mut self, random: &mut Random) -> Self {
        let profile = &mut self.cloud.profile;
        profile.objects.conditions = *random.pick(&[Conditions::Ignored, Conditions::Refused]);
        profile.objects.reads = Staleness::None;
        profile.objects.put.faults.late = 0;
        profile.objects.get.latency = Latency::Constant(Duration::from_millis(200));
        profile.queues.duplicates = 0;
        self.cloud.faults = Duration::from_secs(300);
        self.settings.queues = PendingQueues::PerCollection(2);
        self.options.checkpoint_after = Duration::from_millis(100);
        for process in self.cloud.processes.iter_mut().skip(1) {
            process.strikes = (0..6)
                .map(|_| Strike {
                    after: Duration::from_millis(random.between(0, 10_000)),
                    fault: Fault::Pause(Duration::from_secs(40)),
                })
                .collect();
        }
        self
    }

    /// Pages are read anew each time, and often as they were seconds ago.
    fn with_stale_reads(mut self) -> Self {
        self.cloud.profile.objects.reads = Staleness::Uniform(Duration::from_secs(10));
        self.options.ttl = Duration::from_millis(1);
        self.options.checkpoint_after = Duration::from_millis(10);
        self.levels = vec![Level::Monotonic];
        self.habits = Habits {
            keys: 3,
            pause_ms: 300,
            ..self.habits
        };
        self
    }

    /// Large transactions stand still for minutes, some of them between message and claim.
    fn with_slow_claims(mut self, random: &mut Random) -> Self {
        self.levels = vec![Level::Atomic];
        self.options.finish_after = Duration::from_millis(1);
        self.cloud.faults = Duration::from_secs(900);
        self.cloud.profile.objects.put.latency = Latency::Constant(Duration::from_millis(900));
        self.cloud.profile.objects.put.timeout = Duration::from_secs(600);
        for process in self.cloud.processes.iter_mut().skip(1) {
            process.strikes = (0..6)
                .map(|_| Strike {
                    after: Duration::from_millis(random.between(0, 20_000)),
                    fault: Fault::Pause(Duration::from_secs(100)),
                })
                .collect();
        }
        self.habits = Habits {
            large_in: 2,
            ..self.habits
        };
        self
    }

    /// What implements queues.
    pub fn backend(&self) -> Backend {
        self.cloud.backend
    }

    /// How the cloud behaves without faults.
    fn calm(&self) -> Profile {
        let mut profile = self.cloud.calm();
        profile.objects.reads = Staleness::None;
        profile
    }

    fn options(&self) -> Options {
        #[cfg(feature = "mutants")]
        if let Some(guard) = self.removed {
            return Options {
                guards: fader_database::Guards::without(guard),
                ..self.options.clone()
            };
        }
        assert_eq!(self.removed, None, "this build has all rules");
        self.options.clone()
    }
}

struct World<'a> {
    plan: &'a Plan,
    model: Model,
    record: Record,
    /// When faults end.
    until: Cell<Duration>,
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
        model,
        record: Record::default(),
        until: Cell::default(),
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
    let judged = match ended {
        Some(Ok(end)) => checks::all(&history, &end),
        Some(Err(failure)) => Err(failure),
        None => Err(stuck()),
    };
    let (claims, failure) = match judged {
        Ok(mut claims) => {
            claims.insert("index", usize::try_from(GROUPS).expect("a few"));
            (claims, None)
        }
        Err(failure) => (Claims::new(), Some(failure)),
    };
    Run {
        failure,
        claims,
        steps,
        calls: history.calls,
        digest,
        trace,
    }
}

impl World<'_> {
    fn cloud(&self, process: &Process) -> Cloud {
        let cloud = self.model.cloud(process);
        match self.plan.cloud.backend {
            Backend::Models => cloud,
            Backend::Bucket => cloud.in_bucket(&Path::from("bucket")),
        }
    }

    fn client(&self, process: &Process, disk: Option<&DiskTier>) -> Client {
        Client {
            cloud: self.cloud(process),
            options: Options {
                disk: disk.cloned(),
                ..self.plan.options()
            },
            record: self.record.clone(),
            truth: self.model.clock.clone(),
            until: self.until.get(),
            levels: self.plan.levels.clone(),
            builds: self.plan.settings.indexes.is_empty(),
            habits: self.plan.habits,
        }
    }

    async fn live(&self) -> Result<BTreeMap<String, String>, Failure> {
        let harness = self.model.executor.harness();
        let lived = harness.runtime().timeout(STUCK, self.phases()).await;
        lived.unwrap_or_else(|| {
            Err(Failure {
                guarantee: "live",
                text: format!("the database did not settle within {STUCK:?}"),
            })
        })
    }

    async fn phases(&self) -> Result<BTreeMap<String, String>, Failure> {
        let executor = &self.model.executor;
        let plan = &self.plan.cloud;
        self.model.set_profile(self.plan.calm());
        let first = executor.process("setup", Skew::default());
        let created = async {
            let database = Database::create(self.cloud(&first), self.plan.options.clone()).await?;
            database
                .create_collection(COLLECTION, &self.plan.settings)
                .await
        };
        created
            .await
            .map_err(|error| live("nothing was created", &error))?;
        self.model.set_profile(plan.profile.clone());
        let until = self.model.clock.monotonic() + plan.faults;
        self.until.set(until);
        let begun = plan
            .processes
            .iter()
            .enumerate()
            .map(async |(at, planned)| {
                let process = executor.process(&format!("p{at}"), planned.skew);
                let disk = self.plan.disk_bytes.map(|bytes_max| DiskTier {
                    files: Arc::new(Files::new(plan.seed ^ at as u64)),
                    bytes_max,
                });
                let start = || self.client(&process, disk.as_ref()).start();
                live_one(&self.model, &process, planned, until, start).await;
            });
        join_all(begun).await;
        self.model.set_profile(self.plan.calm());
        self.model.clock.sleep(plan.settled_after()).await;
        let last = executor.process("last", Skew::default());
        let database = Database::open(self.cloud(&last), self.plan.options()).await;
        let database = database.map_err(|error| live("it does not open", &error))?;
        self.settle(&database).await?;
        let end = self.read(&database).await?;
        self.look_up(&database, &end).await?;
        let vacuumed = database.vacuum(Duration::ZERO).await;
        let vacuumed = vacuumed.map_err(|error| live("it does not vacuum", &error))?;
        let report = self.verified(&database).await?.queues;
        if vacuumed.young == 0 && !report.orphans.is_empty() {
            return Err(Failure {
                guarantee: "queues",
                text: format!("queues of pages that are gone stay: {report:?}"),
            });
        }
        // A client without a pool sees what is left.
        let after = executor.process("after", Skew::default());
        let database = Database::open(self.cloud(&after), self.plan.options()).await;
        let database = database.map_err(|error| live("it does not open", &error))?;
        if self.read(&database).await? != end {
            return Err(Failure {
                guarantee: "vacuum",
                text: "other records are there after a vacuum".to_owned(),
            });
        }
        Ok(end)
    }

    /// The index leads to all records and to no others. A builder that was killed is followed by
    /// another.
    async fn look_up(
        &self,
        database: &Database,
        end: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let index = |text: String| Failure {
            guarantee: "index",
            text,
        };
        let failed = |error: Error| live("the index cannot be read", &error);
        let collections = database.collections().await.map_err(failed)?;
        let indexes = &collections[COLLECTION].indexes;
        if indexes.get(INDEX).is_none_or(|index| !index.is_ready) {
            let created = database
                .create_index(COLLECTION, INDEX, INDEX, &|_| ())
                .await;
            created.map_err(failed)?;
        }
        let mut transaction = database.begin(Level::Monotonic);
        for group in 0..GROUPS {
            let range = IndexRange::Is(IndexValue::Number(group as f64));
            let hits = transaction.lookup(COLLECTION, INDEX, &range, None, usize::MAX);
            let hits = hits.await.map_err(failed)?;
            let found: Vec<String> = hits.iter().map(|hit| text(&hit.key)).collect();
            let expected = end
                .iter()
                .filter(|(_, value)| group_of(value) == Some(group));
            let expected: Vec<String> = expected.map(|(key, _)| key.clone()).collect();
            if found != expected {
                return Err(index(format!("group {group}: {found:?}, not {expected:?}")));
            }
        }
        let report = database
            .verify_index(COLLECTION, INDEX)
            .await
            .map_err(failed)?;
        match report.missing.first() {
            None => Ok(()),
            Some(key) => Err(index(format!("{key:?} has no entry: {report:?}"))),
        }
    }

    /// Settles until nothing is pending any more. No call may fail: faults have ended.
    async fn settle(&self, database: &Database) -> Result<(), Failure> {
        let mut quiet = 0;
        while quiet < 3 {
            let done = database.settle().await;
            let done = done.map_err(|error| live("it does not settle", &error))?;
            quiet = if done.messages == 0 { quiet + 1 } else { 0 };
            self.model.clock.sleep(ADOPTION).await;
        }
        let Verified { tree, queues } = self.verified(database).await?;
        if let Some(problem) = tree.problems.first() {
            return Err(Failure {
                guarantee: "tree",
                text: problem.to_string(),
            });
        }
        match queues.missing.first() {
            None => Ok(()),
            Some(leaf) => Err(Failure {
                guarantee: "queues",
                text: format!("leaf {leaf} has no queue: {queues:?}"),
            }),
        }
    }

    async fn verified(&self, database: &Database) -> Result<Verified, Failure> {
        let reports = database.verify_with_queues(COLLECTION).await;
        reports.map_err(|error| live("its tree or its queues cannot be read", &error))
    }

    async fn read(&self, database: &Database) -> Result<BTreeMap<String, String>, Failure> {
        let mut transaction = database.begin(Level::Monotonic);
        let records = transaction.range(COLLECTION, b"", None, usize::MAX).await;
        let records = records.map_err(|error| live("it cannot be read", &error))?;
        Ok(records
            .iter()
            .map(|(key, value)| (text(key), text(value)))
            .collect())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn live(what: &str, error: &Error) -> Failure {
    Failure {
        guarantee: "live",
        text: format!("{what} without a fault: {error}: {:?}", error.source),
    }
}
