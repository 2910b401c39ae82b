//! Commands about messages.

use bytes::Bytes;

use crate::sqs::wire::{wire_choice, wire_fields};

/// A user's attribute of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// `String`, `Number` or `Binary`, with a label after a dot.
    pub data_type: String,
    /// Its value.
    pub value: Value,
}
wire_fields!(Attribute {
    name,
    data_type,
    value
});

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// There is none.
    Missing,
    /// `StringValue`.
    Text(String),
    /// `BinaryValue`.
    Binary(Bytes),
    /// A list of either, which AWS does not support.
    List,
}
wire_choice!(Value, "the value of an attribute", {
    0 => Missing, 1 => Text(it), 2 => Binary(it), 3 => List,
});

/// Sends messages: one, or a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// The queue.
    pub queue: String,
    /// Whether it is SendMessageBatch; else there is one entry, without an id.
    pub is_batch: bool,
    /// The messages.
    pub entries: Vec<SendEntry>,
}
wire_fields!(SendMessage {
    queue,
    is_batch,
    entries
});

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct SendEntry {
    pub id: String,
    pub body: Option<String>,
    pub delay_seconds: Option<i64>,
    pub attributes: Vec<Attribute>,
    pub system_attributes: Vec<Attribute>,
    pub deduplication_id: Option<String>,
    pub group_id: Option<String>,
}
wire_fields!(SendEntry {
    id,
    body,
    delay_seconds,
    attributes,
    system_attributes,
    deduplication_id,
    group_id,
});

/// Receives messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct ReceiveMessage {
    pub queue: String,
    /// Of both lists of system attributes.
    pub system_names: Vec<String>,
    pub attribute_names: Vec<String>,
    pub max_messages: Option<i64>,
    pub visibility_timeout: Option<i64>,
    pub wait_seconds: Option<i64>,
    pub attempt_id: Option<String>,
    /// When the request came, in milliseconds since 1970: long polls end by it.
    pub arrived_ms: u64,
}
wire_fields!(ReceiveMessage {
    queue,
    system_names,
    attribute_names,
    max_messages,
    visibility_timeout,
    wait_seconds,
    attempt_id,
    arrived_ms,
});

/// Shows messages of a queue in order of number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeekMessages {
    /// The queue.
    pub queue: String,
    /// Those after this number.
    pub after: u64,
    /// How many at most.
    pub max_messages: Option<i64>,
}
wire_fields!(PeekMessages {
    queue,
    after,
    max_messages
});

/// Deletes messages: one, or a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteMessage {
    /// The queue.
    pub queue: String,
    /// Whether it is DeleteMessageBatch.
    pub is_batch: bool,
    /// The messages.
    pub entries: Vec<DeleteEntry>,
}
wire_fields!(DeleteMessage {
    queue,
    is_batch,
    entries
});

/// A message to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct DeleteEntry {
    pub id: String,
    pub receipt_handle: Option<String>,
}
wire_fields!(DeleteEntry { id, receipt_handle });

/// Moves deadlines: one, or a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeMessageVisibility {
    /// The queue.
    pub queue: String,
    /// Whether it is ChangeMessageVisibilityBatch.
    pub is_batch: bool,
    /// The messages.
    pub entries: Vec<VisibilityEntry>,
}
wire_fields!(ChangeMessageVisibility {
    queue,
    is_batch,
    entries
});

/// A message whose deadline is to move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct VisibilityEntry {
    pub id: String,
    pub receipt_handle: Option<String>,
    pub visibility_timeout: Option<i64>,
}
wire_fields!(VisibilityEntry {
    id,
    receipt_handle,
    visibility_timeout
});

impl SendEntry {
    /// Bytes of the body, and of the names, types and values of its attributes: AWS's size.
    pub fn size(&self) -> usize {
        let attributes = self.attributes.iter().map(Attribute::size);
        self.body.as_ref().map_or(0, String::len) + attributes.sum::<usize>()
    }
}

impl Attribute {
    fn size(&self) -> usize {
        let value = match &self.value {
            Value::Text(text) => text.len(),
            Value::Binary(bytes) => bytes.len(),
            Value::Missing | Value::List => 0,
        };
        self.name.len() + self.data_type.len() + value
    }
}
