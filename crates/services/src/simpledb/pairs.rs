//! The pairs of an item, and what differs between two states of it: all that the index is about.

use std::cmp::Ordering;

use bytes::Bytes;
use fader_chain::Register;

use crate::{View, ViewError};

/// A name with one of its values.
pub(crate) type Pair = (Bytes, Bytes);

/// The register at `key`; empty where there is none.
pub(crate) fn stored_register(view: &dyn View, key: &[u8]) -> Result<Register, ViewError> {
    match view.get(key)? {
        Some(bytes) => Ok(Register::decode(bytes)?),
        None => Ok(Register::default()),
    }
}

/// The pairs that are there, in byte order.
pub(crate) fn sorted_pairs(register: &Register) -> Vec<Pair> {
    let pairs = register.pairs();
    let mut pairs: Vec<_> = pairs
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    pairs.sort_unstable();
    pairs
}

/// Walks two sorted lists of pairs side by side and tells each that is in one only: `true` for
/// those that came.
pub(crate) fn differences<E>(
    mut old: &[Pair],
    mut new: &[Pair],
    mut tell: impl FnMut(&Pair, bool) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        let order = match (old.first(), new.first()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(gone), Some(come)) => gone.cmp(come),
        };
        match order {
            Ordering::Less => tell(&old[0], false)?,
            Ordering::Greater => tell(&new[0], true)?,
            Ordering::Equal => {}
        }
        old = &old[usize::from(order.is_le())..];
        new = &new[usize::from(order.is_ge())..];
    }
}
