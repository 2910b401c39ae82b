//! What a request asks of consistency, in headers or parameters, and what its reply tells of it.
//!
//! Invariants:
//! - a request that asks nothing costs a look at the names of its headers and parameters. Its
//!   reply is the service's own, byte for byte.
//! - ASK-2 a name or word that is not known is refused: no client is left believing in what was not
//!   done.
//!
//! Deliberately absent: the grammar (`services::level`), and what is permitted when (`services`).

use std::borrow::Cow;
use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use fader_services::Mode;
use fader_services::catalog::AccountId;
use fader_services::level::{self, ConsistencyOptions, DefaultConsistency, ReplyMetadata, header};
use fader_services::simpledb::{Code, Error};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use crate::parameters::Parameters;
use crate::refusal::{invalid_value, refuse};
use crate::signature;
use crate::simpledb::Action;

const HEADERS: &str = "x-fader-";
const PARAMETERS: &str = "Fader-";

/// A thing to ask for, as a header and as a parameter.
#[derive(Clone, Copy, Debug)]
struct Name {
    header: &'static str,
    parameter: &'static str,
}

const CONSISTENCY: Name = Name {
    header: header::CONSISTENCY,
    parameter: "Fader-Consistency",
};
const SESSION: Name = Name {
    header: header::SESSION,
    parameter: "Fader-Session",
};
const REQUEST: Name = Name {
    header: header::REQUEST,
    parameter: "Fader-Request",
};
const COLLECTION_MODE: Name = Name {
    header: header::COLLECTION_MODE,
    parameter: "Fader-Collection-Mode",
};
const COLLECTION_CONSISTENCY: Name = Name {
    header: header::COLLECTION_CONSISTENCY,
    parameter: "Fader-Collection-Consistency",
};
const NAMES: [Name; 5] = [
    CONSISTENCY,
    SESSION,
    REQUEST,
    COLLECTION_MODE,
    COLLECTION_CONSISTENCY,
];

/// What a request asks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestConsistency {
    /// Of its own operation.
    pub(crate) consistency: ConsistencyOptions,
    /// Of the collection that it creates.
    pub(crate) options: CollectionOptions,
}

/// What a collection is created as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectionOptions {
    /// Who may write to it.
    pub(crate) mode: Option<Mode>,
    /// The level of requests that name none.
    pub(crate) preference: Option<DefaultConsistency>,
}

