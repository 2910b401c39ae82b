//! Lists of objects and of uploads, in pages.
//!
//! Invariants:
//! - SS-1 a page reads a row or two for each of its entries. It seeks past each common prefix, and
//!   meets no older version and no delete marker (BLAYOUT-1).

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::key::KeyRange;
use crate::s3::access::Action;
use crate::s3::bucket::{Asked, Bucket, Pair};
use crate::s3::command::List;
use crate::s3::error::{Code, Error};
use crate::s3::layout::{after_prefix, decode, id_of, key_of_current, split_key, text};
use crate::s3::limits::Limits;
use crate::s3::multipart;
use crate::s3::reply::{Entry, Page, Reply};
use crate::s3::rows::State;
use crate::s3::settings::Settings;
use crate::{Direction, View};

/// A page that is being filled.
pub(crate) struct Filling<'a> {
    list: &'a List,
    count: usize,
    settings: &'a Settings,
    page: Page,
}

/// What comes after a row.
pub(crate) enum Next {
    /// The next one.
    Row,
    /// The first one whose key is not below this.
    Seek(Vec<u8>),
    /// Nothing: the page ends.
    End,
}

impl<'a> Filling<'a> {
    pub(crate) fn new(list: &'a List, limits: &Limits, settings: &'a Settings) -> Self {
        let most = limits.page_entries;
        Filling {
            list,
            count: list.count.unwrap_or(most).min(most),
            settings,
            page: Page {
                owner: settings.owner.clone(),
                ..Page::default()
            },
        }
    }

    /// The first key that the page may have.
    pub(crate) fn start(&self) -> Option<Vec<u8>> {
        let Some(after) = &self.list.after else {
            return Some(Vec::new());
        };
        let after = after.as_bytes();
        if self.common(after).is_some_and(|prefix| prefix == after) {
            return after_prefix(after);
        }
        let mut start = after.to_vec();
        if self.list.after_id.is_none() {
            start.push(0x00);
        }
        Some(start)
    }

    /// The prefix that a key has in common with others.
    fn common<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let delimiter = self.list.delimiter.as_bytes();
        let rest = key.strip_prefix(self.list.prefix.as_bytes())?;
        if delimiter.is_empty() {
            return None;
        }
        let mut places = rest.windows(delimiter.len());
        let at = places.position(|place| place == delimiter)?;
        Some(&key[..self.list.prefix.len() + at + delimiter.len()])
    }

    /// Adds the entry of a row, or the common prefix of its key.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        entry: impl FnOnce(String) -> Result<Entry, Error>,
    ) -> Result<Next, Error> {
        if self.page.entries.len() == self.count {
            self.page.next = self.page.entries.last().map(next);
            return Ok(Next::End);
        }
        let Some(prefix) = self.common(key) else {
            let mut entry = entry(text(key)?)?;
            match &mut entry {
                Entry::Version { version, .. } => {
                    if let State::Object(object) = &mut version.state {
                        self.settings.show(object);
                    }
                }
                Entry::Upload { upload, .. } => multipart::show_upload(self.settings, upload),
                Entry::Prefix(_) => {}
            }
            self.page.entries.push(entry);
            return Ok(Next::Row);
        };
        self.page.entries.push(Entry::Prefix(text(prefix)?));
        Ok(after_prefix(prefix).map_or(Next::End, Next::Seek))
    }

    pub(crate) fn done(self) -> Reply {
        Reply::Page(self.page)
    }

    /// Adds the entries of one table. `range` gives the rows from a key on.
    fn fill(
        &mut self,
        view: &dyn View,
        first: Option<KeyRange>,
        range: impl Fn(&[u8]) -> KeyRange,
        mut row: impl FnMut(&mut Self, Pair) -> Result<Next, Error>,
    ) -> Result<(), Error> {
        let mut rows = match (first, self.start()) {
            (Some(first), _) => first,
            (None, Some(start)) => range(&start),
            (None, None) => return Ok(()),
        };
        while let ControlFlow::Continue(from) = self.fill_from(view, &rows, &mut row)? {
            rows = range(&from);
        }
        Ok(())
    }

    fn fill_from(
        &mut self,
        view: &dyn View,
        rows: &KeyRange,
        row: &mut impl FnMut(&mut Self, Pair) -> Result<Next, Error>,
    ) -> Result<ControlFlow<(), Vec<u8>>, Error> {
        for pair in view.scan(&rows.start, &rows.end, Direction::Forward) {
            match row(self, pair?)? {
                Next::Row => {}
                Next::Seek(from) => return Ok(ControlFlow::Continue(from)),
                Next::End => break,
            }
        }
        Ok(ControlFlow::Break(()))
    }
}

/// Where the page after this entry begins.
fn next(entry: &Entry) -> (String, Option<String>) {
    let id = match entry {
        Entry::Prefix(_) => None,
        // The id of the null version says nothing of its place.
        Entry::Version { version, .. } => Some(format!("{:016x}{:016x}", version.number, 0)),
        Entry::Upload { id, .. } => Some(show_upload(*id)),
    };
    (entry.name().to_owned(), id)
}

/// The id of an upload as clients have it.
pub fn show_upload(id: u128) -> String {
    format!("{id:032x}")
}

/// The upload that a client means, if it is one.
pub fn read_upload(text: &str) -> Option<u128> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_id = text.len() == 32 && text.bytes().all(is_hex);
    is_id.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// A page of current objects.
pub(crate) fn objects(asked: Asked<'_>, list: &List) -> Result<Reply, Error> {
    let bucket = Bucket::of(asked, Action::ListBucket)?;
    let keys = bucket.keys;
    // Of a key there is one object: a page begins after the key, not after a version.
    let list = &List {
        after_id: None,
        ..list.clone()
    };
    let mut page = Filling::new(list, asked.context.limits, &bucket.settings);
    let range = |from: &[u8]| keys.current_from(list.prefix.as_bytes(), from);
    page.fill(asked.view, None, range, |page, (key, row)| {
        page.add(key_of_current(&key)?, |key| {
            Ok(Entry::Version {
                key,
                version: decode(row)?,
                is_latest: true,
            })
        })
    })?;
    Ok(page.done())
}

/// A page of open uploads, by key and id.
pub(crate) fn uploads(asked: Asked<'_>, list: &List) -> Result<Reply, Error> {
    let bucket = Bucket::of(asked, Action::ListBucketMultipartUploads)?;
    let keys = bucket.keys;
    let mut page = Filling::new(list, asked.context.limits, &bucket.settings);
    let range = |from: &[u8]| keys.uploads_from(list.prefix.as_bytes(), from);
    let first = match (&list.after, &list.after_id) {
        (Some(key), Some(id)) => {
            let id = read_upload(id).ok_or_else(|| Error::of(Code::InvalidArgument))?;
            let all = range(b"");
            let after = [&*keys.upload(key, id), &[0x00]].concat();
            Some(KeyRange {
                start: all.start.max(Bytes::from(after)),
                end: all.end,
            })
        }
        _ => None,
    };
    page.fill(asked.view, first, range, |page, (row, value)| {
        let (key, _) = split_key(&row)?;
        let id = id_of(&row)?;
        page.add(&key, |key| {
            Ok(Entry::Upload {
                key,
                id,
                upload: decode(value)?,
            })
        })
    })?;
    Ok(page.done())
}
