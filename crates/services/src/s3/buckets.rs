//! Buckets as a whole: they are created, listed, set and deleted.
//!
//! A bucket is *made* in two parts: its collection (`catalog`), and its settings, which its own
//! chain writes. Between the two it is there for CreateBucket and DeleteBucket only.
//!
//! Invariants:
//! - SB-6 the index of a deleted bucket stays until its garbage is gone. Its open uploads are
//!   garbage from the entry on that deletes it.
//! - SB-7 a bucket is deleted by one decision of its own chain. Where the names are on another
//!   chain, the entry begins a step that frees its name there, and says that it is never founded
//!   again.

use fader_chain::{ChainId, Guard};

use crate::catalog::{self, AccountId, DomainEntry, Name};
use crate::s3::Decided;
use crate::s3::access::Action;
use crate::s3::bucket::{Asked, Bucket, Terms, settings};
use crate::s3::command::{CreateBucket, HeadBucket, ListBuckets, Named, OneSetting, PutSetting};
use crate::s3::error::{Code, Error};
use crate::s3::layout::{decode, encode};
use crate::s3::names;
use crate::s3::reply::{Buckets, Reply};
use crate::s3::rows::BucketId;
use crate::s3::settings::{Setting, SettingName, Settings, Versioning};
use crate::s3::tentative;
use crate::s3::upkeep::Upkeep;
use crate::sqs::wire_fields;
use crate::steps;
use crate::{Kind, Mode, Table, View, ViewError};

/// The region in which creating an own bucket again succeeds.
const FIRST_REGION: &str = "us-east-1";

/// What is kept beside the name of a bucket on another chain, for lists.
struct Shown {
    region: String,
    created_ms: u64,
}
wire_fields!(Shown { region, created_ms });

/// Creates a bucket.
pub(crate) fn create(asked: Asked<'_>, command: &CreateBucket) -> Decided {
    let Asked { view, context, .. } = asked;
    let name = check_name(asked, command)?;
    let terms = Terms::new(view, context);
    let entry = catalog::collection(view, name)?;
    if let Some(entry) = &entry
        && let Some(settings) = settings(view, entry.collection)?
    {
        return match settings.region == FIRST_REGION && command.region == FIRST_REGION {
            true => Ok((Reply::Bucket(Box::new(settings)), Vec::new())),
            false => Err(Error::of(Code::BucketAlreadyOwnedByYou)),
        };
    }
    let made = made(asked, command)?;
    let (collection, mut changes) = match entry {
        Some(entry) => (entry.collection, Vec::new()),
        None => {
            check_count(asked)?;
            catalog::create(view, name, mode_of(command)?, None)?
        }
    };
    changes.extend(Bucket::made(terms, collection, made.clone()).finish());
    Ok((Reply::Bucket(Box::new(made)), changes))
}

/// Enters a bucket on one of `chains` other chains. Whether one that is there is as it is asked
/// for, its own chain says. Nothing where the system chain has the bucket itself.
pub(crate) fn enter(asked: Asked<'_>, command: &CreateBucket, chains: u32) -> Option<Decided> {
    let Asked { view, context, .. } = asked;
    let name = Name::new(Kind::Bucket, context.account, &command.bucket);
    match catalog::collection(view, name) {
        Ok(Some(_)) => None,
        Ok(None) => Some(enter_one(asked, command, chains)),
        Err(error) => Some(Err(error.into())),
    }
}

fn enter_one(asked: Asked<'_>, command: &CreateBucket, chains: u32) -> Decided {
    let view = asked.view;
    let name = check_name(asked, command)?;
    if catalog::placed(view, name)?.is_some() {
        return Ok((Reply::Done, Vec::new()));
    }
    // No bucket is entered that its own chain would refuse to make.
    let made = made(asked, command)?;
    check_count(asked)?;
    let shown = encode(&Shown {
        region: made.region.clone(),
        created_ms: made.created_ms,
    });
    let mode = mode_of(command)?;
    let entered = catalog::enter(view, name, mode, None, chains, shown)?;
    Ok((Reply::Bucket(Box::new(made)), entered))
}

/// Refuses a name that the caller's account cannot have.
fn check_name<'a>(asked: Asked<'a>, command: &'a CreateBucket) -> Result<Name<'a>, Error> {
    names::check(&command.bucket)?;
    check_account(asked)?;
    let name = Name::new(Kind::Bucket, asked.context.account, &command.bucket);
    let owner = catalog::owner(asked.view, name)?;
    match owner.is_none_or(|owner| owner == *asked.context.account) {
        true => Ok(name),
        false => Err(Error::of(Code::BucketAlreadyExists)),
    }
}

fn check_count(asked: Asked<'_>) -> Result<(), Error> {
    let Asked { view, context, .. } = asked;
    let count = catalog::count(view, Kind::Bucket, context.account)?;
    match count < context.limits.buckets_per_account {
        true => Ok(()),
        false => Err(Error::of(Code::TooManyBuckets)),
    }
}

