//! A register: groups of members, each a last-writer-wins element.
//!
//! For SimpleDB a register is an item, a group an attribute, a member one of its values. Every
//! element carries the stamp of the write that put or removed it. So two states of one register
//! merge to the same result in any order.
//!
//! ```text
//! register := format:u8=2  version:id  cleared:stamp  count:varint  group*
//! group    := name:bytes  born:stamp  order:varint  cleared:stamp  count:varint  member*
//! member   := value:bytes  state:u8 (0 removed, 1 live)  written:stamp
//! ```
//!
//! A *mark* is what remains of a removal: a member that is not live, the clear of a group, the
//! clear of the register. A group's `cleared` holds the register's as well, so one comparison says
//! what a member must beat.
//!
//! Format 1 has no version. Such a register is read with the greatest base among its stamps. That
//! may be less than the entry that changed it last (D6), and suffices. Registers of that format
//! were only ever in strong collections, whose versions no client could read yet. Each later change
//! brings a version above all. Before a collection takes eventual writers, `gc_floor` is raised
//! above everything numbered until then (D14), and no stamp is based below the safe point (D5).
//!
//! Invariants:
//! - REGISTER-1 groups are in the order (born, order), names distinct: the order in which SimpleDB
//!   shows attributes. Members are in byte order, distinct.
//! - REGISTER-2 a group's `cleared` is not below the register's; no member's stamp is below its
//!   group's.
//! - REGISTER-3 as long as nothing is collected, a state is a function of the set of writes merged
//!   into it. Merging whole writes, and joining registers, is commutative, associative and
//!   idempotent.
//! - REGISTER-4 collecting marks changes no visible pair.
//!
//! The order of groups stands outside: it is display, the least stamp that named the group since it
//! was last collected.
//!
//! At equal stamps an Add wins: within one write, Replace clears what was there before, never what
//! the same write puts.

use bytes::Bytes;

use crate::change::ElementOp;
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::stamp::{EntryId, Stamp};

const FORMAT: u8 = 2;
const FORMAT_WITHOUT_VERSION: u8 = 1;
const LIST_RESERVED_MAX: usize = 256;

/// One value of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    /// The value itself.
    pub value: Bytes,
    /// Whether it is there, or a tombstone that says since when it is not.
    pub live: bool,
    /// The write that put or removed it.
    pub written: Stamp,
}

/// One group: an attribute of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementSet {
    /// The attribute's name.
    pub name: Bytes,
    /// The oldest write known to name the group; with `order`, its place in the register.
    pub born: Stamp,
    /// Which operation of that write named it first.
    pub order: u32,
    /// The newest write that cleared the group.
    pub cleared: Stamp,
    /// In byte order of their values.
    pub members: Vec<Element>,
}

impl ElementSet {
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
                Element {
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

    fn join(&mut self, other: &ElementSet) {
        (self.born, self.order) = (self.born, self.order).min((other.born, other.order));
        self.clear(other.cleared);
        for member in &other.members {
            self.set(&member.value, member.live, member.written);
        }
    }

    fn member(&self, value: &[u8]) -> Option<&Element> {
        let at = self
            .members
            .binary_search_by(|member| member.value.as_ref().cmp(value));
        at.ok().map(|at| &self.members[at])
    }

    /// Drops the marks that `is_gone` names; the clear of the register, `above`, still holds here.
    fn collect(&mut self, is_gone: impl Fn(Stamp) -> bool, above: Stamp) {
        self.members
            .retain(|member| member.live || !is_gone(member.written));
        if is_gone(self.cleared) {
            self.cleared = above;
        }
    }
}

/// The state of one register at one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Register {
    /// The newest entry that changed it (D6): [`apply`](crate::apply) sets it.
    pub version: EntryId,
    /// The newest write that cleared all of it.
    pub cleared: Stamp,
    /// In the order (born, order).
    pub groups: Vec<ElementSet>,
}

