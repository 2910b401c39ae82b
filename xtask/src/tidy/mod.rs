//! The house rules that neither rustfmt nor clippy knows.
//!
//! Each rule is a function from the repository's files to complaints; it reads text, not syntax
//! trees, so that all of them together take a second and a new one takes ten lines.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

mod documents;
mod layers;
mod manifests;
mod sources;
#[cfg(test)]
mod tests;

/// A broken rule, at a place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Complaint {
    path: String,
    line: usize,
    text: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// A text file of the repository; its path is relative to the root, with `/`.
struct File {
    path: String,
    text: String,
}

impl File {
    fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|have| have == extension)
    }

    /// Whether the file is only compiled for tests: those may be long and say what cores may not.
    fn is_test(&self) -> bool {
        let path = Path::new(&self.path);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        stem == "tests"
            || stem.ends_with("_tests")
            || path
                .parent()
                .is_some_and(|folder| folder.iter().any(|part| part == "tests"))
    }

    /// The crate's folder (`chain`) of a file below `crates/`.
    fn krate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    fn complain(&self, line: usize, text: impl Into<String>) -> Complaint {
        Complaint {
            path: self.path.clone(),
            line,
            text: text.into(),
        }
    }
}

/// Checks the repository; prints what is wrong.
pub(crate) fn run() -> Result<bool> {
    let files = read(Path::new("."))?;
    let complaints = check(&files);
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => println!("tidy: {} files, nothing to complain about", files.len()),
        count => println!("tidy: {count} complaints"),
    }
    Ok(complaints.is_empty())
}

fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    sources::check(files, &mut complaints);
    manifests::check(files, &mut complaints);
    layers::check(files, &mut complaints);
    documents::check(files, &mut complaints);
    complaints.sort();
    complaints
}

fn read(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = folder.join(&name);
            let kind = entry.file_type()?;
            if kind.is_dir() && !is_foreign(&name) {
                folders.push(below);
            } else if kind.is_file() && name != ".git" {
                let path = below.to_string_lossy().replace('\\', "/");
                // What is not UTF-8 is no text, and no rule speaks of it.
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    files.push(File { path, text });
                }
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Folders that hold what others made: build products, caches, git's own.
fn is_foreign(name: &str) -> bool {
    let is_ours = matches!(name, ".ci" | ".cargo" | ".github");
    matches!(
        name,
        "target" | "node_modules" | "fader-data" | "__pycache__"
    ) || (name.starts_with('.') && !is_ours)
}
