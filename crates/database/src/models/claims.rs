//! Model K of the checked protocols: a transaction too large for one message. It has a client, a
//! claim object, copies of the pointer, and two clients that receive them.
//!
//! Faults: the client may end at any step. A creation may have no answer, and land at any later
//! time or never. A pointer may be delivered again. The decisions are those of `claim.rs`.

use std::collections::{HashMap, VecDeque};

use crate::claim::{Fate, OnPointer, POINTER_RECEIVES, Standing, fate, on_pointer};
use crate::guard::Guards;

/// Creations that a client tries before it gives up.
const TRIES: u8 = 2;
/// Deliveries of a pointer that was not removed, or whose removal had no effect.
const REDELIVERIES: u8 = 1;

/// What clients do. `true` is the design.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// A pointer without a claim is dropped only after an abort occupies the name.
    is_occupied: bool,
    /// Abort claims stay; else they go with their pointer.
    are_aborts_kept: bool,
    /// The pointer is sent before the claim is created.
    is_pointer_first: bool,
    /// A client remembers that a creation had no answer.
    are_unanswered_kept: bool,
    /// A claim goes only after its records were sent on and its pointer was removed.
    is_freed_last: bool,
}

const DESIGN: Rules = Rules {
    is_occupied: true,
    are_aborts_kept: true,
    is_pointer_first: true,
    are_unanswered_kept: true,
    is_freed_last: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    Begun,
    PointerSent,
    /// It waits for the answer of a creation.
    Creating,
    /// A creation had no answer.
    Unanswered,
    /// A creation was refused.
    Refused,
    /// Without `is_pointer_first`: created, the pointer is still to be sent.
    Created,
    Told(Fate),
    Dead,
}

/// One that received the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Adopter {
    Idle,
    /// It read the claim.
    Saw(Standing),
    /// It sent the records on.
    Sent,
    /// The pointer is removed; the claim is to be freed.
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    client: Client,
    tries: u8,
    any_unanswered: bool,
    /// Creations without an answer that may still land.
    under_way: u8,
    claim: Standing,
    pointers: u8,
    redeliveries: u8,
    adopters: [Adopter; 2],
    is_sent_on: bool,
}

const FIRST: State = State {
    client: Client::Begun,
    tries: 0,
    any_unanswered: false,
    under_way: 0,
    claim: Standing::Nothing,
    pointers: 0,
    redeliveries: REDELIVERIES,
    adopters: [Adopter::Idle; 2],
    is_sent_on: false,
};