impl Register {
    /// The group called `name`, if anything is known of it.
    pub fn group(&self, name: &[u8]) -> Option<&ElementSet> {
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

    /// Merges all that is known at another member, or was elsewhere.
    pub fn join(&mut self, other: &Register) {
        self.version = self.version.max(other.version);
        self.cleared = self.cleared.max(other.cleared);
        for theirs in &other.groups {
            match self.groups.iter_mut().find(|ours| ours.name == theirs.name) {
                Some(ours) => ours.join(theirs),
                None => self.groups.push(theirs.clone()),
            }
        }
        let cleared = self.cleared;
        self.groups
            .iter_mut()
            .for_each(|group| group.clear(cleared));
        self.groups.sort_by(|one, other| {
            let place = |group: &ElementSet| (group.born, group.order);
            place(one)
                .cmp(&place(other))
                .then_with(|| one.name.cmp(&other.name))
        });
    }

    /// The operations of the write `stamp` that would change an element here (PR-3, PR-6). For
    /// every state that extends this one, merging them is merging all (semantics.md, section 6).
    /// A clear or a removal that leaves a newer mark counts, even where no visible pair changes.
    pub fn survivors(&self, ops: &[ElementOp], stamp: Stamp) -> Vec<ElementOp> {
        let survives = |op: &&ElementOp| self.is_changed_by(op, stamp);
        ops.iter().filter(survives).cloned().collect()
    }

    /// Whether merging the write `stamp` would change none of its elements (D3).
    pub fn covers(&self, ops: &[ElementOp], stamp: Stamp) -> bool {
        !ops.iter().any(|op| self.is_changed_by(op, stamp))
    }

    /// Whether the write `stamp` would bring a value that is not live here. It may have been
    /// removed by a tombstone that is collected (GC-5, D8).
    pub fn revives(&self, ops: &[ElementOp], stamp: Stamp) -> bool {
        ops.iter().any(|op| match op {
            ElementOp::Add { group, value } => {
                let member = self.group(group).and_then(|group| group.member(value));
                !member.is_some_and(|member| member.live) && self.is_changed_by(op, stamp)
            }
            ElementOp::ClearAll | ElementOp::Clear { .. } | ElementOp::Remove { .. } => false,
        })
    }

    /// The greatest stamp of its elements.
    pub fn newest(&self) -> Stamp {
        let groups = self.groups.iter().flat_map(|group| {
            let written = group.members.iter().map(|member| member.written);
            written.chain([group.cleared])
        });
        groups.fold(self.cleared, Stamp::max)
    }

    /// How many marks it holds; a clear of the register counts again in each group.
    pub fn mark_count(&self) -> usize {
        self.marks().count()
    }

    /// Whether a mark of the write `stamp` is left.
    pub(crate) fn is_marked_by(&self, stamp: Stamp) -> bool {
        self.marks().any(|mark| mark == stamp)
    }

    pub(crate) fn marks(&self) -> impl Iterator<Item = Stamp> {
        let groups = self.groups.iter().flat_map(|group| {
            let dead = group.members.iter().filter(|member| !member.live);
            dead.map(|member| member.written).chain([group.cleared])
        });
        groups
            .chain([self.cleared])
            .filter(|mark| *mark != Stamp::ZERO)
    }

    fn is_changed_by(&self, op: &ElementOp, stamp: Stamp) -> bool {
        let (group, value, live) = match op {
            ElementOp::ClearAll => return self.cleared < stamp,
            ElementOp::Clear { group } => return self.cleared_of(self.group(group)) < stamp,
            ElementOp::Add { group, value } => (group, value, true),
            ElementOp::Remove { group, value } => (group, value, false),
        };
        let group = self.group(group);
        let is_newer = |member: &Element| (member.written, member.live) < (stamp, live);
        self.cleared_of(group) <= stamp
            && group
                .and_then(|group| group.member(value))
                .is_none_or(is_newer)
    }

    fn cleared_of(&self, group: Option<&ElementSet>) -> Stamp {
        group.map_or(self.cleared, |group| group.cleared)
    }

    /// Drops the marks at or below `stamp`: nothing older will be merged any more.
    pub(crate) fn collect_through(&mut self, stamp: Stamp) {
        self.collect(|mark| mark <= stamp);
    }

    /// Drops the marks of strong writes whose entry is at or below `safe point` (GC-3). Merges do
    /// so in passing; besides, only comparisons of registers do (I21). A stored one might be swept
    /// for a safe point above that of an entry still to be applied. Its groups' order would then be
    /// this member's own.
    pub fn collect_strong(&mut self, safe_point: EntryId) {
        self.collect(|mark| mark.is_strong() && mark.base <= safe_point);
    }

    /// Drops the marks of one write (GC-4).
    pub(crate) fn collect_of(&mut self, stamp: Stamp) {
        self.collect(|mark| mark == stamp);
    }

    fn collect(&mut self, is_gone: impl Fn(Stamp) -> bool) {
        if is_gone(self.cleared) {
            self.cleared = Stamp::ZERO;
        }
        let above = self.cleared;
        self.groups
            .iter_mut()
            .for_each(|group| group.collect(&is_gone, above));
        self.groups
            .retain(|group| !group.members.is_empty() || group.cleared != Stamp::ZERO);
    }

    /// The group called `name`, at its place now that the write `stamp` has named it too.
    fn grouped(&mut self, name: &Bytes, stamp: Stamp, order: usize) -> &mut ElementSet {
        let order = u32::try_from(order).unwrap_or(u32::MAX);
        let at = match self.groups.iter().position(|group| group.name == name) {
            Some(at) if (self.groups[at].born, self.groups[at].order) <= (stamp, order) => at,
            Some(at) => {
                let mut group = self.groups.remove(at);
                (group.born, group.order) = (stamp, order);
                self.place(group)
            }
            None => self.place(ElementSet {
                name: name.clone(),
                born: stamp,
                order,
                cleared: self.cleared,
                members: Vec::new(),
            }),
        };
        &mut self.groups[at]
    }

    fn place(&mut self, group: ElementSet) -> usize {
        let at = self
            .groups
            .partition_point(|other| (other.born, other.order) <= (group.born, group.order));
        self.groups.insert(at, group);
        at
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.encoded_len_about());
        out.push(FORMAT);
        self.version.encode(&mut out);
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
        Bytes::from(out.into_boxed_slice())
    }

