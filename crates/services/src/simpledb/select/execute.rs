//! Answers a selection, a page at a time.
//!
//! A page ends when it has as many items as it may, or when its budget of time is over. It also
//! ends when the next item would make its names and values exceed the limit of bytes. It then gives
//! a position, unless no entry follows. At least one entry is done with on each page, so pages
//! always come to an end.
//!
//! Invariants:
//! - PAGE-1 while data does not change, the pages of one selection hold each of its items exactly
//!   once. Between pages with changing data, an item that does not change is neither missed nor
//!   repeated.

use bytes::Bytes;
use fader_chain::Register;

use super::index_scan::{self, Entry, IndexScan, ScanPosition};
use super::plan::{Choice, PROBE_MAX, Plan, Planner};
use super::position::Position;
use super::predicate::{Condition, Field, Found};
use super::statement::{Output, Selection};
use crate::simpledb::{Attribute, Item};
use crate::{CollectionId, PageBudget, View, ViewError};

/// What is wanted of a selection.
#[derive(Clone, Copy)]
pub(crate) struct PageRequest<'a> {
    /// The data.
    pub(crate) view: &'a dyn View,
    /// The domain.
    pub(crate) collection: CollectionId,
    /// Which items.
    pub(crate) selection: &'a Selection,
    /// What of each.
    pub(crate) output: &'a Output,
    /// How many at most.
    pub(crate) items_max: usize,
    /// How many bytes of names and values at most.
    pub(crate) bytes_max: usize,
    /// When to stop all the same.
    pub(crate) pace: &'a dyn PageBudget,
}

/// What a page holds.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The items; none when they are only counted.
    pub(crate) items: Vec<Item>,
    /// How many there are.
    pub(crate) count: usize,
    /// Where to go on; none when nothing follows.
    pub(crate) next: Option<Position>,
    bytes: usize,
}

