//! Access control lists: what they are, and what they grant.
//!
//! Deliberately absent: whether they count at all, which ownership says (`access`); grantees by
//! email address, of which no account has one.

use crate::policy::Principal;
use crate::s3::error::{Code, Error};
use crate::sqs::wire_choice;

/// Grants of one list.
const GRANTS_MAX: usize = 100;
/// Digits of an account.
const ACCOUNT_DIGITS: usize = 12;

/// The grantee of an ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grantee {
    /// An account.
    Account(String),
    /// Everyone.
    AllUsers,
    /// Every account.
    AuthenticatedUsers,
}
wire_choice!(Grantee, "the grantee of an ACL", {
    0 => Account(it), 1 => AllUsers, 2 => AuthenticatedUsers,
});

/// What an ACL grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub enum Permission {
    FullControl,
    Read,
    Write,
    ReadAcp,
    WriteAcp,
}
wire_choice!(Permission, "what an ACL grants", {
    0 => FullControl, 1 => Read, 2 => Write, 3 => ReadAcp, 4 => WriteAcp,
});

/// Grants, in order.
pub type Acl = Vec<(Grantee, Permission)>;

/// An ACL by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub enum Canned {
    Private,
    PublicRead,
    PublicReadWrite,
    AuthenticatedRead,
    BucketOwnerRead,
    BucketOwnerFullControl,
}
wire_choice!(Canned, "an ACL by its name", {
    0 => Private, 1 => PublicRead, 2 => PublicReadWrite, 3 => AuthenticatedRead,
    4 => BucketOwnerRead, 5 => BucketOwnerFullControl,
});

impl Canned {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Canned> {
        Some(match name {
            "private" => Canned::Private,
            "public-read" => Canned::PublicRead,
            "public-read-write" => Canned::PublicReadWrite,
            "authenticated-read" => Canned::AuthenticatedRead,
            "bucket-owner-read" => Canned::BucketOwnerRead,
            "bucket-owner-full-control" => Canned::BucketOwnerFullControl,
            _ => return None,
        })
    }
}

/// An ACL as it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenAcl {
    /// By its name.
    Canned(Canned),
    /// By its grants.
    Grants(Acl),
}
wire_choice!(GivenAcl, "an ACL that is given", { 0 => Canned(it), 1 => Grants(it) });

impl GivenAcl {
    /// Its grants, for what `owner` owns in the bucket of `bucket_owner`.
    ///
    /// # Errors
    /// There are too many, or one to no account.
    pub(crate) fn grants(&self, owner: &str, bucket_owner: &str) -> Result<Acl, Error> {
        let canned = match self {
            GivenAcl::Canned(canned) => *canned,
            GivenAcl::Grants(grants) => {
                check(grants)?;
                return Ok(grants.clone());
            }
        };
        let to_bucket_owner = |permission| {
            let grantee = Grantee::Account(bucket_owner.to_owned());
            (owner != bucket_owner).then_some((grantee, permission))
        };
        let mut grants = private(owner);
        match canned {
            Canned::Private => {}
            Canned::PublicRead => grants.push((Grantee::AllUsers, Permission::Read)),
            Canned::PublicReadWrite => grants.extend([
                (Grantee::AllUsers, Permission::Read),
                (Grantee::AllUsers, Permission::Write),
            ]),
            Canned::AuthenticatedRead => {
                grants.push((Grantee::AuthenticatedUsers, Permission::Read));
            }
            Canned::BucketOwnerRead => grants.extend(to_bucket_owner(Permission::Read)),
            Canned::BucketOwnerFullControl => {
                grants.extend(to_bucket_owner(Permission::FullControl));
            }
        }
        Ok(grants)
    }
}

fn check(grants: &Acl) -> Result<(), Error> {
    if GRANTS_MAX < grants.len() {
        return Err(Error::of(Code::MalformedACLError));
    }
    let is_odd = |grantee: &Grantee| match grantee {
        Grantee::Account(id) => {
            id.len() != ACCOUNT_DIGITS || !id.bytes().all(|it| it.is_ascii_digit())
        }
        Grantee::AllUsers | Grantee::AuthenticatedUsers => false,
    };
    match grants.iter().any(|(grantee, _)| is_odd(grantee)) {
        true => Err(Error::new(Code::InvalidArgument, "Invalid id")),
        false => Ok(()),
    }
}

/// The ACL of what is given none: its owner has all.
pub fn private(owner: &str) -> Acl {
    vec![(Grantee::Account(owner.to_owned()), Permission::FullControl)]
}

/// Whether it grants anything to everyone, or to every account.
pub(crate) fn is_public(acl: &Acl) -> bool {
    let mut grants = acl.iter();
    grants.any(|(grantee, _)| !matches!(grantee, Grantee::Account(_)))
}

/// Whether it grants this permission. Grants to everyone count only where `public` ones do.
pub(crate) fn permits(
    acl: &Acl,
    principal: &Principal,
    permission: Permission,
    is_public: bool,
) -> bool {
    let mut grants = acl.iter();
    grants.any(|(grantee, granted)| {
        let is_theirs = match grantee {
            Grantee::Account(id) => principal.account() == Some(id),
            Grantee::AllUsers => is_public,
            Grantee::AuthenticatedUsers => is_public && principal.account().is_some(),
        };
        is_theirs && (*granted == permission || *granted == Permission::FullControl)
    })
}
