//! The contract in memory and in virtual time, from a seed: as good or bad as a [`Profile`] says.
//!
//! ```text
//!  Executor ── Process "a" ── Cloud ─┐ Link: latency, faults, meter
//!           └─ Process "b" ── Cloud ─┤
//!                                    └─▶ objects, queues, domains: one state for all
//! ```
//!
//! Invariants:
//! - MODEL-1 the same seed, profile and code give the same calls, answers and times.
//! - MODEL-2 by the default profile every promise of `conformance` holds; by any profile the
//!   contract does.
//!
//! Deliberately absent: threads; the real network.

mod domains;
mod executor;
mod faults;
mod link;
mod objects;
mod process;
mod profile;
mod queues;
mod schedule;
mod store;

pub use domains::ModelDomains;
pub use executor::Executor;
pub use faults::Fate;
pub use objects::ModelObjects;
pub use process::{ModelClock, Process, Skew, run};
pub use profile::{
    Call, Conditions, DomainProfile, ETags, FaultRates, Latency, ObjectProfile, Profile,
    QueueProfile, RateLimit, Staleness,
};
pub use queues::ModelQueues;
pub use schedule::{Access, Alternative, Choice, Scheduler};

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use self::domains::DomainService;
use self::faults::FaultSource;
use self::link::Link;
use self::objects::ObjectService;
use self::queues::QueueService;
use crate::cloud::{Cloud, Metered, Services};
use crate::meter::Meter;

/// A modelled cloud. Clones are the same cloud.
#[derive(Clone, Debug)]
pub struct Model {
    /// Runs the tasks of its processes.
    pub executor: Executor,
    /// True time.
    pub clock: Arc<ModelClock>,
    /// Its objects, as the harness sees them.
    pub objects: Arc<ModelObjects>,
    /// Its queues, as the harness sees them.
    pub queues: Arc<ModelQueues>,
    /// Its domains, as the harness sees them.
    pub domains: Arc<ModelDomains>,
    /// Counts the wire requests of all processes.
    pub meter: Meter,
    services: Arc<ModelServices>,
}

#[derive(Debug)]
struct ModelServices {
    executor: Executor,
    faults: [Arc<FaultSource>; 3],
    objects: Arc<ObjectService>,
    queues: Arc<QueueService>,
    domains: Arc<DomainService>,
}

/// The services on the way of one process.
#[derive(Debug)]
struct OfProcess {
    services: Arc<ModelServices>,
    process: usize,
}

impl ModelServices {
    fn link(&self, service: usize, process: usize, meter: &Meter) -> Link {
        Link {
            executor: self.executor.clone(),
            process,
            meter: meter.clone(),
            faults: self.faults[service].clone(),
        }
    }

    fn objects(&self, process: usize, meter: &Meter) -> ModelObjects {
        ModelObjects::new(self.link(0, process, meter), self.objects.clone())
    }

    fn queues(&self, process: usize, meter: &Meter) -> ModelQueues {
        ModelQueues::new(self.link(1, process, meter), self.queues.clone())
    }

    fn domains(&self, process: usize, meter: &Meter) -> ModelDomains {
        ModelDomains::new(self.link(2, process, meter), self.domains.clone())
    }
}

impl Metered for OfProcess {
    fn services(&self, meter: &Meter) -> Services {
        Services {
            objects: Arc::new(self.services.objects(self.process, meter)),
            queues: Arc::new(self.services.queues(self.process, meter)),
            domains: Arc::new(self.services.domains(self.process, meter)),
        }
    }
}

impl Model {
    /// An empty cloud.
    pub fn new(profile: Profile) -> Self {
        let executor = Executor::new(profile.seed);
        let source = |stream| Arc::new(FaultSource::new(profile.seed, stream));
        let services = Arc::new(ModelServices {
            executor: executor.clone(),
            faults: [3, 1, 2].map(source),
            objects: Arc::new(ObjectService::new(profile.objects)),
            queues: Arc::new(QueueService::new(profile.queues)),
            domains: Arc::new(DomainService::new(profile.domains)),
        });
        let (harness, meter) = (executor.harness(), Meter::new("model"));
        Model {
            clock: harness.clock(),
            objects: Arc::new(services.objects(harness.id(), &meter)),
            queues: Arc::new(services.queues(harness.id(), &meter)),
            domains: Arc::new(services.domains(harness.id(), &meter)),
            executor,
            meter,
            services,
        }
    }

    /// The cloud as a process sees it in its present life.
    pub fn cloud(&self, process: &Process) -> Cloud {
        let of_process = OfProcess {
            services: self.services.clone(),
            process: process.id(),
        };
        let meter = self.meter.scope(&process.name());
        Cloud::new(Arc::new(of_process), process.runtime(), meter)
    }

    /// Lets the cloud behave otherwise from now on. The seed stays.
    pub fn set_profile(&self, profile: Profile) {
        self.services.objects.profile.set(profile.objects);
        self.services.queues.profile.set(profile.queues);
        self.services.domains.profile.set(profile.domains);
    }

    /// The body of an object, without a wire request.
    pub fn object(&self, key: &str) -> Option<Bytes> {
        let store = self.services.objects.store();
        let object = store.get(key, self.executor.now(), Duration::ZERO)?;
        Some(object.body.clone())
    }

    /// The keys of all objects, without a wire request.
    pub fn object_keys(&self) -> Vec<String> {
        self.services.objects.store().keys()
    }
}
