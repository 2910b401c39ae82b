//! Chooses what is read to answer a selection.
//!
//! Every predicate that is not negated is a possible *source*: an item in its set has an entry in
//! its lane. For an intersection any source of a member does, for a union one source of each member
//! together. Of several, the one with the fewest entries is best. It is found by counting: all are
//! read up to a budget that doubles until one ends within it. That costs at most a constant times
//! the best source, and [`PROBE_MAX`] times the number of predicates; and no statistics can be
//! stale. When all are larger, the shape of the ranges decides.
//!
//! With ORDER BY the index of the sort attribute is read in its order. If a source is found that is
//! [`FAR_SMALLER`] times smaller, that source is read whole, and sorted. The entries of one value
//! are in the order of item names already, so they need no sorting by these. All ways give the same
//! order.
//!
//! What must hold of item names also narrows the entries of a value: of `type = 'x' and itemName()
//! > 'k'` the entries of `x` after `k` are read.
//!
//! Invariants:
//! - PLAN-1 each result of the selection has a place in the plan's scan, for any [`Choice`].
//!   [`Planner::plan`] refuses a choice that does not cover the condition.

use std::collections::BTreeMap;

use super::index_scan::{FieldScan, IndexScan};
use super::predicate::{Condition, Field, Formula, Predicate, Test};
use super::range::{Range, Ranges};
use super::sort;
use super::statement::{Order, Selection};
use crate::simpledb::counters::{attribute_pairs, counters};
use crate::{CollectionId, Direction, View, ViewError};

/// Entries counted of one source at most, and candidates sorted in memory at most.
pub(crate) const PROBE_MAX: usize = 4096;

const PROBE_MIN: usize = 16;

/// How many times smaller than the sort attribute's index a source must be to be sorted instead.
const FAR_SMALLER: usize = 4;

/// Which plan it is: what a page token says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Whether the results are sorted after they are read.
    pub(crate) sorts: bool,
    /// The sources that are read together, by number; none means the whole index of the sort
    /// attribute, or without ORDER BY the whole domain.
    pub(crate) sources: Vec<usize>,
}

/// How a selection is answered.
#[derive(Clone, Debug)]
pub(crate) struct Plan<'s> {
    /// Its name in page tokens.
    pub(crate) choice: Choice,
    /// What is read to be sorted; none when `order` is read itself.
    pub(crate) unsorted: Option<IndexScan<'s>>,
    /// The walk in whose order results come.
    pub(crate) order: IndexScan<'s>,
}

/// The plans that a selection allows.
#[derive(Debug)]
pub(crate) struct Planner<'s> {
    selection: &'s Selection,
    sources: Vec<&'s Predicate>,
    cover: Option<SourceSet>,
    items: Ranges,
}

/// What must be read to meet every item of a condition.
#[derive(Debug)]
enum SourceSet {
    /// This source.
    Source(usize),
    /// Any of these.
    Either(Vec<SourceSet>),
    /// All of these.
    Each(Vec<SourceSet>),
}

/// Sources that together cover a condition, with the number of their entries.
#[derive(Debug)]
struct SourceEstimate {
    sources: Vec<usize>,
    entries: usize,
}

impl<'s> Planner<'s> {
    /// For a selection.
    pub(crate) fn new(selection: &'s Selection) -> Self {
        let mut sources = Vec::new();
        let cover = SourceSet::of(&selection.condition, true, &mut sources);
        Planner {
            selection,
            sources,
            cover,
            items: Ranges::of_items(&selection.condition),
        }
    }

