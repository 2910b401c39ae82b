//! The parameters of a request, from its query string and its form together.
//!
//! Invariants:
//! - PARAM-1 sorted by name in byte order, as signatures of version 2 want them.
//! - PARAM-2 no two have the same name, wherever they came from: nothing is signed with one value
//!   and carried out with another.

use std::borrow::Cow;

use fader_services::simpledb::{Code, Error};
use memchr::memchr;

use crate::percent::{self, Malformed};
use crate::refusal::{invalid_http, refuse};

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
#[derive(Debug)]
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
        let mut sorted = Vec::with_capacity(16);
        for (raw, source) in [(query, Source::Query), (form, Source::Form)] {
            for pair in split(raw, b'&').filter(|pair| !pair.is_empty()) {
                if sorted.len() == count_max {
                    let reason = format!("It has more than {count_max} parameters");
                    return Err(invalid_http(&reason));
                }
                sorted.push(read_pair(pair, source)?);
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
        let at = self
            .sorted
            .binary_search_by(|parameter| (*parameter.name).cmp(name))
            .ok()?;
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

/// The parts of `raw` between separators.
fn split(raw: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(raw);
    std::iter::from_fn(move || {
        let all = rest?;
        let (part, after) = match memchr(separator, all) {
            Some(at) => (&all[..at], Some(&all[at + 1..])),
            None => (all, None),
        };
        rest = after;
        Some(part)
    })
}

fn read_pair(pair: &[u8], source: Source) -> Result<Parameter<'_>, Error> {
    let end = memchr(b'=', pair).unwrap_or(pair.len());
    let raw = pair.get(end + 1..).unwrap_or_default();
    let name = decode(&pair[..end]).map_err(|malformed| match malformed {
        Malformed::Percent => invalid_http("A parameter's name has % without two digits"),
        Malformed::Utf8 => invalid_http("A parameter's name is not UTF-8"),
    })?;
    match decode(raw) {
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
            let value = String::from_utf8_lossy(&raw[..raw.len().min(64)]);
            Err(refuse(
                Code::InvalidParameterValue,
                format!("Value ({value}) for parameter {name} is invalid. {reason}."),
            ))
        }
    }
}

fn decode(raw: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    percent::decode(std::str::from_utf8(raw).map_err(|_| Malformed::Utf8)?)
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
