//! Objects: they are put, found, deleted and tagged, with their versions.
//!
//! Invariants:
//! - SO-1 of a key at most one version is the null version.
//! - SB-1 the entry that takes the last name of blocks away makes them garbage.
//! - SB-3 a commit is refused when its attempt is fenced, or began at or below the note.

use fader_chain::{EntryId, Guard};

use crate::s3::Decided;
use crate::s3::access::{Action, Resource, of_tags};
use crate::s3::bucket::{Asked, Bucket};
use crate::s3::command::{
    DeleteObjects, Deletion, GetObject, PutObject, PutObjectAcl, PutObjectTags,
};
use crate::s3::error::{Code, Error};
use crate::s3::lifecycle::expiry;
use crate::s3::limits::Limits;
use crate::s3::pieces;
use crate::s3::reply::{Deleted, Found, Put, Reply};
use crate::s3::rows::{
    Attempt, Content, Metadata, Object, Pairs, Source, State, Version, VersionId,
};
use crate::s3::settings::{Versioning, check_tags};

/// Commits an object.
pub(crate) fn put(asked: Asked<'_>, command: &PutObject) -> Decided {
    let mut bucket = Bucket::named(asked)?;
    let object = check_put(&bucket, asked, command)?;
    let (key, attempt, source) = (&*command.key, command.attempt, object.source);
    if is_committed(&bucket, attempt, &command.content)? {
        let current = bucket.current(key)?;
        let is_it = |it: &&Version| it.object().is_some_and(|object| object.source == source);
        let current = current.as_ref().filter(is_it);
        let current = current.ok_or_else(|| Error::of(Code::AttemptFenced))?;
        return Ok((Reply::Put(shown(&bucket, key, current)), Vec::new()));
    }
    if bucket.has(Guard::S3Condition) {
        command.conditions.check(bucket.current(key)?.as_ref())?;
    }
    bucket.put(bucket.keys.content(attempt.id), &command.content);
    let version = place(
        &mut bucket,
        key,
        State::Object(Box::new(object)),
        asked.request.seed,
    )?;
    Ok((Reply::Put(shown(&bucket, key, &version)), bucket.finish()))
}

/// Refuses a put that is too large, or that the caller may not make; else the object.
pub(crate) fn check_put(
    bucket: &Bucket<'_>,
    asked: Asked<'_>,
    command: &PutObject,
) -> Result<Object, Error> {
    check_key(&command.key, asked.context.limits)?;
    check_metadata(&command.metadata, asked.context.limits)?;
    let (tags, given) = (&command.metadata.tags, command.acl.as_ref());
    let (owner, acl) = bucket.check_put(asked, &command.key, tags, given)?;
    let size = check_content(&command.content, asked.context.limits)?;
    Ok(Object {
        size,
        etag: command.etag.clone(),
        checksum: command.checksum.clone(),
        metadata: command.metadata.clone(),
        parts: 0,
        source: Source::of(command.attempt.id, &command.content),
        owner,
        acl,
    })
}

/// What a put tells of a version: its id only where each put makes one.
pub(crate) fn shown(bucket: &Bucket<'_>, key: &str, version: &Version) -> Put {
    let object = version.object();
    let is_enabled = bucket.settings.versioning == Versioning::Enabled;
    Put {
        version: is_enabled.then_some(version.id),
        etag: object.map_or_else(String::new, |object| object.etag.clone()),
        checksum: object.and_then(|object| object.checksum.clone()),
        expiry: expiry(bucket, key, version),
    }
}

/// A version's id, where versions are kept or were.
fn shown_id(bucket: &Bucket<'_>, id: VersionId) -> Option<VersionId> {
    (bucket.settings.versioning != Versioning::Off).then_some(id)
}

/// Refuses a key that is empty or too long.
pub(crate) fn check_key(key: &str, limits: &Limits) -> Result<(), Error> {
    match key.len() {
        0 => Err(Error::new(Code::InvalidArgument, "The key is empty")),
        size if limits.key_bytes < size => Err(Error::of(Code::KeyTooLongError)),
        _ => Ok(()),
    }
}

