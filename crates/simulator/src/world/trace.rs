//! A readable account of a run.

use fader_chain::{Envelope, Message, NodeId};

/// Lines, if they are wanted.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(is_wanted: bool) -> Self {
        Trace {
            lines: is_wanted.then(Vec::new),
        }
    }

    pub(crate) fn say(&mut self, now: u64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let (millis, micros) = (now / 1_000, now % 1_000);
            lines.push(format!("{millis:>5}.{micros:03} {}", line()));
        }
    }

    /// A message arrives.
    pub(crate) fn message(&mut self, now: u64, to: NodeId, envelope: &Envelope) {
        self.say(now, || {
            let Envelope {
                epoch,
                from,
                message,
                ..
            } = envelope;
            format!("  {from} -> {to} in {epoch}: {}", described(message))
        });
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}

fn described(message: &Message) -> String {
    match message {
        Message::Append {
            after,
            entries,
            commit,
        } => {
            let last = entries.last().map_or(*after, |entry| entry.id);
            format!("Append after {after} to {last}, commit {commit}")
        }
        Message::Hello {
            base, commit, last, ..
        } => format!("Hello from {base}, commit {commit}, last {last}"),
        Message::TransferChunk { at, ranges, .. } => {
            format!("FillPart {at}, {} ranges", ranges.len())
        }
        Message::TransferRequest { above, ranges, .. } => {
            format!("FillAsk above {above}, {} ranges", ranges.len())
        }
        other => format!("{other:?}"),
    }
}
