//! What queues do, rule by rule.

mod bounds;
mod dead_letters;
mod fifo;
mod fixture;
mod grants;
mod inputs;
mod messages;
mod model;
mod moves;
#[cfg(feature = "mutants")]
mod mutants;
mod parked;
mod queues;
mod tentative;
