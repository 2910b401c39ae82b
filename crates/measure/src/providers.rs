//! Providers: services of which operations of logs are asked.
//!
//! Of any [`Domains`] an object is an item with one attribute, [`ATTRIBUTE`]. Of levels it knows
//! `strong` and `eventual`. SimpleDB with Fader's levels, Redis and etcd have a file each.

mod etcd;
mod redis;
pub(crate) mod simpledb;

use std::sync::Arc;

use async_trait::async_trait;
use fader_cloud::{
    Attribute, AttributePut, Domains, ErrorKind, Expected, ItemPut, ReadConsistency,
};
use fader_history::object::{Outcome, Reply, Request, Value, Verb};

pub use self::redis::Redis;
pub use etcd::Etcd;
pub use simpledb::{CreateError, InSimpleDb};

use crate::drive::Provider;
use crate::workload::Heard;

/// The attribute that holds an object's value.
pub(crate) const ATTRIBUTE: &str = "v";
/// An attribute that no item has: writes at the level [`CONDITIONAL`] have its absence as their
/// condition.
pub(crate) const ABSENT: &str = "absent";
/// The level of reads that see every acknowledged write.
pub const STRONG: &str = "strong";
/// The level of reads that may not.
pub const EVENTUAL: &str = "eventual";
/// The level of writes with a condition that is always met.
pub const CONDITIONAL: &str = "conditional";
/// Items that a scan reads.
const SCAN_ITEMS: u32 = 100;

/// The first object and their number, of the key of a scan. That key is an object of its own, which
/// nothing writes: a scan shows nothing.
fn scanned(key: &str) -> Option<(&str, u32)> {
    Some((key.strip_prefix("scan of ")?, SCAN_ITEMS))
}

/// A value as it is stored, in so many octets at least.
fn text_of(value: &Value, bytes: usize) -> String {
    match value {
        Value::Number(number) => format!("{number:0bytes$}"),
        other => other.to_string(),
    }
}

/// A value that was stored: a number if it is one.
fn shown_text(text: &str) -> Value {
    match text.parse() {
        Ok(number) => Value::Number(number),
        Err(_) => Value::from(text),
    }
}

/// Objects in a domain of any [`Domains`].
#[derive(Clone, Debug)]
pub struct InDomain {
    /// The service.
    pub domains: Arc<dyn Domains>,
    /// The domain, which must exist.
    pub domain: String,
    /// Octets of a value at least: digits after zeros.
    pub value_bytes: usize,
}

impl InDomain {
    async fn read(&self, request: &Request, level: &str) -> fader_cloud::Result<Reply> {
        let reading = match level {
            STRONG => ReadConsistency::Strong,
            _ => ReadConsistency::Eventual,
        };
        if let Some((first, count)) = scanned(&request.key) {
            let domain = &self.domain;
            let expression =
                format!("select * from `{domain}` where itemName() >= '{first}' limit {count}");
            self.domains.select(&expression, None, reading).await?;
            return Ok(Reply::shows(Value::None));
        }
        let names = [ATTRIBUTE.to_owned()];
        let found = self
            .domains
            .get(&self.domain, &request.key, &names, reading);
        Ok(Reply::shows(shown(&found.await?)))
    }

    /// The condition of a compare-and-set.
    fn is(&self, value: &Value) -> Expected {
        match value {
            Value::None => Expected::Absent(ATTRIBUTE.to_owned()),
            value => Expected::Value(Attribute {
                name: ATTRIBUTE.to_owned(),
                value: self.text(value),
            }),
        }
    }

    async fn write(
        &self,
        key: &str,
        condition: Option<Expected>,
        to: &Value,
    ) -> fader_cloud::Result<()> {
        let put = ItemPut {
            name: key.to_owned(),
            attributes: vec![AttributePut {
                name: ATTRIBUTE.to_owned(),
                value: self.text(to),
                replace: true,
            }],
        };
        self.domains
            .put(&self.domain, &put, condition.as_ref())
            .await
    }

    fn text(&self, value: &Value) -> String {
        text_of(value, self.value_bytes)
    }
}

#[async_trait]
impl Provider for InDomain {
    async fn ask(&self, _client: u32, request: &Request, level: &str) -> Outcome {
        let written = |result: fader_cloud::Result<()>| result.map(|()| Reply::default());
        let (is_write, result) = match &request.verb {
            Verb::Read => (false, self.read(request, level).await),
            Verb::Write(to) => {
                let condition = (level == CONDITIONAL).then(|| Expected::Absent(ABSENT.to_owned()));
                (true, written(self.write(&request.key, condition, to).await))
            }
            Verb::Swap { from, to } => {
                let swapped = self.write(&request.key, Some(self.is(from)), to).await;
                (true, written(swapped))
            }
            verb => {
                let text = format!("an item is read, written or swapped, not asked for {verb:?}");
                return Outcome::Refused(text.into());
            }
        };
        match result {
            Ok(reply) => Heard::Reply(reply).outcome(is_write),
            Err(error) if error.kind == ErrorKind::Precondition => Outcome::Done(Reply::unmet()),
            Err(error) => heard(&error).outcome(is_write),
        }
    }

    async fn end(&self) -> Result<(), String> {
        let deleted = self.domains.delete(&self.domain).await;
        deleted.map_err(|error| format!("cannot delete the domain {}: {error}", self.domain))
    }
}

/// What a failure of the contract says: only of an ambiguous one may something have been changed.
fn heard(error: &fader_cloud::Error) -> Heard {
    match error.kind {
        ErrorKind::Ambiguous => Heard::Silence,
        ErrorKind::Unavailable { .. } => Heard::Unsent,
        ErrorKind::NotFound => Heard::Status(404, error.context.as_str().into()),
        ErrorKind::Precondition => Heard::Status(409, error.context.as_str().into()),
        ErrorKind::Denied => Heard::Status(403, error.context.as_str().into()),
        ErrorKind::Invalid | ErrorKind::Malformed => {
            Heard::Status(400, error.context.as_str().into())
        }
    }
}

/// An item's value: a number if it is one, several values if there are.
fn shown(found: &[Attribute]) -> Value {
    let value = |attribute: &Attribute| shown_text(&attribute.value);
    match found {
        [] => Value::None,
        [one] => value(one),
        many => Value::List(many.iter().map(value).collect()),
    }
}
