//! Reads what `show` writes, and says what is wrong with anything else.

use std::str::FromStr;

use fader_chain::{EntryId, RequestId, Stamp};

use crate::level::{
    Bound, Cause, ConsistencyOptions, DefaultConsistency, Level, Outcome, Outcomes,
    SettlementNotice,
};
use crate::simpledb::Code;

/// What is wrong with a text, for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

fn malformed<T>(message: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(message.into()))
}

const CLIENT_DIGITS_MAX: usize = 32;

/// Reads level, bound and outcome: the header `x-fader-consistency`.
impl FromStr for ConsistencyOptions {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let mut pieces = text.split(';').map(str::trim);
        let word = pieces.next().unwrap_or_default();
        let level = match word {
            "default" => Level::Default,
            "strong" => Level::Strong,
            "barrier" => Level::Barrier,
            "eventual" => Level::EVENTUAL,
            _ => {
                return malformed(format!(
                    "'{word}' is no level: one of strong, barrier, eventual and default"
                ));
            }
        };
        let mut consistency = ConsistencyOptions {
            level,
            ..ConsistencyOptions::default()
        };
        let mut seen: Vec<&str> = Vec::new();
        for piece in pieces {
            let name = piece.split('=').next().unwrap_or_default().trim();
            if seen.contains(&name) {
                return malformed(format!("'{name}' is there twice"));
            }
            seen.push(name);
            consistency.take(piece)?;
        }
        Ok(consistency)
    }
}

/// Reads level and bound; the outcome is for each request to ask.
impl FromStr for DefaultConsistency {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let consistency: ConsistencyOptions = text.parse()?;
        if consistency.level == Level::Default || consistency.outcome {
            return malformed(format!(
                "'{text}' cannot be preferred: a level and its r, w, sloppy and bound can"
            ));
        }
        Ok(DefaultConsistency {
            level: consistency.level,
            bound: consistency.bound,
        })
    }
}

impl ConsistencyOptions {
    fn take(&mut self, parameter: &str) -> Result<(), Malformed> {
        if parameter == "outcome" {
            self.outcome = true;
            return Ok(());
        }
        let pair = parameter.split_once('=');
        let (name, value) = pair.map_or((parameter, None), |(name, value)| {
            (name.trim(), Some(value.trim()))
        });
        let (is_known, level) = (
            ["r", "w", "sloppy", "bound"].contains(&name),
            &mut self.level,
        );
        match (level, name, value) {
            (Level::Eventual { r, .. }, "r", Some(value)) => *r = quorum(name, value)?,
            (Level::Eventual { w, .. }, "w", Some(value)) => *w = quorum(name, value)?,
            (Level::Eventual { sloppy, .. }, "sloppy", None) => *sloppy = true,
            (Level::Eventual { .. }, "bound", Some(value)) => self.bound = Some(value.parse()?),
            (level @ (Level::Default | Level::Strong | Level::Barrier), ..) if is_known => {
                return malformed(format!("'{name}' goes with eventual, not with {level}"));
            }
            _ => {
                return malformed(format!(
                    "'{parameter}' is no parameter: r=N, w=N, sloppy, bound=Nms, bound=Nv or \
                     outcome"
                ));
            }
        }
        Ok(())
    }
}

fn quorum(name: &str, value: &str) -> Result<u8, Malformed> {
    match digits(value) {
        Some(size @ 1..) => Ok(size),
        _ => malformed(format!(
            "{name}={value}: {name} is how many members, a whole number from 1 to 255"
        )),
    }
}

impl FromStr for Bound {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let millis = text.strip_suffix("ms").and_then(digits).map(Bound::Millis);
        let versions = || text.strip_suffix('v').and_then(digits).map(Bound::Versions);
        millis.or_else(versions).ok_or_else(|| {
            Malformed(format!(
                "bound={text}: a bound is milliseconds, as 500ms, or versions, as 10v"
            ))
        })
    }
}

/// Reads the name of a request, `CLIENT/SEQ`.
///
/// # Errors
/// [`Malformed`].
pub fn parse_name(text: &str) -> Result<RequestId, Malformed> {
    let wrong = || {
        Malformed(format!(
            "'{text}' is no request name: CLIENT/SEQ, where CLIENT is 1 to {CLIENT_DIGITS_MAX} \
             hexadecimal digits and SEQ a whole number"
        ))
    };
    let (client, seq) = text.split_once('/').ok_or_else(wrong)?;
    let is_hexadecimal = client.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hexadecimal || CLIENT_DIGITS_MAX < client.len() {
        return Err(wrong());
    }
    Ok(RequestId {
        client: (u128::from_str_radix(client, 16).map_err(|_| wrong())?).into(),
        seq: digits(seq).ok_or_else(wrong)?,
        part: 0,
    })
}

