//! The contract in memory and in virtual time, from a seed: no better than promised where the
//! weather is bad.
//!
//! Invariants:
//! - M1 the same seed, weather and calls in the same order give the same answers.
//! - M2 in fair weather every promise of `conformance` holds; in any weather the contract does.
//!
//! Deliberately absent: latency (the simulator's), limits of rate (the simulated services').

mod domains;
mod executor;
mod objects;
mod process;
mod queues;
mod schedule;
mod weather;

pub use domains::ModelDomains;
pub use executor::Executor;
pub use objects::ModelObjects;
pub use process::{ModelClock, Process, Skew, run};
pub use queues::ModelQueues;
pub use schedule::{Access, Alternative, Scheduler};
pub use weather::Weather;

use std::sync::Arc;

use crate::cloud::Cloud;

/// A cloud in memory.
#[derive(Clone, Debug)]
pub struct Model {
    /// Runs the tasks of its processes.
    pub executor: Executor,
    /// True time.
    pub clock: Arc<ModelClock>,
    /// Its objects.
    pub objects: Arc<ModelObjects>,
    /// Its queues.
    pub queues: Arc<ModelQueues>,
    /// Its domains.
    pub domains: Arc<ModelDomains>,
}

impl Model {
    /// An empty cloud.
    pub fn new(weather: Weather) -> Self {
        let executor = Executor::new(weather.seed);
        let clock = executor.harness().clock();
        Model {
            objects: Arc::new(ModelObjects::new(weather)),
            queues: Arc::new(ModelQueues::new(weather, clock.clone())),
            domains: Arc::new(ModelDomains::new(weather, clock.clone())),
            clock,
            executor,
        }
    }

    /// The cloud as a process sees it in its present life.
    pub fn cloud(&self, process: &Process) -> Cloud {
        Cloud {
            objects: self.objects.clone(),
            queues: self.queues.clone(),
            domains: self.domains.clone(),
            runtime: process.runtime(),
        }
    }
}
