//! A walk: index entries in order, such that every wanted item has an entry among them.
//!
//! A scan has one *field scan* per field. It has the ranges of the field's index that are read, and
//! the formulas of which an entry's value satisfies at least one. `itemName()` is the lane over the
//! registers themselves. Lanes are read one after the other, in the order of their keys.
//!
//! Invariants:
//! - SCAN-1 an item may have several entries in a walk; its *place* is the first, and it is a
//!   result at its place only. The place follows from the item's register alone, so pages need no
//!   memory of what earlier pages gave.
//! - SCAN-2 the order of places is the order of reading.

use std::cmp::Ordering;

use bytes::Bytes;
use fader_chain::Register;

use super::predicate::{Field, Formula, Found, Test};
use super::range::{Range, Ranges};
use crate::{
    CollectionId, Direction, Inconsistency, KeyBuilder, Table, View, ViewError, item_key,
    split_text,
};

static ANY_VALUE: Formula = Formula::Test(Test::Present);

/// The part of a walk that is about one field.
#[derive(Clone, Debug)]
pub(crate) struct FieldScan<'s> {
    /// The field.
    pub(crate) field: &'s Field,
    /// What an entry's value must satisfy, any of these.
    pub(crate) formulas: Vec<&'s Formula>,
    /// Where such values can be.
    pub(crate) ranges: Ranges,
}

/// Which entries are read in which order.
#[derive(Clone, Debug)]
pub(crate) struct IndexScan<'s> {
    /// In the order of their fields.
    pub(crate) lanes: Vec<FieldScan<'s>>,
    /// Backward only with a single lane.
    pub(crate) direction: Direction,
    /// The names that results can have.
    pub(crate) items: Ranges,
}

/// Where an entry stands in a walk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScanPosition {
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
    pub(crate) place: ScanPosition,
    /// The item's register, when the entry is the register itself.
    pub(crate) register: Option<Bytes>,
}

/// The keys of one range of one lane.
#[derive(Debug)]
struct FieldRange {
    lane: usize,
    prefix_size: usize,
    first: Bytes,
    end: Bytes,
}

impl<'s> FieldScan<'s> {
    /// The entries that satisfy any of `formulas`.
    pub(crate) fn new(field: &'s Field, formulas: Vec<&'s Formula>) -> Self {
        let ranges = formulas
            .iter()
            .map(|formula| Ranges::of(formula))
            .reduce(|all, ranges| all.union(&ranges))
            .unwrap_or_else(Ranges::everything);
        FieldScan {
            field,
            formulas,
            ranges,
        }
    }

    /// All entries of a field.
    pub(crate) fn whole(field: &'s Field) -> Self {
        FieldScan::new(field, vec![&ANY_VALUE])
    }

    /// Whether an entry with this value counts.
    pub(crate) fn admits(&self, value: &[u8]) -> bool {
        self.formulas.iter().any(|formula| formula.matches(value))
    }

    /// The part of its keys that is the same in all.
    fn prefix(&self, collection: CollectionId) -> KeyBuilder {
        match self.field {
            Field::ItemName => KeyBuilder::new(collection, Table::Items),
            Field::Attribute(name) => {
                KeyBuilder::new(collection, Table::Index).text(name.as_bytes())
            }
        }
    }

    /// The keys of a range; of a single value's, those of `items` only.
    fn sections(
        &self,
        lane: usize,
        collection: CollectionId,
        range: &Range,
        items: &Ranges,
    ) -> Vec<FieldRange> {
        let prefix = self.prefix(collection);
        let prefix_size = prefix.clone().build().len();
        let (prefix, bounds, is_last) = match self.field {
            Field::ItemName => (prefix, std::slice::from_ref(range), true),
            Field::Attribute(_) if range.is_point() => {
                (prefix.text(&range.low), items.as_slice(), true)
            }
            Field::Attribute(_) => (prefix, std::slice::from_ref(range), false),
        };
        let bound = |value: &[u8]| {
            let prefix = prefix.clone();
            if is_last {
                prefix.raw(value)
            } else {
                prefix.text(value)
            }
            .build()
        };
        let sections = bounds.iter().map(|bounds| FieldRange {
            lane,
            prefix_size,
            first: bound(&bounds.low),
            end: match &bounds.high {
                Some(high) => bound(high),
                None => prefix.clone().build_end(),
            },
        });
        sections.collect()
    }

