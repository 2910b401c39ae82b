//! Exhaustive search at small scope, on the real core (docs/protocol/invariants.md, "checked").
//!
//! A scenario says how many members there are, which requests may come and which faults may happen.
//! From its first state every possible next step is taken: any message that was ever sent and could
//! still matter may arrive at any time, repeatedly or never; any member may hear of a configuration
//! late or skip it; faults happen anywhere. States are visited breadth first and once, so that the
//! trace to a violation is a shortest one, and a search that ends has seen everything its scenario
//! allows.
//!
//! What is reduced, and why nothing is lost by it: disks sync at once unless the scenario loses
//! what is not synced; what a step gathered is sent with it; reads that need no message are made
//! in every state at every member that could answer one, which only makes what later reads must
//! show greater earlier. Two states are told apart by 128 bits of hash.
//!
//! Deliberately absent: time. Leases end by a step of their own, and nothing is retried by a timer:
//! a message that may arrive at any time covers that.

mod explore;
mod ledger;
mod links;
mod node;
mod scenarios;
mod step;
mod table;
mod world;

pub use explore::{Found, Limits, Outcome, explore};
pub use scenarios::{Scenario, scenarios};

/// What goes wrong in the scenario called `name` without `guards`, if anything does.
pub fn catches(guards: &fader_chain::Guards, name: &str) -> Option<String> {
    let limits = Limits { states: 2_000_000 };
    let scenario = scenarios().into_iter().find(|it| it.name == name)?;
    match explore(&scenario, guards, limits).outcome {
        Outcome::Violated { what, .. } => Some(what),
        Outcome::Exhausted | Outcome::CutOff => None,
    }
}
