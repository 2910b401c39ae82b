//! Lists of versions, in pages: current objects and other versions, merged by key.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::key::KeyRange;
use crate::s3::access::Action;
use crate::s3::bucket::{Asked, Bucket, Pair};
use crate::s3::command::List;
use crate::s3::error::{Code, Error};
use crate::s3::layout::{decode, key_of_current, split_key};
use crate::s3::list::{Filling, Next};
use crate::s3::reply::{Entry, Reply};
use crate::s3::rows::{Version, VersionId};
use crate::{Direction, Scan, View, ViewError};

/// Rows of both tables, in the order of their keys: of one key the current object comes first.
struct Merged<'a> {
    current: Scan<'a>,
    others: Scan<'a>,
    next_current: Option<(Vec<u8>, Bytes)>,
    next_other: Option<(Vec<u8>, Bytes)>,
}

impl<'a> Merged<'a> {
    fn new(view: &'a dyn View, current: &KeyRange, others: &KeyRange) -> Result<Self, ViewError> {
        let scan = |range: &KeyRange| view.scan(&range.start, &range.end, Direction::Forward);
        let mut merged = Merged {
            current: scan(current),
            others: scan(others),
            next_current: None,
            next_other: None,
        };
        merged.next_current = merged.read_current()?;
        merged.next_other = merged.read_other()?;
        Ok(merged)
    }

    fn read_current(&mut self) -> Result<Option<(Vec<u8>, Bytes)>, ViewError> {
        let read = |(key, row): Pair| Ok((key_of_current(&key)?.to_vec(), row));
        self.current.next().transpose()?.map(read).transpose()
    }

    fn read_other(&mut self) -> Result<Option<(Vec<u8>, Bytes)>, ViewError> {
        let read = |(key, row): Pair| Ok((split_key(&key)?.0, row));
        self.others.next().transpose()?.map(read).transpose()
    }

    /// The next row, and whether it is a current object.
    fn next(&mut self) -> Result<Option<(Vec<u8>, Bytes, bool)>, ViewError> {
        let order = match (&self.next_current, &self.next_other) {
            (Some((current, _)), Some((other, _))) => current.cmp(other),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let is_current = order != Ordering::Greater;
        let next = match is_current {
            true => self.read_current()?,
            false => self.read_other()?,
        };
        let place = match is_current {
            true => &mut self.next_current,
            false => &mut self.next_other,
        };
        let found = std::mem::replace(place, next);
        Ok(found.map(|(key, row)| (key, row, is_current)))
    }
}

/// A page of versions, the newest of each key first.
pub(crate) fn list(asked: Asked<'_>, list: &List) -> Result<Reply, Error> {
    let bucket = Bucket::of(asked, Action::ListBucketVersions)?;
    let mut page = Filling::new(list, asked.context.limits, &bucket.settings);
    let Some((mut current, mut others)) = first(&bucket, list, page.start())? else {
        return Ok(page.done());
    };
    // The key whose newest version is known not to come any more.
    let mut seen: Option<Vec<u8>> = None;
    let mut is_resumed = list.after_id.is_some();
    'seek: loop {
        let mut rows = Merged::new(asked.view, &current, &others)?;
        while let Some((key, row, is_current)) = rows.next()? {
            let is_first = seen.as_ref() != Some(&key);
            let next = page.add(&key, |key| {
                let version: Version = decode(row)?;
                let mut is_latest = is_current || is_first;
                if is_resumed && !is_current && is_first {
                    is_latest = is_newest(&bucket, &key, &version)?;
                }
                Ok(Entry::Version {
                    key,
                    version,
                    is_latest,
                })
            })?;
            is_resumed = false;
            seen = Some(key);
            match next {
                Next::Row => {}
                Next::Seek(from) => {
                    (current, others) = ranges(&bucket, list, &from);
                    continue 'seek;
                }
                Next::End => break 'seek,
            }
        }
        break;
    }
    Ok(page.done())
}

fn ranges(bucket: &Bucket<'_>, list: &List, from: &[u8]) -> (KeyRange, KeyRange) {
    let prefix = list.prefix.as_bytes();
    (
        bucket.keys.current_from(prefix, from),
        bucket.keys.versions_from(prefix, from),
    )
}

/// The first rows of a page; nothing when none can be.
fn first(
    bucket: &Bucket<'_>,
    list: &List,
    start: Option<Vec<u8>>,
) -> Result<Option<(KeyRange, KeyRange)>, Error> {
    let Some(start) = start else {
        return Ok(None);
    };
    let (Some(key), Some(id)) = (&list.after, &list.after_id) else {
        return Ok(Some(ranges(bucket, list, &start)));
    };
    let after_key = [key.as_bytes(), &[0x00]].concat();
    let (current, mut others) = ranges(bucket, list, &after_key);
    let id: VersionId = id.parse().map_err(|_| Error::of(Code::InvalidArgument))?;
    let number = match id {
        VersionId::Named((number, _)) => Some(number),
        VersionId::Null => bucket.version(key, id)?.map(|(found, _)| found.number),
    };
    if let Some(number) = number
        && key.starts_with(&list.prefix)
    {
        let after = [&*bucket.keys.version(key, number), &[0x00]].concat();
        others.start = Bytes::from(after);
    }
    Ok(Some((current, others)))
}

fn is_newest(bucket: &Bucket<'_>, key: &str, version: &Version) -> Result<bool, ViewError> {
    if bucket.current(key)?.is_some() {
        return Ok(false);
    }
    let newest = bucket.newest(key)?;
    Ok(newest.is_some_and(|newest| newest.number == version.number))
}
