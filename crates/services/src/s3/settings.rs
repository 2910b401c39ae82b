//! What is set on a bucket.

use crate::policy::{Malformed, Policy};
use crate::s3::access::is_condition_key;
pub use crate::s3::acl::{Acl, Canned, GivenAcl, Grantee, Permission, private};
use crate::s3::error::{Code, Error};
use crate::s3::limits::Limits;
use crate::s3::rows::{BucketId, Pairs};
use crate::sqs::{wire_choice, wire_fields};

const TAG_KEY_MAX: usize = 128;
const TAG_VALUE_MAX: usize = 256;
const RULE_ID_MAX: usize = 255;
/// Keys of tags that begin so are the vendor's own.
const SYSTEM_TAG: &str = "aws:";

/// Whether versions are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versioning {
    /// It was never enabled.
    #[default]
    Off,
    /// Every write makes a version.
    Enabled,
    /// Writes replace the null version; older ones stay.
    Suspended,
}
wire_choice!(Versioning, "a bucket's versioning", { 0 => Off, 1 => Enabled, 2 => Suspended });

/// Who owns objects, and whether ACLs count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// The bucket's owner; no ACL counts.
    #[default]
    BucketOwnerEnforced,
    /// The bucket's owner, where a writer grants it.
    BucketOwnerPreferred,
    /// The writer.
    ObjectWriter,
}
wire_choice!(Ownership, "a bucket's ownership", {
    0 => BucketOwnerEnforced, 1 => BucketOwnerPreferred, 2 => ObjectWriter,
});

/// Which public access is refused, in spite of policies and ACLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct PublicAccessBlock {
    pub block_public_acls: bool,
    pub ignore_public_acls: bool,
    pub block_public_policy: bool,
    pub restrict_public_buckets: bool,
}
wire_fields!(PublicAccessBlock {
    block_public_acls,
    ignore_public_acls,
    block_public_policy,
    restrict_public_buckets,
});

impl Default for PublicAccessBlock {
    /// That of a new bucket.
    fn default() -> Self {
        PublicAccessBlock {
            block_public_acls: true,
            ignore_public_acls: true,
            block_public_policy: true,
            restrict_public_buckets: true,
        }
    }
}

/// A rule of cross-origin requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsRule {
    /// Its name.
    pub id: Option<String>,
    /// Origins, each with one `*` at most.
    pub origins: Vec<String>,
    /// Methods.
    pub methods: Vec<String>,
    /// Headers of requests, each with one `*` at most.
    pub headers: Vec<String>,
    /// Headers of replies that programs may see.
    pub exposed: Vec<String>,
    /// How long a browser may keep the answer, in seconds.
    pub max_age_s: Option<u32>,
}
wire_fields!(CorsRule {
    id,
    origins,
    methods,
    headers,
    exposed,
    max_age_s,
});

/// Which objects a lifecycle rule is about: those of which all holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Their keys begin so.
    pub prefix: String,
    /// They have these tags.
    pub tags: Pairs,
    /// They are larger.
    pub larger: Option<u64>,
    /// They are smaller.
    pub smaller: Option<u64>,
}
wire_fields!(Filter {
    prefix,
    tags,
    larger,
    smaller,
});

/// When current versions expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// So many days after they were made.
    Days(u32),
    /// At this time, in milliseconds since 1970.
    Date(u64),
    /// A delete marker without other versions goes.
    Markers,
}
wire_choice!(Expiration, "an expiration", { 0 => Days(it), 1 => Date(it), 2 => Markers });

/// A rule of a lifecycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecycleRule {
    /// Its name.
    pub id: String,
    /// Whether it counts.
    pub is_enabled: bool,
    /// Whether its prefix was given without a filter, the form before filters, and is shown so.
    pub is_plain: bool,
    /// What it is about.
    pub filter: Filter,
    /// When current versions expire.
    pub expiration: Option<Expiration>,
    /// After so many days versions that are not current go, but so many of the newest.
    pub noncurrent: Option<(u32, u32)>,
    /// After so many days open uploads are aborted.
    pub abort_days: Option<u32>,
}
wire_fields!(LifecycleRule {
    id,
    is_enabled,
    is_plain,
    filter,
    expiration,
    noncurrent,
    abort_days,
});

/// What is set on a bucket, and what says that it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Its random id.
    pub id: BucketId,
    /// Its name.
    pub name: String,
    /// The account that owns it.
    pub owner: String,
    /// Where it is.
    pub region: String,
    /// Milliseconds since 1970 when it was created.
    pub created_ms: u64,
    /// Whether it was deleted: its rows are there until its garbage is gone.
    pub(crate) is_deleted: bool,
    /// Whether versions are kept.
    pub versioning: Versioning,
    /// Tags.
    pub tags: Option<Pairs>,
    /// A policy document.
    pub policy: Option<String>,
    /// Its ACL; none if its owner has all, and others nothing.
    pub acl: Option<Acl>,
    /// Who owns objects.
    pub ownership: Option<Ownership>,
    /// Which public access is refused.
    pub public_access: Option<PublicAccessBlock>,
    /// Cross-origin requests.
    pub cors: Option<Vec<CorsRule>>,
    /// The lifecycle.
    pub lifecycle: Option<Vec<LifecycleRule>>,
}
wire_fields!(Settings {
    id,
    name,
    owner,
    region,
    created_ms,
    is_deleted,
    versioning,
    tags,
    policy,
    acl,
    ownership,
    public_access,
    cors,
    lifecycle,
});

