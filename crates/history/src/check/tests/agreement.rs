//! On random histories `registers`, `search` and a search that tries everything say the same.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::brute;
use super::story::{Story, at};
use crate::check::{Fault, every_level, registers, search};
use crate::object::{Operation, Outcome, Reply, Value, Verb};
use crate::{Rules, check::search::objects};

const EFFORT: usize = 1_000_000;

/// What may happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Register,
    Swaps,
    Set,
    Counter,
    Queue,
}

fn below(random: &mut ChaCha8Rng, end: u64) -> u64 {
    random.next_u64() % end
}

/// A history of up to seven operations: some order explains the answers, unless a lie was told.
fn history(seed: u64, kind: Kind) -> Story {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let count = 1 + below(random, 7);
    let mut acts: Vec<(u64, Operation)> = Vec::new();
    let mut story = Story::default();
    for number in 0..count {
        let called = below(random, 12);
        let returned = called + below(random, 8);
        let verb = verb(random, kind, number);
        story = story.ask(1, (called, returned), verb, Outcome::Unknown);
        let acts_at = called + below(random, returned - called + 1);
        acts.push((acts_at, story.last().clone()));
    }
    acts.sort_by_key(|(acts_at, _)| *acts_at);
    let mut state = match kind {
        Kind::Register | Kind::Swaps => Value::None,
        Kind::Set | Kind::Queue => Value::List(Vec::new()),
        Kind::Counter => Value::Number(0),
    };
    let mut late: Vec<Verb> = Vec::new();
    for (_, operation) in &mut acts {
        // What was not answered may act much later.
        if !late.is_empty() && below(random, 3) == 0 {
            let _ = act(&mut state, &late.remove(0));
        }
        let verb = operation.action.verb.clone();
        let outcome = match below(random, 8) {
            0 if verb != Verb::Read => {
                late.push(verb);
                Outcome::Unknown
            }
            1 => Outcome::Unknown,
            2 => Outcome::Refused("busy".into()),
            _ => {
                let mut reply = act(&mut state, &verb);
                if below(random, 8) == 0 {
                    lie(random, &mut reply);
                }
                Outcome::Done(reply)
            }
        };
        if outcome == Outcome::Unknown && below(random, 2) == 0 {
            operation.end = None;
        } else if let Some((_, end)) = &mut operation.end {
            *end = outcome;
        }
    }
    story.0.operations = acts.into_iter().map(|(_, operation)| operation).collect();
    story
}

fn verb(random: &mut ChaCha8Rng, kind: Kind, number: u64) -> Verb {
    let number = i64::try_from(number).expect("few operations");
    let some = || Value::from(number % 3);
    match (kind, below(random, 3)) {
        (Kind::Queue, 0) => Verb::Pop,
        (Kind::Queue, _) => Verb::Push(some()),
        (_, 0) => Verb::Read,
        (Kind::Register, _) => Verb::Write((number + 1).into()),
        (Kind::Swaps, 1) => Verb::Write(some()),
        (Kind::Swaps, _) => {
            let from = if number == 0 {
                Value::None
            } else {
                Value::from((number + 1) % 3)
            };
            Verb::Swap { from, to: some() }
        }
        (Kind::Set, 1) => Verb::Add(some()),
        (Kind::Set, _) => Verb::Remove(some()),
        (Kind::Counter, _) => Verb::Increment(1 + number % 2),
    }
}

/// Does what is asked, and answers.
fn act(state: &mut Value, verb: &Verb) -> Reply {
    match (verb, state) {
        (Verb::Read, state) => Reply::shows(state.clone()),
        (Verb::Write(value), state) => {
            *state = value.clone();
            Reply::default()
        }
        (Verb::Swap { from, to }, state) => {
            if *state != *from {
                return Reply::unmet();
            }
            *state = to.clone();
            Reply::default()
        }
        (Verb::Add(value), Value::List(values)) => {
            if !values.contains(value) {
                values.push(value.clone());
                values.sort();
            }
            Reply::default()
        }
        (Verb::Remove(value), Value::List(values)) => {
            values.retain(|known| known != value);
            Reply::default()
        }
        (Verb::Push(value), Value::List(values)) => {
            values.push(value.clone());
            Reply::default()
        }
        (Verb::Pop, Value::List(values)) if values.is_empty() => Reply::shows(Value::None),
        (Verb::Pop, Value::List(values)) => Reply::shows(values.remove(0)),
        (Verb::Increment(by), Value::Number(count)) => {
            *count += by;
            Reply::shows((*count).into())
        }
        (verb, state) => unreachable!("{verb:?} of {state:?}"),
    }
}