impl CollectionOptions {
    /// Refuses a nature where no collection is created.
    pub(crate) fn check_is_for(&self, action: Action) -> Result<(), Error> {
        let given = [
            self.mode.map(|_| COLLECTION_MODE),
            self.preference.map(|_| COLLECTION_CONSISTENCY),
        ];
        match given.into_iter().flatten().next() {
            Some(name) if action != Action::CreateDomain => Err(refuse(
                Code::InvalidParameterCombination,
                format!(
                    "The parameter {} can be used with CreateDomain only",
                    name.parameter
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// What the request asks; `None` where it says nothing of it.
pub(crate) fn asked(
    headers: &HeaderMap,
    parameters: &Parameters<'_>,
) -> Result<Option<RequestConsistency>, Error> {
    let is_silent = parameters.starting_with(PARAMETERS).is_empty()
        && !headers
            .keys()
            .any(|name| name.as_str().starts_with(HEADERS));
    if is_silent {
        return Ok(None);
    }
    check_known(headers, parameters)?;
    let source = Source {
        headers,
        parameters,
    };
    let consistency = source.read(CONSISTENCY, str::parse)?;
    let consistency = ConsistencyOptions {
        session: source.read(SESSION, token)?,
        request: source.read(REQUEST, level::parse_name)?,
        ..consistency.unwrap_or_default()
    };
    let options = CollectionOptions {
        mode: source.read(COLLECTION_MODE, str::parse)?,
        preference: source.read(COLLECTION_CONSISTENCY, str::parse)?,
    };
    Ok(Some(RequestConsistency {
        consistency,
        options,
    }))
}

/// A digest of what `account` says in a request, but for how it is signed and asked for. A retry is
/// signed anew, and its session has gone on.
pub(crate) fn digest(account: &AccountId, parameters: &Parameters<'_>) -> u128 {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    add(&account.0);
    for parameter in parameters.all() {
        let name = &*parameter.name;
        if !name.starts_with(PARAMETERS) && !signature::is_parameter(name) {
            add(name);
            add(&parameter.value);
        }
    }
    let hash: [u8; 32] = hash.finalize().into();
    let (half, _) = hash.split_first_chunk().expect("32 bytes begin with 16");
    u128::from_be_bytes(*half)
}

/// Adds what there is to tell to a reply's headers.
pub(crate) fn tell(metadata: &ReplyMetadata, headers: &mut HeaderMap) {
    let mut add = |name: &'static str, value: &dyn Display| {
        let value = HeaderValue::try_from(value.to_string())
            .expect("numbers, names of codes and base64 are visible ASCII");
        headers.append(HeaderName::from_static(name), value);
    };
    if let Some(stamp) = &metadata.stamp {
        add(header::STAMP, &level::show_stamp(stamp));
    }
    if let Some(version) = &metadata.version {
        add(header::VERSION, version);
    }
    if metadata.tentative {
        add(header::TENTATIVE, &true);
    }
    if let Some(outcome) = &metadata.outcome {
        add(header::OUTCOME, outcome);
    }
    if let Some(token) = &metadata.session {
        add(header::SESSION, &URL_SAFE_NO_PAD.encode(token));
    }
    for notice in &metadata.settled {
        add(header::SETTLED, notice);
    }
}

/// Where requests ask.
struct Source<'a> {
    headers: &'a HeaderMap,
    parameters: &'a Parameters<'a>,
}

impl<'a> Source<'a> {
    fn read<T, E: Display>(
        &self,
        name: Name,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Error> {
        let Some((name, text)) = self.text(name)? else {
            return Ok(None);
        };
        let wrong = |error| invalid_value(&text, name, &format!("{error}."));
        parse(&text).map(Some).map_err(wrong)
    }

    /// The text, and the name under which it stands.
    fn text(&self, name: Name) -> Result<Option<(&'static str, Cow<'a, str>)>, Error> {
        let parameter = self.parameters.get(name.parameter).map(Cow::Borrowed);
        let mut values = self.headers.get_all(name.header).iter();
        let Some(header) = values.next() else {
            return Ok(parameter.map(|text| (name.parameter, text)));
        };
        if values.next().is_some() {
            return Err(contradiction(name.header, name.header));
        }
        let header = String::from_utf8_lossy(header.as_bytes());
        match parameter {
            Some(parameter) if parameter != header => {
                Err(contradiction(name.header, name.parameter))
            }
            _ => Ok(Some((name.header, header))),
        }
    }
}

fn check_known(headers: &HeaderMap, parameters: &Parameters<'_>) -> Result<(), Error> {
    let unknown = |given: &str, value: &str, known: [&str; NAMES.len()]| {
        let reason = format!("What can be asked for is {}.", known.join(", "));
        Err(invalid_value(value, given, &reason))
    };
    for (name, value) in headers {
        let is_known = NAMES.iter().any(|known| known.header == name);
        if name.as_str().starts_with(HEADERS) && !is_known {
            let value = String::from_utf8_lossy(value.as_bytes());
            return unknown(name.as_str(), &value, NAMES.map(|name| name.header));
        }
    }
    for parameter in parameters.starting_with(PARAMETERS) {
        if NAMES.iter().all(|known| known.parameter != parameter.name) {
            let known = NAMES.map(|name| name.parameter);
            return unknown(&parameter.name, &parameter.value, known);
        }
    }
    Ok(())
}

fn token(text: &str) -> Result<Bytes, &'static str> {
    match URL_SAFE_NO_PAD.decode(text) {
        Ok(token) => Ok(Bytes::from(token)),
        Err(_) => Err("It is no token that a reply carried"),
    }
}

fn contradiction(one: &str, other: &str) -> Error {
    refuse(
        Code::InvalidParameterCombination,
        format!("The parameter {one} cannot be used with another value of the parameter {other}"),
    )
}

#[cfg(test)]
mod tests;
