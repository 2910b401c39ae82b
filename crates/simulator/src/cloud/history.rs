//! What the processes of a simulated cloud asked and were told, with true times.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fader_cloud::ErrorKind;

use super::slots::Slot;

/// When a call was sent and when its outcome was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// True time.
    pub(super) invoked: Duration,
    /// `None` when its process died before.
    pub(super) ended: Option<Duration>,
}

/// A send of messages with bodies that no other send has.
#[derive(Clone, Debug)]
pub(super) struct Send {
    pub(super) span: Span,
    pub(super) bodies: Vec<String>,
    /// The ids of its messages; why there are none; `None` when its process died before.
    pub(super) outcome: Option<Result<Vec<Result<String, ErrorKind>>, ErrorKind>>,
}

/// A message that a receive gave.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) invoked: Duration,
    pub(super) answered: Duration,
    /// How long the receiver may hold it, from `invoked` on; zero for a peek.
    pub(super) visibility: Duration,
    pub(super) id: String,
    pub(super) body: String,
    /// Which receive it was: its process and its number.
    pub(super) by: (usize, u64),
}

/// A remove of one message.
#[derive(Clone, Debug)]
pub(super) struct Remove {
    pub(super) span: Span,
    pub(super) id: String,
    pub(super) body: String,
    pub(super) succeeded: bool,
}

/// A change of the time for which a message is hidden.
#[derive(Clone, Debug)]
pub(super) struct Hide {
    pub(super) span: Span,
    pub(super) id: String,
    pub(super) by: (usize, u64),
    pub(super) time: Duration,
    pub(super) succeeded: bool,
}

/// A call on a register: an item's attribute, or an object.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) span: Span,
    pub(super) register: String,
    pub(super) deed: Deed,
}

/// What a call on a register did.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    /// A strong read, and what it showed.
    Read(Option<String>),
    /// An eventual read, and what it showed.
    Eventual(Option<String>),
    /// A conditional write.
    Write {
        /// What must be there.
        expected: Option<String>,
        /// What is written.
        value: String,
        /// Whether the condition held; `None` if unknown.
        held: Option<bool>,
    },
}

/// What a reader of a batch saw: the tag of each item that is there.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) answered: Duration,
    pub(super) tags: Vec<Option<String>>,
}

/// A write of an item that no other write has.
#[derive(Clone, Debug)]
pub(super) struct Append {
    pub(super) span: Span,
    pub(super) name: String,
    /// `None` when its process died before.
    pub(super) outcome: Option<Result<(), ErrorKind>>,
}

/// What a follower saw of such writes.
#[derive(Clone, Debug)]
pub(super) struct Follow {
    pub(super) invoked: Duration,
    pub(super) answered: Duration,
    pub(super) is_strong: bool,
    /// Its process, and the number of this follower.
    pub(super) by: (usize, u64),
    pub(super) names: BTreeSet<String>,
}

/// All that was asked and answered.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(super) sends: Vec<Send>,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) removes: Vec<Remove>,
    pub(super) hides: Vec<Hide>,
    pub(super) accesses: Vec<Access>,
    pub(super) batches: Vec<Seen>,
    pub(super) appends: Vec<Append>,
    pub(super) follows: Vec<Follow>,
    /// The logs of the domain in the bucket at the end, by their incarnations.
    pub(super) logs: BTreeMap<String, Vec<Slot>>,
    pub(super) calls: u64,
}

/// The history as its writers share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Record(Arc<Mutex<History>>);

impl Record {
    pub(super) fn open(&self) -> MutexGuard<'_, History> {
        self.0.lock().expect("no process panics while it records")
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub guarantee: &'static str,
    /// How.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.guarantee, self.text)
    }
}
