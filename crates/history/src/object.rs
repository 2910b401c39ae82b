//! Requests to one object: a register, a set, a counter or a queue. What logs in files hold.
//!
//! The verbs say which kind an object is; a key is asked for verbs of one kind only.

use std::fmt::{Display, Formatter, Result};
use std::sync::Arc;

use crate::{Access, Action};

/// A name or a value, shared by all operations that have it.
pub type Text = Arc<str>;

/// An operation on one object.
pub type Operation = crate::Operation<Request>;

/// A log of operations on objects.
pub type Log = crate::Log<Request>;

/// How an operation on an object ended.
pub type Outcome = crate::Outcome<Reply, Text>;

/// A value of a register, an element of a set or a queue, a count, or all of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// Nothing: the value of a register before its first write.
    #[default]
    None,
    /// A number.
    Number(i64),
    /// A text.
    Text(Text),
    /// Several values.
    List(Vec<Value>),
}

/// A version's place in the order of its key: the numbers of a stamp or a revision, which are
/// compared from the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub Vec<u64>);

/// What is asked of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object.
    pub key: Text,
    /// What is asked.
    pub verb: Verb,
}

/// What is asked of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Show the value, the count, or all elements of a set.
    Read,
    /// Of a register: replace the value.
    Write(Value),
    /// Of a register: replace the value if it is `from`. The reply says whether it was.
    Swap {
        /// The value that it must be.
        from: Value,
        /// The value that it becomes.
        to: Value,
    },
    /// Of a set: put an element.
    Add(Value),
    /// Of a set: remove an element.
    Remove(Value),
    /// Of a counter: add a number. The reply may show the sum.
    Increment(i64),
    /// Of a queue: append an element.
    Push(Value),
    /// Of a queue: take the first element. The reply shows it, or nothing of an empty queue.
    Pop,
}

/// What was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// What was shown; none if the reply shows nothing.
    pub shown: Option<Value>,
    /// Whether a compare-and-set failed: the value was not the one that was compared.
    pub is_unmet: bool,
    /// The place of the version written or shown, if it was told.
    pub place: Option<Place>,
}

impl Place {
    /// All numbers in a text, in their order: `1.7+900n1/0` is `[1, 7, 900, 1, 0]`. None if there
    /// is no number in it.
    pub fn parse(text: &str) -> Option<Place> {
        let numbers = text.split(|c: char| !c.is_ascii_digit());
        let numbers: std::result::Result<Vec<u64>, _> = numbers
            .filter(|digits| !digits.is_empty())
            .map(str::parse)
            .collect();
        numbers.ok().filter(|all| !all.is_empty()).map(Place)
    }
}

impl Reply {
    /// A reply that shows something.
    pub fn shows(value: Value) -> Self {
        Reply {
            shown: Some(value),
            ..Reply::default()
        }
    }

    /// A reply to a compare-and-set that failed.
    pub fn unmet() -> Self {
        Reply {
            is_unmet: true,
            ..Reply::default()
        }
    }
}

impl Action for Request {
    type Endpoint = Text;
    type Name = Text;
    type Level = Text;
    type Reply = Reply;
    type Refusal = Text;
    type Key = Text;
    type Version = Value;
    type Place = Place;

    /// Of registers only. A compare-and-set that succeeded reads one version and writes another.
    fn accesses<'a>(&'a self, reply: Option<&'a Reply>, each: &mut dyn FnMut(Access<'a, Self>)) {
        let key = &self.key;
        let place = reply.and_then(|reply| reply.place.as_ref());
        match (&self.verb, reply) {
            (Verb::Read, Some(reply)) => {
                let Some(shown) = &reply.shown else { return };
                let version = (*shown != Value::None).then_some(shown);
                each(Access::Read {
                    key,
                    version,
                    place,
                });
            }
            (Verb::Write(version), _) => each(Access::Write {
                key,
                version,
                place,
            }),
            (Verb::Swap { from, to }, reply) if reply.is_none_or(|reply| !reply.is_unmet) => {
                if reply.is_some() {
                    let version = (*from != Value::None).then_some(from);
                    each(Access::Read {
                        key,
                        version,
                        place: None,
                    });
                }
                each(Access::Write {
                    key,
                    version: to,
                    place,
                });
            }
            _ => {}
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.into())
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Value::None => write!(f, "nothing"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "{}", text.escape_debug()),
            Value::List(values) => {
                let words: Vec<String> = values.iter().map(Value::to_string).collect();
                write!(f, "[{}]", words.join(" "))
            }
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let words: Vec<String> = self.0.iter().map(u64::to_string).collect();
        write!(f, "{}", words.join("."))
    }
}

impl Display for Request {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let key = self.key.escape_debug();
        match &self.verb {
            Verb::Read => write!(f, "read {key}"),
            Verb::Write(value) => write!(f, "write {key} {value}"),
            Verb::Swap { from, to } => write!(f, "swap {key} {from} for {to}"),
            Verb::Add(value) => write!(f, "add {key} {value}"),
            Verb::Remove(value) => write!(f, "remove {key} {value}"),
            Verb::Increment(by) => write!(f, "increment {key} by {by}"),
            Verb::Push(value) => write!(f, "push {key} {value}"),
            Verb::Pop => write!(f, "pop {key}"),
        }
    }
}

impl Display for Reply {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (&self.shown, self.is_unmet) {
            (_, true) => write!(f, "not met")?,
            (Some(shown), _) => write!(f, "{shown}")?,
            (None, _) => write!(f, "done")?,
        }
        match &self.place {
            Some(place) => write!(f, " @{place}"),
            None => Ok(()),
        }
    }
}
