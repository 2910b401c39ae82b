//! A client of SimpleDB: what it asks a node for, and what it is told in the words of that service.

use fader_node::{Call, Node};
use fader_services::level::ReplyMetadata;
use fader_services::request::own;
use fader_services::simpledb::{CostedReply, Error, SimpleDb};

/// What SimpleDB says, and what is told beside.
pub(crate) type Said = (Result<CostedReply, Error>, ReplyMetadata);

/// A node that is asked.
pub(crate) trait Ask {
    /// Carries out a request of SimpleDB.
    async fn ask(&self, call: Call) -> Said;
}

impl Ask for Node {
    async fn ask(&self, call: Call) -> Said {
        let (outcome, metadata) = self.call(call).await;
        (own::<SimpleDb>(outcome), metadata)
    }
}
