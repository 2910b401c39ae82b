//! Marks that are kept: what remains of a write, the rows that tell of it, and its collection.
//!
//! A small chain applies strong writes and settlements as a member does, filters as a head does
//! (PR-3) and prunes its overlay (PR-6).

use std::collections::BTreeMap;

use super::*;
use crate::keys::{ROWS, parse_row_key};

/// `+g=v` adds, `-g=v` removes, `!g` clears a group, `!` clears all.
fn ops(text: &str) -> Vec<ElementOp> {
    let bytes = |text: &str| Bytes::from(text.to_owned());
    let op = |word: &str| match (word.split_at(1), word.split_once('=')) {
        (("+", _), Some((group, value))) => ElementOp::Add {
            group: bytes(&group[1..]),
            value: bytes(value),
        },
        (("-", _), Some((group, value))) => ElementOp::Remove {
            group: bytes(&group[1..]),
            value: bytes(value),
        },
        (("!", ""), _) => ElementOp::ClearAll,
        (("!", group), _) => ElementOp::Clear {
            group: bytes(group),
        },
        _ => panic!("{word} is no operation"),
    };
    text.split_whitespace().map(op).collect()
}

/// An eventual operation on a register.
#[derive(Clone, Debug)]
struct Operation {
    key: Bytes,
    stamp: Stamp,
    ops: Vec<ElementOp>,
    /// What no committed state covers yet.
    rest: Vec<ElementOp>,
}

/// One member, and what it would hold if nothing were ever filtered, pruned or collected.
#[derive(Default)]
struct Chain {
    pairs: BTreeMap<Bytes, Bytes>,
    last: EntryId,
    safe_point: EntryId,
    overlay: Vec<Operation>,
    all: BTreeMap<Bytes, Register>,
    /// Whether strong marks at or below the safe point go as soon as they can, not in passing.
    is_eager: bool,
}

impl Chain {
    fn register(&self, key: &Bytes) -> Register {
        let stored = self.pairs.get(key).cloned();
        stored.map_or_else(Register::default, |bytes| Register::decode(bytes).unwrap())
    }

    fn rows(&self) -> Vec<(EntryId, Bytes, Stamp)> {
        let row = |(key, stamp): (&Bytes, &Bytes)| {
            let (id, register) = parse_row_key(key)?;
            let stamp = Stamp::decode(&mut Reader::new(stamp.clone())).unwrap();
            Some((id, Bytes::copy_from_slice(register), stamp))
        };
        self.pairs.iter().filter_map(row).collect()
    }

    /// Appends and applies an entry of one change, under `stamp` or its own.
    fn append(&mut self, change: Option<&Change>, stamp: Option<Stamp>) {
        let id = EntryId::new(1, self.last.index + 1);
        let stamp = stamp.unwrap_or(Stamp::strong(id));
        let safe_point = self.safe_point;
        self.last = id;
        let mut mutations = Vec::new();
        if let Some(change) = change {
            let current = self.pairs.get(change.key()).cloned();
            apply(
                change,
                current,
                &ApplyContext {
                    id,
                    stamp,
                    safe_point,
                },
                &mut mutations,
            )
            .unwrap();
        }
        for Mutation { key, value } in mutations {
            match value {
                Some(value) => self.pairs.insert(key, value),
                None => self.pairs.remove(&key),
            };
        }
        if self.is_eager {
            self.sweep();
        }
        let mut overlay = std::mem::take(&mut self.overlay);
        for operation in &mut overlay {
            let committed = self.register(&operation.key);
            operation.rest = committed.survivors(&operation.rest, operation.stamp);
        }
        self.overlay = overlay;
    }

    fn sweep(&mut self) {
        for (key, value) in std::mem::take(&mut self.pairs) {
            if parse_row_key(&key).is_some() {
                self.pairs.insert(key, value);
                continue;
            }
            let mut register = Register::decode(value).unwrap();
            register.collect_strong(self.safe_point);
            self.pairs
                .extend(stored(&register).map(|value| (key, value)));
        }
    }

