//! URLs with wildcards: `?` is any character but `/`, `*` any number of them, `**` any characters,
//! and `**/` any number of folders. All of them match leading dots.

use fader_cloud::{Error, ErrorKind, Result};
use regex::Regex;

/// What a query of a URL begins with: another `?` is a wildcard.
const PARAMETERS: [&str; 3] = ["endpoint=", "account=", "unsigned="];

/// Where objects are, and which of them.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The URL of the folder in which all of them are.
    pub base: String,
    keys: Regex,
}

impl Pattern {
    /// Reads a URL. Without a wildcard it names an object, or a folder with all in it.
    ///
    /// # Errors
    /// `Invalid`: it is no URL, or it is too long.
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
        let keys = match (pattern, is_literal) {
            ("", _) => String::new(),
            (_, true) => format!("^{}(/|$)", regex::escape(pattern)),
            (_, false) => format!("(?s)^{}$", expression(pattern)),
        };
        Ok(Pattern {
            base: format!("{scheme}://{base}{slash}{query}"),
            keys: Regex::new(&keys).map_err(|error| invalid(&error.to_string()))?,
        })
    }

    /// Whether it names the object of this key below its base.
    pub fn matches(&self, key: &str) -> bool {
        self.keys.is_match(key)
    }
}

fn query_at(rest: &str) -> Option<usize> {
    let starts = rest.match_indices('?').map(|(at, _)| at);
    let is_query = |at: &usize| PARAMETERS.iter().any(|it| rest[at + 1..].starts_with(it));
    starts.into_iter().find(is_query)
}

/// The regular expression of a pattern. What it matches is found in linear time.
fn expression(pattern: &str) -> String {
    let wildcards = [
        ("**/", "(.*/)?"),
        ("**", ".*"),
        ("*", "[^/]*"),
        ("?", "[^/]"),
    ];
    let mut expression = String::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let wildcard = wildcards.iter().find(|(text, _)| rest.starts_with(text));
        match wildcard {
            Some((_, means)) => expression.push_str(means),
            None => expression.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
        rest = &rest[wildcard.map_or(c.len_utf8(), |(text, _)| text.len())..];
    }
    expression
}
