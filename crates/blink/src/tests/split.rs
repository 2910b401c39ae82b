//! Every interleaving of two checkpointers that split pages of one tree (model B of the checked
//! protocols).
//!
//! Two writers route records, possibly to pages that have split since. Two checkpointers without
//! any lock receive any part of a queue and apply it. They create right pages, replace left ones by
//! If-Match, forward, remove messages, post separators. One may crash; one PUT may time out and
//! land at any later time, or never. Pages, routing, splits and forwards are the crate's functions.
//! `Protocol` has the decisions of the database.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use super::checker::{Model, Outcome, Versions, assert_caught, is_full, search};
use super::{ROOT, inline, stamp};
use crate::envelope::NONCE_BYTES;
use crate::{
    Edition, HybridTime, Op, Page, PageId, Record, Route, Separator, Sizes, Stamp, Target, apply,
    post,
};

/// No page.
const NONE: u16 = u16::MAX;
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// Key and stamp of each record that is written.
const RECORDS: [(usize, u64); 4] = [(2, 2), (3, 3), (1, 4), (0, 5)];

/// The decisions that are not the pages'. `true` is the design.
#[derive(Clone, Copy, Debug)]
struct Protocol {
    is_root_leaf: bool,
    if_match: bool,
    right_first: bool,
    send_before_delete: bool,
    post_after_landing: bool,
    keep_right_when_unsure: bool,
    random_id: bool,
    is_exists_done: bool,
    is_put_late: bool,
    crashes: u8,
    timeouts: u8,
    records: usize,
}

const DESIGN: Protocol = Protocol {
    is_root_leaf: false,
    if_match: true,
    right_first: true,
    send_before_delete: true,
    post_after_landing: true,
    keep_right_when_unsure: true,
    random_id: true,
    is_exists_done: true,
    is_put_late: true,
    crashes: 1,
    timeouts: 1,
    records: 2,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    #[default]
    Idle,
    Received,
    Create,
    Replace,
    Remove,
    Post,
    TimedOut,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Checkpointer {
    step: Step,
    page: u8,
    batch: u8,
    forwards: Vec<(u8, u8)>,
    sent: u8,
    is_stale: bool,
    is_ours: bool,
    next: u16,
    created: Vec<(u8, u16)>,
    made: usize,
    separators: Vec<Separator>,
}

/// A PUT that is still on its way: page, whether the page changed since, the version.
type Late = Option<(u8, bool, u16)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    pages: Vec<u16>,
    queues: Vec<u8>,
    routes: [Option<u8>; 4],
    entered: u8,
    workers: [Checkpointer; 2],
    late: Late,
    crashes: u8,
    timeouts: u8,
}

/// The leaf of each key, and the newest stamp that it has there.
type Leaves = [Option<(u8, Stamp)>; 4];

