//! What is asked of replies and refusals of any service.

use bytes::Bytes;

use super::{Outcome, Refusal, Reply, Request, ServiceName, any};
use crate::Reason;
use crate::blocks::Blocks;
use crate::catalog::Catalog;
#[cfg(feature = "counter")]
use crate::counter::Counter;
use crate::exports::Exports;
use crate::s3::S3;
use crate::service::{Meaning, Service as _};
use crate::simpledb::SimpleDb;
use crate::sqs::Sqs;
use crate::steps::{Step, Steps, Taken};

impl Reply {
    /// The service that answered.
    pub fn service(&self) -> ServiceName {
        match self {
            Reply::SimpleDb(_) => ServiceName::SimpleDb,
            Reply::Sqs(_) => ServiceName::Sqs,
            Reply::S3(_) => ServiceName::S3,
            Reply::Block(_) => ServiceName::Block,
            Reply::Export(_) => ServiceName::Export,
            Reply::Catalog(_) => ServiceName::Catalog,
            Reply::Step(_) => ServiceName::Step,
            #[cfg(feature = "counter")]
            Reply::Counter(_) => ServiceName::Counter,
        }
    }

    /// The step that was begun, which is to be finished before this is told.
    pub fn begun(&self) -> Option<&Step> {
        match self {
            Reply::SimpleDb(answered) => SimpleDb::begun(answered),
            Reply::Sqs(reply) => Sqs::begun(reply),
            Reply::S3(reply) => S3::begun(reply),
            Reply::Block(done) => Blocks::begun(done),
            Reply::Export(reply) => Exports::begun(reply),
            Reply::Catalog(done) => Catalog::begun(done),
            Reply::Step(taken) => Steps::begun(taken),
            #[cfg(feature = "counter")]
            Reply::Counter(reply) => Counter::begun(reply),
        }
    }

    /// The read whose answer is told in its place, once its entry is committed. What is kept of it
    /// (XO-3) is the reply as it was decided.
    pub fn rest(&self) -> Option<Request> {
        match self {
            Reply::Sqs(reply) => Sqs::rest(reply).map(Request::Sqs),
            _ => None,
        }
    }

    /// What is told when that step is finished.
    ///
    /// # Errors
    /// The refusal, when the other chain refused it.
    pub fn finished(self, taken: &Taken) -> Outcome {
        match self {
            Reply::SimpleDb(answered) => any::<SimpleDb>(SimpleDb::finished(answered, taken)),
            Reply::Sqs(reply) => any::<Sqs>(Sqs::finished(reply, taken)),
            Reply::S3(reply) => any::<S3>(S3::finished(reply, taken)),
            Reply::Block(done) => any::<Blocks>(Blocks::finished(done, taken)),
            Reply::Export(reply) => any::<Exports>(Exports::finished(reply, taken)),
            Reply::Catalog(done) => any::<Catalog>(Catalog::finished(done, taken)),
            Reply::Step(of) => any::<Steps>(Steps::finished(of, taken)),
            #[cfg(feature = "counter")]
            Reply::Counter(reply) => any::<Counter>(Counter::finished(reply, taken)),
        }
    }
}

impl Refusal {
    /// The service that refused.
    pub fn service(&self) -> ServiceName {
        match self {
            Refusal::SimpleDb(_) => ServiceName::SimpleDb,
            Refusal::Sqs(_) => ServiceName::Sqs,
            Refusal::S3(_) => ServiceName::S3,
            Refusal::Block(_) => ServiceName::Block,
            Refusal::Export(_) => ServiceName::Export,
            Refusal::Catalog(_) => ServiceName::Catalog,
            Refusal::Step(_) => ServiceName::Step,
            #[cfg(feature = "counter")]
            Refusal::Counter(_) => ServiceName::Counter,
        }
    }

    /// Why it is refused for now, if it is: then it is a 503.
    pub fn reason(&self) -> Option<Reason> {
        match self.meaning() {
            Meaning::Later(reason) => Some(reason),
            _ => None,
        }
    }

    /// What it means to those on its way.
    pub fn meaning(&self) -> Meaning {
        match self {
            Refusal::SimpleDb(error) => SimpleDb::meaning(error),
            Refusal::Sqs(error) => Sqs::meaning(error),
            Refusal::S3(error) => S3::meaning(error),
            Refusal::Block(refusal) => Blocks::meaning(refusal),
            Refusal::Export(error) => Exports::meaning(error),
            Refusal::Catalog(refusal) => Catalog::meaning(refusal),
            Refusal::Step(refusal) => Steps::meaning(refusal),
            #[cfg(feature = "counter")]
            Refusal::Counter(refusal) => Counter::meaning(refusal),
        }
    }

    /// Whether a write is refused with it because of the state it found: then the refusal is an
    /// entry (D12).
    pub fn depends_on_state(&self) -> bool {
        match self {
            Refusal::SimpleDb(error) => SimpleDb::depends_on_state(error),
            Refusal::Sqs(error) => Sqs::depends_on_state(error),
            Refusal::S3(error) => S3::depends_on_state(error),
            Refusal::Block(refusal) => Blocks::depends_on_state(refusal),
            Refusal::Export(error) => Exports::depends_on_state(error),
            Refusal::Catalog(refusal) => Catalog::depends_on_state(refusal),
            Refusal::Step(refusal) => Steps::depends_on_state(refusal),
            #[cfg(feature = "counter")]
            Refusal::Counter(refusal) => Counter::depends_on_state(refusal),
        }
    }
}

/// What is kept of the outcome of a named write (XO-3); nothing if it is no entry.
pub fn keep(outcome: &Outcome) -> Option<Bytes> {
    match outcome {
        Ok(Reply::SimpleDb(answered)) => SimpleDb::keep(Ok(answered)),
        Ok(Reply::Catalog(done)) => Catalog::keep(Ok(done)),
        Err(Refusal::SimpleDb(error)) => SimpleDb::keep(Err(error)),
        Ok(Reply::Sqs(reply)) => Sqs::keep(Ok(reply)),
        Err(Refusal::Sqs(error)) => Sqs::keep(Err(error)),
        Ok(Reply::S3(reply)) => S3::keep(Ok(reply)),
        Err(Refusal::S3(error)) => S3::keep(Err(error)),
        Ok(Reply::Block(done)) => Blocks::keep(Ok(done)),
        Ok(Reply::Export(reply)) => Exports::keep(Ok(reply)),
        Err(Refusal::Block(refusal)) => Blocks::keep(Err(refusal)),
        Err(Refusal::Export(error)) => Exports::keep(Err(error)),
        Err(Refusal::Catalog(refusal)) => Catalog::keep(Err(refusal)),
        Ok(Reply::Step(taken)) => Steps::keep(Ok(taken)),
        Err(Refusal::Step(refusal)) => Steps::keep(Err(refusal)),
        #[cfg(feature = "counter")]
        Ok(Reply::Counter(reply)) => Counter::keep(Ok(reply)),
        #[cfg(feature = "counter")]
        Err(Refusal::Counter(refusal)) => Counter::keep(Err(refusal)),
    }
}
