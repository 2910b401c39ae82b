//! What clients and operators ask in the model.

use bytes::Bytes;
use fader_chain::{ChainId, ElementOp, EntryId, Level, Mode};
use fader_services::s3::rows::BucketId;
use fader_services::{CollectionId, blocks};

use super::bytes::BLOCK;
use crate::history::{Condition, Request, Write};

/// The collection whose mode changes: registers of it have keys that begin with its name.
pub(super) const COLLECTION: u64 = u64::from_be_bytes(*b"cart-one");

/// What a write does to one register.
pub(super) type Part = (Bytes, Vec<ElementOp>);

/// What a client may ask, once and again under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRequest {
    /// Leaves one value in each register.
    Put {
        /// The registers.
        keys: Vec<Bytes>,
        /// The value.
        value: Bytes,
    },
    /// Leaves none.
    Delete {
        /// The register.
        key: Bytes,
    },
    /// Leaves one value where there was none; otherwise the answer is no.
    PutIfAbsent {
        /// The register.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// Whether it takes note of everything tentative first (BR).
        barrier: bool,
    },
    /// Moves the value of one register to another that has none; otherwise the answer is no.
    Move {
        /// From here.
        from: Bytes,
        /// To there.
        to: Bytes,
    },
    /// An eventual write, or deletion, acknowledged by `w` members.
    Eventual {
        /// The registers.
        keys: Vec<Bytes>,
        /// The value, or a deletion.
        value: Option<Bytes>,
        /// W.
        w: usize,
    },
    /// A strong request of the simulator's service: conditions and writes of elements.
    Strong(Request),
    /// An eventual one: writes of elements, acknowledged by `w` members.
    Merge {
        /// What is written.
        writes: Vec<Write>,
        /// W.
        w: usize,
    },
    /// A read that may have to ask.
    Read {
        /// The register.
        key: Bytes,
        /// How it is to be answered.
        level: Level,
    },
    /// The operator wants another mode; `Strong` begins to close.
    Turn {
        /// The mode.
        mode: Mode,
        /// Of a collection that closes: whether it does without those who are absent.
        abandon: bool,
    },
    /// The operator wants the next step of a collection that closes.
    Close,
    /// A command about rows of blocks.
    Rows(blocks::Command),
}

/// The registers a request is about.
pub(super) fn keys_of(ask: &ClientRequest) -> Vec<&Bytes> {
    match ask {
        ClientRequest::Put { keys, .. } | ClientRequest::Eventual { keys, .. } => {
            keys.iter().collect()
        }
        ClientRequest::Delete { key }
        | ClientRequest::PutIfAbsent { key, .. }
        | ClientRequest::Read { key, .. } => vec![key],
        ClientRequest::Move { from, to } => vec![from, to],
        ClientRequest::Strong(request) => request.keys().into_iter().collect(),
        ClientRequest::Merge { writes, .. } => writes.iter().map(|write| &write.key).collect(),
        ClientRequest::Turn { .. } | ClientRequest::Close | ClientRequest::Rows(_) => Vec::new(),
    }
}

impl ClientRequest {
    /// Whether it is one that may write, decided by the head.
    pub(super) fn is_strong_write(&self) -> bool {
        !self.is_eventual_write() && !self.is_read()
    }

    /// Whether any member may take it, and the head settles it.
    pub(super) fn is_eventual_write(&self) -> bool {
        matches!(
            self,
            ClientRequest::Eventual { .. } | ClientRequest::Merge { .. }
        )
    }

    pub(super) fn is_read(&self) -> bool {
        matches!(self, ClientRequest::Read { .. })
    }

    /// Whether it waits for all members' overlays (BR).
    pub(super) fn is_barrier(&self) -> bool {
        match self {
            ClientRequest::PutIfAbsent { barrier, .. } => *barrier,
            ClientRequest::Read { level, .. } => *level == Level::Barrier,
            _ => false,
        }
    }

    /// Whether it is a read that proves how stale it is at most.
    pub(super) fn is_bounded(&self) -> bool {
        let level = match self {
            ClientRequest::Read { level, .. } => *level,
            _ => Level::Strong,
        };
        matches!(level, Level::BoundVersions(_) | Level::BoundMillis(_))
    }

    /// Whether it is an eventual operation that may need no other member.
    pub(super) fn is_of_one(&self) -> bool {
        let is_read = matches!(
            self,
            ClientRequest::Read {
                level: Level::Eventual { r: 1, .. },
                ..
            }
        );
        is_read || self.is_eventual_write()
    }

    /// Of a quorum's read: R.
    pub(super) fn quorum(&self) -> Option<usize> {
        match self {
            ClientRequest::Read {
                level: Level::Eventual { r, .. },
                ..
            } => Some(*r),
            _ => None,
        }
    }

    /// Of an eventual write: W, and what it does to which registers, part by part.
    pub(super) fn tentative(&self) -> Option<(usize, Vec<Part>)> {
        match self {
            ClientRequest::Eventual { keys, value, w } => {
                let write = |key: &Bytes| (key.clone(), replacement(value.as_ref()));
                Some((*w, keys.iter().map(write).collect()))
            }
            ClientRequest::Merge { writes, w } => {
                let write = |write: &Write| (write.key.clone(), write.ops.clone());
                Some((*w, writes.iter().map(write).collect()))
            }
            _ => None,
        }
    }
}

