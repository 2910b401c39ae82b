//! Rules about documents: a promise in a compatibility table names the test that keeps it, and what
//! a document links to in the repository is there.

use std::collections::BTreeSet;

use super::{Complaint, File};

pub(super) fn check(files: &[File], complaints: &mut Vec<Complaint>) {
    let tests = test_names(files);
    for file in files.iter().filter(|file| file.has_extension("md")) {
        if file.path.starts_with("docs/compatibility/") {
            promises(file, &tests, complaints);
        }
        links(file, files, complaints);
    }
}

/// Names of everything that could be a test: functions of Rust, Python, Go and Java.
fn test_names(files: &[File]) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for file in files {
        for line in file.text.lines().map(str::trim_start) {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            let line = line.strip_prefix("async ").unwrap_or(line);
            for keyword in ["fn ", "def ", "func ", "void ", "public void "] {
                if let Some(rest) = line.strip_prefix(keyword) {
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    names.insert(&rest[..end.unwrap_or(rest.len())]);
                }
            }
        }
    }
    names
}

/// In every table with a column headed `test` or `tests`, each row names at least one test that
/// exists.
fn promises(file: &File, tests: &BTreeSet<&str>, complaints: &mut Vec<Complaint>) {
    let mut column = None;
    for (index, line) in file.text.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else {
            column = None;
            continue;
        };
        let cells: Vec<&str> = row
            .trim_end_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let Some(at) = column else {
            column = cells
                .iter()
                .position(|cell| matches!(cell.to_lowercase().as_str(), "test" | "tests"));
            continue;
        };
        if cells
            .iter()
            .all(|cell| cell.chars().all(|c| c == '-' || c == ':'))
        {
            continue;
        }
        let named: Vec<&str> = cells.get(at).map_or(Vec::new(), |cell| quoted(cell));
        if named.is_empty() {
            complaints.push(file.complain(index + 1, "the row names no test"));
        }
        for name in named {
            let last = name.rsplit("::").next().unwrap_or(name);
            if !tests.contains(last) {
                complaints.push(file.complain(index + 1, format!("there is no test `{name}`")));
            }
        }
    }
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Relative links point to files or folders of the repository.
fn links(file: &File, files: &[File], complaints: &mut Vec<Complaint>) {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (index, line) in file.text.lines().enumerate() {
        for part in line.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains(':') {
                continue;
            }
            let path = resolve(folder, target);
            let below = format!("{path}/");
            if !files
                .iter()
                .any(|file| file.path == path || file.path.starts_with(&below))
            {
                let text = format!("links to `{target}`, which is not there");
                complaints.push(file.complain(index + 1, text));
            }
        }
    }
}

fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
