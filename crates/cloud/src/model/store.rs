//! The state of modelled objects: versions by key, so that stale reads have something to show.
//!
//! Invariants:
//! - MSTORE-1 a put, a deletion and a condition are decided on the newest version, at one moment.
//! - MSTORE-2 a read of age `a` shows the version that was the newest `a` ago.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use object_store::path::Path;
use object_store::{Attributes, Error, GetRange, ObjectMeta, PutMode, Result};

use super::profile::{ETags, RateLimit};

/// Objects with their late past.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// The versions of each key, oldest first; a deletion is a version without an object.
    objects: BTreeMap<String, Vec<Version>>,
    writes: u64,
    uploads: u64,
    limits: BTreeMap<String, Bucket>,
}

#[derive(Clone, Debug)]
struct Version {
    /// True time since the beginning.
    at: Duration,
    object: Option<Object>,
}

/// An object as it was put.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) body: Bytes,
    pub(super) attributes: Attributes,
    e_tag: String,
    last_modified: DateTime<Utc>,
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Duration,
}

/// A moment by the true clock and by the store's wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Duration,
    pub(super) wall: Duration,
    /// The greatest age of a read.
    pub(super) age_max: Duration,
}

impl Object {
    pub(super) fn meta(&self, key: &str) -> ObjectMeta {
        ObjectMeta {
            location: Path::from(key),
            last_modified: self.last_modified,
            size: self.body.len() as u64,
            e_tag: Some(self.e_tag.clone()),
            version: None,
        }
    }

    /// The part of the body that a range names.
    pub(super) fn part(&self, range: Option<&GetRange>) -> Option<Range<u64>> {
        let size = self.body.len() as u64;
        match range {
            None => Some(0..size),
            Some(GetRange::Bounded(range)) if range.start < size && range.start < range.end => {
                Some(range.start..range.end.min(size))
            }
            Some(GetRange::Offset(start)) if *start < size => Some(*start..size),
            Some(GetRange::Suffix(count)) => Some(size.saturating_sub(*count)..size),
            Some(_) => None,
        }
    }
}

impl Store {
    /// The object as it was this long ago.
    pub(super) fn get(&self, key: &str, now: Duration, age: Duration) -> Option<&Object> {
        let shown = now.saturating_sub(age);
        let versions = self.objects.get(key)?.iter().rev();
        let version = versions.into_iter().find(|version| version.at <= shown);
        version?.object.as_ref()
    }

    /// Puts an object on a condition; its ETag.
    pub(super) fn put(
        &mut self,
        key: &str,
        body: Bytes,
        attributes: Attributes,
        mode: &PutMode,
        moment: Moment,
        e_tags: ETags,
    ) -> Result<String> {
        let newest = self.get(key, moment.now, Duration::ZERO);
        match mode {
            PutMode::Create if newest.is_some() => {
                return Err(Error::AlreadyExists {
                    path: key.to_owned(),
                    source: "it exists".into(),
                });
            }
            PutMode::Update(version) => {
                let expected = version.e_tag.as_deref();
                let found = newest.map(|object| object.e_tag.as_str());
                if expected.is_none() || found != expected {
                    let source = format!("its ETag is {found:?}, not {expected:?}");
                    return Err(Error::Precondition {
                        path: key.to_owned(),
                        source: source.into(),
                    });
                }
            }
            _ => {}
        }
        self.writes += 1;
        let e_tag = match e_tags {
            ETags::OfBytes => format!("\"{:016x}\"", digest(&body)),
            ETags::OfWrites => format!("\"{}\"", self.writes),
        };
        // The header Last-Modified has a grain of a second.
        let seconds = i64::try_from(moment.wall.as_secs()).unwrap_or(i64::MAX);
        let last_modified = DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::UNIX_EPOCH);
        let object = Object {
            body,
            attributes,
            e_tag: e_tag.clone(),
            last_modified,
        };
        self.write(key, Some(object), moment);
        Ok(e_tag)
    }

    /// Deletes an object, if there is one.
    pub(super) fn delete(&mut self, key: &str, moment: Moment) {
        if self.get(key, moment.now, Duration::ZERO).is_some() {
            self.write(key, None, moment);
        }
    }

    /// The keys of at most `max` objects with this prefix and above `after`, each as it was its own
    /// age ago. Also whether there are more.
    pub(super) fn list(
        &self,
        prefix: &str,
        after: &str,
        max: usize,
        now: Duration,
        mut age: impl FnMut() -> Duration,
    ) -> (Vec<ObjectMeta>, bool) {
        let start = if after < prefix { prefix } else { after };
        let keys = self.objects.range(start.to_owned()..);
        let keys = keys.take_while(|(key, _)| key.starts_with(prefix));
        let keys = keys.filter(|(key, _)| key.as_str() > after);
        let mut found = Vec::new();
        for (key, _) in keys {
            let Some(object) = self.get(key, now, age()) else {
                continue;
            };
            if found.len() == max {
                return (found, true);
            }
            found.push(object.meta(key));
        }
        (found, false)
    }

    /// A number for an upload in parts.
    pub(super) fn begin_upload(&mut self) -> u64 {
        self.uploads += 1;
        self.uploads
    }

    /// Takes a token of a limit; whether there was one.
    pub(super) fn admits(&mut self, name: &str, limit: Option<RateLimit>, now: Duration) -> bool {
        let Some(limit) = limit else { return true };
        let (rate, burst) = (f64::from(limit.per_second), f64::from(limit.burst));
        let bucket = self.limits.entry(name.to_owned()).or_insert(Bucket {
            tokens: burst,
            at: now,
        });
        let rest = now.saturating_sub(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + rest * rate).min(burst);
        bucket.at = now;
        let is_admitted = 1.0 <= bucket.tokens;
        if is_admitted {
            bucket.tokens -= 1.0;
        }
        is_admitted
    }

    /// The keys of all objects.
    pub(super) fn keys(&self) -> Vec<String> {
        let newest =
            |versions: &Vec<Version>| versions.last().is_some_and(|last| last.object.is_some());
        let keys = self.objects.iter().filter(|(_, versions)| newest(versions));
        keys.map(|(key, _)| key.clone()).collect()
    }

    fn write(&mut self, key: &str, object: Option<Object>, moment: Moment) {
        let versions = self.objects.entry(key.to_owned()).or_default();
        let version = Version {
            at: moment.now,
            object,
        };
        versions.push(version);
        // The oldest that a read may still show stays.
        let oldest = moment.now.saturating_sub(moment.age_max);
        let shown = versions.iter().rposition(|version| version.at <= oldest);
        versions.drain(..shown.unwrap_or(0));
        if versions.len() == 1 && versions[0].object.is_none() {
            self.objects.remove(key);
        }
    }
}

/// Equal for equal bytes, as an ETag of S3 is: FNV-1a of words of eight bytes.
fn digest(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    let start = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
    bytes.chunks(8).map(word).fold(start, step)
}
