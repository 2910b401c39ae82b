//! Buffers that reads fill, used again and again. A new one of that size costs more than the read:
//! the system clears its pages first.
//!
//! Invariants:
//! - a buffer shows only as many bytes as were asked for, and is shown once all of them were
//!   read.

use std::io;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes of a buffer that is kept; larger reads have one of their own.
const BUFFER_BYTES: usize = 1 << 20;
/// Smaller reads have one of their own.
const SHARED_MIN: usize = 64 << 10;
/// Buffers that are kept.
const KEPT_MAX: usize = 16;

/// Buffers that no read has.
#[derive(Debug, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Box<[u8]>>>>);

/// The bytes of a read.
struct Filled {
    buffer: Box<[u8]>,
    size: usize,
    home: Weak<Mutex<Vec<Box<[u8]>>>>,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.size]
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            let mut kept = home.lock();
            if kept.len() < KEPT_MAX {
                kept.push(std::mem::take(&mut self.buffer));
            }
        }
    }
}

impl Buffers {
    /// So many bytes, which `fill` reads.
    ///
    /// # Errors
    /// That of `fill`.
    pub(super) fn read(
        &self,
        size: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Bytes> {
        if !(SHARED_MIN..=BUFFER_BYTES).contains(&size) {
            let mut bytes = vec![0; size];
            fill(&mut bytes)?;
            return Ok(bytes.into());
        }
        let kept = self.0.lock().pop();
        let mut filled = Filled {
            buffer: kept.unwrap_or_else(|| vec![0; BUFFER_BYTES].into()),
            size,
            home: Arc::downgrade(&self.0),
        };
        fill(&mut filled.buffer[..size])?;
        Ok(Bytes::from_owner(filled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_shows_the_bytes_of_its_own_read_alone() {
        let buffers = Buffers::default();
        let read = |byte: u8, size: usize| {
            let fill = |bytes: &mut [u8]| {
                bytes.fill(byte);
                Ok(())
            };
            buffers.read(size, fill).unwrap()
        };
        let (first, second) = (read(1, BUFFER_BYTES), read(2, BUFFER_BYTES));
        drop(first);
        assert_eq!(buffers.0.lock().len(), 1);
        let third = read(3, SHARED_MIN);
        assert_eq!(buffers.0.lock().len(), 0);
        assert_eq!(third, [3; SHARED_MIN][..]);
        assert_eq!(second, vec![2; BUFFER_BYTES]);
        let slice = third.slice(1..2);
        drop(third);
        let kept = buffers.0.lock().len();
        assert_eq!(kept, 0);
        assert_eq!(slice, [3][..]);
        drop(slice);
        let many: Vec<Bytes> = (0..2 * KEPT_MAX).map(|_| read(4, SHARED_MIN)).collect();
        drop(many);
        assert_eq!(buffers.0.lock().len(), KEPT_MAX);
    }

    #[test]
    fn a_read_that_fails_gives_its_buffer_back() {
        let buffers = Buffers::default();
        let failed = buffers.read(SHARED_MIN, |_| Err(io::ErrorKind::UnexpectedEof.into()));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(buffers.0.lock().len(), 1);
    }
}