/// Refuses metadata that is too much.
pub(crate) fn check_metadata(metadata: &Metadata, limits: &Limits) -> Result<(), Error> {
    let sizes = metadata
        .user
        .iter()
        .map(|(name, value)| name.len() + value.len());
    if limits.metadata_bytes < sizes.sum() {
        return Err(Error::of(Code::MetadataTooLarge));
    }
    check_tags(&metadata.tags, limits.object_tags)
}

/// Bytes of a content, which is within its limits.
pub(crate) fn check_content(content: &Content, limits: &Limits) -> Result<u64, Error> {
    let size = content.size();
    let is_whole = match content {
        Content::Inline(_) => size <= limits.inline_bytes,
        Content::Blocks(blocks) => {
            let mut sizes = blocks.iter().map(|block| block.size);
            !blocks.is_empty() && sizes.all(|size| (1..=limits.block_bytes).contains(&size))
        }
    };
    if !is_whole {
        return Err(Error::new(
            Code::InvalidRequest,
            "The blocks of the upload are wrong",
        ));
    }
    match size <= limits.put_bytes {
        true => Ok(size),
        false => Err(Error::of(Code::EntityTooLarge)),
    }
}

/// Whether an attempt was committed here before: it is not committed twice.
///
/// # Errors
/// The attempt may not commit: it is of another bucket, fenced, or too old to be known as fenced.
pub(crate) fn is_committed(
    bucket: &Bucket<'_>,
    attempt: Attempt,
    content: &Content,
) -> Result<bool, Error> {
    if bucket.has_row(&bucket.keys.content(attempt.id))? {
        return Ok(true);
    }
    if let Content::Inline(_) = content {
        return Ok(false);
    }
    if !bucket.is_of(attempt.bucket) {
        return Err(Error::made_again());
    }
    let note: Option<EntryId> = bucket.row(&bucket.keys.note())?;
    let is_old = note.is_some_and(|note| attempt.begun <= note) && bucket.has(Guard::S3Note);
    let fence = bucket.keys.fence(attempt.begun, attempt.id);
    if is_old || (bucket.has(Guard::S3Fence) && bucket.has_row(&fence)?) {
        return Err(Error::of(Code::AttemptFenced));
    }
    Ok(false)
}

/// Makes a version the newest of its key.
pub(crate) fn place(
    bucket: &mut Bucket<'_>,
    key: &str,
    state: State,
    seed: u128,
) -> Result<Version, Error> {
    bucket.supersede(key);
    let versioning = bucket.settings.versioning;
    let now_ms = bucket.terms.now_ms;
    let current = bucket.current(key)?;
    let newest = match versioning == Versioning::Off || current.is_some() {
        true => None,
        false => bucket.newest(key)?,
    };
    let before = current.as_ref().or(newest.as_ref());
    let number = before.map_or(0, |version| version.number) + 1;
    let is_null = versioning != Versioning::Enabled;
    match current {
        Some(old) if is_null && old.id == VersionId::Null => bucket.retire_version(&old),
        Some(old) => leave(bucket, key, old),
        None => {
            if let Some(marker) = newest {
                leave(bucket, key, marker);
            }
        }
    }
    if versioning == Versioning::Suspended
        && let Some((old, false)) = bucket.version(key, VersionId::Null)?
    {
        bucket.remove_version(key, &old);
        bucket.retire_version(&old);
    }
    let version = Version {
        number,
        id: match is_null {
            true => VersionId::Null,
            false => VersionId::Named((number, seed as u64)),
        },
        modified_ms: now_ms,
        noncurrent_ms: 0,
        state,
    };
    match &version.state {
        State::Object(_) => bucket.put(bucket.keys.current(key), &version),
        State::Marker => {
            bucket.remove(bucket.keys.current(key));
            bucket.put_version(key, &version);
        }
    }
    Ok(version)
}

/// A version is not the newest of its key any more.
fn leave(bucket: &mut Bucket<'_>, key: &str, version: Version) {
    let noncurrent_ms = bucket.terms.now_ms;
    let version = Version {
        noncurrent_ms,
        ..version
    };
    bucket.put_version(key, &version);
}

