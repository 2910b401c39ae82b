//! What a member waits for, as its process tells another: a code, and its arguments.
//!
//! ```text
//! wait := code arguments              both as byte strings
//! ```
//!
//! Deliberately absent: the sentences, and who has which name; those are the reader's.

use std::time::Duration;

use bytes::Bytes;
use fader_chain::{DecodeError, DiskId, NodeId, Reader, TransferProgress, WaitReason, put_bytes};

use super::wire::Wire;
use crate::ErrorCode;

/// One thing that a chain waits for at one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberWait {
    /// What the member itself knows.
    Of(WaitReason),
    /// The folder of this node's member is damaged.
    Damaged(String),
    /// The member failed, and begins again.
    Failed {
        /// The node.
        member: String,
        /// How often in a row.
        times: u32,
        /// Which failure it was the last time.
        code: ErrorCode,
        /// What the store or the operating system said of it.
        detail: Option<String>,
    },
    /// The member has done nothing for so long.
    Standstill {
        /// The node.
        member: String,
        /// For how long, in milliseconds.
        age_ms: u64,
    },
    /// A collection is on its way to `strong`.
    Draining {
        /// What it is called.
        domain: String,
        /// Members that are absent, and may hold eventual writes of it.
        absent: Vec<NodeId>,
        /// Members that were asked for theirs, and have not answered.
        silent: Vec<NodeId>,
    },
    /// The sentence of a process in a cluster below version 7.
    Words(String),
    /// One of a newer process, by its code.
    Newer(String),
}

impl MemberWait {
    /// That a member has done nothing for so long.
    pub fn standstill(member: String, age: Duration) -> Self {
        MemberWait::Standstill {
            member,
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Wire for NodeId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(NodeId)
    }
}

impl Wire for DiskId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(DiskId)
    }
}

impl Wire for TransferProgress {
    fn put(&self, out: &mut Vec<u8>) {
        self.by.put(out);
        self.bytes.put(out);
        self.bytes_per_second.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(TransferProgress {
            by: Wire::read(reader)?,
            bytes: Wire::read(reader)?,
            bytes_per_second: Wire::read(reader)?,
        })
    }
}

impl Wire for MemberWait {
    fn put(&self, out: &mut Vec<u8>) {
        let mut arguments = Vec::new();
        let mut put = |parts: &[&dyn Wire]| parts.iter().for_each(|it| it.put(&mut arguments));
        let code = match self {
            MemberWait::Of(reason) => put_reason(reason, put),
            MemberWait::Damaged(member) => {
                put(&[member]);
                "damaged"
            }
            MemberWait::Failed {
                member,
                times,
                code,
                detail,
            } => {
                put(&[member, times, code, detail]);
                "failed"
            }
            MemberWait::Standstill { member, age_ms } => {
                put(&[member, age_ms]);
                "standstill"
            }
            MemberWait::Draining {
                domain,
                absent,
                silent,
            } => {
                put(&[domain, absent, silent]);
                "draining"
            }
            MemberWait::Words(words) => {
                put(&[words]);
                "words"
            }
            MemberWait::Newer(code) => code,
        };
        put_bytes(out, code.as_bytes());
        put_bytes(out, &arguments);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let code = String::read(reader)?;
        let mut arguments = Reader::new(Bytes::read(reader)?);
        let from = &mut arguments;
        let wait = match code.as_str() {
            "damaged" => MemberWait::Damaged(Wire::read(from)?),
            "failed" => MemberWait::Failed {
                member: Wire::read(from)?,
                times: Wire::read(from)?,
                code: Wire::read(from)?,
                detail: Wire::read(from)?,
            },
            "standstill" => MemberWait::Standstill {
                member: Wire::read(from)?,
                age_ms: Wire::read(from)?,
            },
            "draining" => MemberWait::Draining {
                domain: Wire::read(from)?,
                absent: Wire::read(from)?,
                silent: Wire::read(from)?,
            },
            "words" => MemberWait::Words(Wire::read(from)?),
            code => match read_reason(code, from)? {
                Some(reason) => MemberWait::Of(reason),
                None => return Ok(MemberWait::Newer(code.to_owned())),
            },
        };
        arguments.end()?;
        Ok(wait)
    }
}

