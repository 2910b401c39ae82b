//! The guarantees of one session at Monotonic. It is for one key that moves from page P to page Q
//! at a split (model D of the checked protocols). The store may show any older version of any page;
//! other clients write meanwhile.
//!
//! Pages, LSNs, marks, coverage and the clock are the crate's; `Session` has the decisions of a
//! client.

use super::checker::{Model, Versions, assert_caught, search};
use super::{edition, inline, small};
use crate::{HybridClock, HybridTime, Marks, Op, Page, Record, Sizes, Stamp, apply};

const KEY: &str = "m";

/// The client's decisions. `true` is the design.
#[derive(Clone, Copy, Debug)]
struct Session {
    has_overlay: bool,
    /// A linked page that is not there is read again; else the key counts as absent.
    is_missing_retried: bool,
    /// Own records stay in the overlay until an accepted page covers them; else until their
    /// checkpoint landed.
    is_overlaid_until_covered: bool,
}

const DESIGN: Session = Session {
    has_overlay: true,
    is_missing_retried: true,
    is_overlaid_until_covered: true,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// Versions of P and of Q, oldest first.
    left: Vec<u16>,
    right: Vec<u16>,
    others: u8,
    pending: Vec<Stamp>,
    overlay: Vec<Stamp>,
    clock: HybridClock,
    marks: Marks,
    own: Stamp,
    last: Stamp,
    writes: u8,
    reads: u8,
    broken: Option<&'static str>,
}

struct Sessions {
    session: Session,
    versions: Versions,
    sizes: Sizes,
    first: u16,
    /// What splits P: records of other keys.
    filler: Vec<Record>,
}

fn write(stamp: Stamp) -> Record {
    Record {
        key: KEY.into(),
        stamp,
        op: Op::Insert(inline("value")),
    }
}

fn by(client: u64, time: u64) -> Stamp {
    Stamp {
        time: HybridTime(time),
        client,
        sequence: 0,
    }
}

impl Sessions {
    fn new(session: Session) -> Self {
        let mut versions = Versions::with_lsn();
        let sizes = small();
        let filler: Vec<Record> = ["a", "b", "c", "d"]
            .map(|key| Record {
                key: key.into(),
                stamp: by(9, 1),
                op: Op::Insert(inline(vec![0; 60])),
            })
            .into();
        let page = edition(&mut 0, |edition| {
            let empty = Page::empty(Stamp::ZERO, edition);
            // P is not the root, so that it stays a leaf: the left half of an earlier split.
            let old = Record {
                key: "z".into(),
                ..filler[0].clone()
            };
            let old = [
                old,
                Record {
                    key: "zz".into(),
                    ..filler[1].clone()
                },
            ];
            let more = Record {
                key: "zzz".into(),
                ..filler[2].clone()
            };
            let records = [&old[..], &[more, filler[0].clone()]].concat();
            let change = apply(&empty, &records, HybridTime::ZERO, &sizes, edition).change;
            let created = change.expect("new records").created;
            let page = created
                .into_iter()
                .find(|(_, page)| page.contains(KEY.as_bytes()));
            page.expect("a leaf has the key").1
        });
        let first = versions.number(&page);
        Sessions {
            session,
            versions,
            sizes,
            first,
            filler,
        }
    }

    fn other_writes(state: &State, out: &mut Vec<(Label, State)>) {
        if state.others < 2 {
            let mut next = state.clone();
            next.others += 1;
            next.pending.push(by(2, 10 * u64::from(next.others) + 5));
            next.pending.sort_unstable();
            out.push((("other writes", u64::from(next.others)), next));
        }
    }

    fn session_writes(&self, state: &State, out: &mut Vec<(Label, State)>) {
        if state.writes == 2 {
            return;
        }
        let mut next = state.clone();
        next.writes += 1;
        // The session's wall clock stands at 0, far behind the other client's.
        let stamp = by(1, next.clock.tick(0).expect("time left").0);
        next.own = stamp;
        next.pending.push(stamp);
        next.pending.sort_unstable();
        if self.session.has_overlay {
            next.overlay.push(stamp);
        }
        if state.last >= stamp {
            next.broken = Some("a write is stamped below what the session has read");
        }
        out.push((("session writes", stamp.time.0), next));
    }

    fn checkpoint(&mut self, state: &State, out: &mut Vec<(Label, State)>) {
        for (index, stamp) in state.pending.iter().enumerate() {
            let mut next = state.clone();
            next.pending.remove(index);
            let home = if state.right.is_empty() {
                &mut next.left
            } else {
                &mut next.right
            };
            let page = self.versions.page(*home.last().expect("a version")).clone();
            let applied = edition(&mut 0, |edition| {
                apply(
                    &page,
                    &[write(*stamp)],
                    HybridTime::ZERO,
                    &Sizes::default(),
                    edition,
                )
            });
            assert!(applied.forwards.is_empty(), "the page has the key");
            if let Some(change) = applied.change {
                home.push(self.versions.number(&change.page));
            }
            if !self.session.is_overlaid_until_covered {
                next.overlay.retain(|own| own != stamp);
            }
            out.push((("checkpoint", stamp.time.0), next));
        }
    }

