//! Programs that are spoken to in frames: one process for each attempt, with any input.
//!
//! A mapper is told each object and its lines, a reducer each key and its values. Counters and the
//! end come from the program itself, so that an output that is cut off is never taken for whole.

use fader_mapreduce::{Batch, Context, Emit, Failure, Map, Outcome, Part, Phase, Reduce};
use serde::Serialize;

use crate::code::Of;
use crate::frames::{FORMAT, FRAME_BYTES_MAX, Hear, Hello, Kind, Reply, put, put_sized};
use crate::process::Process;

/// Bytes of values that are gathered for one frame.
const GATHERED: usize = 64 << 10;

/// A program that runs.
struct Spoken {
    _of: Of,
    process: Option<Process>,
    reply: Reply,
    frame: Vec<u8>,
}

impl Spoken {
    fn new(of: Of, context: &Context<'_>) -> Outcome<Self> {
        let process = of.start(None)?;
        let hello = Hello {
            format: FORMAT,
            role: if context.task.phase == Phase::Map {
                "map"
            } else {
                "reduce"
            },
            job: &context.job.to_string(),
            task: &context.task.to_string(),
            attempt: context.attempt,
            reduces: context.reduces,
            frame_bytes_max: FRAME_BYTES_MAX,
        };
        let mut frame = Vec::new();
        put(Kind::Hello, &json(&hello), &mut frame);
        Ok(Spoken {
            _of: of,
            process,
            reply: Reply::default(),
            frame,
        })
    }

    /// Gives it the frames that were gathered, and takes what it says meanwhile.
    fn send(&mut self, hear: &mut dyn Hear) -> Outcome<()> {
        let process = self.process.as_mut().ok_or_else(ended)?;
        let reply = &mut self.reply;
        let sent = process.feed(&self.frame, &mut |frame| reply.take(frame, hear));
        self.frame.clear();
        sent
    }

    /// Ends its input, and takes the rest of what it says.
    fn end(&mut self, hear: &mut dyn Hear) -> Outcome<()> {
        put(Kind::End, b"", &mut self.frame);
        self.send(hear)?;
        let process = self.process.take().ok_or_else(ended)?;
        let reply = &mut self.reply;
        let counters = process.end(&mut |frame| reply.take(frame, hear))?;
        for (name, number) in counters {
            hear.count(&name, number);
        }
        match self.reply.is_done() {
            true => Ok(()),
            false => Err(Failure::task(
                "the program ended and did not say that it is done",
            )),
        }
    }
}

fn ended() -> Failure {
    Failure::task("the program has ended")
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("its keys are text")
}

/// Where the pairs of a mapper go.
struct ToShuffle<'a>(&'a mut dyn Emit);

impl Hear for ToShuffle<'_> {
    fn pair(&mut self, output: u8, key: &[u8], value: &[u8]) -> Outcome<()> {
        if output != 0 {
            let text = format!("a mapper's pairs go to output 0, not to {output}");
            return Err(Failure::task(text));
        }
        self.0.emit(key, value);
        Ok(())
    }

    fn count(&mut self, name: &str, number: u64) {
        self.0.count(name, number);
    }
}

#[derive(Serialize)]
struct Source<'a> {
    name: &'a str,
    input: usize,
}

/// Feeds the records of all objects of a split to one process.
pub(crate) struct Mapper {
    spoken: Spoken,
    is_begun: bool,
}

impl Mapper {
    pub(crate) fn new(of: Of, context: &Context<'_>) -> Outcome<Self> {
        let spoken = Spoken::new(of, context)?;
        Ok(Mapper {
            spoken,
            is_begun: false,
        })
    }
}

impl Map for Mapper {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        let frame = &mut self.spoken.frame;
        if !std::mem::replace(&mut self.is_begun, true) {
            let source = Source {
                name: batch.source,
                input: batch.input,
            };
            put(Kind::Source, &json(&source), frame);
        }
        let kind = if batch.is_lines {
            Kind::Lines
        } else {
            Kind::Whole
        };
        put(kind, batch.bytes, frame);
        self.spoken.send(&mut ToShuffle(out))
    }

    fn end_of_source(&mut self, _: &str, _: &mut dyn Emit) -> Outcome<()> {
        self.is_begun = false;
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Outcome<()> {
        self.spoken.end(&mut ToShuffle(out))
    }
}

/// Where the pairs of a reducer go: a line of key, TAB and value; the value alone without a key.
struct ToPart<'a>(&'a mut Part);

impl Hear for ToPart<'_> {
    fn pair(&mut self, output: u8, key: &[u8], value: &[u8]) -> Outcome<()> {
        let is_lone = key.is_empty();
        let parts: [&[u8]; 3] = [key, if is_lone { b"" } else { b"\t" }, value];
        let side = self.0.output(output);
        parts.iter().for_each(|part| side.extend_from_slice(part));
        side.push(b'\n');
        self.0.end_record(output);
        Ok(())
    }

    fn count(&mut self, name: &str, number: u64) {
        self.0.count(name, number);
    }
}

/// Feeds the pairs of a partition to one process.
pub(crate) struct Reducer {
    spoken: Spoken,
    values: Vec<u8>,
}

impl Reducer {
    pub(crate) fn new(of: Of, context: &Context<'_>) -> Outcome<Self> {
        Ok(Reducer {
            spoken: Spoken::new(of, context)?,
            values: Vec::new(),
        })
    }

    /// Sends what was gathered, if that is enough for a frame.
    fn flush(&mut self, out: &mut Part, bytes_min: usize) -> Outcome<()> {
        if !self.values.is_empty() {
            put(Kind::Values, &self.values, &mut self.spoken.frame);
            self.values.clear();
        }
        match self.spoken.frame.len() < bytes_min {
            true => Ok(()),
            false => self.spoken.send(&mut ToPart(out)),
        }
    }
}

impl Reduce for Reducer {
    fn begin(&mut self, key: &[u8], _: &mut Part) -> Outcome<()> {
        put(Kind::Key, key, &mut self.spoken.frame);
        Ok(())
    }

    fn value(&mut self, _: &[u8], value: &[u8], out: &mut Part) -> Outcome<()> {
        put_sized(value, &mut self.values);
        match self.values.len() < GATHERED {
            true => Ok(()),
            false => self.flush(out, 0),
        }
    }

    fn end(&mut self, _: &[u8], out: &mut Part) -> Outcome<()> {
        self.flush(out, GATHERED)
    }

    fn finish(&mut self, out: &mut Part) -> Outcome<()> {
        self.spoken.end(&mut ToPart(out))
    }
}
