//! Buckets as a whole: they are created, listed, set and deleted.
//!
//! A bucket is *made* in two parts: its collection (`catalog`), and its settings, which its own
//! chain writes. Between the two it is there for CreateBucket and DeleteBucket only.
//!
//! Invariants:
//! - SB-6 the index of a deleted bucket stays until its garbage is gone. Its open uploads are
//!   garbage from the entry on that deletes it.

use fader_chain::Guard;

use crate::catalog::{self, Name};
use crate::s3::Decided;
use crate::s3::bucket::{Bucket, Terms, settings};
use crate::s3::command::{CreateBucket, ListBuckets, Named, OneSetting, PutSetting};
use crate::s3::error::{Code, Error};
use crate::s3::limits::Limits;
use crate::s3::names;
use crate::s3::reply::{Buckets, Reply};
use crate::s3::rows::BucketId;
use crate::s3::settings::{Acl, Ownership, PublicAccessBlock, Setting, SettingName, Settings};
use crate::s3::upkeep::Upkeep;
use crate::service::Context;
use crate::{Kind, Mode, Table, View};

/// The region in which creating an own bucket again succeeds.
const FIRST_REGION: &str = "us-east-1";

/// Creates a bucket.
pub(crate) fn create(
    view: &dyn View,
    context: &Context<'_, Limits>,
    seed: u128,
    command: &CreateBucket,
) -> Decided {
    names::check(&command.bucket)?;
    let terms = Terms::new(view, context);
    let name = Name::new(Kind::Bucket, context.account, &command.bucket);
    let entry = catalog::collection(view, name)?;
    let owner = catalog::owner(view, name)?;
    if owner.is_some_and(|owner| owner != *context.account) {
        return Err(Error::of(Code::BucketAlreadyExists));
    }
    if let Some(entry) = &entry
        && let Some(settings) = settings(view, entry.collection)?
    {
        return match settings.region == FIRST_REGION && command.region == FIRST_REGION {
            true => Ok((Reply::Bucket(Box::new(settings)), Vec::new())),
            false => Err(Error::of(Code::BucketAlreadyOwnedByYou)),
        };
    }
    let made = Settings {
        id: BucketId(seed),
        name: command.bucket.clone(),
        owner: context.account.0.clone(),
        region: command.region.clone(),
        created_ms: context.now_ms,
        ownership: Some(command.ownership.unwrap_or(Ownership::BucketOwnerEnforced)),
        public_access: Some(PublicAccessBlock::default()),
        ..Settings::default()
    };
    let (collection, mut changes) = match entry {
        Some(entry) => (entry.collection, Vec::new()),
        None => {
            let most = context.limits.buckets_per_account;
            if most <= catalog::count(view, (Kind::Bucket, context.account))? {
                return Err(Error::of(Code::TooManyBuckets));
            }
            catalog::create(view, name, (Mode::Strong, None))?
        }
    };
    changes.extend(Bucket::made(terms, collection, made.clone()).finish());
    Ok((Reply::Bucket(Box::new(made)), changes))
}

/// Deletes a bucket that has no version of any key.
pub(crate) fn delete(view: &dyn View, context: &Context<'_, Limits>, command: &Named) -> Decided {
    let name = Name::new(Kind::Bucket, context.account, &command.bucket);
    let mut bucket = Bucket::of(view, context)?;
    let entry = catalog::collection(view, name)?;
    let entry = entry.ok_or_else(|| Error::of(Code::NoSuchBucket))?;
    let keys = bucket.keys;
    for table in [Table::Current, Table::Versions] {
        if !bucket.is_empty(&keys.all(table))? {
            return Err(Error::of(Code::BucketNotEmpty));
        }
    }
    let is_clean =
        bucket.is_empty(&keys.all(Table::Uploads))? && bucket.is_empty(&keys.all_garbage())?;
    if is_clean || !bucket.has(Guard::S3GarbageStays) {
        return Ok((Reply::Done, catalog::delete(view, name, &entry)?));
    }
    let mut changes = catalog::unname(view, name, &entry)?;
    let settings = Settings {
        is_deleted: true,
        lifecycle: None,
        ..bucket.settings.clone()
    };
    bucket.set(settings);
    bucket.note_chore(context.now_ms)?;
    changes.extend(bucket.finish());
    Ok((Reply::Done, changes))
}

