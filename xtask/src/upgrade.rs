//! A cluster of the version before this one becomes one of this version, member by member, under
//! load, with the binaries of both.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use crate::previous_build::PreviousBuild;
use crate::{command, python};

/// The last commits that speak up to these versions. They are the version before this one, and one
/// long before.
const EARLIER: [(u32, PreviousBuild<'_>); 2] = [
    (
        8,
        PreviousBuild {
            commit: "4dd0cb246551cdb82a46436f2d00e03eacf8deca",
            folder: "target/version-8",
            is_release: false,
        },
    ),
    (
        3,
        PreviousBuild {
            commit: "a89c396d63ce91e3ea4f6a3e4c52725626df3823",
            folder: "target/version-3",
            is_release: false,
        },
    ),
];

/// Which of them.
#[derive(Args)]
pub(crate) struct Options {
    /// Only from this version, 8 or 3.
    #[arg(long)]
    from: Option<u32>,
}

/// Builds all for testing, and replaces each by the current one.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let is_wanted = |version: u32| options.from.is_none_or(|from| from == version);
    let mut are_good = true;
    for (version, earlier) in &EARLIER {
        if is_wanted(*version)
            && let Some(binary) = earlier.build()?
        {
            are_good &= replace(*version, &binary)?;
        }
    }
    Ok(are_good)
}

fn replace(version: u32, earlier: &Path) -> Result<bool> {
    command::check(command::cargo().args(["build", "--package", "fader-fader"]))?;
    python::prepare()?;
    let mut pytest = python::program("pytest");
    pytest
        .args(["-q", "-rs", "--color=no", "tests/test_upgrade.py"])
        .env("FADER_BIN", command::root().join("target/debug/fader"))
        .env("FADER_EARLIER_BIN", command::root().join(earlier))
        .env("FADER_EARLIER_VERSION", version.to_string());
    command::succeeds(&mut pytest)
}
