//! Fences, the note and garbage: how the blocks of no version go, and no other block.
//!
//! ```text
//! head of a block's chain ── lease over ──▶ Fence ──▶ NoAnswer | Kept | Fenced ──▶ row may go
//!                                  mixed ──▶ closed ── safe point, barrier ──▶ EndAttempt
//! head of the bucket's chain ── 15 minutes ──▶ rows of garbage's blocks go ──▶ DropGarbage
//! ```
//!
//! Invariants:
//! - SB-2 a commit and a fence name the bucket by its id.
//! - SB-4 a block that is garbage is neither kept nor fenced: its garbage row removes it.
//! - SB-5 a fence ends when the note passes the `begun` of its attempt, which is refused since.
//! - SE-5 where members may hold eventual puts a fence closes the attempt, and no more. When all
//!   is settled that they held, the entry that finds no name takes the row of the block away.
//!
//! Deliberately absent: clocks of leases and of the wait, the safe point and the barrier, which are
//! the node's.

use fader_chain::{Change, EntryId, Guard, ModeState};

use crate::key::KeyRange;
use crate::s3::Decided;
use crate::s3::bucket::{Bucket, Terms};
use crate::s3::command::{DropGarbage, Fence, ListGarbage, MoveNote};
use crate::s3::error::{Code, Error};
use crate::s3::layout::{decode, garbage_of, part_of};
use crate::s3::limits::Limits;
use crate::s3::pieces::attempt_of;
use crate::s3::reply::{Fenced, Garbage, Reply};
use crate::s3::rows::{Attempt, Block, Content, GarbageId, Part};
use crate::service::Context;
use crate::{CollectionId, View, ViewError, blocks};

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

/// Decides what is to happen to a block whose lease is over, where no member holds an eventual put
/// of blocks: below [`Version::NINTH`](fader_chain::Version::NINTH).
pub(crate) fn fence(view: &dyn View, context: &Context<'_, Limits>, fence: &Fence) -> Decided {
    Ok(match named(view, context, fence)? {
        Ok(bucket) => (Reply::Fenced(Fenced::Fenced), marked(bucket, fence)?),
        Err(fate) => (Reply::Fenced(fate), Vec::new()),
    })
}

/// Decides it where members may hold such puts (SE-5).
pub(crate) fn close(view: &dyn View, context: &Context<'_, Limits>, fence: &Fence) -> Decided {
    let bucket = match named(view, context, fence)? {
        Ok(bucket) => bucket,
        Err(fate) => return Ok((Reply::Fenced(fate), Vec::new())),
    };
    let is_closed = may_be_held(&bucket, fence)?;
    let mut changes = marked(bucket, fence)?;
    if !is_closed {
        return Ok((Reply::Fenced(Fenced::Fenced), changes));
    }
    changes.extend(blocks::closed(view, context.now_ms, fence.block)?);
    Ok((Reply::Fenced(Fenced::NoAnswer), changes))
}

/// No put of the attempt is taken any more.
fn marked(mut bucket: Bucket<'_>, fence: &Fence) -> Result<Vec<Change>, ViewError> {
    let attempt = &fence.owner.attempt;
    if !is_behind(&bucket, attempt)? && !bucket.settings.is_deleted {
        bucket.mark(bucket.keys.fence(attempt.begun, attempt.id));
    }
    Ok(bucket.finish())
}

/// Decides it of a block of a closed attempt, when all is settled that members held.
pub(crate) fn end_attempt(view: &dyn View, context: &Context<'_, Limits>, end: &Fence) -> Decided {
    let bucket = match named(view, context, end)? {
        Ok(bucket) => bucket,
        Err(fate) => return Ok((Reply::Fenced(fate), Vec::new())),
    };
    if !is_closed(&bucket, &end.owner.attempt)? {
        return Ok((Reply::Fenced(Fenced::NoAnswer), Vec::new()));
    }
    Ok((Reply::Done, blocks::removed(view, end.block)?))
}

/// The bucket of a block that nothing in it names, or what becomes of the block.
fn named<'a>(
    view: &'a dyn View,
    context: &Context<'a, Limits>,
    fence: &Fence,
) -> Result<Result<Bucket<'a>, Fenced>, ViewError> {
    let owner = &fence.owner;
    let bucket = open(view, context, owner.collection)?;
    let Some(bucket) = bucket.filter(|bucket| bucket.is_of(owner.attempt.bucket)) else {
        return Ok(Err(Fenced::Fenced));
    };
    let content = bucket.content(owner.attempt.id)?;
    if content.is_some_and(|content| content.names(fence.block)) {
        if !is_garbage(&bucket, fence)? {
            return Ok(Err(Fenced::Kept));
        }
        if bucket.has(Guard::S3FenceGarbage) {
            return Ok(Err(Fenced::NoAnswer));
        }
    }
    Ok(Ok(bucket))
}

fn is_behind(bucket: &Bucket<'_>, attempt: &Attempt) -> Result<bool, ViewError> {
    let note: Option<EntryId> = bucket.row(&bucket.keys.note())?;
    Ok(note.is_some_and(|note| attempt.begun <= note))
}

/// Whether an attempt is fenced, or too old to be known as fenced: no put of it is taken any more.
pub(crate) fn is_closed(bucket: &Bucket<'_>, attempt: &Attempt) -> Result<bool, ViewError> {
    let fence = bucket.keys.fence(attempt.begun, attempt.id);
    Ok(is_behind(bucket, attempt)? || bucket.has_row(&fence)?)
}

/// Whether members may hold an eventual put of an attempt (SE-5).
fn may_be_held(bucket: &Bucket<'_>, fence: &Fence) -> Result<bool, ViewError> {
    if fence.owner.upload.is_some() || bucket.settings.is_deleted {
        return Ok(false);
    }
    let standing = ModeState::of(bucket.terms.view, fence.owner.collection.0)?;
    Ok(standing.mode.settles_eventual() && bucket.has(Guard::S3Close))
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
