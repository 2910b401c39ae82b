//! What a probe found, promise by promise.

use std::fmt;
use std::time::Duration;

/// What a store must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A name is created once.
    CreateOnce,
    /// An update of the newest version happens.
    UpdateNewest,
    /// One of an older version is refused.
    UpdateOld,
    /// One of an object that is not there is refused.
    UpdateAbsent,
    /// An overwritten object has another ETag.
    NewVersion,
    /// A read sees a put.
    ReadAfterPut,
    /// A read sees an overwriting.
    ReadAfterOverwrite,
    /// A read sees a deletion.
    ReadAfterDelete,
    /// A list sees a put.
    ListAfterPut,
    /// A list sees an overwriting.
    ListAfterOverwrite,
    /// A list sees a deletion.
    ListAfterDelete,
    /// What was not modified is not sent again.
    NotModifiedAfterPut,
    /// What was overwritten is sent again.
    ModifiedAfterOverwrite,
    /// What was deleted is not called unmodified.
    GoneAfterDelete,
}

impl Promise {
    /// All of them, in the order of tables.
    pub const ALL: [Promise; 14] = [
        Promise::CreateOnce,
        Promise::UpdateNewest,
        Promise::UpdateOld,
        Promise::UpdateAbsent,
        Promise::NewVersion,
        Promise::ReadAfterPut,
        Promise::ReadAfterOverwrite,
        Promise::ReadAfterDelete,
        Promise::ListAfterPut,
        Promise::ListAfterOverwrite,
        Promise::ListAfterDelete,
        Promise::NotModifiedAfterPut,
        Promise::ModifiedAfterOverwrite,
        Promise::GoneAfterDelete,
    ];

    /// The damage that its breach does to queues, domains and systems.
    pub fn damage(self) -> &'static str {
        match self {
            Promise::CreateOnce => "two writers overwrite each other's slot: a write is lost",
            Promise::UpdateNewest => "no state can be changed: nothing goes on",
            Promise::UpdateOld => "two receivers claim one message: work is lost or done twice",
            Promise::UpdateAbsent => "a deleted state comes back: removed messages are seen again",
            Promise::NewVersion => "a change cannot be told from none: updates are lost",
            Promise::ReadAfterPut => "a new object is missed: work seems lost",
            Promise::ReadAfterOverwrite => "decisions are made on old states",
            Promise::ReadAfterDelete => "removed messages are seen again",
            Promise::ListAfterPut => "messages are received late or never",
            Promise::ListAfterOverwrite => "changed states are taken for old ones",
            Promise::ListAfterDelete => "each receive looks at messages that are gone",
            Promise::NotModifiedAfterPut => "each look transfers the whole object",
            Promise::ModifiedAfterOverwrite => "caches keep old states for ever",
            Promise::GoneAfterDelete => "caches keep deleted states for ever",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::CreateOnce => "an object is created once",
            Promise::UpdateNewest => "an update of the newest version happens",
            Promise::UpdateOld => "an update of an old version is refused",
            Promise::UpdateAbsent => "an update of an absent object is refused",
            Promise::NewVersion => "an overwritten object has a new ETag",
            Promise::ReadAfterPut => "a read sees a put",
            Promise::ReadAfterOverwrite => "a read sees an overwriting",
            Promise::ReadAfterDelete => "a read sees a deletion",
            Promise::ListAfterPut => "a list sees a put",
            Promise::ListAfterOverwrite => "a list sees an overwriting",
            Promise::ListAfterDelete => "a list sees a deletion",
            Promise::NotModifiedAfterPut => "an unmodified object is not sent again",
            Promise::ModifiedAfterOverwrite => "an overwritten object is sent again",
            Promise::GoneAfterDelete => "a deleted object is not called unmodified",
        })
    }
}

/// How one promise went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The promise.
    pub promise: Promise,
    /// Nothing if it was kept, else what was seen.
    pub seen: Option<String>,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// When, since 1970 by the clock of the process that probed.
    pub at: Duration,
    /// How each promise went, in the order of [`Promise::ALL`].
    pub outcomes: Vec<Outcome>,
    /// Whether two objects of equal bytes, one after the other under one name, had the same ETag.
    /// No promise: writers put a random number into what they compare by.
    pub has_repeating_etags: bool,
    /// Whether the store remembered this.
    pub is_remembered: bool,
}

impl Findings {
    pub(super) fn new(at: Duration) -> Self {
        Findings {
            at,
            outcomes: Vec::new(),
            has_repeating_etags: false,
            is_remembered: false,
        }
    }

    pub(super) fn tell(&mut self, promise: Promise, seen: Option<String>) {
        self.outcomes.push(Outcome { promise, seen });
        self.outcomes.sort_by_key(|outcome| outcome.promise);
    }

    /// The promises that are not kept.
    pub fn broken(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes
            .iter()
            .filter(|outcome| outcome.seen.is_some())
    }

    /// Whether all promises are kept: then queues and domains work in the store.
    pub fn is_intact(&self) -> bool {
        self.broken().next().is_none() && self.outcomes.len() == Promise::ALL.len()
    }

    /// Each broken promise, what was seen and the damage; empty if none is broken.
    pub fn complaint(&self) -> String {
        let lines = self.broken().map(|outcome| {
            let Outcome { promise, seen } = outcome;
            let seen = seen.as_deref().unwrap_or_default();
            format!("{promise}: {seen} ({})", promise.damage())
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}
