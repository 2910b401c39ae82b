//! Plans of simulated jobs: all that is drawn before a run.

use std::time::Duration;

use fader_cloud::model::{Call, ETags, FaultRates, Latency, Profile};
use fader_mapreduce::{Codec, Definition, Guard, Program, Shuffle};

use super::program::RANDOM;
use crate::cloud::Backend;
use crate::cloud::plan::{Fault, Plan as CloudPlan};
use crate::world::Random;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Begins, joins or resumes the job, and works.
    Run,
    /// Joins a job that is there.
    Work,
    /// Cleans, again and again.
    Clean,
    /// Cancels once, after a time, and works then.
    Cancel(Duration),
}

/// What happens to the first object of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is written anew, with other words.
    Rewritten,
    /// It is deleted.
    Deleted,
}

/// A plan of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) cloud: CloudPlan,
    pub(super) roles: Vec<Role>,
    pub(super) definition: Definition,
    pub(super) inputs: Vec<String>,
    pub(super) change: Option<(Duration, Change)>,
    /// When a message of the shuffle `queue` is lost, if one is: its retention ends.
    pub(super) expiry: Option<Duration>,
    /// Whether nothing fails but queues: then no task runs twice.
    pub(super) is_once: bool,
    /// Whether all processes die when faults end.
    pub(super) all_die: bool,
    /// A rule that is missing, in builds for mutants.
    pub removed: Option<Guard>,
}

/// A few lines of a few words.
fn words(random: &mut Random) -> String {
    let count = random.between(1, 8);
    let lines = (0..count).map(|_| {
        let words = (0..random.between(0, 3)).map(|_| format!("w{}", random.below(6)));
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut cloud = CloudPlan::new(seed, Backend::Models);
        let mut random = Random::new(seed ^ 0x3A9);
        cloud.profile.objects.e_tags = ETags::OfWrites;
        cloud.profile.objects.object_writes = None;
        let is_once = random.chance(250);
        let inputs: Vec<String> = (0..random.between(1, 4))
            .map(|_| words(&mut random))
            .collect();
        let program = if random.chance(500) {
            RANDOM
        } else {
            "word-count"
        };
        let definition = Definition {
            reduces: random.between(1, 3) as u32,
            shards: random.between(1, 3) as u32,
            lease_ms: *random.pick(&[1_000, 3_000, 10_000]),
            split_bytes: *random.pick(&[5, 20, 60]),
            lost_max: 1_000,
            backups: !is_once && random.chance(700),
            codec: *random.pick(&[Codec::Lz4, Codec::Zstd]),
            ..Definition::new(Program::new(program), vec!["mem://in/**".to_owned()])
        };
        let mut roles: Vec<Role> = (0..cloud.processes.len())
            .map(|_| role(&mut random))
            .collect();
        roles[0] = Role::Run;
        let mut change = None;
        if is_once {
            calm(&mut cloud, &mut random);
            roles.iter_mut().for_each(|role| {
                if matches!(role, Role::Cancel(_) | Role::Clean) {
                    *role = Role::Work;
                }
            });
        } else if random.chance(250) {
            slow(&mut cloud, &mut random);
            // Cancelled at any time, most of all while it is published.
            if let Some(last) = roles.last_mut() {
                *last = Role::Cancel(Duration::from_millis(random.between(1_000, 40_000)));
            }
        } else if random.chance(200) {
            let after = Duration::from_millis(random.skewed(100, 20_000));
            let kind = *random.pick(&[Change::Rewritten, Change::Deleted]);
            change = Some((after, kind));
        }
        // Drawn apart, so that all else of a seed stays as it was.
        let mut apart = Random::new(seed ^ 0x0E5);
        let definition = Definition {
            shuffle: *apart.pick(&[Shuffle::Object, Shuffle::Queue]),
            ..definition
        };
        let is_pressed = definition.shuffle == Shuffle::Queue && !is_once && apart.chance(400);
        let definition = match is_pressed {
            true => pressed(definition, &mut cloud, &mut apart),
            false => definition,
        };
        let may_expire = definition.shuffle == Shuffle::Queue && !is_once && change.is_none();
        let expiry = (may_expire && apart.chance(if is_pressed { 400 } else { 200 }))
            .then(|| Duration::from_millis(apart.skewed(1_000, 60_000)));
        Plan {
            cloud,
            roles,
            definition,
            inputs,
            change,
            expiry,
            is_once,
            all_die: random.chance(500) && !is_once,
            removed: None,
        }
    }

    /// How the cloud behaves without faults.
    pub(super) fn calm(&self) -> Profile {
        self.cloud.calm()
    }
}

fn role(random: &mut Random) -> Role {
    match random.below(10) {
        0..=3 => Role::Run,
        4..=6 => Role::Work,
        7 => Role::Clean,
        8 => Role::Cancel(Duration::from_millis(random.skewed(100, 30_000))),
        _ => Role::Work,
    }
}

/// Objects are slow, and puts into rows are often not answered.
fn slow(cloud: &mut CloudPlan, random: &mut Random) {
    for call in cloud.profile.calls_mut() {
        call.timeout = Duration::from_secs(5);
    }
    let objects = &mut cloud.profile.objects;
    for call in [&mut objects.get, &mut objects.put] {
        let latency = Duration::from_millis(random.between(300, 2_000));
        call.latency = Latency::LogNormal {
            median: latency,
            sigma: 0.5,
        };
    }
    cloud.profile.domains.write.faults.lost_answer = 200;
}

/// Leases are short and objects slow, so that several attempts of a task send messages, and
/// messages come again while they are gathered.
fn pressed(definition: Definition, cloud: &mut CloudPlan, random: &mut Random) -> Definition {
    slow(cloud, random);
    Definition {
        program: Program::new(RANDOM),
        reduces: random.between(2, 3) as u32,
        lease_ms: 1_000,
        backups: true,
        ..definition
    }
}

/// Nothing fails, reads are slow, and queues give messages twice.
fn calm(cloud: &mut CloudPlan, random: &mut Random) {
    let read = Call {
        latency: Latency::Constant(Duration::from_millis(random.between(500, 4_000))),
        faults: FaultRates::default(),
        timeout: Duration::from_secs(60),
        ..Call::default()
    };
    for call in cloud.profile.calls_mut() {
        call.faults = FaultRates::default();
        call.latency = Latency::Constant(Duration::from_millis(5));
        call.timeout = Duration::from_secs(60);
    }
    cloud.profile.objects.get = read;
    cloud.profile.queues.duplicates = 300;
    cloud.profile.queues.resurrections = 300;
    // Renewals of messages fail: the beat is the lease.
    cloud.profile.queues.other.faults.unavailable = 300;
    for process in &mut cloud.processes {
        process
            .strikes
            .retain(|strike| matches!(strike.fault, Fault::Jump(_)));
    }
}
