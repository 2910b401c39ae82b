//! Operations on sets of pairs: what each does, and what it may answer.

use std::collections::BTreeSet;

use bytes::Bytes;
use fader_chain::EntryId;
use fader_history::check::{Model, Timed};

use crate::history::Moment;
use crate::history::display::text;

/// Subsets of more pairs than this are not tried.
const FLIPS_MAX: usize = 8;

/// The entry that last changed a register, if a client knows it.
pub(super) type Version = Option<EntryId>;

const WORDS: usize = 4;
/// Pairs that one component may name.
pub(super) const PAIRS_MAX: usize = WORDS * 128;

/// A set of pairs of one component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bits([u128; WORDS]);

/// Registers that some operation ties together, and all operations on them.
#[derive(Clone, Debug)]
pub(super) struct Component {
    /// In the order of invocation.
    pub(super) operations: Vec<Operation>,
    /// The pairs of each register.
    pub(super) keys: Vec<Bits>,
    /// Register, group and value of each pair.
    pub(super) names: Vec<(Bytes, Bytes, Bytes)>,
    /// The registers whose versions are compared and known: those without eventual writers, whose
    /// settlements are versions that no client sees.
    pub(super) versioned: Vec<bool>,
    /// The service's limit.
    pub(super) pairs_max: usize,
}

/// One operation, however often it was asked for.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) calls: Vec<usize>,
    pub(super) invoked: Moment,
    /// When the client knew its answer.
    pub(super) ended: Option<Moment>,
    pub(super) action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Strong(Strong),
    /// May put any of what it adds and remove any of what it drops.
    Eventual(Effect),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strong {
    pub(super) conditions: Vec<(usize, Test)>,
    pub(super) reads: Vec<usize>,
    pub(super) writes: Vec<Effect>,
    pub(super) answer: Option<Told>,
    /// The version it makes, as its client knows it.
    pub(super) entry: Option<EntryId>,
}

/// What is done to one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) key: usize,
    pub(super) drops: Bits,
    pub(super) adds: Bits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Exists,
    Absent,
    Has(Bits),
    Version(EntryId),
}

/// An answer, what it shows as the pairs of each register read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Done(Vec<Bits>),
    ConditionFailed,
    LimitExceeded,
}

impl Bits {
    pub(super) fn one(at: usize) -> Self {
        let mut bits = Bits::default();
        bits.0[at / 128] |= 1 << (at % 128);
        bits
    }

    fn zip(self, other: Bits, with: fn(u128, u128) -> u128) -> Bits {
        Bits(std::array::from_fn(|word| {
            with(self.0[word], other.0[word])
        }))
    }

    pub(super) fn and(self, other: Bits) -> Bits {
        self.zip(other, |one, other| one & other)
    }

    pub(super) fn or(self, other: Bits) -> Bits {
        self.zip(other, |one, other| one | other)
    }

    pub(super) fn without(self, other: Bits) -> Bits {
        self.zip(other, |one, other| one & !other)
    }

    pub(super) fn differing(self, other: Bits) -> Bits {
        self.zip(other, |one, other| one ^ other)
    }

    pub(super) fn is_empty(self) -> bool {
        self == Bits::default()
    }

    pub(super) fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Each of them alone.
    pub(super) fn singles(self) -> impl Iterator<Item = Bits> {
        (0..PAIRS_MAX)
            .map(Bits::one)
            .filter(move |one| !one.and(self).is_empty())
    }
}

impl Effect {
    /// The state after all of it.
    pub(super) fn on(&self, state: Bits) -> Bits {
        state.without(self.drops).or(self.adds)
    }

    /// What of `state` it could change.
    pub(super) fn flips(&self, state: Bits) -> Bits {
        self.drops.and(state).or(self.adds.without(state))
    }
}

impl Operation {
    /// Whether the order must contain it.
    pub(super) fn is_required(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn is_read(&self) -> bool {
        match &self.action {
            Action::Strong(strong) => strong.conditions.is_empty() && strong.writes.is_empty(),
            Action::Eventual(_) => false,
        }
    }
}

impl Strong {
    /// What the operation answers in `state`; each answer that is possible, since not every version
    /// is known.
    pub(super) fn answers(
        &self,
        component: &Component,
        state: Bits,
        versions: &[Version],
    ) -> Vec<Told> {
        let mut may_hold = true;
        let mut may_fail = false;
        for (key, test) in &self.conditions {
            let shown = state.and(component.keys[*key]);
            let (holds, fails) = match test {
                Test::Exists => (!shown.is_empty(), shown.is_empty()),
                Test::Absent => (shown.is_empty(), !shown.is_empty()),
                Test::Has(pair) => (!shown.and(*pair).is_empty(), shown.and(*pair).is_empty()),
                Test::Version(_) if shown.is_empty() => (false, true),
                Test::Version(asked) => match versions[*key] {
                    Some(known) => (known == *asked, known != *asked),
                    None => (true, true),
                },
            };
            may_hold &= holds;
            may_fail |= fails;
        }
        let mut answers = Vec::new();
        if may_hold {
            let shown = self.reads.iter().map(|key| state.and(component.keys[*key]));
            answers.push(match component.fits(&self.writes, state) {
                true => Told::Done(shown.collect()),
                false => Told::LimitExceeded,
            });
        }
        if may_fail {
            answers.push(Told::ConditionFailed);
        }
        answers
    }