    fn split(&mut self, state: &State, out: &mut Vec<(Label, State)>) {
        if !state.right.is_empty() {
            return;
        }
        let page = self
            .versions
            .page(*state.left.last().expect("a version"))
            .clone();
        let applied = edition(&mut 0, |edition| {
            apply(&page, &self.filler, HybridTime::ZERO, &self.sizes, edition)
        });
        let change = applied.change.expect("new records");
        let right = change
            .created
            .iter()
            .find(|(_, page)| page.contains(KEY.as_bytes()));
        let right = &right.expect("the key moves to a created page").1;
        let mut next = state.clone();
        next.left.push(self.versions.number(&change.page));
        next.right.push(self.versions.number(right));
        out.push((("split", 0), next));
    }

    fn read(&self, state: &State, out: &mut Vec<(Label, State)>) {
        if state.reads == 3 {
            return;
        }
        let versions = state.left.iter().chain(&state.right);
        for version in versions {
            let page = self.versions.page(*version);
            // The version of P after the split leads to Q, any version of which may be seen.
            if !page.contains(KEY.as_bytes()) || !state.marks.accepts(page, KEY.as_bytes()) {
                continue;
            }
            let mut next = state.clone();
            next.reads += 1;
            next.marks.raise(page);
            let own: Vec<Record> = state.overlay.iter().copied().map(write).collect();
            let slot = page.overlay(KEY.as_bytes(), &own);
            let seen = slot.as_ref().newest().unwrap_or(Stamp::ZERO);
            if self.session.is_overlaid_until_covered {
                next.overlay.retain(|stamp| !page.covers(&write(*stamp)));
            }
            next.clock.observe(seen.time);
            if seen < state.last {
                next.broken = Some("monotonic reads are broken");
            } else if seen < state.own {
                next.broken = Some("read your writes is broken");
            }
            next.last = seen;
            out.push((("read", page.lsn()), next));
        }
        if !state.right.is_empty() && !self.session.is_missing_retried && state.last > Stamp::ZERO {
            let broken = Some("monotonic reads are broken");
            out.push((
                ("link to nothing", 0),
                State {
                    broken,
                    ..state.clone()
                },
            ));
        }
        let home = if state.right.is_empty() {
            &state.left
        } else {
            &state.right
        };
        let newest = self.versions.page(*home.last().expect("a version"));
        if !state.marks.accepts(newest, KEY.as_bytes()) {
            let broken = Some("the session refuses the newest version for ever");
            out.push((
                ("newest refused", newest.lsn()),
                State {
                    broken,
                    ..state.clone()
                },
            ));
        }
    }
}

type Label = (&'static str, u64);

impl Model for Sessions {
    type State = State;
    type Label = Label;

    fn init(&self) -> State {
        State {
            left: vec![self.first],
            right: Vec::new(),
            others: 0,
            pending: Vec::new(),
            overlay: Vec::new(),
            clock: HybridClock::new(),
            marks: Marks::new(),
            own: Stamp::ZERO,
            last: Stamp::ZERO,
            writes: 0,
            reads: 0,
            broken: None,
        }
    }

    fn next(&mut self, state: &State, out: &mut Vec<(Label, State)>) {
        Self::other_writes(state, out);
        self.session_writes(state, out);
        self.checkpoint(state, out);
        self.split(state, out);
        self.read(state, out);
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        state.broken
    }

    fn end(&self, _: &State) -> Option<&'static str> {
        None
    }
}

#[test]
fn all_session_guarantees_hold_over_a_split_and_old_versions() {
    let states = search(&mut Sessions::new(DESIGN)).states();
    println!("{states} states");
    assert!(states > 10_000, "{states} states");
}

#[test]
fn every_removed_decision_is_caught() {
    let mutants = [
        (
            "no overlay",
            Session {
                has_overlay: false,
                ..DESIGN
            },
        ),
        (
            "a missing page is an absent key",
            Session {
                is_missing_retried: false,
                ..DESIGN
            },
        ),
        (
            "overlay until landed",
            Session {
                is_overlaid_until_covered: false,
                ..DESIGN
            },
        ),
    ];
    for (name, session) in mutants {
        assert_caught(name, Sessions::new(session));
    }
}

#[cfg(feature = "mutants")]
#[test]
fn every_removed_rule_is_caught() {
    use crate::Guard;
    for guard in [
        Guard::Marks,
        Guard::Lineage,
        Guard::Covers,
        Guard::ObserveReads,
    ] {
        let model = Sessions::new(DESIGN);
        crate::without(guard, || assert_caught(&format!("{guard:?}"), model));
    }
}
