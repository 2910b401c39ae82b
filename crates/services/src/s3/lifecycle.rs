//! The lifecycle: a pass over all rows of a bucket, once a day, deletes what its rules say.
//!
//! Invariants:
//! - SX-1 a rule deletes as a client does. A delete marker comes where versions are kept, and the
//!   blocks go into the garbage of the same entry.

use bytes::Bytes;

use crate::key::KeyRange;
use crate::s3::bucket::{Bucket, Pair};
use crate::s3::error::Error;
use crate::s3::layout::{decode, id_of, key_of_current, split_key, text};
use crate::s3::limits::Limits;
use crate::s3::multipart::discard;
use crate::s3::objects::{expire, remove};
use crate::s3::reply::Expiry;
use crate::s3::rows::{Object, Upload, Version};
use crate::s3::settings::{Expiration, Filter, LifecycleRule, Settings};
use crate::s3::upkeep::{Pass, Phase, Upkeep};
use crate::{Table, ViewError};

/// Goes on with a pass, or begins one that is due, and looks at up to `batch` rows: when to go on.
pub(crate) fn go_on(bucket: &mut Bucket<'_>, batch: usize) -> Result<Option<u64>, Error> {
    let key = bucket.keys.upkeep();
    let mut upkeep: Upkeep = bucket.row(&key)?.unwrap_or_default();
    let now_ms = bucket.terms.now_ms;
    if bucket.settings.rules().next().is_none() {
        upkeep.pass = None;
        bucket.put(key, &upkeep);
        return Ok(None);
    }
    if upkeep.pass.is_none() && now_ms < upkeep.next_pass_ms {
        return Ok(Some(upkeep.next_pass_ms));
    }
    let mut pass = upkeep.pass.take().unwrap_or_default();
    let due_ms = match look(bucket, &mut pass, batch)? {
        true => {
            let day_ms = bucket.terms.limits.day_ms;
            upkeep.next_pass_ms = (now_ms / day_ms + 1) * day_ms;
            upkeep.next_pass_ms
        }
        false => {
            upkeep.pass = Some(pass);
            now_ms
        }
    };
    bucket.put(key, &upkeep);
    Ok(Some(due_ms))
}

/// Looks at rows; whether that was all.
fn look(bucket: &mut Bucket<'_>, pass: &mut Pass, batch: usize) -> Result<bool, Error> {
    let table = match pass.phase {
        Phase::Current => Table::Current,
        Phase::Versions => Table::Versions,
        Phase::Uploads => Table::Uploads,
    };
    let KeyRange { mut start, end } = bucket.keys.all(table);
    if !pass.last.is_empty() {
        start = [&*pass.last, &[0x00]].concat().into();
    }
    let rows = bucket.scan(&KeyRange { start, end }, batch)?;
    let has_more = rows.len() == batch;
    let rules: Vec<LifecycleRule> = bucket.settings.rules().cloned().collect();
    for (row, value) in rows {
        let pair = (row.clone(), value);
        match pass.phase {
            Phase::Current => look_at_current(bucket, &rules, pair)?,
            Phase::Versions => look_at_version(bucket, &rules, pass, pair)?,
            Phase::Uploads => look_at_upload(bucket, &rules, pair)?,
        }
        pass.last = row;
    }
    if has_more {
        return Ok(false);
    }
    let next = match pass.phase {
        Phase::Current => Phase::Versions,
        Phase::Versions => Phase::Uploads,
        Phase::Uploads => return Ok(true),
    };
    *pass = Pass {
        phase: next,
        ..Pass::default()
    };
    Ok(false)
}

/// The midnight after so many days.
fn end_of(limits: &Limits, since_ms: u64, days: u32) -> u64 {
    let day_ms = limits.day_ms;
    let end_ms = since_ms.saturating_add(u64::from(days) * day_ms);
    end_ms.div_ceil(day_ms).saturating_mul(day_ms)
}

/// Whether so many days are over, up to the next midnight.
fn is_over(bucket: &Bucket<'_>, since_ms: u64, days: u32) -> bool {
    end_of(bucket.terms.limits, since_ms, days) <= bucket.terms.now_ms
}

/// When the first rule ends a current version, if one does. Of a delete marker that is alone it is
/// when the marker goes.
pub(crate) fn expiry(bucket: &Bucket<'_>, key: &str, version: &Version) -> Option<Expiry> {
    first_of(bucket, bucket.settings.rules(), key, version)
}

/// When the first rule aborts an upload that was opened then, if one does.
pub fn abortion(
    settings: &Settings,
    limits: &Limits,
    key: &str,
    initiated_ms: u64,
) -> Option<Expiry> {
    let ends = settings.rules().filter_map(|rule| {
        let at_ms = end_of(limits, initiated_ms, rule.abort_days?);
        has_prefix(rule, key).then_some((at_ms, rule))
    });
    let (at_ms, rule) = ends.min_by_key(|(at_ms, _)| *at_ms)?;
    Some(Expiry {
        at_ms,
        rule: rule.id.clone(),
    })
}

