//! What goes through a node: a request of any service, and what comes of it.
//!
//! These enums are closed, with a variant for each service. Their carriers ask them, and
//! look into none; what a service means is said by its [`Service`].

mod limits;
mod name;
mod outcome;
mod rows;

use std::time::Duration;

use fader_chain::{Register, Version};

pub use limits::Limits;
pub use name::ServiceName;
pub use outcome::keep;
pub use rows::{FIGURES, figures, settle, stir, upkeep};
pub(crate) use rows::{check_mode, founded, razed, settle_step, take_step};

use crate::blocks::{self, Blocks};
use crate::catalog::{self, Catalog};
#[cfg(feature = "counter")]
use crate::counter::{self, Counter};
use crate::exports::{self, Exports};
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::s3::{self, S3};
use crate::service::{Acceptance, Class, Context, Service, Sight, Target, Wait};
use crate::simpledb::{self, SimpleDb};
use crate::sqs::{self, Sqs};
use crate::steps::{self, Steps, Taken};
use crate::{CollectionId, Decision, Kind, Mode, View};

/// A request of any service.
#[derive(Clone, Debug)]
pub enum Request {
    /// Of SimpleDB.
    SimpleDb(simpledb::Request),
    /// Of SQS.
    Sqs(sqs::Request),
    /// Of S3.
    S3(s3::Request),
    /// A command about blocks of objects.
    Block(blocks::Command),
    /// A command about exports of domains.
    Export(exports::Command),
    /// A command to the catalog.
    Catalog(catalog::Command),
    /// A command about a step across chains.
    Step(steps::Command),
    /// Of the counters of tests.
    #[cfg(feature = "counter")]
    Counter(counter::Request),
}

/// What a request comes to that succeeds.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Of SimpleDB.
    SimpleDb(simpledb::CostedReply),
    /// Of SQS.
    Sqs(sqs::Reply),
    /// Of S3.
    S3(s3::Reply),
    /// A command about blocks was carried out.
    Block(blocks::Done),
    /// Of exports of domains.
    Export(exports::Reply),
    /// Of the catalog.
    Catalog(catalog::Done),
    /// What came of a step.
    Step(Taken),
    /// Of a counter.
    #[cfg(feature = "counter")]
    Counter(counter::Reply),
}

