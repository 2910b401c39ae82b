//! The LOCK token as a hint. Without it a client leaves the checkpoint of a tree to the client that
//! has it, and looks again an interval later.
//!
//! It is off unless [`crate::Options::has_lock_hint`] says otherwise: decision 0013 has the
//! figures. Nothing depends on it. Pages are fenced in any case, and a checkpoint that was put off
//! once runs without the token. So records are in pages two intervals after their commit.

use std::time::Duration;

use fader_cloud::{ErrorKind, Receipt, Receive, Result};

use crate::catalogue::CollectionId;
use crate::database::Inner;
use crate::layout::Place;
use crate::store::Store;

/// For how long a client that ended keeps others from a checkpoint.
const TIME: Duration = Duration::from_secs(10);
/// A checkpoint that was put off so often runs: the token may be lost.
const PUT_OFF_MAX: u32 = 2;

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
        let how = Receive {
            max: 1,
            visibility: Some(TIME),
            wait: Duration::ZERO,
        };
        let received = match store.0.queues.receive(&queue, &how).await {
            Err(error) if error.kind == ErrorKind::NotFound => {
                // Two tokens of two such clients do no harm.
                pending.create(&queue).await?;
                Vec::new()
            }
            received => received?,
        };
        if let Some(token) = received.into_iter().next() {
            self.work().put_off.remove(&tree);
            return Ok(Hint::Go(Some(token.receipt)));
        }
        let counts = store.0.queues.counts(&queue).await?;
        if counts.visible + counts.in_flight == 0 {
            let sent = store.0.queues.send(&queue, &["token".to_owned()]).await?;
            sent.into_iter().try_for_each(|outcome| outcome.map(drop))?;
            return Ok(Hint::Go(None));
        }
        let mut work = self.work();
        let put_off = work.put_off.entry(tree).or_default();
        *put_off += 1;
        if *put_off < PUT_OFF_MAX {
            return Ok(Hint::Wait);
        }
        work.put_off.remove(&tree);
        Ok(Hint::Go(None))
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
