//! The work that buckets have to do later, in bounded steps. Fences behind the note end, deleted
//! buckets end with their garbage, and the lifecycle looks at every row once a day.
//!
//! Nothing ticks: a row in the system collection says when which bucket has something to do.

use bytes::Bytes;
use fader_chain::{Change, EntryId};

use crate::key::KeyRange;
use crate::s3::bucket::{Bucket, Terms};
use crate::s3::error::Error;
use crate::s3::layout::{self, id_of, split_key, text};
use crate::s3::lifecycle;
use crate::s3::multipart::discard;
use crate::sqs::{wire_choice, wire_fields};
use crate::{Direction, Table, ViewError, catalog};

/// How far the upkeep of a bucket is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upkeep {
    /// When it is due, in milliseconds since 1970; 0 when it is not.
    pub(crate) due_ms: u64,
    /// The pass of the lifecycle that is under way.
    pub(crate) pass: Option<Pass>,
    /// When the next pass begins, in milliseconds since 1970.
    pub(crate) next_pass_ms: u64,
}
wire_fields!(Upkeep {
    due_ms,
    pass,
    next_pass_ms,
});

/// The table that a pass looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Current,
    Versions,
    Uploads,
}
wire_choice!(Phase, "a phase of a lifecycle", { 0 => Current, 1 => Versions, 2 => Uploads });

/// A pass of the lifecycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) phase: Phase,
    /// The last row that was looked at; empty before the first.
    pub(crate) last: Bytes,
    /// Of its key, how many versions were seen that are not current.
    pub(crate) rank: u32,
}
wire_fields!(Pass { phase, last, rank });

/// What changes when the first bucket that has work to do at `now_ms` does some of it. It looks at
/// `batch` rows at most, and each changes few. Nothing when there is no work.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn upkeep(terms: Terms<'_>, batch: usize) -> Result<Vec<Change>, ViewError> {
    let KeyRange { start, end } = layout::chores(terms.now_ms);
    let first = terms.view.scan(&start, &end, Direction::Forward).next();
    let Some((chore, _)) = first.transpose()? else {
        return Ok(Vec::new());
    };
    let collection = layout::chore_of(&chore)?;
    let Some(mut bucket) = Bucket::open(terms, collection)? else {
        return Ok(vec![Change::Remove { key: chore }]);
    };
    bucket.remove(chore);
    let key = bucket.keys.upkeep();
    let upkeep: Upkeep = bucket.row(&key)?.unwrap_or_default();
    let upkeep = Upkeep {
        due_ms: 0,
        ..upkeep
    };
    bucket.put(key, &upkeep);
    let left = end_fences(&mut bucket, batch)?;
    if left == 0 {
        bucket.note_chore(terms.now_ms)?;
    } else if bucket.settings.is_deleted {
        return end_bucket(bucket, left);
    } else {
        let next = lifecycle::go_on(&mut bucket, left);
        let next = next.map_err(|error: Error| ViewError::Refused {
            context: error.message,
        })?;
        if let Some(due_ms) = next {
            bucket.note_chore(due_ms)?;
        }
    }
    Ok(bucket.finish())
}

/// Removes fences behind the note, up to `batch`: how many more rows may be looked at.
fn end_fences(bucket: &mut Bucket<'_>, batch: usize) -> Result<usize, ViewError> {
    let Some(note) = bucket.row::<EntryId>(&bucket.keys.note())? else {
        return Ok(batch);
    };
    let rows = bucket.scan(&bucket.keys.fences_behind(note), batch)?;
    let left = batch - rows.len();
    for (key, _) in rows {
        bucket.remove(key);
    }
    Ok(left)
}

/// Makes the open uploads of a deleted bucket rows of garbage, and ends its index when there is no
/// garbage any more.
fn end_bucket(mut bucket: Bucket<'_>, batch: usize) -> Result<Vec<Change>, ViewError> {
    let keys = bucket.keys;
    let now_ms = bucket.terms.now_ms;
    let uploads = bucket.scan(&keys.all(Table::Uploads), batch)?;
    let has_more = uploads.len() == batch;
    for (row, _) in uploads {
        let key = text(&split_key(&row)?.0)?;
        discard(&mut bucket, &key, id_of(&row)?);
    }
    if !has_more && bucket.is_empty(&keys.all_garbage())? {
        let mut changes = bucket.finish();
        changes.extend(catalog::buried(keys.0));
        return Ok(changes);
    }
    let wait_ms = match has_more {
        true => 0,
        false => bucket.terms.limits.garbage_look_ms,
    };
    bucket.note_chore(now_ms + wait_ms)?;
    Ok(bucket.finish())
}
