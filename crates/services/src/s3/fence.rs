//! Fences, the note and garbage: how the blocks of no version go, and no other block.
//!
//! ```text
//! head of a block's chain ── lease over ──▶ Fence ──▶ NoAnswer | Kept | Fenced ──▶ row may go
//! head of the bucket's chain ── 15 minutes ──▶ rows of garbage's blocks go ──▶ DropGarbage
//! ```
//!
//! Invariants:
//! - SB-2 a commit and a fence name the bucket by its id.
//! - SB-4 a block that is garbage is neither kept nor fenced: its garbage row removes it.
//! - SB-5 a fence ends when the note passes the `begun` of its attempt, which is refused since.
//!
//! Deliberately absent: clocks of leases and of the wait, which are the node's; eventual puts of
//! blocks, with closing rows.

use fader_chain::{EntryId, Guard};

use crate::key::KeyRange;
use crate::s3::Decided;
use crate::s3::bucket::{Bucket, Terms};
use crate::s3::command::{DropGarbage, Fence, ListGarbage, MoveNote};
use crate::s3::error::{Code, Error};
use crate::s3::layout::{decode, garbage_of, part_of};
use crate::s3::limits::Limits;
use crate::s3::pieces::attempt_of;
use crate::s3::reply::{Fenced, Garbage, Reply};
use crate::s3::rows::{Block, Content, GarbageId, Part};
use crate::service::Context;
use crate::{CollectionId, View, ViewError};

/// Parts of an upload whose blocks one reply names.
const PARTS: usize = 16;

/// Blocks, with the number of their part.
pub(crate) type Numbered = (Option<u32>, Vec<Block>);

fn open<'a>(
    view: &'a dyn View,
    context: &Context<'a, Limits>,
    collection: CollectionId,
) -> Result<Option<Bucket<'a>>, ViewError> {
    Bucket::open(Terms::new(view, context), collection)
}

/// Decides what is to happen to a block whose lease is over.
pub(crate) fn fence(view: &dyn View, context: &Context<'_, Limits>, fence: &Fence) -> Decided {
    let owner = &fence.owner;
    let done = |fenced| Ok((Reply::Fenced(fenced), Vec::new()));
    let Some(mut bucket) = open(view, context, owner.collection)? else {
        return done(Fenced::Fenced);
    };
    if !bucket.is_of(owner.attempt.bucket) {
        return done(Fenced::Fenced);
    }
    let content = bucket.content(owner.attempt.id)?;
    if content.is_some_and(|content| content.names(fence.block)) {
        let is_garbage = is_garbage(&bucket, fence)?;
        if !is_garbage {
            return done(Fenced::Kept);
        }
        if bucket.has(Guard::S3FenceGarbage) {
            return done(Fenced::NoAnswer);
        }
    }
    let note: Option<EntryId> = bucket.row(&bucket.keys.note())?;
    let is_behind = note.is_some_and(|note| owner.attempt.begun <= note);
    if !is_behind && !bucket.settings.is_deleted {
        bucket.mark(bucket.keys.fence(owner.attempt.begun, owner.attempt.id));
    }
    Ok((Reply::Fenced(Fenced::Fenced), bucket.finish()))
}

fn is_garbage(bucket: &Bucket<'_>, fence: &Fence) -> Result<bool, ViewError> {
    let attempt = GarbageId::Attempt(fence.owner.attempt.id);
    if bucket.settings.is_deleted || bucket.has_row(&bucket.keys.garbage(attempt))? {
        return Ok(true);
    }
    match fence.owner.upload {
        Some(upload) => bucket.has_row(&bucket.keys.garbage(GarbageId::Upload(upload))),
        None => Ok(false),
    }
}

/// Moves the note. The fences behind it go in bounded steps.
pub(crate) fn move_note(
    view: &dyn View,
    context: &Context<'_, Limits>,
    command: &MoveNote,
) -> Decided {
    let Some(mut bucket) = open(view, context, command.collection)? else {
        return Ok((Reply::Done, Vec::new()));
    };
    let key = bucket.keys.note();
    let note: Option<EntryId> = bucket.row(&key)?;
    if note.is_some_and(|note| command.note <= note) {
        return Ok((Reply::Done, Vec::new()));
    }
    bucket.put(key, &command.note);
    bucket.note_chore(context.now_ms)?;
    Ok((Reply::Done, bucket.finish()))
}

/// A page of garbage, of a deleted bucket too.
pub(crate) fn list(
    view: &dyn View,
    context: &Context<'_, Limits>,
    command: &ListGarbage,
) -> Result<Reply, Error> {
    let Some(bucket) = open(view, context, command.collection)? else {
        return Ok(Reply::Garbage(Vec::new()));
    };
    let KeyRange { mut start, end } = bucket.keys.all_garbage();
    if let Some(after) = command.after {
        start = [&*bucket.keys.garbage(after), &[0x00]].concat().into();
    }
    let count = command.count.min(context.limits.page_entries);
    let mut all = Vec::new();
    for (key, _) in bucket.scan(&KeyRange { start, end }, count)? {
        let (_, id) = garbage_of(&key)?;
        let blocks = blocks_of(&bucket, id)?;
        all.push(Garbage { id, blocks });
    }
    Ok(Reply::Garbage(all))
}

/// The blocks of garbage; of an upload those of some of its parts.
pub(crate) fn blocks_of(bucket: &Bucket<'_>, id: GarbageId) -> Result<Vec<Numbered>, ViewError> {
    match id {
        GarbageId::Attempt(attempt) => Ok(vec![(None, blocks(bucket, attempt)?)]),
        GarbageId::Upload(upload) => parts(bucket, upload),
    }
}

fn blocks(bucket: &Bucket<'_>, attempt: u128) -> Result<Vec<Block>, ViewError> {
    Ok(match bucket.content(attempt)? {
        Some(Content::Blocks(blocks)) => blocks,
        Some(Content::Inline(_)) | None => Vec::new(),
    })
}

fn parts(bucket: &Bucket<'_>, upload: u128) -> Result<Vec<Numbered>, ViewError> {
    let rows = bucket.scan(&bucket.keys.parts_from(upload, 0), PARTS)?;
    let read = rows.into_iter().map(|(key, row)| {
        let part: Part = decode(row)?;
        Ok((Some(part_of(&key)?), blocks(bucket, attempt_of(&part))?))
    });
    read.collect()
}

/// Forgets garbage whose blocks are gone: its own row goes last.
pub(crate) fn drop_garbage(
    view: &dyn View,
    context: &Context<'_, Limits>,
    command: &DropGarbage,
) -> Decided {
    let none = Ok((Reply::Done, Vec::new()));
    let Some(mut bucket) = open(view, context, command.collection)? else {
        return none;
    };
    let row = bucket.keys.garbage(command.garbage);
    if bucket.settings.id != command.bucket || !bucket.has_row(&row)? {
        return none;
    }
    if context.limits.page_entries < command.parts.len() {
        return Err(Error::of(Code::InvalidArgument));
    }
    match command.garbage {
        GarbageId::Attempt(attempt) => {
            bucket.remove(bucket.keys.content(attempt));
            bucket.remove(row);
        }
        GarbageId::Upload(upload) => {
            for number in &command.parts {
                let key = bucket.keys.part(upload, *number);
                if let Some(part) = bucket.row::<Part>(&key)? {
                    bucket.remove(bucket.keys.content(attempt_of(&part)));
                    bucket.remove(key);
                }
            }
            if bucket.is_empty(&bucket.keys.parts_from(upload, 0))? {
                bucket.remove(row);
            }
        }
    }
    Ok((Reply::Done, bucket.finish()))
}
