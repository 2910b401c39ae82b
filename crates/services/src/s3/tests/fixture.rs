//! A chain with a bucket, whose clock the test moves.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use fader_chain::{
    ALL_GUARDS, ApplyContext, ChainId, Change, Direction, EntryId, Guards, Reader, Scan, View,
    ViewError,
};

use crate::catalog::{self, AccountId, Name};
use crate::forward::wire::Wire as _;
use crate::policy::Principal;
use crate::s3::bucket::settings;
use crate::s3::command::*;
use crate::s3::conditions::{DeleteConditions, ReadConditions, WriteConditions};
use crate::s3::reply::*;
use crate::s3::rows::*;
use crate::s3::settings::{Setting, Settings, Versioning};
use crate::s3::{Action, Caller, Code, Error, Limits, Reply, S3, answer, decide, upkeep};
use crate::service::{Context, Service as _};
use crate::{CollectionId, Kind, MapView, Mode};

pub(super) const ACCOUNT: &str = "000000000001";
/// A midnight.
pub(super) const START: u64 = 19_700 * DAY;
pub(super) const DAY: u64 = 86_400_000;
pub(super) const B: &str = "photos";

/// The rows of a member, and a count of all that is read.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) all: MapView,
    read: Cell<usize>,
    tables: RefCell<Vec<u8>>,
}

impl Rows {
    fn count(&self, key: &[u8]) {
        self.read.set(self.read.get() + 1);
        self.tables.borrow_mut().extend(key.get(8));
    }

    /// Rows that were read since the last time, and their tables.
    pub(super) fn take(&self) -> (usize, String) {
        let tables = self.tables.take();
        (
            self.read.take(),
            String::from_utf8_lossy(&tables).into_owned(),
        )
    }
}

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.count(key);
        self.all.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        let pairs = self.all.scan(start, end, direction);
        Box::new(pairs.inspect(|pair| self.count(&pair.as_ref().unwrap().0)))
    }
}

pub(super) struct World {
    pub(super) rows: Rows,
    pub(super) now_ms: u64,
    pub(super) limits: Limits,
    pub(super) guards: Guards,
    /// Whose bucket it is, until another one asks.
    pub(super) account: AccountId,
    pub(super) caller: Caller,
    pub(super) index: u64,
    pub(super) chain: ChainId,
    /// That of the bucket.
    pub(super) mode: Mode,
}

impl World {
    pub(super) fn empty() -> Self {
        World {
            rows: Rows::default(),
            now_ms: START,
            limits: Limits {
                part_bytes_min: 0,
                ..Limits::default()
            },
            guards: ALL_GUARDS.clone(),
            account: AccountId(ACCOUNT.to_owned()),
            caller: Caller::of(Principal::Account(ACCOUNT.to_owned())),
            index: 0,
            chain: ChainId::SYSTEM,
            mode: Mode::Strong,
        }
    }

    /// One with the bucket `photos`.
    pub(super) fn new() -> Self {
        let mut world = World::empty();
        world.create(B).unwrap();
        world
    }

    pub(super) fn versioned() -> Self {
        let mut world = World::new();
        world.versioning(Versioning::Enabled);
        world
    }

    pub(super) fn collection(&self, bucket: &str) -> Option<CollectionId> {
        let name = Name::new(Kind::Bucket, &self.account, bucket);
        let entry = catalog::collection(&self.rows, name).unwrap();
        entry.map(|entry| entry.collection)
    }

    pub(super) fn apply(&mut self, changes: &[Change]) {
        self.index += 1;
        let under = ApplyContext::strong(self.entry());
        self.rows.all.apply(changes, &under).unwrap();
    }

    /// The last entry.
    pub(super) fn entry(&self) -> EntryId {
        EntryId::new(1, self.index)
    }

    pub(super) fn run(&mut self, command: Command) -> Result<Reply, Error> {
        self.index += 1;
        let seed = u128::from(self.index).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let request = Request {
            seed,
            caller: self.caller.clone(),
            command,
        };
        let collection = request.command.bucket().and_then(|it| self.collection(it));
        self.rows.take();
        let context = Context {
            collection,
            now_ms: self.now_ms,
            mode: self.mode,
            guards: &self.guards,
            chain: self.chain,
            ..Context::new(&self.account, &self.limits)
        };
        if !request.command.is_write() {
            let outcome = answer(&self.rows, &context, &request);
            check_bytes(&request, &outcome);
            return outcome;
        }
        let decision = decide(&self.rows, &context, &request);
        self.apply(&decision.changes);
        check_bytes(&request, &decision.outcome);
        decision.outcome
    }

