//! Counts wire requests by kind and status, and their bytes, in nested scopes.
//!
//! ```text
//!  client, model ── count ──▶ meter "commit" ──▶ meter "transaction" ──▶ root
//!                                  │ usage            │ usage
//! ```
//!
//! A wire request is one HTTP request. Each retry, page of a list and part of an upload counts, and
//! so does a request that the service refuses.
//!
//! Invariants:
//! - METER-1 a scope's usage is contained in its parent's.
//!
//! Deliberately absent: prices ([`crate::PriceBook`]), clocks, names of objects.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// The kinds of wire requests that providers price differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestKind {
    /// Reads an object, or a range of it.
    ObjectGet,
    /// Reads an object's metadata.
    ObjectHead,
    /// Writes an object; begins, continues or completes one in parts.
    ObjectPut,
    /// Copies an object.
    ObjectCopy,
    /// Reads a page of a list of objects.
    ObjectList,
    /// Deletes one object, or many in one request.
    ObjectDelete,
    /// Sends up to ten messages.
    QueueSend,
    /// Receives up to ten messages, or none.
    QueueReceive,
    /// Removes up to ten messages.
    QueueRemove,
    /// Any other request to queues.
    QueueOther,
    /// Reads from a domain.
    DomainRead,
    /// Writes to a domain.
    DomainWrite,
    /// Any other request to domains.
    DomainOther,
}

impl RequestKind {
    /// All kinds, in their order.
    pub const ALL: [RequestKind; 13] = [
        RequestKind::ObjectGet,
        RequestKind::ObjectHead,
        RequestKind::ObjectPut,
        RequestKind::ObjectCopy,
        RequestKind::ObjectList,
        RequestKind::ObjectDelete,
        RequestKind::QueueSend,
        RequestKind::QueueReceive,
        RequestKind::QueueRemove,
        RequestKind::QueueOther,
        RequestKind::DomainRead,
        RequestKind::DomainWrite,
        RequestKind::DomainOther,
    ];

    /// Its name in price books and reports.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::ObjectGet => "object-get",
            RequestKind::ObjectHead => "object-head",
            RequestKind::ObjectPut => "object-put",
            RequestKind::ObjectCopy => "object-copy",
            RequestKind::ObjectList => "object-list",
            RequestKind::ObjectDelete => "object-delete",
            RequestKind::QueueSend => "queue-send",
            RequestKind::QueueReceive => "queue-receive",
            RequestKind::QueueRemove => "queue-remove",
            RequestKind::QueueOther => "queue-other",
            RequestKind::DomainRead => "domain-read",
            RequestKind::DomainWrite => "domain-write",
            RequestKind::DomainOther => "domain-other",
        }
    }

    /// Whether it goes to queues, which are billed per 64 KB of payload.
    pub fn is_queue(self) -> bool {
        matches!(
            self,
            RequestKind::QueueSend
                | RequestKind::QueueReceive
                | RequestKind::QueueRemove
                | RequestKind::QueueOther
        )
    }
}

/// Bytes of payload for which a service of queues bills one request.
pub const QUEUE_CHUNK_BYTES: u64 = 64 * 1024;

/// One wire request, after its answer or after its end without one.
///
/// A client calls [`Meter::count`] once for each HTTP request that it sent, also for each that its
/// own layers repeat. It uses the meter of the scope that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireRequest {
    /// What was asked.
    pub kind: RequestKind,
    /// The answer's HTTP status; `None` when no answer came.
    pub status: Option<u16>,
    /// Bytes of the request's body.
    pub sent_bytes: u64,
    /// Bytes of the answer's body.
    pub received_bytes: u64,
    /// The machine time of SimpleDB's `BoxUsage`, in 10⁻¹⁰ hours; 0 for other services.
    pub box_usage: u64,
}

impl WireRequest {
    /// A request without bytes.
    pub fn new(kind: RequestKind, status: Option<u16>) -> Self {
        WireRequest {
            kind,
            status,
            sent_bytes: 0,
            received_bytes: 0,
            box_usage: 0,
        }
    }
}

/// What requests of one kind and status add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests.
    pub requests: u64,
    /// The requests that a service of queues bills for them: one for each 64 KB begun.
    pub chunks: u64,
    /// Bytes of their bodies.
    pub sent_bytes: u64,
    /// Bytes of their answers' bodies.
    pub received_bytes: u64,
    /// Machine time, in 10⁻¹⁰ hours.
    pub box_usage: u64,
}

impl Count {
    fn add(&mut self, other: &Count) {
        self.requests += other.requests;
        self.chunks += other.chunks;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.box_usage += other.box_usage;
    }
}

/// What a scope used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage(BTreeMap<(RequestKind, Option<u16>), Count>);

impl Usage {
    /// Counts by kind and status, in order.
    pub fn counts(&self) -> impl Iterator<Item = (RequestKind, Option<u16>, &Count)> {
        let counts = self.0.iter();
        counts.map(|((kind, status), count)| (*kind, *status, count))
    }

