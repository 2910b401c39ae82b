//! The names of the services.

use bytes::Bytes;
use fader_chain::DecodeError;

use super::{Outcome, Refusal, any};
use crate::blocks::Blocks;
use crate::catalog::Catalog;
#[cfg(feature = "counter")]
use crate::counter::Counter;
use crate::exports::Exports;
use crate::s3::S3;
use crate::service::{Service as _, Trouble};
use crate::simpledb::SimpleDb;
use crate::sqs::Sqs;
use crate::steps::Steps;

/// The name of a service: what remains of a request whose answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceName {
    /// SimpleDB.
    SimpleDb,
    /// SQS.
    Sqs,
    /// S3.
    S3,
    /// Blocks of objects.
    Block,
    /// Exports of domains.
    Export,
    /// The catalog.
    Catalog,
    /// Steps across chains.
    Step,
    /// The counters of tests.
    #[cfg(feature = "counter")]
    Counter,
}

impl ServiceName {
    /// Whether it is one of the first two, whose messages between nodes have bytes of their own.
    pub(crate) fn is_first(self) -> bool {
        matches!(self, ServiceName::SimpleDb | ServiceName::Catalog)
    }

    /// Puts what a node has to say into the words of this service.
    pub fn word(self, trouble: Trouble) -> Refusal {
        match self {
            ServiceName::SimpleDb => SimpleDb::word(trouble).into(),
            ServiceName::Sqs => Sqs::word(trouble).into(),
            ServiceName::S3 => S3::word(trouble).into(),
            ServiceName::Block => Blocks::word(trouble).into(),
            ServiceName::Export => Exports::word(trouble).into(),
            ServiceName::Catalog => Catalog::word(trouble).into(),
            ServiceName::Step => Steps::word(trouble).into(),
            #[cfg(feature = "counter")]
            ServiceName::Counter => Counter::word(trouble).into(),
        }
    }

    /// Reads what [`keep`](super::keep) wrote of a request of this service.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are none.
    pub fn kept(self, bytes: Bytes) -> Result<Outcome, DecodeError> {
        Ok(match self {
            ServiceName::SimpleDb => any::<SimpleDb>(SimpleDb::kept(bytes)?),
            ServiceName::Sqs => any::<Sqs>(Sqs::kept(bytes)?),
            ServiceName::S3 => any::<S3>(S3::kept(bytes)?),
            ServiceName::Block => any::<Blocks>(Blocks::kept(bytes)?),
            ServiceName::Export => any::<Exports>(Exports::kept(bytes)?),
            ServiceName::Catalog => any::<Catalog>(Catalog::kept(bytes)?),
            ServiceName::Step => any::<Steps>(Steps::kept(bytes)?),
            #[cfg(feature = "counter")]
            ServiceName::Counter => any::<Counter>(Counter::kept(bytes)?),
        })
    }
}