    pub(super) fn code(&mut self, command: Command) -> Code {
        self.run(command).expect_err("it is refused").code
    }

    pub(super) fn create(&mut self, bucket: &str) -> Result<Reply, Error> {
        self.run(Command::CreateBucket(CreateBucket {
            bucket: bucket.to_owned(),
            region: "us-east-1".to_owned(),
            ..CreateBucket::default()
        }))
    }

    /// Has another one ask from now on.
    pub(super) fn as_(&mut self, caller: Caller) -> &mut Self {
        let account = caller.principal.account().cloned();
        self.account = AccountId(account.unwrap_or_else(|| "anonymous".to_owned()));
        self.caller = caller;
        self
    }

    /// Has an account ask from now on, with all its rights.
    pub(super) fn as_account(&mut self, account: &str) -> &mut Self {
        self.as_(Caller::of(Principal::Account(account.to_owned())))
    }

    pub(super) fn head(&mut self) -> Settings {
        let collection = self.collection(B).unwrap();
        settings(&self.rows, collection).unwrap().unwrap()
    }

    pub(super) fn set(&mut self, setting: Setting) -> Result<Reply, Error> {
        self.run(Command::PutSetting(PutSetting {
            bucket: B.to_owned(),
            setting,
        }))
    }

    pub(super) fn versioning(&mut self, versioning: Versioning) {
        self.set(Setting::Versioning(versioning)).unwrap();
    }

    /// A new attempt on this bucket.
    pub(super) fn attempt(&mut self) -> Attempt {
        let begun = self.entry();
        self.index += 1;
        Attempt {
            id: 0xa000_0000 + u128::from(self.index),
            bucket: self.head().id,
            begun,
        }
    }

