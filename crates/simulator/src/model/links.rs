//! Messages under way: queues between members, or one bag of all.

use fader_chain::{Envelope, Message, NodeId};

use super::step::Packet;
use super::table::{Pool, Table};
use super::world::MEMBERS_MAX;

/// The queues of a state, by number; a bag is the first of them.
pub(super) type Links = [u32; MEMBERS_MAX * MEMBERS_MAX];

/// The queue of `packet`.
pub(super) fn link_of(packet: &Packet) -> usize {
    let place = |node: NodeId| node.0 as usize - 1;
    place(packet.to) * MEMBERS_MAX + place(packet.envelope.from)
}

/// The queues to the member in this place.
pub(super) fn links_to(place: usize) -> impl Iterator<Item = usize> {
    place * MEMBERS_MAX..(place + 1) * MEMBERS_MAX
}

/// All queues that are met in a search, the empty one first.
pub(super) struct Queues {
    lists: Pool<Vec<u32>>,
    /// By a queue's number and a packet's.
    pushed: Table<u32>,
    /// By a queue's number: without its first packet.
    rests: Table<u32>,
}

impl Queues {
    pub(super) fn new() -> Self {
        let mut lists = Pool::new();
        lists.put(Vec::new());
        Queues {
            lists,
            pushed: Table::new(),
            rests: Table::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lists.len()
    }

    /// The packets of a queue, the oldest first.
    pub(super) fn list(&self, queue: u32) -> &[u32] {
        &self.lists[queue]
    }

    /// The queue without its oldest packet.
    pub(super) fn rest(&mut self, queue: u32) -> u32 {
        let key = u64::from(queue);
        if let Some(known) = self.rests.get(key) {
            return known;
        }
        let rest = self.lists[queue][1..].to_vec();
        let (rest, _) = self.lists.put(rest);
        self.rests.insert(key, rest);
        rest
    }

    /// The queue with `packet` behind. A message that its successor makes redundant is replaced.
    pub(super) fn push(&mut self, queue: u32, packet: u32, packets: &mut Pool<Packet>) -> u32 {
        let key = u64::from(queue) << 32 | u64::from(packet);
        if let Some(known) = self.pushed.get(key) {
            return known;
        }
        let mut list = self.lists[queue].to_vec();
        let mut pushed = packet;
        while let Some(last) = list.last()
            && let Some(merged) = merged(&packets[*last], &packets[pushed])
        {
            list.pop();
            pushed = packets.put(merged).0;
        }
        list.push(pushed);
        let (pushed, _) = self.lists.put(list);
        self.pushed.insert(key, pushed);
        pushed
    }

    /// The bag with `packet`, which it may hold already.
    pub(super) fn add(&mut self, bag: u32, packet: u32) -> u32 {
        let list = &self.lists[bag];
        let Err(place) = list.binary_search(&packet) else {
            return bag;
        };
        let mut list = list.clone();
        list.insert(place, packet);
        self.lists.put(list).0
    }

    /// The queue or bag without `packet`.
    pub(super) fn without(&mut self, queue: u32, packet: u32) -> u32 {
        let kept = self.lists[queue].iter().copied();
        let kept = kept.filter(|it| *it != packet).collect();
        self.put(kept)
    }

    /// The queue of these packets.
    pub(super) fn put(&mut self, packets: Vec<u32>) -> u32 {
        self.lists.put(packets).0
    }
}

/// One message that says what these two say one after the other.
fn merged(first: &Packet, second: &Packet) -> Option<Packet> {
    let (one, other) = (&first.envelope, &second.envelope);
    if (one.epoch, one.incarnation) != (other.epoch, other.incarnation) {
        return None;
    }
    let message = match (&one.message, &other.message) {
        (
            Message::Append {
                after,
                entries,
                commit,
            },
            Message::Append {
                after: then,
                entries: more,
                commit: newer,
            },
        ) => {
            let last = entries.last().map_or(*after, |entry| entry.id);
            if last != *then {
                return None;
            }
            Message::Append {
                after: *after,
                entries: entries.iter().chain(more).cloned().collect(),
                commit: *commit.max(newer),
            }
        }
        (
            Message::Append {
                after,
                entries,
                commit,
            },
            Message::Commit { id },
        ) => Message::Append {
            after: *after,
            entries: entries.clone(),
            commit: *commit.max(id),
        },
        (Message::Commit { id }, Message::Commit { id: newer }) => {
            Message::Commit { id: *id.max(newer) }
        }
        (Message::Confirm { id }, Message::Confirm { id: newer }) => {
            Message::Confirm { id: *id.max(newer) }
        }
        (Message::Held { names }, Message::Held { names: more }) => {
            let mut names = [&names[..], &more[..]].concat();
            names.sort_unstable();
            names.dedup();
            Message::Held { names }
        }
        _ => return None,
    };
    Some(Packet {
        to: second.to,
        envelope: Envelope {
            message,
            ..other.clone()
        },
    })
}
