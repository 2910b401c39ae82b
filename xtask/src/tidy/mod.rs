//! The house rules that neither rustfmt nor clippy knows.
//!
//! Each rule is a function from the repository's files to diagnostics. It reads text, not syntax
//! trees, so that all of them together take a second and a new one takes ten lines.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::markdown::Page;

mod comments;
mod documents;
mod ids;
mod layers;
mod manifests;
mod markdown;
mod prose;
mod sources;
#[cfg(test)]
mod tests;

/// A broken rule, at a place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Diagnostic {
    path: String,
    line: usize,
    text: String,
}

impl fmt::Display for Diagnostic {
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

    fn diagnose(&self, line: usize, text: impl Into<String>) -> Diagnostic {
        Diagnostic {
            path: self.path.clone(),
            line,
            text: text.into(),
        }
    }
}

/// Checks the repository; prints what is wrong.
pub(crate) fn run() -> Result<bool> {
    let files = read(Path::new("."))?;
    let diagnostics = check(&files);
    for diagnostic in &diagnostics {
        println!("{diagnostic}");
    }
    match diagnostics.len() {
        0 => println!("tidy: {} files, nothing to report", files.len()),
        count => println!("tidy: {count} diagnostics"),
    }
    Ok(diagnostics.is_empty())
}

/// The page `docs/reference/ids.md`, as the sources and documents have it.
///
/// # Errors
///
/// A file cannot be read.
pub(crate) fn ids_page() -> Result<String> {
    Ok(ids::page(&read(Path::new("."))?))
}

fn check(files: &[File]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    sources::check(files, &mut diagnostics);
    manifests::check(files, &mut diagnostics);
    layers::check(files, &mut diagnostics);
    let pages = pages(files);
    documents::check(files, &pages, &mut diagnostics);
    prose::check(files, &pages, &mut diagnostics);
    ids::check(files, &mut diagnostics);
    diagnostics.sort();
    diagnostics
}

/// The documents by their paths, each read once for all rules.
type Pages<'a> = BTreeMap<&'a str, Page>;

fn pages(files: &[File]) -> Pages<'_> {
    files
        .iter()
        .filter(|file| file.has_extension("md"))
        .map(|file| (file.path.as_str(), markdown::read(&file.text)))
        .collect()
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
                if let Some(text) = text_of(&path, fs::read(entry.path())?) {
                    files.push(File { path, text });
                }
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// The text of a file; a file that is not UTF-8 is none, and no rule speaks of it. Where text must
/// be, the rules see the wrong bytes as U+FFFD.
fn text_of(path: &str, bytes: Vec<u8>) -> Option<String> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let extension = Path::new(path).extension()?;
            let is_text = ["md", "rs", "py"].iter().any(|text| extension == *text);
            is_text.then(|| String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
    }
}

/// Folders that hold what others made: build products, caches, git's own.
fn is_foreign(name: &str) -> bool {
    let is_ours = matches!(name, ".ci" | ".cargo" | ".github");
    matches!(
        name,
        "target" | "node_modules" | "fader-data" | "__pycache__"
    ) || (name.starts_with('.') && !is_ours)
}
