//! Rules about modules. In a crate with layers each one uses only those below it, and no modules of
//! one folder use each other in a circle.
//!
//! A module and those inside it are one, seen from outside; inside, it may use what it is part of.

use std::collections::{BTreeMap, BTreeSet};

use super::{Diagnostic, File};

/// The modules of a crate, each above those that it may use.
struct Crate {
    sources: &'static str,
    layers: &'static [&'static str],
}

const CRATES: [Crate; 1] = [Crate {
    sources: "crates/node/src/",
    layers: &[
        "node",
        "request",
        "cluster",
        "member",
        "coordinator",
        "peer",
        "secrets",
        "settings",
        "storage",
        "status",
        "clock",
        "random",
    ],
}];

/// A module's path from the crate's root.
type Path<'a> = Vec<&'a str>;

/// Where one module names another, or something of it.
struct Use<'a> {
    file: &'a File,
    line: usize,
    from: Path<'a>,
    to: Path<'a>,
}

pub(super) fn check(files: &[File], diagnostics: &mut Vec<Diagnostic>) {
    for Crate { sources, layers } in CRATES {
        let modules: Vec<(&File, Path<'_>)> = files
            .iter()
            .filter(|file| file.has_extension("rs") && !file.is_test())
            .filter_map(|file| Some((file, module(file.path.strip_prefix(sources)?))))
            .collect();
        let known: BTreeSet<Path<'_>> = modules.iter().map(|(_, path)| path.clone()).collect();
        let uses: Vec<Use<'_>> = modules
            .iter()
            .filter(|(_, path)| !path.is_empty())
            .flat_map(|(file, path)| uses(file, path, &known))
            .collect();
        for (file, path) in &modules {
            if let [top] = path[..]
                && !layers.contains(&top)
            {
                let text = format!("`{top}` is not in the list of layers");
                diagnostics.push(file.diagnose(1, text));
            }
        }
        upwards(&uses, layers, diagnostics);
        circles(&uses, diagnostics);
    }
}

/// The path of a file's module, by its place below the crate's sources.
fn module(path: &str) -> Path<'_> {
    let path = path.trim_end_matches(".rs");
    let mut path: Path<'_> = path.split('/').collect();
    if matches!(path.last(), Some(&("mod" | "lib"))) {
        path.pop();
    }
    path
}

/// What a module names of others, each with the deepest module that has it.
fn uses<'a>(file: &'a File, own: &Path<'a>, known: &BTreeSet<Path<'a>>) -> Vec<Use<'a>> {
    let mut uses = Uses {
        file,
        own,
        known,
        found: Vec::new(),
    };
    let text = file.text.split("\n#[cfg(test)]\nmod tests {").next();
    let text = text.unwrap_or_default();
    for (at, _) in text.match_indices("crate::") {
        uses.note(text, at, at + "crate::".len(), &Vec::new());
    }
    for (at, _) in text.match_indices("super::") {
        // Of several in a row the first leads on.
        if text[..at].ends_with("super::") {
            continue;
        }
        let (mut end, mut base) = (at, own.clone());
        while text[end..].starts_with("super::") {
            end += "super::".len();
            base.pop();
        }
        uses.note(text, at, end, &base);
    }
    uses.found
}

/// What is found in one file, with what a path is looked up in.
struct Uses<'a, 'k> {
    file: &'a File,
    own: &'k Path<'a>,
    known: &'k BTreeSet<Path<'a>>,
    found: Vec<Use<'a>>,
}

impl<'a> Uses<'a, '_> {
    /// Takes the paths that begin at `end` of the text, below `base`.
    fn note(&mut self, text: &'a str, at: usize, end: usize, base: &Path<'a>) {
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let is_comment = text[line_start..at].trim_start().starts_with("//");
        let is_word =
            text[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_' || it == '$');
        if is_comment || is_word {
            return;
        }
        let line = text[..at].matches('\n').count() + 1;
        let mut paths = Vec::new();
        tree(&text[end..], base, &mut paths);
        for mut to in paths {
            while !self.known.contains(&to) {
                to.pop();
            }
            self.found.push(Use {
                file: self.file,
                line,
                from: self.own.clone(),
                to,
            });
        }
    }
}

/// The paths of a tree such as `a::{b, c::d}`; what follows the tree.
fn tree<'a>(text: &'a str, base: &Path<'a>, paths: &mut Vec<Path<'a>>) -> &'a str {
    let mut path = base.clone();
    let mut rest = text;
    loop {
        if let Some(mut list) = rest.strip_prefix('{') {
            loop {
                list = tree(list.trim_start(), &path, paths).trim_start();
                match list.strip_prefix(',') {
                    Some(more) => list = more,
                    None => return list.strip_prefix('}').unwrap_or(list),
                }
            }
        }
        let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        if !name.is_empty() && name != "self" {
            path.push(name);
        }
        match after.strip_prefix("::") {
            Some(more) => rest = more,
            None => {
                paths.push(path);
                return after;
            }
        }
    }
}

fn upwards(uses: &[Use<'_>], layers: &[&str], diagnostics: &mut Vec<Diagnostic>) {
    let place = |path: &Path<'_>| layers.iter().position(|layer| Some(layer) == path.first());
    for it in uses {
        let (Some(from), Some(to)) = (place(&it.from), place(&it.to)) else {
            continue;
        };
        if to < from {
            let text = format!("`{}` may not use `{}` above it", layers[from], layers[to]);
            diagnostics.push(it.file.diagnose(it.line, text));
        }
    }
}

fn circles(uses: &[Use<'_>], diagnostics: &mut Vec<Diagnostic>) {
    // Of each folder: who uses whom in it, and where first.
    let mut folders: BTreeMap<&[&str], BTreeMap<(&str, &str), &Use<'_>>> = BTreeMap::new();
    for it in uses {
        let same = it
            .from
            .iter()
            .zip(&it.to)
            .take_while(|(from, to)| from == to);
        let depth = same.count();
        // Among the layers themselves each use upwards is told.
        if depth == 0 {
            continue;
        }
        if let (Some(from), Some(to)) = (it.from.get(depth), it.to.get(depth)) {
            let folder = folders.entry(&it.from[..depth]).or_default();
            folder.entry((from, to)).or_insert(it);
        }
    }
    for (folder, edges) in folders {
        if let Some(circle) = circle(&edges) {
            let first = edges[&(circle[0], circle[1])];
            let names = circle.join(" -> ");
            let folder = folder.join("/");
            let text = format!("a circle in `{folder}`: {names}");
            diagnostics.push(first.file.diagnose(first.line, text));
        }
    }
}

/// A shortest circle of edges, its beginning also its end.
fn circle<'a>(edges: &BTreeMap<(&'a str, &'a str), &Use<'_>>) -> Option<Vec<&'a str>> {
    let starts: BTreeSet<&str> = edges.keys().map(|(from, _)| *from).collect();
    let circles = starts.into_iter().filter_map(|start| {
        let mut ways = vec![vec![start]];
        let mut seen = BTreeSet::new();
        while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in ways {
                let last = *way.last()?;
                for (_, to) in edges.keys().filter(|(from, _)| *from == last) {
                    let mut next = way.clone();
                    next.push(to);
                    if *to == start {
                        return Some(next);
                    }
                    if seen.insert(*to) {
                        longer.push(next);
                    }
                }
            }
            ways = longer;
        }
        None
    });
    circles.min_by_key(Vec::len)
}
