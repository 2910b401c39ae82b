//! Multipart uploads: they are opened, get parts, are completed or aborted.
//!
//! Invariants:
//! - SM-1 a part, a completion and an abortion need their upload open.
//! - SM-2 parts that a completion does not list are garbage from its entry on.
//! - SM-3 a part that is replaced is garbage from the entry on that replaces it.
//! - SM-4 a completion that is repeated is answered, as long as its version is there.

use fader_chain::Guard;
use md5_many::Md5State;

use crate::s3::Decided;
use crate::s3::access::{Action, Resource};
use crate::s3::bucket::{Asked, Bucket};
use crate::s3::command::{CompleteUpload, CreateUpload, ListParts, ListedPart, OneUpload, PutPart};
use crate::s3::error::{Code, Error};
use crate::s3::layout::{decode, part_of};
use crate::s3::limits::Limits;
use crate::s3::objects::{check_content, check_key, check_metadata, is_committed, place, shown};
use crate::s3::pieces::{MARKED, attempt_of};
use crate::s3::reply::{Parts, Put, Reply};
use crate::s3::rows::{CompletedUpload, GarbageId, Object, Part, Source, State, Upload};
use crate::s3::settings::{Settings, Versioning};

/// Bits of an upload's id that are random, below those of its time.
const RANDOM_BITS: u32 = 80;

/// Opens an upload.
pub(crate) fn create(asked: Asked<'_>, command: &CreateUpload) -> Decided {
    check_key(&command.key, asked.context.limits)?;
    check_metadata(&command.metadata, asked.context.limits)?;
    let seed = asked.request.seed;
    let mut bucket = Bucket::named(asked)?;
    let (tags, given) = (&command.metadata.tags, command.acl.as_ref());
    let (owner, acl) = bucket.check_put(asked, &command.key, tags, given)?;
    let initiator = asked.request.caller.id();
    let initiator = initiator.filter(|it| *it != bucket.settings.owner);
    let upload = Upload {
        initiated_ms: asked.context.now_ms,
        metadata: command.metadata.clone(),
        algorithm: command.algorithm,
        initiator: initiator.unwrap_or_default(),
        owner,
        acl,
    };
    let id = new_id(upload.initiated_ms, seed);
    bucket.put(bucket.keys.upload(&command.key, id), &upload);
    Ok((Reply::Upload(id), bucket.finish()))
}

/// The id of an upload that is opened now: those of one key are listed in the order of their times.
fn new_id(now_ms: u64, seed: u128) -> u128 {
    let random = seed & ((1 << RANDOM_BITS) - 1);
    u128::from(now_ms) << RANDOM_BITS | random
}

fn open(bucket: &Bucket<'_>, of: &OneUpload) -> Result<Upload, Error> {
    let upload = bucket.row(&bucket.keys.upload(&of.key, of.upload))?;
    upload.ok_or_else(|| Error::of(Code::NoSuchUpload))
}

/// Refuses what the caller may not do with an upload; its initiator may do all.
fn check_upload(
    bucket: &Bucket<'_>,
    asked: Asked<'_>,
    action: Action,
    key: &str,
    upload: &Result<Upload, Error>,
) -> Result<(), Error> {
    let caller = &asked.request.caller;
    let is_theirs = upload.as_ref().is_ok_and(|upload| {
        let initiator = bucket.settings.or_own(&upload.initiator);
        caller.id().as_ref() == Some(initiator)
    });
    if is_theirs && !bucket.denies(asked, action, Resource::Key(key)) {
        return Ok(());
    }
    bucket.check(asked, action, Resource::Key(key))
}

/// Shows an upload with the accounts that count.
pub(crate) fn show_upload(settings: &Settings, upload: &mut Upload) {
    upload.initiator = settings.or_own(&upload.initiator).clone();
    upload.owner = settings.or_own(&upload.owner).clone();
}

