//! A register: groups of members, each a last-writer-wins element.
//!
//! For SimpleDB a register is an item, a group an attribute, a member one of its values. Every
//! element carries the stamp of the write that put or removed it, so two states of one register
//! merge to the same result in any order.
//!
//! ```text
//! register := version:u8=1  cleared:stamp  count:varint  group*
//! group    := name:bytes  born:stamp  order:varint  cleared:stamp  count:varint  member*
//! member   := value:bytes  state:u8 (0 removed, 1 live)  written:stamp
//! ```
//!
//! Invariants:
//! - R1 groups are in the order (born, order), names distinct: the order in which SimpleDB shows
//!   attributes. Members are in byte order, distinct.
//! - R2 a live member's stamp is not below the `cleared` stamps above it.
//! - R3 as long as nothing is collected, a state is a function of the set of writes merged into it:
//!   merging whole writes is commutative, associative and idempotent.
//!
//! At equal stamps an Add wins: within one write, Replace clears what was there before, never what
//! the same write puts.

use bytes::Bytes;

use crate::change::ElementOp;
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::stamp::Stamp;

const VERSION: u8 = 1;
const LIST_RESERVED_MAX: usize = 256;

/// One value of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The value itself.
    pub value: Bytes,
    /// Whether it is there, or a tombstone that says since when it is not.
    pub live: bool,
    /// The write that put or removed it.
    pub written: Stamp,
}

/// One group: an attribute of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The attribute's name.
    pub name: Bytes,
    /// The oldest write known to name the group; with `order`, its place in the register.
    pub born: Stamp,
    /// Which operation of that write named it first.
    pub order: u32,
    /// The newest write that cleared the group.
    pub cleared: Stamp,
    /// In byte order of their values.
    pub members: Vec<Member>,
}

impl Group {
    /// The values that are there, in byte order.
    pub fn values(&self) -> impl Iterator<Item = &Bytes> {
        self.members
            .iter()
            .filter(|member| member.live)
            .map(|member| &member.value)
    }

    fn set(&mut self, value: &Bytes, live: bool, written: Stamp) {
        if written < self.cleared {
            return;
        }
        match self
            .members
            .binary_search_by(|member| member.value.cmp(value))
        {
            Ok(at) => {
                let member = &mut self.members[at];
                let wins = (written, live) > (member.written, member.live);
                if wins {
                    member.live = live;
                    member.written = written;
                }
            }
            Err(at) => self.members.insert(
                at,
                Member {
                    value: value.clone(),
                    live,
                    written,
                },
            ),
        }
    }

    fn clear(&mut self, stamp: Stamp) {
        self.cleared = self.cleared.max(stamp);
        let cleared = self.cleared;
        self.members.retain(|member| cleared <= member.written);
    }

    fn collect(&mut self, floor: Stamp) {
        self.members
            .retain(|member| member.live || floor < member.written);
        if self.cleared <= floor {
            self.cleared = Stamp::ZERO;
        }
    }
}

/// The state of one register at one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    /// The newest write that cleared all of it.
    pub cleared: Stamp,
    /// In the order (born, order).
    pub groups: Vec<Group>,
}

impl Register {
    /// The group called `name`, if anything is known of it.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The members that are there with their groups' names, in the order in which they are shown.
    pub fn pairs(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.groups
            .iter()
            .flat_map(|group| group.values().map(|value| (&group.name, value)))
    }

    /// Whether no live member is left: SimpleDB then has no such item.
    pub fn is_empty(&self) -> bool {
        self.pairs().next().is_none()
    }

    /// Whether nothing at all is left, not even a tombstone.
    pub fn is_vacant(&self) -> bool {
        self.groups.is_empty() && self.cleared == Stamp::ZERO
    }

