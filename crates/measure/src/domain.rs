//! What was done to a domain whose server was killed, as a log that [`kept`] judges.
//!
//! An item is a register with one value, [`WHOLE`]; one that holds anything else shows that, which
//! was never written. A batch without an answer is a register too: it shows its value if all its
//! items are there, and nothing if none is.

use std::collections::BTreeMap;

use fader_cloud::{Attribute, Item};
use fader_history::check::{Fault, kept};
use fader_history::object::{Log, Operation, Outcome, Reply, Request, Text, Value, Verb};
use fader_history::{Header, Moment, Rules};

#[cfg(test)]
mod tests;

/// The item that is incremented.
pub const COUNTER: &str = "counter";
/// The counter's attribute.
pub const COUNT: &str = "count";
/// The value of an item that holds what follows from its name.
const WHOLE: &str = "whole";

/// Everything done to one domain.
#[derive(Clone, Debug, Default)]
pub struct DomainLog {
    operations: Vec<Operation>,
    /// Batches without an answer.
    batches: Vec<Vec<String>>,
}

/// What was noted, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Writes and deletes that were acknowledged.
    pub acknowledged: u64,
    /// Increments that were acknowledged.
    pub increments: u64,
    /// Writes, deletes and increments without an answer.
    pub doubtful: u64,
}

impl DomainLog {
    /// Notes a put; without an answer if not `is_acknowledged`.
    pub fn put(&mut self, items: &[String], is_acknowledged: bool) {
        for item in items {
            self.note(item, Verb::Write(WHOLE.into()), is_acknowledged);
        }
        if !is_acknowledged && 1 < items.len() {
            let batch = format!("batch {}", items.join(" "));
            self.note(&batch, Verb::Write(WHOLE.into()), false);
            self.batches.push(items.to_vec());
        }
    }

    /// Notes a delete.
    pub fn delete(&mut self, item: &str, is_acknowledged: bool) {
        self.note(item, Verb::Write(Value::None), is_acknowledged);
    }

    /// Notes an increment of the counter.
    pub fn increment(&mut self, is_acknowledged: bool) {
        self.note(COUNTER, Verb::Increment(1), is_acknowledged);
    }

    /// Adds what another connection did; connections share no item but the counter.
    pub fn merge(&mut self, other: DomainLog) {
        self.operations.extend(other.operations);
        self.batches.extend(other.batches);
    }

    /// What was noted, in numbers.
    pub fn noted(&self) -> Noted {
        let mut noted = Noted::default();
        for operation in &self.operations {
            let is_increment = matches!(operation.action.verb, Verb::Increment(_));
            let count = match (operation.done(), is_increment) {
                (None, _) => &mut noted.doubtful,
                (Some(_), true) => &mut noted.increments,
                (Some(_), false) => &mut noted.acknowledged,
            };
            *count += 1;
        }
        noted.doubtful -= self.batches.len() as u64;
        noted
    }

    /// Compares with all items that the server shows.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn check(&self, found: &[Item]) -> Result<(), String> {
        let mut shown: BTreeMap<&str, &Item> = BTreeMap::new();
        for item in found {
            if shown.insert(&item.name, item).is_some() {
                return Err(format!("item {} is shown twice", item.name));
            }
        }
        let mut all = self.clone();
        // After everything that was done.
        let end = Moment::at(2 * all.operations.len() as u64);
        let mut read = |key: &str, value: Value| {
            let outcome = Outcome::Done(Reply::shows(value));
            all.operations
                .push(operation(key, Verb::Read, end, Some(outcome)));
        };
        let mut keys: Vec<&str> = self.operations.iter().map(|one| &*one.action.key).collect();
        keys.extend(shown.keys());
        keys.push(COUNTER);
        keys.sort_unstable();
        keys.dedup();
        for key in keys.into_iter().filter(|key| !key.starts_with("batch ")) {
            read(key, value_of(key, shown.get(key).copied()));
        }
        for batch in &self.batches {
            let there = batch
                .iter()
                .filter(|name| shown.contains_key(name.as_str()));
            let value = match there.count() {
                0 => Value::None,
                count if count == batch.len() => WHOLE.into(),
                count => format!("{count} of {} items", batch.len()).as_str().into(),
            };
            read(&format!("batch {}", batch.join(" ")), value);
        }
        let log = Log {
            header: Header::default(),
            operations: all.operations,
        };
        match kept(&log, &Rules::default()) {
            Ok(_) => Ok(()),
            Err(Fault::Violated(violation)) => Err(violation.explanation),
            Err(Fault::Unfit(unfit)) => Err(unfit.to_string()),
        }
    }

    fn note(&mut self, key: &str, verb: Verb, is_acknowledged: bool) {
        let called = Moment::at(2 * self.operations.len() as u64);
        let outcome = is_acknowledged.then(|| Outcome::Done(Reply::default()));
        self.operations.push(operation(key, verb, called, outcome));
    }
}

/// An operation that ends right after its call.
fn operation(key: &str, verb: Verb, called: Moment, outcome: Option<Outcome>) -> Operation {
    Operation {
        process: 0,
        session: None,
        endpoint: Text::default(),
        name: None,
        attempt: 1,
        level: Text::default(),
        intended: called,
        called,
        action: Request {
            key: key.into(),
            verb,
        },
        end: outcome.map(|outcome| (Moment::at(called.nanos + 1), outcome)),
        price: None,
    }
}

/// What an item shows.
fn value_of(key: &str, item: Option<&Item>) -> Value {
    let Some(item) = item else { return Value::None };
    if key != COUNTER {
        return match item.attributes == content(key) {
            true => WHOLE.into(),
            false => format!("{:?}", item.attributes).as_str().into(),
        };
    }
    match item.attributes.as_slice() {
        [attribute] if attribute.name == COUNT => match attribute.value.parse() {
            Ok(count) => Value::Number(count),
            Err(_) => attribute.value.as_str().into(),
        },
        attributes => format!("{attributes:?}").as_str().into(),
    }
}

/// What an item of that name holds, in the order in which a server shows it. It has 1 to 900 octets
/// that follow from the name, and the name itself.
pub fn content(name: &str) -> Vec<Attribute> {
    // FNV-1a, then a multiplicative step for each letter: any mix does that differs by name.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    });
    let length = 1 + hash % 900;
    let mut state = hash;
    let text = (0..length).map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        char::from(b' ' + u8::try_from((state >> 33) % 95).unwrap_or(0))
    });
    let attribute = |attribute: &str, value: String| Attribute {
        name: attribute.to_owned(),
        value,
    };
    vec![
        attribute("name", name.to_owned()),
        attribute("text", text.collect()),
    ]
}