/// Says what a bucket is.
pub(crate) fn head(view: &dyn View, context: &Context<'_, Limits>) -> Result<Reply, Error> {
    let bucket = Bucket::of(view, context)?;
    Ok(Reply::Bucket(Box::new(bucket.settings)))
}

/// A page of the account's buckets.
pub(crate) fn list(
    view: &dyn View,
    context: &Context<'_, Limits>,
    command: &ListBuckets,
) -> Result<Reply, Error> {
    let most = context.limits.buckets_per_account;
    let most = usize::try_from(most).unwrap_or(usize::MAX - 1);
    let count = command.count.unwrap_or(most).min(most);
    if count == 0 {
        return Err(Error::of(Code::InvalidArgument));
    }
    let after = command.after.as_deref().map(str::as_bytes);
    let of = (Kind::Bucket, context.account);
    let mut names = catalog::names(view, of, (&command.prefix, after), count + 1)?;
    let has_more = count < names.len();
    names.truncate(count);
    let next = names.last().filter(|_| has_more).cloned();
    let mut buckets = Vec::with_capacity(names.len());
    for name in names {
        let entry = catalog::collection(view, Name::new(of.0, of.1, &name))?;
        let set = entry.map(|entry| settings(view, entry.collection));
        buckets.push((name, set.transpose()?.flatten()));
    }
    Ok(Reply::Buckets(Buckets { buckets, next }))
}

/// Shows a setting.
pub(crate) fn get(
    view: &dyn View,
    context: &Context<'_, Limits>,
    command: &OneSetting,
) -> Result<Reply, Error> {
    let bucket = Bucket::of(view, context)?;
    bucket.settings.get(command.name).map(Reply::Setting)
}

/// Changes a setting.
pub(crate) fn put(view: &dyn View, context: &Context<'_, Limits>, command: &PutSetting) -> Decided {
    change(view, context, |settings| {
        settings.set(&command.setting, context.limits)
    })
    .and_then(|mut bucket| {
        if let Setting::Lifecycle(_) = &command.setting {
            begin_pass(&mut bucket)?;
        }
        Ok((Reply::Done, bucket.finish()))
    })
}

/// Takes a setting away.
pub(crate) fn remove(
    view: &dyn View,
    context: &Context<'_, Limits>,
    command: &OneSetting,
) -> Decided {
    if matches!(command.name, SettingName::Versioning | SettingName::Acl) {
        return Err(Error::of(Code::MethodNotAllowed));
    }
    let bucket = change(view, context, |settings| {
        settings.clear(command.name);
        Ok(())
    })?;
    Ok((Reply::Done, bucket.finish()))
}

fn change<'a>(
    view: &'a dyn View,
    context: &Context<'a, Limits>,
    with: impl FnOnce(&mut Settings) -> Result<(), Error>,
) -> Result<Bucket<'a>, Error> {
    let mut bucket = Bucket::of(view, context)?;
    let mut settings = bucket.settings.clone();
    with(&mut settings)?;
    if settings.ownership == Some(Ownership::BucketOwnerEnforced) {
        settings.acl = Acl::new();
    }
    if settings != bucket.settings {
        bucket.set(settings);
    }
    Ok(bucket)
}

/// A new lifecycle counts from now on.
fn begin_pass(bucket: &mut Bucket<'_>) -> Result<(), Error> {
    let key = bucket.keys.upkeep();
    let upkeep = bucket.row(&key)?.unwrap_or_default();
    let upkeep = Upkeep {
        pass: None,
        next_pass_ms: 0,
        ..upkeep
    };
    bucket.put(key, &upkeep);
    Ok(bucket.note_chore(bucket.terms.now_ms)?)
}
