//! Starting other programs: cargo, pip, go, mvn.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the repository: the folder above xtask's own, where cargo says that it is now. What
/// it was when xtask was built is asked second: the repository may have been moved since.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent()
        .map_or_else(|| here.clone(), Path::to_path_buf)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// How programs of this repository are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As they are released: what is measured.
    Release,
    /// Optimised, with every assertion: what is tested.
    Checked,
}

impl Profile {
    /// Its name, for cargo and in `target`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Checked => "checked",
        }
    }

    /// Builds the programs of these packages.
    pub(crate) fn build(self, packages: &[&str]) -> Result<()> {
        let mut build = cargo();
        build.args(["build", "--bins", "--profile", self.name()]);
        for package in packages {
            build.args(["--package", package]);
        }
        check(&mut build)
    }

    /// The path of a program that was built so.
    pub(crate) fn program(self, name: &str) -> PathBuf {
        root().join("target").join(self.name()).join(name)
    }
}

/// Runs `command` on our terminal; whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    Ok(status.success())
}

/// Runs `command` on our terminal.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    if succeeds(command)? {
        return Ok(());
    }
    let mut line = command.get_program().display().to_string();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    bail!("failed: {line}")
}

/// Runs `command`, showing each line of its output and giving it to `on_line`; whether it
/// succeeded.
pub(crate) fn watch(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            on_line(&line);
        }
    }
    Ok(child.wait()?.success())
}
