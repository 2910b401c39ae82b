//! A walk: index entries in order, such that every wanted item has an entry among them.
//!
//! A walk has *lanes*, one per field: the ranges of the field's index that are read, and the formulas
//! of which an entry's value satisfies at least one. `itemName()` is the lane over the registers
//! themselves. Lanes are read one after the other, in the order of their keys.
//!
//! Invariants:
//! - W1 an item may have several entries in a walk; its *place* is the first, and it is a result at
//!   its place only. The place follows from the item's register alone, so pages need no memory of
//!   what earlier pages gave.
//! - W2 the order of places is the order of reading.

use std::cmp::Ordering;

use bytes::Bytes;
use fader_chain::Register;

use super::predicate::{Field, Formula, Found, Test};
use super::range::{Range, Ranges};
use crate::split_text;
use crate::{CollectionId, Direction, KeyBuilder, Table, View, ViewError, index_key, item_key};

static ANY_VALUE: Formula = Formula::Test(Test::Present);

/// The part of a walk that is about one field.
#[derive(Clone, Debug)]
pub(crate) struct Lane<'s> {
    /// The field.
    pub(crate) field: &'s Field,
    /// What an entry's value must satisfy, any of these.
    pub(crate) formulas: Vec<&'s Formula>,
    /// Where such values can be.
    pub(crate) ranges: Ranges,
}

/// Which entries are read in which order.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'s> {
    /// In the order of their fields.
    pub(crate) lanes: Vec<Lane<'s>>,
    /// Backward only with a single lane.
    pub(crate) direction: Direction,
}

/// Where an entry stands in a walk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The lane.
    pub(crate) lane: usize,
    /// The entry's value; for `itemName()` the item.
    pub(crate) value: Vec<u8>,
    /// The item.
    pub(crate) item: Vec<u8>,
}

/// An entry as it is read.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Where it stands.
    pub(crate) place: Place,
    /// The item's register, when the entry is the register itself.
    pub(crate) register: Option<Bytes>,
}

impl<'s> Lane<'s> {
    /// The entries that satisfy any of `formulas`.
    pub(crate) fn new(field: &'s Field, formulas: Vec<&'s Formula>) -> Self {
        let ranges = formulas
            .iter()
            .map(|formula| Ranges::of(formula))
            .reduce(|all, ranges| all.union(&ranges))
            .unwrap_or_else(Ranges::everything);
        Lane {
            field,
            formulas,
            ranges,
        }
    }

    /// All entries of a field.
    pub(crate) fn whole(field: &'s Field) -> Self {
        Lane::new(field, vec![&ANY_VALUE])
    }

    /// Whether an entry with this value counts.
    pub(crate) fn admits(&self, value: &[u8]) -> bool {
        self.formulas.iter().any(|formula| formula.matches(value))
    }

    /// The keys of a range.
    fn keys(&self, collection: CollectionId, range: &Range) -> (Bytes, Bytes) {
        let table = || match self.field {
            Field::ItemName => KeyBuilder::new(collection, Table::Items),
            Field::Attribute(name) => {
                KeyBuilder::new(collection, Table::Index).text(name.as_bytes())
            }
        };
        let bound = |value: &[u8]| match self.field {
            Field::ItemName => table().raw(value).build(),
            Field::Attribute(_) => table().text(value).build(),
        };
        let end = range
            .high
            .as_deref()
            .map_or_else(|| table().build_end(), bound);
        (bound(&range.low), end)
    }

    fn key(&self, collection: CollectionId, place: &Place) -> Bytes {
        match self.field {
            Field::ItemName => item_key(collection, &place.item),
            Field::Attribute(name) => {
                index_key(collection, name.as_bytes(), &place.value, &place.item)
            }
        }
    }

    fn entry(&self, lane: usize, key: &[u8], value: Bytes) -> Result<Entry, ViewError> {
        // Eight bytes of collection and one of table.
        let rest = &key[9..];
        if *self.field == Field::ItemName {
            let place = Place {
                lane,
                value: rest.to_vec(),
                item: rest.to_vec(),
            };
            return Ok(Entry {
                place,
                register: Some(value),
            });
        }
        split_text(rest)
            .and_then(|(_, rest)| split_text(rest))
            .map(|(value, item)| Entry {
                place: Place {
                    lane,
                    value,
                    item: item.to_vec(),
                },
                register: None,
            })
            .ok_or_else(|| ViewError("an index key that is none".to_owned()))
    }
}