/// Writes the arguments of a reason, and says its code.
fn put_reason(reason: &WaitReason, mut put: impl FnMut(&[&dyn Wire])) -> &'static str {
    use WaitReason as Of;
    match reason {
        Of::Restart(disks) | Of::Others(disks) => put(&[disks]),
        Of::Publication(epoch) => put(&[epoch]),
        Of::Adoption(node, epoch) => put(&[node, epoch]),
        Of::Turn(node, joining) => put(&[node, joining]),
        Of::Members(has, wanted) => put(&[has, wanted]),
        Of::Handshake(node, by) => put(&[node, by]),
        Of::Transfer(node, progress) => put(&[node, progress]),
        Of::Confirmation(node, entries, millis) => put(&[node, entries, millis]),
        Of::Operator(node, entries) => put(&[node, entries]),
        Of::Session(node)
        | Of::Arrival(node)
        | Of::Hearing(node)
        | Of::Handoff(node)
        | Of::Slow(node)
        | Of::Incarnation(node)
        | Of::Disk(node)
        | Of::Membership(node)
        | Of::Lease(node)
        | Of::Failure(node) => put(&[node]),
    }
    match reason {
        Of::Restart(_) => "restart",
        Of::Others(_) => "others",
        Of::Session(_) => "session",
        Of::Publication(_) => "publication",
        Of::Adoption(..) => "adoption",
        Of::Arrival(_) => "arrival",
        Of::Hearing(_) => "hearing",
        Of::Handoff(_) => "handoff",
        Of::Slow(_) => "slow",
        Of::Turn(..) => "turn",
        Of::Incarnation(_) => "incarnation",
        Of::Members(..) => "members",
        Of::Disk(_) => "disk",
        Of::Membership(_) => "membership",
        Of::Handshake(..) => "handshake",
        Of::Lease(_) => "lease",
        Of::Transfer(..) => "transfer",
        Of::Confirmation(..) => "confirmation",
        Of::Operator(..) => "operator",
        Of::Failure(_) => "failure",
    }
}

/// Reads what `put_reason` wrote; nothing of a code that is not known.
fn read_reason(code: &str, from: &mut Reader) -> Result<Option<WaitReason>, DecodeError> {
    use WaitReason as Of;
    Ok(Some(match code {
        "restart" => Of::Restart(Wire::read(from)?),
        "others" => Of::Others(Wire::read(from)?),
        "session" => Of::Session(Wire::read(from)?),
        "publication" => Of::Publication(Wire::read(from)?),
        "adoption" => Of::Adoption(Wire::read(from)?, Wire::read(from)?),
        "arrival" => Of::Arrival(Wire::read(from)?),
        "hearing" => Of::Hearing(Wire::read(from)?),
        "handoff" => Of::Handoff(Wire::read(from)?),
        "slow" => Of::Slow(Wire::read(from)?),
        "turn" => Of::Turn(Wire::read(from)?, Wire::read(from)?),
        "incarnation" => Of::Incarnation(Wire::read(from)?),
        "members" => Of::Members(Wire::read(from)?, Wire::read(from)?),
        "disk" => Of::Disk(Wire::read(from)?),
        "membership" => Of::Membership(Wire::read(from)?),
        "handshake" => Of::Handshake(Wire::read(from)?, Wire::read(from)?),
        "lease" => Of::Lease(Wire::read(from)?),
        "transfer" => Of::Transfer(Wire::read(from)?, Wire::read(from)?),
        "confirmation" => Of::Confirmation(Wire::read(from)?, Wire::read(from)?, Wire::read(from)?),
        "operator" => Of::Operator(Wire::read(from)?, Wire::read(from)?),
        "failure" => Of::Failure(Wire::read(from)?),
        _ => return Ok(None),
    }))
}
