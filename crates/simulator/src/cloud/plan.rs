//! Plans of simulated clouds: all that is drawn before a run.

use std::time::Duration;

use fader_cloud::bucket::Guard;
use fader_cloud::model::{
    Call, DomainProfile, ETags, FaultRates, Latency, ObjectProfile, Profile, QueueProfile,
    RateLimit, Skew, Staleness,
};

use crate::world::Random;

/// The age of an eventual read of a domain in a bucket: 5 s by a clock that drifts.
const VIEW_AGE: Duration = Duration::from_millis(5_010);

/// What implements queues and domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The models of the contract.
    Models,
    /// Queues and domains in a bucket of modelled objects.
    Bucket,
}

impl Backend {
    /// All of them.
    pub const ALL: [Backend; 2] = [Backend::Models, Backend::Bucket];
}

/// A plan of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its seed.
    pub seed: u64,
    /// What implements queues and domains.
    pub backend: Backend,
    /// How the cloud behaves at first.
    pub profile: Profile,
    /// A guard that is missing, in builds for mutants.
    pub removed: Option<Guard>,
    /// Whether batches go item by item, as to a cloud that does not write them whole.
    pub splits_batches: bool,
    /// How long faults happen.
    pub faults: Duration,
    /// Writes of the domain before: a snapshot is due soon.
    pub(crate) slots_before: u64,
    /// The processes.
    pub(crate) processes: Vec<ProcessPlan>,
    /// Visibility times that receives ask for.
    pub(crate) visibilities: Vec<Duration>,
    pub(crate) domain_staleness: Duration,
}

/// What becomes of one process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessPlan {
    pub(crate) skew: Skew,
    pub(crate) strikes: Vec<Strike>,
}

/// A fault of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    /// How long after the one before.
    pub(crate) after: Duration,
    pub(crate) fault: Fault,
}

/// The kinds of faults of processes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It crashes at the await of this number, and is down for a time.
    Crash(u64, Duration),
    /// It stands still for a time.
    Pause(Duration),
    /// Its wall clock jumps.
    Jump(i64),
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64, backend: Backend) -> Self {
        let mut random = Random::new(seed);
        let faults = Duration::from_secs(random.between(20, 90));
        let has_faults = random.chance(850);
        let processes = (0..random.between(2, 4)).map(|_| process(&mut random, has_faults));
        let processes = processes.collect();
        let visibilities = (0..3).map(|_| *random.pick(&[1, 2, 3, 5, 10, 30]));
        let visibilities = visibilities.map(Duration::from_secs).collect();
        let profile = profile(seed, &mut random, has_faults);
        Plan {
            seed,
            backend,
            removed: None,
            domain_staleness: match backend {
                Backend::Models => profile.domains.staleness.max(),
                Backend::Bucket => VIEW_AGE,
            },
            profile,
            faults,
            splits_batches: false,
            slots_before: match random.chance(300) {
                true => random.between(200, 256),
                false => 0,
            },
            processes,
            visibilities,
        }
    }

    /// How the cloud behaves once faults have ended: as before, without faults.
    pub(crate) fn calm(&self) -> Profile {
        let mut profile = self.profile.clone().without_faults();
        profile.objects.prefix_reads = None;
        profile.objects.prefix_writes = None;
        profile.objects.object_writes = None;
        profile.queues.empty_receives = 0;
        profile
    }

    /// Whether every put is answered.
    pub(crate) fn answers_puts(&self) -> bool {
        let faults = &self.profile.objects.put.faults;
        faults.lost_request + faults.lost_answer + faults.late == 0
    }

    /// The time after which no call of while there were faults takes effect.
    pub(crate) fn settled_after(&self) -> Duration {
        let mut profile = self.profile.clone();
        let calls = profile.calls_mut().into_iter();
        let late = calls.map(|call| call.late_max + call.timeout);
        late.max().unwrap_or_default()
    }
}

/// What becomes of a process of this seed.
pub(crate) fn process(random: &mut Random, has_faults: bool) -> ProcessPlan {
    let strikes = if has_faults { random.between(0, 5) } else { 0 };
    let strikes = (0..strikes).map(|_| Strike {
        after: Duration::from_millis(random.between(0, 15_000)),
        fault: match random.below(5) {
            0 => Fault::Pause(Duration::from_millis(random.skewed(100, 20_000))),
            1 => Fault::Jump(random.between(0, 7_200_000) as i64 - 3_600_000),
            _ => {
                let down = Duration::from_millis(random.skewed(1, 20_000));
                Fault::Crash(random.between(1, 60), down)
            }
        },
    });
    let strikes = strikes.collect();
    ProcessPlan {
        skew: Skew {
            offset_ms: random.between(0, 20_000) as i64 - 10_000,
            // The rules allow 1 s and 0.1 %.
            drift_ppm: random.between(0, 1_000) as i64 - 500,
        },
        strikes,
    }
}

/// A kind of call with this median, and its faults if there are any.
fn call(random: &mut Random, has_faults: bool, median_ms: u64) -> Call {
    let rate = |random: &mut Random, max| match has_faults {
        true => random.skewed(0, max) as u16,
        false => 0,
    };
    Call {
        latency: match random.below(3) {
            0 => Latency::Constant(Duration::from_millis(median_ms)),
            _ => Latency::LogNormal {
                median: Duration::from_millis(median_ms),
                sigma: random.between(1, 15) as f64 / 10.0,
            },
        },
        per_mib: Duration::from_millis(30),
        faults: FaultRates {
            unavailable: rate(random, 60),
            throttled: rate(random, 30),
            conflict: rate(random, 100),
            lost_request: rate(random, 40),
            lost_answer: rate(random, 60),
            late: rate(random, 40),
        },
        timeout: Duration::from_millis(random.between(200, 5_000)),
        late_max: Duration::from_millis(random.skewed(100, 60_000)),
    }
}

fn profile(seed: u64, random: &mut Random, has_faults: bool) -> Profile {
    let call = |random: &mut Random, median_ms| call(random, has_faults, median_ms);
    let objects = ObjectProfile {
        get: call(random, 25),
        put: call(random, 30),
        delete: call(random, 30),
        list: call(random, 25),
        list_page: *random.pick(&[2, 3, 10, 1000]),
        object_writes: random.chance(300).then_some(RateLimit {
            per_second: 1,
            burst: 2,
        }),
        e_tags: *random.pick(&[ETags::OfBytes, ETags::OfWrites]),
        ..ObjectProfile::default()
    };
    let queues = QueueProfile {
        send: call(random, 16),
        receive: call(random, 16),
        remove: call(random, 16),
        other: call(random, 16),
        empty_receives: random.between(0, 500) as u16,
        partial_receives: random.between(0, 500) as u16,
        reordered: random.between(0, 500) as u16,
        stale_receipts: 0,
        ..QueueProfile::default()
    };
    let domains = DomainProfile {
        read: call(random, 22),
        write: call(random, 110),
        staleness: match random.below(4) {
            0 => Staleness::None,
            1 => Staleness::Uniform(Duration::from_secs(3)),
            2 => Staleness::Exponential(Duration::from_millis(300)),
            _ => Staleness::TwoPeaked {
                near: Duration::from_millis(500),
                far: Duration::from_secs(5),
                far_share: 100,
            },
        },
        ..DomainProfile::default()
    };
    Profile {
        seed,
        objects,
        queues,
        domains,
    }
}
