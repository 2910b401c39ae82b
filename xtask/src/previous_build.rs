//! Binaries of earlier commits of this repository, with which the current one is compared, or has
//! to get along.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;

/// A commit, and where it is built.
pub(crate) struct PreviousBuild<'a> {
    /// Its name.
    pub(crate) commit: &'a str,
    /// Its sources, a work tree of this repository, and what they are built to.
    pub(crate) folder: &'a str,
    /// Whether as what is released, or as what is tested.
    pub(crate) is_release: bool,
}

impl PreviousBuild<'_> {
    /// Builds its binary as the current sources are built; `None`, said on the terminal, in a clone
    /// whose history does not go back to it.
    pub(crate) fn build(&self) -> Result<Option<PathBuf>> {
        let PreviousBuild { commit, folder, .. } = self;
        let name = format!("{commit}^{{commit}}");
        if !git(&["cat-file", "-e", &name])? {
            println!("this clone's history does not have {commit}: nothing to compare with");
            return Ok(None);
        }
        let sources = Path::new(folder).join("source");
        if !sources.join("Cargo.toml").exists() {
            // Git may remember a folder that was removed with the rest of `target`.
            git(&["worktree", "prune"])?;
            let path = sources.to_string_lossy();
            if !git(&["worktree", "add", "--detach", &path, commit])? {
                bail!("cannot check out {commit} in {path}");
            }
        }
        let target = Path::new(folder).join("target");
        let mut build = command::cargo();
        build
            .args(["build", "--package", "fader-fader", "--manifest-path"])
            .arg(sources.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&target);
        let profile = match self.is_release {
            true => "release",
            false => "debug",
        };
        if self.is_release {
            build.arg("--release");
        }
        command::check(&mut build)?;
        Ok(Some(target.join(profile).join("fader")))
    }
}

fn git(arguments: &[&str]) -> Result<bool> {
    command::succeeds(Command::new("git").args(arguments))
}