type Label = (&'static str, u8, u8);

/// What `apply` gave, in numbers.
#[derive(Clone, Debug)]
struct Result {
    next: u16,
    created: Vec<(u8, u16)>,
    separators: Vec<Separator>,
    forwards: Vec<(u8, u8)>,
}

#[derive(Debug)]
struct Split {
    protocol: Protocol,
    sizes: Sizes,
    versions: Versions,
    applied: BTreeMap<(u16, u8, u8), Result>,
    found: RefCell<HashMap<Vec<u16>, Leaves>>,
    initial: Vec<u16>,
}

/// An edition whose new pages have the ids from `first` on.
fn numbered<T>(first: u8, body: impl FnOnce(&mut Edition<'_>) -> T) -> T {
    let mut next = u128::from(first);
    let mut random = || {
        let mut bytes = [0; NONCE_BYTES];
        bytes[..16].copy_from_slice(&next.to_be_bytes());
        next += 1;
        bytes
    };
    body(&mut Edition {
        key: 0,
        written_ms: 0,
        random: &mut random,
    })
}

fn record(index: usize) -> Record {
    let (key, time) = RECORDS[index];
    written(KEYS[key], time)
}

fn written(key: &'static str, time: u64) -> Record {
    let op = Op::Insert(inline(vec![b'x'; 30]));
    Record {
        key: key.into(),
        stamp: stamp(time),
        op,
    }
}

fn number(id: PageId) -> u8 {
    u8::try_from(id.0).expect("a small scope")
}

impl Split {
    fn new(protocol: Protocol) -> Self {
        // A leaf of two records; a third one splits it.
        let sizes = Sizes::new(256, 10_000).expect("within the bounds");
        let mut versions = Versions::default();
        let keep = HybridTime::ZERO;
        let leaf = numbered(1, |edition| {
            let empty = Page::empty(Stamp::ZERO, edition);
            let records = [written("a", 1), written("b", 1)];
            apply(&empty, &records, keep, &sizes, edition)
                .change
                .expect("new records")
                .page
        });
        let initial = if protocol.is_root_leaf {
            vec![versions.number(&leaf)]
        } else {
            // The tree after a first split: an inner root over two leaves, the left one full.
            let change = numbered(1, |edition| {
                let records = [written("e", 1)];
                apply(&leaf, &records, keep, &sizes, edition)
                    .change
                    .expect("a new record")
            });
            let pages =
                std::iter::once(&change.page).chain(change.created.iter().map(|(_, page)| page));
            pages.map(|page| versions.number(page)).collect()
        };
        Split {
            protocol,
            sizes,
            versions,
            applied: BTreeMap::new(),
            found: RefCell::default(),
            initial,
        }
    }

    fn page(&self, state: &State, page: u8) -> Option<&Page> {
        let version = *state.pages.get(usize::from(page))?;
        (version != NONE).then(|| self.versions.page(version))
    }

    /// The leaf of each key and the stamp that it has there, remembered by the versions of the
    /// pages.
    fn find(&self, state: &State, key: usize) -> Option<(u8, Stamp)> {
        if let Some(known) = self.found.borrow().get(&state.pages) {
            return known[key];
        }
        let found = KEYS.map(|key| self.search(state, key));
        self.found.borrow_mut().insert(state.pages.clone(), found);
        found[key]
    }

    fn search(&self, state: &State, key: &str) -> Option<(u8, Stamp)> {
        let found = crate::search(ROOT, key.as_bytes(), |id| self.page(state, number(id))).ok()?;
        let stamp = found
            .page
            .find(key.as_bytes())
            .newest()
            .unwrap_or(Stamp::ZERO);
        Some((number(found.id), stamp))
    }

    fn apply(&mut self, version: u16, batch: u8, first: u8) -> Result {
        if let Some(known) = self.applied.get(&(version, batch, first)) {
            return known.clone();
        }
        let records: Vec<Record> = (0..4)
            .filter(|at| batch >> at & 1 == 1)
            .map(record)
            .collect();
        let page = self.versions.page(version).clone();
        let sizes = self.sizes;
        let applied = numbered(first, |edition| {
            apply(&page, &records, HybridTime::ZERO, &sizes, edition)
        });
        let mut result = Result {
            next: version,
            created: Vec::new(),
            separators: Vec::new(),
            forwards: Vec::new(),
        };
        for forward in applied.forwards {
            let at = (0..4)
                .find(|at| record(*at) == forward.item)
                .expect("a record of the batch");
            let to = match forward.target {
                Target::Page(id) => number(id),
                Target::Root => 0,
            };
            result.forwards.push((at as u8, to));
        }
        if let Some(change) = applied.change {
            result.next = self.versions.number(&change.page);
            result.separators = change.separators;
            for (id, page) in &change.created {
                result
                    .created
                    .push((number(*id), self.versions.number(page)));
            }
        }
        self.applied.insert((version, batch, first), result.clone());
        result
    }

    /// The page has a new version: work on the old one is stale.
    fn changed(state: &mut State, page: u8, by: Option<usize>) {
        for (index, worker) in state.workers.iter_mut().enumerate() {
            if worker.page == page && worker.step != Step::Idle {
                worker.is_stale |= Some(index) != by;
                worker.is_ours = Some(index) == by;
            }
        }
        if let Some(late) = &mut state.late
            && late.0 == page
        {
            late.1 = true;
        }
    }

    fn write(&self, state: &State, out: &mut Vec<(Label, State)>) {
        for (index, (key, _)) in RECORDS.iter().enumerate().take(self.protocol.records) {
            let bit = 1 << index;
            let mut next = state.clone();
            match state.routes[index] {
                _ if state.entered & bit != 0 => continue,
                None => {
                    let Some((page, _)) = self.find(state, *key) else {
                        continue;
                    };
                    next.routes[index] = Some(page);
                    out.push((("route", index as u8, page), next));
                }
                Some(page) => {
                    next.queues[usize::from(page)] |= bit;
                    next.entered |= bit;
                    out.push((("send", index as u8, page), next));
                }
            }
        }
    }

    fn receive(state: &State, worker: usize, out: &mut Vec<(Label, State)>) {
        for page in 0..state.pages.len() {
            let mut batch = if state.pages[page] == NONE {
                0
            } else {
                state.queues[page]
            };
            let all = batch;
            while batch > 0 {
                let mut next = state.clone();
                let page = page as u8;
                let step = Step::Received;
                next.workers[worker] = Checkpointer {
                    step,
                    page,
                    batch,
                    ..Checkpointer::default()
                };
                out.push((("receive", page, batch), next));
                batch = (batch - 1) & all;
            }
        }
    }

    fn get_and_apply(&mut self, state: &State, worker: usize, out: &mut Vec<(Label, State)>) {
        let mut next = state.clone();
        let own = &mut next.workers[worker];
        let version = state.pages[usize::from(own.page)];
        if version == NONE {
            *own = Checkpointer::default();
            return out.push((("missing", worker as u8, 0), next));
        }
        let first = match self.protocol.random_id {
            true => state.pages.len() as u8,
            false => 10 + own.page,
        };
        let result = self.apply(version, own.batch, first);
        own.is_stale = false;
        own.forwards = result.forwards;
        own.step = if result.next == version {
            Step::Remove
        } else {
            Step::Replace
        };
        own.next = result.next;
        own.separators = result.separators;
        if !result.created.is_empty() {
            let last = usize::from(
                result
                    .created
                    .iter()
                    .map(|(id, _)| *id)
                    .max()
                    .expect("some"),
            );
            next.pages.resize(state.pages.len().max(last + 1), NONE);
            next.queues.resize(next.pages.len(), 0);
            own.step = if self.protocol.right_first {
                Step::Create
            } else {
                Step::Replace
            };
            own.created = result.created;
        }
        out.push((("get", worker as u8, first), next));
    }

    fn create(&self, state: &State, worker: usize, out: &mut Vec<(Label, State)>) {
        let mut next = state.clone();
        let own = &mut next.workers[worker];
        let (page, version) = own.created[own.made];
        let at = &mut next.pages[usize::from(page)];
        if *at == NONE || !self.protocol.is_exists_done {
            *at = version;
        }
        own.made += 1;
        if own.made == own.created.len() {
            own.step = match (self.protocol.right_first, self.protocol.post_after_landing) {
                (false, _) => Step::Remove,
                (true, false) if !own.separators.is_empty() => Step::Post,
                _ => Step::Replace,
            };
        }
        out.push((("create", worker as u8, page), next));
    }

    fn replace(&self, state: &State, worker: usize, out: &mut Vec<(Label, State)>) {
        let own = &state.workers[worker];
        let page = own.page;
        let is_landing = !own.is_stale || !self.protocol.if_match;
        let is_late = !self.protocol.right_first && !own.created.is_empty();
        let mut next = state.clone();
        if is_landing {
            next.pages[usize::from(page)] = own.next;
            Self::changed(&mut next, page, Some(worker));
            next.workers[worker].step = if is_late { Step::Create } else { Step::Remove };
        } else {
            next.workers[worker] = Checkpointer::default();
        }
        out.push((
            ("replace", worker as u8, u8::from(is_landing)),
            next.clone(),
        ));
        if state.timeouts == 0 {
            return;
        }
        if is_landing {
            next.timeouts -= 1;
            next.workers[worker].step = Step::TimedOut;
            out.push((("replace, answer lost", worker as u8, page), next));
        }
        if self.protocol.is_put_late && state.late.is_none() {
            let mut next = state.clone();
            next.timeouts -= 1;
            next.late = Some((page, own.is_stale, own.next));
            next.workers[worker].step = Step::TimedOut;
            out.push((("replace, on its way", worker as u8, page), next));
        }
    }

    /// After an unknown outcome: the page says whether it landed. If not, the work is dropped.
    fn decide(&self, state: &State, worker: usize, out: &mut Vec<(Label, State)>) {
        let mut next = state.clone();
        let own = &state.workers[worker];
        if own.is_ours {
            next.workers[worker].step = Step::Remove;
        } else {
            if !self.protocol.keep_right_when_unsure {
                for (page, _) in &own.created {
                    next.pages[usize::from(*page)] = NONE;
                }
            }
            next.workers[worker] = Checkpointer::default();
        }
        out.push((("decide", worker as u8, u8::from(own.is_ours)), next));
    }

    fn remove(&self, state: &State, worker: usize, out: &mut Vec<(Label, State)>) {
        let mut next = state.clone();
        let own = &mut next.workers[worker];
        if own.batch == 0 {
            let is_posting = self.protocol.post_after_landing && !own.separators.is_empty();
            match is_posting {
                true => own.step = Step::Post,
                false => *own = Checkpointer::default(),
            }
            return out.push((("done", worker as u8, 0), next));
        }
        let at = own.batch.trailing_zeros() as u8;
        let (bit, page) = (1 << at, usize::from(own.page));
        let target = own
            .forwards
            .iter()
            .find(|(index, _)| *index == at)
            .map(|(_, to)| *to);
        let Some(to) = target else {
            own.batch &= !bit;
            next.queues[page] &= !bit;
            return out.push((("remove", worker as u8, at), next));
        };
        let is_sent = own.sent & bit != 0;
        own.sent |= bit;
        let is_sending = is_sent != self.protocol.send_before_delete;
        if is_sent {
            own.batch &= !bit;
        }
        let label = if is_sending {
            next.queues[usize::from(to)] |= bit;
            ("forward", at, to)
        } else {
            next.queues[page] &= !bit;
            ("remove", worker as u8, at)
        };
        out.push((label, next));
    }

    /// Posting is a conditional read-modify-write of the parent, taken as one step.
    fn post(&mut self, state: &State, worker: usize, out: &mut Vec<(Label, State)>) {
        let mut next = state.clone();
        let separators = state.workers[worker].separators.clone();
        let root = self.versions.page(state.pages[0]).clone();
        let sizes = self.sizes;
        let posted = numbered(100, |edition| post(&root, &separators, &sizes, edition));
        if let Some(change) = posted.change {
            next.pages[0] = self.versions.number(&change.page);
            Self::changed(&mut next, 0, None);
        }
        match self.protocol.post_after_landing {
            true => next.workers[worker] = Checkpointer::default(),
            false => next.workers[worker].step = Step::Replace,
        }
        out.push((("post", worker as u8, 0), next));
    }
}

impl Model for Split {
    type State = State;
    type Label = Label;

    fn init(&self) -> State {
        State {
            pages: self.initial.clone(),
            queues: vec![0; self.initial.len()],
            routes: [None; 4],
            entered: 0,
            workers: <[Checkpointer; 2]>::default(),
            late: None,
            crashes: self.protocol.crashes,
            timeouts: self.protocol.timeouts,
        }
    }

    fn next(&mut self, state: &State, out: &mut Vec<(Label, State)>) {
        self.write(state, out);
        for worker in 0..2 {
            let step = state.workers[worker].step;
            // The checkpointers are alike: the first one starts first.
            if worker == 1 && step == Step::Idle && state.workers[0].step == Step::Idle {
                continue;
            }
            if step != Step::Idle && state.crashes > 0 {
                let mut next = state.clone();
                next.crashes -= 1;
                next.workers[worker] = Checkpointer::default();
                out.push((("crash", worker as u8, 0), next));
            }
            match step {
                Step::Idle => Self::receive(state, worker, out),
                Step::Received => self.get_and_apply(state, worker, out),
                Step::Create => self.create(state, worker, out),
                Step::Replace => self.replace(state, worker, out),
                Step::Remove => self.remove(state, worker, out),
                Step::Post => self.post(state, worker, out),
                Step::TimedOut => self.decide(state, worker, out),
            }
        }
        if let Some((page, is_stale, version)) = state.late {
            let mut next = state.clone();
            next.late = None;
            out.push((("late replace is lost", page, 0), next.clone()));
            if !is_stale || !self.protocol.if_match {
                next.pages[usize::from(page)] = version;
                let by = (0..2).find(|at| {
                    let worker = &state.workers[*at];
                    worker.step == Step::TimedOut && worker.page == page && worker.next == version
                });
                Self::changed(&mut next, page, by);
                out.push((("late replace lands", page, 0), next));
            }
        }
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        for at in 0..KEYS.len() {
            let Some((_, found)) = self.find(state, at) else {
                return Some("a key cannot be reached");
            };
            if at < 2 && found < stamp(1) {
                return Some("a record that was on a page is gone");
            }
            for (index, (key, time)) in RECORDS.iter().enumerate() {
                let is_queued = (0..state.queues.len())
                    .any(|page| state.queues[page] >> index & 1 == 1 && state.pages[page] != NONE);
                let is_owed = state.entered >> index & 1 == 1 && *key == at && !is_queued;
                if is_owed && found < stamp(*time) {
                    return Some("an acknowledged record is neither on a page nor in a queue");
                }
            }
        }
        None
    }

    fn end(&self, state: &State) -> Option<&'static str> {
        let is_drained = state.queues.iter().all(|queue| *queue == 0);
        if !is_drained {
            return Some("a queue is never drained");
        }
        let report = crate::check(ROOT, |page| self.page(state, number(page)));
        (!report.problems.is_empty()).then_some("the tree is damaged in the end")
    }
}

/// The scope of the models: all, or without the timeout, which a debug build does in seconds.
fn scope(protocol: Protocol) -> Protocol {
    match is_full() {
        true => protocol,
        false => Protocol {
            timeouts: 0,
            ..protocol
        },
    }
}

#[test]
fn two_checkpointers_split_a_leaf_under_a_root() {
    let states = search(&mut Split::new(scope(DESIGN))).states();
    println!("{states} states");
    assert!(states > 10_000, "{states} states");
}

#[test]
fn two_checkpointers_split_a_root_that_is_a_leaf() {
    let protocol = Protocol {
        is_root_leaf: true,
        ..DESIGN
    };
    let states = search(&mut Split::new(scope(protocol))).states();
    println!("{states} states");
    assert!(states > 10_000, "{states} states");
}

/// Decisions of the protocol, taken away one by one: what the pages alone cannot make up for.
#[test]
fn every_removed_decision_is_caught() {
    let root = Protocol {
        is_root_leaf: true,
        ..DESIGN
    };
    let mutants = [
        (
            "left page first",
            Protocol {
                right_first: false,
                ..DESIGN
            },
        ),
        (
            "no If-Match",
            Protocol {
                if_match: false,
                ..DESIGN
            },
        ),
        (
            "forward: remove before send",
            Protocol {
                send_before_delete: false,
                ..root
            },
        ),
        (
            "separator before the left page",
            Protocol {
                post_after_landing: false,
                ..DESIGN
            },
        ),
        (
            "right page deleted when unsure",
            Protocol {
                keep_right_when_unsure: false,
                ..DESIGN
            },
        ),
        (
            "right page deleted when overwritten",
            Protocol {
                keep_right_when_unsure: false,
                is_put_late: false,
                records: 3,
                ..DESIGN
            },
        ),
        (
            "derived id, exists is done",
            Protocol {
                random_id: false,
                ..DESIGN
            },
        ),
        (
            "derived id, overwritten",
            Protocol {
                random_id: false,
                is_exists_done: false,
                ..DESIGN
            },
        ),
    ];
    for (name, protocol) in mutants {
        assert_caught(name, Split::new(protocol));
    }
}

/// Rules of the pages, taken away one by one.
#[cfg(feature = "mutants")]
#[test]
fn every_removed_rule_is_caught() {
    use crate::Guard;
    for guard in [Guard::HighKey, Guard::ForwardDown, Guard::UpperInRight] {
        let protocol = Protocol {
            is_root_leaf: guard == Guard::ForwardDown,
            timeouts: 0,
            ..DESIGN
        };
        let model = Split::new(protocol);
        crate::without(guard, || assert_caught(&format!("{guard:?}"), model));
    }
}

#[test]
fn the_trace_of_a_violation_is_the_shortest() {
    let mut model = Split::new(Protocol {
        send_before_delete: false,
        is_root_leaf: true,
        ..DESIGN
    });
    let Outcome::Violated(what, trace) = search(&mut model) else {
        panic!("a mutant")
    };
    assert_eq!(
        what,
        "an acknowledged record is neither on a page nor in a queue"
    );
    assert!(trace.matches("->").count() < 16, "{trace}");
    assert!(matches!(model.versions.page(0).route(b"a"), Route::Here));
}
