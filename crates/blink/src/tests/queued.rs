//! Every interleaving of two checkpointers of one page (model A of the checked protocols). Also of
//! two clients that finish the Atomic transactions of a third (model C1).
//!
//! Slots and their merges are the crate's. `Design` has the decisions of the database.

use super::checker::{Model, Outcome, is_full, search};
use super::{inline, stamp};
use crate::{Op, Record, Slot, Stamp};

/// The decisions that are not the slots'. `true` is the design.
#[derive(Clone, Copy, Debug)]
struct Design {
    if_match: bool,
    remove_after_put: bool,
    keep_on_412: bool,
    timeout_is_unknown: bool,
    only_the_batch: bool,
    /// A transaction leaves the ATOMIC queue after so many of its records were sent: all of them.
    sends_before_removal: u32,
}

const DESIGN: Design = Design {
    if_match: true,
    remove_after_put: true,
    keep_on_412: true,
    timeout_is_unknown: true,
    only_the_batch: true,
    sends_before_removal: u32::MAX,
};

type Slots = [Slot; 2];

fn record(key: usize, kind: u8, time: u64) -> Record {
    let payload = inline(vec![b'0' + time as u8]);
    let op = match kind {
        0 => Op::Insert(payload),
        1 => Op::Update(payload),
        _ => Op::Delete,
    };
    Record {
        key: [&b"a"[..], b"b"][key].into(),
        stamp: stamp(time),
        op,
    }
}

fn place(record: &Record) -> usize {
    usize::from(record.key[..] == b"b"[..])
}

fn merged(slots: &Slots, records: &[Record], batch: u8) -> Slots {
    let mut slots = slots.clone();
    for (_, record) in of(records, batch) {
        slots[place(record)].merge(record, Stamp::ZERO);
    }
    slots
}

/// The records of a set.
fn of(records: &[Record], set: u8) -> impl Iterator<Item = (u8, &Record)> {
    let all = (0..).zip(records);
    all.filter(move |(number, _)| set & (1 << number) != 0)
}

/// What readers see of slots: the operations in the order of their stamps.
fn in_order(records: &[Record]) -> [Option<u64>; 2] {
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort_by_key(|record| record.stamp);
    let mut seen = [None; 2];
    for record in sorted {
        let key = &mut seen[place(record)];
        *key = match record.op {
            Op::Insert(_) => Some(record.stamp.time.0),
            Op::Update(_) => key.map(|_| record.stamp.time.0),
            Op::Delete => None,
        };
    }
    seen
}

