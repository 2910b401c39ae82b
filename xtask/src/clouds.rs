//! Conformance of servers that take minutes to build: MinIO, and fake-gcs-server with its wrapper.
//! Databases behind Toxiproxy. MapReduce's streaming beside Hadoop's. And the whole comparison of
//! the meter with a proxy.

use anyhow::Result;

use crate::{command, fake_s3, python};

/// Calls whose requests a proxy counts.
const METERED_CALLS: u32 = 10_000;

/// Builds the binary for testing, and runs the suites against each server.
pub(crate) fn run() -> Result<bool> {
    command::check(command::cargo().args(["build", "--package", "fader-fader"]))?;
    python::prepare()?;
    let mut pytest = python::program("pytest");
    pytest
        .args(["-q", "-rs", "--color=no", "-m", "clouds", "tests"])
        .env("FADER_BIN", command::root().join("target/debug/fader"));
    Ok(command::succeeds(&mut pytest)? & fake_s3::meter(METERED_CALLS)?)
}
