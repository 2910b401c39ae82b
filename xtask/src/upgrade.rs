//! A cluster of the version before this one becomes one of this version, member by member, under
//! load, with the binaries of both.

use anyhow::Result;

use crate::earlier::Earlier;
use crate::{command, python};

/// The last commit that spoke version 2 of what processes of a cluster have in common.
const VERSION_2: Earlier = Earlier {
    commit: "e05c5b12339bb2a11300df96294fb9b6b55601c7",
    folder: "target/version-2",
    is_release: false,
};

/// Builds both for testing, and replaces one by the other.
pub(crate) fn run() -> Result<bool> {
    let Some(earlier) = VERSION_2.build()? else {
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
