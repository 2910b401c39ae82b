//! Jepsen's histories: each operation is an invocation and, later, a completion of the same
//! process: `:ok` done, `:fail` refused, `:info` unknown. Without `:time` the line's number is the
//! time.
//!
//! A `:cas` is a swap, its value `[from to]`. In text logs a `:cas` that failed has met another
//! value; in EDN only with `:error :unmet`, and is otherwise refused.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fader_history::Moment;
use fader_history::object::{Operation, Outcome, Place, Reply, Request, Verb};
use serde_json::Value as Json;

use super::edn::Edn;
use super::line::{parts_of, value_of, verb_of};
use super::{Step, Texts};

/// One line of a history.
struct Event {
    process: u32,
    kind: String,
    function: String,
    key: String,
    value: Edn,
    time: Option<i64>,
    is_unmet: bool,
    place: Option<Place>,
    reason: String,
}

pub(super) struct Decoder {
    parse: fn(&str) -> Result<Option<Event>, String>,
    texts: Texts,
    /// What each process has under way, with its line.
    open: BTreeMap<u32, (usize, Operation)>,
}

impl Decoder {
    pub(super) fn edn() -> Self {
        Decoder {
            parse: of_edn,
            texts: Texts::default(),
            open: BTreeMap::new(),
        }
    }

    pub(super) fn text() -> Self {
        Decoder {
            parse: of_text,
            ..Decoder::edn()
        }
    }

    fn invoke(&mut self, number: usize, event: &Event, time: u64) -> Result<(), String> {
        let (value, from) = match (&event.value, event.function.as_str()) {
            (Edn::List(pair), "cas") => match pair.as_slice() {
                [from, to] => (Some(to.json()?), Some(from.json()?)),
                _ => return Err("a cas without [from to]".to_owned()),
            },
            (value, _) => (Some(value.json()?), None),
        };
        let action = match event.function.as_str() {
            "cas" => "swap",
            "enqueue" => "push",
            "dequeue" => "pop",
            other => other,
        };
        let verb = verb_of(action, value.as_ref(), from.as_ref(), &mut self.texts)?;
        let operation = Operation {
            process: event.process,
            session: None,
            endpoint: self.texts.get(""),
            name: None,
            attempt: 1,
            level: self.texts.get(""),
            intended: Moment::at(time),
            called: Moment::at(time),
            action: Request {
                key: self.texts.get(&event.key),
                verb,
            },
            end: None,
            price: None,
        };
        match self.open.insert(event.process, (number, operation)) {
            None => Ok(()),
            Some(_) => Err(format!(
                "process {} has an operation under way",
                event.process
            )),
        }
    }

    fn complete(&mut self, event: &Event, time: u64) -> Result<Operation, String> {
        let (_, mut operation) = self
            .open
            .remove(&event.process)
            .ok_or_else(|| format!("process {} has nothing under way", event.process))?;
        if time < operation.called.nanos {
            return Err("it returned before it was called".to_owned());
        }
        let verb = &operation.action.verb;
        let is_swap = matches!(verb, Verb::Swap { .. });
        let shows = matches!(verb, Verb::Read | Verb::Pop);
        let outcome = match event.kind.as_str() {
            "ok" => {
                let shown = match shows {
                    true => Some(value_of(&event.value.json()?, &mut self.texts)?),
                    false => None,
                };
                Outcome::Done(Reply {
                    shown,
                    is_unmet: false,
                    place: event.place.clone(),
                })
            }
            "fail" if is_swap && event.is_unmet => Outcome::Done(Reply::unmet()),
            "fail" => Outcome::Refused(self.texts.get(&event.reason)),
            _ => Outcome::Unknown,
        };
        operation.end = Some((Moment::at(time), outcome));
        Ok(operation)
    }
}

impl super::Decoder for Decoder {
    fn line(&mut self, number: usize, line: &str) -> Result<Step, String> {
        let Some(event) = (self.parse)(line)? else {
            return Ok(Step::None);
        };
        let time = event
            .time
            .unwrap_or(i64::try_from(number).unwrap_or(i64::MAX));
        let time = u64::try_from(time).map_err(|_| format!("time {time} is negative"))?;
        match event.kind.as_str() {
            "invoke" => {
                self.invoke(number, &event, time)?;
                Ok(Step::None)
            }
            "ok" | "fail" | "info" => Ok(Step::Operation(Box::new(self.complete(&event, time)?))),
            other => Err(format!("type {other}: expected invoke, ok, fail or info")),
        }
    }

    fn rest(&mut self) -> Vec<(usize, Operation)> {
        std::mem::take(&mut self.open).into_values().collect()
    }
}