impl<'s> Walk<'s> {
    /// A walk of these lanes.
    pub(crate) fn new(lanes: Vec<Lane<'s>>, direction: Direction) -> Self {
        Walk { lanes, direction }
    }

    /// Where `item` is a result (W1), if it is one at all.
    pub(crate) fn place(&self, item: Found<'_>) -> Option<Place> {
        self.lanes.iter().enumerate().find_map(|(at, lane)| {
            let mut values = item.values(lane.field);
            let value = match self.direction {
                Direction::Forward => values.find(|value| lane.admits(value)),
                Direction::Backward => values.rfind(|value| lane.admits(value)),
            };
            value.map(|value| Place {
                lane: at,
                value: value.to_vec(),
                item: item.name.to_vec(),
            })
        })
    }

    /// The order of two places.
    pub(crate) fn compare(&self, place: &Place, other: &Place) -> Ordering {
        match self.direction {
            Direction::Forward => place.cmp(other),
            Direction::Backward => other.cmp(place),
        }
    }

    /// Whether `place` comes after `other`.
    pub(crate) fn is_after(&self, place: &Place, other: &Place) -> bool {
        self.compare(place, other) == Ordering::Greater
    }

    /// Whether it is the entries of one value.
    pub(crate) fn is_point(&self) -> bool {
        match self.lanes.as_slice() {
            [lane] => matches!(lane.ranges.as_slice(), [range] if range.is_point()),
            _ => false,
        }
    }

    /// Whether no item can have two entries.
    pub(crate) fn is_single(&self) -> bool {
        self.is_point() || matches!(self.lanes.as_slice(), [lane] if *lane.field == Field::ItemName)
    }

    /// The entries after `start`, as they stand in the view.
    pub(crate) fn entries<'v>(
        &'v self,
        view: &'v dyn View,
        collection: CollectionId,
        start: Option<&Place>,
    ) -> impl Iterator<Item = Result<Entry, ViewError>> + 'v {
        let last = start.and_then(|place| {
            self.lanes
                .get(place.lane)
                .map(|lane| lane.key(collection, place))
        });
        let mut sections = self.sections(collection);
        sections.retain_mut(|(_, first, end)| {
            if let Some(last) = &last {
                match self.direction {
                    Direction::Forward if *first <= *last => *first = after(last),
                    Direction::Backward if *last < *end => *end = last.clone(),
                    _ => {}
                }
            }
            first < end
        });
        sections.into_iter().flat_map(move |(at, first, end)| {
            let lane = &self.lanes[at];
            view.scan(&first, &end, self.direction)
                .map(move |pair| pair.and_then(|(key, value)| lane.entry(at, &key, value)))
        })
    }

    /// How many entries it has, if at most `max`; reads one more at most.
    pub(crate) fn count(
        &self,
        view: &dyn View,
        collection: CollectionId,
        max: usize,
    ) -> Result<Option<usize>, ViewError> {
        let mut count = 0;
        for (_, first, end) in self.sections(collection) {
            for pair in view.scan(&first, &end, self.direction) {
                pair?;
                count += 1;
                if max < count {
                    return Ok(None);
                }
            }
        }
        Ok(Some(count))
    }

    /// The number of a lane with its keys, for each range, in the order of reading.
    fn sections(&self, collection: CollectionId) -> Vec<(usize, Bytes, Bytes)> {
        let lanes = self.lanes.iter().enumerate();
        let mut sections: Vec<_> = lanes
            .flat_map(|(at, lane)| {
                lane.ranges.as_slice().iter().map(move |range| {
                    let (first, end) = lane.keys(collection, range);
                    (at, first, end)
                })
            })
            .collect();
        if self.direction == Direction::Backward {
            sections.reverse();
        }
        sections
    }
}

fn after(key: &[u8]) -> Bytes {
    Bytes::from([key, &[0]].concat())
}

/// The register of an item that an entry leads to.
pub(crate) fn register(
    view: &dyn View,
    collection: CollectionId,
    entry: &Entry,
) -> Result<Register, ViewError> {
    let bytes = match &entry.register {
        Some(bytes) => bytes.clone(),
        None => read(view, collection, &entry.place.item)?,
    };
    Ok(Register::decode(bytes)?)
}

/// The bytes of the register of an item that the index has.
pub(crate) fn read(
    view: &dyn View,
    collection: CollectionId,
    item: &[u8],
) -> Result<Bytes, ViewError> {
    view.get(&item_key(collection, item))?
        .ok_or_else(|| ViewError("an index entry without its item".to_owned()))
}
