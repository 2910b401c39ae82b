//! The binary of the last commit before a node could have company: what one node's cost is compared
//! with.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;

const COMMIT: &str = "727760f3b2790f5706538480e60424be91fb0c56";
/// Its sources, a work tree of this repository, and what they are built to.
const FOLDER: &str = "target/foundation";

/// Builds it as the current sources are built; `None`, said on the terminal, in a clone whose
/// history does not go back to it.
pub(crate) fn build() -> Result<Option<PathBuf>> {
    let commit = format!("{COMMIT}^{{commit}}");
    if !git(&["cat-file", "-e", &commit])? {
        println!("this clone's history does not have {COMMIT}: nothing to compare with");
        return Ok(None);
    }
    let sources = Path::new(FOLDER).join("source");
    if !sources.join("Cargo.toml").exists() {
        // Git may remember a folder that was removed with the rest of `target`.
        git(&["worktree", "prune"])?;
        let path = sources.to_string_lossy();
        if !git(&["worktree", "add", "--detach", &path, COMMIT])? {
            bail!("cannot check out {COMMIT} in {path}");
        }
    }
    let target = Path::new(FOLDER).join("target");
    command::check(
        command::cargo()
            .args([
                "build",
                "--release",
                "--package",
                "fader-fader",
                "--manifest-path",
            ])
            .arg(sources.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target),
    )?;
    Ok(Some(target.join("release/fader")))
}

fn git(arguments: &[&str]) -> Result<bool> {
    command::succeeds(Command::new("git").args(arguments))
}
