//! Messages of incarnations and epochs that are over (I1): they are dropped, counted, and told of.
//!
//! A message that was under way when an epoch began is of the epoch before. A member that has not
//! heard of an epoch yet is written to in it. Both happen at each change of the configuration, and
//! are not counted. What is left is a member that slept through epochs, or a process that repeats
//! messages.

use std::collections::BTreeSet;

use super::{Effect, Replica, Step};
use crate::config::NodeId;
use crate::message::Envelope;

/// So many are told of in one incarnation: a log is no place for more.
const TOLD_MAX: usize = 64;

/// Whose messages, of which epochs, were told of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct StaleMessageLog(BTreeSet<(NodeId, u64)>);

impl Replica {
    /// A message was dropped: its epoch, or the incarnation that sent it, is not of this
    /// configuration.
    pub(super) fn note_foreign(&mut self, envelope: &Envelope, step: &mut Step<'_>) {
        let (from, epoch) = (envelope.from, envelope.epoch);
        if self.epoch() < epoch || epoch + 1 == self.epoch() {
            return;
        }
        self.counters.foreign += 1;
        let told = &mut self.told.0;
        if told.len() < TOLD_MAX && told.insert((from, epoch)) {
            step.effects.push(Effect::StaleMessage { from, epoch });
        }
    }
}
