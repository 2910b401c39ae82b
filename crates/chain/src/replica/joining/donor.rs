//! The donor of a joining member: it compares the member's ranges with a state that it keeps.

use std::hash::{Hash, Hasher};

use super::super::{Replica, Step};
use crate::config::{Incarnation, NodeId};
use crate::guard::Guard;
use crate::keys;
use crate::message::{Message, RangeHash};
use crate::range_diff;
use crate::stamp::EntryId;
use crate::view::ViewError;

use bytes::Bytes;

/// What both sides hash under: random for each incarnation of the joining member.
pub(super) fn seed(incarnation: Incarnation) -> u64 {
    (incarnation.0 >> 64) as u64 ^ incarnation.0 as u64
}

/// The last answer, for a member that asks again. To compare may take longer than the asker waits,
/// and would be done once more for each question that came meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct CachedChunk(Option<(Bytes, Vec<RangeHash>, Message)>);

/// The state that is compared with is fixed, so a member with an answer says what it would have
/// said without. To a model both are one.
impl PartialEq for CachedChunk {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CachedChunk {}

impl Hash for CachedChunk {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl CachedChunk {
    /// The answer to the last question, if this is the same again.
    fn to(&self, start: &Bytes, asked: &[RangeHash]) -> Option<Message> {
        let (last_start, last_asked, answer) = self.0.as_ref()?;
        (last_start == start && last_asked == asked).then(|| answer.clone())
    }

    fn keep(&mut self, start: &Bytes, asked: &[RangeHash], answer: &Message) {
        self.0 = Some((start.clone(), asked.to_vec(), answer.clone()));
    }
}

impl Replica {
    pub(in crate::replica) fn on_joining(
        &mut self,
        from: NodeId,
        message: Message,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let adopted = self.configuration.as_ref().expect("a message has an epoch");
        let (is_donor, is_acquainted) = (
            adopted.source(self.me.node) == Some(from),
            adopted.syncing() == Some(from) && adopted.source(from) == Some(self.me.node),
        );
        match message {
            Message::TransferRequest {
                above,
                start,
                ranges,
            } if is_acquainted => self.on_fill_ask(from, above, &start, &ranges, step),
            Message::TransferChunk {
                at,
                start,
                ranges,
                end,
            } if is_donor => self.on_fill_part(at, &start, end, ranges, step),
            _ => Ok(()),
        }
    }

    /// JN-4: compares with the state at S, which is fixed once per epoch.
    fn on_fill_ask(
        &mut self,
        from: NodeId,
        above: EntryId,
        start: &Bytes,
        asked: &[RangeHash],
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if !self.joining.is_fixed {
            if self.log.applied() < above {
                return Ok(());
            }
            step.host.fix();
            self.joining.is_fixed = true;
        }
        if let Some(again) = self.joining.last_answer.to(start, asked) {
            self.send(from, again, step);
            return Ok(());
        }
        let adopted = self.configuration.as_ref().expect("a message has an epoch");
        let member = adopted
            .member(from)
            .expect("the syncing member is a member");
        let brings_results = self.guards.has(Guard::JoinBringsResults);
        let is_left_out = |key: &[u8]| !brings_results && keys::is_result(key);
        let (at, state) = step.host.fixed().expect("it was fixed in this epoch");
        let seed = seed(member.incarnation);
        let compared = range_diff::compare(state, start, asked, seed, is_left_out)?;
        let part = Message::TransferChunk {
            at,
            start: start.clone(),
            ranges: compared.ranges,
            end: compared.end,
        };
        self.joining.last_answer.keep(start, asked, &part);
        self.send(from, part, step);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
