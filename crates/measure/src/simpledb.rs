//! SimpleDB workloads over known items.

use std::ops::Range;
use std::sync::Arc;

use fader_history::object::{Log, Value, Verb};

use crate::items::{Hex, Items, Name, Texts, key_of, mix, parse_name};
use crate::workload::{Act, Form, Intent, Verdict, Wire, Workload};

/// The most items BatchPutAttributes takes.
const BATCH_ITEMS: u64 = 25;

/// GetAttributes of items in random order, each of which must have the stamp known for it.
pub struct Get {
    /// The items.
    pub items: Arc<Items>,
    /// Keys to read, with the stamp that must be there.
    pub stamps: Vec<(u64, u64)>,
    /// Whether to ask for a consistent read.
    pub consistent: bool,
}

/// PutAttributes, replacing: item after item, each time with a new stamp.
pub struct Put {
    /// The items.
    pub items: Arc<Items>,
    /// The stamp of the first operation, above all that were used before.
    pub stamp_first: u64,
}

/// BatchPutAttributes of all items, pass after pass, each pass with the next stamp.
pub struct BatchPut {
    /// The items.
    pub items: Arc<Items>,
    /// The stamp of the first pass; above zero, values are replaced.
    pub stamp_first: u64,
}

/// Select of one group of items by equality.
pub struct Select {
    /// The items, which must have groups.
    pub items: Arc<Items>,
}

impl Workload for Get {
    fn plan(&self, sequence: u64) -> Intent {
        let index = mix(sequence) % self.stamps.len() as u64;
        let (key, stamp) = self.stamps[index as usize];
        Intent {
            act: Act::Read,
            key,
            value: Some(stamp),
            level: 0,
        }
    }
}

impl Wire for Get {
    fn action(&self) -> &'static str {
        "GetAttributes"
    }

    fn parameters(&self, intent: &Intent, form: &mut Form) {
        form.push("DomainName", &self.items.domain);
        form.push("ItemName", Name(intent.key));
        if self.consistent {
            form.push("ConsistentRead", "true");
        }
    }

    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict {
        self.items.verify(intent.key, stamp(intent), body)
    }
}

impl Workload for Put {
    fn plan(&self, sequence: u64) -> Intent {
        let value = self.stamp_first + sequence;
        Intent {
            act: Act::Write,
            key: value % self.items.count,
            value: Some(value),
            level: 0,
        }
    }
}

impl Wire for Put {
    fn action(&self) -> &'static str {
        "PutAttributes"
    }

    fn parameters(&self, intent: &Intent, form: &mut Form) {
        form.push("DomainName", &self.items.domain);
        self.items.put("", intent.key, stamp(intent), true, form);
    }

    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict {
        is_acknowledged(intent, body)
    }
}

impl BatchPut {
    /// Operations of one pass.
    pub fn operations(&self) -> u64 {
        self.items.count.div_ceil(BATCH_ITEMS)
    }

    /// The keys of the batch that begins with `key`.
    pub fn keys(&self, key: u64) -> Range<u64> {
        key..self.items.count.min(key + BATCH_ITEMS)
    }
}

impl Workload for BatchPut {
    fn plan(&self, sequence: u64) -> Intent {
        let key = sequence % self.operations() * BATCH_ITEMS;
        let stamp = self.stamp_first + sequence / self.operations();
        Intent {
            act: Act::Batch,
            key,
            value: Some(stamp),
            level: 0,
        }
    }
}

impl Wire for BatchPut {
    fn action(&self) -> &'static str {
        "BatchPutAttributes"
    }

    fn parameters(&self, intent: &Intent, form: &mut Form) {
        form.push("DomainName", &self.items.domain);
        let stamp = stamp(intent);
        for (index, key) in self.keys(intent.key).enumerate() {
            self.items
                .put(&format!("Item.{}.", index + 1), key, stamp, 0 < stamp, form);
        }
    }

    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict {
        is_acknowledged(intent, body)
    }
}

impl Select {
    fn group_size(&self, group: u64) -> u64 {
        (self.items.count - group).div_ceil(self.items.groups)
    }
}

impl Workload for Select {
    fn plan(&self, sequence: u64) -> Intent {
        Intent {
            act: Act::Scan,
            key: mix(sequence) % self.items.groups,
            value: None,
            level: 0,
        }
    }
}

impl Wire for Select {
    fn action(&self) -> &'static str {
        "Select"
    }

    fn parameters(&self, intent: &Intent, form: &mut Form) {
        let domain = &self.items.domain;
        let expression = format_args!(
            "select itemName() from `{domain}` where `group` = '{}'",
            Hex(intent.key)
        );
        form.push("SelectExpression", expression);
    }

    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict {
        let mut texts = Texts { rest: body };
        let mut found = 0;
        while let Some(name) = texts.next(b"<Name>") {
            let key = parse_name(name).filter(|key| *key < self.items.count);
            if key.is_none_or(|key| key % self.items.groups != intent.key) {
                return Verdict::Wrong;
            }
            found += 1;
        }
        match found == self.group_size(intent.key) {
            true => Verdict::Right(None),
            false => Verdict::Wrong,
        }
    }
}

/// The writes of a log that were acknowledged: the key of each, or of the first of its batch, and
/// its stamp.
pub fn acknowledged(log: &Log) -> impl Iterator<Item = (u64, u64)> + '_ {
    log.operations.iter().filter_map(|operation| {
        operation.done()?;
        match &operation.action.verb {
            Verb::Write(Value::Number(stamp)) => {
                Some((key_of(&operation.action.key)?, u64::try_from(*stamp).ok()?))
            }
            _ => None,
        }
    })
}

/// A write's reply says nothing but which request it answers.
pub(crate) fn is_acknowledged(intent: &Intent, body: &[u8]) -> Verdict {
    match (Texts { rest: body }).next(b"<RequestId>") {
        Some(id) if !id.is_empty() => Verdict::Right(intent.value),
        _ => Verdict::Wrong,
    }
}

fn stamp(intent: &Intent) -> u64 {
    intent.value.expect("every operation on items has a stamp")
}
