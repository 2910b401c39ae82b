//! A cluster of the version before this one becomes one of this version, member by member, under
//! load, with the binaries of both.

use anyhow::Result;

use crate::previous_build::PreviousBuild;
use crate::{command, python};

/// A commit that speaks up to version 3 of what processes of a cluster have in common.
const VERSION_3: PreviousBuild<'_> = PreviousBuild {
    commit: "a89c396d63ce91e3ea4f6a3e4c52725626df3823",
    folder: "target/version-3",
    is_release: false,
};

/// Builds both for testing, and replaces one by the other.
pub(crate) fn run() -> Result<bool> {
    let Some(earlier) = VERSION_3.build()? else {
        return Ok(true);
    };
    command::check(command::cargo().args(["build", "--package", "fader-fader"]))?;
    python::prepare()?;
    let mut pytest = python::program("pytest");
    pytest
        .args(["-q", "-rs", "--color=no", "tests/test_upgrade.py"])
        .env("FADER_BIN", command::root().join("target/debug/fader"))
        .env("FADER_EARLIER_BIN", command::root().join(earlier));
    command::succeeds(&mut pytest)
}