/// Element operations that leave one value, or none.
pub(super) fn replacement(value: Option<&Bytes>) -> Vec<ElementOp> {
    let group = Bytes::from_static(b"g");
    let clear = ElementOp::Clear {
        group: group.clone(),
    };
    let add = value.map(|value| ElementOp::Add {
        group,
        value: value.clone(),
    });
    [clear].into_iter().chain(add).collect()
}

pub(super) fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// `key` may name several, with blanks between them.
pub(super) fn put(key: &'static str, value: &'static str) -> ClientRequest {
    ClientRequest::Put {
        keys: key.split(' ').map(bytes).collect(),
        value: bytes(value),
    }
}

pub(super) fn put_if_absent(key: &'static str, value: &'static str) -> ClientRequest {
    ClientRequest::PutIfAbsent {
        key: bytes(key),
        value: bytes(value),
        barrier: false,
    }
}

/// Behind a barrier.
pub(super) fn barrier_put_if_absent(key: &'static str, value: &'static str) -> ClientRequest {
    ClientRequest::PutIfAbsent {
        key: bytes(key),
        value: bytes(value),
        barrier: true,
    }
}

pub(super) fn delete(key: &'static str) -> ClientRequest {
    ClientRequest::Delete { key: bytes(key) }
}

pub(super) fn read(key: &'static str) -> ClientRequest {
    read_at(key, Level::Strong)
}

pub(super) fn read_at(key: &'static str, level: Level) -> ClientRequest {
    ClientRequest::Read {
        key: bytes(key),
        level,
    }
}

pub(super) fn quorum_read(key: &'static str, r: usize) -> ClientRequest {
    read_at(key, Level::Eventual { r, sloppy: false })
}

pub(super) fn tentative(key: &'static str, value: &'static str, w: usize) -> ClientRequest {
    ClientRequest::Eventual {
        keys: key.split(' ').map(bytes).collect(),
        value: Some(bytes(value)),
        w,
    }
}

pub(super) fn moved(from: &'static str, to: &'static str) -> ClientRequest {
    ClientRequest::Move {
        from: bytes(from),
        to: bytes(to),
    }
}

/// Writes of one register: `=a x` replaces the attribute a by x, `+a x` adds, `-a x` removes, `*`
/// removes all; commas between them.
fn write(key: &'static str, text: &'static str) -> Write {
    let pair = |text: &'static str| {
        let (group, value) = text.split_once(' ').unwrap_or((text, ""));
        (bytes(group), bytes(value))
    };
    let ops = text.split(", ").flat_map(|text| {
        let (kind, rest) = text.split_at(1);
        let (group, value) = pair(rest);
        match kind {
            "+" => vec![ElementOp::Add { group, value }],
            "-" => vec![ElementOp::Remove { group, value }],
            "=" => {
                let clear = ElementOp::Clear {
                    group: group.clone(),
                };
                vec![clear, ElementOp::Add { group, value }]
            }
            _ => vec![ElementOp::ClearAll],
        }
    });
    Write {
        key: bytes(key),
        ops: ops.collect(),
    }
}

/// A strong write of elements; see [`write`].
pub(super) fn change(key: &'static str, text: &'static str) -> ClientRequest {
    ClientRequest::Strong(Request {
        writes: vec![write(key, text)],
        ..Request::default()
    })
}

/// The same where the register shows something.
pub(super) fn change_if_exists(key: &'static str, text: &'static str) -> ClientRequest {
    ClientRequest::Strong(Request {
        conditions: vec![(bytes(key), Condition::Exists)],
        writes: vec![write(key, text)],
        ..Request::default()
    })
}

/// An eventual write of elements; see [`write`].
pub(super) fn merge(key: &'static str, text: &'static str, w: usize) -> ClientRequest {
    ClientRequest::Merge {
        writes: vec![write(key, text)],
        w,
    }
}

pub(super) fn turn(mode: Mode) -> ClientRequest {
    ClientRequest::Turn {
        mode,
        abandon: false,
    }
}

/// The put of the block's row.
pub(super) fn put_row() -> ClientRequest {
    let attempt = blocks::Attempt {
        id: 1,
        bucket: BucketId(1),
        begun: EntryId::ZERO,
    };
    let owner = blocks::Owner {
        collection: CollectionId(1),
        attempt,
        upload: None,
    };
    let row = blocks::NewRow {
        id: BLOCK,
        size: 1,
        sum: 0,
    };
    ClientRequest::Rows(blocks::Command::Put(blocks::Put {
        owner,
        chain: ChainId::SYSTEM,
        number: 1,
        blocks: vec![row],
    }))
}

/// The removal of the block's row.
pub(super) fn remove_row() -> ClientRequest {
    ClientRequest::Rows(blocks::Command::Remove(vec![BLOCK]))
}
