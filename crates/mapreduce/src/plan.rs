//! Splits: which bytes of the input each map task reads. Pure.
//!
//! Small objects are packed, large ones cut. An object costs some bytes besides its own, since
//! opening it takes time.

use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::input::{Format, Pattern};

/// What opening an object costs, in bytes that could be read meanwhile.
pub(crate) const OPEN_BYTES: u64 = 64 << 10;

/// An object of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputObject {
    /// The number of its input.
    pub(crate) input: usize,
    pub(crate) key: String,
    pub(crate) bytes: u64,
    pub(crate) e_tag: Option<String>,
    /// Whether it can be read from any place.
    pub(crate) is_cut: bool,
}

/// The objects of a list that a pattern names, in the order of their keys.
pub(crate) fn matching(
    input: usize,
    pattern: &Pattern,
    format: &Format,
    listed: Vec<ObjectMeta>,
) -> Vec<InputObject> {
    let matching = listed
        .into_iter()
        .filter(|meta| pattern.matches(meta.location.as_ref()));
    let object = |meta: ObjectMeta| InputObject {
        input,
        is_cut: format.is_cut(meta.location.as_ref()),
        key: meta.location.into(),
        bytes: meta.size,
        e_tag: meta.e_tag,
    };
    let mut objects: Vec<_> = matching.map(object).collect();
    objects.sort_by(|one, other| one.key.cmp(&other.key));
    objects
}

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The number of its input.
    #[serde(rename = "i")]
    pub(crate) input: usize,
    #[serde(rename = "k")]
    pub(crate) key: String,
    /// The version that was planned.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) e_tag: Option<String>,
    #[serde(rename = "o", default)]
    pub(crate) offset: u64,
    #[serde(rename = "b")]
    pub(crate) bytes: u64,
    /// Bytes of the whole object.
    #[serde(rename = "s")]
    pub(crate) size: u64,
}

/// A plan: what the winning planner found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Where each input's keys are.
    pub(crate) bases: Vec<String>,
    /// The pieces of each map task.
    pub(crate) splits: Vec<Vec<Piece>>,
    /// The keys with which the partitions after the first begin, if the program wants them.
    #[serde(default)]
    pub(crate) ranges: Vec<Vec<u8>>,
}

impl Plan {
    /// Bytes of the input.
    pub(crate) fn bytes(&self) -> u64 {
        self.splits.iter().flatten().map(|piece| piece.bytes).sum()
    }
}

/// Cuts and packs objects, in their order, into splits of about so many bytes.
pub(crate) fn pack(objects: &[InputObject], split_bytes: u64) -> Vec<Vec<Piece>> {
    let mut splits = Vec::new();
    let (mut split, mut cost) = (Vec::new(), 0);
    for object in objects {
        for (offset, bytes) in cuts(object, split_bytes) {
            let own = bytes + OPEN_BYTES.min(split_bytes);
            if !split.is_empty() && split_bytes + OPEN_BYTES.min(split_bytes) < cost + own {
                splits.push(std::mem::take(&mut split));
                cost = 0;
            }
            cost += own;
            split.push(Piece {
                input: object.input,
                key: object.key.clone(),
                e_tag: object.e_tag.clone(),
                offset,
                bytes,
                size: object.bytes,
            });
        }
    }
    if !split.is_empty() {
        splits.push(split);
    }
    splits
}

/// The parts of an object: equal ones, if it may be cut.
fn cuts(object: &InputObject, split_bytes: u64) -> Vec<(u64, u64)> {
    if object.bytes == 0 {
        return Vec::new();
    }
    // A rest of a tenth does not become a split of its own.
    let count = match object.is_cut {
        true => (object.bytes * 10).div_ceil(split_bytes * 11).max(1),
        false => 1,
    };
    let at = |number: u64| {
        let all = u128::from(object.bytes) * u128::from(number);
        (all / u128::from(count)) as u64
    };
    let cut = |number| (at(number), at(number + 1) - at(number));
    (0..count)
        .map(cut)
        .filter(|(_, bytes)| 0 < *bytes)
        .collect()
}

/// The keys with which partitions after the first begin, from a sample.
pub(crate) fn ranges(mut sample: Vec<Vec<u8>>, partitions: u32) -> Vec<Vec<u8>> {
    sample.sort_unstable();
    let place = |number: u32| sample.len() * number as usize / partitions as usize;
    let keys = (1..partitions).filter_map(|number| sample.get(place(number)).cloned());
    keys.collect()
}

#[cfg(test)]
mod tests;