    /// As many octets as `encode` writes, or some more; should its numbers be great, some fewer,
    /// which costs another allocation.
    fn encoded_len_about(&self) -> usize {
        const HEAD: usize = 48;
        let of_group = |group: &ElementSet| {
            let members = group.members.iter().map(|it| HEAD + it.value.len());
            HEAD + group.name.len() + members.sum::<usize>()
        };
        HEAD + self.groups.iter().map(of_group).sum::<usize>()
    }

    /// Reads what `encode` wrote; names and values share the memory of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no register of a format we know.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = match reader.byte()? {
            FORMAT => Some(EntryId::decode(&mut reader)?),
            FORMAT_WITHOUT_VERSION => None,
            _ => return Err(DecodeError::new("a register's format")),
        };
        let cleared = Stamp::decode(&mut reader)?;
        let groups = decode_list(&mut reader, decode_group)?;
        reader.end()?;
        let mut register = Register {
            version: version.unwrap_or_default(),
            cleared,
            groups,
        };
        if version.is_none() {
            register.version = register.newest().base;
        }
        Ok(register)
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

fn decode_group(reader: &mut Reader) -> Result<ElementSet, DecodeError> {
    let name = reader.bytes()?;
    let born = Stamp::decode(reader)?;
    let order = reader.varint_u32()?;
    let cleared = Stamp::decode(reader)?;
    let members = decode_list(reader, decode_member)?;
    Ok(ElementSet {
        name,
        born,
        order,
        cleared,
        members,
    })
}

fn decode_member(reader: &mut Reader) -> Result<Element, DecodeError> {
    let value = reader.bytes()?;
    let live = match reader.byte()? {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::new("a member's state")),
    };
    Ok(Element {
        value,
        live,
        written: Stamp::decode(reader)?,
    })
}

#[cfg(test)]
mod tests;
