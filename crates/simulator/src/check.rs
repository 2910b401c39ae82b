//! The guarantees and invariants of docs/internals/protocol, each as a function of a finished run.
//!
//! A check returns the first [`Violation`], or how many claims it found true. So a run that claims
//! nothing is told from one in which everything held.
//!
//! | check | what it shows |
//! |---|---|
//! | [`Evidence::new`] | I3: one entry per id, one history of the log |
//! | [`names`] | I12: a name takes effect at most once |
//! | [`decisions`] | I11: outcomes are what the log before them gives; replies are true |
//! | [`ledger`] | I6: what was acknowledged is in every later log |
//! | [`linear`] | G1, G6: the log is an order of all strong operations |
//! | [`search`] | G1, as clients alone see it; not linear, and apart from [`all`] |
//! | [`stamps`] | G2, I14, I17: stamps agree with real time and grow along the log |
//! | [`rest`] | G3: all members are the join of all operations |
//! | [`quorums`] | G4: quorum reads cover acknowledged writes |
//! | [`modes`] | I25, I26: changes of mode lose nothing and bring nothing back |
//! | [`decommissions`] | LV-3: who leaves for good holds nothing alone |
//! | [`outcomes`] | G5, G7, I16: outcomes are true, leases, conservation |
//! | [`barriers`] | G8 |
//! | [`sessions`] | what tokens promise |
//! | [`bounds`] | bounded staleness |
//!
//! All but the search take linear time, or nearly, and look at what no client can see.

mod barriers;
mod bounds;
mod convergence;
mod cover;
mod decisions;
mod decommission;
mod evidence;
mod ledger;
mod linear;
mod modes;
mod names;
mod outcomes;
mod quorums;
mod replay;
mod search;
mod sessions;
mod stamps;
mod written;

pub use barriers::barriers;
pub use bounds::bounds;
pub use convergence::rest;
pub use decisions::decisions;
pub use decommission::decommissions;
pub use evidence::Evidence;
pub use ledger::ledger;
pub use linear::linear;
pub use modes::modes;
pub use names::names;
pub use outcomes::outcomes;
pub use quorums::quorums;
pub use search::{Searched, search};
pub use sessions::sessions;
pub use stamps::stamps;

pub use fader_history::Violation;

use crate::history::{Event, History};
use crate::service::Service;

/// How many claims a check found true, or the first that is not.
pub type Verdict = Result<usize, Violation>;

/// Every check but the search, with how many claims each found true.
///
/// # Errors
/// The first violation, those that explain others first.
pub fn all(history: &History, service: Service) -> Result<Vec<(&'static str, usize)>, Violation> {
    let evidence = Evidence::new(history)?;
    Ok(vec![
        ("agreement", evidence.log.len()),
        ("names", names(&evidence)?),
        ("ledger", ledger(&evidence)?),
        ("modes", modes(&evidence)?),
        ("leavings", decommissions(&evidence)?),
        ("outcomes", outcomes(&evidence, service)?),
        ("decisions", decisions(&evidence, service)?),
        ("stamps", stamps(&evidence)?),
        ("linear", linear(&evidence)?),
        ("quorums", quorums(&evidence)?),
        ("barriers", barriers(&evidence)?),
        ("sessions", sessions(&evidence)?),
        ("bounds", bounds(&evidence)?),
        ("rest", rest(&evidence)?),
    ])
}

/// What a violation may name as its evidence: calls and events of the run.
trait Witness: Sized {
    /// With the call at this place of the history.
    fn call(self, history: &History, at: usize) -> Self;

    /// With this event.
    fn event(self, event: &Event) -> Self;

    /// With these events.
    fn events<'a>(self, events: impl IntoIterator<Item = &'a Event>) -> Self {
        events.into_iter().fold(self, Self::event)
    }
}

impl Witness for Violation {
    fn call(mut self, history: &History, at: usize) -> Self {
        if self.operations.contains(&at) {
            return self;
        }
        self.operations.push(at);
        let call = &history.calls[at];
        self.line(call.invoked, call.to_string())
    }

    fn event(self, event: &Event) -> Self {
        self.line(event.at, event.to_string())
    }
}

#[cfg(test)]
mod tests;