fn lie(random: &mut ChaCha8Rng, reply: &mut Reply) {
    let number = i64::try_from(below(random, 8)).expect("small");
    match &mut reply.shown {
        Some(Value::List(values)) if values.is_empty() => values.push(1.into()),
        Some(Value::List(values)) => drop(values.pop()),
        Some(Value::Number(shown)) => *shown = number,
        Some(shown) => *shown = number.into(),
        None => reply.is_unmet ^= true,
    }
}

/// Whether the log is linearizable, by every means that can judge it.
fn agree(seed: u64, kind: Kind) -> bool {
    let story = history(seed, kind);
    let rules = Rules::default();
    let log = &story.0;
    let expected = objects::of_log(log, &every_level, &rules)
        .values()
        .all(|(objects, _)| brute::is_possible(objects, &objects.operations));
    let searched = search(log, &every_level, EFFORT, &rules);
    assert_eq!(
        searched.is_ok(),
        expected,
        "search: seed {seed}, {kind:?}: {story:#?}"
    );
    if let Ok(searched) = searched {
        assert_eq!(
            searched.given_up, 0,
            "search gave up: seed {seed}, {kind:?}"
        );
    }
    if kind == Kind::Register {
        let judged = registers(log, &every_level, &rules);
        assert_eq!(
            judged.is_ok(),
            expected,
            "registers: seed {seed}: {story:#?}"
        );
        if let Err(Fault::Violated(violation)) = judged {
            is_enough(&story, &violation.operations, seed);
        }
    }
    expected
}

/// The operations that a violation names have no order themselves.
fn is_enough(story: &Story, places: &[usize], seed: u64) {
    let mut less = story.clone();
    less.0.operations = places
        .iter()
        .map(|at| story.0.operations[*at].clone())
        .collect();
    let judged = registers(&less.0, &every_level, &Rules::default());
    assert!(judged.is_err(), "seed {seed}: {less:#?}");
    assert!(places.len() <= 6, "seed {seed}: {places:?}");
}

/// Judges histories of these seeds; both verdicts must be frequent.
fn run(seeds: std::ops::Range<u64>, kind: Kind) {
    let count = seeds.end - seeds.start;
    let good = seeds.filter(|seed| agree(*seed, kind)).count() as u64;
    assert!(
        count / 10 < good && good < count - count / 50,
        "{kind:?}: {good} of {count}"
    );
}

#[test]
fn registers_agree_with_trying_everything() {
    run(0..4_000, Kind::Register);
}

#[test]
fn the_search_agrees_with_trying_everything() {
    for kind in [Kind::Swaps, Kind::Set, Kind::Counter, Kind::Queue] {
        run(0..1_000, kind);
    }
}

/// All of them: `cargo test --release -p fader-history -- --ignored`.
#[test]
#[ignore = "takes a minute"]
fn a_hundred_thousand_histories() {
    run(0..100_000, Kind::Register);
    for kind in [Kind::Swaps, Kind::Set, Kind::Counter, Kind::Queue] {
        run(0..100_000, kind);
    }
}

#[test]
fn a_spent_effort_is_no_verdict() {
    let mut story = Story::default();
    for number in 0..12 {
        story = story.done(number, (0, 10), Verb::Push(i64::from(number).into()));
    }
    story = story.shows(99, (11, 12), Verb::Pop, 100.into());
    let searched = search(&story.0, &every_level, 50, &Rules::default());
    let searched = searched.expect("no verdict is no violation");
    assert_eq!((searched.ordered, searched.given_up), (0, 13));
    assert_eq!(story.last().called, at(11));
}
