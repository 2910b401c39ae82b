//! A chain, as others see it. It decides on its newest state, commits in order, and loses the end
//! of what is not committed when its head crashes.

use std::collections::VecDeque;

use fader_chain::{ApplyContext, ChainId, Change, EntryId, Guards};
use fader_services::catalog::{self, AccountId, Name};
use fader_services::counter::{Reply, Request};
use fader_services::request::{self, Limits, Outcome};
use fader_services::service::{Context, Place};
use fader_services::steps::{Action, Step};
use fader_services::{Kind, MapView};

use super::{Asker, Deed};

/// The counter of each chain.
pub(super) const NAMES: [&str; 2] = ["a", "b"];

/// The tables of steps that were taken, by key: collection 0, `t`, a chain, a number.
const MARK_SIZE: usize = 8 + 1 + 4 + 8;

type Answer = (Asker, request::Request, Outcome);

struct Entry {
    changes: Vec<Change>,
    answer: Answer,
    deed: Deed,
}

/// A chain.
pub(super) struct Chain {
    pub(super) id: ChainId,
    pub(super) committed: MapView,
    newest: MapView,
    pending: VecDeque<Entry>,
    decided: Vec<Change>,
    account: AccountId,
    limits: Limits,
}

impl Chain {
    /// A chain with its counter.
    pub(super) fn new(id: u32) -> Self {
        let mut chain = Chain {
            id: ChainId(id),
            committed: MapView::default(),
            newest: MapView::default(),
            pending: VecDeque::new(),
            decided: Vec::new(),
            account: AccountId("000000000001".to_owned()),
            limits: Limits::default(),
        };
        let create = request::Request::Counter(Request::Create(NAMES[id as usize].to_owned()));
        let created = chain.decide(&create, None, &Guards::default());
        created.expect("a counter is created");
        let changes = std::mem::take(&mut chain.decided);
        apply(&mut chain.committed, &changes);
        chain.newest = chain.committed.clone();
        chain
    }

    fn name(&self) -> Name<'_> {
        Name::new(Kind::Counter, &self.account, NAMES[self.id.0 as usize])
    }

    /// Where its counter is.
    pub(super) fn place(&self) -> Option<Place> {
        let entry = catalog::collection(&self.committed, self.name());
        let entry = entry.expect("a view in memory can be read")?;
        Some(Place {
            chain: self.id,
            collection: entry.collection,
        })
    }

    /// Decides on the newest state; what changes is kept for [`Chain::pend`].
    pub(super) fn decide(
        &mut self,
        request: &request::Request,
        towards: Option<Place>,
        guards: &Guards,
    ) -> Outcome {
        let context = Context {
            collection: self.place().map(|place| place.collection),
            chain: self.id,
            towards,
            guards,
            ..Context::new(&self.account, &self.limits)
        };
        let decision = request.decide(&self.newest, &context);
        let decision = decision.expect("nothing waits here");
        self.decided = decision.changes;
        decision.outcome
    }

    /// Takes what was decided last into the log.
    pub(super) fn pend(&mut self, answer: Answer, deed: Deed) {
        let changes = std::mem::take(&mut self.decided);
        apply(&mut self.newest, &changes);
        self.pending.push_back(Entry {
            changes,
            answer,
            deed,
        });
    }

    /// Commits the oldest entry, if there is one: who is told, and what it did.
    pub(super) fn commit(&mut self) -> Option<(Answer, Deed)> {
        let entry = self.pending.pop_front()?;
        apply(&mut self.committed, &entry.changes);
        Some((entry.answer, entry.deed))
    }

    /// Loses all but the first `kept` entries that are not committed. Says how many.
    pub(super) fn crash(&mut self, kept: usize) -> usize {
        let lost = self.pending.len().saturating_sub(kept);
        self.pending.truncate(kept);
        self.newest = self.committed.clone();
        for entry in &self.pending {
            apply(&mut self.newest, &entry.changes);
        }
        lost
    }

    /// What its counter comes to.
    pub(super) fn value(&self) -> u64 {
        let context = Context {
            collection: self.place().map(|place| place.collection),
            ..Context::new(&self.account, &self.limits)
        };
        let read = request::Request::Counter(Request::Read(self.name().name.to_owned()));
        match read.answer(&self.committed, &context) {
            Ok(request::Reply::Counter(Reply::Value(value))) => value,
            other => panic!("a counter is read: {other:?}"),
        }
    }

    /// How many marks of steps it keeps.
    pub(super) fn marks(&self) -> usize {
        let keys = self.committed.iter().map(|(key, _)| key);
        keys.filter(|key| key.len() == MARK_SIZE && key[8] == b't')
            .count()
    }
}

fn apply(view: &mut MapView, changes: &[Change]) {
    let under = ApplyContext::strong(EntryId::new(1, 1));
    view.apply(changes, &under)
        .expect("counters have no registers");
}

/// Whether this is what a chain says of a move that it took, and added.
pub(super) fn is_moved(outcome: &[u8]) -> bool {
    outcome.is_empty()
}

/// How much a step moves.
pub(super) fn moved_by(step: &Step) -> u64 {
    match &step.action {
        Action::Counter(transfer) => transfer.by(),
        Action::Found(..) | Action::Raze(..) | Action::Queue(_) | Action::Free(..) => 0,
    }
}
