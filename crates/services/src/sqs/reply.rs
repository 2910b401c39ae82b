//! What requests to queues come to.

use bytes::Bytes;

use crate::CollectionId;
use crate::forward::wire::Wire;
use crate::sqs::command::{Attribute, Pairs};
use crate::sqs::error::Error;
use crate::sqs::layout::Keys;
use crate::sqs::wire::{wire_choice, wire_fields};
use crate::steps::Step;

/// What a request comes to that succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing to tell.
    Done,
    /// The queue of this name is there.
    Queue(String),
    /// A page of queues.
    Queues(Page),
    /// Attributes of a queue, or its tags.
    Pairs(Pairs),
    /// Of sends: each by its entry.
    Sent(Vec<SentEntry>),
    /// Of deletions and changes of visibility: each by its entry.
    Changed(Vec<ChangedEntry>),
    /// Of a receive as it was decided: the rows to read when its entry is committed.
    Received(Box<Received>),
    /// Of a receive: the messages.
    Messages(Vec<Message>),
    /// A move task began.
    Started(String),
    /// A move task was ended when it had moved so many.
    Cancelled(u64),
    /// Move tasks.
    Tasks(Vec<Task>),
    /// Of a peek: the messages, and where the next one goes on.
    Peeked(Peeked),
}
wire_choice!(Reply, "a reply of SQS", {
    0 => Done, 1 => Queue(it), 2 => Queues(it), 3 => Pairs(it), 4 => Sent(it), 5 => Changed(it),
    6 => Received(it), 7 => Messages(it), 8 => Started(it), 9 => Cancelled(it), 10 => Tasks(it),
    11 => Peeked(it),
});

/// A page of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Their names.
    pub names: Vec<String>,
    /// Where the next page begins.
    pub next_token: Option<String>,
}
wire_fields!(Page { names, next_token });

/// What became of an entry of a batch, or of a single message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// The entry's id.
    pub id: String,
    /// What became of it.
    pub outcome: Result<T, Error>,
}

/// Of a send.
pub type SentEntry = Entry<Sent>;
/// Of a deletion or a change of visibility.
pub type ChangedEntry = Entry<()>;

impl<T: Wire> Wire for Entry<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        match &self.outcome {
            Ok(it) => {
                out.push(0);
                it.put(out);
            }
            Err(error) => {
                out.push(1);
                error.put(out);
            }
        }
    }

    fn read(reader: &mut fader_chain::Reader) -> Result<Self, fader_chain::DecodeError> {
        let id = Wire::read(reader)?;
        let outcome = match bool::read(reader)? {
            false => Ok(T::read(reader)?),
            true => Err(Error::read(reader)?),
        };
        Ok(Entry { id, outcome })
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn read(reader: &mut fader_chain::Reader) -> Result<Self, fader_chain::DecodeError> {
        T::read(reader).map(Box::new)
    }
}

impl Wire for () {
    fn put(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut fader_chain::Reader) -> Result<Self, fader_chain::DecodeError> {
        Ok(())
    }
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its id.
    pub id: u128,
    /// The MD5 of its body.
    pub md5_of_body: u128,
    /// The MD5 of its attributes, if it has any.
    pub md5_of_attributes: Option<u128>,
    /// The MD5 of its system attributes, if it has any.
    pub md5_of_system_attributes: Option<u128>,
    /// Of a FIFO queue its sequence number.
    pub sequence: Option<u64>,
}
wire_fields!(Sent {
    id,
    md5_of_body,
    md5_of_attributes,
    md5_of_system_attributes,
    sequence
});

/// What is to be shown of each message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// System attributes, or `All`.
    pub system_names: Vec<String>,
    /// Users' attributes: names, prefixes with `.*`, or `All`.
    pub attribute_names: Vec<String>,
}
wire_fields!(Selection {
    system_names,
    attribute_names
});

/// A receive as it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The queue's name.
    pub queue: String,
    /// The queue.
    pub collection: CollectionId,
    /// Its era.
    pub era: u32,
    /// Whether it is a FIFO queue.
    pub is_fifo: bool,
    /// What is to be shown.
    pub selection: Selection,
    /// The messages.
    pub messages: Vec<Held>,
    /// Messages on their way to a dead-letter queue on another chain.
    pub step: Option<Step>,
}
wire_fields!(Received {
    queue,
    collection,
    era,
    is_fifo,
    selection,
    messages,
    step
});

impl Received {
    /// The rows that have the contents of its messages.
    pub(crate) fn bodies(&self) -> Vec<Bytes> {
        let keys = Keys {
            collection: self.collection,
            era: self.era,
        };
        self.messages
            .iter()
            .map(|it| keys.body(it.number))
            .collect()
    }
}

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its number.
    pub number: u64,
    /// How often it was received, with this time.
    pub receives: u32,
    /// When it was received first.
    pub first_receive_ms: u64,
    /// The receipt handle.
    pub handle: Bytes,
}
wire_fields!(Held {
    number,
    receives,
    first_receive_ms,
    handle
});

/// A message as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: u128,
    /// The receipt handle; empty where it was not received.
    pub handle: String,
    /// The MD5 of the body.
    pub md5_of_body: u128,
    /// The body.
    pub body: String,
    /// The system attributes that were asked for.
    pub system: Pairs,
    /// The MD5 of the attributes that are shown, if any.
    pub md5_of_attributes: Option<u128>,
    /// The attributes that were asked for.
    pub attributes: Vec<Attribute>,
}
wire_fields!(Message {
    id,
    handle,
    md5_of_body,
    body,
    system,
    md5_of_attributes,
    attributes,
});

/// What a peek shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// The messages, in order of number.
    pub messages: Vec<Message>,
    /// The number after which the next peek looks. At the end of the queue it is that of the last
    /// message shown, or the one that was asked with.
    pub after: u64,
}
wire_fields!(Peeked { messages, after });

/// A move task as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its handle, while it runs.
    pub handle: Option<String>,
    /// `RUNNING`, `COMPLETED`, `CANCELLED` or `FAILED`.
    pub status: String,
    /// The ARN of the dead-letter queue.
    pub source_arn: String,
    /// The ARN of where to, if one was given.
    pub destination_arn: Option<String>,
    /// How many in a second, if that was given.
    pub max_per_second: Option<u64>,
    /// How many were moved.
    pub moved: u64,
    /// How many there were when it began.
    pub to_move: u64,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it began.
    pub started_ms: u64,
}
wire_fields!(Task {
    handle,
    status,
    source_arn,
    destination_arn,
    max_per_second,
    moved,
    to_move,
    failure,
    started_ms,
});

/// A UUID as text.
pub fn show_uuid(id: u128) -> String {
    let digits = const_hex::encode(id.to_be_bytes());
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join("-")
}