/// Reads a version, `EPOCH.INDEX`.
///
/// # Errors
/// [`Malformed`].
pub fn parse_version(text: &str) -> Result<EntryId, Malformed> {
    let parts = text.split_once('.');
    let id = parts.and_then(|(epoch, index)| Some(EntryId::new(digits(epoch)?, digits(index)?)));
    id.ok_or_else(|| Malformed(format!("'{text}' is no version: EPOCH.INDEX")))
}

/// Reads a stamp: a version, and for an eventual write `+CLOCK.NODE.COUNTER`.
///
/// # Errors
/// [`Malformed`].
pub fn parse_stamp(text: &str) -> Result<Stamp, Malformed> {
    let wrong = || Malformed(format!("'{text}' is no stamp: VERSION+CLOCK.NODE.COUNTER"));
    let Some((base, rest)) = text.split_once('+') else {
        return Ok(Stamp::strong(parse_version(text)?));
    };
    let mut stamp = Stamp::strong(parse_version(base)?);
    let mut parts = rest.split('.');
    let mut next = || parts.next().ok_or_else(wrong);
    stamp.clock = digits(next()?).ok_or_else(wrong)?;
    stamp.node = digits(next()?).ok_or_else(wrong)?;
    stamp.counter = digits(next()?).ok_or_else(wrong)?;
    if parts.next().is_some() || stamp.is_strong() {
        return Err(wrong());
    }
    Ok(stamp)
}

impl FromStr for Outcome {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let pieces: Vec<&str> = text.split(';').map(str::trim).collect();
        match pieces.as_slice() {
            ["applied"] => Ok(Outcome::Applied),
            ["detached"] => Ok(Outcome::Detached),
            ["superseded"] => Ok(Outcome::Superseded(None)),
            ["superseded", "cause=gone"] => Ok(Outcome::Superseded(Some(Cause::Gone))),
            ["superseded", "cause=limit", code] => match code.strip_prefix("code=") {
                Some(name) => Ok(Outcome::Superseded(Some(Cause::Limit(limit(name)?)))),
                None => malformed(format!("'{text}' names no code of the limit")),
            },
            _ => malformed(format!("'{text}' is no outcome")),
        }
    }
}

fn limit(name: &str) -> Result<Code, Malformed> {
    Code::of_decision(name).ok_or_else(|| Malformed(format!("'{name}' is no code of a limit")))
}

impl FromStr for Outcomes {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let mut pieces = text.split(',').map(str::trim);
        let common = pieces.next().unwrap_or_default().parse()?;
        let parts = pieces.map(|piece| {
            let part = piece.split_once('=');
            let part = part.and_then(|(part, outcome)| Some((digits(part)?, outcome)));
            let Some((part, outcome)) = part else {
                return malformed(format!("'{piece}' is not PART=OUTCOME"));
            };
            Ok((part, outcome.parse()?))
        });
        let parts: Vec<(u32, Outcome)> = parts.collect::<Result<_, _>>()?;
        if !parts.is_sorted_by(|(one, _), (other, _)| one < other) {
            return malformed(format!("'{text}' does not list its parts in order"));
        }
        Ok(Outcomes { common, parts })
    }
}

/// Reads the name of an operation: of a request, and the part of a batch.
fn parse_operation(text: &str) -> Result<RequestId, Malformed> {
    let Some((request, part)) = text.rsplit_once('/').filter(|(rest, _)| rest.contains('/')) else {
        return parse_name(text);
    };
    let Some(part @ 1..) = digits(part) else {
        return malformed(format!("'{part}' is no part of a request"));
    };
    let name = parse_name(request)?;
    Ok(RequestId { part, ..name })
}

impl FromStr for SettlementNotice {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let Some((name, outcome)) = text.split_once(' ') else {
            return malformed(format!("'{text}' is not NAME OUTCOME"));
        };
        Ok(SettlementNotice {
            name: parse_operation(name)?,
            outcome: outcome.parse()?,
        })
    }
}

/// A number in decimal digits and nothing else: `u64::from_str` also takes a sign.
fn digits<N: FromStr>(text: &str) -> Option<N> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}
