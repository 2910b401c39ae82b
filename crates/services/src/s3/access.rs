//! Who may do what: owners, policies of buckets, ACLs and blocks of public access.
//!
//! Invariants:
//! - SA-1 what a policy denies is refused, also to the bucket's owner, but for the policy itself.
//! - SA-2 without a policy and without ACLs a bucket is its owner's alone, and an object its
//!   owner's. With BucketOwnerEnforced all objects are the bucket owner's, and no ACL counts.
//! - SA-3 a key with granted rights only has what a policy allows it, and nothing else.
//! - SA-4 who may neither read an object nor list its bucket is not told whether it is there.
//!
//! Every decision judges its caller on the newest state: a change of a setting and a put cannot
//! race.

use crate::policy::{Ask, Policy, Principal, Verdict};
use crate::s3::acl::{self, Acl, Canned, GivenAcl, Permission};
use crate::s3::error::{Code, Error};
use crate::s3::rows::{Object, Pairs};
use crate::s3::settings::{Ownership, Settings};
use crate::sqs::{wire_choice, wire_fields};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// As policies see it.
    pub principal: Principal,
    /// Whether it has only the rights that policies give it.
    pub is_granted_only: bool,
    /// Condition keys of policies with their values, as the request has them.
    pub keys: Pairs,
    /// The account that is to own the bucket, if the request says so.
    pub expected_owner: Option<String>,
}
wire_fields!(Caller {
    principal,
    is_granted_only,
    keys,
    expected_owner,
});

impl Caller {
    /// One with all rights of its account.
    pub fn of(principal: Principal) -> Self {
        Caller {
            principal,
            is_granted_only: false,
            keys: Pairs::new(),
            expected_owner: None,
        }
    }

    /// As uploads name it: its account, or its key if that has granted rights only.
    pub(crate) fn id(&self) -> Option<String> {
        match self.is_granted_only {
            true => self.principal.arn(),
            false => self.principal.account().cloned(),
        }
    }

    /// Its account, if it has all rights of it.
    pub(crate) fn free_account(&self) -> Option<&String> {
        let account = self.principal.account();
        account.filter(|_| !self.is_granted_only)
    }
}

/// Declares the actions that policies name.
macro_rules! actions {
    ($($byte:literal => $name:ident),* $(,)?) => {
        /// What is done, as policies name it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are AWS's own")]
        pub enum Action {
            $($name,)*
        }
        wire_choice!(Action, "an action", { $($byte => $name,)* });

        impl Action {
            /// Its name in policies, behind `s3:`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Action::$name => stringify!($name),)*
                }
            }
        }
    };
}

actions! {
    0 => AbortMultipartUpload,
    1 => DeleteBucket,
    2 => DeleteBucketPolicy,
    3 => DeleteObject,
    4 => DeleteObjectTagging,
    5 => DeleteObjectVersion,
    6 => DeleteObjectVersionTagging,
    7 => GetBucketAcl,
    8 => GetBucketCORS,
    9 => GetBucketLocation,
    10 => GetBucketOwnershipControls,
    11 => GetBucketPolicy,
    12 => GetBucketPolicyStatus,
    13 => GetBucketPublicAccessBlock,
    14 => GetBucketTagging,
    15 => GetBucketVersioning,
    16 => GetLifecycleConfiguration,
    17 => GetObject,
    18 => GetObjectAcl,
    19 => GetObjectAttributes,
    20 => GetObjectTagging,
    21 => GetObjectVersion,
    22 => GetObjectVersionAcl,
    23 => GetObjectVersionAttributes,
    24 => GetObjectVersionTagging,
    25 => ListBucket,
    26 => ListBucketMultipartUploads,
    27 => ListBucketVersions,
    28 => ListMultipartUploadParts,
    29 => PutBucketAcl,
    30 => PutBucketCORS,
    31 => PutBucketOwnershipControls,
    32 => PutBucketPolicy,
    33 => PutBucketPublicAccessBlock,
    34 => PutBucketTagging,
    35 => PutBucketVersioning,
    36 => PutLifecycleConfiguration,
    37 => PutObject,
    38 => PutObjectAcl,
    39 => PutObjectTagging,
    40 => PutObjectVersionAcl,
    41 => PutObjectVersionTagging,
}

impl Action {
    /// The same on a version that the request names.
    pub(crate) fn of_version(self, is_named: bool) -> Action {
        match self {
            Action::DeleteObject if is_named => Action::DeleteObjectVersion,
            Action::DeleteObjectTagging if is_named => Action::DeleteObjectVersionTagging,
            Action::GetObject if is_named => Action::GetObjectVersion,
            Action::GetObjectAcl if is_named => Action::GetObjectVersionAcl,
            Action::GetObjectAttributes if is_named => Action::GetObjectVersionAttributes,
            Action::GetObjectTagging if is_named => Action::GetObjectVersionTagging,
            Action::PutObjectAcl if is_named => Action::PutObjectVersionAcl,
            Action::PutObjectTagging if is_named => Action::PutObjectVersionTagging,
            other => other,
        }
    }

