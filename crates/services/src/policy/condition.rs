//! Conditions of statements.
//!
//! ```text
//! Condition := { operator: { key: value | [value, ...], ... }, ... }
//! operator  := ( string | arn | numeric | date | "Bool" | address ) "IfExists"? | "Null"
//! ```
//!
//! All operators and keys must hold; of several values one must, and of a negated operator all. A
//! key without a value fails an operator, and holds a negated one and one with `IfExists`.

use std::net::IpAddr;

use serde_json::{Map, Value as Json};

use super::wildcard::matches;
use super::{Ask, Malformed, malformed, texts};

/// One operator on one key.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    test: Test,
    is_negated: bool,
    if_exists: bool,
    /// In lower case.
    key: String,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Equal,
    EqualIgnoringCase,
    Like,
    Number(Order),
    Date(Order),
    Bool,
    Null,
    Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Operators: what they test, and whether they are negated.
const OPERATORS: [(&str, Test, bool); 26] = [
    ("StringEquals", Test::Equal, false),
    ("StringNotEquals", Test::Equal, true),
    ("StringEqualsIgnoreCase", Test::EqualIgnoringCase, false),
    ("StringNotEqualsIgnoreCase", Test::EqualIgnoringCase, true),
    ("StringLike", Test::Like, false),
    ("StringNotLike", Test::Like, true),
    ("ArnEquals", Test::Like, false),
    ("ArnNotEquals", Test::Like, true),
    ("ArnLike", Test::Like, false),
    ("ArnNotLike", Test::Like, true),
    ("NumericEquals", Test::Number(Order::Equal), false),
    ("NumericNotEquals", Test::Number(Order::Equal), true),
    ("NumericLessThan", Test::Number(Order::Less), false),
    (
        "NumericLessThanEquals",
        Test::Number(Order::LessOrEqual),
        false,
    ),
    ("NumericGreaterThan", Test::Number(Order::Greater), false),
    (
        "NumericGreaterThanEquals",
        Test::Number(Order::GreaterOrEqual),
        false,
    ),
    ("DateEquals", Test::Date(Order::Equal), false),
    ("DateNotEquals", Test::Date(Order::Equal), true),
    ("DateLessThan", Test::Date(Order::Less), false),
    ("DateLessThanEquals", Test::Date(Order::LessOrEqual), false),
    ("DateGreaterThan", Test::Date(Order::Greater), false),
    (
        "DateGreaterThanEquals",
        Test::Date(Order::GreaterOrEqual),
        false,
    ),
    ("Bool", Test::Bool, false),
    ("Null", Test::Null, false),
    ("IpAddress", Test::Address, false),
    ("NotIpAddress", Test::Address, true),
];

/// Reads the conditions of a statement.
pub(super) fn parse(all: &Map<String, Json>) -> Result<Vec<Condition>, Malformed> {
    let mut conditions = Vec::new();
    for (name, keys) in all {
        let plain = name.strip_suffix("IfExists").unwrap_or(name);
        let found = OPERATORS.iter().find(|(operator, ..)| *operator == plain);
        let Some((_, test, is_negated)) = found else {
            return malformed(format!("there is no operator {name}"));
        };
        if *test == Test::Null && plain != name {
            return malformed("Null is about existence: NullIfExists is no operator");
        }
        let Json::Object(keys) = keys else {
            return malformed(format!("{name} has keys with values"));
        };
        for (key, values) in keys {
            let condition = Condition {
                test: *test,
                is_negated: *is_negated,
                if_exists: plain != name,
                key: key.to_ascii_lowercase(),
                values: texts(values)?,
            };
            if !condition
                .values
                .iter()
                .all(|value| condition.understands(value))
            {
                return malformed(format!("a value of {name} on {key} cannot be understood"));
            }
            conditions.push(condition);
        }
    }
    Ok(conditions)
}

impl Condition {
    fn understands(&self, value: &str) -> bool {
        match self.test {
            Test::Equal | Test::EqualIgnoringCase | Test::Like => true,
            Test::Number(_) => number(value).is_some(),
            Test::Date(_) => date(value).is_some(),
            Test::Bool | Test::Null => matches!(value, "true" | "false"),
            Test::Address => Network::parse(value).is_some(),
        }
    }

