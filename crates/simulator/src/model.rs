//! Exhaustive search at small scope, on the real core (docs/internals/protocol/invariants.md,
//! "checked").
//!
//! A scenario says how many members there are, which requests may come and which faults may happen.
//! From its first state every possible next step is taken. Any message that was ever sent and could
//! still matter may arrive at any time, repeatedly or never. Any member may hear of a configuration
//! late or skip it; faults happen anywhere. States are visited breadth first and once, so that the
//! trace to a violation is a shortest one. A search that ends has seen everything its scenario
//! allows.
//!
//! What is left out, and why nothing is lost by it, is docs/internals/testing.md's ("What the model
//! leaves out"). A state is a few numbers: members' states, queues and ledgers are kept once. What
//! a member in one state does with one input is computed once, by the real core. Two states are
//! told apart by 64 bits of hash.
//!
//! Deliberately absent: time, but for scenarios with ticks and those in which moments pass. Leases
//! end by a step of their own; what rests before it is settled has rested whenever the head settles
//! it.

mod actions;
mod blocks;
mod bytes;
mod checks;
mod client_requests;
mod commit;
mod ends;
mod eventual;
mod explore;
mod ledger;
mod links;
mod node;
mod prelude;
mod reads;
mod reduction;
mod scenarios;
mod search;
mod services;
mod shell;
mod step;
mod table;
mod world;

pub use blocks::{BlockScope, LeftOut, block_scopes, traces};
pub use bytes::{ByteRule, ByteScope};
pub use client_requests::ClientRequest;
pub use commit::{Attempted, CommitScope};
pub use eventual::{EventualRule, EventualScope};
pub use explore::{Found, Limits, Outcome, explore};
pub use prelude::Step;
pub use reads::{ReadRule, ReadScope};
pub use scenarios::{Delivery, Scenario, scenarios};

/// What goes wrong in the scenario called `name` without `guards`, if anything does. With all
/// guards nothing may: that is searched here where not every merge searches it.
pub fn catches(guards: &fader_chain::Guards, name: &str) -> Option<String> {
    let limits = Limits { states: 2_000_000 };
    let scenario = scenarios().into_iter().find(|it| it.name == name)?;
    let violated = |guards: &fader_chain::Guards| match explore(&scenario, guards, limits).outcome {
        Outcome::Violated { what, .. } => Some(what),
        Outcome::Exhausted | Outcome::CutOff => None,
    };
    let is_right = || scenario.is_quick || violated(&fader_chain::Guards::default()).is_none();
    violated(guards).filter(|_| is_right())
}
