//! Access keys from where AWS's tools look: the environment, then the credentials file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fader_client::Credentials;

/// The credentials of the environment, or of `profile` in the credentials file.
///
/// # Errors
/// When there are none; the message says what to set.
pub(crate) fn find(profile: Option<&str>) -> Result<Credentials> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let (id, secret) = (
        variable("AWS_ACCESS_KEY_ID"),
        variable("AWS_SECRET_ACCESS_KEY"),
    );
    // A profile that is asked for goes before the environment, as in AWS's tools.
    if let (Some(id), Some(secret), None) = (id, secret, profile) {
        return Ok(Credentials::new(id, secret));
    }
    let path = file();
    let section = profile.unwrap_or("default");
    let text = match &path {
        Some(path) if path.exists() => {
            let context = || format!("cannot read {}", path.display());
            std::fs::read_to_string(path).with_context(context)?
        }
        _ => String::new(),
    };
    if let Some(credentials) = parse(&text, section) {
        return Ok(credentials);
    }
    let file = path.as_deref().unwrap_or(Path::new("~/.aws/credentials"));
    bail!(
        "no access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (the first start of `fader \
         serve` prints them, `fader keys create` makes more), or write them into [{section}] of \
         {}, or give --no-sign-request to a server that serves anonymous requests",
        file.display()
    )
}

fn file() -> Option<PathBuf> {
    let named = std::env::var_os("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    named.or_else(|| std::env::home_dir().map(|home| home.join(".aws/credentials")))
}

/// The key of one section of an INI file.
fn parse(text: &str, section: &str) -> Option<Credentials> {
    let (mut id, mut secret) = (None, None);
    let mut is_inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            is_inside = name.trim() == section;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_inside) {
            match name.trim() {
                "aws_access_key_id" => id = Some(value.trim()),
                "aws_secret_access_key" => secret = Some(value.trim()),
                _ => {}
            }
        }
    }
    Some(Credentials::new(id?, secret?))
}
