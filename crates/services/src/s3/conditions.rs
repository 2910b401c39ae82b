//! Conditions by ETag, date and size, decided on the newest state.
//!
//! Invariants:
//! - SC-1 a condition of a write is decided in the entry that writes: of racing writers one wins.

use crate::s3::error::{Code, Condition, Error};
use crate::s3::rows::{Object, Version};

/// ETags of a condition, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Etags {
    /// `*`: any.
    Any,
    /// These.
    Of(Vec<String>),
}

impl Etags {
    fn hold(&self, object: &Object) -> bool {
        match self {
            Etags::Any => true,
            Etags::Of(etags) => etags.contains(&object.etag),
        }
    }
}

/// What must hold for a read. Dates are milliseconds since 1970 that have no parts of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadConditions {
    /// Its ETag is one of these.
    pub if_match: Option<Etags>,
    /// It is none of these.
    pub if_none_match: Option<Etags>,
    /// It was changed later.
    pub if_modified_since_ms: Option<u64>,
    /// It was not.
    pub if_unmodified_since_ms: Option<u64>,
}

/// What must hold for a put or for completing an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteConditions {
    /// There is an object, and its ETag is one of these.
    pub if_match: Option<Etags>,
    /// `If-None-Match: *`: there is no object.
    pub if_none_match: bool,
}

/// What must hold for a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteConditions {
    /// Its ETag is one of these.
    pub if_match: Option<Etags>,
    /// It has so many bytes.
    pub size: Option<u64>,
    /// It was changed in this second, in milliseconds since 1970.
    pub last_modified_ms: Option<u64>,
}

fn second(ms: u64) -> u64 {
    ms / 1000
}

impl ReadConditions {
    /// Decides them as RFC 9110, section 13.2.2, orders them.
    ///
    /// # Errors
    /// 412, or 304 where the client has the newest.
    pub(crate) fn check(&self, version: &Version, object: &Object) -> Result<(), Error> {
        let failed = |condition| Err(Error::condition(Code::PreconditionFailed, condition));
        let same = |condition| Err(Error::condition(Code::NotModified, condition));
        let modified = second(version.modified_ms);
        match (&self.if_match, self.if_unmodified_since_ms) {
            (Some(etags), _) if !etags.hold(object) => return failed(Condition::IfMatch),
            (None, Some(since_ms)) if second(since_ms) < modified => {
                return failed(Condition::IfUnmodifiedSince);
            }
            _ => {}
        }
        match (&self.if_none_match, self.if_modified_since_ms) {
            (Some(etags), _) if etags.hold(object) => same(Condition::IfNoneMatch),
            (None, Some(since_ms)) if modified <= second(since_ms) => {
                same(Condition::IfModifiedSince)
            }
            _ => Ok(()),
        }
    }
}

impl WriteConditions {
    /// Decides them on the current object.
    ///
    /// # Errors
    /// 412, or 404 where `If-Match` finds nothing.
    pub(crate) fn check(&self, current: Option<&Version>) -> Result<(), Error> {
        let object = current.and_then(Version::object);
        if self.if_none_match && object.is_some() {
            return Err(Error::condition(
                Code::PreconditionFailed,
                Condition::IfNoneMatch,
            ));
        }
        check_match(self.if_match.as_ref(), object)
    }
}

impl DeleteConditions {
    /// Decides them on what is to be deleted. Without an object those of size and time hold.
    ///
    /// # Errors
    /// 412, or 404 where `If-Match` finds nothing.
    pub(crate) fn check(&self, version: Option<&Version>) -> Result<(), Error> {
        let object = version.and_then(Version::object);
        check_match(self.if_match.as_ref(), object)?;
        let (Some(version), Some(object)) = (version, object) else {
            return Ok(());
        };
        let failed = |condition| Err(Error::condition(Code::PreconditionFailed, condition));
        if self.size.is_some_and(|size| size != object.size) {
            return failed(Condition::IfMatchSize);
        }
        let is_other = |at_ms| second(at_ms) != second(version.modified_ms);
        if self.last_modified_ms.is_some_and(is_other) {
            return failed(Condition::IfMatchLastModified);
        }
        Ok(())
    }
}

fn check_match(if_match: Option<&Etags>, object: Option<&Object>) -> Result<(), Error> {
    match (if_match, object) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(Error::of(Code::NoSuchKey)),
        (Some(etags), Some(object)) if etags.hold(object) => Ok(()),
        (Some(_), Some(_)) => Err(Error::condition(
            Code::PreconditionFailed,
            Condition::IfMatch,
        )),
    }
}