/// One of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `Settings`")]
pub enum Setting {
    Versioning(Versioning),
    Tags(Pairs),
    Policy(String),
    Acl(GivenAcl),
    Ownership(Ownership),
    PublicAccess(PublicAccessBlock),
    Cors(Vec<CorsRule>),
    Lifecycle(Vec<LifecycleRule>),
}

impl Setting {
    /// Which it is.
    pub fn name(&self) -> SettingName {
        match self {
            Setting::Versioning(_) => SettingName::Versioning,
            Setting::Tags(_) => SettingName::Tags,
            Setting::Policy(_) => SettingName::Policy,
            Setting::Acl(_) => SettingName::Acl,
            Setting::Ownership(_) => SettingName::Ownership,
            Setting::PublicAccess(_) => SettingName::PublicAccess,
            Setting::Cors(_) => SettingName::Cors,
            Setting::Lifecycle(_) => SettingName::Lifecycle,
        }
    }
}

/// Which of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of `Settings`")]
pub enum SettingName {
    Versioning,
    Tags,
    Policy,
    Acl,
    Ownership,
    PublicAccess,
    Cors,
    Lifecycle,
}

impl Settings {
    /// The setting that is asked for.
    pub(crate) fn get(&self, name: SettingName) -> Result<Setting, Error> {
        let (setting, missing) = match name {
            SettingName::Versioning => return Ok(Setting::Versioning(self.versioning)),
            SettingName::Acl => {
                let acl = self.acl.clone().unwrap_or_else(|| private(&self.owner));
                return Ok(Setting::Acl(GivenAcl::Grants(acl)));
            }
            SettingName::Tags => (self.tags.clone().map(Setting::Tags), Code::NoSuchTagSet),
            SettingName::Policy => (
                self.policy.clone().map(Setting::Policy),
                Code::NoSuchBucketPolicy,
            ),
            SettingName::Ownership => (
                self.ownership.map(Setting::Ownership),
                Code::OwnershipControlsNotFoundError,
            ),
            SettingName::PublicAccess => (
                self.public_access.map(Setting::PublicAccess),
                Code::NoSuchPublicAccessBlockConfiguration,
            ),
            SettingName::Cors => (
                self.cors.clone().map(Setting::Cors),
                Code::NoSuchCORSConfiguration,
            ),
            SettingName::Lifecycle => (
                self.lifecycle.clone().map(Setting::Lifecycle),
                Code::NoSuchLifecycleConfiguration,
            ),
        };
        setting.ok_or_else(|| Error::of(missing))
    }

    /// Changes one.
    pub(crate) fn set(&mut self, setting: &Setting, limits: &Limits) -> Result<(), Error> {
        match setting.clone() {
            Setting::Versioning(Versioning::Off) => return Err(Error::of(Code::MalformedXML)),
            Setting::Versioning(it) => self.versioning = it,
            Setting::Tags(it) => {
                check_tags(&it, limits.bucket_tags)?;
                self.tags = Some(it);
            }
            Setting::Policy(it) => {
                self.check_policy(&it, limits)?;
                self.policy = Some(it);
            }
            Setting::Acl(it) => self.acl = self.acl_of(Some(&it), &self.owner)?,
            Setting::Ownership(it) => {
                if it == Ownership::BucketOwnerEnforced && self.acl.is_some() {
                    return Err(Error::of(Code::InvalidBucketAclWithObjectOwnership));
                }
                self.ownership = Some(it);
            }
            Setting::PublicAccess(it) => self.public_access = Some(it),
            Setting::Cors(it) => {
                check_cors(&it, limits)?;
                self.cors = Some(it);
            }
            Setting::Lifecycle(it) => {
                check_lifecycle(&it, limits)?;
                self.lifecycle = Some(it);
            }
        }
        Ok(())
    }

    /// Takes one away; versioning and ACL stay.
    pub(crate) fn clear(&mut self, name: SettingName) {
        match name {
            SettingName::Versioning | SettingName::Acl => {}
            SettingName::Tags => self.tags = None,
            SettingName::Policy => self.policy = None,
            SettingName::Ownership => self.ownership = None,
            SettingName::PublicAccess => self.public_access = None,
            SettingName::Cors => self.cors = None,
            SettingName::Lifecycle => self.lifecycle = None,
        }
    }

