//! A bucket while a request is decided: its rows, with those that the decision changes laid over.

use std::collections::BTreeSet;

use bytes::Bytes;
use fader_chain::{Change, Guard, Guards, Layered, Mutations};

use crate::forward::wire::Wire;
use crate::key::KeyRange;
use crate::policy::Verdict;
use crate::s3::access::{self, Action, Resource};
use crate::s3::acl::{Acl, GivenAcl};
use crate::s3::command::Request;
use crate::s3::error::{Code, Error};
use crate::s3::layout::{self, Keys, decode, encode};
use crate::s3::limits::Limits;
use crate::s3::rows::{BucketId, Content, GarbageId, Pairs, Source, Version, VersionId};
use crate::s3::settings::Settings;
use crate::s3::tentative;
use crate::s3::upkeep::Upkeep;
use crate::service::Context;
use crate::simpledb::metadata_key;
use crate::{CollectionId, Direction, Mode, Scan, View, ViewError};

/// What all decisions on buckets know.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) view: &'a dyn View,
    pub(crate) limits: &'a Limits,
    pub(crate) guards: &'a Guards,
    pub(crate) now_ms: u64,
    /// The mode of the bucket, where clients' writes are decided; else strong.
    pub(crate) mode: Mode,
}

impl<'a> Terms<'a> {
    pub(crate) fn new(view: &'a dyn View, context: &Context<'a, Limits>) -> Self {
        Terms {
            view,
            limits: context.limits,
            guards: context.guards,
            now_ms: context.now_ms,
            mode: context.mode,
        }
    }
}

/// A request, and where it is decided or answered.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) view: &'a dyn View,
    pub(crate) context: &'a Context<'a, Limits>,
    pub(crate) request: &'a Request,
}

/// A bucket, with what a decision does to it.
pub(crate) struct Bucket<'a> {
    pub(crate) terms: Terms<'a>,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
    changed: Mutations,
    /// Registers of keys that are written strongly, where eventual puts may come.
    superseded: BTreeSet<Bytes>,
}

