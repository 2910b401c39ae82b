//! Rules about Cargo.toml files: the floors of the house, reasons for dependencies, no dead ones.

use super::{Diagnostic, File};

/// The house. Each floor uses only what stands above it.
const FLOORS: [&str; 19] = [
    "fuzz",
    "chain",
    "services",
    "window",
    "history",
    "blink",
    "columns",
    "limiter",
    "cloud",
    "database",
    "mapreduce",
    "streaming",
    "simulator",
    "zookeeper",
    "node",
    "gateway",
    "client",
    "measure",
    "fader",
];

/// One `name = …` or `name.workspace = true` of a manifest.
struct Entry<'a> {
    line: usize,
    section: &'a str,
    name: &'a str,
    text: &'a str,
}

pub(super) fn check(files: &[File], diagnostics: &mut Vec<Diagnostic>) {
    for file in files
        .iter()
        .filter(|file| file.path.ends_with("Cargo.toml"))
    {
        if file.path == "Cargo.toml" {
            reasons(file, diagnostics);
            used_somewhere(file, files, diagnostics);
        } else {
            floors(file, diagnostics);
            inherited(file, diagnostics);
            used(file, files, diagnostics);
        }
    }
}

fn entries(file: &File) -> impl Iterator<Item = Entry<'_>> {
    let mut section = "";
    file.text
        .lines()
        .enumerate()
        .filter_map(move |(index, text)| {
            let text = text.trim();
            if let Some(name) = text.strip_prefix('[') {
                section = name.trim_end_matches(']');
                return None;
            }
            let (name, _) = text.split_once('=').filter(|_| !text.starts_with('#'))?;
            let name = name.trim();
            let name = name.split_once('.').map_or(name, |(name, _)| name);
            Some(Entry {
                line: index + 1,
                section,
                name,
                text,
            })
        })
}

fn is_dependency(entry: &Entry<'_>) -> bool {
    entry.section.ends_with("dependencies")
}

fn floors(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    let height = |name: &str| FLOORS.iter().position(|floor| *floor == name);
    let own = match file.krate() {
        Some(name) => match height(name) {
            Some(height) => height,
            None => {
                let text = format!("crate `{name}` is not in the list of floors");
                diagnostics.push(file.diagnose(1, text));
                return;
            }
        },
        None => FLOORS.len(),
    };
    for entry in entries(file).filter(is_dependency) {
        let Some(name) = entry.name.strip_prefix("fader-") else {
            continue;
        };
        if name == "simulator" && file.krate() != Some("measure") {
            let text = "only `measure` depends on the simulator".to_owned();
            diagnostics.push(file.diagnose(entry.line, text));
        }
        if height(name).is_none_or(|height| height >= own) {
            let text = format!("`{}` does not stand above this crate", entry.name);
            diagnostics.push(file.diagnose(entry.line, text));
        }
    }
}

fn inherited(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    for entry in entries(file).filter(is_dependency) {
        if !entry.text.contains("workspace = true") {
            let text = format!(
                "`{}` does not come from [workspace.dependencies]",
                entry.name
            );
            diagnostics.push(file.diagnose(entry.line, text));
        }
    }
    let has_lints =
        entries(file).any(|entry| entry.section == "lints" && entry.name == "workspace");
    if !has_lints {
        diagnostics.push(file.diagnose(1, "does not inherit the workspace's lints"));
    }
}

/// Every name that a manifest asks for is said in its crate's sources.
fn used(file: &File, files: &[File], diagnostics: &mut Vec<Diagnostic>) {
    let folder = file.path.trim_end_matches("Cargo.toml");
    let sources = || {
        files
            .iter()
            .filter(|source| source.path.starts_with(folder) && source.has_extension("rs"))
    };
    for entry in entries(file).filter(is_dependency) {
        let name = entry.name.replace('-', "_");
        let is_used = sources().any(|source| {
            let mut words = source
                .text
                .split(|c: char| !c.is_alphanumeric() && c != '_');
            words.any(|word| word == name)
        });
        if !is_used {
            diagnostics.push(file.diagnose(entry.line, format!("`{}` is not used", entry.name)));
        }
    }
}

/// Every dependency of the workspace is asked for by a crate.
fn used_somewhere(root: &File, files: &[File], diagnostics: &mut Vec<Diagnostic>) {
    for entry in entries(root).filter(is_dependency) {
        let is_used = files.iter().any(|file| {
            file.path.ends_with("/Cargo.toml")
                && entries(file).any(|other| is_dependency(&other) && other.name == entry.name)
        });
        if !is_used {
            let text = format!("no crate depends on `{}`", entry.name);
            diagnostics.push(root.diagnose(entry.line, text));
        }
    }
}

/// Every foreign dependency stands below a comment `# name: reason` or `# name, name: reason`.
fn reasons(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    let lines: Vec<&str> = file.text.lines().collect();
    for entry in entries(file).filter(|entry| entry.section == "workspace.dependencies") {
        let above = lines[..entry.line - 1].iter().rev();
        let comment = above
            .take_while(|line| !line.is_empty())
            .find(|line| line.starts_with('#'));
        let has_reason = comment
            .and_then(|comment| comment.trim_start_matches('#').split_once(':'))
            .is_some_and(|(names, _)| names.split(',').any(|name| name.trim() == entry.name));
        if !has_reason && !entry.name.starts_with("fader-") {
            let text = format!("`{0}` has no comment `# {0}: reason` above it", entry.name);
            diagnostics.push(file.diagnose(entry.line, text));
        }
    }
}
