//! JSON lines: a header, then an object for each operation.

use std::borrow::Cow;
use std::io::{self, Write};

use fader_history::object::{Operation, Outcome, Place, Reply, Request, Value, Verb};
use fader_history::{Clock, Header, Moment, Order};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Step, Texts};

/// The version of the format that is written, and the greatest that is read.
pub(super) const VERSION: u32 = 1;

/// The header's line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine {
    fader_log: u32,
    /// `monotonic` or `virtual`.
    clock: String,
    #[serde(default)]
    start_unix_nanos: u64,
    #[serde(default)]
    target: String,
    #[serde(default)]
    levels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prices: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// `told` or `one-writer`.
    order: String,
}

/// An operation's line; also a row of the table.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    pub(super) process: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<u32>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) endpoint: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub(super) attempt: u32,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) level: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) intended: Option<u64>,
    pub(super) called: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) returned: Option<u64>,
    #[serde(borrow)]
    pub(super) action: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) value: Option<Json>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) from: Option<Json>,
    #[serde(borrow)]
    pub(super) outcome: Cow<'a, str>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub(super) shown: Option<Json>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) price: Option<u64>,
}

fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first(attempt: &u32) -> bool {
    *attempt == 1
}

/// A field that is there, with `null` as a value of its own.
fn some<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(input).map(Some)
}

/// The verbs' names in files.
pub(super) const ACTIONS: &str = "read, write, swap, add, remove, increment, push or pop";

pub(super) fn header_text(header: &Header) -> io::Result<String> {
    let (clock, start_unix_nanos) = match header.clock {
        Clock::Monotonic { start_unix_nanos } => ("monotonic", start_unix_nanos),
        Clock::Virtual => ("virtual", 0),
    };
    let order = match header.order {
        Order::Told => "told",
        Order::OneWriter => "one-writer",
    };
    Ok(serde_json::to_string(&HeaderLine {
        fader_log: VERSION,
        clock: clock.to_owned(),
        start_unix_nanos,
        target: header.target.clone(),
        levels: header.levels.clone(),
        prices: header.prices.clone(),
        seed: header.seed,
        order: order.to_owned(),
    })?)
}

pub(super) fn header_of(text: &str) -> Result<Header, String> {
    let line: HeaderLine = serde_json::from_str(text).map_err(|error| {
        format!("not a header: {error}; a log begins with {{\"fader_log\":{VERSION},...}}")
    })?;
    if VERSION < line.fader_log {
        let version = line.fader_log;
        return Err(format!(
            "version {version} of the format; this reads up to {VERSION}"
        ));
    }
    Ok(Header {
        clock: match line.clock.as_str() {
            "monotonic" => Clock::Monotonic {
                start_unix_nanos: line.start_unix_nanos,
            },
            "virtual" => Clock::Virtual,
            other => return Err(format!("clock {other}: expected monotonic or virtual")),
        },
        target: line.target,
        levels: line.levels,
        prices: line.prices,
        seed: line.seed,
        order: match line.order.as_str() {
            "told" => Order::Told,
            "one-writer" => Order::OneWriter,
            other => return Err(format!("order {other}: expected told or one-writer")),
        },
    })
}

pub(super) fn value_of(json: &Json, texts: &mut Texts) -> Result<Value, String> {
    Ok(match json {
        Json::Null => Value::None,
        Json::String(text) => Value::Text(texts.get(text)),
        Json::Number(number) => Value::Number(
            number
                .as_i64()
                .ok_or_else(|| format!("{number} is no whole number of 64 bits"))?,
        ),
        Json::Array(values) => {
            let values = values.iter().map(|value| value_of(value, texts));
            Value::List(values.collect::<Result<_, _>>()?)
        }
        other => {
            return Err(format!(
                "{other} is no value: expected a number, text or list"
            ));
        }
    })
}

pub(super) fn json_of(value: &Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Number(number) => (*number).into(),
        Value::Text(text) => text.as_ref().into(),
        Value::List(values) => values.iter().map(json_of).collect(),
    }
}

/// The action, and what it names: its name, its value, and what a swap compares.
pub(super) fn parts_of(verb: &Verb) -> (&'static str, Option<Json>, Option<Json>) {
    match verb {
        Verb::Read => ("read", None, None),
        Verb::Write(value) => ("write", Some(json_of(value)), None),
        Verb::Swap { from, to } => ("swap", Some(json_of(to)), Some(json_of(from))),
        Verb::Add(value) => ("add", Some(json_of(value)), None),
        Verb::Remove(value) => ("remove", Some(json_of(value)), None),
        Verb::Increment(by) => ("increment", Some((*by).into()), None),
        Verb::Push(value) => ("push", Some(json_of(value)), None),
        Verb::Pop => ("pop", None, None),
    }
}