/// Whether slots show what the operations in the order of their stamps do.
fn shows(slots: &Slots, records: &[Record]) -> bool {
    let expected = in_order(records);
    let payload = |slot: &Slot| slot.visible().cloned();
    let of = |time: &u64| inline(vec![b'0' + *time as u8]);
    (0..2).all(|key| payload(&slots[key]) == expected[key].as_ref().map(of))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Worker {
    #[default]
    Idle,
    /// The page that it read, whether that is still the newest, and what it received.
    Read(Box<Slots>, bool, u8),
    /// The page landed: messages go.
    Landed(u8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    sent: u8,
    queue: u8,
    page: Slots,
    workers: [Worker; 2],
    /// A PUT under way: the page, and whether its condition still holds.
    late: Option<(Box<Slots>, bool)>,
    crashes: u8,
    timeouts: u8,
    repeats: u8,
}

impl State {
    /// A PUT lands: what others read is old now.
    fn land(&mut self, slots: Slots) {
        self.page = slots;
        for worker in &mut self.workers {
            if let Worker::Read(_, is_newest, _) = worker {
                *is_newest = false;
            }
        }
        if let Some((_, is_newest)) = &mut self.late {
            *is_newest = false;
        }
    }
}

/// Model A: records of clients, in any order, and two checkpointers without a token.
struct Queued {
    records: Vec<Record>,
    design: Design,
}

impl Queued {
    fn put(&self, state: &State, own: usize, out: &mut Vec<((&'static str, u8), State)>) {
        let Worker::Read(read, is_newest, batch) = state.workers[own].clone() else {
            return;
        };
        let design = self.design;
        let slots = merged(&read, &self.records, batch);
        let holds = is_newest || !design.if_match;
        let label = |what| (what, own as u8);
        let mut next = state.clone();
        next.workers[own] = match holds || !design.keep_on_412 {
            true => Worker::Landed(batch),
            false => Worker::Idle,
        };
        if holds {
            next.land(slots.clone());
        }
        out.push((label("put"), next));
        if state.timeouts == 0 {
            return;
        }
        // Lost, answered too late, or still to land.
        let mut unsure = state.clone();
        unsure.timeouts -= 1;
        unsure.workers[own] = match design.timeout_is_unknown {
            true => Worker::Idle,
            false => Worker::Landed(batch),
        };
        out.push((label("put lost"), unsure.clone()));
        if holds {
            let mut landed = unsure.clone();
            landed.land(slots.clone());
            out.push((label("answer lost"), landed));
            unsure.late = Some((Box::new(slots), true));
            out.push((label("put late"), unsure));
        }
    }
}

impl Model for Queued {
    type State = State;
    type Label = (&'static str, u8);

    fn init(&self) -> State {
        State {
            crashes: 1,
            timeouts: 1,
            repeats: 1,
            ..State::default()
        }
    }

    fn next(&mut self, state: &State, out: &mut Vec<(Self::Label, State)>) {
        let count = self.records.len() as u8;
        for number in (0..count).filter(|number| state.sent & (1 << number) == 0) {
            let mut next = state.clone();
            next.sent |= 1 << number;
            next.queue |= 1 << number;
            out.push((("send", number), next));
        }
        if let Some((slots, is_newest)) = state.late.clone() {
            let mut next = state.clone();
            next.late = None;
            if is_newest || !self.design.if_match {
                next.land(*slots);
            }
            out.push((("late put ends", 0), next));
        }
        for own in 0..2 {
            match state.workers[own].clone() {
                Worker::Idle => {
                    for batch in (1..1_u8 << count).filter(|batch| batch & !state.queue == 0) {
                        let mut next = state.clone();
                        next.workers[own] = Worker::Read(Box::new(state.page.clone()), true, batch);
                        if !self.design.remove_after_put {
                            next.queue &= !batch;
                        }
                        out.push((("receive", batch), next));
                    }
                }
                Worker::Read(..) => self.put(state, own, out),
                Worker::Landed(batch) => {
                    let mut next = state.clone();
                    next.workers[own] = Worker::Idle;
                    if state.repeats > 0 {
                        let mut stays = next.clone();
                        stays.repeats -= 1;
                        out.push((("removal without effect", own as u8), stays));
                    }
                    next.queue &= match self.design.only_the_batch {
                        true => !batch,
                        false => 0,
                    };
                    out.push((("remove", own as u8), next));
                }
            }
            if state.crashes > 0 && state.workers[own] != Worker::Idle {
                let mut next = state.clone();
                next.crashes -= 1;
                next.workers[own] = Worker::Idle;
                out.push((("crash", own as u8), next));
            }
        }
        // A message that was removed is delivered once more.
        if state.repeats > 0 {
            for number in (0..count).filter(|one| state.sent & !state.queue & (1 << one) != 0) {
                let mut next = state.clone();
                next.repeats -= 1;
                next.queue |= 1 << number;
                out.push((("repeat", number), next));
            }
        }
    }

    /// When all was sent and nothing is under way, the page shows it.
    fn violation(&self, state: &State) -> Option<&'static str> {
        let all = (1 << self.records.len()) - 1;
        let is_quiet = state.sent == all
            && state.queue == 0
            && state.workers.iter().all(|worker| *worker == Worker::Idle)
            && state.late.is_none();
        let is_right = !is_quiet || shows(&state.page, &self.records);
        (!is_right).then_some("the page is not that of the operations in order")
    }

    fn end(&self, _: &State) -> Option<&'static str> {
        None
    }
}

/// Each kind of so many operations, in each order of their stamps, on one key or on two.
fn scenarios(count: usize, keys: usize) -> Vec<Vec<Record>> {
    let mut all: Vec<Vec<(usize, u8)>> = vec![Vec::new()];
    for _ in 0..count {
        let choices = (0..keys).flat_map(|key| (0..3).map(move |kind| (key, kind)));
        let longer = all.iter().flat_map(|ops| {
            let one = |choice| [&ops[..], &[choice]].concat();
            choices.clone().map(one).collect::<Vec<_>>()
        });
        all = longer.collect();
    }
    // Any order of sends is searched, so the order of stamps is that of the operations.
    let records = |ops: &Vec<(usize, u8)>| {
        let timed = ops.iter().zip(1..);
        timed
            .map(|((key, kind), time)| record(*key, *kind, time))
            .collect()
    };
    all.iter().map(records).collect()
}

fn searched(count: usize, keys: usize) -> usize {
    let all = scenarios(count, keys).into_iter();
    let states = all.map(|records| {
        let design = DESIGN;
        search(&mut Queued { records, design }).states()
    });
    states.sum()
}

#[test]
fn two_checkpointers_of_a_page_lose_nothing_of_two_operations() {
    let mut states = searched(2, 1);
    if is_full() {
        states += searched(2, 2);
    }
    println!("{states} states");
    assert!(states > 10_000, "{states} states");
}

#[test]
fn two_checkpointers_of_a_page_lose_nothing_of_three_operations() {
    if is_full() {
        let states = searched(3, 1);
        println!("{states} states");
        assert!(states > 1_000_000, "{states} states");
    }
}

/// Some scenario must tell.
fn assert_told(name: &str, mut search_one: impl FnMut(Vec<Record>) -> Outcome) {
    let mut all = scenarios(2, 1).into_iter().chain(scenarios(3, 1));
    let found = all.find_map(|records| match search_one(records) {
        Outcome::Violated(what, trace) => Some((what, trace)),
        Outcome::Passed(_) => None,
    });
    let (what, trace) = found.unwrap_or_else(|| panic!("{name} is not caught"));
    println!("caught: {name}: {what}: {trace}");
}

/// Takes a decision away.
type Removal = fn(&mut Design);

#[test]
fn every_removed_decision_of_checkpoints_is_caught() {
    let mutants: [(&str, Removal); 5] = [
        ("no If-Match", |design| design.if_match = false),
        ("removed before the PUT", |design| {
            design.remove_after_put = false
        }),
        ("removed after 412", |design| design.keep_on_412 = false),
        ("a timeout is success", |design| {
            design.timeout_is_unknown = false
        }),
        ("all of the queue removed", |design| {
            design.only_the_batch = false
        }),
    ];
    for (name, remove) in mutants {
        let mut design = DESIGN;
        remove(&mut design);
        assert_told(name, |records| search(&mut Queued { records, design }));
    }
}

#[cfg(feature = "mutants")]
#[test]
fn every_removed_rule_of_slots_is_caught() {
    use crate::Guard;
    for guard in [Guard::SlotStamps, Guard::TwoRegisters, Guard::DeadSlots] {
        crate::without(guard, || {
            let design = DESIGN;
            assert_told(&format!("{guard:?}"), |records| {
                search(&mut Queued { records, design })
            });
        });
    }
}

/// Model C1: transactions of one client, clients that finish them, and a delete between.
struct Finishing {
    records: Vec<Record>,
    /// The records of each transaction; what is in none is sent by itself.
    transactions: [u8; 2],
    design: Design,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Finish {
    committed: u8,
    alone: bool,
    atomic: u8,
    pending: u8,
    page: Slots,
    /// Each client's transaction, and what it sent of it.
    clients: [Option<(u8, u8)>; 2],
    deaths: u8,
    repeats: u8,
}

impl Finishing {
    fn alone(&self) -> u8 {
        let all = (1_u8 << self.records.len()) - 1;
        all & !self.transactions[0] & !self.transactions[1]
    }
}

impl Model for Finishing {
    type State = Finish;
    type Label = (&'static str, u8);

    fn init(&self) -> Finish {
        Finish {
            deaths: if is_full() { 2 } else { 1 },
            repeats: u8::from(is_full()),
            ..Finish::default()
        }
    }

    fn next(&mut self, state: &Finish, out: &mut Vec<(Self::Label, Finish)>) {
        let mut step = |what, number, change: &dyn Fn(&mut Finish)| {
            let mut next = state.clone();
            change(&mut next);
            out.push(((what, number), next));
        };
        for one in (0..2_u8).filter(|one| state.committed & (1 << one) == 0) {
            step("commit", one, &|next| {
                next.committed |= 1 << one;
                next.atomic |= 1 << one;
            });
        }
        if !state.alone {
            step("send", 0, &|next| {
                next.alone = true;
                next.pending |= self.alone();
            });
        }
        for (number, _) in of(&self.records, state.pending) {
            step("checkpoint", number, &|next| {
                next.page = merged(&next.page, &self.records, 1 << number);
                next.pending &= !(1 << number);
            });
        }
        for client in 0..2 {
            let Some((one, sent)) = state.clients[client] else {
                for one in (0..2).filter(|one| state.atomic & (1 << one) != 0) {
                    step("receive", one, &|next| {
                        next.clients[client] = Some((one, 0))
                    });
                }
                continue;
            };
            let all = self.transactions[usize::from(one)];
            let early = self.design.sends_before_removal;
            if early <= sent.count_ones() && state.atomic & (1 << one) != 0 {
                step("remove", one, &|next| next.atomic &= !(1 << one));
            }
            for (number, _) in of(&self.records, all & !sent) {
                step("send on", number, &|next| {
                    next.pending |= 1 << number;
                    next.clients[client] = Some((one, sent | 1 << number));
                });
            }
            if sent == all {
                step("remove", one, &|next| {
                    next.atomic &= !(1 << one);
                    next.clients[client] = None;
                });
            }
            if state.deaths > 0 {
                step("die", client as u8, &|next| {
                    next.deaths -= 1;
                    next.clients[client] = None;
                });
            }
        }
        if state.repeats > 0 {
            for one in (0..2).filter(|one| state.committed & !state.atomic & (1 << one) != 0) {
                step("repeat", one, &|next| {
                    next.repeats -= 1;
                    next.atomic |= 1 << one;
                });
            }
        }
    }

    fn violation(&self, state: &Finish) -> Option<&'static str> {
        let is_quiet = state.committed == 3
            && state.alone
            && state.atomic == 0
            && state.pending == 0
            && state.clients == [None; 2];
        let is_right = !is_quiet || shows(&state.page, &self.records);
        (!is_right).then_some("a transaction took effect in part")
    }

    fn end(&self, _: &Finish) -> Option<&'static str> {
        None
    }
}

/// Two transactions on both keys, and a delete of one of them with a stamp between or above.
fn finishing(design: Design) -> Vec<Finishing> {
    let kinds = [[0, 0], [0, 1], [1, 0], [2, 0]];
    let with = |second: [u8; 2], deleted: u64| {
        let later = if deleted == 2 { 3 } else { 2 };
        Finishing {
            records: vec![
                record(0, 0, 1),
                record(1, 0, 1),
                record(0, second[0], later),
                record(1, second[1], later),
                record(0, 2, deleted),
            ],
            transactions: [0b00011, 0b01100],
            design,
        }
    };
    let all = kinds
        .into_iter()
        .flat_map(|kinds| [with(kinds, 2), with(kinds, 4)]);
    all.take(if is_full() { 8 } else { 2 }).collect()
}

#[test]
fn transactions_are_finished_whole_by_any_clients() {
    let models = finishing(DESIGN).into_iter();
    let states: usize = models.map(|mut model| search(&mut model).states()).sum();
    println!("{states} states");
    assert!(states > 10_000, "{states} states");
}

fn assert_torn(name: &str, design: Design) {
    let found = finishing(design)
        .into_iter()
        .find_map(|mut model| match search(&mut model) {
            Outcome::Violated(what, trace) => Some((what, trace)),
            Outcome::Passed(_) => None,
        });
    let (what, trace) = found.unwrap_or_else(|| panic!("{name} is not caught"));
    println!("caught: {name}: {what}: {trace}");
}

#[test]
fn transactions_that_leave_their_queue_early_are_caught() {
    for sends_before_removal in [0, 1] {
        let design = Design {
            sends_before_removal,
            ..DESIGN
        };
        assert_torn(
            &format!("removed after {sends_before_removal} sends"),
            design,
        );
    }
}

#[cfg(feature = "mutants")]
#[test]
fn every_removed_rule_of_transactions_is_caught() {
    use crate::Guard;
    for guard in [Guard::SlotStamps, Guard::DeadSlots] {
        crate::without(guard, || {
            assert_torn(&format!("{guard:?} at Atomic"), DESIGN)
        });
    }
}
