//! Objects in a domain of SimpleDB, at the levels that it has and those that Fader has.
//!
//! The levels `strong` and `eventual` are `ConsistentRead` and its absence, which every SimpleDB
//! knows; writes at both are what the domain has them be. Any other level is Fader's own
//! (`fader_services::level`), such as `barrier` or `eventual; r=2; w=2`. With `; session` after a
//! level, the operations of a client at that level follow one another in a session.
//!
//! A Fader tells the stamp of what it shows and writes: the place of a version.

use std::collections::BTreeMap;

use async_trait::async_trait;
use fader_client::{CallOptions, DomainOptions, Error, ErrorKind, Session, SimpleDb};
use fader_cloud::{Attribute, AttributePut, Expected, ItemDelete};
use fader_history::object::{Outcome, Place, Reply, Request, Value, Verb};
use fader_services::Mode;
use fader_services::level::{self, ReplyMetadata, show_stamp};
use parking_lot::Mutex;

use super::{ABSENT, ATTRIBUTE, CONDITIONAL, EVENTUAL, STRONG, scanned, shown, text_of};
use crate::drive::Provider;
use crate::workload::Heard;

/// What follows a level whose operations are in a session.
const SESSION: &str = "; session";

/// Objects in one domain.
#[derive(Debug)]
pub struct InSimpleDb {
    client: SimpleDb,
    domain: String,
    value_bytes: usize,
    /// Whether replies tell stamps: only Fader's do.
    has_stamps: bool,
    /// The session of each client, while it does not ask.
    sessions: Mutex<BTreeMap<u32, Session>>,
}

/// Who is asked, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// Any SimpleDB.
    Any,
    /// A Fader for a read.
    FaderToRead,
    /// A Fader for a write.
    FaderToWrite,
}

/// A level by its name.
#[derive(Debug)]
struct Level {
    is_consistent: bool,
    own: Option<level::ConsistencyOptions>,
    has_session: bool,
}

impl Level {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, has_session) = match text.strip_suffix(SESSION) {
            Some(name) => (name, true),
            None => (text, false),
        };
        let own = match name {
            STRONG | EVENTUAL | CONDITIONAL => None,
            name => Some(name.parse().map_err(|error| format!("{error}"))?),
        };
        Ok(Level {
            is_consistent: name == STRONG,
            own,
            has_session,
        })
    }

    /// What an operation asks for. A Fader tells the stamp of a read only if it is asked in its own
    /// words.
    fn demand<'s>(&self, ask: Ask, session: &'s mut Session) -> CallOptions<'s> {
        let own = match (&self.own, ask) {
            // A bound is for reads: a write has none.
            (Some(own), Ask::FaderToWrite) => CallOptions {
                bound: None,
                ..CallOptions::from(own.clone())
            },
            (Some(own), _) => CallOptions::from(own.clone()),
            (None, Ask::FaderToRead) => CallOptions {
                level: match self.is_consistent {
                    true => level::Level::Strong,
                    false => level::Level::EVENTUAL,
                },
                ..CallOptions::default()
            },
            (None, _) => CallOptions::default(),
        };
        CallOptions {
            consistent: self.is_consistent && ask == Ask::Any,
            metadata: ask != Ask::Any,
            session: self.has_session.then_some(session),
            ..own
        }
    }
}

/// The reason that a run has no domain.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A text that is no level.
    #[error("{0}")]
    Level(String),
    /// The service refused, or did not answer.
    #[error("cannot create the domain {domain}")]
    Service {
        /// The domain's name.
        domain: String,
        /// The failure of the call.
        source: Error,
    },
}

