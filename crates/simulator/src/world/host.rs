//! The shell that a replica sees: the engine, and the service's decisions.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{
    Accepted, Change, CorrelationId, Decided, EntryId, Host, Operation, Register, Settled,
    TombstonePolicy, View, ViewError,
};

use super::disk::Disk;
use super::operator::{self, Turns};
use crate::history::Request;
use crate::service::{Answer, PAIRS, Service, State, pairs_value};

/// The shell during one step.
pub(crate) struct Shell<'a> {
    pub(crate) disk: &'a mut Disk,
    pub(crate) requests: &'a BTreeMap<CorrelationId, Request>,
    pub(crate) service: Service,
    /// The operator's requests.
    pub(crate) turns: &'a Turns,
    /// What becomes of marks; by the collection's mode if none is given.
    pub(crate) marks: Option<TombstonePolicy>,
    /// What was decided in this step.
    pub(crate) answers: RefCell<BTreeMap<CorrelationId, Bytes>>,
}

/// A view, as the service reads it.
pub(crate) struct Seen<'a>(pub(crate) &'a dyn View);

impl State for Seen<'_> {
    fn register(&self, key: &Bytes) -> Register {
        let value = self.0.get(key).expect("a simulated engine reads");
        value.map_or_else(Register::default, |value| {
            Register::decode(value).expect("registers are written by the chain")
        })
    }

    fn pairs(&self) -> u64 {
        let value = self.0.get(PAIRS).expect("a simulated engine reads");
        value.map_or(0, |value| pairs_in(&value))
    }
}

/// A view with an overlay, of which nothing is counted.
struct Uncounted<'a>(Seen<'a>);

impl State for Uncounted<'_> {
    fn register(&self, key: &Bytes) -> Register {
        self.0.register(key)
    }

    fn pairs(&self) -> u64 {
        u64::from(u32::MAX)
    }
}

/// The number in a value of [`PAIRS`].
pub(crate) fn pairs_in(value: &Bytes) -> u64 {
    let bytes = value.as_ref().try_into();
    u64::from_be_bytes(bytes.expect("the service writes eight bytes"))
}

fn put_pairs(pairs: u64) -> Change {
    Change::Put {
        key: Bytes::from_static(PAIRS),
        value: pairs_value(pairs),
    }
}

impl Shell<'_> {
    fn marks(&self, newest: &dyn View) -> Result<TombstonePolicy, ViewError> {
        self.marks.map_or_else(|| operator::marks(newest), Ok)
    }
}

impl Host for Shell<'_> {
    fn committed(&self) -> &dyn View {
        self.disk.state()
    }

    fn decide(&self, token: CorrelationId, newest: &dyn View) -> Result<Decided, ViewError> {
        if let Some(turn) = self.turns.get(&token) {
            return operator::decide(*turn, newest);
        }
        let marks = self.marks(newest)?;
        let request = &self.requests[&token];
        let decision = self.service.decide(request, &Seen(newest));
        let result = decision.answer.encode();
        self.answers.borrow_mut().insert(token, result.clone());
        let merges = decision.writes.into_iter().map(|write| Change::Merge {
            key: write.key,
            ops: write.ops,
            marks,
        });
        Ok(Decided {
            result,
            changes: merges.chain(decision.pairs.map(put_pairs)).collect(),
            depends_on_state: true,
        })
    }

    fn accept(
        &self,
        token: CorrelationId,
        tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError> {
        if self.marks.is_none() && !operator::takes_eventual(tentative)? {
            return Ok(None);
        }
        let request = &self.requests[&token];
        let decision = self.service.decide(request, &Uncounted(Seen(tentative)));
        if !matches!(decision.answer, Answer::Done(_)) {
            return Ok(None);
        }
        let accepted = decision.writes.into_iter().map(|write| Accepted {
            key: write.key,
            ops: write.ops,
        });
        Ok(Some(accepted.collect()))
    }

    fn settle(&self, operation: &Operation, newest: &dyn View) -> Result<Settled, ViewError> {
        let Operation {
            key, ops, stamp, ..
        } = operation;
        let pairs = self.service.settle(key, ops, *stamp, &Seen(newest));
        Ok(match pairs {
            Some(pairs) => Settled::Apply(vec![
                Change::Merge {
                    key: key.clone(),
                    ops: ops.clone(),
                    marks: self.marks(newest)?,
                },
                put_pairs(pairs),
            ]),
            None => Settled::Refused(Bytes::from_static(b"limit")),
        })
    }

    fn fix(&mut self) {
        self.disk.fix();
    }

    fn unfix(&mut self) {
        self.disk.unfix();
    }

    fn fixed(&self) -> Option<(EntryId, &dyn View)> {
        let state = self.disk.fixed()?;
        Some((state.applied, state))
    }
}