impl<'a> Bucket<'a> {
    /// The bucket in this collection, if it is made: also one that was deleted.
    pub(crate) fn open(
        terms: Terms<'a>,
        collection: CollectionId,
    ) -> Result<Option<Bucket<'a>>, ViewError> {
        let Some(settings) = settings(terms.view, collection)? else {
            return Ok(None);
        };
        Ok(Some(Bucket {
            terms,
            keys: Keys(collection),
            settings,
            changed: Mutations::new(),
            superseded: BTreeSet::new(),
        }))
    }

    /// The bucket that a request names, for any caller.
    pub(crate) fn named(asked: Asked<'a>) -> Result<Bucket<'a>, Error> {
        let missing = || Error::of(Code::NoSuchBucket);
        let collection = asked.context.collection.ok_or_else(missing)?;
        let bucket = Bucket::open(Terms::new(asked.view, asked.context), collection)?;
        let bucket =
            Some(bucket.ok_or_else(Error::unmade)?).filter(|bucket| !bucket.settings.is_deleted);
        let bucket = bucket.ok_or_else(missing)?;
        let expected = asked.request.caller.expected_owner.as_ref();
        match expected.is_none_or(|it| *it == bucket.settings.owner) {
            true => Ok(bucket),
            false => Err(Error::of(Code::AccessDenied)),
        }
    }

    /// The same, for one who may do something with the bucket itself.
    pub(crate) fn of(asked: Asked<'a>, action: Action) -> Result<Bucket<'a>, Error> {
        let bucket = Bucket::named(asked)?;
        bucket.check(asked, action, Resource::Bucket)?;
        Ok(bucket)
    }

    /// The same, for one who may do something at a key.
    pub(crate) fn at(asked: Asked<'a>, action: Action, key: &str) -> Result<Bucket<'a>, Error> {
        let bucket = Bucket::named(asked)?;
        bucket.check(asked, action, Resource::Key(key))?;
        Ok(bucket)
    }

    /// Whether the caller may do something.
    pub(crate) fn may(&self, asked: Asked<'_>, action: Action, at: Resource<'_>) -> bool {
        self.may_with(asked, action, at, &Pairs::new())
    }

    /// The same with condition keys beside the caller's.
    pub(crate) fn may_with(
        &self,
        asked: Asked<'_>,
        action: Action,
        at: Resource<'_>,
        more: &Pairs,
    ) -> bool {
        let caller = &asked.request.caller;
        access::may(&self.settings, caller, self.terms.now_ms, action, at, more)
    }

    /// Whether the caller may learn whether there is an object at a key.
    pub(crate) fn may_list(&self, asked: Asked<'_>, key: &str) -> bool {
        let caller = &asked.request.caller;
        let now_ms = self.terms.now_ms;
        let prefix = [("s3:prefix".to_owned(), key.to_owned())];
        let action = Action::ListBucket;
        let bucket = Resource::Bucket;
        access::may(&self.settings, caller, now_ms, action, bucket, &prefix)
    }

    /// Whether the policy denies it.
    pub(crate) fn denies(&self, asked: Asked<'_>, action: Action, at: Resource<'_>) -> bool {
        let (caller, now_ms) = (&asked.request.caller, self.terms.now_ms);
        access::policy(&self.settings, caller, now_ms, action, at, &[]) == Verdict::Denied
    }

    /// Refuses what the caller may not do.
    pub(crate) fn check(
        &self,
        asked: Asked<'_>,
        action: Action,
        at: Resource<'_>,
    ) -> Result<(), Error> {
        match self.may(asked, action, at) {
            true => Ok(()),
            false => Err(Error::of(Code::AccessDenied)),
        }
    }

    /// Refuses a put, with its tags and its ACL, that the caller may not make; else the owner of
    /// the object, and its ACL.
    pub(crate) fn check_put(
        &self,
        asked: Asked<'_>,
        key: &str,
        tags: &Pairs,
        given: Option<&GivenAcl>,
    ) -> Result<(String, Option<Acl>), Error> {
        let (settings, caller) = (&self.settings, &asked.request.caller);
        let now_ms = self.terms.now_ms;
        let more = access::of_tags(tags);
        let may = |action, at| access::may(settings, caller, now_ms, action, at, &more);
        let denied = || Error::of(Code::AccessDenied);
        if !may(Action::PutObject, Resource::Key(key)) {
            return Err(denied());
        }
        let (owner, acl) = settings.new_object(caller, given)?;
        let new = Resource::New(key, settings.or_own(&owner));
        let needs = [
            (!tags.is_empty(), Action::PutObjectTagging),
            (acl.is_some(), Action::PutObjectAcl),
        ];
        // What an ACL lets write is its writer's, with tags and ACL.
        let is_theirs =
            access::acl_permits(settings, caller, Action::PutObject, Resource::Key(key));
        let mut needs = needs.into_iter().filter(|it| it.0);
        match is_theirs || needs.all(|(_, action)| may(action, new)) {
            true => Ok((owner, acl)),
            false => Err(denied()),
        }
    }

    /// One that is being made.
    pub(crate) fn made(terms: Terms<'a>, collection: CollectionId, settings: Settings) -> Self {
        let mut bucket = Bucket {
            terms,
            keys: Keys(collection),
            settings: Settings::default(),
            changed: Mutations::new(),
            superseded: BTreeSet::new(),
        };
        bucket.set(settings);
        bucket
    }

    /// Whether a guard is in place.
    pub(crate) fn has(&self, guard: Guard) -> bool {
        self.terms.guards.has(guard)
    }

    /// What the decision changes.
    pub(crate) fn finish(self) -> Vec<Change> {
        let changes = self.changed.into_iter().map(|(key, value)| match value {
            Some(value) => Change::Put { key, value },
            None => Change::Remove { key },
        });
        let superseded = self.superseded.into_iter().map(tentative::superseding);
        changes.chain(superseded).collect()
    }

    /// A key is written strongly: eventual puts of it that are older come to nothing.
    pub(crate) fn supersede(&mut self, key: &str) {
        if self.terms.mode.keeps_marks() {
            self.superseded.insert(self.keys.put_register(key));
        }
    }

    /// Gives the bucket other settings.
    pub(crate) fn set(&mut self, settings: Settings) {
        let key = metadata_key(self.keys.0);
        self.changed.insert(key, Some(encode(&settings)));
        self.settings = settings;
    }

    pub(crate) fn has_row(&self, key: &[u8]) -> Result<bool, ViewError> {
        let layered = Layered::new(self.terms.view, &self.changed);
        Ok(layered.get(key)?.is_some())
    }

    pub(crate) fn row<R: Wire>(&self, key: &[u8]) -> Result<Option<R>, ViewError> {
        let layered = Layered::new(self.terms.view, &self.changed);
        Ok(layered.get(key)?.map(decode).transpose()?)
    }

    pub(crate) fn put(&mut self, key: Bytes, row: &dyn Wire) {
        self.changed.insert(key, Some(encode(row)));
    }

    /// Puts a row that is its key alone.
    pub(crate) fn mark(&mut self, key: Bytes) {
        self.changed.insert(key, Some(Bytes::new()));
    }

    pub(crate) fn remove(&mut self, key: Bytes) {
        self.changed.insert(key, None);
    }

    /// The pairs of a range, as the decision leaves them.
    pub(crate) fn scan(&self, range: &KeyRange, count: usize) -> Result<Vec<Pair>, ViewError> {
        let layered = Layered::new(self.terms.view, &self.changed);
        let pairs: Scan<'_> = layered.scan(&range.start, &range.end, Direction::Forward);
        pairs.take(count).collect()
    }

    /// Whether a range has no row.
    pub(crate) fn is_empty(&self, range: &KeyRange) -> Result<bool, ViewError> {
        Ok(self.scan(range, 1)?.is_empty())
    }

    /// The current version of a key, if it is an object.
    pub(crate) fn current(&self, key: &str) -> Result<Option<Version>, ViewError> {
        self.row(&self.keys.current(key))
    }

    /// The newest version of a key that is not its current object: where there is no such object it
    /// is a delete marker (BLAYOUT-1).
    pub(crate) fn newest(&self, key: &str) -> Result<Option<Version>, ViewError> {
        let found = self.scan(&self.keys.versions(key), 1)?.pop();
        Ok(found.map(|(_, row)| decode(row)).transpose()?)
    }

    /// The version of this id, and whether it is the current object.
    pub(crate) fn version(
        &self,
        key: &str,
        id: VersionId,
    ) -> Result<Option<(Version, bool)>, ViewError> {
        if let Some(current) = self.current(key)?.filter(|it| it.id == id) {
            return Ok(Some((current, true)));
        }
        let number = match id {
            VersionId::Named((number, _)) => Some(number),
            VersionId::Null => self.row(&self.keys.null(key))?,
        };
        let Some(number) = number else {
            return Ok(None);
        };
        let found: Option<Version> = self.row(&self.keys.version(key, number))?;
        Ok(found.filter(|it| it.id == id).map(|it| (it, false)))
    }

    /// Puts a version among those that are not the current object.
    pub(crate) fn put_version(&mut self, key: &str, version: &Version) {
        if version.id == VersionId::Null {
            let row = self.keys.null(key);
            self.put(row, &version.number);
        }
        let row = self.keys.version(key, version.number);
        self.put(row, version);
    }

    /// Takes one away from them.
    pub(crate) fn remove_version(&mut self, key: &str, version: &Version) {
        if version.id == VersionId::Null {
            self.remove(self.keys.null(key));
        }
        self.remove(self.keys.version(key, version.number));
    }

    /// The content of an attempt.
    pub(crate) fn content(&self, attempt: u128) -> Result<Option<Content>, ViewError> {
        self.row(&self.keys.content(attempt))
    }

    /// Nothing names these bytes any more: those in the index go, blocks are garbage, in the same
    /// entry.
    pub(crate) fn retire(&mut self, source: Source) {
        let garbage = match source {
            Source::Inline(attempt) => {
                self.remove(self.keys.content(attempt));
                return;
            }
            Source::Blocks(attempt) => GarbageId::Attempt(attempt),
            Source::Upload(upload) => {
                self.remove(self.keys.completed(upload));
                GarbageId::Upload(upload)
            }
        };
        if self.has(Guard::S3Garbage) {
            self.mark(self.keys.garbage(garbage));
        }
    }

    /// Nothing names a version any more.
    pub(crate) fn retire_version(&mut self, version: &Version) {
        if let Some(object) = version.object() {
            self.retire(object.source);
        }
    }

    /// Notes when the bucket has work to do, unless it has some earlier.
    pub(crate) fn note_chore(&mut self, due_ms: u64) -> Result<(), ViewError> {
        let key = self.keys.upkeep();
        let mut upkeep: Upkeep = self.row(&key)?.unwrap_or_default();
        if upkeep.due_ms != 0 && upkeep.due_ms <= due_ms {
            return Ok(());
        }
        if upkeep.due_ms != 0 {
            self.remove(layout::chore_key(upkeep.due_ms, self.keys.0));
        }
        upkeep.due_ms = due_ms;
        self.put(key, &upkeep);
        self.mark(layout::chore_key(due_ms, self.keys.0));
        Ok(())
    }

    /// Whether an owner of blocks means this bucket, and not another of its name.
    pub(crate) fn is_of(&self, bucket: BucketId) -> bool {
        self.settings.id == bucket || !self.has(Guard::S3BucketId)
    }
}

/// A row: its key and its value.
pub(crate) type Pair = (Bytes, Bytes);

/// What is set on the bucket in a collection, if it is made.
pub(crate) fn settings(
    view: &dyn View,
    collection: CollectionId,
) -> Result<Option<Settings>, ViewError> {
    let row = view.get(&metadata_key(collection))?;
    let row = row.filter(|row| !row.is_empty());
    Ok(row.map(decode).transpose()?)
}
