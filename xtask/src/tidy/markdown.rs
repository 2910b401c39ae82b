//! Markdown as far as the rules need it: sentences and table cells with their lines, headings as
//! anchors, links, and the mistakes of its syntax.
//!
//! Deliberately absent: nested quotes, HTML, links by reference. The documents do without.

use std::collections::BTreeMap;

/// A piece of prose: what a rule counts the words of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    pub(super) kind: Kind,
    /// Its words, with a space between: code is one word, a link its text.
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Heading,
    Sentence,
    Cell,
}

/// A link to `target`, which may have an `#anchor`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) pieces: Vec<Piece>,
    pub(super) links: Vec<Link>,
    pub(super) anchors: Vec<String>,
    /// Mistakes of syntax, with their lines.
    pub(super) mistakes: Vec<(usize, &'static str)>,
}

/// Reads a page. It never fails: a mistake is part of the result.
pub(super) fn read(text: &str) -> Page {
    let mut reader = Reader::default();
    for (index, line) in text.split('\n').enumerate() {
        let line_number = index + 1;
        if line.contains('\r') {
            reader.page.mistakes.push((line_number, "has a CR"));
        }
        if line.contains('\u{FFFD}') {
            reader.page.mistakes.push((line_number, "is not UTF-8"));
        }
        reader.line(line_number, line.trim_end_matches('\r'));
    }
    reader.end()
}

/// The sentences of the lines of a paragraph, which have their numbers.
pub(super) fn sentences(lines: &[(usize, String)]) -> Vec<Piece> {
    let joined: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
    let plain = plain(&joined.join("\n"));
    let words: Vec<(usize, &str)> = lines
        .iter()
        .zip(plain.split('\n'))
        .flat_map(|((number, _), text)| text.split_whitespace().map(|word| (*number, word)))
        .collect();
    let mut pieces = Vec::new();
    let mut first = 0;
    for (index, (_, word)) in words.iter().enumerate() {
        let next = words.get(index + 1).map(|(_, next)| *next);
        if next.is_none() || ends_sentence(word, next) {
            let sentence: Vec<&str> = words[first..=index].iter().map(|(_, word)| *word).collect();
            pieces.push(Piece {
                line: words[first].0,
                kind: Kind::Sentence,
                text: sentence.join(" "),
            });
            first = index + 1;
        }
    }
    pieces
}

/// How many words a text of [`Piece`] has: what has a letter or a digit.
pub(super) fn word_count(text: &str) -> usize {
    text.split(' ')
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .count()
}

/// The anchor that a heading makes, as GitHub makes it.
pub(super) fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[derive(Default)]
struct Reader {
    page: Page,
    paragraph: Vec<(usize, String)>,
    /// The line on which an open fence begins, and its marks.
    fence: Option<(usize, String)>,
    table: Option<Table>,
    anchors: BTreeMap<String, usize>,
}

/// The table that is open.
struct Table {
    line: usize,
    /// Cells in its head.
    width: usize,
    rows: usize,
}

const NO_RULE: &str = "the table has no line of dashes below its head";

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let trimmed = line.trim_start();
        if let Some((_, marks)) = &self.fence {
            if trimmed.trim_end() == marks {
                self.fence = None;
            }
            return;
        }
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            self.flush();
            let mark = trimmed.chars().next().unwrap_or('`');
            let marks = trimmed.chars().take_while(|c| *c == mark).collect();
            self.fence = Some((number, marks));
            return;
        }
        if trimmed.starts_with('|') {
            if self.table.is_none() {
                self.flush();
            }
            self.row(number, trimmed);
            return;
        }
        self.close_table();
        let level = trimmed.chars().take_while(|c| *c == '#').count();
        if trimmed.is_empty() {
            self.flush();
        } else if (1..=6).contains(&level) && trimmed[level..].starts_with(' ') {
            self.flush();
            self.heading(number, &trimmed[level..]);
        } else {
            let text = item(trimmed);
            if text.len() < trimmed.len() {
                self.flush();
            }
            self.paragraph.push((number, text.to_owned()));
        }
    }

    fn heading(&mut self, number: usize, text: &str) {
        self.links(number, text);
        let text = plain_heading(text);
        let base = anchor(&text);
        let count = self.anchors.entry(base.clone()).or_default();
        let name = if *count == 0 {
            base
        } else {
            format!("{base}-{count}")
        };
        *count += 1;
        self.page.anchors.push(name);
        let (line, kind) = (number, Kind::Heading);
        self.page.pieces.push(Piece { line, kind, text });
    }

    fn row(&mut self, number: usize, line: &str) {
        let cells = cells(line);
        let is_rule = |cell: &String| {
            let cell = cell.trim();
            !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':'))
        };
        let table = self.table.get_or_insert(Table {
            line: number,
            width: cells.len(),
            rows: 0,
        });
        table.rows += 1;
        if table.rows == 2 && !cells.iter().all(is_rule) {
            self.page.mistakes.push((table.line, NO_RULE));
        } else if cells.len() != table.width {
            let text = "the row has another number of cells than the table's head";
            self.page.mistakes.push((number, text));
        }
        if cells.iter().all(is_rule) {
            return;
        }
        self.links(number, line);
        for cell in cells {
            let text = squeeze(&plain(&cell));
            let (line, kind) = (number, Kind::Cell);
            if !text.is_empty() {
                self.page.pieces.push(Piece { line, kind, text });
            }
        }
    }

    fn close_table(&mut self) {
        if let Some(table) = self.table.take_if(|table| table.rows == 1) {
            self.page.mistakes.push((table.line, NO_RULE));
        }
        self.table = None;
    }

    fn flush(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        if paragraph.is_empty() {
            return;
        }
        // A link may go on in the next line.
        let joined: String = paragraph
            .iter()
            .map(|(_, line)| format!("{line}\n"))
            .collect();
        let first = paragraph[0].0;
        for (at, target) in links(&joined) {
            let line = first + joined[..at].matches('\n').count();
            self.page.links.push(Link { line, target });
        }
        self.page.pieces.extend(sentences(&paragraph));
    }

    fn links(&mut self, line: usize, text: &str) {
        for (_, target) in links(text) {
            self.page.links.push(Link { line, target });
        }
    }

    fn end(mut self) -> Page {
        self.flush();
        self.close_table();
        if let Some((line, _)) = self.fence {
            self.page.mistakes.push((line, "the fence is not closed"));
        }
        self.page
    }
}

