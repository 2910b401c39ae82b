//! Checksums (CRC-32C) of blocks and of their pieces.
//!
//! The checksum of a block follows from those of its pieces. A checksum is shifted over the bytes
//! that follow, which is linear over its bits, and added to theirs. The shifts over 1, 2, 4, …
//! bytes are tables.

use std::sync::LazyLock;

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

/// Bytes that have a checksum of their own.
pub const PIECE_BYTES: u32 = 64 << 10;
/// Shifts of powers of two that are tables: up to a piece.
const SHIFTS: usize = PIECE_BYTES.ilog2() as usize + 1;

/// A linear function of a checksum: what each value of each of its four bytes comes to.
type Shift = [[u32; 256]; 4];

/// Over 2^k bytes, for each k.
static OVER: LazyLock<Vec<Shift>> = LazyLock::new(|| {
    let over_one = |sum| checksum_combine(CrcAlgorithm::Crc32Iscsi, u64::from(sum), 0, 1) as u32;
    let mut over = vec![tabulated(over_one)];
    while over.len() < SHIFTS {
        let last = &over[over.len() - 1];
        over.push(tabulated(|sum| shifted(last, shifted(last, sum))));
    }
    over
});

fn tabulated(function: impl Fn(u32) -> u32) -> Shift {
    let of_byte = |byte: usize| {
        let value = |value: usize| function((value as u32) << (8 * byte));
        std::array::from_fn(value)
    };
    std::array::from_fn(of_byte)
}

fn shifted(shift: &Shift, sum: u32) -> u32 {
    let bytes = sum.to_le_bytes().map(usize::from);
    let tables = shift.iter().zip(bytes);
    tables.fold(0, |all, (table, byte)| all ^ table[byte])
}

/// The checksum of bytes, of which the first have the checksum `sum`, and `count` others `after`.
/// `count` is at most [`PIECE_BYTES`].
fn combined(sum: u32, after: u32, count: u32) -> u32 {
    let shifts = OVER.iter().enumerate();
    let set = shifts.filter(|(bit, _)| count & (1 << bit) != 0);
    set.fold(sum, |sum, (_, shift)| shifted(shift, sum)) ^ after
}

/// CRC-32C of the parts, one behind the other.
pub(super) fn sum(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// The checksums of the pieces of a block, whose bytes come in parts.
pub(super) fn piece_sums(parts: &[impl AsRef<[u8]>]) -> Vec<u32> {
    let mut sums = Vec::new();
    let mut piece = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut room = PIECE_BYTES as usize;
    for part in parts {
        let mut rest = part.as_ref();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(room.min(rest.len()));
            piece.update(now);
            room -= now.len();
            rest = later;
            if room == 0 {
                sums.push(piece.finalize_reset() as u32);
                room = PIECE_BYTES as usize;
            }
        }
    }
    if room < PIECE_BYTES as usize {
        sums.push(piece.finalize() as u32);
    }
    sums
}

/// The checksum of `size` bytes that follows from those of their pieces.
pub(super) fn whole_sum(sums: &[u32], size: u32) -> u32 {
    let mut rest = size;
    let mut whole = 0;
    for (at, sum) in sums.iter().enumerate() {
        let piece = rest.min(PIECE_BYTES);
        whole = match at {
            0 => *sum,
            _ => combined(whole, *sum, piece),
        };
        rest -= piece;
    }
    whole
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_whole_sum_is_that_of_all_bytes(
            size in 1_u32..5 * PIECE_BYTES,
            seed in any::<u8>(),
        ) {
            let byte = |at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed;
            let bytes: Vec<u8> = (0..size).map(byte).collect();
            prop_assert_eq!(whole_sum(&piece_sums(&[&bytes]), size), sum(&[&bytes]));
        }

        #[test]
        fn sums_of_pieces_are_the_same_however_the_bytes_come(
            size in 1_usize..3 * PIECE_BYTES as usize,
            part in 1_usize..2 * PIECE_BYTES as usize,
        ) {
            let bytes: Vec<u8> = (0..size).map(|at| (at * 7 / 3) as u8).collect();
            let parts: Vec<&[u8]> = bytes.chunks(part).collect();
            let pieces = bytes.chunks(PIECE_BYTES as usize).map(|piece| sum(&[piece]));
            prop_assert_eq!(piece_sums(&parts), pieces.collect::<Vec<u32>>());
        }
    }

    #[test]
    fn sums_of_pieces_combine_at_every_power_of_two() {
        let bytes: Vec<u8> = (0..2 * PIECE_BYTES).map(|at| (at * 7 / 3) as u8).collect();
        for bit in 0..SHIFTS {
            let (first, after) = bytes.split_at(PIECE_BYTES as usize);
            let after = &after[..1 << bit];
            let all = sum(&[first, after]);
            assert_eq!(combined(sum(&[first]), sum(&[after]), 1 << bit), all);
        }
    }
}