pub(super) fn verb_of(
    action: &str,
    value: Option<&Json>,
    from: Option<&Json>,
    texts: &mut Texts,
) -> Result<Verb, String> {
    let mut value = || match value {
        Some(value) => value_of(value, texts),
        None => Err(format!("{action} without a value")),
    };
    Ok(match action {
        "read" => Verb::Read,
        "pop" => Verb::Pop,
        "write" => Verb::Write(value()?),
        "add" => Verb::Add(value()?),
        "remove" => Verb::Remove(value()?),
        "push" => Verb::Push(value()?),
        "increment" => match value()? {
            Value::Number(by) => Verb::Increment(by),
            other => return Err(format!("increment by {other}: expected a number")),
        },
        "swap" => {
            let to = value()?;
            let from = from.ok_or("swap without `from`")?;
            Verb::Swap {
                from: value_of(from, texts)?,
                to,
            }
        }
        other => return Err(format!("action {other}: expected {ACTIONS}")),
    })
}

impl<'a> Line<'a> {
    pub(super) fn of(operation: &'a Operation) -> Line<'a> {
        let (action, value, from) = parts_of(&operation.action.verb);
        let reply = operation.done().map(|(_, reply)| reply);
        let is_scheduled = operation.intended != operation.called;
        Line {
            process: operation.process,
            session: operation.session,
            endpoint: operation.endpoint.as_ref().into(),
            name: operation.name.as_deref().map(Cow::from),
            attempt: operation.attempt,
            level: operation.level.as_ref().into(),
            intended: is_scheduled.then_some(operation.intended.nanos),
            called: operation.called.nanos,
            returned: operation.end.as_ref().map(|(at, _)| at.nanos),
            action: action.into(),
            key: operation.action.key.as_ref().into(),
            value,
            from,
            outcome: match &operation.end {
                Some((_, Outcome::Done(reply))) if reply.is_unmet => "unmet",
                Some((_, Outcome::Done(_))) => "done",
                Some((_, Outcome::Refused(_))) => "refused",
                Some((_, Outcome::Unknown)) | None => "unknown",
            }
            .into(),
            shown: reply.and_then(|reply| reply.shown.as_ref()).map(json_of),
            place: reply
                .and_then(|reply| reply.place.as_ref())
                .map(|place| place.to_string().into()),
            reason: match &operation.end {
                Some((_, Outcome::Refused(reason))) => Some(reason.as_ref().into()),
                _ => None,
            },
            price: operation.price,
        }
    }

    pub(super) fn operation(&self, texts: &mut Texts) -> Result<Operation, String> {
        let verb = verb_of(&self.action, self.value.as_ref(), self.from.as_ref(), texts)?;
        let reply = |texts: &mut Texts| -> Result<Reply, String> {
            let place = match &self.place {
                None => None,
                Some(text) => {
                    let place = Place::parse(text);
                    Some(place.ok_or_else(|| format!("place {text}: expected numbers"))?)
                }
            };
            let shown = self.shown.as_ref().map(|shown| value_of(shown, texts));
            Ok(Reply {
                shown: shown.transpose()?,
                is_unmet: self.outcome == "unmet",
                place,
            })
        };
        let outcome = match self.outcome.as_ref() {
            "done" | "unmet" => Outcome::Done(reply(texts)?),
            "refused" => Outcome::Refused(texts.get(self.reason.as_deref().unwrap_or_default())),
            "unknown" => Outcome::Unknown,
            other => {
                let expected = "expected done, unmet, refused or unknown";
                return Err(format!("outcome {other}: {expected}"));
            }
        };
        if let (Verb::Read, Outcome::Done(reply)) = (&verb, &outcome)
            && reply.shown.is_none()
        {
            return Err("a read that was done without `shown`".to_owned());
        }
        let end = match self.returned {
            Some(at) => Some((Moment::at(at), outcome)),
            None if outcome == Outcome::Unknown => None,
            None => return Err(format!("{} without `returned`", self.outcome)),
        };
        if self.returned.is_some_and(|returned| returned < self.called) {
            return Err("it returned before it was called".to_owned());
        }
        Ok(Operation {
            process: self.process,
            session: self.session,
            endpoint: texts.get(&self.endpoint),
            name: self.name.as_deref().map(|name| texts.get(name)),
            attempt: self.attempt,
            level: texts.get(&self.level),
            intended: Moment::at(self.intended.unwrap_or(self.called)),
            called: Moment::at(self.called),
            action: Request {
                key: texts.get(&self.key),
                verb,
            },
            end,
            price: self.price,
        })
    }
}

#[derive(Default)]
pub(super) struct Decoder {
    texts: Texts,
}

impl super::Decoder for Decoder {
    fn line(&mut self, number: usize, line: &str) -> Result<Step, String> {
        if number == 1 {
            return Ok(Step::Header(Box::new(header_of(line)?)));
        }
        if line.is_empty() {
            return Ok(Step::None);
        }
        let line: Line<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(Step::Operation(Box::new(line.operation(&mut self.texts)?)))
    }
}

pub(super) struct Encoder<W> {
    out: W,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(header: &Header, mut out: W) -> io::Result<Self> {
        writeln!(out, "{}", header_text(header)?)?;
        Ok(Encoder { out })
    }
}

impl<W: Write> super::Encoder for Encoder<W> {
    fn operation(&mut self, operation: &Operation) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, &Line::of(operation))?;
        self.out.write_all(b"\n")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
