//! What the log of both chains says of every message, in the time of decisions, and what it may
//! not say.
//!
//! The time of a decision is the latest that any entry of its queue was decided at (QU-5). It is
//! computed here from the clocks that the decisions were given, and never asked of the service.

use std::collections::{BTreeMap, BTreeSet};

use fader_chain::ChainId;
use fader_services::sqs::Message;

/// A message in a queue.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: u128,
    group: Option<String>,
    /// It can be received from then on.
    from_ms: u64,
    /// It is held until then.
    until_ms: u64,
    handle: String,
}

/// What is known of a message, wherever it is.
#[derive(Clone, Debug)]
struct Known {
    body: String,
    is_deleted: bool,
    /// It was purged while it was under way: it may be there, or not.
    is_unclear: bool,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    rows: BTreeMap<u64, Row>,
    time_ms: u64,
    /// First sends by deduplication id: when, and which message.
    firsts: BTreeMap<String, (u64, u128)>,
}

/// A step that is not settled.
#[derive(Clone, Debug)]
struct Carried {
    ids: Vec<u128>,
    at_ms: u64,
    /// Whether the other chain put its messages.
    is_there: bool,
}

/// A promise that was broken, and how.
pub(super) type Broken = (&'static str, String);

/// What one entry means for queues.
#[derive(Default)]
pub(super) struct Meant {
    /// Messages that enter: with their bodies, and for how long they cannot be received.
    pub(super) enters: BTreeMap<u128, (String, u64)>,
    /// Messages that leave: the numbers in their queue.
    pub(super) leaves: BTreeSet<(usize, u64)>,
    /// The queue that is purged.
    pub(super) purges: Option<usize>,
    /// Whether messages may go from one queue to another.
    pub(super) moves: bool,
    /// The step that is settled.
    pub(super) settles: Option<(ChainId, u64)>,
    /// Messages on their way from this chain when it is applied: their queues hide them.
    pub(super) carries: BTreeSet<u128>,
}

#[derive(Debug)]
pub(super) struct Ledger {
    queues: Vec<Queue>,
    known: BTreeMap<u128, Known>,
    bodies: BTreeMap<String, u128>,
    handles: BTreeMap<String, (usize, u64)>,
    carried: BTreeMap<(ChainId, u64), Carried>,
}

impl Ledger {
    pub(super) fn new(queues: usize) -> Self {
        Ledger {
            queues: vec![Queue::default(); queues],
            known: BTreeMap::new(),
            bodies: BTreeMap::new(),
            handles: BTreeMap::new(),
            carried: BTreeMap::new(),
        }
    }

    /// An entry that was decided at this time touched a queue: the time of its decision.
    pub(super) fn pass(&mut self, queue: usize, now_ms: u64) -> u64 {
        let time_ms = &mut self.queues[queue].time_ms;
        *time_ms = now_ms.max(*time_ms);
        *time_ms
    }

    pub(super) fn is_empty(&self, queue: usize) -> bool {
        self.queues[queue].rows.is_empty()
    }

    pub(super) fn knows(&self, id: u128) -> bool {
        self.known.contains_key(&id)
    }

    pub(super) fn body(&self, id: u128) -> Option<&str> {
        self.known.get(&id).map(|it| it.body.as_str())
    }

    pub(super) fn is_deleted(&self, id: u128) -> bool {
        self.known.get(&id).is_some_and(|it| it.is_deleted)
    }

    /// When the step was begun, in the time of its queue.
    pub(super) fn begun_ms(&self, step: (ChainId, u64)) -> u64 {
        self.carried.get(&step).map_or(0, |it| it.at_ms)
    }

    /// Whether a handle is the newest of a message that is in its queue and not on its way.
    pub(super) fn is_newest(&self, handle: &str) -> Option<(usize, u64)> {
        let (queue, number) = *self.handles.get(handle)?;
        let row = self.queues[queue].rows.get(&number)?;
        let here = ChainId(super::QUEUES[queue].chain as u32);
        let mut carried = self.carried.iter();
        let is_moving = carried.any(|((of, _), it)| *of == here && it.ids.contains(&row.id));
        (row.handle == handle && !is_moving).then_some((queue, number))
    }

    /// A send with a deduplication id: the message that it is to be answered with, if any.
    pub(super) fn first(&mut self, queue: usize, id: &str, window_ms: u64) -> Option<u128> {
        let queue = &self.queues[queue];
        let (at_ms, first) = queue.firsts.get(id)?;
        (queue.time_ms < at_ms + window_ms).then_some(*first)
    }

    pub(super) fn sent_first(&mut self, queue: usize, id: &str, message: u128) {
        let queue = &mut self.queues[queue];
        let at_ms = queue.time_ms;
        queue.firsts.insert(id.to_owned(), (at_ms, message));
    }

    /// A visibility was changed.
    pub(super) fn hide(&mut self, queue: usize, number: u64, visibility_ms: u64) {
        let time_ms = self.queues[queue].time_ms;
        if let Some(row) = self.queues[queue].rows.get_mut(&number) {
            row.until_ms = time_ms + visibility_ms;
        }
    }

    /// Messages were received: of each number, id and handle.
    pub(super) fn receive(
        &mut self,
        at: usize,
        messages: &[(u64, Message)],
        visibility_ms: u64,
    ) -> Result<(), Broken> {
        let numbers: BTreeSet<u64> = messages.iter().map(|(number, _)| *number).collect();
        let queue = &mut self.queues[at];
        let time_ms = queue.time_ms;
        for (number, message) in messages {
            let Some(row) = queue.rows.get(number) else {
                let text = format!("{} is received and not there", message.body);
                return Err(("removed", text));
            };
            if time_ms < row.until_ms {
                let text = format!(
                    "{} is received at {time_ms}, held until {}",
                    message.body, row.until_ms
                );
                return Err(("held", text));
            }
            if time_ms < row.from_ms {
                let text = format!("{} comes before its delay ends", message.body);
                return Err(("delayed", text));
            }
            let group = row.group.clone();
            let others = queue.rows.iter();
            let mut others = others.filter(|(other, it)| {
                group.is_some() && it.group == group && !numbers.contains(other)
            });
            let blocks = |(other, it): &(&u64, &Row)| *other < number || time_ms < it.until_ms;
            if let Some((_, other)) = others.find(blocks) {
                let text = format!("{} comes before {:x} of its group", message.body, other.id);
                return Err(("order", text));
            }
        }
        for (number, message) in messages {
            let row = queue.rows.get_mut(number).expect("it was there just now");
            row.until_ms = time_ms + visibility_ms;
            row.handle.clone_from(&message.handle);
            self.handles.insert(message.handle.clone(), (at, *number));
        }
        Ok(())
    }

    /// The queues that an entry touched show these messages now.
    pub(super) fn shown(
        &mut self,
        shown: &[(usize, Vec<(u64, Message)>)],
        meant: &Meant,
    ) -> Result<(), Broken> {
        let mut gone: Vec<(usize, u64, Row)> = Vec::new();
        let mut came: BTreeSet<u128> = BTreeSet::new();
        for (at, messages) in shown {
            let numbers: BTreeSet<u64> = messages.iter().map(|(number, _)| *number).collect();
            let queue = &mut self.queues[*at];
            let time_ms = queue.time_ms;
            for (number, message) in messages {
                if queue.rows.contains_key(number) {
                    continue;
                }
                came.insert(message.id);
                let delay_ms = match meant.enters.get(&message.id) {
                    Some((body, delay_ms)) => {
                        self.known.entry(message.id).or_insert_with(|| Known {
                            body: body.clone(),
                            is_deleted: false,
                            is_unclear: false,
                        });
                        *delay_ms
                    }
                    None if meant.moves && self.known.contains_key(&message.id) => 0,
                    None => return Err(("once", format!("{} is there again", message.body))),
                };
                let group = message.system.iter();
                let mut group = group.filter(|(name, _)| name == "MessageGroupId");
                let row = Row {
                    id: message.id,
                    group: group.next().map(|(_, value)| value.clone()),
                    from_ms: time_ms + delay_ms,
                    until_ms: 0,
                    handle: String::new(),
                };
                queue.rows.insert(*number, row);
            }
            let is_purged = meant.purges == Some(*at);
            let left = queue.rows.extract_if(.., |number, row| {
                let is_hidden = meant.carries.contains(&row.id) && !is_purged;
                !numbers.contains(number) && !is_hidden
            });
            gone.extend(left.map(|(number, row)| (*at, number, row)));
        }
        for (at, number, row) in gone {
            self.left(at, number, &row, &came, meant)?;
        }
        if let Some(at) = meant.purges.filter(|at| !self.is_empty(*at)) {
            return Err(("purged", format!("queue {at} is purged and not empty")));
        }
        let kept = meant.leaves.iter();
        let mut kept = kept.filter(|(at, number)| self.queues[*at].rows.contains_key(number));
        match kept.next() {
            Some((at, number)) => {
                let text = format!("message {number} of queue {at} was deleted and stays");
                Err(("removed", text))
            }
            None => Ok(()),
        }
    }

    /// A message is in its queue no more.
    fn left(
        &mut self,
        at: usize,
        number: u64,
        row: &Row,
        came: &BTreeSet<u128>,
        meant: &Meant,
    ) -> Result<(), Broken> {
        let is_carried = self.carried.values().any(|it| it.ids.contains(&row.id));
        let known = self.known.get_mut(&row.id).expect("it was entered");
        let is_moved = meant.moves && came.contains(&row.id);
        let settled = meant.settles.and_then(|step| self.carried.get(&step));
        if meant.purges == Some(at) {
            match is_carried {
                true => known.is_unclear = true,
                false => known.is_deleted = true,
            }
        } else if meant.leaves.contains(&(at, number)) {
            known.is_deleted = true;
        } else if !is_moved && !settled.is_some_and(|it| it.ids.contains(&row.id)) {
            return Err(("lost", format!("{} is gone from queue {at}", known.body)));
        }
        Ok(())
    }

    /// The steps of a chain that are not settled; `at_ms` is when new ones were begun.
    pub(super) fn carry(&mut self, chain: ChainId, steps: &[(u64, Vec<u128>)], at_ms: u64) {
        let numbers: BTreeSet<u64> = steps.iter().map(|(number, _)| *number).collect();
        self.carried
            .retain(|(of, number), _| *of != chain || numbers.contains(number));
        for (number, ids) in steps {
            self.carried
                .entry((chain, *number))
                .or_insert_with(|| Carried {
                    ids: ids.clone(),
                    at_ms,
                    is_there: false,
                });
        }
    }

    /// A step was taken: its messages are in the other queue.
    pub(super) fn took(&mut self, step: (ChainId, u64)) {
        if let Some(carried) = self.carried.get_mut(&step) {
            carried.is_there = true;
        }
    }

    /// Each message is in one queue, or on its way to one.
    pub(super) fn check_whole(&self) -> Result<(), Broken> {
        let mut places: BTreeMap<u128, i64> = BTreeMap::new();
        for row in self.queues.iter().flat_map(|queue| queue.rows.values()) {
            *places.entry(row.id).or_default() += 1;
        }
        for carried in self.carried.values().filter(|it| it.is_there) {
            for id in &carried.ids {
                *places.entry(*id).or_default() -= 1;
            }
        }
        for (id, known) in self.known.iter().filter(|(_, it)| !it.is_unclear) {
            let count = places.get(id).copied().unwrap_or_default();
            if count != i64::from(!known.is_deleted) {
                let text = format!("{} is in {count} queues", known.body);
                return Err(("whole", text));
            }
        }
        Ok(())
    }

    /// A body is sent once, but for what the window of deduplication lets through.
    pub(super) fn enter_body(&mut self, body: &str, id: u128, is_fifo: bool) -> Result<(), Broken> {
        match self.bodies.insert(body.to_owned(), id) {
            Some(first) if first != id && !is_fifo => {
                Err(("once", format!("{body} is there twice")))
            }
            _ => Ok(()),
        }
    }
}
