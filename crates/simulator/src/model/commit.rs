//! Commits against fences and both collectors: every order of few requests, on the real decisions
//! of the services (docs/internals/protocol/blocks.md).
//!
//! Messages of puts and parts come at any time, again or never. Leases are over at any moment. All
//! rows are on one chain; its log has a few entries that are not committed, which the change of a
//! head may cut. A request that was cut is asked again.
//!
//! In every state each version is whole. From every state the collectors alone reach one in which
//! each block of no version is gone.

mod checks;
mod scopes;
mod searched;
mod steps;

use fader_chain::Guards;
use fader_services::MapView;
use fader_services::blocks::{Fenced, GarbageAt, Owner};
use fader_services::request::Request;
use fader_services::s3::command::{CreateUpload, OneUpload, PutSetting};
use fader_services::s3::rows::Metadata;
use fader_services::s3::settings::{Setting, Versioning};
use fader_services::s3::{self, Reply};

use super::explore::{Found, Limits};
use super::search;
use super::services::{self, BUCKET, FIRST, KEY, NOW, READABLE, Services, apply, create_bucket};
pub(super) use scopes::scopes;
pub use scopes::{Attempted, CommitScope};

const KEYS: [&str; 2] = [KEY, "other"];
/// Entries that are not committed, at most.
const PENDING_MAX: usize = 2;

/// A put or a part under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Upload {
    has_bytes: bool,
    /// Its row was removed once, so its bytes may be reclaimed when it has none.
    was_removed: bool,
    sent: u8,
    /// Whether its node heard that the row is there.
    has_heard: bool,
    is_committed: bool,
}

/// An entry that is not committed.
#[derive(Clone, Debug)]
struct Pending {
    /// What the log shows without it and all behind.
    before: MapView,
    step: Step,
    effect: Effect,
}

/// What is known once an entry is committed.
#[derive(Clone, Debug)]
enum Effect {
    Nothing,
    /// The row of an upload is there.
    Heard(usize),
    /// What a fence came to.
    Told(usize, u64, Fenced),
    /// Rows of garbage are removed, and this is asked then.
    Dropping(GarbageAt, Box<Request>),
    /// The garbage's own row is removed, as was asked.
    Dropped(GarbageAt, Box<Request>),
}

#[derive(Clone, Debug)]
struct State {
    /// What the log shows, with what is not committed.
    rows: MapView,
    pending: Vec<Pending>,
    uploads: Vec<Upload>,
    /// Questions and answers about blocks that are under way, with the row's number.
    asked: Vec<(usize, u64)>,
    told: Vec<(usize, u64, Fenced)>,
    /// Garbage whose blocks' rows are removed, and what is asked then.
    dropping: Vec<(GarbageAt, Box<Request>)>,
    puts: u64,
    heads: u8,
    deletes: u8,
    version_deletes: u8,
    remakes: u8,
    notes: u8,
    completions: u8,
}

impl State {
    /// What is committed.
    fn committed(&self) -> &MapView {
        self.pending
            .first()
            .map_or(&self.rows, |first| &first.before)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    PutRow(usize),
    Commit(usize),
    Complete,
    Abort,
    Delete,
    DeleteVersion,
    DeleteBucket,
    MakeBucket,
    Note,
    /// The head changes: entries from this one on are cut.
    Cut(usize),
    // Those of members and collectors.
    Settle,
    Reclaim(usize),
    Ask(usize),
    Fence(usize),
    Verdict(usize),
    Garbage(usize),
    Drop(usize),
    Upkeep,
}

impl Step {
    /// Whether it is taken sooner or later, with any clients and faults.
    fn is_due(self) -> bool {
        !matches!(
            self,
            Step::PutRow(_)
                | Step::Commit(_)
                | Step::Complete
                | Step::Abort
                | Step::Delete
                | Step::DeleteVersion
                | Step::DeleteBucket
                | Step::MakeBucket
                | Step::Note
                | Step::Cut(_)
        )
    }
}

/// A scope, with what is left out.
struct Model {
    scope: CommitScope,
    services: Services,
}

fn block_of(at: usize) -> u128 {
    0xb0 + at as u128
}

/// Where the upload's id is from, beside its time.
const UPLOAD_SEED: u128 = 7;
/// The upload's id.
const UPLOAD: u128 = (NOW as u128) << 80 | UPLOAD_SEED;

fn upload_of() -> OneUpload {
    OneUpload {
        bucket: BUCKET.to_owned(),
        key: KEYS[0].to_owned(),
        upload: UPLOAD,
    }
}

/// Searches `scope` with these guards in place.
pub(super) fn explore(scope: &CommitScope, guards: &Guards, limits: Limits) -> Found {
    search::search(&Model::new(scope, guards), limits)
}

impl Model {
    fn new(scope: &CommitScope, guards: &Guards) -> Self {
        Model {
            scope: scope.clone(),
            services: Services::new(guards),
        }
    }

    fn begin(&self) -> State {
        let upload = Upload {
            has_bytes: true,
            was_removed: false,
            sent: 0,
            has_heard: false,
            is_committed: false,
        };
        let mut rows = MapView::default();
        let mut ask = |seed, command| {
            let (changes, reply) = self.services.decide(&rows, seed, command);
            apply(&mut rows, &changes);
            reply
        };
        ask(1, create_bucket(None));
        if self.scope.has_versions {
            let setting = Setting::Versioning(Versioning::Enabled);
            let bucket = BUCKET.to_owned();
            ask(1, s3::Command::PutSetting(PutSetting { bucket, setting }));
        }
        if self.scope.has_upload() {
            let create = s3::Command::CreateUpload(CreateUpload {
                bucket: BUCKET.to_owned(),
                key: KEYS[0].to_owned(),
                metadata: Metadata::default(),
                algorithm: None,
                acl: None,
            });
            let opened = ask(UPLOAD_SEED, create);
            assert_eq!(opened, Some(Reply::Upload(UPLOAD)));
        }
        assert_eq!(self.services.collection(&rows), Some(FIRST));
        State {
            rows,
            pending: Vec::new(),
            uploads: vec![upload; self.scope.attempts.len()],
            asked: Vec::new(),
            told: Vec::new(),
            dropping: Vec::new(),
            puts: 0,
            heads: self.scope.heads,
            deletes: self.scope.deletes,
            version_deletes: u8::from(self.scope.has_versions),
            remakes: u8::from(self.scope.remakes),
            notes: self.scope.notes,
            completions: match self.scope.has_upload() {
                true => 2,
                false => 0,
            },
        }
    }

    fn owner(&self, at: usize) -> Owner {
        let is_part = self.scope.attempts[at].part().is_some();
        services::owner(0xa0 + at as u128, is_part.then(|| upload_of().upload))
    }
}
