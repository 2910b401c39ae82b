//! An operator's order to go on with what one member has, when no member is left that has
//! everything (AL-4; docs/internals/protocol/reconfiguration.md, section 7).

use fader_chain::controller::restore;
use fader_chain::wait_messages;

use super::{Cluster, ClusterError, Event};

impl Cluster {
    /// Has the chain go on with this member alone, with what it has. What others acknowledged
    /// beyond that is lost, and they are made equal to it when they come back.
    ///
    /// # Errors
    /// [`ClusterError`] when nothing has to be lost, or the member cannot go on.
    pub fn restore(&self, name: &str) -> Result<(), ClusterError> {
        let refused = |why: String| Err(ClusterError::conflict(why));
        let slot = self.slot(name)?;
        let (Some(node), Some(newest)) = (*slot.node.lock(), self.configuration()) else {
            return refused(format!("{name} was never a member"));
        };
        let (sessions, reports) = (self.coordinator.sessions(), self.coordinator.reports());
        let next = match restore(&newest, node, &sessions, &reports) {
            Ok(next) => next,
            Err(why) => {
                return refused(wait_messages::not_restored(why, name, |node| {
                    self.name(node)
                }));
            }
        };
        match self.coordinator.publish(newest.epoch, next) {
            Ok(true) => {
                tracing::error!(name, "an operator has the chain go on with less");
                (self.tell)(Event::Restored(name.to_owned()));
                Ok(())
            }
            Ok(false) => refused("the chain has just changed: look again".to_owned()),
            Err(error) => refused(error.to_string()),
        }
    }
}
