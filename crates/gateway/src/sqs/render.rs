//! Replies and refusals in both protocols, byte for byte. Lists and maps that are empty are left
//! out.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use fader_services::catalog::AccountId;
use fader_services::sqs::command::{Attribute, Value};
use fader_services::sqs::{
    Entry, Error, Message, Page, Reply, Sent, Task, show_sequence, show_uuid,
};
use serde_json::{Map, Value as Json};

use super::action::Action;
use super::protocol::Protocol;

const NAMESPACE: &str = "http://queue.amazonaws.com/doc/2012-11-05/";

/// A reply's body with its type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

/// Where queues are: what their URLs begin with.
pub(crate) struct Place<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) host: &'a str,
    pub(crate) account: &'a AccountId,
}

impl Place<'_> {
    fn url(&self, queue: &str) -> String {
        let Place {
            scheme,
            host,
            account,
        } = self;
        format!("{scheme}://{host}/{}/{queue}", account.0)
    }
}

/// One field of a reply: its names in JSON and in XML, and its value.
struct Field(&'static str, &'static str, Shown);

enum Shown {
    Text(String),
    Number(u64),
    Flag(bool),
    Texts(Vec<String>),
    /// Names and values; the element of a name.
    Pairs(Vec<(String, String)>, &'static str),
    Attributes(Vec<Attribute>),
    List(Vec<Vec<Field>>),
}

impl Shown {
    fn is_empty(&self) -> bool {
        match self {
            Shown::Text(_) | Shown::Number(_) | Shown::Flag(_) => false,
            Shown::Texts(all) => all.is_empty(),
            Shown::Pairs(all, _) => all.is_empty(),
            Shown::Attributes(all) => all.is_empty(),
            Shown::List(all) => all.is_empty(),
        }
    }
}

fn text(name: &'static str, value: impl Into<String>) -> Field {
    Field(name, name, Shown::Text(value.into()))
}

fn optional(name: &'static str, value: Option<String>) -> Option<Field> {
    value.map(|value| text(name, value))
}

fn md5(value: u128) -> String {
    const_hex::encode(value.to_be_bytes())
}

/// The body of a reply.
pub(crate) fn reply(
    protocol: Protocol,
    action: Action,
    place: &Place<'_>,
    reply: Reply,
    request_id: &str,
) -> Rendered {
    let fields = fields(action, place, reply);
    match protocol {
        Protocol::Json => json(&fields),
        Protocol::Query => xml(action, fields.as_deref(), request_id),
    }
}

fn json(fields: &Option<Vec<Field>>) -> Rendered {
    let mut body = Vec::new();
    if let Some(fields) = fields {
        body.reserve(json_bytes(fields));
        json_object(&mut body, fields);
    }
    Rendered {
        content_type: "application/x-amz-json-1.0",
        body,
    }
}

fn xml(action: Action, fields: Option<&[Field]>, request_id: &str) -> Rendered {
    let name = action.name();
    let mut out = String::with_capacity(512);
    out.push_str(&format!(
        "<?xml version=\"1.0\"?><{name}Response xmlns=\"{NAMESPACE}\">"
    ));
    if let Some(fields) = fields {
        out.push_str(&format!("<{name}Result>"));
        elements(&mut out, fields);
        out.push_str(&format!("</{name}Result>"));
    }
    out.push_str(&format!(
        "<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{name}Response>"
    ));
    Rendered {
        content_type: "text/xml",
        body: out.into_bytes(),
    }
}

/// The body of a refusal.
pub(crate) fn error(protocol: Protocol, error: &Error, request_id: &str) -> Rendered {
    match protocol {
        Protocol::Json => {
            let mut object = Map::new();
            object.insert("__type".to_owned(), error.code.json_type().into());
            object.insert("message".to_owned(), error.message.clone().into());
            Rendered {
                content_type: "application/x-amz-json-1.0",
                body: Json::Object(object).to_string().into_bytes(),
            }
        }
        Protocol::Query => {
            let side = side(error);
            let mut out = format!(
                "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"{NAMESPACE}\"><Error><Type>{side}\
                 </Type>"
            );
            element(&mut out, "Code", error.code.query_code());
            element(&mut out, "Message", &error.message);
            out.push_str(&format!(
                "<Detail/></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
            ));
            Rendered {
                content_type: "text/xml",
                body: out.into_bytes(),
            }
        }
    }
}

/// Whose fault a refusal is.
pub(crate) fn side(error: &Error) -> &'static str {
    if error.code.is_of_sender() {
        "Sender"
    } else {
        "Receiver"
    }
}