/// The text of a list item or a quote, or the line as it is.
fn item(line: &str) -> &str {
    for mark in ["- ", "* ", "+ ", "> "] {
        if let Some(rest) = line.strip_prefix(mark) {
            return item(rest.trim_start());
        }
    }
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    match line[digits..].strip_prefix(". ") {
        Some(rest) if digits > 0 => rest,
        _ => line,
    }
}

/// The cells of a table's row.
pub(super) fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut is_code, mut is_escaped) = (false, false);
    let row = line.trim().trim_start_matches('|');
    for c in row.strip_suffix('|').unwrap_or(row).chars() {
        match c {
            '|' if !is_escaped && !is_code => cells.push(String::new()),
            c => {
                is_code ^= c == '`';
                cells.last_mut().expect("there is one").push(c);
            }
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    cells
}

/// Where links begin in a text without fences, and their targets.
fn links(text: &str) -> Vec<(usize, String)> {
    let masked = mask_code(text);
    let mut found = Vec::new();
    for (at, _) in masked.match_indices("](") {
        let rest = &text[at + 2..];
        if let Some(end) = rest.find(')') {
            found.push((at, rest[..end].split_whitespace().collect()));
        }
    }
    found
}

/// The text with every character between backticks replaced, byte for byte.
fn mask_code(text: &str) -> String {
    let mut is_code = false;
    let mask = |c: char| match c {
        '`' => {
            is_code = !is_code;
            "`".to_owned()
        }
        '\n' => "\n".to_owned(),
        c if is_code => "x".repeat(c.len_utf8()),
        c => c.to_string(),
    };
    text.chars().map(mask).collect()
}

/// A heading as it is read: without marks of code and emphasis.
fn plain_heading(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.trim();
    while let Some(open) = rest.find('[') {
        let Some(middle) = rest[open..].find("](").map(|at| open + at) else {
            break;
        };
        let Some(end) = rest[middle..].find(')').map(|at| middle + at) else {
            break;
        };
        plain.push_str(&rest[..open]);
        plain.push_str(&rest[open + 1..middle]);
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    plain.replace(['`', '*'], "")
}

/// The words of a text: code becomes one word, a link its text, emphasis goes.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('`') {
        plain.push_str(&rest[..open]);
        let marks = rest[open..].chars().take_while(|c| *c == '`').count();
        let after = &rest[open + marks..];
        let Some(end) = after.find(&"`".repeat(marks)) else {
            rest = after;
            continue;
        };
        plain.push_str("code");
        // What spans lines keeps its lines.
        plain.push_str(&"\n".repeat(after[..end].matches('\n').count()));
        rest = &after[end + marks..];
    }
    plain.push_str(rest);
    let mut words = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    while let Some(middle) = rest.find("](") {
        words.push_str(&rest[..middle]);
        let after = &rest[middle + 2..];
        let end = after.find(')').map_or(after.len(), |end| end + 1);
        words.push_str(&"\n".repeat(after[..end].matches('\n').count()));
        rest = &after[end..];
    }
    words.push_str(rest);
    words.replace(['*', '[', ']', '\\'], "")
}

/// The words of a text, with one space between.
pub(super) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Abbreviations whose point ends no sentence.
const ABBREVIATIONS: [&str; 6] = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "al."];

/// A sentence ends with a point, unless what follows goes on in lower case.
fn ends_sentence(word: &str, next: Option<&str>) -> bool {
    let bare = word.trim_end_matches(['"', ')', '\'', '”', '_']);
    if !bare.ends_with(['.', '?', '!']) || ABBREVIATIONS.contains(&bare.trim_start_matches('(')) {
        return false;
    }
    let Some(next) = next else { return true };
    let begin = next.trim_start_matches(['"', '(', '\'', '“', '_']);
    // Code may begin a sentence: it is the word `code` here.
    begin.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || c == '∎')
        || begin.starts_with("code")
}
