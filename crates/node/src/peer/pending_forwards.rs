//! Requests that were handed to other nodes and are not answered yet.

use std::collections::BTreeMap;

use fader_chain::NodeId;
use fader_services::forward::ForwardedReply;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Requests of which one node may owe the answers: as many as may wait there, and more.
const ASKS_MAX: usize = 16 << 10;

/// Who waits for what of whom.
#[derive(Default)]
pub(super) struct PendingForwards(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<NodeId, BTreeMap<u64, oneshot::Sender<ForwardedReply>>>,
}

impl PendingForwards {
    /// A number for a request to `node`, and where its answer will come; nothing where it owes too
    /// many.
    pub(super) fn begin(&self, node: NodeId) -> Option<(u64, oneshot::Receiver<ForwardedReply>)> {
        let mut state = self.0.lock();
        let number = state.next;
        let of_node = state.waiting.entry(node).or_default();
        if ASKS_MAX <= of_node.len() {
            // An asker that gave up waits no more.
            of_node.retain(|_, sender| !sender.is_closed());
            if ASKS_MAX <= of_node.len() {
                return None;
            }
        }
        let (sender, receiver) = oneshot::channel();
        of_node.insert(number, sender);
        state.next += 1;
        Some((number, receiver))
    }

    /// An answer came. One that no asker waits for any more has no owner.
    pub(super) fn answer(&self, node: NodeId, number: u64, told: ForwardedReply) {
        if let Some(sender) = self.forget(node, number) {
            drop(sender.send(told));
        }
    }

    /// The answer is not waited for any more.
    pub(super) fn forget(
        &self,
        node: NodeId,
        number: u64,
    ) -> Option<oneshot::Sender<ForwardedReply>> {
        self.0.lock().waiting.get_mut(&node)?.remove(&number)
    }

    /// No answers will come from `node`.
    pub(super) fn fail(&self, node: NodeId) {
        self.0.lock().waiting.remove(&node);
    }
}

#[cfg(test)]
mod tests;
