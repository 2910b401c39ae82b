//! The rows of a message: its content and its state.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader};

use crate::forward::wire::Wire;
use crate::sqs::command::Attribute;
use crate::sqs::layout::{Spot, decode, encode};
use crate::sqs::wire::wire_fields;

const VERSION: u8 = 1;

/// The content of a message: written at its send, and never again (QL-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// The message's id.
    pub(crate) id: u128,
    /// Who sent it.
    pub(crate) sender: String,
    pub(crate) sent_ms: u64,
    pub(crate) text: String,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) trace_header: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) deduplication_id: Option<String>,
    /// The ARN of the queue that it was a dead letter of.
    pub(crate) source_arn: Option<String>,
}
wire_fields!(Body {
    id,
    sender,
    sent_ms,
    text,
    attributes,
    trace_header,
    group,
    deduplication_id,
    source_arn,
});

/// What changes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) place: Place,
    /// How often it was received.
    pub(crate) receives: u32,
    /// When it was received first; 0 before.
    pub(crate) first_receive_ms: u64,
    /// From when its retention counts.
    pub(crate) kept_from_ms: u64,
    /// Its group, in a FIFO queue; elsewhere empty.
    pub(crate) group: String,
}
wire_fields!(State {
    place,
    receives,
    first_receive_ms,
    kept_from_ms,
    group
});

/// Where a message is (QL-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It can be received, since then.
    Ready(Spot),
    /// It can be received from then on.
    Delayed(Spot),
    /// It was received, and can be again from then on.
    InFlight {
        /// Its deadline.
        until: Spot,
        /// When it was received last.
        since_ms: u64,
        /// Where it was before: its place in its group.
        before: Spot,
    },
    /// It is on its way to another chain.
    Moving(Spot),
}

impl Wire for Place {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Place::Ready(spot) => (0_u8, *spot).put(out),
            Place::Delayed(spot) => (1_u8, *spot).put(out),
            Place::InFlight {
                until,
                since_ms,
                before,
            } => {
                (2_u8, *until).put(out);
                (*since_ms, *before).put(out);
            }
            Place::Moving(spot) => (3_u8, *spot).put(out),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (choice, spot) = <(u8, Spot)>::read(reader)?;
        Ok(match choice {
            0 => Place::Ready(spot),
            1 => Place::Delayed(spot),
            2 => Place::InFlight {
                until: spot,
                since_ms: Wire::read(reader)?,
                before: Wire::read(reader)?,
            },
            3 => Place::Moving(spot),
            _ => return Err(DecodeError::new("the place of a message")),
        })
    }
}

/// A group of a FIFO queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// How many of its messages are in flight, or on their way to another chain.
    pub(crate) held: u64,
    /// The first of those that wait.
    pub(crate) head: Option<Spot>,
    /// Where it stands among the groups that are ready.
    pub(crate) ready: Option<Spot>,
}
wire_fields!(Group { held, head, ready });

/// Remembered of a send for its deduplication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstSend {
    pub(crate) end_ms: u64,
    pub(crate) id: u128,
    pub(crate) number: u64,
}
wire_fields!(FirstSend { end_ms, id, number });

/// Remembered of a receive for its repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) end_ms: u64,
    pub(crate) era: u32,
    /// Number, count of receives and deadline of each message.
    pub(crate) messages: Vec<(u64, (u32, u64))>,
}
wire_fields!(Attempt {
    end_ms,
    era,
    messages
});

/// A row of a queue.
pub(crate) trait Row: Wire + Sized {
    /// About how many bytes it has.
    fn size(&self) -> usize {
        64
    }

    fn encode(&self) -> Bytes {
        encode(self, VERSION, self.size())
    }

    fn decode(value: Bytes) -> Result<Self, DecodeError> {
        decode(value, VERSION)
    }
}

impl Row for Body {
    fn size(&self) -> usize {
        128 + self.text.len()
    }
}
impl Row for State {}
impl Row for Group {}
impl Row for FirstSend {}
impl Row for Attempt {}

/// The counters of a queue: the one row that every entry of it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// The time of its last decision (QU-5).
    pub(crate) clock_ms: u64,
    /// How often it was purged.
    pub(crate) era: u32,
    /// The number of the last message.
    pub(crate) last: u64,
    pub(crate) ready: u64,
    pub(crate) delayed: u64,
    pub(crate) in_flight: u64,
    /// The least spot in each index; none in an empty one.
    pub(crate) ready_low: Option<Spot>,
    pub(crate) scheduled_low: Option<Spot>,
    /// No message below has a state.
    pub(crate) first: u64,
    /// When the work is due that is noted for it; 0 when none is.
    pub(crate) chore_ms: u64,
    pub(crate) purged_ms: u64,
    /// Whether rows of earlier eras may be left.
    pub(crate) is_unswept: bool,
    /// When the move task began that runs; 0 when none does.
    pub(crate) task_ms: u64,
    /// No row that is remembered for a while ends before.
    pub(crate) recent_ms: u64,
    pub(crate) totals: Totals,
}
wire_fields!(Counters {
    clock_ms,
    era,
    last,
    ready,
    delayed,
    in_flight,
    ready_low,
    scheduled_low,
    first,
    chore_ms,
    purged_ms,
    is_unswept,
    task_ms,
    recent_ms,
    totals,
});
impl Row for Counters {
    fn size(&self) -> usize {
        128
    }
}

/// What happened to the messages of a queue since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) sent: u64,
    /// Each as often as it was received.
    pub(crate) received: u64,
    pub(crate) deleted: u64,
    /// Those that left for another queue.
    pub(crate) moved: u64,
    /// Those whose retention ended.
    pub(crate) expired: u64,
}
wire_fields!(Totals {
    sent,
    received,
    deleted,
    moved,
    expired
});

/// A move task (`moving.rs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MoveTask {
    pub(crate) id: u128,
    /// The name of where to; empty: where each message came from.
    pub(crate) destination: String,
    pub(crate) destination_arn: Option<String>,
    /// How many in a second; 0: as many as can be.
    pub(crate) per_second: u64,
    pub(crate) moved: u64,
    pub(crate) to_move: u64,
    /// Messages after this number came after it began.
    pub(crate) last: u64,
    pub(crate) status: u8,
    pub(crate) failure: Option<String>,
    pub(crate) place: Option<(fader_chain::ChainId, crate::CollectionId)>,
    /// Its rate lets it go on then.
    pub(crate) next_ms: u64,
}
wire_fields!(MoveTask {
    id,
    destination,
    destination_arn,
    per_second,
    moved,
    to_move,
    last,
    status,
    failure,
    place,
    next_ms,
});
impl Row for MoveTask {}
