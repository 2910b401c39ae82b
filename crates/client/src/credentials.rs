//! An access key and its secret.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::Error;

/// An access key with its secret, which is wiped on drop and never shown.
#[derive(Clone)]
pub struct Credentials {
    access_key: String,
    secret: Zeroizing<String>,
    token: Option<Zeroizing<String>>,
}

impl Credentials {
    /// Credentials of an access key.
    pub fn new(access_key: impl Into<String>, secret: impl Into<String>) -> Self {
        Credentials {
            access_key: access_key.into(),
            secret: Zeroizing::new(secret.into()),
            token: None,
        }
    }

    /// Temporary credentials: the same with a session's token, which S3 alone takes here.
    pub fn with_token(self, token: impl Into<String>) -> Self {
        Credentials {
            token: Some(Zeroizing::new(token.into())),
            ..self
        }
    }

    /// The access key of a section of AWS's credentials file, which is an INI file.
    pub(crate) fn of_profile(text: &str, section: &str) -> Option<Credentials> {
        let (mut id, mut secret, mut token) = (None, None, None);
        let mut is_inside = false;
        for line in text.lines().map(str::trim) {
            let name = line.strip_prefix('[');
            let name = name.and_then(|rest| rest.split_once(']'));
            if let Some((name, _)) = name {
                is_inside = name.trim() == section;
            } else if let Some((name, value)) = line.split_once('=').filter(|_| is_inside) {
                match name.trim() {
                    "aws_access_key_id" => id = Some(value.trim()),
                    "aws_secret_access_key" => secret = Some(value.trim()),
                    "aws_session_token" => token = Some(value.trim()),
                    _ => {}
                }
            }
        }
        let credentials = Credentials::new(id?, secret?);
        Some(match token {
            None => credentials,
            Some(token) => credentials.with_token(token),
        })
    }

    /// The public half.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.as_str())
    }

    /// Refuses temporary credentials, for a service whose signatures have no place for a token.
    pub(crate) fn lasting(&self, service: &str) -> Result<&Credentials, Error> {
        match self.token {
            None => Ok(self),
            Some(_) => Err(Error::invalid(format!(
                "requests to {service} take no session token: use an access key that lasts, and \
                 unset AWS_SESSION_TOKEN, or choose a profile without aws_session_token"
            ))),
        }
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