/// What is set on a new bucket.
fn made(asked: Asked<'_>, command: &CreateBucket) -> Result<Settings, Error> {
    let context = asked.context;
    let ownership = command.ownership.unwrap_or(context.limits.ownership);
    let mut made = Settings {
        id: BucketId(asked.request.seed),
        name: command.bucket.clone(),
        owner: context.account.0.clone(),
        region: command.region.clone(),
        created_ms: context.now_ms,
        ownership: Some(ownership),
        public_access: context.limits.public_access,
        ..Settings::default()
    };
    made.acl = made
        .acl_of(command.acl.as_ref(), &made.owner)
        .map_err(|error| match error.code {
            Code::AccessControlListNotSupported => {
                Error::of(Code::InvalidBucketAclWithObjectOwnership)
            }
            Code::AccessDenied => Error::of(Code::InvalidBucketAclWithBlockPublicAccessError),
            _ => error,
        })?;
    Ok(made)
}

fn mode_of(command: &CreateBucket) -> Result<Mode, Error> {
    let invalid = |message: String| Error::new(Code::InvalidArgument, message);
    let Some(byte) = command.mode else {
        return Ok(Mode::Strong);
    };
    let mode = Mode::from_byte(byte).ok_or_else(|| invalid("The mode is none.".to_owned()))?;
    tentative::check_new_mode(mode).map_err(|rule| invalid(rule.to_string()))?;
    Ok(mode)
}

/// Deletes a bucket that has no version of any key.
pub(crate) fn delete(asked: Asked<'_>, command: &Named) -> Decided {
    let view = asked.view;
    let mut bucket = match Bucket::of(asked, Action::DeleteBucket) {
        Err(error) if error.is_unmade() => return delete_unmade(asked, command),
        bucket => bucket?,
    };
    let owner = AccountId(bucket.settings.owner.clone());
    let name = Name::new(Kind::Bucket, &owner, &command.bucket);
    let entry = catalog::collection(view, name)?;
    let entry = entry.ok_or_else(|| Error::of(Code::NoSuchBucket))?;
    let keys = bucket.keys;
    for table in [Table::Current, Table::Versions] {
        if !bucket.is_empty(&keys.all(table))? && bucket.has(Guard::S3Empty) {
            return Err(Error::of(Code::BucketNotEmpty));
        }
    }
    let is_clean =
        bucket.is_empty(&keys.all(Table::Uploads))? && bucket.is_empty(&keys.all_garbage())?;
    let (reply, mut changes) = unname(asked, name, &entry)?;
    if is_clean || !bucket.has(Guard::S3GarbageStays) {
        changes.extend(catalog::buried(entry.collection));
        return Ok((reply, changes));
    }
    let settings = Settings {
        is_deleted: true,
        lifecycle: None,
        ..bucket.settings.clone()
    };
    bucket.set(settings);
    bucket.note_chore(asked.context.now_ms)?;
    changes.extend(bucket.finish());
    Ok((reply, changes))
}

/// Deletes a bucket that was not made, so that it has no settings and no object.
fn delete_unmade(asked: Asked<'_>, command: &Named) -> Decided {
    let Asked { view, context, .. } = asked;
    check_account(asked)?;
    let name = Name::new(Kind::Bucket, context.account, &command.bucket);
    let entry = catalog::collection(view, name)?;
    let entry = entry.ok_or_else(|| Error::of(Code::NoSuchBucket))?;
    if catalog::owner(view, name)?.as_ref() != Some(context.account) {
        return Err(Error::of(Code::AccessDenied));
    }
    let (reply, mut changes) = unname(asked, name, &entry)?;
    changes.extend(catalog::buried(entry.collection));
    Ok((reply, changes))
}

/// The name of a bucket goes (SB-7).
fn unname(asked: Asked<'_>, name: Name<'_>, entry: &DomainEntry) -> Decided {
    let Asked { view, context, .. } = asked;
    if context.chain == ChainId::SYSTEM {
        return Ok((Reply::Done, catalog::unname(view, name, entry)?));
    }
    let mut changes = catalog::end(context.guards, name, entry);
    let free = steps::Action::Free(name.to_owned(), entry.collection);
    let (step, begun) = steps::begin(view, context.guards, ChainId::SYSTEM, free)?;
    changes.extend(begun);
    Ok((Reply::Ended(Box::new(step)), changes))
}

/// Refuses a request about no bucket that is there, by one who has no rights of the account.
fn check_account(asked: Asked<'_>) -> Result<(), Error> {
    match asked.request.caller.free_account() == Some(&asked.context.account.0) {
        true => Ok(()),
        false => Err(Error::of(Code::AccessDenied)),
    }
}

