//! What a prefix of the committed log comes to, with every mark kept for ever. What members show
//! differs from it only in marks and in the order of attributes.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Entry, Register};

use super::evidence::merges;
use crate::service::State;

/// The registers after a prefix of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    registers: BTreeMap<Bytes, Register>,
    pairs: u64,
}

impl Replay {
    /// Takes the next entry.
    pub(super) fn take(&mut self, entry: &Entry) {
        for (key, ops) in merges(entry) {
            let register = self.registers.entry(key.clone()).or_default();
            let before = register.pairs().count() as u64;
            register.merge(ops, entry.stamp);
            register.version = entry.id;
            self.pairs = self.pairs - before + register.pairs().count() as u64;
        }
    }

    /// A register, if any entry has touched it.
    pub(super) fn known(&self, key: &Bytes) -> Option<&Register> {
        self.registers.get(key)
    }
}

impl State for Replay {
    fn register(&self, key: &Bytes) -> Register {
        self.registers.get(key).cloned().unwrap_or_default()
    }

    fn pairs(&self) -> u64 {
        self.pairs
    }
}
