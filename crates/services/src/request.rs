//! What goes through a node: a request of any service, and what comes of it.
//!
//! These enums are closed, with a variant for each service. Whoever carries them asks them, and
//! looks into none; what a service means is said by its [`Service`].

use bytes::Bytes;
use fader_chain::{DecodeError, ElementOp, Register, Settled, Stamp};

use crate::catalog::{self, Catalog};
use crate::level::{Bound, Demand, Level, Preference};
use crate::service::{Acceptance, Class, Context, Meaning, Service, Sight, Target, Trouble, Wait};
use crate::simpledb::{self, SimpleDb};
use crate::{CollectionId, Decision, Mode, Table, View, ViewError};

/// A request of any service.
#[derive(Clone, Debug)]
pub enum Request {
    /// Of SimpleDB.
    SimpleDb(simpledb::Request),
    /// A command to the catalog.
    Catalog(catalog::Command),
}

/// What a request comes to that succeeds.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Of SimpleDB.
    SimpleDb(simpledb::Answered),
    /// Of the catalog.
    Catalog(catalog::Done),
}

/// What it comes to otherwise, in the words of its service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Of SimpleDB.
    #[error(transparent)]
    SimpleDb(#[from] simpledb::Error),
    /// Of the catalog.
    #[error(transparent)]
    Catalog(#[from] catalog::Refusal),
}

impl From<simpledb::Answered> for Reply {
    fn from(answered: simpledb::Answered) -> Self {
        Reply::SimpleDb(answered)
    }
}

impl From<catalog::Done> for Reply {
    fn from(done: catalog::Done) -> Self {
        Reply::Catalog(done)
    }
}

/// What a request comes to.
pub type Outcome = Result<Reply, Refusal>;

/// The limits of all services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// SimpleDB's.
    pub simpledb: simpledb::Limits,
}

/// The name of a service: what remains of a request whose answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceName {
    /// SimpleDB.
    SimpleDb,
    /// The catalog.
    Catalog,
}

impl ServiceName {
    /// Puts what a node has to say into the words of this service.
    pub fn word(self, trouble: Trouble) -> Refusal {
        match self {
            ServiceName::SimpleDb => SimpleDb::word(trouble).into(),
            ServiceName::Catalog => Catalog::word(trouble).into(),
        }
    }

    /// Reads what [`keep`] wrote of a request of this service.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are none.
    pub fn kept(self, bytes: Bytes) -> Result<Outcome, DecodeError> {
        Ok(match self {
            ServiceName::SimpleDb => any::<SimpleDb>(SimpleDb::kept(bytes)?),
            ServiceName::Catalog => any::<Catalog>(Catalog::kept(bytes)?),
        })
    }
}

impl Request {
    /// Its service.
    pub fn service(&self) -> ServiceName {
        match self {
            Request::SimpleDb(_) => ServiceName::SimpleDb,
            Request::Catalog(_) => ServiceName::Catalog,
        }
    }

    /// What it does.
    pub fn class(&self) -> Class {
        match self {
            Request::SimpleDb(request) => SimpleDb::class(request),
            Request::Catalog(command) => Catalog::class(command),
        }
    }

