//! The services' own decisions, as models of blocks ask for them, on a log whose states are kept.

use std::collections::BTreeMap;
use std::rc::Rc;

use fader_chain::{ApplyContext, ChainId, Change, EntryId, Guards, Stamp};
use fader_services::blocks::{self, Attempt, GarbageAt, NewRow, Owner};
use fader_services::catalog::{self, AccountId, Name};
use fader_services::policy::Principal;
use fader_services::request::Request;
use fader_services::s3::command::{CreateBucket, Extent, GetObject, PutObject};
use fader_services::s3::conditions::{ReadConditions, WriteConditions};
use fader_services::s3::reply::Piece;
use fader_services::s3::rows::{Block, BucketId, Content, Metadata};
use fader_services::s3::{self, Action, Caller, Reply};
use fader_services::service::{Context, Service as _};
use fader_services::{CollectionId, Kind, MapView, Mode};

use super::table::hash;

pub(super) const BUCKET: &str = "photos";
pub(super) const KEY: &str = "key";
pub(super) const NOW: u64 = 1_000_000;
/// What was committed when attempts began.
pub(super) const BEGUN: EntryId = EntryId::new(1, 5);
/// A view in memory can be read.
pub(super) const READABLE: &str = "a view in memory can be read";
/// The collection of the first bucket: the first one of a chain.
pub(super) const FIRST: CollectionId = CollectionId(1);

/// Who decides.
pub(super) struct Services {
    pub(super) guards: Guards,
    pub(super) limits: s3::Limits,
    account: AccountId,
}

impl Services {
    pub(super) fn new(guards: &Guards) -> Self {
        Services {
            guards: guards.clone(),
            limits: s3::Limits {
                part_bytes_min: 0,
                ..s3::Limits::default()
            },
            account: AccountId("000000000001".to_owned()),
        }
    }

    /// The collection of the bucket, if there is one.
    pub(super) fn collection(&self, rows: &MapView) -> Option<CollectionId> {
        let name = Name::new(Kind::Bucket, &self.account, BUCKET);
        let entry = catalog::collection(rows, name).expect(READABLE);
        entry.map(|entry| entry.collection)
    }

    pub(super) fn request(&self, seed: u128, command: s3::Command) -> s3::Request {
        s3::Request {
            caller: Caller::of(Principal::Account(self.account.0.clone())),
            seed,
            command,
        }
    }

    /// What is known of a request about the bucket.
    pub(super) fn context<'a, L>(
        &'a self,
        limits: &'a L,
        collection: Option<CollectionId>,
    ) -> Context<'a, L> {
        Context {
            collection,
            now_ms: NOW,
            guards: &self.guards,
            ..Context::new(&self.account, limits)
        }
    }

    /// What a request changes, and its answer; nothing of a refusal.
    pub(super) fn decide(
        &self,
        rows: &MapView,
        seed: u128,
        command: s3::Command,
    ) -> (Vec<Change>, Option<Reply>) {
        let collection = command.bucket().and_then(|_| self.collection(rows));
        let context = self.context(&self.limits, collection);
        let decision = s3::decide(rows, &context, &self.request(seed, command));
        (decision.changes, decision.outcome.ok())
    }

    /// What a command about rows changes.
    pub(super) fn decide_rows(&self, rows: &MapView, command: &blocks::Command) -> Vec<Change> {
        let limits = blocks::Limits::default();
        let context = self.context(&limits, None);
        let decision = blocks::Blocks::decide(rows, &context, command);
        decision
            .expect("a command about blocks does not wait")
            .changes
    }

    /// What takes garbage away, with the rows of its blocks.
    pub(super) fn collect(&self, rows: &MapView, garbage: GarbageAt) -> Vec<Change> {
        let Some(removal) = blocks::removal(rows, garbage).expect(READABLE) else {
            return Vec::new();
        };
        let ids = removal.blocks.into_values().flatten().collect();
        let mut changes = self.decide_rows(rows, &blocks::Command::Remove(ids));
        changes.extend(self.decide(rows, 0, of_bucket(removal.then)).0);
        changes
    }

    /// Some of the work that buckets have to do at a time.
    pub(super) fn upkeep(&self, rows: &MapView, now_ms: u64, batch: usize) -> Vec<Change> {
        let changes = s3::upkeep(rows, &self.limits, &self.guards, now_ms, batch);
        changes.expect(READABLE)
    }

    /// The blocks of the current version of the key.
    pub(super) fn named(&self, rows: &MapView) -> Vec<u128> {
        let get = s3::Command::GetObject(GetObject {
            bucket: BUCKET.to_owned(),
            key: KEY.to_owned(),
            version: None,
            conditions: ReadConditions::default(),
            extent: Extent::From(0),
            action: Action::GetObject,
        });
        let Some(Reply::Object(found)) = self.decide(rows, 0, get).1 else {
            return Vec::new();
        };
        let pieces = found.extent.pieces.into_iter();
        let blocks = pieces.filter_map(|piece| match piece {
            Piece::Block(block) => Some(block.id),
            Piece::Inline(_) => None,
        });
        blocks.collect()
    }

    /// The first entry, which has all of a state.
    pub(super) fn begin(&self, view: MapView) -> Rc<Entry> {
        Rc::new(self.entry(EntryId::new(1, 1), view))
    }

    /// The entry that follows.
    pub(super) fn after(&self, before: &Entry, changes: &[Change], stamp: Option<Stamp>) -> Entry {
        let id = EntryId::new(1, before.id.index + 1);
        let strong = ApplyContext::strong(id);
        let under = ApplyContext {
            stamp: stamp.unwrap_or(strong.stamp),
            ..strong
        };
        let mut view = before.view.clone();
        view.apply(changes, &under).expect(READABLE);
        self.entry(id, view)
    }

    fn entry(&self, id: EntryId, view: MapView) -> Entry {
        let pairs: Vec<_> = view.iter().collect();
        let rows = blocks::rows_from(&view, None, usize::MAX).expect(READABLE);
        Entry {
            id,
            key: hash(&(id, pairs)),
            named: self.named(&view),
            rows: rows.into_iter().collect(),
            garbage: blocks::garbage(&view, None, usize::MAX).expect(READABLE),
            view,
        }
    }
}

