//! Controllers that race: each reads, thinks, and publishes what it thought of long ago.
//!
//! Invariants (docs/internals/protocol/reconfiguration.md, section 11):
//! - (COORD-1) what a controller publishes follows the configuration that it read, or is nothing.
//! - the order of reading: the configuration, then the sessions and reports, which are newer.

use std::sync::Arc;

use fader_chain::controller::ObservedState;
use fader_chain::{Configuration, Guard};

use super::World;
use super::events::Event;
use super::plan::Micros;
use super::random::Random;

/// How long a controller rests before it reads again, at most.
const REST_MAX: Micros = 30_000;

/// One that acts on what the coordinator knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Controller {
    step: Step,
    current: Option<Arc<Configuration>>,
    observed: Option<ObservedState>,
}

/// What it does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// It reads something.
    #[default]
    First,
    /// It reads the other thing.
    Second,
    /// It publishes.
    Publish,
}

impl World {
    /// Plans the first step of each.
    pub(crate) fn begin_controllers(&mut self) {
        for controller in 0..self.plan.controllers {
            self.controllers.push(Controller::default());
            let at = self.controls.between(0, REST_MAX);
            self.queue.plan(at, Event::Control { controller });
        }
    }

    /// A controller takes a step. While the coordinator is down it reads nothing, and begins anew.
    pub(crate) fn control(&mut self, controller: usize) {
        let is_up = self.is_coordinator_up();
        let reads_configuration = match self.guards.has(Guard::ConfigurationFirst) {
            true => Step::First,
            false => Step::Second,
        };
        let mut it = std::mem::take(&mut self.controllers[controller]);
        it.step = match it.step {
            _ if !is_up => Step::First,
            Step::Publish => {
                self.publish(&it);
                Step::First
            }
            step => {
                match step == reads_configuration {
                    true => it.current = self.configuration(),
                    false => {
                        let now = self.coordinator_clock.steady(self.now);
                        it.observed = Some(self.coordinator.observed(now));
                    }
                }
                match step {
                    Step::First => Step::Second,
                    _ => Step::Publish,
                }
            }
        };
        let wait = match it.step {
            Step::First => REST_MAX,
            _ => self.plan.control_max,
        };
        self.controllers[controller] = it;
        let at = self.now + self.controls.skewed(500, wait);
        self.queue.plan(at, Event::Control { controller });
    }

    fn publish(&mut self, it: &Controller) {
        let Some(observed) = &it.observed else {
            return;
        };
        let current = it.current.as_deref();
        if let Some(next) = self.coordinator.next(current, observed)
            && let Some(next) = self
                .coordinator
                .publish(current.map_or(0, |current| current.epoch), next)
        {
            self.on_published(&next);
        }
    }
}

/// Chances of controllers: those of all else do not depend on them.
pub(crate) fn controls(seed: u64) -> Random {
    Random::new(seed ^ 0x636f_6e74_726f)
}
