//! Requests that were handed to other nodes and are not answered yet.

use std::collections::BTreeMap;

use fader_chain::NodeId;
use fader_services::forward::Told;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Requests of which one node may owe the answers.
const ASKS_MAX: usize = 1024;

/// Who waits for what of whom.
#[derive(Default)]
pub(super) struct Asks(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<(NodeId, u64), oneshot::Sender<Told>>,
}

impl Asks {
    /// A number for a request to `node`, and where its answer will come; nothing where it owes too
    /// many.
    pub(super) fn begin(&self, node: NodeId) -> Option<(u64, oneshot::Receiver<Told>)> {
        let mut state = self.0.lock();
        let range = (node, 0)..=(node, u64::MAX);
        if ASKS_MAX <= state.waiting.range(range.clone()).count() {
            // Whoever gave up waits no more.
            let given_up = |_: &_, sender: &mut oneshot::Sender<Told>| sender.is_closed();
            state
                .waiting
                .extract_if(range.clone(), given_up)
                .for_each(drop);
            if ASKS_MAX <= state.waiting.range(range).count() {
                return None;
            }
        }
        let number = state.next;
        state.next += 1;
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert((node, number), sender);
        Some((number, receiver))
    }

    /// An answer came. One that nobody waits for any more is nobody's.
    pub(super) fn answer(&self, node: NodeId, number: u64, told: Told) {
        let waiting = self.0.lock().waiting.remove(&(node, number));
        if let Some(sender) = waiting {
            drop(sender.send(told));
        }
    }

    /// No answers will come from `node`.
    pub(super) fn fail(&self, node: NodeId) {
        self.0.lock().waiting.retain(|(other, _), _| *other != node);
    }
}

#[cfg(test)]
mod tests;
