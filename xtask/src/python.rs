//! The Python environment of the integration tests: `.venv` with pinned packages; and what can be
//! said of Python files without running them.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

const ENVIRONMENT: &str = ".venv";
const REQUIREMENTS: &str = "tests/requirements.txt";

/// Environments of clients that cannot be with the tests' own, within it, and what they hold.
const OF_CLIENTS: [(&str, &str); 2] = [
    ("query", "tests/sqs/query.txt"),
    ("celery", "tests/sqs/celery.txt"),
];

/// Makes `.venv` hold exactly what `tests/requirements.txt` pins; nothing to do when it does.
pub(crate) fn prepare() -> Result<()> {
    install(Path::new(ENVIRONMENT), REQUIREMENTS)
}

/// Makes the environments of clients hold what they pin.
pub(crate) fn prepare_clients() -> Result<()> {
    for (name, requirements) in OF_CLIENTS {
        install(&Path::new(ENVIRONMENT).join(name), requirements)?;
    }
    Ok(())
}

fn install(environment: &Path, requirements: &str) -> Result<()> {
    // Another step may be at it.
    std::fs::create_dir_all("target")?;
    let turn = File::create("target/python.lock").context("cannot create target/python.lock")?;
    turn.lock()?;
    let installed = environment.join("installed-requirements.txt");
    let wanted = std::fs::read(requirements).with_context(|| requirements.to_owned())?;
    if std::fs::read(&installed).is_ok_and(|have| have == wanted) {
        return Ok(());
    }
    if !environment.join("bin/pip").exists() {
        let mut make = Command::new("python3");
        command::check(make.args(["-m", "venv"]).arg(environment))
            .context("on Debian, `apt-get install python3-venv` provides what is missing")?;
    }
    command::check(Command::new(environment.join("bin/python")).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
        requirements,
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

/// Of so many processes of tests that run side by side, this one draws ports that no other draws.
/// Those of pytest have the lowest numbers.
pub(crate) fn with_ports_of_its_own(process: &mut Command, number: usize) {
    const OF_PYTEST: usize = 8;
    process.env("FADER_TEST_LANE", (OF_PYTEST + number).to_string());
}

/// Whether no Python file of the project uses a name that it does not have, or has one for nothing.
pub(crate) fn check() -> Result<bool> {
    prepare()?;
    command::succeeds(program("pyflakes").args(["crates", "examples", "tests"]))
}
