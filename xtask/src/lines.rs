//! Lines of MapReduce: what a reader of the system reads, beside built-in jobs and tests.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::command;

/// The promise.
const LINES_MAX: usize = 6_000;
/// Where it is.
const FOLDER: &str = "crates/mapreduce/src";

/// Counts lines that are neither empty nor a comment, file by file; whether they are few enough.
pub(crate) fn run() -> Result<bool> {
    let root = command::root();
    let mut files = Vec::new();
    collect(&root.join(FOLDER), &mut files)?;
    files.sort();
    let (mut sum, mut apart) = (0, 0);
    for (path, lines) in files {
        let is_apart = is_apart(&path);
        *if is_apart { &mut apart } else { &mut sum } += lines;
        let mark = if is_apart { "  (not counted)" } else { "" };
        println!("{lines:>6} {path}{mark}");
    }
    println!(
        "{sum:>6} lines of code; at most {LINES_MAX}. Built-in jobs, mutants and tests: {apart}"
    );
    Ok(sum <= LINES_MAX)
}

/// Whether a file is a built-in job, or is there for tests alone: the names of rules, and what
/// workers do without one, are.
fn is_apart(path: &str) -> bool {
    let apart = ["builtin", "tests", "guard.rs", "mutant.rs"];
    let mut parts = path.split('/');
    parts.any(|part| apart.iter().any(|begin| part.starts_with(begin)))
}

fn collect(folder: &Path, files: &mut Vec<(String, usize)>) -> Result<()> {
    let context = || folder.display().to_string();
    for entry in fs::read_dir(folder).with_context(context)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).with_context(context)?;
            let name = path.strip_prefix(command::root())?.display().to_string();
            files.push((name, code_lines(&text)));
        }
    }
    Ok(())
}

fn code_lines(text: &str) -> usize {
    let lines = text.lines().map(str::trim_start);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_do_not_count() {
        assert_eq!(
            code_lines("//! What.\n\nfn a() {\n    // Why.\n    b(); // c\n}\n"),
            3
        );
    }

    #[test]
    fn built_in_jobs_and_tests_are_apart() {
        for path in [
            "src/builtin/lines.rs",
            "src/builtin.rs",
            "src/plan/tests.rs",
            "src/guard.rs",
            "src/mutant.rs",
        ] {
            assert!(is_apart(path), "{path}");
        }
        assert!(!is_apart("src/plan.rs"));
    }
}
