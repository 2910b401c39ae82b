//! Conformance of servers that take minutes to build: MinIO, and fake-gcs-server with its wrapper.

use anyhow::Result;

use crate::{command, python};

/// Builds the binary for testing, and runs the suites against each server.
pub(crate) fn run() -> Result<bool> {
    command::check(command::cargo().args(["build", "--package", "fader-fader"]))?;
    python::prepare()?;
    let mut pytest = python::program("pytest");
    pytest
        .args([
            "-q",
            "-rs",
            "--color=no",
            "-m",
            "clouds",
            "tests/test_conformance.py",
        ])
        .env("FADER_BIN", command::root().join("target/debug/fader"));
    command::succeeds(&mut pytest)
}