/// The newest version that is left becomes the current one, if it is an object.
fn promote(bucket: &mut Bucket<'_>, key: &str) -> Result<(), Error> {
    let Some(newest) = bucket.newest(key)? else {
        return Ok(());
    };
    let version = Version {
        noncurrent_ms: 0,
        ..newest
    };
    match version.object() {
        Some(_) => {
            bucket.remove_version(key, &version);
            bucket.put(bucket.keys.current(key), &version);
        }
        None => bucket.put_version(key, &version),
    }
    Ok(())
}

/// Deletes one object, or a version.
pub(crate) fn delete(asked: Asked<'_>, deletion: &Deletion) -> Decided {
    let mut bucket = Bucket::named(asked)?;
    let deleted = delete_one(&mut bucket, asked, asked.request.seed, deletion)?;
    Ok((Reply::Deleted(deleted), bucket.finish()))
}

/// Deletes several: each is judged alone, on what those before it left.
pub(crate) fn delete_several(asked: Asked<'_>, command: &DeleteObjects) -> Decided {
    let most = asked.context.limits.delete_keys;
    if command.objects.is_empty() || most < command.objects.len() {
        return Err(Error::of(Code::MalformedXML));
    }
    let mut bucket = Bucket::named(asked)?;
    let mut deleted = Vec::with_capacity(command.objects.len());
    for (at, deletion) in command.objects.iter().enumerate() {
        // Ids of versions of one key differ by their numbers, too.
        let seed = asked.request.seed.wrapping_add(at as u128);
        deleted.push(delete_one(&mut bucket, asked, seed, deletion));
    }
    Ok((Reply::DeletedSeveral(deleted), bucket.finish()))
}

fn delete_one(
    bucket: &mut Bucket<'_>,
    asked: Asked<'_>,
    seed: u128,
    deletion: &Deletion,
) -> Result<Deleted, Error> {
    let key = &*deletion.key;
    check_key(key, bucket.terms.limits)?;
    let action = Action::DeleteObject.of_version(deletion.version.is_some());
    bucket.check(asked, action, Resource::Key(key))?;
    let Some(id) = deletion.version else {
        let current = bucket.current(key)?;
        deletion.conditions.check(current.as_ref())?;
        return expire(bucket, key, current, seed);
    };
    let found = bucket.version(key, id)?;
    deletion.conditions.check(found.as_ref().map(|it| &it.0))?;
    let is_marker = match found {
        None => false,
        Some((version, is_current)) => remove(bucket, key, &version, is_current)?,
    };
    Ok(Deleted {
        version: shown_id(bucket, id),
        is_marker,
    })
}

/// Deletes the current version: where versions are kept a delete marker takes its place.
pub(crate) fn expire(
    bucket: &mut Bucket<'_>,
    key: &str,
    current: Option<Version>,
    seed: u128,
) -> Result<Deleted, Error> {
    if bucket.settings.versioning == Versioning::Off {
        bucket.supersede(key);
        if let Some(current) = current {
            bucket.remove(bucket.keys.current(key));
            bucket.retire_version(&current);
        }
        return Ok(Deleted {
            version: None,
            is_marker: false,
        });
    }
    let marker = place(bucket, key, State::Marker, seed)?;
    Ok(Deleted {
        version: Some(marker.id),
        is_marker: true,
    })
}

/// Takes a version away permanently; whether it was a delete marker.
pub(crate) fn remove(
    bucket: &mut Bucket<'_>,
    key: &str,
    version: &Version,
    is_current: bool,
) -> Result<bool, Error> {
    bucket.supersede(key);
    bucket.retire_version(version);
    if is_current {
        bucket.remove(bucket.keys.current(key));
        promote(bucket, key)?;
        return Ok(false);
    }
    bucket.remove_version(key, version);
    let is_marker = version.object().is_none();
    if is_marker && bucket.current(key)?.is_none() {
        promote(bucket, key)?;
    }
    Ok(is_marker)
}

/// The version that a read is about.
///
/// # Errors
/// There is none, or it is a delete marker, which the error names.
fn find(bucket: &Bucket<'_>, key: &str, id: Option<VersionId>) -> Result<(Version, bool), Error> {
    let Some(id) = id else {
        if let Some(current) = bucket.current(key)? {
            return Ok((current, true));
        }
        let newest = match bucket.settings.versioning {
            Versioning::Off => None,
            _ => bucket.newest(key)?,
        };
        return Err(Error {
            marker: newest.map(|it| it.id),
            ..Error::of(Code::NoSuchKey)
        });
    };
    let found = bucket.version(key, id)?;
    let found = found.ok_or_else(|| Error::of(Code::NoSuchVersion))?;
    match found.0.object() {
        Some(_) => Ok(found),
        None => Err(Error {
            marker: Some(id),
            ..Error::of(Code::MethodNotAllowed)
        }),
    }
}

