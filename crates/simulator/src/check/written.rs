//! The strong writes of each register that are in the log and whose calls are known.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::EntryId;

use super::Evidence;
use super::evidence::merges;
use crate::history::Moment;

/// When a strong write of a register was asked for and answered, by its entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) invoked: Moment,
    pub(super) answered: Option<Moment>,
    pub(super) entry: EntryId,
    pub(super) call: usize,
}

/// By register, in the order of the log. Of an operation asked for twice the first call counts, and
/// the first answer.
pub(super) fn strong_writes<'a>(evidence: &Evidence<'a>) -> BTreeMap<&'a Bytes, Vec<Written>> {
    let mut asked: BTreeMap<EntryId, Written> = BTreeMap::new();
    for (entry, call) in evidence.strong_calls() {
        let known = &evidence.history.calls[call];
        let answered = known.done().map(|(at, _)| at);
        let written = asked.entry(entry).or_insert(Written {
            invoked: known.invoked,
            answered,
            entry,
            call,
        });
        written.answered = [written.answered, answered].into_iter().flatten().min();
    }
    let mut writes: BTreeMap<&Bytes, Vec<Written>> = BTreeMap::new();
    for (entry, _) in &evidence.log {
        if let Some(written) = asked.get(&entry.id) {
            for (key, _) in merges(entry) {
                writes.entry(key).or_default().push(*written);
            }
        }
    }
    writes
}
