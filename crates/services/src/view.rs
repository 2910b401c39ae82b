//! What decisions and answers see, and how long they may take.

pub use fader_chain::{Direction, Inconsistency, Scan, View, ViewError};

/// Says when an answer has taken long enough and should end its page (SimpleDB: 5 seconds).
pub trait PageBudget {
    /// Whether the page should end now. Asked once per candidate read, so it must be cheap.
    fn is_over(&self) -> bool;
}

/// A pace that never ends a page: for tests and for decisions.
#[derive(Debug)]
pub struct UnlimitedBudget;

impl PageBudget for UnlimitedBudget {
    fn is_over(&self) -> bool {
        false
    }
}