/// The version that a request is about, for one who may do that with it. `more` are condition keys
/// beside the caller's.
fn find_for(
    bucket: &Bucket<'_>,
    asked: Asked<'_>,
    action: Action,
    key: &str,
    id: Option<VersionId>,
    more: &Pairs,
) -> Result<(Version, bool), Error> {
    let action = action.of_version(id.is_some());
    let found = find(bucket, key, id).and_then(|found| match found.0.object() {
        Some(object) => match bucket.may_with(asked, action, Resource::Object(key, object), more) {
            true => Ok(found),
            false => Err(Error::of(Code::AccessDenied)),
        },
        None => Err(Error::of(Code::NoSuchKey)),
    });
    found.map_err(|error| {
        let is_told = error.code.status() == 500 || bucket.may_list(asked, key);
        match is_told {
            true => error,
            false => Error::of(Code::AccessDenied),
        }
    })
}

/// Finds an object.
pub(crate) fn get(asked: Asked<'_>, command: &GetObject) -> Result<Reply, Error> {
    let bucket = Bucket::named(asked)?;
    let (action, key) = (command.action, &*command.key);
    let (mut version, is_current) =
        find_for(&bucket, asked, action, key, command.version, &Pairs::new())?;
    let object = version.object();
    let object = object.ok_or_else(|| Error::of(Code::NoSuchKey))?;
    let checked = command.conditions.check(&version, object);
    checked.map_err(|error| Error {
        found: Some((object.etag.clone(), version.modified_ms)),
        ..error
    })?;
    let extent = pieces::find(&bucket, object, command.extent)?;
    let expiry = is_current.then(|| expiry(&bucket, &command.key, &version));
    if let State::Object(object) = &mut version.state {
        bucket.settings.show(object);
    }
    Ok(Reply::Object(Box::new(Found {
        is_versioned: bucket.settings.versioning != Versioning::Off,
        extent,
        expiry: expiry.flatten(),
        version,
    })))
}

/// Gives a version other tags.
pub(crate) fn tag(asked: Asked<'_>, command: &PutObjectTags) -> Decided {
    check_tags(&command.tags, asked.context.limits.object_tags)?;
    let action = match command.tags.is_empty() {
        true => Action::DeleteObjectTagging,
        false => Action::PutObjectTagging,
    };
    let (key, version) = (&*command.key, command.version);
    let more = of_tags(&command.tags);
    change(asked, action, key, version, &more, |_, object| {
        object.metadata.tags.clone_from(&command.tags);
        Ok(())
    })
}

/// Gives a version another ACL.
pub(crate) fn set_acl(asked: Asked<'_>, command: &PutObjectAcl) -> Decided {
    let (action, key, version) = (Action::PutObjectAcl, &*command.key, command.version);
    let more = Pairs::new();
    change(asked, action, key, version, &more, |bucket, object| {
        let owner = bucket.settings.owner_of(object);
        object.acl = bucket.settings.acl_of(Some(&command.acl), owner)?;
        Ok(())
    })
}

/// Changes what is stored beside the bytes of a version.
fn change(
    asked: Asked<'_>,
    action: Action,
    key: &str,
    id: Option<VersionId>,
    more: &Pairs,
    with: impl FnOnce(&Bucket<'_>, &mut Object) -> Result<(), Error>,
) -> Decided {
    let mut bucket = Bucket::named(asked)?;
    let (mut version, is_current) = find_for(&bucket, asked, action, key, id, more)?;
    if let State::Object(object) = &mut version.state {
        with(&bucket, object)?;
    }
    match is_current {
        true => bucket.put(bucket.keys.current(key), &version),
        false => bucket.put_version(key, &version),
    }
    let reply = Put {
        version: shown_id(&bucket, version.id),
        ..shown(&bucket, key, &version)
    };
    Ok((Reply::Put(reply), bucket.finish()))
}
