//! Splits a Select or Query expression into tokens.
//!
//! Words, numbers and operators are plain ASCII; everything else stands in quotes. `'...'` and
//! `"..."` are for values, `` `...` `` for names, each doubling its own quote to contain it. The
//! tokens of both languages are the same but for the escape inside a value: Select doubles the
//! quote, Query puts a backslash before it.

use std::borrow::Cow;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// A name or keyword without quotes.
    Word(&'t str),
    /// A name in backticks.
    Name(Cow<'t, str>),
    /// A value in quotes.
    Value(Cow<'t, str>),
    /// Digits.
    Number(&'t str),
    /// An operator or a bracket.
    Symbol(&'static str),
}

/// How a value contains its own quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Twice: `'it''s'`.
    Doubled,
    /// After a backslash, as is the backslash itself: `'it\'s'`.
    Backslash,
}

/// Longer ones first, so that the longest match wins.
const SYMBOLS: [&str; 13] = [
    "!=", "<=", ">=", "=", "<", ">", "(", ")", ",", "*", "[", "]", "-",
];

/// The tokens of `text`, or `None` where it has none.
pub(crate) fn tokens(text: &str, escape: Escape) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_ascii_start();
    while let Some(first) = rest.chars().next() {
        let (token, size) = match first {
            '`' => quoted(rest, first, Escape::Doubled).map(|(n, size)| (Token::Name(n), size))?,
            '\'' | '"' => quoted(rest, first, escape).map(|(v, size)| (Token::Value(v), size))?,
            '0'..='9' => {
                let size = run(rest, |c| c.is_ascii_digit());
                (Token::Number(&rest[..size]), size)
            }
            _ if starts_word(first) => {
                let size = run(rest, |c| starts_word(c) || c.is_ascii_digit());
                (Token::Word(&rest[..size]), size)
            }
            _ => {
                let symbol = SYMBOLS
                    .into_iter()
                    .find(|symbol| rest.starts_with(symbol))?;
                (Token::Symbol(symbol), symbol.len())
            }
        };
        tokens.push(token);
        rest = rest[size..].trim_ascii_start();
    }
    Some(tokens)
}

/// Whether a name needs no backticks for its characters.
pub(crate) fn is_word(name: &str) -> bool {
    name.starts_with(starts_word)
        && run(name, |c| starts_word(c) || c.is_ascii_digit()) == name.len()
}

fn starts_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$'
}

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// What stands between the quotes that `text` starts with, and how long it is with them.
fn quoted(text: &str, quote: char, escape: Escape) -> Option<(Cow<'_, str>, usize)> {
    let mut content = Cow::Borrowed("");
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|&(_, next)| next);
        let escaped = match escape {
            Escape::Backslash => c == '\\',
            Escape::Doubled => c == quote && next == Some(quote),
        };
        if escaped {
            content.to_mut().push(chars.next()?.1);
        } else if c == quote {
            return Some((content, at + 1));
        } else if let Cow::Owned(content) = &mut content {
            content.push(c);
        } else {
            content = Cow::Borrowed(&text[1..at + c.len_utf8()]);
        }
    }
    None
}

/// Reads tokens one after the other.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token<'t>>>,
}

impl<'t> Cursor<'t> {
    /// At the first of the tokens.
    pub(crate) fn new(tokens: Vec<Token<'t>>) -> Self {
        Cursor {
            tokens: tokens.into_iter().peekable(),
        }
    }

    /// The next token stays.
    pub(crate) fn peek(&mut self) -> Option<&Token<'t>> {
        self.tokens.peek()
    }

    /// Takes the next token.
    pub(crate) fn take(&mut self) -> Option<Token<'t>> {
        self.tokens.next()
    }

    /// Takes the next token if it is `symbol`.
    pub(crate) fn symbol(&mut self, symbol: &'static str) -> bool {
        self.tokens.next_if_eq(&Token::Symbol(symbol)).is_some()
    }

    /// Takes the next token if it is the word, in any case of letters.
    pub(crate) fn word(&mut self, word: &str) -> bool {
        let is_word =
            |token: &Token<'t>| matches!(token, Token::Word(w) if w.eq_ignore_ascii_case(word));
        self.tokens.next_if(is_word).is_some()
    }

    /// Takes the next token if it is a value.
    pub(crate) fn value(&mut self) -> Option<Cow<'t, str>> {
        match self
            .tokens
            .next_if(|token| matches!(token, Token::Value(_)))?
        {
            Token::Value(value) => Some(value),
            _ => None,
        }
    }
}
