//! The parameters of a request, from its query string and its form together.
//!
//! Invariants:
//! - PARAM-1 sorted by name in byte order, as signatures of version 2 want them.
//! - PARAM-2 no two have the same name, wherever they came from: nothing is signed with one value
//!   and carried out with another.

use std::borrow::Cow;

use fader_services::simpledb::{Code, Error};
use memchr::{memchr, memchr3};

use crate::percent::{self, Malformed};
use crate::refusal::{invalid_http, refuse};

/// Up to so many parameters are looked through for a name: most differ in length.
const FEW: usize = 16;

/// Where a parameter stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the query string.
    Query,
    /// In the body.
    Form,
}

/// One decoded parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter<'a> {
    /// Its name.
    pub(crate) name: Cow<'a, str>,
    /// Its value; empty when it had none.
    pub(crate) value: Cow<'a, str>,
    /// Where it stood.
    pub(crate) source: Source,
}

/// All parameters of one request.
#[derive(Debug, Default)]
pub(crate) struct Parameters<'a> {
    sorted: Vec<Parameter<'a>>,
}

impl<'a> Parameters<'a> {
    /// Reads a query string and a form, each possibly empty, of at most `count_max` parameters.
    pub(crate) fn read(
        query: &'a [u8],
        form: &'a [u8],
        count_max: usize,
    ) -> Result<Parameters<'a>, Error> {
        let mut sorted = Vec::with_capacity(FEW);
        for (raw, source) in [(query, Source::Query), (form, Source::Form)] {
            for pair in Pairs::new(raw) {
                if sorted.len() == count_max {
                    let reason = format!("It has more than {count_max} parameters");
                    return Err(invalid_http(&reason));
                }
                sorted.push(pair.read(source)?);
            }
        }
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(given_twice(&twice[0].name));
        }
        Ok(Parameters { sorted })
    }

    /// The value of `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.find(name).map(|parameter| &*parameter.value)
    }

    /// The parameter called `name`.
    pub(crate) fn find(&self, name: &str) -> Option<&Parameter<'a>> {
        if self.sorted.len() <= FEW {
            return self.sorted.iter().find(|parameter| parameter.name == name);
        }
        let order = |parameter: &Parameter<'_>| (*parameter.name).cmp(name);
        let at = self.sorted.binary_search_by(order).ok()?;
        Some(&self.sorted[at])
    }

    /// Those whose name begins with `prefix`, sorted.
    pub(crate) fn starting_with(&self, prefix: &str) -> &[Parameter<'a>] {
        let start = self
            .sorted
            .partition_point(|parameter| *parameter.name < *prefix);
        let count =
            self.sorted[start..].partition_point(|parameter| parameter.name.starts_with(prefix));
        &self.sorted[start..start + count]
    }

    /// All of them, sorted.
    pub(crate) fn all(&self) -> &[Parameter<'a>] {
        &self.sorted
    }
}

/// The pairs of a query string or a form, as they came; empty ones are left out.
struct Pairs<'a> {
    raw: &'a [u8],
    /// Of `raw`, as far as it is UTF-8: it is checked once for all pairs.
    text: &'a str,
    /// Where the next pair begins.
    at: usize,
}

impl<'a> Pairs<'a> {
    fn new(raw: &'a [u8]) -> Pairs<'a> {
        let text = std::str::from_utf8(raw).unwrap_or_else(|error| {
            let valid = raw.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        });
        Pairs { raw, text, at: 0 }
    }

    /// What stands from `start` to `end`.
    fn part(&self, start: usize, end: usize, is_encoded: bool) -> Part<'a> {
        Part {
            raw: &self.raw[start..end],
            text: self.text.get(start..end),
            is_encoded,
        }
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        while self.raw.get(self.at) == Some(&b'&') {
            self.at += 1;
        }
        if self.raw.len() <= self.at {
            return None;
        }
        let start = self.at;
        let (length, is_encoded) = name_end(&self.raw[start..]);
        let end = start + length;
        let name = self.part(start, end, is_encoded);
        let start = (end + usize::from(self.raw.get(end) == Some(&b'='))).min(self.raw.len());
        let (length, is_encoded) = value_end(&self.raw[start..]);
        self.at = start + length;
        let value = self.part(start, self.at, is_encoded);
        Some(Pair { name, value })
    }
}

/// The length of a name, and whether it is encoded. Names are short: a call would cost more.
fn name_end(raw: &[u8]) -> (usize, bool) {
    let mut is_encoded = false;
    for (at, byte) in raw.iter().enumerate() {
        match byte {
            b'=' | b'&' => return (at, is_encoded),
            b'%' | b'+' => is_encoded = true,
            _ => {}
        }
    }
    (raw.len(), is_encoded)
}

/// The length of a value, and whether it is encoded.
fn value_end(raw: &[u8]) -> (usize, bool) {
    match memchr3(b'&', b'%', b'+', raw) {
        None => (raw.len(), false),
        Some(at) if raw[at] == b'&' => (at, false),
        Some(at) => (
            memchr(b'&', &raw[at..]).map_or(raw.len(), |end| at + end),
            true,
        ),
    }
}

/// A name or a value as it came.
struct Part<'a> {
    raw: &'a [u8],
    /// None if it is not UTF-8.
    text: Option<&'a str>,
    is_encoded: bool,
}

impl<'a> Part<'a> {
    fn decode(&self) -> Result<Cow<'a, str>, Malformed> {
        let text = self.text.ok_or(Malformed::Utf8)?;
        match self.is_encoded {
            true => percent::decode(text),
            false => Ok(Cow::Borrowed(text)),
        }
    }
}

struct Pair<'a> {
    name: Part<'a>,
    value: Part<'a>,
}

impl<'a> Pair<'a> {
    fn read(&self, source: Source) -> Result<Parameter<'a>, Error> {
        let name = self.name.decode().map_err(|malformed| match malformed {
            Malformed::Percent => invalid_http("A parameter's name has % without two digits"),
            Malformed::Utf8 => invalid_http("A parameter's name is not UTF-8"),
        })?;
        match self.value.decode() {
            Ok(value) => Ok(Parameter {
                name,
                value,
                source,
            }),
            Err(malformed) => {
                let reason = match malformed {
                    Malformed::Percent => "It has % without two hexadecimal digits",
                    Malformed::Utf8 => "It is not UTF-8",
                };
                let raw = self.value.raw;
                let value = String::from_utf8_lossy(&raw[..raw.len().min(64)]);
                Err(refuse(
                    Code::InvalidParameterValue,
                    format!("Value ({value}) for parameter {name} is invalid. {reason}."),
                ))
            }
        }
    }
}

/// The refusal of a parameter that is given twice.
pub(crate) fn given_twice(name: &str) -> Error {
    refuse(
        Code::InvalidParameterCombination,
        format!("The parameter {name} cannot be used with the parameter {name}"),
    )
}

#[cfg(test)]
mod tests;
