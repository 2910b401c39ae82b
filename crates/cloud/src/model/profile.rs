//! How a modelled cloud behaves, operation by operation: latency, staleness, faults, limits.
//!
//! The default is a cloud that answers at once and never fails. `Profile::named` has two others,
//! with the sources of their figures.
//!
//! Deliberately absent: correlated failures. A scenario makes them with `Model::set_profile`.

use std::time::Duration;

/// How long a call takes from the sending of its request to its answer, bytes apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Latency {
    /// No time.
    #[default]
    None,
    /// Always the same.
    Constant(Duration),
    /// Log-normal: its logarithm is normally distributed.
    LogNormal {
        /// The median.
        median: Duration,
        /// The standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Quantiles, rising, with the latency at each; linear between them, constant outside.
    Table(Vec<(f64, Duration)>),
}

/// The age of the state that a read or list shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Staleness {
    /// Reads see every write that was acknowledged before.
    #[default]
    None,
    /// Always the same age.
    Constant(Duration),
    /// From no age to this one.
    Uniform(Duration),
    /// Exponential with this mean; never more than ten times the mean.
    Exponential(Duration),
    /// Uniform up to one of two ages.
    TwoPeaked {
        /// The age of most reads.
        near: Duration,
        /// The age of the others.
        far: Duration,
        /// The share of the others, in thousandths.
        far_share: u16,
    },
}

impl Staleness {
    /// The greatest age that a read shows.
    pub fn max(&self) -> Duration {
        match self {
            Staleness::None => Duration::ZERO,
            Staleness::Constant(age) | Staleness::Uniform(age) => *age,
            Staleness::Exponential(mean) => *mean * 10,
            Staleness::TwoPeaked { near, far, .. } => *near.max(far),
        }
    }
}

/// How often a call fails, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// Refused with 503, before anything happened.
    pub unavailable: u16,
    /// Refused with 429, before anything happened.
    pub throttled: u16,
    /// Refused with 409, before anything happened: conditional puts only.
    pub conflict: u16,
    /// The request never arrives; its caller hears nothing.
    pub lost_request: u16,
    /// It happens; its caller hears nothing.
    pub lost_answer: u16,
    /// It happens up to `Call::late_max` after it was sent, perhaps after its caller died; its
    /// caller hears nothing.
    pub late: u16,
}

/// How one operation behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Latency of a call. A drawn part of it passes before the call takes effect.
    pub latency: Latency,
    /// Additional latency for each MiB sent or received.
    pub per_mib: Duration,
    /// How often it fails.
    pub faults: FaultRates,
    /// After this time a caller that hears nothing gives up.
    pub timeout: Duration,
    /// How late a call may take effect.
    pub late_max: Duration,
}

impl Default for Call {
    fn default() -> Self {
        Call {
            latency: Latency::None,
            per_mib: Duration::ZERO,
            faults: FaultRates::default(),
            timeout: Duration::from_secs(5),
            late_max: Duration::from_secs(60),
        }
    }
}

/// A token bucket: calls beyond it are refused with 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Calls a second in the long run.
    pub per_second: u32,
    /// Calls at once after a rest.
    pub burst: u32,
}

/// Which versions of objects have equal ETags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ETags {
    /// Those of equal bytes: S3's are a digest of the body.
    #[default]
    OfBytes,
    /// None: GCS's generations, Azure's ETags.
    OfWrites,
}

/// What becomes of the conditions of puts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conditions {
    /// They are kept.
    #[default]
    Kept,
    /// They are ignored: each put overwrites.
    Ignored,
    /// A put with a condition is refused as one that the store does not implement.
    Refused,
}

/// How objects behave.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectProfile {
    /// Reads of objects and of their metadata.
    pub get: Call,
    /// Writes, copies and parts.
    pub put: Call,
    /// Deletions.
    pub delete: Call,
    /// Pages of lists.
    pub list: Call,
    /// The age of objects that are read.
    pub reads: Staleness,
    /// The age of each object's part of a list.
    pub lists: Staleness,
    /// Objects on a page of a list.
    pub list_page: usize,
    /// Limit of reads and lists for the objects of one prefix, up to the last `/`.
    pub prefix_reads: Option<RateLimit>,
    /// Limit of writes and deletions for the objects of one prefix.
    pub prefix_writes: Option<RateLimit>,
    /// Limit of writes for one object.
    pub object_writes: Option<RateLimit>,
    /// Which ETags are equal.
    pub e_tags: ETags,
    /// What becomes of the conditions of puts.
    pub conditions: Conditions,
}