    /// All of one kind together.
    pub fn of(&self, kind: RequestKind) -> Count {
        let mut all = Count::default();
        let of_kind = self.counts().filter(|(found, ..)| *found == kind);
        of_kind.for_each(|(_, _, count)| all.add(count));
        all
    }

    /// The number of requests.
    pub fn requests(&self) -> u64 {
        self.0.values().map(|count| count.requests).sum()
    }

    /// What was used since an earlier look at the same scope.
    pub fn since(&self, earlier: &Usage) -> Usage {
        let used = self.0.iter().map(|(key, count)| {
            let before = earlier.0.get(key).copied().unwrap_or_default();
            let count = Count {
                requests: count.requests - before.requests,
                chunks: count.chunks - before.chunks,
                sent_bytes: count.sent_bytes - before.sent_bytes,
                received_bytes: count.received_bytes - before.received_bytes,
                box_usage: count.box_usage - before.box_usage,
            };
            (*key, count)
        });
        Usage(used.filter(|(_, count)| count.requests != 0).collect())
    }

    /// Adds what was used elsewhere.
    pub fn add(&mut self, other: &Usage) {
        for (key, count) in &other.0 {
            self.0.entry(*key).or_default().add(count);
        }
    }

    fn count(&mut self, request: &WireRequest) {
        let bytes = request.sent_bytes.max(request.received_bytes);
        let chunks = match request.kind.is_queue() {
            true => bytes.div_ceil(QUEUE_CHUNK_BYTES).max(1),
            false => 1,
        };
        let count = self.0.entry((request.kind, request.status)).or_default();
        count.add(&Count {
            requests: 1,
            chunks,
            sent_bytes: request.sent_bytes,
            received_bytes: request.received_bytes,
            box_usage: request.box_usage,
        });
    }
}

impl FromIterator<(RequestKind, Option<u16>, Count)> for Usage {
    fn from_iter<I: IntoIterator<Item = (RequestKind, Option<u16>, Count)>>(counts: I) -> Self {
        let mut usage = Usage::default();
        for (kind, status, count) in counts {
            usage.0.entry((kind, status)).or_default().add(&count);
        }
        usage
    }
}

/// Counts the wire requests of one scope. Clones are the same scope.
#[derive(Clone)]
pub struct Meter(Arc<Scope>);

struct Scope {
    name: String,
    parent: Option<Meter>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    usage: Usage,
    /// The scopes within that are still in use, or were, by the names on the way to each.
    within: BTreeMap<Vec<String>, Usage>,
}

impl Meter {
    /// A scope within no other.
    pub fn new(name: &str) -> Self {
        Meter::within(name, None)
    }

    /// A scope within this one. One without a name is seen through: what is counted in the scopes
    /// within it appears by their names in the scope around it.
    pub fn scope(&self, name: &str) -> Self {
        Meter::within(name, Some(self.clone()))
    }

    fn within(name: &str, parent: Option<Meter>) -> Self {
        Meter(Arc::new(Scope {
            name: name.to_owned(),
            parent,
            state: Mutex::default(),
        }))
    }

    /// The scope's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Counts a request, here and in all scopes around.
    pub fn count(&self, request: &WireRequest) {
        self.state().usage.count(request);
        let (mut scope, mut names) = (self, Vec::new());
        while let Some(parent) = &scope.0.parent {
            let mut state = parent.state();
            state.usage.count(request);
            if !scope.0.name.is_empty() {
                names.insert(0, scope.0.name.clone());
            }
            state
                .within
                .entry(names.clone())
                .or_default()
                .count(request);
            drop(state);
            scope = parent;
        }
    }

    /// What was counted so far, scopes within included.
    pub fn usage(&self) -> Usage {
        self.state().usage.clone()
    }

    /// What was counted in this scope and in none within: also each request that served callers of
    /// several scopes within at once. With the scopes within it adds up to [`Meter::usage`].
    pub fn own_usage(&self) -> Usage {
        let state = self.state();
        let within = state.within.values();
        within.fold(state.usage.clone(), |left, within| left.since(within))
    }

    /// What was counted in the scopes within, by their names; those of one name together.
    pub fn within_usage(&self) -> BTreeMap<String, Usage> {
        let mut within: BTreeMap<String, Usage> = BTreeMap::new();
        for (mut names, usage) in self.nested_usage() {
            let outermost = match names.is_empty() {
                true => String::new(),
                false => names.swap_remove(0),
            };
            within.entry(outermost).or_default().add(&usage);
        }
        within
    }

    /// What was counted in each scope within and in none within that, by the names on the way to
    /// it, the outermost first.
    pub fn nested_usage(&self) -> BTreeMap<Vec<String>, Usage> {
        self.state().within.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .state
            .lock()
            .expect("nothing panics while it is locked")
    }
}

impl Default for Meter {
    /// A scope of no name.
    fn default() -> Self {
        Meter::new("")
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meter({:?})", self.0.name)
    }
}

#[cfg(test)]
mod tests;