    /// What an ACL must grant for it: of the bucket, or of the object. `None`: no ACL gives it.
    fn permission(self) -> Option<(Permission, bool)> {
        Some(match self {
            Action::ListBucket
            | Action::ListBucketVersions
            | Action::ListBucketMultipartUploads => (Permission::Read, false),
            Action::PutObject | Action::DeleteObject | Action::DeleteObjectVersion => {
                (Permission::Write, false)
            }
            Action::GetBucketAcl => (Permission::ReadAcp, false),
            Action::PutBucketAcl => (Permission::WriteAcp, false),
            Action::GetObject
            | Action::GetObjectVersion
            | Action::GetObjectAttributes
            | Action::GetObjectVersionAttributes => (Permission::Read, true),
            Action::GetObjectAcl | Action::GetObjectVersionAcl => (Permission::ReadAcp, true),
            Action::PutObjectAcl | Action::PutObjectVersionAcl => (Permission::WriteAcp, true),
            _ => return None,
        })
    }

    /// Whether it mends a policy: the owner may do it in spite of any. No policy gives it to other
    /// accounts.
    fn is_of_policy(self) -> bool {
        matches!(
            self,
            Action::GetBucketPolicy | Action::PutBucketPolicy | Action::DeleteBucketPolicy
        )
    }
}

/// What an action is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource<'a> {
    /// The bucket.
    Bucket,
    /// A key, with or without an object.
    Key(&'a str),
    /// The object at a key.
    Object(&'a str, &'a Object),
    /// One that is to be there, and the account that will own it.
    New(&'a str, &'a String),
}

/// Whether a caller may do something in a bucket. `more` are condition keys beside the caller's.
pub(crate) fn may(
    settings: &Settings,
    caller: &Caller,
    now_ms: u64,
    action: Action,
    resource: Resource<'_>,
    more: &[(String, String)],
) -> bool {
    let owner = &settings.owner;
    let is_owner = caller.principal.account() == Some(owner);
    let owner_of_object = match resource {
        Resource::Object(_, object) => settings.owner_of(object),
        Resource::New(_, owner) => owner,
        Resource::Bucket | Resource::Key(_) => owner,
    };
    let is_free = caller.free_account().map(String::as_str) == Some(owner_of_object);
    if action.is_of_policy() && is_owner && is_free {
        return true;
    }
    match policy(settings, caller, now_ms, action, resource, more) {
        Verdict::Denied => return false,
        Verdict::Allowed if owner_of_object == owner => {
            if is_owner || !action.is_of_policy() {
                return true;
            }
        }
        Verdict::Allowed | Verdict::Silent => {}
    }
    is_free || acl_permits(settings, caller, action, resource)
}

/// What the policy of a bucket says. Where public buckets are restricted a public one allows
/// nothing to other accounts.
pub(crate) fn policy(
    settings: &Settings,
    caller: &Caller,
    now_ms: u64,
    action: Action,
    resource: Resource<'_>,
    more: &[(String, String)],
) -> Verdict {
    let Some(text) = &settings.policy else {
        return Verdict::Silent;
    };
    let Ok(policy) = Policy::parse(text) else {
        return Verdict::Denied;
    };
    let name = &settings.name;
    let (arn, object) = match resource {
        Resource::Bucket => (format!("arn:aws:s3:::{name}"), None),
        Resource::Key(key) | Resource::New(key, _) => (format!("arn:aws:s3:::{name}/{key}"), None),
        Resource::Object(key, object) => (format!("arn:aws:s3:::{name}/{key}"), Some(object)),
    };
    let mut ask = Ask::new(
        caller.principal.clone(),
        &format!("s3:{}", action.name()),
        &arn,
        now_ms,
    );
    for (key, value) in caller.keys.iter().chain(more) {
        ask.set(key, value);
    }
    for (key, value) in object.iter().flat_map(|it| &it.metadata.tags) {
        ask.set(&format!("s3:ExistingObjectTag/{key}"), value);
    }
    let block = settings.public_access;
    let is_restricted = block.is_some_and(|block| block.restrict_public_buckets);
    let is_owner = caller.principal.account() == Some(&settings.owner);
    match policy.evaluate(&ask) {
        Verdict::Allowed if is_restricted && !is_owner && policy.is_public() => Verdict::Silent,
        verdict => verdict,
    }
}