impl Default for ObjectProfile {
    fn default() -> Self {
        ObjectProfile {
            get: Call::default(),
            put: Call::default(),
            delete: Call::default(),
            list: Call::default(),
            reads: Staleness::None,
            lists: Staleness::None,
            list_page: 1000,
            prefix_reads: None,
            prefix_writes: None,
            object_writes: None,
            e_tags: ETags::OfBytes,
            conditions: Conditions::Kept,
        }
    }
}

/// How queues behave. Frequencies are in thousandths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueProfile {
    /// Sends.
    pub send: Call,
    /// Receives, their wait apart.
    pub receive: Call,
    /// Removes.
    pub remove: Call,
    /// All else.
    pub other: Call,
    /// Short receives that find nothing, though there is something.
    pub empty_receives: u16,
    /// Receives that give fewer messages than there are.
    pub partial_receives: u16,
    /// Receives in another order than messages were sent in.
    pub reordered: u16,
    /// Received messages that are not hidden: another receive has them, too.
    pub duplicates: u16,
    /// Removed messages that are received once more.
    pub resurrections: u16,
    /// Removes by a receipt that is not the newest that succeed without effect, as SQS documents.
    pub stale_receipts: u16,
}

/// How domains behave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainProfile {
    /// Reads.
    pub read: Call,
    /// Writes.
    pub write: Call,
    /// The age of the state that an eventual read shows.
    pub staleness: Staleness,
    /// The age of the state that a strong read shows: a domain that has one breaks its promise.
    pub strong_reads: Staleness,
}

impl DomainProfile {
    /// The greatest age of a state that a read shows.
    pub(super) fn age_max(&self) -> Duration {
        self.staleness.max().max(self.strong_reads.max())
    }
}

/// How a cloud behaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Decides all that is drawn.
    pub seed: u64,
    /// Objects.
    pub objects: ObjectProfile,
    /// Queues.
    pub queues: QueueProfile,
    /// Domains.
    pub domains: DomainProfile,
}

impl Profile {
    /// How all its calls behave.
    pub fn calls_mut(&mut self) -> [&mut Call; 10] {
        [
            &mut self.objects.get,
            &mut self.objects.put,
            &mut self.objects.delete,
            &mut self.objects.list,
            &mut self.queues.send,
            &mut self.queues.receive,
            &mut self.queues.remove,
            &mut self.queues.other,
            &mut self.domains.read,
            &mut self.domains.write,
        ]
    }

    /// The same, but no call fails and every answer arrives.
    #[must_use]
    pub fn without_faults(mut self) -> Self {
        for call in self.calls_mut() {
            call.faults = FaultRates::default();
        }
        self
    }

    /// A profile by its name: `2007` or `2026`.
    pub fn named(name: &str, seed: u64) -> Option<Self> {
        match name {
            "2007" => Some(Profile::of_2007(seed)),
            "2026" => Some(Profile::of_2026(seed)),
            _ => None,
        }
    }

