//! Rules about source files: headers, lengths, names, and the words that cores may not say.

use std::path::Path;

use super::{Diagnostic, File};

const LINES_MAX: usize = 600;
const COLUMNS_MAX: usize = 100;

/// Crates that are pure: no clock, no randomness, no sockets, disks or threads.
const CORES: [&str; 6] = [
    "chain",
    "services",
    "window",
    "history",
    "blink",
    "simulator",
];

const BANNED_IN_CORES: [&str; 9] = [
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "tokio",
    "rand",
    "serde",
    "thread::spawn",
    "std::fs",
];

/// Crates and folders of systems: they take time, tasks and randomness from a `Cloud`, so that the
/// simulator can run them.
const SYSTEMS: [&str; 3] = [
    "crates/cloud/src/bucket/",
    "crates/database/",
    "crates/mapreduce/",
];

const BANNED_IN_SYSTEMS: [&str; 8] = [
    "Instant",
    "SystemTime",
    "tokio",
    "rand",
    "rand_chacha",
    "thread::spawn",
    "thread::sleep",
    "getrandom",
];

/// What carries requests of any service.
const CARRIER: &str = "crates/node/src/";

/// The services, as the carrier never names them, in comments neither.
const SERVICES: [&str; 7] = ["SimpleDB", "SimpleDb", "simpledb", "SQS", "sqs", "S3", "s3"];

/// Names that say nothing about what is inside.
const BANNED_NAMES: [&str; 10] = [
    "util", "utils", "common", "helper", "helpers", "misc", "shared", "manager", "core", "base",
];

const BANNED_MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];

/// Folders of one machine, which mean nothing on another.
const MACHINE_FOLDERS: [&str; 3] = ["/work", "/root", "/home"];

pub(super) fn check(files: &[File], diagnostics: &mut Vec<Diagnostic>) {
    for file in files {
        machine_paths(file, diagnostics);
        services(file, diagnostics);
        if file.has_extension("rs") {
            header(file, diagnostics);
            length(file, diagnostics);
            words(file, diagnostics);
            name(file, diagnostics);
            defaults(file, diagnostics);
            parameters(file, diagnostics);
        }
        if file.has_extension("rs") || file.has_extension("py") {
            columns(file, diagnostics);
        }
    }
}

fn header(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    if !file.text.starts_with("//! ") {
        diagnostics.push(file.diagnose(1, "opens without `//!` saying what the file is"));
    }
}

fn length(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    let count = file.text.lines().count();
    if count > LINES_MAX && !file.is_test() {
        diagnostics.push(file.diagnose(count, format!("{count} lines; at most {LINES_MAX}")));
    }
}

fn columns(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    for (index, line) in file.text.lines().enumerate() {
        let count = line.chars().count();
        if count > COLUMNS_MAX {
            let text = format!("{count} characters in a line; at most {COLUMNS_MAX}");
            diagnostics.push(file.diagnose(index + 1, text));
        }
    }
}

fn words(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    let is_system = SYSTEMS.iter().any(|folder| file.path.starts_with(folder)) && !file.is_test();
    let is_core = file.krate().is_some_and(|krate| CORES.contains(&krate))
        && !file.is_test()
        && !file.path.contains("/examples/");
    for (index, line) in file.text.lines().enumerate() {
        let code = code_of(line);
        for banned in BANNED_MACROS {
            if has_word(&code, banned) {
                diagnostics.push(file.diagnose(index + 1, format!("`{banned}` is left over")));
            }
        }
        for banned in BANNED_IN_CORES.iter().filter(|_| is_core) {
            if has_word(&code, banned) {
                let text = format!("a core may not name `{banned}`");
                diagnostics.push(file.diagnose(index + 1, text));
            }
        }
        for banned in BANNED_IN_SYSTEMS.iter().filter(|_| is_system) {
            if has_word(&code, banned) {
                let text = format!("a system may not name `{banned}`: it has its `Runtime`");
                diagnostics.push(file.diagnose(index + 1, text));
            }
        }
    }
}

fn services(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    if !file.path.starts_with(CARRIER) {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        for service in SERVICES.iter().filter(|service| has_word(line, service)) {
            let text = format!("`{service}` is named where any service is carried");
            diagnostics.push(file.diagnose(index + 1, text));
        }
    }
}

fn name(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    for part in Path::new(&file.path).with_extension("").iter() {
        let part = part.to_string_lossy();
        if BANNED_NAMES.contains(&part.as_ref()) {
            diagnostics.push(file.diagnose(1, format!("`{part}` says nothing as a name")));
        }
    }
}

/// Help that a comment writes cannot know the default that the code has.
fn defaults(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    for (index, line) in file.text.lines().enumerate() {
        let is_help = line.trim_start().starts_with("///") && line.contains("[default");
        if is_help && !file.is_test() {
            let text =
                "a default by hand: help shows the code's (`default_value`, `help = format!`)";
            diagnostics.push(file.diagnose(index + 1, text));
        }
    }
}

/// A call does not show what the elements of a tuple are.
fn parameters(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    if file.is_test() {
        return;
    }
    let code: Vec<String> = file.text.lines().map(code_of).collect();
    let code = code.join("\n");
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        for offset in tuple_patterns(&code[at..]) {
            let line = 1 + code[..at + offset].matches('\n').count();
            let text = "a tuple pattern in a parameter: take its elements one by one, or a struct";
            diagnostics.push(file.diagnose(line, text));
        }
    }
}

/// Where parameters of a function begin that are tuple patterns.
fn tuple_patterns(function: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut depth: usize = 0;
    // Whether a parameter begins here.
    let mut is_begin = false;
    for (at, c) in function.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => {
                if is_begin && c == '(' {
                    found.push(at);
                }
                is_begin = c == '(' && depth == 0;
                depth += 1;
            }
            '>' if function[..at].ends_with(['-', '=']) => {}
            ')' | ']' | '}' | '>' => {
                is_begin = false;
                depth = depth.saturating_sub(1);
                if c == ')' && depth == 0 {
                    break;
                }
            }
            ',' => is_begin = depth == 1,
            '&' => {}
            c if c.is_whitespace() => {}
            _ => is_begin = false,
        }
    }
    found
}

fn machine_paths(file: &File, diagnostics: &mut Vec<Diagnostic>) {
    for (index, line) in file.text.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            let is_named = line.match_indices(folder).any(|(at, _)| {
                let after = line[at + folder.len()..].starts_with('/');
                let before = line[..at].chars().next_back();
                after && !before.is_some_and(|c| c.is_alphanumeric() || "._-/".contains(c))
            });
            if is_named {
                let text = format!("`{folder}/…` is a folder of one machine");
                diagnostics.push(file.diagnose(index + 1, text));
            }
        }
    }
}

/// The line without string literals and comments. A literal that spans lines is not understood; no
/// rule has minded so far.
fn code_of(line: &str) -> String {
    let mut code = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    let mut is_text = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if is_text => drop(chars.next()),
            '\'' if !is_text && chars.peek() == Some(&'"') => drop(chars.next()),
            '"' => is_text = !is_text,
            '/' if !is_text && chars.peek() == Some(&'/') => break,
            _ if is_text => {}
            c => code.push(c),
        }
    }
    code
}

/// Whether `word` stands in `code` with nothing of a name on either side.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && (word.ends_with('!') || !after.is_some_and(is_part))
    })
}
