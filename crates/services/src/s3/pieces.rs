//! Where the bytes of an object are: some pieces of it, from a byte on.

use crate::s3::bucket::Bucket;
use crate::s3::command::Extent;
use crate::s3::error::{Code, Error};
use crate::s3::layout::{decode, part_of};
use crate::s3::reply::{Piece, Pieces};
use crate::s3::rows::{Checksum, CompletedUpload, Content, Object, Part, Source};
use crate::{Inconsistency, ViewError};

/// Of so many parts one is marked with where it begins ([`CompletedUpload::marks`]).
pub(crate) const MARKED: usize = 64;

/// The pieces that are asked for.
pub(crate) fn find(bucket: &Bucket<'_>, object: &Object, extent: Extent) -> Result<Pieces, Error> {
    let mut sum = None;
    let (part, from) = match extent {
        Extent::Nothing => return Ok(Pieces::default()),
        Extent::From(from) => (None, from),
        Extent::Parts(after, count) => return parts(bucket, object, after, count),
        Extent::Part(number, from) => {
            let (found, its) = part(bucket, object, number)?;
            sum = its;
            (Some(found), found.0.saturating_add(from))
        }
    };
    let end = part.map_or(object.size, |(start, size)| start + size);
    let mut found = Gathered {
        pieces: Pieces {
            part,
            sum,
            ..Pieces::default()
        },
        from,
        end,
        left: bucket.terms.limits.read_blocks.max(1),
    };
    if from < end {
        match object.source {
            Source::Inline(attempt) | Source::Blocks(attempt) => {
                found.add(bucket, attempt, 0)?;
            }
            Source::Upload(upload) => found.add_parts(bucket, upload)?,
        }
    }
    Ok(found.pieces)
}

/// Where a part begins and its bytes, and its checksum.
type Placed = ((u64, u64), Option<Checksum>);

struct Gathered {
    pieces: Pieces,
    /// The first byte that is wanted.
    from: u64,
    /// Where the wanted bytes end.
    end: u64,
    /// How many pieces may still be added.
    left: usize,
}

impl Gathered {
    /// Adds the pieces of an attempt whose bytes begin at `at`; whether more are wanted.
    fn add(&mut self, bucket: &Bucket<'_>, attempt: u128, mut at: u64) -> Result<bool, ViewError> {
        let content = bucket.content(attempt)?;
        let lost = || ViewError::from(Inconsistency::ContentMissing);
        let all = match content.ok_or_else(lost)? {
            Content::Inline(bytes) => vec![Piece::Inline(bytes)],
            Content::Blocks(blocks) => blocks.into_iter().map(Piece::Block).collect(),
        };
        for piece in all {
            let size = piece.size();
            if self.from < at + size {
                if self.end <= at {
                    return Ok(false);
                }
                if self.left == 0 {
                    self.pieces.next = Some(at);
                    return Ok(false);
                }
                if self.pieces.pieces.is_empty() {
                    self.pieces.at = at;
                }
                self.pieces.pieces.push(piece);
                self.left -= 1;
            }
            at += size;
        }
        Ok(true)
    }

    fn add_parts(&mut self, bucket: &Bucket<'_>, upload: u128) -> Result<(), Error> {
        let (number, mut at) = mark(bucket, upload, |_, start| start <= self.from)?;
        let range = bucket.keys.parts_from(upload, number);
        let most = MARKED + self.left + 1;
        let rows = bucket.scan(&range, most)?;
        let is_last = rows.len() < most;
        for (_, row) in rows {
            let part: Part = decode(row)?;
            if self.from < at + part.size && !self.add(bucket, attempt_of(&part), at)? {
                return Ok(());
            }
            at += part.size;
        }
        if !is_last && at < self.end {
            self.pieces.next = Some(at);
        }
        Ok(())
    }
}

/// The attempt that stored a part.
pub(crate) fn attempt_of(part: &Part) -> u128 {
    let (Source::Inline(id) | Source::Blocks(id) | Source::Upload(id)) = part.source;
    id
}

/// The last marked part of a completed upload for which `is_before` holds.
fn mark(
    bucket: &Bucket<'_>,
    upload: u128,
    is_before: impl Fn(u32, u64) -> bool,
) -> Result<(u32, u64), ViewError> {
    let completed: Option<CompletedUpload> = bucket.row(&bucket.keys.completed(upload))?;
    let lost = || ViewError::from(Inconsistency::UploadMissing);
    let marks = completed.ok_or_else(lost)?.marks;
    let mut before = marks.into_iter().rev();
    let found = before.find(|(number, start)| is_before(*number, *start));
    Ok(found.unwrap_or((1, 0)))
}

/// A page of the parts of an object.
fn parts(bucket: &Bucket<'_>, object: &Object, after: u32, count: u32) -> Result<Pieces, Error> {
    let Source::Upload(upload) = object.source else {
        return Ok(Pieces::default());
    };
    let most = bucket.terms.limits.page_entries;
    let count = usize::try_from(count).unwrap_or(most).min(most);
    let range = bucket.keys.parts_from(upload, after.saturating_add(1));
    let mut rows = bucket.scan(&range, count + 1)?;
    let has_more = count < rows.len();
    rows.truncate(count);
    let mut pieces = Pieces::default();
    for (key, row) in rows {
        pieces.parts.push((part_of(&key)?, decode(row)?));
    }
    let last = pieces.parts.last().map(|(number, _)| *number);
    pieces.next_part = last.filter(|_| has_more);
    Ok(pieces)
}

/// Where a part begins in its object and its bytes, and its checksum.
fn part(bucket: &Bucket<'_>, object: &Object, number: u32) -> Result<Placed, Error> {
    let missing = || Error::of(Code::InvalidPartNumber);
    let Source::Upload(upload) = object.source else {
        return match number {
            1 => Ok(((0, object.size), object.checksum.clone())),
            _ => Err(missing()),
        };
    };
    let (from, mut at) = mark(bucket, upload, |marked, _| marked <= number)?;
    let range = bucket.keys.parts_from(upload, from);
    for (key, row) in bucket.scan(&range, MARKED + 1)? {
        let part: Part = decode(row)?;
        match part_of(&key)? {
            found if found == number => return Ok(((at, part.size), part.checksum)),
            found if number < found => break,
            _ => at += part.size,
        }
    }
    Err(missing())
}