impl PageRequest<'_> {
    /// The first page, or the one after `position`; none when the position is of another selection.
    pub(crate) fn page(&self, position: Option<Position>) -> Result<Option<Page>, ViewError> {
        let planner = Planner::new(self.selection);
        let (plan, start) = match position {
            None => (planner.choose(self.view, self.collection)?, None),
            Some(Position { choice, place }) => {
                let Some(plan) = planner.plan(choice) else {
                    return Ok(None);
                };
                (plan, place)
            }
        };
        if start
            .as_ref()
            .is_some_and(|place| plan.order.lanes.len() <= place.lane)
        {
            return Ok(None);
        }
        let page = match &plan.unsorted {
            None => self.read(&plan.order, &plan.choice, start.as_ref())?,
            Some(unsorted) => match self.collect(unsorted, &plan.order, start.as_ref())? {
                Collected::Rows(rows) => self.give(&plan, rows)?,
                Collected::TooMany => self.read(&plan.order, &Choice::default(), start.as_ref())?,
                // Sorting would come no further on the next page; reading in order will.
                Collected::TooLong => Page {
                    next: Some(Position {
                        choice: Choice::default(),
                        place: start,
                    }),
                    ..Page::default()
                },
            },
        };
        Ok(Some(page))
    }

    fn read(
        &self,
        walk: &IndexScan<'_>,
        choice: &Choice,
        start: Option<&ScanPosition>,
    ) -> Result<Page, ViewError> {
        let is_index_enough = self.is_index_enough(walk);
        let mut page = Page::default();
        let mut is_over = false;
        let mut last = start.cloned();
        for entry in walk.entries(self.view, self.collection, start) {
            let entry = entry?;
            let is_full = self.items_max <= page.count || is_over;
            let fits = !is_full
                && match self.result(walk, &entry, is_index_enough)? {
                    Some(register) => page.take(self, &entry.place.item, &register),
                    None => true,
                };
            if !fits {
                page.next = Some(Position {
                    choice: choice.clone(),
                    place: last,
                });
                break;
            }
            last = Some(entry.place);
            is_over = self.pace.is_over();
        }
        Ok(page)
    }

    /// The places of the results after `start`, in order.
    fn collect(
        &self,
        unsorted: &IndexScan<'_>,
        order: &IndexScan<'_>,
        start: Option<&ScanPosition>,
    ) -> Result<Collected, ViewError> {
        let mut rows = Vec::new();
        for (at, entry) in unsorted
            .entries(self.view, self.collection, None)
            .enumerate()
        {
            let entry = entry?;
            if PROBE_MAX <= at {
                return Ok(Collected::TooMany);
            }
            if let Some(register) = self.result(unsorted, &entry, false)? {
                let item = Found {
                    name: &entry.place.item,
                    register: &register,
                };
                let place = order.place(item);
                rows.extend(place.filter(|place| start.is_none_or(|s| order.is_after(place, s))));
            }
            if self.pace.is_over() {
                return Ok(Collected::TooLong);
            }
        }
        rows.sort_by(|one, other| order.compare(one, other));
        Ok(Collected::Rows(rows))
    }

    /// Gives sorted rows as far as they fit.
    fn give(&self, plan: &Plan<'_>, rows: Vec<ScanPosition>) -> Result<Page, ViewError> {
        let mut page = Page::default();
        let mut last = None;
        for place in rows {
            let is_full = self.items_max <= page.count || (last.is_some() && self.pace.is_over());
            let fits = !is_full && {
                let bytes = index_scan::read(self.view, self.collection, &place.item)?;
                page.take(self, &place.item, &Register::decode(bytes)?)
            };
            if !fits {
                page.next = Some(Position {
                    choice: plan.choice.clone(),
                    place: last,
                });
                break;
            }
            last = Some(place);
        }
        Ok(page)
    }

    /// The register of the item, if `entry` is its place and it satisfies the condition. An empty
    /// register when the index is enough to know.
    fn result(
        &self,
        walk: &IndexScan<'_>,
        entry: &Entry,
        is_index_enough: bool,
    ) -> Result<Option<Register>, ViewError> {
        if !walk.lanes[entry.place.lane].admits(&entry.place.value) {
            return Ok(None);
        }
        if is_index_enough {
            return Ok(Some(Register::default()));
        }
        let register = index_scan::register(self.view, self.collection, entry)?;
        let item = Found {
            name: &entry.place.item,
            register: &register,
        };
        let is_result = !register.is_empty()
            && (walk.is_single() || walk.is_at(item, &entry.place))
            && self.selection.condition.matches(item);
        Ok(is_result.then_some(register))
    }

    /// Whether every entry that the scan admits is a result, and only its item's name is wanted.
    /// Then registers need not be read.
    fn is_index_enough(&self, walk: &IndexScan<'_>) -> bool {
        let is_bare = matches!(self.output, Output::Names | Output::Count);
        match (walk.lanes.as_slice(), &self.selection.condition) {
            ([lane], Condition::Predicate(predicate)) if is_bare && !predicate.every => {
                let is_its = *lane.field == predicate.field && *lane.field != Field::ItemName;
                is_its && walk.is_point()
            }
            _ => false,
        }
    }
}

enum Collected {
    Rows(Vec<ScanPosition>),
    TooMany,
    TooLong,
}

impl Page {
    /// Takes an item, or says that it does not fit.
    fn take(&mut self, wanted: &PageRequest<'_>, name: &[u8], register: &Register) -> bool {
        if *wanted.output == Output::Count {
            self.count += 1;
            return true;
        }
        let attributes = attributes(wanted.output, register);
        let must_have = matches!(
            wanted.output,
            Output::Attributes {
                bare_items: false,
                ..
            }
        );
        if must_have && attributes.is_empty() {
            return true;
        }
        let pairs = attributes
            .iter()
            .map(|pair| pair.name.len() + pair.value.len());
        let bytes = self.bytes + name.len() + pairs.sum::<usize>();
        if 0 < self.count && wanted.bytes_max < bytes {
            return false;
        }
        self.bytes = bytes;
        self.count += 1;
        self.items.push(Item {
            name: Bytes::copy_from_slice(name),
            attributes,
        });
        true
    }
}

fn attributes(output: &Output, register: &Register) -> Vec<Attribute> {
    let wants = |name: &[u8]| match output {
        Output::Everything => true,
        Output::Names | Output::Count => false,
        Output::Attributes { names, .. } => names.iter().any(|wanted| wanted.as_bytes() == name),
    };
    let groups = register.groups.iter().filter(|group| wants(&group.name));
    let pairs = groups.flat_map(|group| {
        group.values().map(|value| Attribute {
            name: group.name.clone(),
            value: value.clone(),
        })
    });
    pairs.collect()
}
