//! Providers: services of which operations of logs are asked.
//!
//! Of any [`Domains`] an object is an item with one attribute, [`ATTRIBUTE`]. Of levels it knows
//! `strong` and `eventual`.

use std::sync::Arc;

use async_trait::async_trait;
use fader_cloud::{Attribute, AttributePut, Domains, ErrorKind, Expected, ItemPut, Reading};
use fader_history::object::{Outcome, Reply, Request, Value, Verb};

use crate::drive::Provider;
use crate::workload::Heard;

/// The attribute that holds an object's value.
const ATTRIBUTE: &str = "v";
/// The level of reads that see every acknowledged write.
pub const STRONG: &str = "strong";
/// The level of reads that may not.
pub const EVENTUAL: &str = "eventual";
/// Items that a scan reads.
const SCAN_ITEMS: usize = 100;

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
            STRONG => Reading::Strong,
            _ => Reading::Eventual,
        };
        if let Some(first) = request.key.strip_prefix("scan of ") {
            let expression = format!(
                "select * from `{}` where itemName() >= '{first}' limit {SCAN_ITEMS}",
                self.domain
            );
            self.domains.select(&expression, None, reading).await?;
            return Ok(Reply::default());
        }
        let names = [ATTRIBUTE.to_owned()];
        let found = self
            .domains
            .get(&self.domain, &request.key, &names, reading);
        Ok(Reply::shows(shown(&found.await?)))
    }

    async fn write(&self, key: &str, from: Option<&Value>, to: &Value) -> fader_cloud::Result<()> {
        let condition = from.map(|from| match from {
            Value::None => Expected::Absent(ATTRIBUTE.to_owned()),
            value => Expected::Value(Attribute {
                name: ATTRIBUTE.to_owned(),
                value: self.text(value),
            }),
        });
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
        let size = self.value_bytes;
        match value {
            Value::Number(number) => format!("{number:0size$}"),
            other => other.to_string(),
        }
    }
}

#[async_trait]
impl Provider for InDomain {
    async fn ask(&self, _client: u32, request: &Request, level: &str) -> Outcome {
        let written = |result: fader_cloud::Result<()>| result.map(|()| Reply::default());
        let (is_write, result) = match &request.verb {
            Verb::Read => (false, self.read(request, level).await),
            Verb::Write(to) => (true, written(self.write(&request.key, None, to).await)),
            Verb::Swap { from, to } => {
                let swapped = self.write(&request.key, Some(from), to).await;
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
    let value = |attribute: &Attribute| match attribute.value.parse() {
        Ok(number) => Value::Number(number),
        Err(_) => Value::from(attribute.value.as_str()),
    };
    match found {
        [] => Value::None,
        [one] => value(one),
        many => Value::List(many.iter().map(value).collect()),
    }
}