    /// The plan that reads least, as far as counting tells.
    pub(crate) fn choose(
        &self,
        view: &dyn View,
        collection: CollectionId,
    ) -> Result<Plan<'s>, ViewError> {
        let choice = match &self.selection.order {
            None => {
                let mut sources = self.fewest(view, collection)?;
                if self.is_domain_smaller(&sources, view, collection)? {
                    sources.clear();
                }
                Choice {
                    sorts: false,
                    sources,
                }
            }
            Some(order) => self.ordered(order, view, collection)?,
        };
        Ok(self
            .plan(choice)
            .expect("the sources of a cover cover the condition"))
    }

    /// The plan that a choice names, if it answers the selection (PLAN-1).
    pub(crate) fn plan(&self, choice: Choice) -> Option<Plan<'s>> {
        let sources = choice.sources.as_slice();
        let is_known = sources.last().is_none_or(|&last| last < self.sources.len());
        let is_ordered = sources.is_sorted_by(|one, other| one < other);
        if !is_known || !is_ordered {
            return None;
        }
        let covers = self
            .cover
            .as_ref()
            .is_some_and(|cover| cover.is_met_by(sources));
        let is_answer = match (&self.selection.order, choice.sorts) {
            (Some(_), true) => covers,
            (Some(order), false) => {
                sources.is_empty() || (covers && self.is_in_order(sources, order))
            }
            (None, true) => false,
            (None, false) => covers || sources.is_empty(),
        };
        if !is_answer {
            return None;
        }
        let (unsorted, order) = match &self.selection.order {
            Some(order) if choice.sorts => {
                (Some(self.walk(sources)), sort::walk(self.selection, order))
            }
            Some(order) if sources.is_empty() => (None, sort::walk(self.selection, order)),
            Some(order) => {
                let direction = order.direction;
                (
                    None,
                    IndexScan {
                        direction,
                        ..self.walk(sources)
                    },
                )
            }
            None => (None, self.walk(sources)),
        };
        Some(Plan {
            choice,
            unsorted,
            order,
        })
    }

    fn walk(&self, sources: &[usize]) -> IndexScan<'s> {
        let mut lanes: BTreeMap<&Field, Vec<&Formula>> = BTreeMap::new();
        for &source in sources {
            let predicate = self.sources[source];
            lanes
                .entry(&predicate.field)
                .or_default()
                .push(&predicate.formula);
        }
        let mut lanes: Vec<_> = lanes
            .into_iter()
            .map(|(field, formulas)| FieldScan::new(field, formulas))
            .collect();
        if lanes.is_empty() {
            lanes.push(FieldScan::whole(&Field::ItemName));
        }
        IndexScan::new(lanes, Direction::Forward, self.items.clone())
    }

    /// The sources with the fewest entries; none means the whole domain.
    fn fewest(&self, view: &dyn View, collection: CollectionId) -> Result<Vec<usize>, ViewError> {
        let Some(cover) = &self.cover else {
            return Ok(Vec::new());
        };
        if let Some(only) = cover.only() {
            return Ok(only);
        }
        for budget in budgets() {
            if let Some(counted) = self.within(cover, budget, view, collection)? {
                return Ok(counted.sources);
            }
        }
        Ok(self.by_shape(cover).1)
    }

    /// Whether reading all items is less than looking up the item of every value of an attribute.
    fn is_domain_smaller(
        &self,
        sources: &[usize],
        view: &dyn View,
        collection: CollectionId,
    ) -> Result<bool, ViewError> {
        let mut pairs = 0;
        for &source in sources {
            if let Predicate {
                field: Field::Attribute(name),
                formula: Formula::Test(Test::Present),
                ..
            } = self.sources[source]
            {
                pairs += attribute_pairs(view, collection, name.as_bytes())?;
            }
        }
        if pairs == 0 {
            return Ok(false);
        }
        let items = counters(view, collection)?.map_or(0, |counters| counters.item_count);
        Ok(items <= pairs)
    }

    /// Sources that are read in the wanted order, or far smaller ones that are sorted.
    fn ordered(
        &self,
        order: &Order,
        view: &dyn View,
        collection: CollectionId,
    ) -> Result<Choice, ViewError> {
        let walk = sort::walk(self.selection, order);
        let Some(cover) = &self.cover else {
            return Ok(Choice::default());
        };
        let is_other = |source: &usize| self.sources[*source].field != order.field;
        let others: Vec<_> = (0..self.sources.len()).filter(is_other).collect();
        match others.as_slice() {
            [] => return Ok(Choice::default()),
            // It has no more entries than the index of items, so there is nothing to count.
            [_] if cover.is_met_by(&others) && self.is_in_order(&others, order) => {
                return Ok(Choice {
                    sorts: false,
                    sources: others,
                });
            }
            _ => {}
        }
        for budget in budgets() {
            if walk.count(view, collection, budget)?.is_some() {
                return Ok(Choice::default());
            }
            if let Some(SourceEstimate { sources, entries }) =
                self.within(cover, budget, view, collection)?
            {
                let enough = (FAR_SMALLER * entries).max(budget);
                if walk.count(view, collection, enough)?.is_some() {
                    return Ok(Choice::default());
                }
                let sorts = !self.is_in_order(&sources, order);
                return Ok(Choice { sorts, sources });
            }
        }
        let (_, sources) = self.by_shape(cover);
        let is_in_order = self.is_in_order(&sources, order);
        Ok(if is_in_order {
            Choice {
                sorts: false,
                sources,
            }
        } else {
            Choice::default()
        })
    }

    /// Whether the sources are read in the wanted order anyhow: the entries of one value are in the
    /// order of the items' names.
    fn is_in_order(&self, sources: &[usize], order: &Order) -> bool {
        order.field == Field::ItemName && self.walk(sources).is_point()
    }

    /// The best sources of those that have at most `budget` entries.
    fn within(
        &self,
        cover: &SourceSet,
        budget: usize,
        view: &dyn View,
        collection: CollectionId,
    ) -> Result<Option<SourceEstimate>, ViewError> {
        match cover {
            SourceSet::Source(source) => {
                let entries = self.walk(&[*source]).count(view, collection, budget)?;
                Ok(entries.map(|entries| SourceEstimate {
                    sources: vec![*source],
                    entries,
                }))
            }
            SourceSet::Either(covers) => {
                let mut best: Option<SourceEstimate> = None;
                for cover in covers {
                    let fewer = match &best {
                        None => budget,
                        Some(SourceEstimate { entries: 0, .. }) => break,
                        Some(best) => best.entries - 1,
                    };
                    best = self.within(cover, fewer, view, collection)?.or(best);
                }
                Ok(best)
            }
            SourceSet::Each(covers) => {
                let mut all = SourceEstimate {
                    sources: Vec::new(),
                    entries: 0,
                };
                for cover in covers {
                    let left = budget - all.entries;
                    let Some(one) = self.within(cover, left, view, collection)? else {
                        return Ok(None);
                    };
                    all.sources.extend(one.sources);
                    all.entries += one.entries;
                }
                Ok(Some(all))
            }
        }
    }

    /// The sources that look smallest, with how large they look.
    fn by_shape(&self, cover: &SourceSet) -> (RangeEstimate, Vec<usize>) {
        match cover {
            SourceSet::Source(source) => {
                let ranges = Ranges::of(&self.sources[*source].formula);
                (RangeEstimate::of(&ranges), vec![*source])
            }
            SourceSet::Either(covers) => {
                let shapes = covers.iter().map(|cover| self.by_shape(cover));
                shapes
                    .min_by_key(|(shape, _)| *shape)
                    .expect("an alternative has members")
            }
            SourceSet::Each(covers) => {
                let shapes = covers.iter().map(|cover| self.by_shape(cover));
                shapes.fold(
                    (RangeEstimate::Points, Vec::new()),
                    |(shape, mut all), (other, sources)| {
                        all.extend(sources);
                        (shape.max(other), all)
                    },
                )
            }
        }
    }
}

