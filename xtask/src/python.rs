//! The Python environment of the integration tests: `.venv` with pinned packages; and what can be
//! said of Python files without running them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

const ENVIRONMENT: &str = ".venv";
const REQUIREMENTS: &str = "tests/requirements.txt";

/// Makes `.venv` hold exactly what `tests/requirements.txt` pins; nothing to do when it does.
pub(crate) fn prepare() -> Result<()> {
    let environment = Path::new(ENVIRONMENT);
    let installed = environment.join("installed-requirements.txt");
    let wanted = std::fs::read(REQUIREMENTS).context(REQUIREMENTS)?;
    if std::fs::read(&installed).is_ok_and(|have| have == wanted) {
        return Ok(());
    }
    if !environment.join("bin/pip").exists() {
        command::check(Command::new("python3").args(["-m", "venv", ENVIRONMENT]))
            .context("on Debian, `apt-get install python3-venv` provides what is missing")?;
    }
    command::check(Command::new(environment.join("bin/python")).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
        REQUIREMENTS,
    ]))?;
    std::fs::write(&installed, wanted).context("cannot note what is installed")
}

/// A program of the environment.
pub(crate) fn program(name: &str) -> Command {
    Command::new(path(name))
}

/// The path of a program of the environment.
pub(crate) fn path(name: &str) -> std::path::PathBuf {
    command::root().join(ENVIRONMENT).join("bin").join(name)
}

/// Whether no Python file of the project uses a name that it does not have, or has one for nothing.
pub(crate) fn check() -> Result<bool> {
    prepare()?;
    command::succeeds(program("pyflakes").args(["crates", "examples", "tests"]))
}
