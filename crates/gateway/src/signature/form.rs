//! Signatures of the forms that browsers send to S3: the text of the policy is signed.
//!
//! ```text
//! version 2   fields AWSAccessKeyId, policy, signature
//! version 4   fields x-amz-credential, x-amz-date, policy, x-amz-signature
//! ```
//!
//! Deliberately absent: what the policy says (`s3::policy`), its expiration included.

use fader_services::simpledb::Error;

use super::{expired, incomplete, s3_v2, time, v4};

/// The signature of a form; nothing of it is trusted yet.
pub(crate) struct Form<'a> {
    /// The policy, in base64 as it came.
    pub(crate) policy: &'a str,
    version: Version<'a>,
}

enum Version<'a> {
    Two {
        key_id: &'a str,
        signature: &'a str,
    },
    Four {
        key_id: &'a str,
        scope: &'a str,
        date: &'a str,
        signature: &'a str,
    },
}

impl<'a> Form<'a> {
    /// Reads the fields of a form; `get` finds one by its name in lower case. `None` of a form that
    /// is not signed.
    pub(crate) fn read(get: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Form<'a>>, Error> {
        let Some(policy) = get("policy") else {
            return match get("signature").or(get("x-amz-signature")) {
                Some(_) => Err(incomplete("The form has a signature and no policy")),
                None => Ok(None),
            };
        };
        let need = |name: &str| {
            get(name).ok_or_else(|| incomplete(&format!("The field {name} is missing")))
        };
        let version = match get("x-amz-signature") {
            Some(signature) => {
                let (credential, date) = (need("x-amz-credential")?, need("x-amz-date")?);
                let key_id = v4::key_id(credential, date)?;
                let scope = &credential[key_id.len() + 1..];
                if !scope.ends_with("/s3/aws4_request") {
                    return Err(v4::wrong_service());
                }
                Version::Four {
                    key_id,
                    scope,
                    date,
                    signature,
                }
            }
            None => Version::Two {
                key_id: need("awsaccesskeyid")?,
                signature: need("signature")?,
            },
        };
        Ok(Some(Form { policy, version }))
    }

    /// The key's id, if the form was not signed in the future. The policy ends it.
    pub(super) fn check_time(&self, now_s: i64, skew_s: i64) -> Result<&'a str, Error> {
        match self.version {
            Version::Two { key_id, .. } => Ok(key_id),
            Version::Four { key_id, date, .. } => match time::basic(date) {
                Some(date_s) if date_s.saturating_sub(skew_s) <= now_s => Ok(key_id),
                Some(_) => Err(expired("x-amz-date", date)),
                None => Err(incomplete("x-amz-date must be like 20261120T212043Z")),
            },
        }
    }

    /// Whether the policy is signed with `secret`.
    pub(super) fn is_signed_with(&self, secret: &str) -> bool {
        match self.version {
            Version::Two { signature, .. } => s3_v2::is_text_signed(secret, self.policy, signature),
            Version::Four {
                scope, signature, ..
            } => v4::is_text_signed(secret, scope, self.policy, signature),
        }
    }
}
