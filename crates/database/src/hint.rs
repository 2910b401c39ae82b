//! The LOCK token as a hint. Without it a client leaves the checkpoint of a tree to the client that
//! has it, and looks again an interval later.
//!
//! It is off unless [`crate::Options::has_lock_hint`] says otherwise: decision 0013 has the
//! figures. Nothing depends on it. Pages are fenced in any case, and a checkpoint that was put off
//! once runs without the token. So records are in pages two intervals after their commit.

use std::time::Duration;

use fader_cloud::{ErrorKind, Receipt, Result};

use crate::catalogue::CollectionId;
use crate::database::Inner;
use crate::layout::Place;
use crate::store::Store;
use crate::token;

/// For how long a client that ended keeps others from a checkpoint.
const TIME: Duration = Duration::from_secs(10);

/// What became of asking for the token of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// This client has it, or goes on without.
    Go(Option<Receipt>),
    /// Another client has it.
    Wait,
}

impl Inner {
    /// Asks for the token of a tree. A client that cannot goes on without.
    pub(crate) async fn ask_hint(&self, store: &Store, tree: CollectionId) -> Hint {
        match self.options.has_lock_hint {
            true => self.hint(store, tree).await.unwrap_or(Hint::Go(None)),
            false => Hint::Go(None),
        }
    }

    async fn hint(&self, store: &Store, tree: CollectionId) -> Result<Hint> {
        let pending = self.pending(store);
        let queue = pending.queue(tree, Place::Hint);
        let queues = &*store.0.queues;
        let received = match token::receive(queues, &queue, TIME).await {
            Err(error) if error.kind == ErrorKind::NotFound => {
                // Two tokens of two such clients do no harm.
                pending.create(&queue).await?;
                None
            }
            received => received?,
        };
        if let Some(token) = received {
            self.work().put_off.remove(&tree);
            return Ok(Hint::Go(Some(token.receipt)));
        }
        if !token::is_there(queues, &queue).await? {
            token::send(queues, &queue, "token".to_owned()).await?;
            return Ok(Hint::Go(None));
        }
        // A checkpoint that was put off once runs: the token may be lost.
        let mut work = self.work();
        if work.put_off.remove(&tree) {
            return Ok(Hint::Go(None));
        }
        work.put_off.insert(tree);
        Ok(Hint::Wait)
    }

    /// Shows the token to others.
    pub(crate) async fn give_hint_back(&self, store: &Store, tree: CollectionId, hint: Hint) {
        if let Hint::Go(Some(receipt)) = hint {
            let queue = self.pending(store).queue(tree, Place::Hint);
            let queues = &store.0.queues;
            drop(queues.hide(&queue, &receipt, Duration::ZERO).await);
        }
    }
}