impl InSimpleDb {
    /// Whether a level's name is one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_level(text: &str) -> Result<(), String> {
        Level::parse(text).map(drop)
    }

    /// Creates a domain in which objects are read and written at these levels.
    ///
    /// # Errors
    /// [`CreateError`].
    pub async fn create(
        client: SimpleDb,
        domain: String,
        levels: &[&str],
        value_bytes: usize,
    ) -> Result<Self, CreateError> {
        let mut is_mixed = false;
        for text in levels {
            is_mixed |= Level::parse(text)
                .map_err(CreateError::Level)?
                .own
                .is_some();
        }
        let nature = DomainOptions {
            mode: is_mixed.then_some(Mode::Mixed),
            ..DomainOptions::default()
        };
        let created = match is_mixed {
            true => client.create_domain_as(&domain, &nature).await,
            false => client.create_domain(&domain).await,
        };
        if let Err(source) = created {
            return Err(CreateError::Service { domain, source });
        }
        let mut objects = InSimpleDb {
            client,
            domain,
            value_bytes,
            has_stamps: false,
            sessions: Mutex::default(),
        };
        objects.has_stamps = objects.tells_stamps().await;
        Ok(objects)
    }

    /// Whether the service tells the version of a write, if it is asked in Fader's words. What is
    /// deleted is not there.
    async fn tells_stamps(&self) -> bool {
        let demand = CallOptions {
            metadata: true,
            ..CallOptions::default()
        };
        let nothing = ItemDelete {
            name: "probe".to_owned(),
            attributes: Vec::new(),
        };
        let deleted = self
            .client
            .delete_attributes(&self.domain, &nothing, None, demand);
        deleted
            .await
            .is_ok_and(|response| place(&response.metadata).is_some())
    }

    async fn read(&self, key: &str, demand: CallOptions<'_>) -> Result<Reply, Error> {
        let Self { client, domain, .. } = self;
        if let Some((first, count)) = scanned(key) {
            let expression =
                format!("select * from `{domain}` where itemName() >= '{first}' limit {count}");
            client.select(&expression, None, demand).await?;
            return Ok(Reply::shows(Value::None));
        }
        let names = [ATTRIBUTE.to_owned()];
        let found = client.get_attributes(domain, key, &names, demand).await?;
        Ok(Reply {
            place: place(&found.metadata),
            ..Reply::shows(shown(&found.attributes))
        })
    }

    async fn write(
        &self,
        key: &str,
        condition: Option<Expected>,
        to: &Value,
        demand: CallOptions<'_>,
    ) -> Result<Reply, Error> {
        let puts = [AttributePut {
            name: ATTRIBUTE.to_owned(),
            value: text_of(to, self.value_bytes),
            replace: true,
        }];
        let put = self
            .client
            .put_attributes(&self.domain, key, &puts, condition.as_ref(), demand);
        match put.await {
            Ok(response) => Ok(Reply {
                place: place(&response.metadata),
                ..Reply::default()
            }),
            Err(error) if is_unmet(&error) => Ok(Reply::unmet()),
            Err(error) => Err(error),
        }
    }

    fn is(&self, value: &Value) -> Expected {
        match value {
            Value::None => Expected::Absent(ATTRIBUTE.to_owned()),
            value => Expected::Value(Attribute {
                name: ATTRIBUTE.to_owned(),
                value: text_of(value, self.value_bytes),
            }),
        }
    }
}

/// The place of what was read or written: its stamp, or the version of a strong write, whose
/// numbers are in their order.
fn place(receipt: &ReplyMetadata) -> Option<Place> {
    let version = || {
        receipt
            .version
            .map(|version| vec![version.epoch, version.index])
    };
    let stamp = receipt.stamp.as_ref().map(show_stamp);
    match stamp {
        Some(stamp) => Place::parse(&stamp),
        None => version().map(Place),
    }
}

fn is_unmet(error: &Error) -> bool {
    matches!(
        error.code(),
        Some("ConditionalCheckFailed" | "AttributeDoesNotExist")
    )
}

/// What a failure says: only of an ambiguous one may something have been changed.
pub(crate) fn heard(error: &Error) -> Heard {
    match &error.kind {
        ErrorKind::Refused { status, code, .. } => Heard::Status(*status, code.as_str().into()),
        ErrorKind::Unavailable | ErrorKind::Invalid => Heard::Unsent,
        ErrorKind::Ambiguous | ErrorKind::Malformed => Heard::Silence,
    }
}

#[async_trait]
impl Provider for InSimpleDb {
    async fn ask(&self, client: u32, request: &Request, level: &str) -> Outcome {
        let parsed = match Level::parse(level) {
            Ok(parsed) => parsed,
            Err(error) => return Outcome::Refused(error.into()),
        };
        // A client asks one thing at a time.
        let mut session = self.sessions.lock().remove(&client).unwrap_or_default();
        let ask = match (self.has_stamps, &request.verb) {
            (false, _) => Ask::Any,
            (true, Verb::Read) => Ask::FaderToRead,
            (true, _) => Ask::FaderToWrite,
        };
        let demand = parsed.demand(ask, &mut session);
        let key = &request.key;
        let (is_write, told) = match &request.verb {
            Verb::Read => (false, self.read(key, demand).await),
            Verb::Write(to) => {
                let condition = (level == CONDITIONAL).then(|| Expected::Absent(ABSENT.to_owned()));
                (true, self.write(key, condition, to, demand).await)
            }
            Verb::Swap { from, to } => {
                let swapped = self.write(key, Some(self.is(from)), to, demand);
                (true, swapped.await)
            }
            verb => {
                let text = format!("an item is read, written or swapped, not asked for {verb:?}");
                return Outcome::Refused(text.into());
            }
        };
        self.sessions.lock().insert(client, session);
        let heard = told.map_or_else(|error| heard(&error), Heard::Reply);
        heard.outcome(is_write)
    }

    async fn end(&self) -> Result<(), String> {
        let deleted = self.client.delete_domain(&self.domain).await;
        deleted
            .map(drop)
            .map_err(|error| format!("cannot delete the domain {}: {error}", self.domain))
    }
}

#[cfg(test)]
mod tests;
