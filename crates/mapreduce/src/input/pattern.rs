//! URLs with wildcards: `?` is any character but `/`, `*` any number of them, `**` any characters,
//! and `**/` any number of folders. All of them match leading dots.

use fader_cloud::{Error, ErrorKind, Result};

/// What a query of a URL begins with: another `?` is a wildcard.
const PARAMETERS: [&str; 3] = ["endpoint=", "account=", "unsigned="];

/// Where objects are, and which of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The URL of the folder in which all of them are.
    pub base: String,
    tokens: Vec<Token>,
    /// A key, or a folder, when there is no wildcard.
    literal: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Is(char),
    One,
    Many,
    All,
    Folders,
}

impl Pattern {
    /// Reads a URL. Without a wildcard it names an object, or a folder with all in it.
    ///
    /// # Errors
    /// `Invalid`: it is no URL.
    pub fn parse(url: &str) -> Result<Pattern> {
        let invalid = |text: &str| Error::new(ErrorKind::Invalid, format!("{url:?}: {text}"));
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| invalid("it begins with s3://, gs://, az:// or file:///"))?;
        let (path, query) = match query_at(rest) {
            Some(at) if scheme != "file" => (&rest[..at], &rest[at..]),
            _ => (rest, ""),
        };
        let first = path.find(['*', '?']).unwrap_or(path.len());
        let is_literal = first == path.len();
        let trimmed = path.trim_end_matches('/');
        let base_end = match is_literal {
            true => trimmed.rfind('/'),
            false => path[..first].rfind('/'),
        };
        // The bucket, or the root of the file system, is no part of a pattern.
        let least = if scheme == "file" {
            0
        } else {
            path.find('/').unwrap_or(path.len())
        };
        let base_end = base_end.unwrap_or(0).max(least);
        let pattern = path[base_end..].trim_matches('/');
        let (base, pattern) = match (&path[..base_end], pattern) {
            ("", _) if scheme != "file" => return Err(invalid("name a bucket")),
            (base, pattern) => (base, pattern),
        };
        let slash = if scheme == "file" && base.is_empty() {
            "/"
        } else {
            ""
        };
        Ok(Pattern {
            base: format!("{scheme}://{base}{slash}{query}"),
            tokens: tokens(pattern),
            literal: is_literal.then(|| pattern.to_owned()),
        })
    }

    /// Whether it names the object of this key below its base.
    pub fn matches(&self, key: &str) -> bool {
        if let Some(literal) = &self.literal {
            let rest = key.strip_prefix(literal.as_str());
            return literal.is_empty()
                || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        }
        matches(&self.tokens, key)
    }
}

fn query_at(rest: &str) -> Option<usize> {
    let starts = rest.match_indices('?').map(|(at, _)| at);
    let is_query = |at: &usize| PARAMETERS.iter().any(|it| rest[at + 1..].starts_with(it));
    starts.into_iter().find(is_query)
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let (token, size) = match c {
            '*' if rest.starts_with("**/") => (Token::Folders, 3),
            '*' if rest.starts_with("**") => (Token::All, 2),
            '*' => (Token::Many, 1),
            '?' => (Token::One, 1),
            c => (Token::Is(c), c.len_utf8()),
        };
        tokens.push(token);
        rest = &rest[size..];
    }
    tokens
}

/// Follows all ways at once: no pattern takes more than its length times the key's.
fn matches(tokens: &[Token], key: &str) -> bool {
    // At a token, and within a folder of `Folders`.
    let mut at = vec![false; tokens.len() + 1];
    let mut within = vec![false; tokens.len() + 1];
    at[0] = true;
    skip(tokens, &mut at);
    for c in key.chars() {
        let mut next = vec![false; tokens.len() + 1];
        let mut next_within = vec![false; tokens.len() + 1];
        for (number, token) in tokens.iter().enumerate() {
            if !at[number] && !within[number] {
                continue;
            }
            match token {
                Token::Is(own) if *own == c => next[number + 1] = true,
                Token::One if c != '/' => next[number + 1] = true,
                Token::Many if c != '/' => next[number] = true,
                Token::All => next[number] = true,
                Token::Folders if c == '/' => next[number] = true,
                Token::Folders => next_within[number] = true,
                _ => {}
            }
        }
        skip(tokens, &mut next);
        (at, within) = (next, next_within);
    }
    at[tokens.len()]
}

/// Adds what is reached without a character.
fn skip(tokens: &[Token], at: &mut [bool]) {
    for (number, token) in tokens.iter().enumerate() {
        if at[number] && matches!(token, Token::Many | Token::All | Token::Folders) {
            at[number + 1] = true;
        }
    }
}