    /// Whether the answer it gave changes nothing.
    pub(super) fn changes_nothing(&self) -> bool {
        self.writes.is_empty() || !matches!(self.answer, Some(Told::Done(_)))
    }

    /// Where `state` differs from what the operation showed, if it would be enough to mend that.
    pub(super) fn mismatch(&self, component: &Component, state: Bits) -> Option<Bits> {
        let Some(Told::Done(shown)) = &self.answer else {
            return None;
        };
        let mut differing = Bits::default();
        for (key, expected) in self.reads.iter().zip(shown) {
            let now = state.and(component.keys[*key]);
            differing = differing.or(now.differing(*expected));
        }
        (!differing.is_empty()).then_some(differing)
    }

    /// The registers on which the answer depends.
    pub(super) fn keys(&self) -> BTreeSet<usize> {
        let conditions = self.conditions.iter().map(|(key, _)| *key);
        let writes = self.writes.iter().map(|effect| effect.key);
        conditions
            .chain(self.reads.iter().copied())
            .chain(writes)
            .collect()
    }
}

impl Component {
    /// The operations as the search takes them.
    pub(super) fn timed(&self) -> Vec<Timed<Action>> {
        let operations = self.operations.iter();
        let timed = operations.map(|operation| Timed {
            called: operation.invoked,
            returned: operation.ended,
            operation: operation.action.clone(),
        });
        timed.collect()
    }

    /// A set of pairs in words.
    pub(super) fn shown(&self, state: &Bits) -> String {
        let names = self.names.iter().enumerate();
        let shown = names.filter(|(at, _)| !state.and(Bits::one(*at)).is_empty());
        let words = shown.map(|(_, (key, group, value))| {
            format!("{} {}={}", text(key), text(group), text(value))
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// The same up to `end`: what began later is not there, what ended later has not ended.
    pub(super) fn until(&self, end: Moment) -> Component {
        let mut component = self.clone();
        component
            .operations
            .retain(|operation| operation.invoked <= end);
        for operation in &mut component.operations {
            if operation.ended.is_some_and(|ended| end < ended) {
                operation.ended = None;
                if let Action::Strong(strong) = &mut operation.action {
                    strong.answer = None;
                }
            }
        }
        let is_idle = |operation: &Operation| operation.is_read() && !operation.is_required();
        component.operations.retain(|operation| !is_idle(operation));
        component
    }

    fn fits(&self, writes: &[Effect], state: Bits) -> bool {
        writes.iter().all(|effect| {
            let pairs = self.keys[effect.key];
            let (old, new) = (
                state.and(pairs).count(),
                effect.on(state).and(pairs).count(),
            );
            new <= old || new <= self.pairs_max
        })
    }
}

impl Model for Component {
    type State = (Bits, Vec<Version>);
    type Operation = Action;

    fn initial(&self) -> Self::State {
        (Bits::default(), vec![None; self.keys.len()])
    }

    fn after(&self, state: &Self::State, action: &Action) -> Vec<Self::State> {
        let (state, versions) = state;
        let Action::Strong(strong) = action else {
            return Vec::new();
        };
        let answers = strong.answers(self, *state, versions);
        let fits = match &strong.answer {
            Some(told) => answers.contains(told),
            None => answers.iter().any(|one| matches!(one, Told::Done(_))),
        };
        if !fits {
            return Vec::new();
        }
        let (mut state, mut versions) = (*state, versions.clone());
        let is_idle = strong.answer.is_some() && strong.changes_nothing();
        for effect in strong.writes.iter().filter(|_| !is_idle) {
            state = effect.on(state);
            if self.versioned[effect.key] {
                versions[effect.key] = strong.entry;
            }
        }
        vec![(state, versions)]
    }

    fn is_read(&self, action: &Action) -> bool {
        match action {
            Action::Strong(strong) => strong.answer.is_some() && strong.changes_nothing(),
            Action::Eventual(_) => false,
        }
    }

    fn may_wait(&self, action: &Action) -> bool {
        matches!(action, Action::Eventual(_))
    }

    /// An eventual operation changes some of its pairs: of an answer that shows pairs, those that
    /// it shows otherwise; of another, any.
    fn help(
        &self,
        state: &Self::State,
        blocked: &Action,
        waiting: &Action,
    ) -> Option<Vec<Self::State>> {
        let (state, versions) = state;
        let (Action::Strong(strong), Action::Eventual(effect)) = (blocked, waiting) else {
            return Some(Vec::new());
        };
        if !strong.keys().contains(&effect.key) {
            return Some(Vec::new());
        }
        let flips = effect.flips(*state);
        let flipped = |flips: Bits| (state.differing(flips), versions.clone());
        if let Some(mismatch) = strong.mismatch(self, *state) {
            let first = mismatch.singles().next().unwrap_or_default();
            let flips = flips.and(mismatch);
            let is_needed = !flips.and(first).is_empty();
            return Some(is_needed.then(|| flipped(flips)).into_iter().collect());
        }
        let singles: Vec<Bits> = flips.singles().collect();
        if FLIPS_MAX < singles.len() {
            return None;
        }
        let subsets = (1_u32..1 << singles.len()).map(|subset| {
            let bits = singles.iter().enumerate();
            let chosen = bits.filter(|(bit, _)| subset & 1 << bit != 0);
            flipped(chosen.fold(Bits::default(), |flips, (_, one)| flips.or(*one)))
        });
        Some(subsets.collect())
    }
}