    fn merge(&mut self, key: Bytes, ops: Vec<ElementOp>, stamp: Option<Stamp>) {
        let marks = TombstonePolicy::Kept;
        let merge = (!ops.is_empty()).then_some(Change::Merge { key, ops, marks });
        self.append(merge.as_ref(), stamp);
    }

    fn write(&mut self, key: &Bytes, ops: Vec<ElementOp>) {
        let id = EntryId::new(1, self.last.index + 1);
        let all = self.all.entry(key.clone()).or_default();
        all.merge(&ops, Stamp::strong(id));
        self.merge(key.clone(), ops, None);
    }

    /// A member based on `base` stamps the operation, and offers it.
    fn stamp(&mut self, key: &Bytes, ops: Vec<ElementOp>, base: EntryId, clock: u64) {
        let stamp = Stamp {
            clock,
            node: 1,
            ..Stamp::strong(base)
        };
        let rest = self.register(key).survivors(&ops, stamp);
        let key = key.clone();
        self.overlay.push(Operation {
            key,
            stamp,
            ops,
            rest,
        });
    }

    /// Settles the operation at this place of the overlay. Whether anything of it survived.
    fn settle(&mut self, at: usize) -> bool {
        let operation = self.overlay.remove(at);
        let all = self.all.entry(operation.key.clone()).or_default();
        all.merge(&operation.ops, operation.stamp);
        let committed = self.register(&operation.key);
        let survivors = committed.survivors(&operation.rest, operation.stamp);
        let has_survivors = !survivors.is_empty();
        self.merge(operation.key, survivors, Some(operation.stamp));
        has_survivors
    }

    /// Every member has applied everything: the safe point is raised to here.
    fn raise(&mut self) {
        self.safe_point = self.last;
    }

    /// Appends a `Collect` for each of the first rows at or below the safe point.
    fn collect(&mut self, count: usize) {
        let is_below = |row: &(EntryId, Bytes, Stamp)| row.0 <= self.safe_point;
        let rows: Vec<_> = self.rows().into_iter().filter(is_below).collect();
        for (entry, key, stamp) in rows.into_iter().take(count) {
            let collect = Change::Collect { key, entry, stamp };
            self.append(Some(&collect), None);
        }
    }

    fn shown(&self, key: &Bytes) -> String {
        shown(&self.register(key))
    }
}

/// The visible pairs, sorted.
fn shown(register: &Register) -> String {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let pairs = register.pairs();
    let mut words: Vec<_> = pairs
        .map(|(name, value)| format!("{}={}", text(name), text(value)))
        .collect();
    words.sort();
    words.join(" ")
}

fn at(index: u64) -> EntryId {
    EntryId::new(1, index)
}

/// It shows D1 and HOLE-1.
#[test]
fn d1_an_older_stamp_may_follow_in_the_log_and_neither_write_is_lost() {
    let mut chain = Chain::default();
    chain.stamp(&key(), ops("+a=1"), EntryId::ZERO, 3);
    chain.write(&key(), ops("+b=1"));
    assert!(chain.settle(0), "elements are ordered, not registers");
    assert_eq!(chain.shown(&key()), "a=1 b=1");
    assert_eq!(chain.register(&key()).version, at(2), "versions increase");
    assert_eq!(chain.register(&key()).newest(), Stamp::strong(at(1)));
}

/// It shows HOLE-6.
#[test]
fn d5_the_version_tells_of_a_deletion_that_is_collected() {
    let mut chain = Chain::default();
    chain.write(&key(), ops("+a=1 +b=x"));
    chain.write(&key(), ops("-b=x"));
    chain.raise();
    chain.sweep();
    let register = chain.register(&key());
    assert_eq!((register.mark_count(), register.newest().base), (0, at(1)));
    assert_eq!(register.version, at(2), "what an addition must be based on");
}