    /// The key that it tests, in lower case.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// What it compares the key with.
    pub(super) fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether it holds for few: for named accounts, or for addresses of a network that is not
    /// most of them.
    pub(super) fn is_narrow(&self) -> bool {
        // Some have no value here: what they allow is allowed to none.
        const KEYS: [&str; 11] = [
            "aws:principalaccount",
            "aws:principalarn",
            "aws:principalorgid",
            "aws:sourceaccount",
            "aws:sourcearn",
            "aws:sourceip",
            "aws:sourceowner",
            "aws:sourcevpc",
            "aws:sourcevpce",
            "aws:userid",
            "s3:x-amz-server-side-encryption-aws-kms-key-id",
        ];
        let is_fixed = |value: &String| match self.test {
            Test::Equal | Test::EqualIgnoringCase | Test::Like => !value.contains(['*', '?']),
            Test::Address => Network::parse(value).is_some_and(|it| it.is_narrow()),
            _ => false,
        };
        let is_known = KEYS.contains(&self.key.as_str());
        is_known && !self.is_negated && !self.if_exists && self.values.iter().all(is_fixed)
    }

    /// Whether it holds for what is asked.
    pub(super) fn holds(&self, ask: &Ask) -> bool {
        let actual = ask.get(&self.key);
        if self.test == Test::Null {
            return self
                .values
                .iter()
                .any(|value| (value == "true") == actual.is_none());
        }
        let Some(actual) = actual else {
            return self.is_negated || self.if_exists;
        };
        let is_one = self.values.iter().any(|value| self.is_met(value, actual));
        is_one != self.is_negated
    }

    fn is_met(&self, value: &str, actual: &str) -> bool {
        match self.test {
            Test::Equal => value == actual,
            Test::EqualIgnoringCase => value.eq_ignore_ascii_case(actual),
            Test::Like => matches(value, actual),
            Test::Bool => value == actual,
            Test::Null => false,
            Test::Number(order) => match (number(actual), number(value)) {
                (Some(actual), Some(value)) => order.holds(actual, value),
                _ => false,
            },
            Test::Date(order) => match (date(actual), date(value)) {
                (Some(actual), Some(value)) => order.holds(actual, value),
                _ => false,
            },
            Test::Address => match (Network::parse(value), actual.parse()) {
                (Some(network), Ok(address)) => network.has(address),
                _ => false,
            },
        }
    }
}

impl Order {
    fn holds(self, actual: f64, value: f64) -> bool {
        match self {
            Order::Equal => actual == value,
            Order::Less => actual < value,
            Order::LessOrEqual => actual <= value,
            Order::Greater => value < actual,
            Order::GreaterOrEqual => value <= actual,
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Seconds since 1970: a number of them, or `2026-11-24`, or `2026-11-24T10:00:00Z`.
fn date(text: &str) -> Option<f64> {
    if let Some(seconds) = number(text) {
        return Some(seconds);
    }
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let mut parts = day.splitn(3, '-').map(str::parse::<u32>);
    let mut part = || parts.next()?.ok();
    let (year, month, day) = (part()?, part()?, part()?);
    let is_day = (1970..=9999).contains(&year) && (1..=12).contains(&month);
    if !is_day || !(1..=31).contains(&day) {
        return None;
    }
    let mut parts = time.splitn(3, ':');
    let (hour, minute) = (
        parts.next()?.parse::<u32>().ok()?,
        parts.next()?.parse::<u32>().ok()?,
    );
    let second = number(parts.next()?).filter(|second| (0.0..61.0).contains(second))?;
    if 23 < hour || 59 < minute {
        return None;
    }
    let days = f64::from(days_since_1970(year, month, day));
    Some(days * 86_400.0 + f64::from(hour * 3600 + minute * 60) + second)
}

/// Counted in years that begin in March, so that a leap day ends one.
fn days_since_1970(year: u32, month: u32, day: u32) -> u32 {
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        month => (year, month - 3),
    };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    let days = before + (153 * month + 2) / 5 + day - 1;
    days - 719_468
}

/// Addresses with the same first bits.
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Network { address, bits })
    }

    /// Whether it is at most a 256th of IPv4, or a network of IPv6 with a long prefix.
    fn is_narrow(&self) -> bool {
        match self.address {
            IpAddr::V4(_) => 8 <= self.bits,
            IpAddr::V6(_) => 32 <= self.bits,
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differ = u32::from(ours) ^ u32::from(theirs);
                self.bits == 0 || differ >> (32 - self.bits) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differ = u128::from(ours) ^ u128::from(theirs);
                self.bits == 0 || differ >> (128 - self.bits) == 0
            }
            _ => false,
        }
    }
}