/// Commits a part.
pub(crate) fn put_part(asked: Asked<'_>, command: &PutPart) -> Decided {
    let most = asked.context.limits.parts;
    if !(1..=most).contains(&command.number) {
        let message = format!("Part number must be an integer between 1 and {most}, inclusive");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let mut bucket = Bucket::at(asked, Action::PutObject, &command.of.key)?;
    let size = check_content(&command.content, asked.context.limits)?;
    if bucket.has(Guard::S3UploadOpen) {
        open(&bucket, &command.of)?;
    }
    let attempt = command.attempt;
    let key = bucket.keys.part(command.of.upload, command.number);
    let old: Option<Part> = bucket.row(&key)?;
    if is_committed(&bucket, attempt, &command.content)? {
        let is_it = |it: &Part| attempt_of(it) == attempt.id;
        let old = old.filter(is_it);
        let old = old.ok_or_else(|| Error::of(Code::AttemptFenced))?;
        return Ok((Reply::Part(old.etag), Vec::new()));
    }
    if let Some(old) = old
        && bucket.has(Guard::S3PartReplaced)
    {
        bucket.retire(old.source);
    }
    bucket.put(bucket.keys.content(attempt.id), &command.content);
    let part = Part {
        source: Source::of(attempt.id, &command.content),
        size,
        etag: command.etag.clone(),
        checksum: command.checksum.clone(),
        modified_ms: asked.context.now_ms,
    };
    bucket.put(key, &part);
    Ok((Reply::Part(part.etag), bucket.finish()))
}

/// Makes an object of an upload. Its parts stay where they are: their rows are its list of blocks.
pub(crate) fn complete(asked: Asked<'_>, command: &CompleteUpload) -> Decided {
    let (key, id) = (&*command.of.key, command.of.upload);
    let mut bucket = Bucket::at(asked, Action::PutObject, key)?;
    if let Some(done) = completed(&bucket, &command.of)? {
        return Ok((Reply::Put(done), Vec::new()));
    }
    let upload = open(&bucket, &command.of)?;
    if command.parts.is_empty() {
        return Err(Error::of(Code::MalformedXML));
    }
    if !command
        .parts
        .is_sorted_by(|one, other| one.number < other.number)
    {
        return Err(Error::of(Code::InvalidPartOrder));
    }
    let chosen = choose(&mut bucket, id, &command.parts)?;
    let size = check_sizes(&chosen, command.size, asked.context.limits)?;
    if bucket.has(Guard::S3Condition) {
        command.conditions.check(bucket.current(key)?.as_ref())?;
    }
    let object = Object {
        size,
        etag: etag(&chosen),
        checksum: command.checksum.clone(),
        metadata: upload.metadata,
        parts: u32::try_from(chosen.len()).unwrap_or(u32::MAX),
        source: Source::Upload(id),
        owner: upload.owner,
        acl: upload.acl,
    };
    let seed = asked.request.seed;
    let version = place(
        &mut bucket,
        key,
        State::Object(Box::new(object.clone())),
        seed,
    )?;
    let completed = CompletedUpload {
        key: key.to_owned(),
        version: version.id,
        etag: object.etag,
        checksum: object.checksum,
        marks: marks(&chosen),
    };
    bucket.remove(bucket.keys.upload(key, id));
    bucket.put(bucket.keys.completed(id), &completed);
    Ok((
        Reply::Put(shown(&bucket, &command.of.key, &version)),
        bucket.finish(),
    ))
}

/// What a completed upload came to, if its version is there.
fn completed(bucket: &Bucket<'_>, of: &OneUpload) -> Result<Option<Put>, Error> {
    if !bucket.has(Guard::S3UploadDone) {
        return Ok(None);
    }
    let done: Option<CompletedUpload> = bucket.row(&bucket.keys.completed(of.upload))?;
    let done = done.filter(|done| done.key == of.key);
    Ok(done.map(|done| Put {
        version: (bucket.settings.versioning == Versioning::Enabled).then_some(done.version),
        etag: done.etag,
        checksum: done.checksum,
        expiry: None,
    }))
}

/// The listed parts of an upload, in order; the others are garbage.
fn choose(
    bucket: &mut Bucket<'_>,
    upload: u128,
    listed: &[ListedPart],
) -> Result<Vec<(u32, Part)>, Error> {
    let range = bucket.keys.parts_from(upload, 0);
    let mut chosen = Vec::with_capacity(listed.len());
    let mut listed = listed.iter().peekable();
    for (key, row) in bucket.scan(&range, usize::MAX)? {
        let (number, part) = (part_of(&key)?, decode::<Part>(row)?);
        match listed.peek() {
            Some(it) if it.number < number => break,
            Some(it) if it.number == number => {
                let checksum = part.checksum.as_ref().map(|it| &it.value);
                let is_other = it.checksum.is_some() && it.checksum.as_ref() != checksum;
                if it.etag != part.etag || is_other {
                    break;
                }
                chosen.push((number, part));
                listed.next();
            }
            _ if bucket.has(Guard::S3Unlisted) => {
                bucket.retire(part.source);
                bucket.remove(key);
            }
            _ => bucket.remove(key),
        }
    }
    match listed.next() {
        None => Ok(chosen),
        Some(_) => Err(Error::of(Code::InvalidPart)),
    }
}

fn check_sizes(
    chosen: &[(u32, Part)],
    declared: Option<u64>,
    limits: &Limits,
) -> Result<u64, Error> {
    let sizes: Vec<u64> = chosen.iter().map(|(_, part)| part.size).collect();
    let [others @ .., _] = &*sizes else {
        return Err(Error::of(Code::MalformedXML));
    };
    if others.iter().any(|size| *size < limits.part_bytes_min) {
        return Err(Error::of(Code::EntityTooSmall));
    }
    let size = sizes.iter().sum();
    if limits.object_bytes < size {
        return Err(Error::of(Code::EntityTooLarge));
    }
    match declared.is_none_or(|declared| declared == size) {
        true => Ok(size),
        false => Err(Error::new(
            Code::InvalidRequest,
            "The size of the object is not the one that x-amz-mp-object-size declares",
        )),
    }
}

/// The MD5 of the MD5s of the parts, and how many there are.
fn etag(chosen: &[(u32, Part)]) -> String {
    let mut sum = Md5State::new();
    for (_, part) in chosen {
        sum.update(&bytes_of(&part.etag));
    }
    format!("{}-{}", const_hex::encode(sum.finalize()), chosen.len())
}

/// The bytes of hexadecimal digits; of what is none its own.
fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs
        .collect::<Option<Vec<u8>>>()
        .unwrap_or_else(|| hex.as_bytes().to_vec())
}

