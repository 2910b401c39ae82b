//! What a server that was killed must still know, and must not have made up.
//!
//! Invariants, which [`Ledger::check`] checks on what the server shows afterwards:
//! - L1 an acknowledged write is there, whole; an acknowledged delete is done.
//! - L2 a batch without an answer is there whole or not at all.
//! - L3 the counter stands at the acknowledged increments, plus at most those without an answer.
//! - L4 every octet shown is one that was written: an item's content follows from its name.

use std::collections::BTreeMap;

use fader_cloud::{Attribute, Item};

#[cfg(test)]
mod tests;

/// The item that is incremented.
pub const COUNTER: &str = "counter";

/// The counter's attribute.
pub const COUNT: &str = "count";

/// What is known of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Present,
    Absent,
    /// A put or delete without an answer: either may be.
    Either,
}

/// Everything done to one domain.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    items: BTreeMap<String, Fate>,
    /// Batches without an answer.
    batches: Vec<Vec<String>>,
    increments: u64,
    doubtful_increments: u64,
}

/// What a check found, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Writes and deletes that were acknowledged.
    pub acknowledged: u64,
    /// Increments that were acknowledged.
    pub increments: u64,
    /// Writes, deletes and increments without an answer.
    pub doubtful: u64,
}

impl Ledger {
    /// Notes a put; without an answer if not `is_acknowledged`.
    pub fn put(&mut self, items: &[String], is_acknowledged: bool) {
        let fate = if is_acknowledged {
            Fate::Present
        } else {
            Fate::Either
        };
        for item in items {
            self.items.insert(item.clone(), fate);
        }
        if !is_acknowledged && items.len() > 1 {
            self.batches.push(items.to_vec());
        }
    }

    /// Notes a delete.
    pub fn delete(&mut self, item: &str, is_acknowledged: bool) {
        let fate = if is_acknowledged {
            Fate::Absent
        } else {
            Fate::Either
        };
        self.items.insert(item.to_owned(), fate);
    }

    /// Notes an increment of the counter.
    pub fn increment(&mut self, is_acknowledged: bool) {
        match is_acknowledged {
            true => self.increments += 1,
            false => self.doubtful_increments += 1,
        }
    }

    /// Adds what another connection did; connections share no item but the counter.
    pub fn merge(&mut self, other: Ledger) {
        self.items.extend(other.items);
        self.batches.extend(other.batches);
        self.increments += other.increments;
        self.doubtful_increments += other.doubtful_increments;
    }

    /// What was noted, in numbers.
    pub fn summary(&self) -> Checked {
        let doubtful = self
            .items
            .values()
            .filter(|fate| **fate == Fate::Either)
            .count() as u64;
        Checked {
            acknowledged: self.items.len() as u64 - doubtful,
            increments: self.increments,
            doubtful: doubtful + self.doubtful_increments,
        }
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
        self.check_counter(shown.remove(COUNTER))?;
        for (name, fate) in &self.items {
            match (fate, shown.get(name.as_str())) {
                (Fate::Present, None) => return Err(format!("item {name} is lost")),
                (Fate::Absent, Some(_)) => return Err(format!("item {name} was deleted")),
                _ => {}
            }
        }
        for batch in &self.batches {
            let count = batch
                .iter()
                .filter(|name| shown.contains_key(name.as_str()))
                .count();
            if count != 0 && count != batch.len() {
                return Err(format!(
                    "{count} of a batch's {} items: {batch:?}",
                    batch.len()
                ));
            }
        }
        for (name, item) in shown {
            if !self.items.contains_key(name) {
                return Err(format!("item {name} was never written"));
            }
            let expected = content(name);
            if item.attributes != expected {
                let found = &item.attributes;
                return Err(format!("item {name} holds {found:?}, not {expected:?}"));
            }
        }
        Ok(())
    }

    fn check_counter(&self, item: Option<&Item>) -> Result<(), String> {
        let value = match item.map(|item| item.attributes.as_slice()) {
            None => 0,
            Some([attribute]) if attribute.name == COUNT => {
                let value = attribute.value.parse();
                value.map_err(|_| format!("the counter stands at {:?}", attribute.value))?
            }
            Some(attributes) => return Err(format!("the counter holds {attributes:?}")),
        };
        let most = self.increments + self.doubtful_increments;
        if value < self.increments || most < value {
            return Err(format!(
                "the counter stands at {value}, after {} acknowledged increments and {} without \
                 an answer",
                self.increments, self.doubtful_increments
            ));
        }
        Ok(())
    }
}

/// What an item of that name holds, in the order in which a server shows it: 1 to 900 octets that
/// follow from the name, and the name itself.
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