    /// Which collection it is about.
    pub fn target(&self) -> Target<'_> {
        match self {
            Request::SimpleDb(request) => SimpleDb::target(request),
            Request::Catalog(command) => Catalog::target(command),
        }
    }

    /// What it looks at in that collection.
    pub fn sight(&self, collection: CollectionId) -> Sight {
        match self {
            Request::SimpleDb(request) => SimpleDb::sight(request, collection),
            Request::Catalog(command) => Catalog::sight(command, collection),
        }
    }

    /// Bytes that it holds while it waits.
    pub fn size(&self) -> usize {
        match self {
            Request::SimpleDb(request) => SimpleDb::size(request),
            Request::Catalog(command) => Catalog::size(command),
        }
    }

    /// The level that it runs at, and its bound.
    ///
    /// # Errors
    /// The refusal when level, mode and request do not go together.
    pub fn permits(
        &self,
        mode: Option<Mode>,
        of_collection: Option<Preference>,
        demand: &Demand,
    ) -> Result<(Level, Option<Bound>), Refusal> {
        Ok(match self {
            Request::SimpleDb(it) => SimpleDb::permits(mode, of_collection, demand, it)?,
            Request::Catalog(it) => Catalog::permits(mode, of_collection, demand, it)?,
        })
    }

    /// Decides it on the newest state of the log.
    ///
    /// # Errors
    /// [`Wait`] when it is to be decided again later.
    pub fn decide(
        &self,
        view: &dyn View,
        context: &Context<'_, Limits>,
    ) -> Result<Decision<Outcome>, Wait> {
        match self {
            Request::SimpleDb(it) => {
                let context = context.under(&context.limits.simpledb);
                SimpleDb::decide(view, &context, it).map(any_decision::<SimpleDb>)
            }
            Request::Catalog(it) => {
                Catalog::decide(view, &context.under(&()), it).map(any_decision::<Catalog>)
            }
        }
    }

    /// Decides what it does to the names of collections, where these are on `chains` other chains;
    /// nothing of a request that does nothing to names there.
    pub fn decide_names(
        &self,
        view: &dyn View,
        context: &Context<'_, Limits>,
        chains: u32,
    ) -> Option<Decision<Outcome>> {
        match self {
            Request::SimpleDb(it) => {
                let context = context.under(&context.limits.simpledb);
                SimpleDb::decide_names(view, &context, chains, it).map(any_decision::<SimpleDb>)
            }
            Request::Catalog(_) => None,
        }
    }

    /// Answers it on a committed view.
    ///
    /// # Errors
    /// The refusal, as its service words it.
    pub fn answer(&self, view: &dyn View, context: &Context<'_, Limits>) -> Outcome {
        match self {
            Request::SimpleDb(it) => {
                let context = context.under(&context.limits.simpledb);
                any::<SimpleDb>(SimpleDb::answer(view, &context, it))
            }
            Request::Catalog(it) => any::<Catalog>(Catalog::answer(view, &context.under(&()), it)),
        }
    }

    /// Answers it from what several members show of its register.
    ///
    /// # Errors
    /// The refusal, as its service words it.
    pub fn answer_register(
        &self,
        view: &dyn View,
        context: &Context<'_, Limits>,
        shown: Register,
    ) -> Outcome {
        match self {
            Request::SimpleDb(it) => {
                let context = context.under(&context.limits.simpledb);
                any::<SimpleDb>(SimpleDb::answer_register(view, &context, it, shown))
            }
            Request::Catalog(_) => self.answer(view, context),
        }
    }

    /// Whether an unsettled element decided anything of what it is shown.
    pub fn is_tentative(&self, committed: &Register, shown: &Register) -> bool {
        match self {
            Request::SimpleDb(it) => SimpleDb::is_tentative(it, committed, shown),
            Request::Catalog(it) => Catalog::is_tentative(it, committed, shown),
        }
    }

    /// Decides it as an eventual write.
    ///
    /// # Errors
    /// The refusal of the request as a whole, before anything is stamped.
    pub fn accept(
        &self,
        view: &dyn View,
        context: &Context<'_, Limits>,
    ) -> Result<Acceptance<Reply>, Refusal> {
        match self {
            Request::SimpleDb(it) => {
                let context = context.under(&context.limits.simpledb);
                Ok(any_acceptance(SimpleDb::accept(view, &context, it)?))
            }
            Request::Catalog(it) => {
                let acceptance = Catalog::accept(view, &context.under(&()), it)?;
                Ok(any_acceptance(acceptance))
            }
        }
    }
}

impl Refusal {
    /// What it means to those on its way.
    pub fn meaning(&self) -> Meaning {
        match self {
            Refusal::SimpleDb(error) => SimpleDb::meaning(error),
            Refusal::Catalog(refusal) => Catalog::meaning(refusal),
        }
    }

    /// Whether a write is refused with it because of the state it found: then the refusal is an
    /// entry (D12).
    pub fn depends_on_state(&self) -> bool {
        match self {
            Refusal::SimpleDb(error) => SimpleDb::depends_on_state(error),
            Refusal::Catalog(refusal) => Catalog::depends_on_state(refusal),
        }
    }
}

/// What is kept of the outcome of a named write (XO-3); nothing if it is no entry.
pub fn keep(outcome: &Outcome) -> Option<Bytes> {
    match outcome {
        Ok(Reply::SimpleDb(answered)) => SimpleDb::keep(Ok(answered)),
        Ok(Reply::Catalog(done)) => Catalog::keep(Ok(done)),
        Err(Refusal::SimpleDb(error)) => SimpleDb::keep(Err(error)),
        Err(Refusal::Catalog(refusal)) => Catalog::keep(Err(refusal)),
    }
}

/// Settles an eventual operation on `newest`, the state of the head's log: by the service whose
/// table its register is in.
///
/// # Errors
/// [`ViewError`] when the store cannot be read, or the key is no register's.
pub fn settle(
    newest: &dyn View,
    limits: &Limits,
    key: &Bytes,
    ops: Vec<ElementOp>,
    stamp: Stamp,
) -> Result<Settled, ViewError> {
    match key.get(size_of::<CollectionId>()) {
        Some(table) if *table == Table::Items as u8 => {
            SimpleDb::settle(newest, &limits.simpledb, key, ops, stamp)
        }
        _ => Err(ViewError("an operation on what is no register".to_owned())),
    }
}

fn any<S: Service>(outcome: Result<S::Reply, S::Refusal>) -> Outcome {
    match outcome {
        Ok(reply) => Ok(reply.into()),
        Err(refusal) => Err(refusal.into()),
    }
}

fn any_decision<S: Service>(decision: Decision<Result<S::Reply, S::Refusal>>) -> Decision<Outcome> {
    Decision {
        outcome: any::<S>(decision.outcome),
        changes: decision.changes,
    }
}

fn any_acceptance<R: Into<Reply>>(acceptance: Acceptance<R>) -> Acceptance<Reply> {
    Acceptance {
        answered: acceptance.answered.into(),
        writes: acceptance.writes,
    }
}