/// What it comes to otherwise, in the words of its service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Of SimpleDB.
    #[error(transparent)]
    SimpleDb(#[from] simpledb::Error),
    /// Of SQS.
    #[error(transparent)]
    Sqs(#[from] sqs::Error),
    /// Of S3.
    #[error(transparent)]
    S3(#[from] s3::Error),
    /// Of a command about blocks.
    #[error(transparent)]
    Block(#[from] blocks::Refusal),
    /// Of a command about exports.
    #[error(transparent)]
    Export(#[from] exports::Error),
    /// Of the catalog.
    #[error(transparent)]
    Catalog(#[from] catalog::Refusal),
    /// Of a command about a step.
    #[error(transparent)]
    Step(#[from] steps::Refusal),
    /// Of a counter.
    #[cfg(feature = "counter")]
    #[error(transparent)]
    Counter(#[from] counter::Refusal),
}

/// The ways between a service's own types and those of all.
macro_rules! carried {
    ($variant:ident, $request:ty, $reply:ty, $refusal:ty) => {
        impl From<$request> for Request {
            fn from(request: $request) -> Self {
                Request::$variant(request)
            }
        }

        impl From<$reply> for Reply {
            fn from(reply: $reply) -> Self {
                Reply::$variant(reply)
            }
        }

        impl TryFrom<Reply> for $reply {
            type Error = Reply;

            fn try_from(reply: Reply) -> Result<Self, Reply> {
                match reply {
                    Reply::$variant(reply) => Ok(reply),
                    other => Err(other),
                }
            }
        }

        impl TryFrom<Refusal> for $refusal {
            type Error = Refusal;

            fn try_from(refusal: Refusal) -> Result<Self, Refusal> {
                match refusal {
                    Refusal::$variant(refusal) => Ok(refusal),
                    other => Err(other),
                }
            }
        }
    };
}

carried!(
    SimpleDb,
    simpledb::Request,
    simpledb::CostedReply,
    simpledb::Error
);
carried!(Sqs, sqs::Request, sqs::Reply, sqs::Error);
carried!(S3, s3::Request, s3::Reply, s3::Error);
carried!(Block, blocks::Command, blocks::Done, blocks::Refusal);
carried!(Export, exports::Command, exports::Reply, exports::Error);
carried!(Catalog, catalog::Command, catalog::Done, catalog::Refusal);
carried!(Step, steps::Command, Taken, steps::Refusal);
#[cfg(feature = "counter")]
carried!(Counter, counter::Request, counter::Reply, counter::Refusal);

/// What a request comes to.
pub type Outcome = Result<Reply, Refusal>;

/// What came of a request of `S`, in its own types.
///
/// # Panics
/// When it came of another service's request: a node answers as the request's own service.
///
/// # Errors
/// The refusal of the service, in its own type.
pub fn own<S: Service>(outcome: Outcome) -> Result<S::Reply, S::Refusal>
where
    S::Reply: TryFrom<Reply>,
    S::Refusal: TryFrom<Refusal>,
{
    match outcome {
        Ok(reply) => match reply.try_into() {
            Ok(reply) => Ok(reply),
            Err(_) => panic!("a request is answered by its own service"),
        },
        Err(refusal) => match refusal.try_into() {
            Ok(refusal) => Err(refusal),
            Err(_) => panic!("a request is refused by its own service"),
        },
    }
}

impl Request {
    /// Its service.
    pub fn service(&self) -> ServiceName {
        match self {
            Request::SimpleDb(_) => ServiceName::SimpleDb,
            Request::Sqs(_) => ServiceName::Sqs,
            Request::S3(_) => ServiceName::S3,
            Request::Block(_) => ServiceName::Block,
            Request::Export(_) => ServiceName::Export,
            Request::Catalog(_) => ServiceName::Catalog,
            Request::Step(_) => ServiceName::Step,
            #[cfg(feature = "counter")]
            Request::Counter(_) => ServiceName::Counter,
        }
    }

    /// The version of a cluster that it came with: processes of an older one do not know it.
    pub fn since(&self) -> Version {
        match self {
            Request::SimpleDb(_) => Version::OLDEST,
            Request::Sqs(_) => Kind::Queue.since(),
            Request::S3(_) | Request::Block(_) | Request::Export(_) => Kind::Bucket.since(),
            Request::Catalog(command) => command.kind().since(),
            Request::Step(command) => command.step().action.since(),
            #[cfg(feature = "counter")]
            Request::Counter(_) => Kind::Counter.since(),
        }
    }

    /// The rows of blocks that it puts: it is decided only where the blocks' bytes are held.
    pub fn puts_blocks(&self) -> &[blocks::NewRow] {
        match self {
            Request::Block(blocks::Command::Put(put)) => &put.blocks,
            _ => &[],
        }
    }

    /// Whether it adds bytes of objects that are in no block: where the disk has only its reserve
    /// left it is refused, as blocks are.
    pub fn adds_object_bytes(&self) -> bool {
        matches!(self, Request::S3(request) if request.command.adds_bytes())
    }

    /// The attempt whose blocks it names, if it puts an object of blocks.
    pub fn attempt(&self) -> Option<&blocks::Attempt> {
        match self {
            Request::S3(request) => s3::tentative::attempt(request),
            _ => None,
        }
    }

    /// For how long it may wait at the head for its collection to change.
    pub fn patience(&self) -> Duration {
        match self {
            Request::SimpleDb(request) => SimpleDb::patience(request),
            Request::Sqs(request) => Sqs::patience(request),
            Request::S3(request) => S3::patience(request),
            Request::Block(command) => Blocks::patience(command),
            Request::Export(command) => Exports::patience(command),
            Request::Catalog(command) => Catalog::patience(command),
            Request::Step(command) => Steps::patience(command),
            #[cfg(feature = "counter")]
            Request::Counter(request) => Counter::patience(request),
        }
    }

    /// Notes when it came to the process that decides it, in milliseconds since 1970: by its clock.
    pub fn arrive(&mut self, now_ms: u64) {
        if let Request::Sqs(request) = self {
            request.arrive(now_ms);
        }
    }

    /// What it does.
    pub fn class(&self) -> Class {
        match self {
            Request::SimpleDb(request) => SimpleDb::class(request),
            Request::Sqs(request) => Sqs::class(request),
            Request::S3(request) => S3::class(request),
            Request::Block(command) => Blocks::class(command),
            Request::Export(command) => Exports::class(command),
            Request::Catalog(command) => Catalog::class(command),
            Request::Step(command) => Steps::class(command),
            #[cfg(feature = "counter")]
            Request::Counter(request) => Counter::class(request),
        }
    }

    /// Which collection it is about.
    pub fn target(&self) -> Target<'_> {
        match self {
            Request::SimpleDb(request) => SimpleDb::target(request),
            Request::Sqs(request) => Sqs::target(request),
            Request::S3(request) => S3::target(request),
            Request::Block(command) => Blocks::target(command),
            Request::Export(command) => Exports::target(command),
            Request::Catalog(command) => Catalog::target(command),
            Request::Step(command) => Steps::target(command),
            #[cfg(feature = "counter")]
            Request::Counter(request) => Counter::target(request),
        }
    }

    /// Which other collection it is about, where a step is to go.
    pub fn towards(&self) -> Option<(Kind, &str)> {
        match self {
            Request::SimpleDb(request) => SimpleDb::towards(request),
            Request::Sqs(request) => Sqs::towards(request),
            Request::S3(request) => S3::towards(request),
            Request::Block(command) => Blocks::towards(command),
            Request::Export(command) => Exports::towards(command),
            Request::Catalog(command) => Catalog::towards(command),
            Request::Step(command) => Steps::towards(command),
            #[cfg(feature = "counter")]
            Request::Counter(request) => Counter::towards(request),
        }
    }

    /// What it looks at in that collection.
    pub fn sight(&self, collection: CollectionId) -> Sight {
        match self {
            Request::SimpleDb(request) => SimpleDb::sight(request, collection),
            Request::Sqs(request) => Sqs::sight(request, collection),
            Request::S3(request) => S3::sight(request, collection),
            Request::Block(command) => Blocks::sight(command, collection),
            Request::Export(command) => Exports::sight(command, collection),
            Request::Catalog(command) => Catalog::sight(command, collection),
            Request::Step(command) => Steps::sight(command, collection),
            #[cfg(feature = "counter")]
            Request::Counter(request) => Counter::sight(request, collection),
        }
    }

    /// Bytes that it holds while it waits.
    pub fn size(&self) -> usize {
        match self {
            Request::SimpleDb(request) => SimpleDb::size(request),
            Request::Sqs(request) => Sqs::size(request),
            Request::S3(request) => S3::size(request),
            Request::Block(command) => Blocks::size(command),
            Request::Export(command) => Exports::size(command),
            Request::Catalog(command) => Catalog::size(command),
            Request::Step(command) => Steps::size(command),
            #[cfg(feature = "counter")]
            Request::Counter(request) => Counter::size(request),
        }
    }

    /// The level that it runs at, and its bound.
    ///
    /// # Errors
    /// The refusal when level, mode and request do not go together.
    pub fn permits(
        &self,
        mode: Option<Mode>,
        of_collection: Option<DefaultConsistency>,
        consistency: &ConsistencyOptions,
    ) -> Result<(Level, Option<Bound>), Refusal> {
        Ok(match self {
            Request::SimpleDb(it) => {
                SimpleDb::effective_level(mode, of_collection, consistency, it)?
            }
            Request::Sqs(it) => Sqs::effective_level(mode, of_collection, consistency, it)?,
            Request::S3(it) => S3::effective_level(mode, of_collection, consistency, it)?,
            Request::Block(it) => Blocks::effective_level(mode, of_collection, consistency, it)?,
            Request::Export(it) => Exports::effective_level(mode, of_collection, consistency, it)?,
            Request::Catalog(it) => Catalog::effective_level(mode, of_collection, consistency, it)?,
            Request::Step(it) => Steps::effective_level(mode, of_collection, consistency, it)?,
            #[cfg(feature = "counter")]
            Request::Counter(it) => Counter::effective_level(mode, of_collection, consistency, it)?,
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
            Request::Sqs(it) => {
                let context = context.under(&context.limits.sqs);
                Sqs::decide(view, &context, it).map(any_decision::<Sqs>)
            }
            Request::S3(it) => {
                let context = context.under(&context.limits.s3);
                S3::decide(view, &context, it).map(any_decision::<S3>)
            }
            Request::Block(it) => {
                let context = context.under(&context.limits.blocks);
                Blocks::decide(view, &context, it).map(any_decision::<Blocks>)
            }
            Request::Export(it) => {
                let context = context.under(&context.limits.exports);
                Exports::decide(view, &context, it).map(any_decision::<Exports>)
            }
            Request::Catalog(it) => {
                Catalog::decide(view, &context.under(&()), it).map(any_decision::<Catalog>)
            }
            Request::Step(it) => Steps::decide(view, context, it).map(any_decision::<Steps>),
            #[cfg(feature = "counter")]
            Request::Counter(it) => Counter::decide(view, context, it).map(any_decision::<Counter>),
        }
    }

    /// Decides what it does to the names of collections, where these are on `chains` other chains.
    /// It decides nothing of a request that does nothing to names there.
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
            Request::Sqs(it) => {
                let context = context.under(&context.limits.sqs);
                Sqs::decide_names(view, &context, chains, it).map(any_decision::<Sqs>)
            }
            Request::S3(it) => {
                let context = context.under(&context.limits.s3);
                S3::decide_names(view, &context, chains, it).map(any_decision::<S3>)
            }
            Request::Catalog(_) | Request::Step(_) | Request::Block(_) | Request::Export(_) => None,
            #[cfg(feature = "counter")]
            Request::Counter(it) => {
                Counter::decide_names(view, context, chains, it).map(any_decision::<Counter>)
            }
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
            Request::Sqs(it) => {
                let context = context.under(&context.limits.sqs);
                any::<Sqs>(Sqs::answer(view, &context, it))
            }
            Request::S3(it) => {
                let context = context.under(&context.limits.s3);
                any::<S3>(S3::answer(view, &context, it))
            }
            Request::Block(it) => {
                let context = context.under(&context.limits.blocks);
                any::<Blocks>(Blocks::answer(view, &context, it))
            }
            Request::Export(it) => {
                let context = context.under(&context.limits.exports);
                any::<Exports>(Exports::answer(view, &context, it))
            }
            Request::Catalog(it) => any::<Catalog>(Catalog::answer(view, &context.under(&()), it)),
            Request::Step(it) => any::<Steps>(Steps::answer(view, context, it)),
            #[cfg(feature = "counter")]
            Request::Counter(it) => any::<Counter>(Counter::answer(view, context, it)),
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
            _ => self.answer(view, context),
        }
    }

    /// Whether an unsettled element decided anything of what it is shown.
    pub fn is_tentative(&self, committed: &Register, shown: &Register) -> bool {
        match self {
            Request::SimpleDb(it) => SimpleDb::is_tentative(it, committed, shown),
            _ => false,
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
            Request::Sqs(it) => {
                let context = context.under(&context.limits.sqs);
                Ok(any_acceptance(Sqs::accept(view, &context, it)?))
            }
            Request::S3(it) => {
                let context = context.under(&context.limits.s3);
                Ok(any_acceptance(S3::accept(view, &context, it)?))
            }
            Request::Block(it) => {
                let context = context.under(&context.limits.blocks);
                Ok(any_acceptance(Blocks::accept(view, &context, it)?))
            }
            Request::Export(it) => {
                let context = context.under(&context.limits.exports);
                Ok(any_acceptance(Exports::accept(view, &context, it)?))
            }
            Request::Catalog(it) => {
                let acceptance = Catalog::accept(view, &context.under(&()), it)?;
                Ok(any_acceptance(acceptance))
            }
            Request::Step(it) => Ok(any_acceptance(Steps::accept(view, context, it)?)),
            #[cfg(feature = "counter")]
            Request::Counter(it) => Ok(any_acceptance(Counter::accept(view, context, it)?)),
        }
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
