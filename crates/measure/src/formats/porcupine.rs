//! Porcupine's `Operation` as JSON, one a line, with its field names. A call without an answer
//! returns at the greatest time and has `{"unknown":true}` as its output.

use std::io::{self, Write};

use fader_history::Moment;
use fader_history::object::{Operation, Outcome, Reply, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::line::{json_of, parts_of, value_of, verb_of};
use super::{Step, Texts};

/// What Go has as the greatest time.
const NEVER: i64 = i64::MAX;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Line {
    client_id: u32,
    input: Input,
    call: i64,
    output: Output,
    r#return: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    action: String,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Json>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    /// `null` is the initial value; of what shows nothing it is not asked for.
    #[serde(default)]
    shown: Json,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unmet: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unknown: bool,
}

#[derive(Default)]
pub(super) struct Decoder {
    texts: Texts,
}

impl super::Decoder for Decoder {
    fn line(&mut self, _number: usize, line: &str) -> Result<Step, String> {
        if line.is_empty() {
            return Ok(Step::None);
        }
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let Input {
            action,
            key,
            value,
            from,
        } = &line.input;
        let verb = verb_of(action, value.as_ref(), from.as_ref(), &mut self.texts)?;
        let time = |at: i64| u64::try_from(at).map_err(|_| format!("time {at} is negative"));
        let (called, returned) = (time(line.call)?, time(line.r#return)?);
        if returned < called {
            return Err("it returned before it was called".to_owned());
        }
        let shows = matches!(action.as_str(), "read" | "pop" | "increment");
        let is_shown = shows && (line.output.shown != Json::Null || action != "increment");
        let end = match line.output.unknown {
            true => (line.r#return != NEVER).then_some((Moment::at(returned), Outcome::Unknown)),
            false => {
                let shown = value_of(&line.output.shown, &mut self.texts)?;
                let reply = Reply {
                    shown: is_shown.then_some(shown),
                    is_unmet: line.output.unmet,
                    place: None,
                };
                Some((Moment::at(returned), Outcome::Done(reply)))
            }
        };
        Ok(Step::Operation(Box::new(Operation {
            process: line.client_id,
            session: None,
            endpoint: self.texts.get(""),
            name: None,
            attempt: 1,
            level: self.texts.get(""),
            intended: Moment::at(called),
            called: Moment::at(called),
            action: Request {
                key: self.texts.get(key),
                verb,
            },
            end,
            price: None,
        })))
    }
}

pub(super) struct Encoder<W> {
    out: W,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(out: W) -> Self {
        Encoder { out }
    }
}

impl<W: Write> super::Encoder for Encoder<W> {
    /// Refused operations are left out: they did nothing and show nothing. So are reads without an
    /// answer.
    fn operation(&mut self, operation: &Operation) -> io::Result<()> {
        let (action, value, from) = parts_of(&operation.action.verb);
        let time = |at: Moment| i64::try_from(at.nanos).unwrap_or(NEVER);
        let (output, returned) = match &operation.end {
            Some((_, Outcome::Refused(_))) => return Ok(()),
            Some((at, Outcome::Done(reply))) => {
                let output = Output {
                    shown: reply.shown.as_ref().map_or(Json::Null, json_of),
                    unmet: reply.is_unmet,
                    unknown: false,
                };
                (output, time(*at))
            }
            _ if action == "read" => return Ok(()),
            _ => {
                let output = Output {
                    unknown: true,
                    ..Output::default()
                };
                (output, NEVER)
            }
        };
        let line = Line {
            client_id: operation.process,
            input: Input {
                action: action.to_owned(),
                key: operation.action.key.to_string(),
                value,
                from,
            },
            call: time(operation.called),
            output,
            r#return: returned,
        };
        serde_json::to_writer(&mut self.out, &line)?;
        self.out.write_all(b"\n")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