/// How large ranges look: what decides between sources too large to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RangeEstimate {
    /// Single values only.
    Points,
    /// Ranges with two ends.
    Bounded,
    /// Ranges with one end or none, but not all values.
    Open,
    /// All values.
    Everything,
}

impl RangeEstimate {
    fn of(ranges: &Ranges) -> RangeEstimate {
        if ranges.is_everything() {
            return RangeEstimate::Everything;
        }
        let is_open = |range: &Range| range.low.is_empty() || range.high.is_none();
        if ranges.as_slice().iter().any(is_open) {
            RangeEstimate::Open
        } else if ranges.as_slice().iter().all(Range::is_point) {
            RangeEstimate::Points
        } else {
            RangeEstimate::Bounded
        }
    }
}

impl SourceSet {
    /// What covers `condition`, or its complement when not `positive`; none when only reading the
    /// whole domain does.
    fn of<'s>(
        condition: &'s Condition,
        positive: bool,
        sources: &mut Vec<&'s Predicate>,
    ) -> Option<SourceSet> {
        let mut members = |sets: &'s [Condition]| {
            sets.iter()
                .map(|set| SourceSet::of(set, positive, sources))
                .collect::<Vec<_>>()
        };
        match (condition, positive) {
            (Condition::Predicate(predicate), true) => {
                sources.push(predicate);
                Some(SourceSet::Source(sources.len() - 1))
            }
            (Condition::Predicate(_), false) => None,
            (Condition::Not(set), _) => SourceSet::of(set, !positive, sources),
            (Condition::And(sets) | Condition::Intersection(sets), true)
            | (Condition::Or(sets), false) => {
                let mut covers: Vec<SourceSet> = members(sets).into_iter().flatten().collect();
                if covers.len() < 2 {
                    covers.pop()
                } else {
                    Some(SourceSet::Either(covers))
                }
            }
            (Condition::And(sets) | Condition::Intersection(sets), false)
            | (Condition::Or(sets), true) => members(sets)
                .into_iter()
                .collect::<Option<Vec<_>>>()
                .map(SourceSet::Each),
        }
    }

    fn is_met_by(&self, sources: &[usize]) -> bool {
        match self {
            SourceSet::Source(source) => sources.binary_search(source).is_ok(),
            SourceSet::Either(covers) => covers.iter().any(|cover| cover.is_met_by(sources)),
            SourceSet::Each(covers) => covers.iter().all(|cover| cover.is_met_by(sources)),
        }
    }

    /// The sources, when there is nothing to choose.
    fn only(&self) -> Option<Vec<usize>> {
        match self {
            SourceSet::Source(source) => Some(vec![*source]),
            SourceSet::Either(_) => None,
            SourceSet::Each(covers) => {
                let only: Option<Vec<_>> = covers.iter().map(SourceSet::only).collect();
                only.map(|sources| sources.concat())
            }
        }
    }
}

fn budgets() -> impl Iterator<Item = usize> {
    std::iter::successors(Some(PROBE_MIN), |budget| Some(budget * 2))
        .take_while(|&budget| budget <= PROBE_MAX)
}