    fn check_policy(&self, text: &str, limits: &Limits) -> Result<(), Error> {
        if limits.policy_bytes < text.len() {
            let message = format!("The policy has more than {} bytes", limits.policy_bytes);
            return Err(Error::new(Code::MalformedPolicy, message));
        }
        let malformed = |why: Malformed| Error::new(Code::MalformedPolicy, why.to_string());
        let policy = Policy::parse(text).map_err(malformed)?;
        let arn = format!("arn:aws:s3:::{}", self.name);
        policy.check_of(&arn, is_condition_key).map_err(malformed)?;
        let block = self.public_access;
        match block.is_some_and(|it| it.block_public_policy) && policy.is_public() {
            true => Err(Error::of(Code::AccessDenied)),
            false => Ok(()),
        }
    }

    /// Rules of the lifecycle that count.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &LifecycleRule> {
        let rules = self.lifecycle.iter().flatten();
        rules.filter(|rule| rule.is_enabled)
    }
}

/// Refuses tags of which there are too many, or that are too long, empty, there twice or the
/// vendor's own.
///
/// # Errors
/// InvalidTag.
pub fn check_tags(tags: &Pairs, most: usize) -> Result<(), Error> {
    if most < tags.len() {
        let message = format!("Object tags cannot be greater than {most}");
        return Err(Error::new(Code::InvalidTag, message));
    }
    for (at, (key, value)) in tags.iter().enumerate() {
        if key.is_empty() || TAG_KEY_MAX < key.chars().count() {
            return Err(Error::new(
                Code::InvalidTag,
                "The TagKey you have provided is invalid",
            ));
        }
        if TAG_VALUE_MAX < value.chars().count() {
            return Err(Error::new(
                Code::InvalidTag,
                "The TagValue you have provided is invalid",
            ));
        }
        if key.starts_with(SYSTEM_TAG) {
            return Err(Error::new(
                Code::InvalidTag,
                "System tags cannot be added/updated by requester",
            ));
        }
        if tags[..at].iter().any(|(other, _)| other == key) {
            return Err(Error::new(
                Code::InvalidTag,
                "Cannot provide multiple Tags with the same key",
            ));
        }
    }
    Ok(())
}

fn check_cors(rules: &[CorsRule], limits: &Limits) -> Result<(), Error> {
    if rules.is_empty() || limits.cors_rules < rules.len() {
        return Err(Error::of(Code::MalformedXML));
    }
    for rule in rules {
        if rule.origins.is_empty() || rule.methods.is_empty() {
            return Err(Error::of(Code::MalformedXML));
        }
        let known = ["GET", "PUT", "POST", "DELETE", "HEAD"];
        if let Some(method) = rule.methods.iter().find(|it| !known.contains(&&***it)) {
            let message = format!(
                "Found unsupported HTTP method in CORS config. Unsupported method is {method}"
            );
            return Err(Error::new(Code::InvalidRequest, message));
        }
        let patterns = rule.origins.iter().chain(&rule.headers);
        for pattern in patterns {
            if 1 < pattern.matches('*').count() {
                let message = format!("\"{pattern}\" can not have more than one wildcard.");
                return Err(Error::new(Code::InvalidRequest, message));
            }
        }
    }
    Ok(())
}

fn check_lifecycle(rules: &[LifecycleRule], limits: &Limits) -> Result<(), Error> {
    if rules.is_empty() || limits.lifecycle_rules < rules.len() {
        return Err(Error::of(Code::MalformedXML));
    }
    let invalid = |message: &str| Err(Error::new(Code::InvalidArgument, message));
    for (at, rule) in rules.iter().enumerate() {
        if RULE_ID_MAX < rule.id.len() {
            return invalid("ID length should not exceed allowed limit of 255");
        }
        let is_named = |other: &LifecycleRule| !rule.id.is_empty() && other.id == rule.id;
        if rules[..at].iter().any(is_named) {
            return invalid("Rule ID must be unique. Found same ID for more than one rule");
        }
        if rule.expiration.is_none() && rule.noncurrent.is_none() && rule.abort_days.is_none() {
            return Err(Error::of(Code::MalformedXML));
        }
        if let Some(Expiration::Days(0)) = rule.expiration {
            return invalid("'Days' for Expiration action must be a positive integer");
        }
        if let Some(Expiration::Date(at_ms)) = rule.expiration
            && !at_ms.is_multiple_of(limits.day_ms)
        {
            return invalid("'Date' must be at midnight GMT");
        }
        if matches!(rule.noncurrent, Some((0, _))) || rule.abort_days == Some(0) {
            return invalid("Days of a lifecycle rule must be a positive integer");
        }
        let filter = &rule.filter;
        let is_of_objects =
            !filter.tags.is_empty() || filter.larger.is_some() || filter.smaller.is_some();
        let is_of_others =
            rule.abort_days.is_some() || rule.expiration == Some(Expiration::Markers);
        if is_of_objects && is_of_others {
            return Err(Error::new(
                Code::InvalidRequest,
                "Delete markers and uploads cannot be chosen by tag or size",
            ));
        }
        check_tags(&filter.tags, limits.object_tags)?;
    }
    Ok(())
}