/// What a reply shows; nothing where the action has no result.
fn fields(action: Action, place: &Place<'_>, reply: Reply) -> Option<Vec<Field>> {
    Some(match reply {
        Reply::Done => return None,
        Reply::Queue(name) => vec![text("QueueUrl", place.url(&name))],
        Reply::Queues(page) => queues(action, place, page),
        Reply::Pairs(pairs) => match action {
            Action::ListQueueTags => vec![Field("Tags", "Tag", Shown::Pairs(pairs, "Key"))],
            _ => vec![Field(
                "Attributes",
                "Attribute",
                Shown::Pairs(pairs, "Name"),
            )],
        },
        Reply::Sent(entries) => match action {
            Action::SendMessageBatch => {
                batch("SendMessageBatchResultEntry", entries, |it| sent(&it))
            }
            _ => entries
                .into_iter()
                .filter_map(|it| it.outcome.ok())
                .flat_map(|it| sent(&it))
                .collect(),
        },
        Reply::Changed(entries) => match action {
            Action::DeleteMessageBatch => {
                batch("DeleteMessageBatchResultEntry", entries, |()| Vec::new())
            }
            Action::ChangeMessageVisibilityBatch => {
                batch("ChangeMessageVisibilityBatchResultEntry", entries, |()| {
                    Vec::new()
                })
            }
            _ => return None,
        },
        // A node tells messages in place of it.
        Reply::Received(_) => Vec::new(),
        Reply::Messages(messages) => {
            let messages = messages.into_iter().map(message).collect();
            vec![Field("Messages", "Message", Shown::List(messages))]
        }
        Reply::Peeked(peeked) => {
            let messages = peeked.messages.into_iter().map(message).collect();
            vec![
                Field("Messages", "Message", Shown::List(messages)),
                text("After", show_sequence(peeked.after)),
            ]
        }
        Reply::Started(handle) => vec![text("TaskHandle", handle)],
        Reply::Cancelled(moved) => {
            let name = "ApproximateNumberOfMessagesMoved";
            vec![Field(name, name, Shown::Number(moved))]
        }
        Reply::Tasks(tasks) => {
            let tasks = tasks.into_iter().map(task).collect();
            vec![Field(
                "Results",
                "ListMessageMoveTasksResultEntry",
                Shown::List(tasks),
            )]
        }
    })
}

fn queues(action: Action, place: &Place<'_>, page: Page) -> Vec<Field> {
    let urls = page.names.iter().map(|name| place.url(name)).collect();
    let json = match action {
        Action::ListDeadLetterSourceQueues => "queueUrls",
        _ => "QueueUrls",
    };
    let mut fields = vec![Field(json, "QueueUrl", Shown::Texts(urls))];
    fields.extend(optional("NextToken", page.next_token));
    fields
}

fn batch<T>(
    name: &'static str,
    entries: Vec<Entry<T>>,
    show: impl Fn(T) -> Vec<Field>,
) -> Vec<Field> {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for entry in entries {
        let mut fields = vec![text("Id", entry.id)];
        match entry.outcome {
            Ok(it) => {
                fields.extend(show(it));
                done.push(fields);
            }
            Err(error) => {
                let is_of_sender = error.code.is_of_sender();
                fields.push(Field(
                    "SenderFault",
                    "SenderFault",
                    Shown::Flag(is_of_sender),
                ));
                fields.push(text("Code", error.code.query_code()));
                fields.push(text("Message", error.message));
                failed.push(fields);
            }
        }
    }
    vec![
        Field("Successful", name, Shown::List(done)),
        Field("Failed", "BatchResultErrorEntry", Shown::List(failed)),
    ]
}