fn marks(chosen: &[(u32, Part)]) -> Vec<(u32, u64)> {
    let mut at = 0;
    let mut marks = Vec::new();
    for (place, (number, part)) in chosen.iter().enumerate() {
        if place.is_multiple_of(MARKED) {
            marks.push((*number, at));
        }
        at += part.size;
    }
    marks
}

/// Aborts an open upload: its parts are garbage.
pub(crate) fn abort(asked: Asked<'_>, command: &OneUpload) -> Decided {
    let mut bucket = Bucket::named(asked)?;
    let upload = open(&bucket, command);
    check_upload(
        &bucket,
        asked,
        Action::AbortMultipartUpload,
        &command.key,
        &upload,
    )?;
    if bucket.has(Guard::S3UploadOpen) {
        upload?;
    }
    discard(&mut bucket, &command.key, command.upload);
    Ok((Reply::Done, bucket.finish()))
}

/// Makes an open upload garbage.
pub(crate) fn discard(bucket: &mut Bucket<'_>, key: &str, upload: u128) {
    bucket.remove(bucket.keys.upload(key, upload));
    bucket.mark(bucket.keys.garbage(GarbageId::Upload(upload)));
}

/// A page of the parts of an open upload.
pub(crate) fn list(asked: Asked<'_>, command: &ListParts) -> Result<Reply, Error> {
    let bucket = Bucket::named(asked)?;
    let upload = open(&bucket, &command.of);
    let action = Action::ListMultipartUploadParts;
    check_upload(&bucket, asked, action, &command.of.key, &upload)?;
    let mut upload = upload?;
    let most = asked.context.limits.page_entries;
    let count = command.count.unwrap_or(most).min(most);
    let range = bucket
        .keys
        .parts_from(command.of.upload, command.after.saturating_add(1));
    let mut rows = bucket.scan(&range, count + 1)?;
    let has_more = count < rows.len();
    rows.truncate(count);
    let mut parts = Vec::with_capacity(rows.len());
    for (key, row) in rows {
        parts.push((part_of(&key)?, decode(row)?));
    }
    let last = parts.last().map(|(number, _)| *number);
    let next = last.filter(|_| has_more);
    show_upload(&bucket.settings, &mut upload);
    Ok(Reply::Parts(Box::new(Parts {
        upload,
        parts,
        next,
    })))
}
