//! Rules about documents.
//!
//! A promise in a compatibility table names its test. Each page is in the index. The pages and
//! headings that pages and sources link to are there.

use std::collections::BTreeSet;
use std::path::Path;

use super::markdown::{self, Page};
use super::{Diagnostic, File, Pages};

/// The page that links to every other one.
const INDEX: &str = "docs/README.md";

/// What a path consists of, besides letters and digits.
const PATH_MARKS: &str = "._-/";

pub(super) fn check(files: &[File], pages: &Pages<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let tests = test_names(files);
    for file in files {
        match pages.get(file.path.as_str()) {
            Some(page) => {
                if file.path.starts_with("docs/reference/compatibility/") {
                    promises(file, &tests, diagnostics);
                }
                links(file, page, files, pages, diagnostics);
            }
            // These texts name pages that are not there on purpose.
            None if file.path.starts_with("xtask/src/tidy/tests") => {}
            None => paths_in_code(file, files, pages, diagnostics),
        }
    }
    index(files, pages, diagnostics);
}

/// Every page is linked from the index.
fn index(files: &[File], pages: &Pages<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(index) = pages.get(INDEX) else {
        return;
    };
    let known: BTreeSet<String> = index
        .links
        .iter()
        .map(|link| resolve("docs", link.target.split('#').next().unwrap_or_default()))
        .collect();
    for file in files.iter().filter(|file| file.has_extension("md")) {
        if file.path != INDEX && !known.contains(&file.path) {
            diagnostics.push(file.diagnose(1, format!("is not in {INDEX}")));
        }
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
fn promises(file: &File, tests: &BTreeSet<&str>, diagnostics: &mut Vec<Diagnostic>) {
    let mut column = None;
    for (index, line) in file.text.lines().enumerate() {
        if !line.trim_start().starts_with('|') {
            column = None;
            continue;
        }
        let cells = markdown::cells(line);
        let cells: Vec<&str> = cells.iter().map(|cell| cell.trim()).collect();
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
            diagnostics.push(file.diagnose(index + 1, "the row names no test"));
        }
        for name in named {
            let last = name.rsplit("::").next().unwrap_or(name);
            if !tests.contains(last) {
                diagnostics.push(file.diagnose(index + 1, format!("there is no test `{name}`")));
            }
        }
    }
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Relative links point to files or folders of the repository, and to headings that are there.
fn links(
    file: &File,
    page: &Page,
    files: &[File],
    pages: &Pages<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for link in &page.links {
        let (target, anchor) = match link.target.split_once('#') {
            Some((target, anchor)) => (target, Some(anchor)),
            None => (link.target.as_str(), None),
        };
        if target.contains(':') {
            continue;
        }
        let path = match target {
            "" => file.path.clone(),
            target => resolve(folder, target),
        };
        if !is_there(files, &path) {
            let text = format!("links to `{target}`, which is not there");
            diagnostics.push(file.diagnose(link.line, text));
            continue;
        }
        let heads = pages.get(path.as_str()).map(|page| &page.anchors);
        if let (Some(anchor), Some(heads)) = (anchor, heads)
            && !heads.iter().any(|head| head == anchor)
        {
            let text = format!("links to `{}`, which has no such heading", link.target);
            diagnostics.push(file.diagnose(link.line, text));
        }
    }
}

fn is_there(files: &[File], path: &str) -> bool {
    let below = format!("{path}/");
    files
        .iter()
        .any(|file| file.path == path || file.path.starts_with(&below))
}

/// A page, or a folder of pages, that a source names is there. A name is a path from the root, or
/// its end.
fn paths_in_code(
    file: &File,
    files: &[File],
    pages: &Pages<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (index, line) in file.text.lines().enumerate() {
        if !line.contains("docs/") && !line.contains(".md") {
            continue;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || PATH_MARKS.contains(c);
        for word in line.split(|c| !is_part(c)) {
            let word = word.trim_end_matches(['.', '/']);
            let path = match word.find("docs/") {
                Some(at) if word[..at].ends_with("../") || at == 0 => &word[at..],
                _ => word,
            };
            let is_page = Path::new(path).extension().is_some_and(|have| have == "md");
            let is_known = if path.starts_with("docs/") {
                is_there(files, path)
            } else if is_page && !path.starts_with('.') && !path.starts_with('-') {
                let end = format!("/{}", path.to_lowercase());
                pages
                    .keys()
                    .any(|page| format!("/{page}").to_lowercase().ends_with(&end))
            } else {
                true
            };
            if !is_known {
                let text = format!("names the page `{path}`, which is not there");
                diagnostics.push(file.diagnose(index + 1, text));
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
