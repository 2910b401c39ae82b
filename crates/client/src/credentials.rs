//! An access key and its secret.
//!
//! Deliberately absent: where they come from (environment, files): the binary's business.

use std::fmt;

use zeroize::Zeroizing;

/// An access key with its secret, which is wiped on drop and never shown.
#[derive(Clone)]
pub struct Credentials {
    access_key: String,
    secret: Zeroizing<String>,
}

impl Credentials {
    /// Credentials of an access key.
    pub fn new(access_key: impl Into<String>, secret: impl Into<String>) -> Self {
        Credentials {
            access_key: access_key.into(),
            secret: Zeroizing::new(secret.into()),
        }
    }

    /// The public half.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .field("secret", &"..")
            .finish()
    }
}