fn sent(sent: &Sent) -> Vec<Field> {
    let mut fields = vec![
        text("MessageId", show_uuid(sent.id)),
        text("MD5OfMessageBody", md5(sent.md5_of_body)),
    ];
    fields.extend(optional(
        "MD5OfMessageAttributes",
        sent.md5_of_attributes.map(md5),
    ));
    let of_system = sent.md5_of_system_attributes.map(md5);
    fields.extend(optional("MD5OfMessageSystemAttributes", of_system));
    fields.extend(optional("SequenceNumber", sent.sequence.map(show_sequence)));
    fields
}

fn message(message: Message) -> Vec<Field> {
    let mut fields = vec![text("MessageId", show_uuid(message.id))];
    let handle = Some(message.handle).filter(|handle| !handle.is_empty());
    fields.extend(optional("ReceiptHandle", handle));
    fields.push(text("MD5OfBody", md5(message.md5_of_body)));
    fields.push(text("Body", message.body));
    fields.push(Field(
        "Attributes",
        "Attribute",
        Shown::Pairs(message.system, "Name"),
    ));
    fields.extend(optional(
        "MD5OfMessageAttributes",
        message.md5_of_attributes.map(md5),
    ));
    let attributes = Shown::Attributes(message.attributes);
    fields.push(Field("MessageAttributes", "MessageAttribute", attributes));
    fields
}

fn task(task: Task) -> Vec<Field> {
    let number = |name, value| Field(name, name, Shown::Number(value));
    let mut fields = Vec::new();
    fields.extend(optional("TaskHandle", task.handle));
    fields.push(text("Status", task.status));
    fields.push(text("SourceArn", task.source_arn));
    fields.extend(optional("DestinationArn", task.destination_arn));
    let rate = task.max_per_second;
    fields.extend(rate.map(|rate| number("MaxNumberOfMessagesPerSecond", rate)));
    fields.push(number("ApproximateNumberOfMessagesMoved", task.moved));
    fields.push(number("ApproximateNumberOfMessagesToMove", task.to_move));
    fields.extend(optional("FailureReason", task.failure));
    fields.push(number("StartedTimestamp", task.started_ms));
    fields
}

/// About as many bytes as the JSON of fields has, so that it is not moved as it grows.
fn json_bytes(fields: &[Field]) -> usize {
    const PUNCTUATION: usize = 8;
    let bytes = |Field(name, _, shown): &Field| {
        let value = match shown {
            Shown::Text(text) => text.len(),
            Shown::List(all) => all.iter().map(|fields| json_bytes(fields)).sum(),
            Shown::Pairs(pairs, _) => pairs
                .iter()
                .map(|(name, it)| name.len() + it.len() + PUNCTUATION)
                .sum(),
            _ => 0,
        };
        name.len() + value + PUNCTUATION
    };
    fields.iter().map(bytes).sum()
}

/// Fields in order of name.
fn json_object(out: &mut Vec<u8>, fields: &[Field]) {
    let shown = fields.iter().filter(|Field(_, _, shown)| !shown.is_empty());
    let mut sorted: Vec<&Field> = shown.collect();
    sorted.sort_unstable_by_key(|Field(name, _, _)| *name);
    json_list(out, b"{}", sorted, |out, Field(name, _, shown)| {
        json_name(out, name);
        json_value(out, shown);
    });
}

