//! Price books: what a provider charges for wire requests and bytes.
//!
//! A book is a TOML file with its date and its source. Five are built in; a user may bring others,
//! since prices differ by region and contract.
//!
//! ```toml
//! name = "example"
//! date = "2026-09-01"                # when these prices held
//! source = "https://example.com/pricing"
//! unbilled = [[500, 599]]            # ranges of HTTP statuses that cost nothing
//! machine_hour = 0.14                # SimpleDB's machine time, dollars per hour
//! sent_gigabyte = 0.0                # dollars per 10⁹ bytes of request bodies
//! received_gigabyte = 0.0            # dollars per 10⁹ bytes of answer bodies
//!
//! [million_requests]                 # dollars per million; a kind that is not here is free
//! object-put = 5.0
//! ```
//!
//! Deliberately absent: the price of storage, free tiers, discounts by volume.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};
use crate::meter::{RequestKind, Usage};

/// The built-in books: name and text.
const BUILT_IN: [(&str, &str); 5] = [
    ("aws-2007", include_str!("../prices/aws-2007.toml")),
    ("aws-2026", include_str!("../prices/aws-2026.toml")),
    ("azure", include_str!("../prices/azure.toml")),
    ("gcs", include_str!("../prices/gcs.toml")),
    ("none", include_str!("../prices/none.toml")),
];

const PICO: f64 = 1e12;

/// Dollars, exact to 10⁻¹².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dollars {
    /// 10⁻¹² dollars.
    pub pico: u128,
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pico = 1_000_000_000_000;
        write!(f, "{}.{:012}", self.pico / pico, self.pico % pico)
    }
}

/// What a provider charges.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceBook {
    /// Its name.
    pub name: String,
    /// The day on which these prices held, `YYYY-MM-DD`.
    pub date: String,
    /// Where they stand.
    pub source: String,
    /// Ranges of HTTP statuses that cost nothing.
    pub unbilled: Vec<(u16, u16)>,
    /// 10⁻¹² dollars for a request of each kind.
    requests: BTreeMap<RequestKind, u64>,
    /// 10⁻¹² dollars for a byte of a request's body.
    sent_byte: u64,
    /// 10⁻¹² dollars for a byte of an answer's body.
    received_byte: u64,
    /// Dollars for an hour of machine time; one unit of `box_usage` is 10⁻¹⁰ hours.
    machine_hour: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    date: String,
    source: String,
    unbilled: Vec<(u16, u16)>,
    #[serde(default)]
    machine_hour: f64,
    #[serde(default)]
    sent_gigabyte: f64,
    #[serde(default)]
    received_gigabyte: f64,
    #[serde(default)]
    million_requests: BTreeMap<String, f64>,
}

impl PriceBook {
    /// The names of the built-in books.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(name, _)| name)
    }

    /// A built-in book.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.into_iter().find(|(known, _)| *known == name)?;
        Some(PriceBook::parse(text).expect("a test parses every built-in book"))
    }

    /// Reads a book from the text of a file.
    ///
    /// # Errors
    /// `Invalid`, with the line, when the text is no price book.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |text: String| Error::new(ErrorKind::Invalid, format!("price book: {text}"));
        let file: File = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let kind = |name: &str| {
            RequestKind::ALL
                .into_iter()
                .find(|kind| kind.name() == name)
        };
        let mut requests = BTreeMap::new();
        for (name, dollars) in &file.million_requests {
            let kind = kind(name).ok_or_else(|| {
                let known = RequestKind::ALL.map(RequestKind::name).join(", ");
                invalid(format!(
                    "unknown kind of request {name:?}; there are {known}"
                ))
            })?;
            requests.insert(kind, pico(*dollars, 1e6).map_err(invalid)?);
        }
        pico(file.machine_hour, 1.0).map_err(invalid)?;
        Ok(PriceBook {
            name: file.name,
            date: file.date,
            source: file.source,
            unbilled: file.unbilled,
            requests,
            sent_byte: pico(file.sent_gigabyte, 1e9).map_err(invalid)?,
            received_byte: pico(file.received_gigabyte, 1e9).map_err(invalid)?,
            machine_hour: file.machine_hour,
        })
    }

    /// Whether an answer of this status is billed. A request without an answer is: it may have
    /// been served.
    pub fn bills(&self, status: Option<u16>) -> bool {
        let is_unbilled = |status| {
            self.unbilled
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&status))
        };
        !status.is_some_and(is_unbilled)
    }

    /// The price of one billed request of a kind, without its bytes.
    pub fn request(&self, kind: RequestKind) -> Dollars {
        let pico = self.requests.get(&kind).copied().unwrap_or(0);
        Dollars { pico: pico.into() }
    }

    /// What a usage costs.
    pub fn cost(&self, usage: &Usage) -> Dollars {
        let billed = usage.counts().filter(|(_, status, _)| self.bills(*status));
        let each = billed.map(|(kind, _, count)| {
            let requests = self.request(kind).pico * u128::from(count.chunks);
            let sent = u128::from(self.sent_byte) * u128::from(count.sent_bytes);
            let received = u128::from(self.received_byte) * u128::from(count.received_bytes);
            // 10⁻¹⁰ hours at dollars an hour, in 10⁻¹² dollars.
            let machine = count.box_usage as f64 * self.machine_hour * 100.0;
            requests + sent + received + machine.round() as u128
        });
        Dollars { pico: each.sum() }
    }
}

/// A price of many things as 10⁻¹² dollars for one.
fn pico(dollars: f64, things: f64) -> std::result::Result<u64, String> {
    match dollars.is_finite() && (0.0..1e6).contains(&dollars) {
        true => Ok((dollars * PICO / things).round() as u64),
        false => Err(format!("{dollars} is no price in dollars")),
    }
}

#[cfg(test)]
mod tests;
