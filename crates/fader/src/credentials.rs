//! Access keys from where AWS's tools look, and what to do where none is.

use anyhow::Result;
use fader_client::{Credentials, Environment};

use crate::failure;

/// The credentials of `profile`, or else of the environment.
///
/// # Errors
/// When there are none; the message says what to set.
pub(crate) fn find(profile: Option<&str>) -> Result<Credentials> {
    let found = Environment::default().access_key(profile)?;
    match found {
        Some(credentials) => Ok(credentials),
        None => failure::invalid(
            "no access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (the first start of \
             `fader serve` prints them, `fader keys create` makes more), or write them into \
             [default] of ~/.aws/credentials, or give --no-sign-request to a server that serves \
             anonymous requests",
        ),
    }
}