fn json_value(out: &mut Vec<u8>, shown: &Shown) {
    match shown {
        Shown::Text(text) => json_text(out, text),
        Shown::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Shown::Flag(flag) => out.extend_from_slice(flag.to_string().as_bytes()),
        Shown::Texts(texts) => json_list(out, b"[]", texts, |out, text| json_text(out, text)),
        Shown::Pairs(pairs, _) => {
            let pairs: BTreeMap<&str, &str> =
                pairs.iter().map(|(name, it)| (&**name, &**it)).collect();
            json_list(out, b"{}", pairs, |out, (name, it)| {
                json_name(out, name);
                json_text(out, it);
            });
        }
        Shown::List(all) => json_list(out, b"[]", all, |out, fields| json_object(out, fields)),
        Shown::Attributes(all) => {
            let all: BTreeMap<&str, &Attribute> = all.iter().map(|it| (&*it.name, it)).collect();
            json_list(out, b"{}", all, |out, (name, it)| {
                json_name(out, name);
                let (kind, value) = attribute_value(&it.value);
                json_object(out, &[text(kind, value), text("DataType", &*it.data_type)]);
            });
        }
    }
}

/// What `show` writes of each, with commas between, in these brackets.
fn json_list<T>(
    out: &mut Vec<u8>,
    brackets: &[u8; 2],
    all: impl IntoIterator<Item = T>,
    show: impl Fn(&mut Vec<u8>, T),
) {
    let [open, close] = *brackets;
    out.push(open);
    for (at, it) in all.into_iter().enumerate() {
        if 0 < at {
            out.push(b',');
        }
        show(out, it);
    }
    out.push(close);
}

fn json_name(out: &mut Vec<u8>, name: &str) {
    json_text(out, name);
    out.push(b':');
}

fn json_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("memory takes any text");
}

fn attribute_value(value: &Value) -> (&'static str, String) {
    match value {
        Value::Text(text) => ("StringValue", text.clone()),
        Value::Binary(bytes) => ("BinaryValue", BASE64.encode(bytes)),
        // Neither is ever kept.
        Value::Missing | Value::List => ("StringValue", String::new()),
    }
}

fn elements(out: &mut String, fields: &[Field]) {
    for Field(_, name, shown) in fields {
        match shown {
            Shown::Text(text) => element(out, name, text),
            Shown::Number(number) => element(out, name, &number.to_string()),
            Shown::Flag(flag) => element(out, name, &flag.to_string()),
            Shown::Texts(texts) => texts.iter().for_each(|text| element(out, name, text)),
            Shown::Pairs(pairs, key) => {
                for (its, value) in pairs {
                    within(out, name, |out| {
                        element(out, key, its);
                        element(out, "Value", value);
                    });
                }
            }
            Shown::List(all) => {
                for fields in all {
                    within(out, name, |out| elements(out, fields));
                }
            }
            Shown::Attributes(all) => {
                for attribute in all {
                    within(out, name, |out| {
                        element(out, "Name", &attribute.name);
                        within(out, "Value", |out| {
                            let (name, value) = attribute_value(&attribute.value);
                            element(out, name, &value);
                            element(out, "DataType", &attribute.data_type);
                        });
                    });
                }
            }
        }
    }
}

fn within(out: &mut String, name: &str, inside: impl FnOnce(&mut String)) {
    out.push_str(&format!("<{name}>"));
    inside(out);
    out.push_str(&format!("</{name}>"));
}

/// An element of text. What XML cannot carry was refused when it was sent; in a message of an error
/// it becomes U+FFFD.
fn element(out: &mut String, name: &str, text: &str) {
    out.push('<');
    out.push_str(name);
    out.push('>');
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#xD;"),
            '\u{0}'..='\u{8}'
            | '\u{B}'
            | '\u{C}'
            | '\u{E}'..='\u{1F}'
            | '\u{FFFE}'
            | '\u{FFFF}' => {
                out.push('\u{FFFD}');
            }
            character => out.push(character),
        }
    }
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

impl From<Rendered> for Bytes {
    fn from(rendered: Rendered) -> Bytes {
        rendered.body.into()
    }
}