    fn key(&self, collection: CollectionId, place: &ScanPosition) -> Bytes {
        let prefix = self.prefix(collection);
        match self.field {
            Field::ItemName => prefix.raw(&place.item).build(),
            Field::Attribute(_) => prefix.text(&place.value).raw(&place.item).build(),
        }
    }

    fn entry(&self, section: &FieldRange, key: &[u8], value: Bytes) -> Result<Entry, ViewError> {
        let (lane, rest) = (section.lane, &key[section.prefix_size..]);
        if *self.field == Field::ItemName {
            let place = ScanPosition {
                lane,
                value: rest.to_vec(),
                item: rest.to_vec(),
            };
            return Ok(Entry {
                place,
                register: Some(value),
            });
        }
        let (value, item) =
            split_text(rest).ok_or_else(|| ViewError::from(Inconsistency::EndlessIndexKey))?;
        Ok(Entry {
            place: ScanPosition {
                lane,
                value,
                item: item.to_vec(),
            },
            register: None,
        })
    }
}

impl<'s> IndexScan<'s> {
    /// A walk of these lanes.
    pub(crate) fn new(lanes: Vec<FieldScan<'s>>, direction: Direction, items: Ranges) -> Self {
        IndexScan {
            lanes,
            direction,
            items,
        }
    }

    /// Where `item` is a result (SCAN-1), if it is one at all.
    pub(crate) fn place(&self, item: Found<'_>) -> Option<ScanPosition> {
        let (lane, value) = self.locate(item)?;
        Some(ScanPosition {
            lane,
            value: value.to_vec(),
            item: item.name.to_vec(),
        })
    }

    /// Whether `item`, read at `place`, is a result there (SCAN-1).
    pub(crate) fn is_at(&self, item: Found<'_>, place: &ScanPosition) -> bool {
        self.locate(item) == Some((place.lane, &place.value))
    }

    fn locate<'a>(&self, item: Found<'a>) -> Option<(usize, &'a [u8])> {
        self.lanes.iter().enumerate().find_map(|(at, lane)| {
            let mut values = item.values(lane.field);
            let value = match self.direction {
                Direction::Forward => values.find(|value| lane.admits(value)),
                Direction::Backward => values.rfind(|value| lane.admits(value)),
            };
            value.map(|value| (at, value))
        })
    }

    /// The order of two places.
    pub(crate) fn compare(&self, place: &ScanPosition, other: &ScanPosition) -> Ordering {
        match self.direction {
            Direction::Forward => place.cmp(other),
            Direction::Backward => other.cmp(place),
        }
    }

    /// Whether `place` comes after `other`.
    pub(crate) fn is_after(&self, place: &ScanPosition, other: &ScanPosition) -> bool {
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
        start: Option<&ScanPosition>,
    ) -> impl Iterator<Item = Result<Entry, ViewError>> + 'v {
        let last = start.and_then(|place| {
            let lane = self.lanes.get(place.lane)?;
            Some(lane.key(collection, place))
        });
        let mut sections = self.sections(collection);
        if let Some(last) = &last {
            for section in &mut sections {
                match self.direction {
                    Direction::Forward if section.first <= *last => section.first = after(last),
                    Direction::Backward if *last < section.end => section.end = last.clone(),
                    _ => {}
                }
            }
            sections.retain(|section| section.first < section.end);
        }
        sections.into_iter().flat_map(move |section| {
            let lane = &self.lanes[section.lane];
            view.scan(&section.first, &section.end, self.direction)
                .map(move |pair| pair.and_then(|(key, value)| lane.entry(&section, &key, value)))
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
        for section in self.sections(collection) {
            for pair in view.scan(&section.first, &section.end, self.direction) {
                pair?;
                count += 1;
                if max < count {
                    return Ok(None);
                }
            }
        }
        Ok(Some(count))
    }

    /// In the order of reading.
    fn sections(&self, collection: CollectionId) -> Vec<FieldRange> {
        let lanes = self.lanes.iter().enumerate();
        let sections = lanes.flat_map(|(at, lane)| {
            let ranges = lane.ranges.as_slice().iter();
            ranges.flat_map(move |range| lane.sections(at, collection, range, &self.items))
        });
        let mut sections: Vec<_> = sections.collect();
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
        .ok_or_else(|| ViewError::from(Inconsistency::IndexWithoutItem))
}