fn first_of<'a>(
    bucket: &Bucket<'_>,
    rules: impl Iterator<Item = &'a LifecycleRule>,
    key: &str,
    version: &Version,
) -> Option<Expiry> {
    let ends = rules.filter_map(|rule| {
        let at_ms = match rule.expiration? {
            Expiration::Days(days) => end_of(bucket.terms.limits, version.modified_ms, days),
            Expiration::Date(at_ms) => at_ms,
            Expiration::Markers => return None,
        };
        let is_meant = has_prefix(rule, key) && is_chosen(&rule.filter, version.object());
        is_meant.then_some((at_ms, rule))
    });
    let (at_ms, rule) = ends.min_by_key(|(at_ms, _)| *at_ms)?;
    Some(Expiry {
        at_ms,
        rule: rule.id.clone(),
    })
}

fn has_prefix(rule: &LifecycleRule, key: &str) -> bool {
    key.starts_with(&rule.filter.prefix)
}

fn is_chosen(filter: &Filter, object: Option<&Object>) -> bool {
    let Some(object) = object else {
        return filter.tags.is_empty() && filter.larger.is_none() && filter.smaller.is_none();
    };
    filter
        .tags
        .iter()
        .all(|tag| object.metadata.tags.contains(tag))
        && filter.larger.is_none_or(|size| size < object.size)
        && filter.smaller.is_none_or(|size| object.size < size)
}

fn look_at_current(
    bucket: &mut Bucket<'_>,
    rules: &[LifecycleRule],
    pair: Pair,
) -> Result<(), Error> {
    let (row, value) = pair;
    let key = text(key_of_current(&row)?)?;
    let version: Version = decode(value)?;
    let first = first_of(bucket, rules.iter(), &key, &version);
    if first.is_some_and(|expiry| expiry.at_ms <= bucket.terms.now_ms) {
        // The id is as random as the one of the version that it takes the place of.
        let seed = marker_seed(&version);
        expire(bucket, &key, Some(version), seed)?;
    }
    Ok(())
}

/// What the id of a delete marker comes from that no client asked for.
fn marker_seed(version: &Version) -> u128 {
    match version.id {
        crate::s3::rows::VersionId::Named((_, random)) => u128::from(random.rotate_left(32)),
        crate::s3::rows::VersionId::Null => u128::from(version.modified_ms),
    }
}

fn look_at_version(
    bucket: &mut Bucket<'_>,
    rules: &[LifecycleRule],
    pass: &mut Pass,
    pair: Pair,
) -> Result<(), Error> {
    let (row, value) = pair;
    let key = text(&split_key(&row)?.0)?;
    let version: Version = decode(value)?;
    if is_other_key(&pass.last, &row)? {
        pass.rank = 0;
    }
    let is_latest = version.noncurrent_ms == 0;
    let is_over = match is_latest {
        true => is_over_marker(bucket, rules, &key, &version)?,
        false => {
            pass.rank += 1;
            rules.iter().any(|rule| {
                let Some((days, kept)) = rule.noncurrent else {
                    return false;
                };
                kept < pass.rank
                    && is_over(bucket, version.noncurrent_ms, days)
                    && has_prefix(rule, &key)
                    && is_chosen(&rule.filter, version.object())
            })
        }
    };
    if is_over {
        remove(bucket, &key, &version, false)?;
    }
    Ok(())
}

fn is_other_key(last: &Bytes, row: &[u8]) -> Result<bool, ViewError> {
    Ok(last.is_empty() || split_key(last)?.0 != split_key(row)?.0)
}

/// Whether a newest version that is a delete marker is alone, and a rule says that it goes. That is
/// at once, or when it is as old as objects that the rule ends.
fn is_over_marker(
    bucket: &Bucket<'_>,
    rules: &[LifecycleRule],
    key: &str,
    version: &Version,
) -> Result<bool, ViewError> {
    let is_asked = |rule: &LifecycleRule| {
        rule.expiration == Some(Expiration::Markers) && has_prefix(rule, key)
    };
    let first = first_of(bucket, rules.iter(), key, version);
    let is_old = first.is_some_and(|expiry| expiry.at_ms <= bucket.terms.now_ms);
    if !is_old && !rules.iter().any(is_asked) {
        return Ok(false);
    }
    Ok(bucket.scan(&bucket.keys.versions(key), 2)?.len() == 1)
}

fn look_at_upload(
    bucket: &mut Bucket<'_>,
    rules: &[LifecycleRule],
    pair: Pair,
) -> Result<(), Error> {
    let (row, value) = pair;
    let key = text(&split_key(&row)?.0)?;
    let upload: Upload = decode(value)?;
    let is_over = rules.iter().any(|rule| {
        let days = rule.abort_days;
        days.is_some_and(|days| is_over(bucket, upload.initiated_ms, days))
            && has_prefix(rule, &key)
    });
    if is_over {
        discard(bucket, &key, id_of(&row)?);
    }
    Ok(())
}