/// It shows D6 and HOLE-7.
#[test]
fn d6_the_version_rises_where_the_greatest_stamp_does_not() {
    let merge = |text| Change::Merge {
        key: key(),
        ops: ops(text),
        marks: TombstonePolicy::Dropped,
    };
    let mut current = None;
    let mut seen = Vec::new();
    for (index, text) in [(1, "+a=x"), (2, "+a=y"), (3, "-a=x")] {
        let mutations = applied(&merge(text), current, &under(index));
        current = mutations.into_iter().next().and_then(|put| put.value);
        let register = Register::decode(current.clone().unwrap()).unwrap();
        seen.push((register.version, register.newest()));
    }
    let strong = |index| Stamp::strong(at(index));
    assert_eq!(seen[1], (at(2), strong(2)));
    assert_eq!(seen[2], (at(3), strong(2)), "else version 2 would recur");
}

/// It shows HOLE-8.
#[test]
fn d7_a_late_entry_with_a_small_stamp_keeps_its_mark() {
    let mut chain = Chain::default();
    chain.write(&key(), ops("+y=1"));
    chain.raise();
    chain.stamp(&key(), ops("+x=1"), at(1), 3);
    chain.stamp(&key(), ops("-x=1"), at(1), 4);
    chain.append(None, None);
    chain.safe_point = at(2);
    let removal = chain.overlay[1].stamp;
    assert!(
        removal < Stamp::strong(chain.safe_point),
        "its stamp is below"
    );
    assert!(chain.settle(1));
    assert!(
        chain.register(&key()).is_marked_by(removal),
        "its entry is not"
    );
    chain.collect(9);
    assert!(
        !chain.settle(0),
        "the addition was removed by a later write"
    );
    assert_eq!(chain.shown(&key()), "y=1");

    chain.raise();
    chain.collect(9);
    assert_eq!(chain.register(&key()).mark_count(), 0);
    assert_eq!(chain.rows(), []);
}

