//! Messages as they are printed, and as JSON lines that `send --json` reads again.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::failure;

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) body: String,
    pub(super) group: Option<String>,
    pub(super) deduplication_id: Option<String>,
    pub(super) delay_s: Option<u64>,
    /// Name to data type and value, as SQS writes them.
    pub(super) attributes: Map<String, Value>,
}

impl Outgoing {
    /// Reads what `receive --json` printed: of its fields only `body` is needed.
    ///
    /// # Errors
    /// When it is not such an object.
    pub(super) fn of_json(line: &str) -> Result<Self> {
        let line: Value = serde_json::from_str(line).context("it is no JSON object")?;
        let text = |name: &str| match &line[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => failure::invalid(format_args!("its {name:?} is no text")),
        };
        let mut attributes = Map::new();
        match &line["attributes"] {
            Value::Null => {}
            Value::Object(given) => {
                for (name, value) in given {
                    attributes.insert(name.clone(), attribute(name, value)?);
                }
            }
            _ => return failure::invalid("its \"attributes\" are no object"),
        }
        Ok(Outgoing {
            body: text("body")?.context("it has no \"body\"")?,
            group: text("group")?,
            deduplication_id: text("deduplication_id")?,
            delay_s: line["delay"].as_u64(),
            attributes,
        })
    }

    /// An entry of a batch.
    pub(super) fn entry(&self, id: usize) -> Value {
        let mut entry = json!({ "Id": id.to_string(), "MessageBody": self.body });
        if let Some(group) = &self.group {
            entry["MessageGroupId"] = json!(group);
        }
        if let Some(id) = &self.deduplication_id {
            entry["MessageDeduplicationId"] = json!(id);
        }
        if let Some(delay_s) = self.delay_s {
            entry["DelaySeconds"] = json!(delay_s);
        }
        if !self.attributes.is_empty() {
            entry["MessageAttributes"] = json!(self.attributes);
        }
        entry
    }

    /// Bytes that count towards the size of a batch.
    pub(super) fn bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| name.len() + value.to_string().len());
        self.body.len() + attributes.sum::<usize>()
    }
}

/// An attribute of a message: its text, or an object of its type and value.
fn attribute(name: &str, given: &Value) -> Result<Value> {
    let (data_type, value) = match given {
        Value::String(text) => ("String", text.as_str()),
        given => given["type"]
            .as_str()
            .zip(given["value"].as_str())
            .with_context(|| format!("attribute {name:?} has no \"type\" and \"value\""))?,
    };
    let field = match data_type.starts_with("Binary") {
        true => "BinaryValue",
        false => "StringValue",
    };
    Ok(json!({ "DataType": data_type, field: value }))
}

/// A message of a receive or a peek as one line: its body, or all of it as JSON.
pub(super) fn line(message: &Value, is_json: bool) -> String {
    let body = message["Body"].as_str().unwrap_or_default();
    if !is_json {
        return format!("{body}\n");
    }
    let mut shown = Map::new();
    shown.insert("id".to_owned(), message["MessageId"].clone());
    shown.insert("body".to_owned(), json!(body));
    let optional = [
        ("sent_ms", "SentTimestamp"),
        ("receives", "ApproximateReceiveCount"),
        ("sender", "SenderId"),
        ("group", "MessageGroupId"),
        ("deduplication_id", "MessageDeduplicationId"),
        ("sequence", "SequenceNumber"),
        ("dead_letter_source", "DeadLetterQueueSourceArn"),
    ];
    for (name, attribute) in optional {
        let Some(text) = message["Attributes"][attribute].as_str() else {
            continue;
        };
        let is_number = matches!(name, "sent_ms" | "receives");
        let number = text.parse::<u64>().ok().filter(|_| is_number);
        let value = number.map_or_else(|| json!(text), |number| json!(number));
        shown.insert(name.to_owned(), value);
    }
    if let Some(attributes) = message["MessageAttributes"].as_object() {
        let attributes = attributes.iter().map(|(name, it)| {
            let value = it.get("StringValue").or(it.get("BinaryValue"));
            let value = json!({ "type": it["DataType"], "value": value });
            (name.clone(), value)
        });
        let attributes = attributes.collect::<Map<_, _>>();
        shown.insert("attributes".to_owned(), Value::Object(attributes));
    }
    if let Some(handle) = message["ReceiptHandle"]
        .as_str()
        .filter(|it| !it.is_empty())
    {
        shown.insert("receipt_handle".to_owned(), json!(handle));
    }
    format!("{}\n", Value::Object(shown))
}