type Steps = Vec<(&'static str, State)>;

/// Creates what is not there; whether that landed.
fn create(state: &mut State, what: Standing) -> bool {
    let is_free = state.claim == Standing::Nothing;
    if is_free {
        state.claim = what;
    }
    is_free
}

/// The creation of a claim: it is answered, its answer is lost, or it lands later.
fn creation(rules: Rules, state: State, out: &mut Steps) {
    let mut next = state;
    next.client = match create(&mut next, Standing::Transaction) {
        true if rules.is_pointer_first => Client::Told(Fate::Committed),
        true => Client::Created,
        false => Client::Refused,
    };
    out.push(("the creation is answered", next));
    let mut next = state;
    create(&mut next, Standing::Transaction);
    (next.client, next.any_unanswered) = (Client::Unanswered, rules.are_unanswered_kept);
    out.push(("the answer of the creation is lost", next));
    let next = State {
        client: Client::Unanswered,
        any_unanswered: rules.are_unanswered_kept,
        under_way: state.under_way + 1,
        ..state
    };
    out.push(("the creation is late", next));
}

fn client(rules: Rules, state: State, out: &mut Steps) {
    let step = |out: &mut Steps, name, client: Client, change: &dyn Fn(&mut State)| {
        let mut next = State { client, ..state };
        change(&mut next);
        out.push((name, next));
    };
    match state.client {
        Client::Begun if rules.is_pointer_first => {
            step(out, "sends the pointer", Client::PointerSent, &|next| {
                next.pointers += 1
            });
        }
        Client::Begun | Client::PointerSent => {
            step(out, "creates the claim", Client::Creating, &|next| {
                next.tries += 1
            });
        }
        Client::Creating => creation(rules, state, out),
        Client::Unanswered if state.tries < TRIES => {
            step(out, "creates the claim again", Client::Creating, &|next| {
                next.tries += 1
            });
        }
        Client::Unanswered => {
            let mut next = state;
            create(&mut next, Standing::Abort);
            next.client = Client::Told(fate(next.claim, next.any_unanswered));
            out.push(("gives up", next));
        }
        Client::Refused => {
            let told = fate(state.claim, state.any_unanswered);
            step(out, "looks at the claim", Client::Told(told), &|_| ());
        }
        Client::Created => {
            step(
                out,
                "is told, and sends the pointer",
                Client::Told(Fate::Committed),
                &|next| {
                    next.pointers += 1;
                },
            );
            step(
                out,
                "is told, and ends",
                Client::Told(Fate::Committed),
                &|_| (),
            );
        }
        Client::Told(_) | Client::Dead => return,
    }
    if !matches!(state.client, Client::Created) {
        // What it sent last may still land.
        let late = u8::from(matches!(state.client, Client::Creating));
        step(out, "the client ends", Client::Dead, &|next| {
            next.under_way += late
        });
    }
}

/// An adopter that saw a pointer and this claim: it occupies the name, sends on or drops.
fn seen(rules: Rules, state: State, at: usize, found: Standing, out: &mut Steps) {
    let step = |out: &mut Steps, name, adopter: Adopter, change: &dyn Fn(&mut State)| {
        let mut next = state;
        next.adopters[at] = adopter;
        change(&mut next);
        out.push((name, next));
    };
    let remove = |next: &mut State| next.pointers = next.pointers.saturating_sub(1);
    let on_pointer = on_pointer(found, POINTER_RECEIVES, Guards::default());
    match on_pointer {
        OnPointer::Wait => unreachable!("it is the last receive"),
        OnPointer::Occupy if rules.is_occupied => {
            let mut next = state;
            create(&mut next, Standing::Abort);
            next.adopters[at] = Adopter::Saw(next.claim);
            out.push(("occupies the name", next));
        }
        OnPointer::SendOn => {
            step(out, "sends on", Adopter::Sent, &|next| {
                next.is_sent_on = true
            });
            if !rules.is_freed_last {
                step(
                    out,
                    "frees the claim before it sends on",
                    Adopter::Idle,
                    &|next| {
                        next.claim = Standing::Nothing;
                    },
                );
            }
        }
        OnPointer::Occupy | OnPointer::Drop => {
            step(out, "drops the pointer", Adopter::Idle, &|next| {
                remove(next);
                if !rules.are_aborts_kept && next.claim == Standing::Abort {
                    next.claim = Standing::Nothing;
                }
            });
        }
    }
}

fn adopter(rules: Rules, state: State, at: usize, out: &mut Steps) {
    let step = |out: &mut Steps, name, adopter: Adopter, change: &dyn Fn(&mut State)| {
        let mut next = state;
        next.adopters[at] = adopter;
        change(&mut next);
        out.push((name, next));
    };
    let remove = |next: &mut State| next.pointers = next.pointers.saturating_sub(1);
    match state.adopters[at] {
        Adopter::Idle if 0 < state.pointers => {
            step(
                out,
                "receives the pointer",
                Adopter::Saw(state.claim),
                &|_| (),
            );
        }
        Adopter::Idle => {}
        Adopter::Saw(found) => seen(rules, state, at, found, out),
        Adopter::Sent => {
            step(out, "removes the pointer", Adopter::Removed, &remove);
            if 0 < state.redeliveries {
                step(
                    out,
                    "removes a pointer that comes again",
                    Adopter::Removed,
                    &|next| {
                        next.redeliveries -= 1;
                    },
                );
            }
        }
        Adopter::Removed => {
            step(out, "frees the claim", Adopter::Idle, &|next| {
                next.claim = Standing::Nothing
            });
        }
    }
    if state.adopters[at] != Adopter::Idle {
        step(out, "an adopter ends", Adopter::Idle, &|_| ());
    }
}

fn next(rules: Rules, state: State) -> Steps {
    let mut out = Steps::new();
    client(rules, state, &mut out);
    for at in 0..state.adopters.len() {
        adopter(rules, state, at, &mut out);
    }
    if 0 < state.under_way {
        let mut next = State {
            under_way: state.under_way - 1,
            ..state
        };
        create(&mut next, Standing::Transaction);
        out.push(("a late creation lands", next));
    }
    out
}

fn violation(state: &State) -> Option<&'static str> {
    let holds = |adopter| adopter == Adopter::Saw(Standing::Transaction);
    let is_reachable = state.claim == Standing::Transaction && 0 < state.pointers
        || state.adopters.into_iter().any(holds);
    match state.client {
        Client::Told(Fate::Committed) if !state.is_sent_on && !is_reachable => {
            Some("CLAIM-1: a committed transaction can never be sent on")
        }
        Client::Told(Fate::GivenUp) if state.is_sent_on => {
            Some("CLAIM-2: a transaction that was given up took effect")
        }
        _ => None,
    }
}

/// Every state, breadth first: their number, or the rule and the shortest trace.
fn search(rules: Rules) -> Result<usize, String> {
    let mut from: HashMap<State, Option<(State, &'static str)>> = HashMap::from([(FIRST, None)]);
    let mut queue = VecDeque::from([FIRST]);
    while let Some(state) = queue.pop_front() {
        if let Some(what) = violation(&state) {
            let (mut trace, mut at) = (Vec::new(), state);
            while let Some((before, step)) = from[&at] {
                trace.push(step);
                at = before;
            }
            trace.reverse();
            return Err(format!("{what}: {}", trace.join(" -> ")));
        }
        for (step, next) in next(rules, state) {
            from.entry(next).or_insert_with(|| {
                queue.push_back(next);
                Some((state, step))
            });
        }
    }
    Ok(from.len())
}

#[test]
fn a_claim_commits_once_or_never() {
    let states = search(DESIGN).unwrap_or_else(|trace| panic!("{trace}"));
    println!("{states} states");
    assert!(1_000 < states, "{states} states");
}

/// It shows CLAIM-1, CLAIM-2, ATOMIC-2 and DB-8.
#[test]
fn every_removed_rule_of_claims_is_caught() {
    let mutants = [
        (
            "no abort claim",
            Rules {
                is_occupied: false,
                ..DESIGN
            },
        ),
        (
            "abort claims go",
            Rules {
                are_aborts_kept: false,
                ..DESIGN
            },
        ),
        (
            "the claim before its pointer",
            Rules {
                is_pointer_first: false,
                ..DESIGN
            },
        ),
        (
            "creations without an answer are forgotten",
            Rules {
                are_unanswered_kept: false,
                ..DESIGN
            },
        ),
        (
            "a claim is freed before its records are sent on",
            Rules {
                is_freed_last: false,
                ..DESIGN
            },
        ),
    ];
    for (name, rules) in mutants {
        match search(rules) {
            Ok(states) => panic!("{name} is not caught in {states} states"),
            Err(trace) => println!("caught: {name}: {trace}"),
        }
    }
}
