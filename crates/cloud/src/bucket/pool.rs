//! The segments that a process has left to try, in its own order (rule BQUEUE-4).

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::listing::Listed;
use super::names::SegmentName;

/// A segment to try.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) name: SegmentName,
    pub(super) listed: Option<Listed>,
    /// Messages that may be visible still.
    pub(super) left: usize,
    /// Whether its state is known, or it has none.
    pub(super) is_known: bool,
    /// Whether another process probably holds it: its state is unknown, and younger than the
    /// queue's visibility.
    pub(super) is_held: bool,
}

/// The hash of a segment for a process with this seed.
pub(super) fn hash(seed: u64, name: SegmentName) -> u64 {
    xxh3_64_with_seed(name.to_string().as_bytes(), seed)
}

/// Puts segments in the order of a process. First come those that follow the segment of its last
/// claim up to another process's, then the others by hash, then those that are held.
///
/// So processes that claim at once keep apart. Without a last claim, or after a lost race, the hash
/// says where to begin: not next to another process's segment, if possible.
pub(super) fn sort(pool: &mut Vec<Candidate>, last: Option<SegmentName>, seed: u64) {
    pool.sort_by_key(|one| one.name);
    let held: Vec<bool> = pool.iter().map(|one| one.is_held).collect();
    let hashes: Vec<u64> = pool.iter().map(|one| hash(seed, one.name)).collect();
    let next = last.and_then(|last| pool.iter().position(|one| last < one.name));
    let next = next.filter(|index| !held[*index]);
    let free = (0..pool.len()).filter(|index| !held[*index]);
    let is_beside = |index: usize| 0 < index && held[index - 1];
    let begin = next.or_else(|| free.min_by_key(|index| (is_beside(*index), hashes[*index])));
    let begin = begin.unwrap_or(pool.len());
    let mut is_in_run = false;
    let ranked = pool.drain(..).enumerate().map(|(index, candidate)| {
        is_in_run = (is_in_run || index == begin) && !held[index];
        let rank = match is_in_run {
            true => (false, 0),
            false => (held[index], hashes[index].max(1)),
        };
        (rank, candidate)
    });
    let mut ranked: Vec<_> = ranked.collect();
    // Stable: a run stays in the order of names.
    ranked.sort_by_key(|(rank, _)| *rank);
    pool.extend(ranked.into_iter().map(|(_, candidate)| candidate));
}