    pub(super) fn put_with(
        &mut self,
        key: &str,
        content: Content,
        change: impl FnOnce(&mut PutObject),
    ) -> Result<Put, Error> {
        let attempt = self.attempt();
        let mut put = put_of(key, attempt, content);
        change(&mut put);
        match self.run(Command::PutObject(Box::new(put)))? {
            Reply::Put(put) => Ok(put),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn put(&mut self, key: &str, body: &str) -> Put {
        self.put_with(key, inline(body), |_| {}).unwrap()
    }

    pub(super) fn put_if(&mut self, key: &str, conditions: WriteConditions) -> Result<Put, Error> {
        self.put_with(key, inline("x"), |put| put.conditions = conditions)
    }

    pub(super) fn get_with(
        &mut self,
        key: &str,
        version: Option<VersionId>,
        extent: Extent,
    ) -> Result<Found, Error> {
        let get = GetObject {
            bucket: B.to_owned(),
            key: key.to_owned(),
            version,
            conditions: ReadConditions::default(),
            extent,
            action: Action::GetObject,
        };
        match self.run(Command::GetObject(get))? {
            Reply::Object(found) => Ok(*found),
            other => panic!("{other:?}"),
        }
    }

    /// The bytes of an object that lies in the index.
    pub(super) fn body(&mut self, key: &str, version: Option<VersionId>) -> Result<String, Code> {
        let found = self.get_with(key, version, Extent::From(0));
        let found = found.map_err(|error| error.code)?;
        let bytes = found.extent.pieces.iter().flat_map(|piece| match piece {
            Piece::Inline(bytes) => bytes.to_vec(),
            Piece::Block(block) => panic!("{block:?}"),
        });
        Ok(String::from_utf8(bytes.collect()).unwrap())
    }

    pub(super) fn delete(
        &mut self,
        key: &str,
        version: Option<VersionId>,
    ) -> Result<Deleted, Error> {
        self.delete_if(key, version, DeleteConditions::default())
    }

    pub(super) fn delete_if(
        &mut self,
        key: &str,
        version: Option<VersionId>,
        conditions: DeleteConditions,
    ) -> Result<Deleted, Error> {
        let object = Deletion {
            key: key.to_owned(),
            version,
            conditions,
        };
        let bucket = B.to_owned();
        match self.run(Command::DeleteObject(DeleteObject { bucket, object }))? {
            Reply::Deleted(deleted) => Ok(deleted),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn upload(&mut self, key: &str) -> OneUpload {
        let reply = self.run(Command::CreateUpload(CreateUpload {
            bucket: B.to_owned(),
            key: key.to_owned(),
            metadata: Metadata::default(),
            acl: None,
            algorithm: None,
        }));
        match reply.unwrap() {
            Reply::Upload(upload) => OneUpload {
                bucket: B.to_owned(),
                key: key.to_owned(),
                upload,
            },
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn part(
        &mut self,
        of: &OneUpload,
        number: u32,
        content: Content,
    ) -> Result<ListedPart, Error> {
        let attempt = self.attempt();
        let part = part_of(of, number, attempt, content);
        match self.run(Command::PutPart(part))? {
            Reply::Part(etag) => Ok(ListedPart {
                number,
                etag,
                checksum: None,
            }),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn complete(&mut self, of: &OneUpload, parts: &[ListedPart]) -> Result<Put, Error> {
        match self.run(Command::CompleteUpload(complete_of(of, parts)))? {
            Reply::Put(put) => Ok(put),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn page(&mut self, command: Command) -> Page {
        match self.run(command).unwrap() {
            Reply::Page(page) => page,
            other => panic!("{other:?}"),
        }
    }

    /// Does all work that is due.
    pub(super) fn upkeep(&mut self, batch: usize) {
        for _ in 0..100_000 {
            let (limits, guards) = (&self.limits, &self.guards);
            let changes = upkeep(&self.rows, limits, guards, self.now_ms, batch).unwrap();
            if changes.is_empty() {
                return;
            }
            assert!(changes.len() <= 8 * batch + 16, "steps are bounded");
            self.apply(&changes);
        }
        panic!("work never ends");
    }

    pub(super) fn garbage(&mut self, collection: CollectionId) -> Vec<Garbage> {
        let list = ListGarbage {
            collection,
            after: None,
            count: 100,
        };
        match self.run(Command::ListGarbage(list)).unwrap() {
            Reply::Garbage(garbage) => garbage,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn fence(&mut self, owner: Owner, block: u128) -> Fenced {
        match self
            .run(Command::CloseAttempt(Fence { owner, block }))
            .unwrap()
        {
            Reply::Fenced(fenced) => fenced,
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn named(bucket: &str) -> Named {
    Named {
        bucket: bucket.to_owned(),
    }
}

pub(super) fn head_of(bucket: &str) -> Command {
    Command::HeadBucket(HeadBucket {
        bucket: bucket.to_owned(),
        action: Action::ListBucket,
        key: None,
    })
}

pub(super) fn inline(body: &str) -> Content {
    Content::Inline(Bytes::copy_from_slice(body.as_bytes()))
}

/// Blocks of these ids, of 1000 bytes each.
pub(super) fn blocks(ids: &[u128]) -> Content {
    let blocks = ids.iter().map(|id| Block {
        id: *id,
        chain: ChainId(1),
        size: 1000,
    });
    Content::Blocks(blocks.collect())
}

/// Its ETag says which attempt it is of.
pub(super) fn put_of(key: &str, attempt: Attempt, content: Content) -> PutObject {
    PutObject {
        bucket: B.to_owned(),
        key: key.to_owned(),
        attempt,
        content,
        etag: format!("{:032x}", attempt.id),
        checksum: None,
        metadata: Metadata::default(),
        acl: None,
        conditions: WriteConditions::default(),
    }
}

pub(super) fn part_of(of: &OneUpload, number: u32, attempt: Attempt, content: Content) -> PutPart {
    PutPart {
        of: of.clone(),
        number,
        attempt,
        content,
        etag: format!("{:032x}", attempt.id),
        checksum: None,
    }
}

pub(super) fn complete_of(of: &OneUpload, parts: &[ListedPart]) -> CompleteUpload {
    CompleteUpload {
        of: of.clone(),
        parts: parts.to_vec(),
        checksum: None,
        size: None,
        conditions: WriteConditions::default(),
    }
}

pub(super) fn list_of(prefix: &str, delimiter: &str) -> List {
    List {
        bucket: B.to_owned(),
        prefix: prefix.to_owned(),
        delimiter: delimiter.to_owned(),
        ..List::default()
    }
}

/// A request is the same behind its bytes, and so is what is kept of its outcome.
fn check_bytes(request: &Request, outcome: &Result<Reply, Error>) {
    let bytes = |request: &Request| {
        let mut out = Vec::new();
        request.put(&mut out);
        Bytes::from(out)
    };
    let written = bytes(request);
    let mut reader = Reader::new(written.clone());
    let read = Request::read(&mut reader).unwrap();
    reader.end().unwrap();
    assert_eq!(bytes(&read), written);
    if let Some(kept) = S3::keep(outcome.as_ref()) {
        assert_eq!(S3::kept(kept).as_ref(), Ok(outcome));
    }
}
