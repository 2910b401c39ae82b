//! Scans of several trees as one.

use std::iter::Peekable;

use bytes::Bytes;
use fader_services::{Direction, Scan, ViewError};

/// The trees' pairs as one sequence. No key is in two trees.
pub(super) struct Merge<'a> {
    scans: Vec<Peekable<Scan<'a>>>,
    direction: Direction,
}

impl<'a> Merge<'a> {
    /// What these scans in one direction come to.
    pub(super) fn new(scans: Vec<Peekable<Scan<'a>>>, direction: Direction) -> Self {
        Merge { scans, direction }
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<(Bytes, Bytes), ViewError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut first: Option<(usize, Bytes)> = None;
        for (at, scan) in self.scans.iter_mut().enumerate() {
            match scan.peek() {
                None => {}
                Some(Err(_)) => return scan.next(),
                Some(Ok((key, _))) => {
                    let is_first = first
                        .as_ref()
                        .is_none_or(|(_, first)| match self.direction {
                            Direction::Forward => key < first,
                            Direction::Backward => first < key,
                        });
                    if is_first {
                        first = Some((at, key.clone()));
                    }
                }
            }
        }
        self.scans[first?.0].next()
    }
}
