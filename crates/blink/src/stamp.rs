//! Stamps: the one order of all writes of a key, and the hybrid clock that issues them.
//!
//! A stamp is (hybrid time, client incarnation, sequence). A transaction takes one hybrid time when
//! it is sent and numbers its records with the sequence. So two blind transactions have the same
//! order on every key. A client incarnation is a random number, new in each process: a restored
//! process would repeat stamps.

use crate::guard::{self, Guard};

/// A reading of a hybrid clock: milliseconds since 1970 in the upper 48 bits, a counter in the
/// lower 16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HybridTime(pub u64);

impl HybridTime {
    /// Before all readings.
    pub const ZERO: HybridTime = HybridTime(0);

    /// The first reading of a millisecond; beyond the year 10889 the last one there is.
    pub const fn from_ms(ms: u64) -> Self {
        if ms >> 48 == 0 {
            HybridTime(ms << 16)
        } else {
            HybridTime(u64::MAX)
        }
    }

    /// Milliseconds since 1970.
    pub const fn ms(self) -> u64 {
        self.0 >> 16
    }
}

/// The place of one write in the order of all writes of its key.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// When the transaction was sent.
    pub time: HybridTime,
    /// Incarnation of the client: a random number, new in each process.
    pub client: u64,
    /// Number of the record in its transaction, from 0.
    pub sequence: u32,
}

impl Stamp {
    /// Before all stamps of writes.
    pub const ZERO: Stamp = Stamp {
        time: HybridTime::ZERO,
        client: 0,
        sequence: 0,
    };

    /// Bytes of an encoded stamp.
    pub const BYTES: usize = 20;

    /// Big-endian, so that encoded stamps compare as bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.time.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.client.to_be_bytes());
        bytes[16..].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }

    /// The inverse of [`Stamp::to_bytes`].
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (time, rest) = bytes.split_first_chunk().expect("20 bytes");
        let (client, rest) = rest.split_first_chunk().expect("12 bytes");
        let (sequence, _) = rest.split_first_chunk().expect("4 bytes");
        Stamp {
            time: HybridTime(u64::from_be_bytes(*time)),
            client: u64::from_be_bytes(*client),
            sequence: u32::from_be_bytes(*sequence),
        }
    }
}

/// A clock that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// Set the clock; nothing was sent.
    #[error("this clock is {drift_ms} ms off the store's clock, {bound_ms} ms are allowed: set it")]
    Drift {
        /// Own minus the store's reading, milliseconds.
        drift_ms: i64,
        /// The bound, milliseconds.
        bound_ms: u64,
    },
    /// A stamp at the end of time was read; the database is damaged.
    #[error("a stamp at the end of time was read: no later stamp exists")]
    Exhausted,
}

/// A hybrid logical clock. Its readings strictly increase, stay at or above the wall clock, and
/// pass every reading that was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HybridClock {
    last: HybridTime,
}

impl HybridClock {
    /// A clock without readings.
    pub fn new() -> Self {
        HybridClock::default()
    }

    /// The next reading, above all before it. `now_ms` is the wall clock.
    ///
    /// # Errors
    /// [`ClockError::Exhausted`] when no greater reading exists.
    pub fn tick(&mut self, now_ms: u64) -> Result<HybridTime, ClockError> {
        let next = self.last.0.checked_add(1).ok_or(ClockError::Exhausted)?;
        self.last = HybridTime(next).max(HybridTime::from_ms(now_ms));
        Ok(self.last)
    }

    /// Takes note of a reading: of each stamp and each horizon that a client reads. Later readings
    /// are above.
    pub fn observe(&mut self, seen: HybridTime) {
        if guard::has(Guard::ObserveReads) {
            self.last = self.last.max(seen);
        }
    }

    /// Compares the wall clock with the store's clock, before anything is sent. Only clients
    /// refuse: a checkpoint that refused a stamp would lose an acknowledged record.
    ///
    /// # Errors
    /// [`ClockError::Drift`] when they differ by more than `bound_ms`.
    pub fn check(now_ms: u64, store_ms: u64, bound_ms: u64) -> Result<(), ClockError> {
        if now_ms.abs_diff(store_ms) <= bound_ms {
            return Ok(());
        }
        let size = i64::try_from(now_ms.abs_diff(store_ms)).unwrap_or(i64::MAX);
        let drift_ms = if now_ms < store_ms { -size } else { size };
        Err(ClockError::Drift { drift_ms, bound_ms })
    }
}

#[cfg(test)]
mod tests;