/// It shows GC-3 and HOLE-9.
#[test]
fn d7_strong_marks_go_before_the_merge() {
    let order = |is_eager| {
        let mut chain = Chain {
            is_eager,
            ..Chain::default()
        };
        chain.write(&key(), ops("+a=1 +b=1"));
        chain.write(&key(), ops("!a"));
        chain.raise();
        chain.write(&key(), ops("+c=1"));
        chain.write(&key(), ops("+a=1"));
        let register = chain.register(&key());
        let names = register.groups.iter().map(|group| group.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(order(false), ["b", "c", "a"]);
    assert_eq!(order(true), order(false), "an earlier sweep agrees");
}

/// It shows HOLE-17.
#[test]
fn d12_a_removal_of_what_is_only_in_an_overlay_wins() {
    let mut chain = Chain::default();
    chain.stamp(&key(), ops("+a=x"), EntryId::ZERO, 1);
    chain.write(&key(), ops("-a=x"));
    assert!(
        !chain.register(&key()).is_vacant(),
        "nothing visible, but a mark"
    );
    assert!(!chain.settle(0));
    assert_eq!(chain.shown(&key()), "");
}

/// Applies one write to the register that `before` (strong) left, and names the mutations.
#[track_caller]
fn check_rows(before: &str, write: &str, is_eventual: bool, expected: &[&str]) {
    let merge = |text| Change::Merge {
        key: key(),
        ops: ops(text),
        marks: TombstonePolicy::Kept,
    };
    let before = applied(&merge(before), None, &under(1)).pop().unwrap();
    let stamp = match is_eventual {
        true => Stamp {
            clock: 9,
            ..Stamp::strong(at(1))
        },
        false => Stamp::strong(at(2)),
    };
    let under = ApplyContext { stamp, ..under(2) };
    let mutations = applied(&merge(write), before.value, &under);
    let name = |mutation: &Mutation| match (parse_row_key(&mutation.key), &mutation.value) {
        (Some((id, register)), Some(value)) => {
            assert_eq!((id, register), (at(2), key().as_ref()));
            let written = Stamp::decode(&mut Reader::new(value.clone())).unwrap();
            assert_eq!(written, stamp);
            "row"
        }
        (None, Some(_)) => "put",
        (_, None) => "removal",
    };
    let names: Vec<_> = mutations.iter().map(name).collect();
    assert_eq!(names, expected, "{write}");
}

/// It shows CHANGE-1 and CHANGE-2.
#[test]
fn a_row_tells_of_an_eventual_mark_and_of_a_register_without_values() {
    check_rows("+a=1", "+b=1", false, &["put"]);
    check_rows("+a=1", "+b=1", true, &["put"]);
    check_rows("+a=1 +b=1", "-a=1", false, &["put"]);
    check_rows("+a=1 +b=1", "-a=1", true, &["row", "put"]);
    check_rows("+a=1", "!a +a=2", false, &["put"]);
    check_rows("+a=1", "!a +a=2", true, &["row", "put"]);
    check_rows("+a=1", "-a=1", false, &["row", "put"]);
    check_rows("+a=1", "!", true, &["row", "put"]);
    check_rows("-a=1", "+a=1", false, &["put"]);
    check_rows("-a=1", "-b=1", false, &["row", "put"]);
}

#[test]
fn a_row_whose_mark_was_replaced_removes_only_itself() {
    let mut chain = Chain::default();
    chain.write(&key(), ops("+a=1"));
    chain.stamp(&key(), ops("-b=1"), at(1), 1);
    assert!(chain.settle(0));
    chain.raise();
    chain.write(&key(), ops("+b=1"));
    let [(entry, _, stamp)] = chain.rows()[..] else {
        panic!("{:?}", chain.rows());
    };
    let collect = Change::Collect {
        key: key(),
        entry,
        stamp,
    };
    let under = ApplyContext {
        safe_point: chain.safe_point,
        ..under(9)
    };
    let current = chain.pairs.get(&key()).cloned();
    let gone = Mutation {
        key: row_key(entry, &key()),
        value: None,
    };
    assert_eq!(applied(&collect, current, &under), [gone]);
}

#[test]
fn collecting_what_is_absent_removes_the_row() {
    let collect = Change::Collect {
        key: key(),
        entry: at(1),
        stamp: Stamp::strong(at(1)),
    };
    let under = ApplyContext {
        safe_point: at(1),
        ..under(2)
    };
    let gone = Mutation {
        key: row_key(at(1), &key()),
        value: None,
    };
    assert_eq!(applied(&collect, None, &under), [gone]);
}

#[test]
fn nothing_is_collected_above_the_floor() {
    let collect = Change::Collect {
        key: key(),
        entry: at(1),
        stamp: Stamp::strong(at(1)),
    };
    let error = apply(&collect, None, &under(2), &mut Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "malformed bytes: a collection above the safe point"
    );
}

/// What happens to a chain.
#[derive(Clone, Debug)]
enum Step {
    Write(Bytes, Vec<ElementOp>),
    /// On a base so far from the safe point to the last entry, of eight parts.
    Stamp(Bytes, Vec<ElementOp>, u64),
    Settle(prop::sample::Index),
    Raise,
    Collect(usize),
}

fn any_operations() -> impl Strategy<Value = Vec<ElementOp>> {
    let word = prop::sample::select(vec![
        "+a=1", "+a=2", "+b=1", "-a=1", "-a=2", "-b=1", "!a", "!b", "!",
    ]);
    prop::collection::vec(word, 1..4).prop_map(|words| ops(&words.join(" ")))
}

fn any_step() -> impl Strategy<Value = Step> {
    let key = || prop::sample::select(vec![key(), Bytes::from_static(b"other")]);
    prop_oneof![
        3 => (key(), any_operations()).prop_map(|(key, ops)| Step::Write(key, ops)),
        4 => (key(), any_operations(), 0..=8_u64)
            .prop_map(|(key, ops, base)| Step::Stamp(key, ops, base)),
        4 => any::<prop::sample::Index>().prop_map(Step::Settle),
        1 => Just(Step::Raise),
        1 => (1..4_usize).prop_map(Step::Collect),
    ]
}

impl Chain {
    fn step(&mut self, step: &Step, clock: u64) {
        match step {
            Step::Write(key, ops) => self.write(key, ops.clone()),
            Step::Stamp(key, ops, part) => {
                let above = (self.last.index - self.safe_point.index) * part / 8;
                let base = at(self.safe_point.index + above);
                self.stamp(key, ops.clone(), base, clock);
            }
            Step::Settle(_) if self.overlay.is_empty() => {}
            Step::Settle(which) => {
                self.settle(which.index(self.overlay.len()));
            }
            Step::Raise => self.raise(),
            Step::Collect(count) => self.collect(*count),
        }
    }

    /// Every visible pair is what merging every write whole gives.
    fn check_pairs(&self) {
        for (key, all) in &self.all {
            assert_eq!(self.shown(key), shown(all), "{key:?}");
        }
    }

    /// CHANGE-1 and CHANGE-2.
    fn check_rows(&self) {
        let rows = self.rows();
        for key in self.pairs.keys().filter(|key| key.get(8) != Some(&ROWS)) {
            let register = self.register(key);
            let has_row = |wanted: &dyn Fn(EntryId, Stamp) -> bool| {
                rows.iter()
                    .any(|(id, of, stamp)| of == key && wanted(*id, *stamp))
            };
            let mut marks = register.marks().filter(|mark| !mark.is_strong());
            assert!(
                marks.all(|mark| has_row(&|_, stamp| stamp == mark)),
                "CHANGE-1"
            );
            let is_left = register.is_empty() && register.marks().all(|mark| mark.is_strong());
            assert!(
                !is_left || has_row(&|id, _| id == register.version),
                "CHANGE-2"
            );
        }
    }

    /// What members compare: rows, and registers without the strong marks that may go.
    fn canonical(mut self) -> BTreeMap<Bytes, Bytes> {
        self.sweep();
        self.pairs
    }
}

proptest! {
    /// In the order of the log, filtered, pruned and collected, a member shows what merging all
    /// writes whole shows. In the end every row is collected, and with them every mark of an
    /// eventual operation and every register without values.
    #[test]
    fn collecting_is_invisible_and_ends(steps in prop::collection::vec(any_step(), 0..40)) {
        let (mut chain, mut eager) = (Chain::default(), Chain::default());
        eager.is_eager = true;
        for (clock, step) in steps.iter().enumerate() {
            for chain in [&mut chain, &mut eager] {
                chain.step(step, clock as u64 + 1);
                chain.check_pairs();
            }
            chain.check_rows();
        }
        while !chain.overlay.is_empty() {
            chain.settle(0);
            eager.settle(0);
        }
        for chain in [&mut chain, &mut eager] {
            chain.raise();
            chain.collect(usize::MAX);
            chain.check_pairs();
            prop_assert_eq!(chain.rows(), []);
            for key in chain.pairs.keys() {
                let register = chain.register(key);
                prop_assert!(!register.is_empty(), "{:?}", key);
                prop_assert!(register.marks().all(|mark| mark.is_strong()), "{:?}", key);
            }
        }
        prop_assert_eq!(chain.canonical(), eager.canonical());
    }

    /// The order in which a set of writes is merged, marks kept, decides nothing that is shown.
    #[test]
    fn the_order_of_merges_that_keep_marks_decides_nothing(
        (writes, shuffled) in prop::collection::vec(any_operations(), 1..7).prop_flat_map(|writes| {
            let writes: Vec<_> = writes.into_iter().enumerate().collect();
            (Just(writes.clone()), Just(writes).prop_shuffle())
        }),
    ) {
        let merged = |writes: &[(usize, Vec<ElementOp>)]| {
            let mut current = None;
            for (place, (clock, ops)) in writes.iter().enumerate() {
                let (ops, marks) = (ops.clone(), TombstonePolicy::Kept);
                let change = Change::Merge { key: key(), ops, marks };
                let stamp = eventual(*clock as u64 + 1);
                let under = ApplyContext { stamp, ..under(place as u64 + 1) };
                let mutations = applied(&change, current.take(), &under);
                current = mutations.into_iter().next_back().and_then(|put| put.value);
            }
            current
        };
        prop_assert_eq!(merged(&writes), merged(&shuffled));
    }
}
