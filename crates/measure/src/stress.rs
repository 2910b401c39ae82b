//! Requests of many threads to the same few items: the workload of "The cost of eventual
//! consistency". They are plain or with the strong variant of each request.
//!
//! A put replaces the value of one attribute; its strong variant has the condition that another
//! attribute, which no item has, is absent. The strong variant of a get is a consistent read.
//!
//! Invariants:
//! - every put of a run writes another value, so that its log can be judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fader_history::object::{Operation, Text};

use crate::items::{Name, Texts, mix};
use crate::providers::{ABSENT, ATTRIBUTE, CONDITIONAL, EVENTUAL, STRONG};
use crate::simpledb::is_acknowledged;
use crate::workload::{Act, Form, Intent, Verdict, Wire, Workload};

/// Which variant of a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// A get that may be stale, or a put without a condition.
    Plain,
    /// A consistent get, or a put with a condition.
    Strong,
    /// Both in turn.
    InTurn,
}

/// How many operations are to end; all parts of a run share it.
#[derive(Clone, Debug)]
pub struct Remaining(Arc<AtomicU64>);

/// The workload of one kind of request.
#[derive(Debug)]
pub struct Stress {
    /// The domain.
    pub domain: String,
    /// Puts, or gets.
    pub is_put: bool,
    /// Which variant.
    pub variant: Variant,
    /// How many items there are; each request chooses one at random.
    pub items: u64,
    /// Whether operation n is about item n instead: the first pass, which creates the items.
    pub in_order: bool,
    /// The value of the first put; each later one is greater by one.
    pub value_first: u64,
    /// Operations until the run ends.
    pub remaining: Remaining,
    /// Whether this part ends with the others, and is not counted: a load in the background.
    pub is_background: bool,
}

impl Remaining {
    /// A run of so many operations.
    pub fn new(operations: u64) -> Self {
        Remaining(Arc::new(AtomicU64::new(operations)))
    }

    /// One operation fewer; whether any remain.
    fn count_down(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.is_ok_and(|before| 1 < before)
    }

    fn is_any(&self) -> bool {
        0 < self.0.load(Ordering::Relaxed)
    }
}

impl Stress {
    /// The names of its levels, in the order of the numbers in intents.
    pub fn levels(&self) -> Vec<Text> {
        match self.is_put {
            true => vec![STRONG.into(), CONDITIONAL.into()],
            false => vec![EVENTUAL.into(), STRONG.into()],
        }
    }
}

impl Workload for Stress {
    fn plan(&self, sequence: u64) -> Intent {
        let level = match self.variant {
            Variant::Plain => 0,
            Variant::Strong => 1,
            Variant::InTurn => (sequence % 2) as usize,
        };
        let key = match self.in_order {
            true => sequence,
            false => mix(self.value_first ^ mix(sequence)),
        };
        Intent {
            act: if self.is_put { Act::Write } else { Act::Read },
            key: key % self.items.max(1),
            value: self.is_put.then_some(self.value_first + sequence),
            level,
        }
    }

    fn goes_on(&self, _operation: &Operation) -> bool {
        match self.is_background {
            true => self.remaining.is_any(),
            false => self.remaining.count_down(),
        }
    }
}

impl Wire for Stress {
    fn action(&self) -> &'static str {
        match self.is_put {
            true => "PutAttributes",
            false => "GetAttributes",
        }
    }

    fn parameters(&self, intent: &Intent, form: &mut Form) {
        form.push("DomainName", &self.domain);
        form.push("ItemName", Name(intent.key));
        let is_strong = intent.level == 1;
        if let Some(value) = intent.value {
            form.push("Attribute.1.Name", ATTRIBUTE);
            form.push("Attribute.1.Value", value);
            form.push("Attribute.1.Replace", "true");
            if is_strong {
                form.push("Expected.1.Name", ABSENT);
                form.push("Expected.1.Exists", "false");
            }
        } else if is_strong {
            form.push("ConsistentRead", "true");
        }
    }

    /// A get shows one number, or nothing: an eventual one may be from before the first put.
    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict {
        if self.is_put {
            return is_acknowledged(intent, body);
        }
        let mut texts = Texts { rest: body };
        let Some(shown) = texts.next(b"<Value>") else {
            return is_acknowledged(intent, body);
        };
        let number = std::str::from_utf8(shown).ok();
        match (
            number.and_then(|text| text.parse().ok()),
            texts.next(b"<Value>"),
        ) {
            (Some(number), None) => Verdict::Right(Some(number)),
            _ => Verdict::Wrong,
        }
    }
}

#[cfg(test)]
mod tests;
