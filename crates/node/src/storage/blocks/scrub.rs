//! Everything is read now and then, so that damage is found while there are other copies.

use std::time::Duration;

use super::block::{Bad, ReadError};
use super::files::{self, Reading};
use super::format::{HEADER_BYTES, block_size};
use super::index::State;
use super::pace::Pace;
use super::store::Blocks;

/// How far scrubbing is, and how fast it goes on.
#[derive(Clone, Debug)]
pub struct Scrub {
    pace: Pace,
    segment: u64,
    offset: u32,
}

impl Scrub {
    /// Begins at `now`, on the caller's monotonic clock.
    #[must_use]
    pub fn new(bytes_per_second: u64, now: Duration) -> Self {
        Scrub {
            pace: Pace::new(bytes_per_second, now),
            segment: 0,
            offset: 0,
        }
    }
}

/// What a step of scrubbing found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were read.
    pub bytes: u64,
    /// What is damaged.
    pub bad: Vec<Bad>,
    /// Whether the last segment was read to its end: the next step begins anew.
    pub is_round: bool,
}

impl Blocks {
    /// Reads as much as the pace grants by `now`, at most one round. Blocks that are bad are found
    /// by [`Blocks::bad`] until good bytes of them are held. The next [`Blocks::reclaim`] mends a
    /// damaged header or list of a segment.
    pub fn scrub(&self, scrub: &mut Scrub, now: Duration) -> Scrubbed {
        let mut done = Scrubbed::default();
        while 0 < scrub.pace.granted(now) && !done.is_round {
            let before = done.bytes;
            let place = self.index.lock().block_from(scrub.segment, scrub.offset);
            if let Some(place) = place {
                scrub.offset = place.offset + 1;
                done.bytes += u64::from(block_size(place.block.size));
                let loaded = self.load(&place).map(drop);
                if let Err(ReadError::Damaged(damage)) = &loaded
                    && !self.on_unreadable(&place, &loaded)
                {
                    done.bad.push(Bad {
                        block: Some(place.block),
                        damage: damage.clone(),
                    });
                }
            } else {
                let next = self.index.lock().segment_after(scrub.segment);
                scrub.segment = next.unwrap_or(0);
                scrub.offset = 0;
                done.is_round = next.is_none();
                if let Some(sequence) = next {
                    self.scrub_segment(sequence, &mut done);
                }
            }
            scrub.pace.spend(done.bytes - before);
        }
        done
    }

    /// Reads the header and the list of a segment.
    fn scrub_segment(&self, sequence: u64, done: &mut Scrubbed) {
        let found = self
            .index
            .lock()
            .segment(sequence)
            .map(|it| (it.id, it.state));
        let Some((id, state @ (State::Sealed(_) | State::Open))) = found else {
            return;
        };
        let path = files::path(&self.folder, sequence);
        let checked = self.open_file(&path).and_then(|file| {
            let (file, path) = (&*file, path.as_path());
            let reading = Reading::new(file, path);
            done.bytes += u64::from(HEADER_BYTES);
            reading.header()?;
            if let State::Sealed(list) = state {
                done.bytes += file.size().unwrap_or(0).saturating_sub(u64::from(list));
                reading.check_list(id, list)?;
            }
            Ok(())
        });
        if let Err(ReadError::Damaged(damage)) = checked {
            let mut index = self.index.lock();
            match index.segment(sequence).map(|it| it.state) {
                Some(State::Sealed(_)) => index.set_state(sequence, State::Suspect),
                Some(_) => {}
                // It was removed meanwhile.
                None => return,
            }
            done.bad.push(Bad {
                block: None,
                damage,
            });
        }
    }
}
