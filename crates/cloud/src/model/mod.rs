//! The contract in memory and in virtual time, from a seed: no better than promised where the
//! weather is bad.
//!
//! Invariants:
//! - M1 the same seed, weather and calls in the same order give the same answers.
//! - M2 in fair weather every promise of `conformance` holds; in any weather the contract does.
//!
//! Deliberately absent: latency (the simulator's), limits of rate (the simulated services').

mod clock;
mod domains;
mod objects;
mod queues;
mod weather;

pub use clock::{ModelClock, run};
pub use domains::ModelDomains;
pub use objects::ModelObjects;
pub use queues::ModelQueues;
pub use weather::Weather;

use std::sync::Arc;

/// A cloud in memory.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its time, which passes only when it is told to.
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
        let clock = Arc::new(ModelClock::default());
        Model {
            objects: Arc::new(ModelObjects::new(weather)),
            queues: Arc::new(ModelQueues::new(weather, clock.clone())),
            domains: Arc::new(ModelDomains::new(weather, clock.clone())),
            clock,
        }
    }
}