    /// Merges the operations of the write with this stamp.
    pub fn merge(&mut self, ops: &[ElementOp], stamp: Stamp) {
        for (order, op) in ops.iter().enumerate() {
            match op {
                ElementOp::ClearAll => {
                    self.cleared = self.cleared.max(stamp);
                    self.groups.iter_mut().for_each(|group| group.clear(stamp));
                }
                ElementOp::Clear { group } => self.grouped(group, stamp, order).clear(stamp),
                ElementOp::Add { group, value } => {
                    self.grouped(group, stamp, order).set(value, true, stamp);
                }
                ElementOp::Remove { group, value } => {
                    self.grouped(group, stamp, order).set(value, false, stamp);
                }
            }
        }
    }

    /// Drops what only older writes than `floor` would need.
    pub fn collect(&mut self, floor: Stamp) {
        if self.cleared <= floor {
            self.cleared = Stamp::ZERO;
        }
        self.groups
            .iter_mut()
            .for_each(|group| group.collect(floor));
        self.groups
            .retain(|group| !group.members.is_empty() || group.cleared != Stamp::ZERO);
    }

    /// The group called `name`, at its place now that the write `stamp` has named it too.
    fn grouped(&mut self, name: &Bytes, stamp: Stamp, order: usize) -> &mut Group {
        let order = u32::try_from(order).unwrap_or(u32::MAX);
        let at = match self.groups.iter().position(|group| group.name == name) {
            Some(at) if (self.groups[at].born, self.groups[at].order) <= (stamp, order) => at,
            Some(at) => {
                let mut group = self.groups.remove(at);
                (group.born, group.order) = (stamp, order);
                self.place(group)
            }
            None => self.place(Group {
                name: name.clone(),
                born: stamp,
                order,
                cleared: self.cleared,
                members: Vec::new(),
            }),
        };
        &mut self.groups[at]
    }

    fn place(&mut self, group: Group) -> usize {
        let at = self
            .groups
            .partition_point(|other| (other.born, other.order) <= (group.born, group.order));
        self.groups.insert(at, group);
        at
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(128);
        out.push(VERSION);
        self.cleared.encode(&mut out);
        put_varint(&mut out, self.groups.len() as u64);
        for group in &self.groups {
            put_bytes(&mut out, &group.name);
            group.born.encode(&mut out);
            put_varint(&mut out, u64::from(group.order));
            group.cleared.encode(&mut out);
            put_varint(&mut out, group.members.len() as u64);
            for member in &group.members {
                put_bytes(&mut out, &member.value);
                out.push(u8::from(member.live));
                member.written.encode(&mut out);
            }
        }
        Bytes::from(out)
    }

    /// Reads what `encode` wrote; names and values share the memory of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no register of a version we know.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return Err(DecodeError::new("a register's version"));
        }
        let cleared = Stamp::decode(&mut reader)?;
        let groups = decode_list(&mut reader, decode_group)?;
        reader.end()?;
        Ok(Register { cleared, groups })
    }
}

/// Memory is reserved for what an item usually has at most; a damaged count reserves no more.
fn decode_list<T>(
    reader: &mut Reader,
    decode: fn(&mut Reader) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = reader.count()?;
    let mut list = Vec::with_capacity(count.min(LIST_RESERVED_MAX));
    for _ in 0..count {
        list.push(decode(reader)?);
    }
    Ok(list)
}

fn decode_group(reader: &mut Reader) -> Result<Group, DecodeError> {
    let name = reader.bytes()?;
    let born = Stamp::decode(reader)?;
    let order = reader.varint_u32()?;
    let cleared = Stamp::decode(reader)?;
    let members = decode_list(reader, decode_member)?;
    Ok(Group {
        name,
        born,
        order,
        cleared,
        members,
    })
}

fn decode_member(reader: &mut Reader) -> Result<Member, DecodeError> {
    let value = reader.bytes()?;
    let live = match reader.byte()? {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::new("a member's state")),
    };
    Ok(Member {
        value,
        live,
        written: Stamp::decode(reader)?,
    })
}

#[cfg(test)]
mod tests;
