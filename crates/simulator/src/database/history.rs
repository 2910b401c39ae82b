//! What the clients of a simulated database asked and were told.

use std::sync::{Arc, Mutex, MutexGuard};

use fader_blink::Stamp;
use fader_database::Level;

/// What a transaction does to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Put(String),
    Update(String),
    Delete,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its client heard nothing, or that the outcome is unknown.
    Unknown,
    /// It does not take effect.
    Refused,
    /// It was acknowledged.
    Done(Stamp),
}

/// A transaction with its write set.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) level: Level,
    pub(super) deeds: Vec<(String, Deed)>,
    pub(super) fate: Fate,
}

/// What a session did, in its order.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The transaction of this number was acknowledged.
    Wrote(usize),
    /// A read at Monotonic showed this value of a key.
    Read(String, Option<String>),
}

/// All that was asked and answered.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) transactions: Vec<Transaction>,
    /// By session: one opening of the database by one client.
    pub(super) steps: Vec<(u64, Step)>,
    pub(super) sessions: u64,
    pub(super) calls: u64,
}

/// The history as its writers share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Record(Arc<Mutex<History>>);

impl Record {
    pub(super) fn open(&self) -> MutexGuard<'_, History> {
        self.0.lock().expect("no client panics while it records")
    }
}
