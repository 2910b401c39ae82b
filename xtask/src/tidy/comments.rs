//! The comments of Rust and Python as blocks of Markdown.
//!
//! A block is the lines of one comment, or a docstring. Drawings and code within it are left out.

use super::File;

/// A comment without its marks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// The comments of a file, in order.
pub(super) fn of(file: &File) -> Vec<Block> {
    if file.has_extension("rs") {
        lines(&file.text, &["///", "//!", "//"])
    } else {
        let mut blocks = lines(&file.text, &["#"]);
        blocks.extend(docstrings(&file.text));
        blocks
    }
}

/// Comments that take whole lines, by their marks; a longer mark stands before a shorter one.
fn lines(text: &str, marks: &[&str]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let found = marks
            .iter()
            .find_map(|mark| Some((*mark, line.strip_prefix(mark)?)));
        match found {
            Some((mark, rest)) if is_prose(rest) => {
                if open != Some(mark) {
                    let (line, text) = (index + 1, String::new());
                    blocks.push(Block { line, text });
                }
                open = Some(mark);
                if let Some(block) = blocks.last_mut() {
                    push(block, rest);
                }
            }
            // A drawing ends the sentence before it, and keeps the count of lines.
            Some((mark, _)) if open == Some(mark) => {
                if let Some(block) = blocks.last_mut() {
                    push(block, "");
                }
            }
            _ => open = None,
        }
    }
    blocks
}

/// What stands between three quotes at the beginning and the end of a docstring.
const QUOTES: &str = "\"\"\"";

/// Strings between three quotes that begin a line.
fn docstrings(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // Within a docstring, and within a string that is none.
    let (mut is_open, mut is_other) = (false, false);
    let mut indent = 0;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mut rest = line.get(indent..).unwrap_or(trimmed);
        if !is_open {
            rest = trimmed;
            indent = line.len() - trimmed.len();
            let is_odd = line.matches(QUOTES).count() % 2 == 1;
            let begun = rest.strip_prefix(QUOTES).filter(|_| !is_other);
            let Some(begun) = begun else {
                is_other ^= is_odd && !rest.starts_with('#');
                continue;
            };
            rest = begun;
            let (line, text) = (index + 1, String::new());
            blocks.push(Block { line, text });
        }
        let body = rest.split(QUOTES).next().unwrap_or_default();
        is_open = body.len() == rest.len();
        if let Some(block) = blocks.last_mut() {
            let is_prose = is_prose(&format!(" {body}"));
            push(block, if is_prose { body } else { "" });
        }
    }
    blocks
}

fn push(block: &mut Block, line: &str) {
    block.text.push_str(line.trim());
    block.text.push('\n');
}

/// Whether a line of a comment is text: neither indented code nor a drawing.
fn is_prose(line: &str) -> bool {
    let is_drawn =
        |c: char| ('\u{2190}'..='\u{2193}').contains(&c) || ('\u{2500}'..='\u{25FF}').contains(&c);
    !line.starts_with("     ") && !line.contains(is_drawn) && !line.trim_start().starts_with('|')
}