    /// AWS in 2007.
    ///
    /// Latencies are of Brantner et al., "Building a Database on S3", SIGMOD 2008. S3 reads 10, 100
    /// and 1000 KB in 0.14, 0.45 and 3.87 s, and a put takes three times a get. SQS sends in 0.31
    /// s, receives and removes in 0.16 s. SimpleDB's are of 2010 (22 and 110 ms). Lists take a
    /// get's time; spreads (sigma 0.4) are assumed. Staleness: reads of S3 alternated between low
    /// and high ages (Bermbach and Tai, 2011). Its ages here, and the 1 % of messages received
    /// twice or not removed, are assumed. SimpleDB: "usually within a second" (its guide; Wada et
    /// al., CIDR 2011, saw half a second).
    pub fn of_2007(seed: u64) -> Self {
        let call = |ms| Call {
            latency: log_normal(ms, 0.4),
            faults: assumed_faults(),
            ..Call::default()
        };
        let object = |ms, per_mib_ms| Call {
            per_mib: Duration::from_millis(per_mib_ms),
            ..call(ms)
        };
        let age = Staleness::TwoPeaked {
            near: Duration::from_millis(500),
            far: Duration::from_secs(10),
            far_share: 50,
        };
        Profile {
            seed,
            objects: ObjectProfile {
                get: object(100, 3_900),
                put: object(300, 11_700),
                delete: call(160),
                list: call(100),
                reads: age.clone(),
                lists: age,
                ..ObjectProfile::default()
            },
            queues: QueueProfile {
                send: call(310),
                receive: call(160),
                remove: call(160),
                other: call(310),
                empty_receives: 100,
                partial_receives: 300,
                reordered: 300,
                duplicates: 10,
                resurrections: 10,
                stale_receipts: 1000,
            },
            domains: DomainProfile {
                read: call(22),
                write: call(110),
                staleness: Staleness::Exponential(Duration::from_millis(300)),
                ..DomainProfile::default()
            },
        }
    }

    /// AWS in 2026.
    ///
    /// S3 Standard of us-east-1 as MinIO's warp measured it on 2026-07-25. 4 KiB put: 28.0, 34.6
    /// and 67.2 ms at p50, p90 and p99; get: 24.3, 32.5, 76.8. List: 24.7 and 59.0 at p50 and p99;
    /// 4 MiB: 138 to 141 ms. Reads and lists are strong since December 2020; 3,500 writes and 5,500
    /// reads a second for each prefix (its guide). SQS: 16 ms (Amazon, 2012; no newer figure),
    /// spread assumed; short receives sample its servers. SimpleDB: 22 and 110 ms (2010). The share
    /// of lost and late calls is assumed.
    pub fn of_2026(seed: u64) -> Self {
        let call = |latency| Call {
            latency,
            faults: assumed_faults(),
            ..Call::default()
        };
        let object = |quantiles: [(f64, f64); 3]| Call {
            per_mib: Duration::from_millis(28),
            ..call(table(quantiles))
        };
        Profile {
            seed,
            objects: ObjectProfile {
                get: object([(0.5, 24.3), (0.9, 32.5), (0.99, 76.8)]),
                put: object([(0.5, 28.0), (0.9, 34.6), (0.99, 67.2)]),
                delete: object([(0.5, 28.0), (0.9, 34.6), (0.99, 67.2)]),
                list: object([(0.5, 24.7), (0.9, 35.0), (0.99, 59.0)]),
                prefix_reads: Some(RateLimit {
                    per_second: 5_500,
                    burst: 5_500,
                }),
                prefix_writes: Some(RateLimit {
                    per_second: 3_500,
                    burst: 3_500,
                }),
                ..ObjectProfile::default()
            },
            queues: QueueProfile {
                send: call(log_normal(16, 0.5)),
                receive: call(log_normal(16, 0.5)),
                remove: call(log_normal(16, 0.5)),
                other: call(log_normal(16, 0.5)),
                empty_receives: 100,
                partial_receives: 200,
                reordered: 200,
                duplicates: 1,
                resurrections: 1,
                stale_receipts: 1000,
            },
            domains: DomainProfile {
                read: call(log_normal(22, 0.4)),
                write: call(log_normal(110, 0.4)),
                staleness: Staleness::Exponential(Duration::from_millis(300)),
                ..DomainProfile::default()
            },
        }
    }
}

/// One call in a thousand is refused, one has no answer: no provider says how many.
fn assumed_faults() -> FaultRates {
    FaultRates {
        unavailable: 1,
        lost_answer: 1,
        ..FaultRates::default()
    }
}

fn log_normal(median_ms: u64, sigma: f64) -> Latency {
    Latency::LogNormal {
        median: Duration::from_millis(median_ms),
        sigma,
    }
}

fn table(quantiles: [(f64, f64); 3]) -> Latency {
    let row = |(quantile, ms): (f64, f64)| (quantile, Duration::from_micros((ms * 1e3) as u64));
    let fastest = quantiles[0].1 * 0.6;
    let rows = [(0.0, fastest)].into_iter().chain(quantiles);
    Latency::Table(rows.map(row).collect())
}