fn of_edn(line: &str) -> Result<Option<Event>, String> {
    let line = line.trim();
    let line = line.strip_prefix('[').unwrap_or(line);
    if line.is_empty() || line == "]" || line.starts_with(';') {
        return Ok(None);
    }
    let map = Edn::parse(line)?;
    let word = |name: &str| match map.get(name) {
        Some(Edn::Keyword(word) | Edn::Text(word)) => Some(word.clone()),
        Some(Edn::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let process = match map.get("process") {
        // The nemesis is a process by name: it asks for nothing.
        Some(Edn::Keyword(_)) => return Ok(None),
        Some(Edn::Number(process)) => u32::try_from(*process).ok(),
        _ => None,
    };
    let time = match map.get("time") {
        Some(Edn::Number(time)) => Some(*time),
        _ => None,
    };
    Ok(Some(Event {
        process: process.ok_or("no :process")?,
        kind: word("type").ok_or("no :type")?,
        function: word("f").ok_or("no :f")?,
        key: word("key").unwrap_or_default(),
        value: map.get("value").cloned().unwrap_or(Edn::Nil),
        time,
        is_unmet: word("error").is_some_and(|error| error == "unmet"),
        place: word("place").and_then(|place| Place::parse(&place)),
        reason: word("error").unwrap_or_default(),
    }))
}

/// `INFO  jepsen.util - 3 :ok :cas [1 2]`; other lines are skipped.
fn of_text(line: &str) -> Result<Option<Event>, String> {
    let Some((source, rest)) = line.split_once(" - ") else {
        return Ok(None);
    };
    let (process, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (true, Ok(process)) = (source.contains("jepsen.util"), process.parse()) else {
        return Ok(None);
    };
    let list = Edn::parse(&format!("[{rest}]"))?;
    let Edn::List(parts) = list else {
        return Err("expected :type :f value".to_owned());
    };
    match parts.as_slice() {
        [Edn::Keyword(kind), Edn::Keyword(function), value, ..] => Ok(Some(Event {
            process,
            kind: kind.clone(),
            function: function.clone(),
            key: "register".to_owned(),
            value: value.clone(),
            time: None,
            is_unmet: true,
            place: None,
            reason: String::new(),
        })),
        _ => Err("expected :type :f value".to_owned()),
    }
}

/// Writes invocations and completions in the order of their times. The format wants that order, so
/// all lines are kept until the end.
pub(super) struct Encoder<W> {
    out: W,
    /// Time, number and text of each line: of equal times the first operation's comes first.
    lines: Vec<(Moment, usize, String)>,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(out: W) -> Self {
        Encoder {
            out,
            lines: Vec::new(),
        }
    }
}

impl<W: Write> super::Encoder for Encoder<W> {
    fn operation(&mut self, operation: &Operation) -> io::Result<()> {
        let (action, value, from) = parts_of(&operation.action.verb);
        let function = match action {
            "swap" => "cas",
            "push" => "enqueue",
            "pop" => "dequeue",
            other => other,
        };
        let value = match (value, from) {
            (Some(to), Some(from)) => format!("[{} {}]", Edn::of_json(&from), Edn::of_json(&to)),
            (value, _) => Edn::of_json(&value.unwrap_or(Json::Null)),
        };
        let line = |kind: &str, at: Moment, value: &str, more: &str| {
            let (process, nanos) = (operation.process, at.nanos);
            let key = Json::from(operation.action.key.as_ref());
            format!(
                "{{:process {process}, :type :{kind}, :f :{function}, :key {key}, :value {value}, \
                 :time {nanos}{more}}}"
            )
        };
        let called = operation.called;
        let number = self.lines.len();
        let invocation = line("invoke", called, &value, "");
        self.lines.push((called, number, invocation));
        if let Some((at, outcome)) = &operation.end {
            let text = match outcome {
                Outcome::Done(reply) if reply.is_unmet => {
                    line("fail", *at, &value, ", :error :unmet")
                }
                Outcome::Done(reply) => {
                    let shown = reply.shown.as_ref().map(super::line::json_of);
                    let shown = shown.map_or_else(|| value.clone(), |json| Edn::of_json(&json));
                    let place = reply
                        .place
                        .as_ref()
                        .map(|place| format!(", :place \"{place}\""));
                    line("ok", *at, &shown, &place.unwrap_or_default())
                }
                Outcome::Refused(reason) => {
                    let reason = Json::from(reason.as_ref());
                    line("fail", *at, &value, &format!(", :error {reason}"))
                }
                Outcome::Unknown => line("info", *at, &value, ""),
            };
            self.lines.push((*at, number + 1, text));
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.lines.sort();
        for (_, _, line) in self.lines.drain(..) {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }
}
