//! Rules about prose: its words, and the lengths of its sentences and table cells.
//!
//! `xtask/prose.toml` has the words, the quotes that may break a rule, and the generated pages,
//! whose prose stands in the code.

use std::collections::BTreeMap;

use super::markdown::{self, Kind, Piece};
use super::{Diagnostic, File, Pages, comments};

/// Where the word lists are.
const LISTS: &str = "xtask/prose.toml";

const SENTENCE_WORDS_MAX: usize = 25;
const CELL_WORDS_MAX: usize = 30;
const QUOTES_MAX: usize = 20;

/// The lists of `prose.toml`.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// A banned word or phrase in lower case, and what to write instead.
    banned: BTreeMap<String, String>,
    /// Texts that may stand although they break a rule.
    quotes: Vec<String>,
    /// Pages that a command writes.
    generated: Vec<String>,
    /// Words with which no function's name begins.
    questions: Vec<String>,
}

impl Lists {
    /// The lists among the files; none if the file is not there.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, as a diagnostic.
    pub(super) fn of(files: &[File]) -> Result<Self, Diagnostic> {
        let Some(file) = files.iter().find(|file| file.path == LISTS) else {
            return Ok(Self::default());
        };
        let table: toml::Table = file
            .text
            .parse()
            .map_err(|error: toml::de::Error| file.diagnose(1, error.message()))?;
        let texts = |name: &str| -> Vec<String> {
            let list = table.get(name).and_then(toml::Value::as_array);
            list.into_iter()
                .flatten()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect()
        };
        let banned = table.get("banned").and_then(toml::Value::as_table);
        let lists = Self {
            banned: banned
                .into_iter()
                .flatten()
                .filter_map(|(word, instead)| Some((word.clone(), instead.as_str()?.to_owned())))
                .collect(),
            quotes: texts("quotes"),
            generated: texts("generated"),
            questions: texts("questions"),
        };
        if lists.quotes.len() > QUOTES_MAX {
            let text = format!("{} quotes; at most {QUOTES_MAX}", lists.quotes.len());
            return Err(file.diagnose(1, text));
        }
        Ok(lists)
    }

    pub(super) fn is_generated(&self, path: &str) -> bool {
        self.generated.iter().any(|page| page == path)
    }

    /// Checks the name of a function: its words are none of the list, and it is no question.
    fn judge_name(&self, file: &File, line: usize, name: &str, found: &mut Vec<Diagnostic>) {
        let first = name.split('_').next().unwrap_or_default();
        if self.questions.iter().any(|word| word == first) && !file.is_test() {
            let text = format!("`{name}` is a question: name what the function does or gives");
            found.push(file.diagnose(line, text));
        }
        for (word, instead) in &self.banned {
            if name == word || name.split('_').any(|part| part == word) {
                found.push(file.diagnose(line, format!("`{name}` has `{word}`: {instead}")));
            }
        }
    }

    /// Checks one piece of prose of `file`.
    fn judge(&self, file: &File, piece: &Piece, diagnostics: &mut Vec<Diagnostic>) {
        if self.quotes.iter().any(|quote| piece.text.contains(quote)) {
            return;
        }
        let count = markdown::word_count(&piece.text);
        let (what, max) = match piece.kind {
            Kind::Cell => ("cell", CELL_WORDS_MAX),
            Kind::Sentence | Kind::Heading => ("sentence", SENTENCE_WORDS_MAX),
        };
        if count > max {
            let start: Vec<&str> = piece.text.split(' ').take(5).collect();
            let start = start.join(" ");
            let text = format!("a {what} of {count} words (\"{start} …\"); at most {max}");
            diagnostics.push(file.diagnose(piece.line, text));
        }
        let words = format!(" {} ", letters(&piece.text));
        for (word, instead) in &self.banned {
            if words.contains(&format!(" {word} ")) {
                let text = format!("`{word}`: {instead}");
                diagnostics.push(file.diagnose(piece.line, text));
            }
        }
    }
}

/// The name of the function that a line of Rust begins, if it begins one.
fn function_of(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_begin = before.split_whitespace().all(|word| {
        matches!(word, "async" | "const" | "unsafe" | "extern")
            || word.starts_with("pub")
            || word.ends_with(')')
    });
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let is_call = rest[end..].starts_with(['(', '<']);
    (is_begin && is_call && end > 0).then(|| &rest[..end])
}

/// A text in lower case, in which only letters, digits, hyphens and `_` are left.
fn letters(text: &str) -> String {
    let text: String = text
        .to_lowercase()
        .replace("'s", "")
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_".contains(c) {
                c
            } else {
                ' '
            }
        })
        .collect();
    markdown::squeeze(&text)
}

pub(super) fn check(files: &[File], pages: &Pages<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let lists = match Lists::of(files) {
        Ok(lists) => lists,
        Err(diagnostic) => return diagnostics.push(diagnostic),
    };
    for file in files {
        let Some(page) = pages.get(file.path.as_str()) else {
            continue;
        };
        for (line, text) in &page.mistakes {
            diagnostics.push(file.diagnose(*line, *text));
        }
        if lists.is_generated(&file.path) {
            continue;
        }
        for piece in &page.pieces {
            lists.judge(file, piece, diagnostics);
        }
    }
    for file in files.iter().filter(|file| file.has_extension("rs")) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(name) = function_of(line) {
                lists.judge_name(file, index + 1, name, diagnostics);
            }
        }
    }
    let is_source = |file: &&File| file.has_extension("rs") || file.has_extension("py");
    for file in files.iter().filter(is_source) {
        for block in comments::of(file) {
            for mut piece in markdown::read(&block.text).pieces {
                piece.line += block.line - 1;
                lists.judge(file, &piece, diagnostics);
            }
        }
    }
}