/// Whether an ACL lets a caller do it.
pub(crate) fn acl_permits(
    settings: &Settings,
    caller: &Caller,
    action: Action,
    resource: Resource<'_>,
) -> bool {
    let Some((permission, is_of_object)) = action.permission() else {
        return false;
    };
    if settings.is_enforced() || caller.is_granted_only {
        return false;
    }
    let acl = match (is_of_object, resource) {
        (false, _) => settings.acl.as_ref(),
        (true, Resource::Object(_, object)) => object.acl.as_ref(),
        (true, Resource::Bucket | Resource::Key(_) | Resource::New(..)) => None,
    };
    let block = settings.public_access;
    let is_public = !block.is_some_and(|block| block.ignore_public_acls);
    acl.is_some_and(|acl| acl::permits(acl, &caller.principal, permission, is_public))
}

/// Whether policies may test a key, which is in lower case. Requests have it, or it is of a feature
/// that is left out: then none has it.
pub fn is_condition_key(key: &str) -> bool {
    const KEYS: [&str; 28] = [
        "authtype",
        "delimiter",
        "if-match",
        "if-none-match",
        "max-keys",
        "object-lock-legal-hold",
        "object-lock-mode",
        "object-lock-remaining-retention-days",
        "object-lock-retain-until-date",
        "objectcreationoperation",
        "prefix",
        "signatureage",
        "signatureversion",
        "versionid",
        "x-amz-acl",
        "x-amz-content-sha256",
        "x-amz-copy-source",
        "x-amz-grant-full-control",
        "x-amz-grant-read",
        "x-amz-grant-read-acp",
        "x-amz-grant-write",
        "x-amz-grant-write-acp",
        "x-amz-metadata-directive",
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-customer-algorithm",
        "x-amz-storage-class",
        "x-amz-website-redirect-location",
    ];
    const TAGS: [&str; 2] = ["existingobjecttag/", "requestobjecttag/"];
    let Some(own) = key.strip_prefix("s3:") else {
        return key.starts_with("aws:");
    };
    KEYS.contains(&own) || TAGS.iter().any(|tag| own.starts_with(tag))
}

/// Condition keys of the tags that a request gives.
pub(crate) fn of_tags(tags: &Pairs) -> Pairs {
    let pair = |(key, value): &(String, String)| {
        let key = format!("s3:RequestObjectTag/{key}");
        (key, value.clone())
    };
    tags.iter().map(pair).collect()
}

impl Settings {
    /// Whether all objects are the bucket owner's, and no ACL counts.
    pub(crate) fn is_enforced(&self) -> bool {
        self.ownership == Some(Ownership::BucketOwnerEnforced)
    }

    /// Whether public ACLs are refused.
    pub(crate) fn blocks_public_acls(&self) -> bool {
        self.public_access.is_some_and(|it| it.block_public_acls)
    }

    /// The account that owns an object.
    pub(crate) fn owner_of<'a>(&'a self, object: &'a Object) -> &'a String {
        match self.is_enforced() {
            true => &self.owner,
            false => self.or_own(&object.owner),
        }
    }

    /// An account that a row names; the bucket's owner if it names none.
    pub(crate) fn or_own<'a>(&'a self, account: &'a String) -> &'a String {
        if account.is_empty() {
            &self.owner
        } else {
            account
        }
    }

    /// Shows an object with the owner and the ACL that count.
    pub(crate) fn show(&self, object: &mut Object) {
        object.owner = self.owner_of(object).clone();
        if self.is_enforced() {
            object.acl = None;
        }
    }

    /// The owner of an object that a caller writes, and its ACL. An owner that is empty is the
    /// bucket's; of an unsigned put it is that one, too.
    pub(crate) fn new_object(
        &self,
        caller: &Caller,
        given: Option<&GivenAcl>,
    ) -> Result<(String, Option<Acl>), Error> {
        let is_left = given == Some(&GivenAcl::Canned(Canned::BucketOwnerFullControl))
            && self.ownership == Some(Ownership::BucketOwnerPreferred);
        let writer = caller.principal.account();
        let writer = writer.filter(|it| **it != self.owner && !self.is_enforced() && !is_left);
        let owner = writer.cloned().unwrap_or_default();
        let acl = self.acl_of(given, writer.unwrap_or(&self.owner))?;
        Ok((owner, acl))
    }

    /// The ACL of what this account owns; none if it is the private one.
    pub(crate) fn acl_of(
        &self,
        given: Option<&GivenAcl>,
        owner: &str,
    ) -> Result<Option<Acl>, Error> {
        let Some(given) = given else {
            return Ok(None);
        };
        let grants = given.grants(owner, &self.owner)?;
        let is_private = grants == acl::private(owner);
        // The private one grants nothing: older clients send it with every object.
        if self.is_enforced() && !is_private {
            return Err(Error::of(Code::AccessControlListNotSupported));
        }
        if self.blocks_public_acls() && acl::is_public(&grants) {
            return Err(Error::of(Code::AccessDenied));
        }
        Ok((!is_private).then_some(grants))
    }
}