/// An entry of a log, and what the log shows up to it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) view: MapView,
    /// The hash of id and view.
    pub(super) key: u64,
    /// The blocks of the current version of the key.
    pub(super) named: Vec<u128>,
    /// The blocks that have rows.
    pub(super) rows: BTreeMap<u128, blocks::Row>,
    pub(super) garbage: Vec<GarbageAt>,
}

/// Brings a state to what an entry before the first one changed.
pub(super) fn apply(rows: &mut MapView, changes: &[Change]) {
    let under = ApplyContext::strong(EntryId::new(1, 1));
    rows.apply(changes, &under).expect(READABLE);
}

/// Whose the blocks of an attempt are.
pub(super) fn owner(attempt: u128, upload: Option<u128>) -> Owner {
    Owner {
        collection: FIRST,
        attempt: Attempt {
            id: attempt,
            bucket: BucketId(1),
            begun: BEGUN,
        },
        upload,
    }
}

/// Puts the rows of blocks.
pub(super) fn put_rows(owner: Owner, number: u64, ids: &[u128]) -> blocks::Command {
    let new = ids.iter().map(|id| NewRow {
        id: *id,
        size: 1,
        sum: 0,
    });
    blocks::Command::Put(blocks::Put {
        owner,
        chain: ChainId::SYSTEM,
        number,
        blocks: new.collect(),
    })
}

/// Blocks as the content of an object.
pub(super) fn content(ids: &[u128]) -> Content {
    let blocks = ids.iter().map(|id| Block {
        id: *id,
        chain: ChainId::SYSTEM,
        size: 1,
    });
    Content::Blocks(blocks.collect())
}

/// Puts an object at a key.
pub(super) fn put_object(key: &str, attempt: Attempt, content: Content) -> PutObject {
    PutObject {
        bucket: BUCKET.to_owned(),
        key: key.to_owned(),
        attempt,
        content,
        etag: "e".to_owned(),
        checksum: None,
        metadata: Metadata::default(),
        acl: None,
        conditions: WriteConditions::default(),
    }
}

/// Makes the bucket, in a mode.
pub(super) fn create_bucket(mode: Option<Mode>) -> s3::Command {
    s3::Command::CreateBucket(CreateBucket {
        bucket: BUCKET.to_owned(),
        region: "eu-west-1".to_owned(),
        ownership: None,
        acl: None,
        mode: mode.map(Mode::byte),
    })
}

/// What a collector asks of the bucket's chain.
pub(super) fn of_bucket(request: Request) -> s3::Command {
    match request {
        Request::S3(request) => request.command,
        other => panic!("{other:?} is not of the bucket's chain"),
    }
}