/// Says what is set on a bucket.
pub(crate) fn head(asked: Asked<'_>, command: &HeadBucket) -> Result<Reply, Error> {
    let bucket = match &command.key {
        None => Bucket::of(asked, command.action)?,
        Some(key) => Bucket::at(asked, command.action, key)?,
    };
    Ok(Reply::Bucket(Box::new(bucket.settings)))
}

/// A page of the account's buckets.
pub(crate) fn list(asked: Asked<'_>, command: &ListBuckets) -> Result<Reply, Error> {
    check_account(asked)?;
    let Asked { view, context, .. } = asked;
    let most = context.limits.buckets_per_account;
    let most = usize::try_from(most).unwrap_or(usize::MAX - 1);
    let count = command.count.unwrap_or(most).min(most);
    if count == 0 {
        return Err(Error::of(Code::InvalidArgument));
    }
    let after = command.after.as_deref().map(str::as_bytes);
    let (kind, account) = (Kind::Bucket, context.account);
    let mut names = catalog::names(view, kind, account, &command.prefix, after, count + 1)?;
    let has_more = count < names.len();
    names.truncate(count);
    let next = names.last().filter(|_| has_more).cloned();
    let mut buckets = Vec::with_capacity(names.len());
    for name in names {
        let set = shown(view, Name::new(kind, account, &name))?;
        buckets.push((name, set));
    }
    Ok(Reply::Buckets(Buckets { buckets, next }))
}

/// What a list shows of a bucket.
fn shown(view: &dyn View, name: Name<'_>) -> Result<Option<Settings>, ViewError> {
    if let Some(entry) = catalog::collection(view, name)? {
        return settings(view, entry.collection);
    }
    let kept: Option<Shown> = catalog::kept(view, name)?.map(decode).transpose()?;
    Ok(kept.map(|Shown { region, created_ms }| Settings {
        name: name.name.to_owned(),
        owner: name.account.0.clone(),
        region,
        created_ms,
        ..Settings::default()
    }))
}

/// Shows a setting.
pub(crate) fn get(asked: Asked<'_>, command: &OneSetting) -> Result<Reply, Error> {
    let bucket = Bucket::of(asked, read_of(command.name))?;
    bucket.settings.get(command.name).map(Reply::Setting)
}

/// Changes a setting.
pub(crate) fn put(asked: Asked<'_>, command: &PutSetting) -> Decided {
    let mut bucket = Bucket::of(asked, write_of(command.setting.name()))?;
    let mut settings = bucket.settings.clone();
    settings.set(&command.setting, asked.context.limits)?;
    // SE-3.
    if settings.versioning != Versioning::Off && asked.context.mode.settles_eventual() {
        let message = "A bucket of the mode mixed cannot keep versions.";
        return Err(Error::new(Code::InvalidBucketState, message));
    }
    change(&mut bucket, settings);
    if let Setting::Lifecycle(_) = &command.setting {
        begin_pass(&mut bucket)?;
    }
    Ok((Reply::Done, bucket.finish()))
}

/// Takes a setting away.
pub(crate) fn remove(asked: Asked<'_>, command: &OneSetting) -> Decided {
    let action = match command.name {
        SettingName::Versioning | SettingName::Acl => {
            return Err(Error::of(Code::MethodNotAllowed));
        }
        SettingName::Policy => Action::DeleteBucketPolicy,
        name => write_of(name),
    };
    let mut bucket = Bucket::of(asked, action)?;
    let mut settings = bucket.settings.clone();
    settings.clear(command.name);
    change(&mut bucket, settings);
    Ok((Reply::Done, bucket.finish()))
}

fn change(bucket: &mut Bucket<'_>, settings: Settings) {
    if settings != bucket.settings {
        bucket.set(settings);
    }
}

fn read_of(name: SettingName) -> Action {
    match name {
        SettingName::Versioning => Action::GetBucketVersioning,
        SettingName::Tags => Action::GetBucketTagging,
        SettingName::Policy => Action::GetBucketPolicy,
        SettingName::Acl => Action::GetBucketAcl,
        SettingName::Ownership => Action::GetBucketOwnershipControls,
        SettingName::PublicAccess => Action::GetBucketPublicAccessBlock,
        SettingName::Cors => Action::GetBucketCORS,
        SettingName::Lifecycle => Action::GetLifecycleConfiguration,
    }
}

fn write_of(name: SettingName) -> Action {
    match name {
        SettingName::Versioning => Action::PutBucketVersioning,
        SettingName::Tags => Action::PutBucketTagging,
        SettingName::Policy => Action::PutBucketPolicy,
        SettingName::Acl => Action::PutBucketAcl,
        SettingName::Ownership => Action::PutBucketOwnershipControls,
        SettingName::PublicAccess => Action::PutBucketPublicAccessBlock,
        SettingName::Cors => Action::PutBucketCORS,
        SettingName::Lifecycle => Action::PutLifecycleConfiguration,
    }
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
