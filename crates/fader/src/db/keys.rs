//! `fader db identity`, `grant` and `rotate`: who may read encrypted collections.
//!
//! An identity is a secret in a file of its own, readable by its owner alone. Its public part is
//! what others grant keys to.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_client::{Access, Principal, system_runtime};
use fader_database::{Identity, PublicIdentity, Right};

use crate::cloud::Where;
use crate::failure;
use crate::output::{self, visible};

/// Names another file of the identity.
const VARIABLE: &str = "FADER_DB_IDENTITY";

#[derive(Args)]
pub(super) struct Grant {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// Who gets the key of an encrypted collection: what `fader db identity` prints there.
    #[arg(required_unless_present = "principal")]
    identity: Option<PublicIdentity>,
    /// Who gets permissions at S3 and SQS: an account of twelve digits, or the ARN of a user or
    /// role.
    #[arg(long, value_name = "ACCOUNT|ARN")]
    principal: Option<Principal>,
    /// What the permissions are for; `propose` writes records of a curated collection, which wait
    /// for approval.
    #[arg(
        long,
        value_name = "RIGHT",
        default_value = "write",
        requires = "principal"
    )]
    access: Rights,
}

/// What permissions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rights {
    /// Reads.
    Read,
    /// Reads, and writes what waits for approval.
    Propose,
    /// Reads and writes.
    Write,
}

#[derive(Args)]
pub(super) struct Rotate {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// Who does not get the new key. What was readable before stays readable there.
    #[arg(long, value_name = "IDENTITY")]
    without: Option<PublicIdentity>,
    /// Seals all pages with the new key now, instead of each at its next checkpoint.
    #[arg(long)]
    reseal: bool,
}

/// Where the identity is.
fn path() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return Ok(path.into());
    }
    let home = std::env::home_dir().context("no home folder: set FADER_DB_IDENTITY to a file")?;
    Ok(home.join(".config/fader/identity"))
}

/// The identity of this user, if there is one.
pub(super) fn identity() -> Result<Option<Identity>> {
    let path = path()?;
    match fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn parse(path: &Path, text: &str) -> Result<Identity> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        let path = path.display();
        return failure::invalid(format_args!(
            "{path} is readable by others: chmod 600 {path}"
        ));
    }
    let found = Identity::parse(text);
    found.with_context(|| format!("{} is no identity: restore it from a copy", path.display()))
}

/// The identity of this user; a new one if there is none.
pub(super) fn identity_or_new() -> Result<Identity> {
    if let Some(identity) = identity()? {
        return Ok(identity);
    }
    let path = path()?;
    let identity = Identity::new(&*system_runtime().entropy);
    let context = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(context)?;
    }
    let mut options = fs::OpenOptions::new();
    // Never over another one: what is sealed for it would be lost.
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&path).with_context(context)?;
    file.write_all(format!("{}\n", &*identity.reveal()).as_bytes())
        .and_then(|()| file.sync_all())
        .with_context(context)?;
    let shown = path.display();
    note!("new identity in {shown}: keep a copy, without it your encrypted collections are lost");
    Ok(identity)
}

/// Prints the public part.
pub(super) fn show() -> Result<ExitCode> {
    let identity = identity_or_new()?;
    output::print(&format!("{}\n", identity.public()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn grant(options: &Grant) -> Result<ExitCode> {
    let database = super::open(&options.at, Access::Write).await?;
    let collection = &options.collection;
    let is_encrypted = database.collection(collection).await?.is_encrypted();
    match options.identity {
        Some(identity) => {
            database.grant(collection, identity).await?;
            note!("set: the key of {}", visible(collection));
        }
        None if is_encrypted => {
            note!(
                "not set: the key of {}: name an identity",
                visible(collection)
            );
        }
        None => {}
    }
    let Some(principal) = &options.principal else {
        note!(
            "not set: access to {} and to its queues: name a --principal",
            visible(&options.at.url)
        );
        return Ok(ExitCode::SUCCESS);
    };
    let right = match options.access {
        Rights::Read => Right::Read,
        Rights::Propose => Right::Propose,
        Rights::Write => Right::Write,
    };
    let permissions = database.needs(collection, right).await?;
    let at = options.at.services.options(Access::Write);
    let done = fader_client::permit(&options.at.url, &at, principal, &permissions).await?;
    for line in &done.set {
        note!("set: {line}");
    }
    for line in &done.unset {
        note!("not set: {line}");
    }
    Ok(match done.unset.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

pub(super) async fn rotate(options: &Rotate) -> Result<ExitCode> {
    let database = super::open(&options.at, Access::Write).await?;
    let collection = &options.collection;
    database.rotate_key(collection, options.without).await?;
    if options.reseal {
        note!("sealing all pages with the new key");
        let pages = database.reseal(collection).await;
        let pages = pages.context("some pages have the old key: run it again with --reseal")?;
        note!("{pages} pages are sealed with the new key");
    }
    Ok(ExitCode::SUCCESS)
}
