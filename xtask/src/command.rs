//! Starting other programs: cargo, pip, go, mvn.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a program that has ended may have its output held open by another.
const LEFT_OPEN: Duration = Duration::from_secs(5);
/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The root of the repository: the folder above xtask's own, where cargo says that it is now. What
/// it was when xtask was built is asked second: the repository may have been moved since.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent()
        .map_or_else(|| here.clone(), Path::to_path_buf)
}

/// The cargo that runs us. It does not see what cargo told us of our own package. Build scripts of
/// dependencies read such variables, and run again when they change.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// A program that takes only the time of the cores that others leave.
pub(crate) fn giving_way(program: &Path) -> Command {
    const IDLE: &[&str] = &["chrt", "--idle", "0"];
    const NICE: &[&str] = &["nice", "-n", "19"];
    // A sandbox may refuse the policy.
    static WORDS: LazyLock<&[&str]> = LazyLock::new(|| {
        let tried = started_by(IDLE, Path::new("true")).output();
        match tried.is_ok_and(|tried| tried.status.success()) {
            true => IDLE,
            false => NICE,
        }
    });
    started_by(&WORDS, program)
}

fn started_by(words: &[&str], program: &Path) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(program);
    command
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
    /// Cargo, for a command that builds so.
    pub(crate) fn cargo(self, name: &str) -> Command {
        let mut command = cargo();
        command.arg(name).args(match self {
            Profile::Release => ["--profile", "release"],
            Profile::Checked => ["--config", "xtask/checked.toml"],
        });
        command
    }

    /// Builds the programs of these packages.
    pub(crate) fn build(self, packages: &[Package]) -> Result<()> {
        let mut build = self.cargo("build");
        match self {
            Profile::Release => {
                for package in packages {
                    build.args(["--package", package.name]);
                }
            }
            Profile::Checked => {
                build.args(AS_FOR_TESTS);
            }
        }
        let programs: Vec<_> = packages.iter().flat_map(|it| it.programs).collect();
        for program in &programs {
            build.args(["--bin", program]);
        }
        check(&mut build)?;
        match self {
            Profile::Release => Ok(()),
            Profile::Checked => programs.into_iter().try_for_each(|program| keep(program)),
        }
    }

    /// The path of a program that was built so.
    pub(crate) fn program(self, name: &str) -> PathBuf {
        let folder = match self {
            Profile::Release => "release",
            Profile::Checked => "checked",
        };
        root().join("target").join(folder).join(name)
    }
}

/// A package, and the programs that it builds.
#[derive(Clone, Copy)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    programs: &'static [&'static str],
}

/// The program that is released.
pub(crate) const FADER: Package = Package {
    name: "fader-fader",
    programs: &["fader"],
};

/// What measures it.
pub(crate) const MEASURE: Package = Package {
    name: "fader-measure",
    programs: &["fader-bench"],
};

/// What simulates and models.
pub(crate) const SIMULATOR: Package = Package {
    name: "fader-simulator",
    programs: &["fader-simulate", "fader-model"],
};

/// All packages and one small test. Dependencies then have the features that they have for the
/// tests of the workspace, and none is built a second time.
const AS_FOR_TESTS: [&str; 5] = ["--workspace", "--exclude", "xtask", "--test", "sweeps"];

/// Copies a program to where no build for debugging replaces it.
fn keep(program: &str) -> Result<()> {
    let kept = Profile::Checked.program(program);
    let folder = kept.parent().context("a program is in a folder")?;
    fs::create_dir_all(folder)?;
    // A copy that runs cannot be written, but its name can be taken by another.
    let copy = kept.with_extension("new");
    let built = root().join("target/debug").join(program);
    fs::copy(&built, &copy).with_context(|| format!("cannot copy {}", built.display()))?;
    fs::rename(&copy, &kept).with_context(|| format!("cannot replace {}", kept.display()))
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
    bail!("failed: {}", shown(command))
}

/// The program and its arguments, to be read.
pub(crate) fn shown(command: &Command) -> String {
    let mut line = command.get_program().display().to_string();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Runs `command`, showing each line of its output and giving it to `on_line`; whether it
/// succeeded. A process that outlives it with its output open is a failure, not a wait.
pub(crate) fn watch(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<bool> {
    let name = command.get_program().display().to_string();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let output = child.stdout.take().context("its output is piped")?;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut has_ended = false;
    loop {
        match lines.recv_timeout(LEFT_OPEN) {
            Ok(line) => {
                let line = line?;
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                on_line(&line);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?.success()),
            Err(RecvTimeoutError::Timeout) if has_ended => {
                println!("{name} has ended, and a process that it started holds its output");
                return Ok(false);
            }
            Err(RecvTimeoutError::Timeout) => has_ended = child.try_wait()?.is_some(),
        }
    }
}

/// Runs `command` to its end, at most for `limit`: its output, and whether it succeeded. Its output
/// goes through the file `kept`, which a process that outlives it may hold. When the limit is
/// reached it is killed; where it leads a process group, with all that it started.
pub(crate) fn output(
    command: &mut Command,
    kept: &Path,
    limit: Duration,
) -> Result<(String, bool)> {
    let name = command.get_program().display().to_string();
    let file = File::create(kept).with_context(|| format!("cannot create {}", kept.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if limit <= begun.elapsed() {
            let group = format!("-{}", child.id());
            let mut kill = Command::new("kill");
            // There is no such group where it leads none.
            kill.args(["-KILL", "--", &group]).stderr(Stdio::null());
            succeeds(&mut kill)?;
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(LOOK);
    };
    let said = std::fs::read(kept).with_context(|| format!("cannot read {}", kept.display()))?;
    std::fs::remove_file(kept)?;
    let mut said = String::from_utf8_lossy(&said).into_owned();
    if status.is_none() {
        let minutes = limit.as_secs() / 60;
        said.push_str(&format!(
            "\n{name} was ended: it ran for {minutes} minutes\n"
        ));
    }
    Ok((said, status.is_some_and(|status| status.success())))
}

#[cfg(test)]
mod tests;
