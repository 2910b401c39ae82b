//! Histories that have an order and histories that have none; and agreement with a search that
//! tries everything.

mod brute;

use fader_chain::{EntryId, Stamp};
use proptest::prelude::*;

use super::super::tests::story::{SERVICE, Story, add, clear, eventual, get, id, put, remove};
use super::*;
use crate::history::{Condition, Level, Outcome, Refusal, Reply, Request};
use crate::service::Answer;

const EFFORT: usize = 100_000;

#[track_caller]
fn ordered(story: &Story, operations: usize) {
    let searched = match search(&story.history, SERVICE, EFFORT) {
        Ok(searched) => searched,
        Err(violation) => panic!("{violation}"),
    };
    assert_eq!((searched.ordered, searched.given_up), (operations, 0));
}

#[track_caller]
fn impossible(story: &Story) -> Violation {
    let searched = search(&story.history, SERVICE, EFFORT);
    searched.expect_err("no order should explain this")
}

#[test]
fn reads_see_writes() {
    let mut story = Story::new();
    let first = story.write("x", &[add("1")]);
    story.read(Level::Strong, "x", first, &[]);
    let second = story.write("x", &[clear(), add("2")]);
    story.read(Level::Strong, "x", second, &[]);
    ordered(&story, 4);
    story.read(Level::Strong, "x", first, &[]);
    let violation = impossible(&story);
    assert_eq!(violation.guarantee, "G1 (search)");
    let text = "after 2 answers none of the others can be next, with {x a=2}";
    assert_eq!(violation.explanation, text);
    assert_eq!(violation.operations, [4]);
}

/// What overlaps may be seen in either order, but in one order by all.
#[test]
fn overlapping_writes() {
    let mut story = Story::new();
    let one = story.ask(1, Level::Strong, put("x", &[clear(), add("1")]));
    let two = story.ask(1, Level::Strong, put("x", &[clear(), add("2")]));
    let second = story.commit(two);
    let first = story.commit(one);
    story.answer(one, first);
    story.answer(two, second);
    story.read(Level::Strong, "x", first, &[]);
    ordered(&story, 3);
    story.read(Level::Strong, "x", second, &[]);
    impossible(&story);
}

#[test]
fn unknown_outcomes_act_later_or_never() {
    let mut story = Story::new();
    let call = story.ask(1, Level::Strong, put("x", &[clear(), add("1")]));
    story.end(call, Outcome::Unknown);
    story.read(Level::Strong, "x", EntryId::ZERO, &[]);
    ordered(&story, 2);
    let entry = story.commit(call);
    story.read(Level::Strong, "x", entry, &[]);
    ordered(&story, 3);
    // As a whole, and once.
    let replaced = story.write("x", &[clear(), add("2")]);
    story.read(Level::Strong, "x", replaced, &[]);
    ordered(&story, 5);
    story.read(Level::Strong, "x", entry, &[]);
    impossible(&story);
}

#[test]
fn refused_calls_never_act() {
    let mut story = Story::new();
    let call = story.ask(1, Level::Strong, put("x", &[add("1")]));
    story.end(call, Outcome::Refused(Refusal::Said("not the head")));
    let entry = story.commit(call);
    story.read(Level::Strong, "x", entry, &[]);
    impossible(&story);
}

/// A retry is the same operation: it acts once.
#[test]
fn a_retry_acts_once() {
    let retried = |is_named: bool| {
        let mut story = Story::new();
        let call = story.ask(1, Level::Strong, put("x", &[add("1")]));
        story.end(call, Outcome::Unknown);
        let entry = story.commit(call);
        let removed = story.write("x", &[remove("1")]);
        let retry = story.ask(1, Level::Strong, put("x", &[add("1")]));
        if is_named {
            story.history.calls[retry].name = story.history.calls[call].name;
        }
        story.answer(retry, entry);
        story.read(Level::Strong, "x", removed, &[]);
        story
    };
    ordered(&retried(true), 3);
    impossible(&retried(false));
}

/// Section 6 of semantics.md: a Replace of which a part was superseded.
#[test]
fn eventual_operations_act_in_part() {
    let mut story = Story::new();
    let first = story.write("x", &[add("z")]);
    let (call, stamp) = story.put_eventually("x", &[clear(), add("y")], (first, 3), &[2]);
    let second = story.write("x", &[add("x")]);
    story.read(Level::Strong, "x", second, &[]);
    let settled = story.settle(call, stamp);
    story.read(Level::Strong, "x", settled, &[]);
    ordered(&story, 5);
    // At one place: what it removed there does not come back.
    story.read(Level::Strong, "x", second, &[]);
    impossible(&story);
}

#[test]
fn eventual_operations_act_at_one_place() {
    let mut story = Story::new();
    let (_, stamp) = story.put_eventually("x", &[add("1"), add("2")], (id(1, 0), 3), &[2]);
    story.read(Level::Strong, "x", EntryId::ZERO, &[(stamp, add("1"))]);
    ordered(&story, 2);
    story.read(
        Level::Strong,
        "x",
        EntryId::ZERO,
        &[(stamp, add("1")), (stamp, add("2"))],
    );
    impossible(&story);
}

#[test]
fn nothing_is_shown_before_it_is_asked_for() {
    let mut story = Story::new();
    let stamp = Stamp::strong(id(1, 1));
    story.read(Level::Strong, "x", EntryId::ZERO, &[(stamp, add("1"))]);
    story.ask(1, eventual(1), put("x", &[add("1")]));
    story.ask(1, Level::Strong, put("x", &[add("1")]));
    impossible(&story);
}

/// TRACE-6: absence recurs; a condition sees an eventual write only where that has settled.
#[test]
fn conditions() {
    let create = |story: &mut Story, answer: Answer| {
        let request = Request {
            conditions: vec![("x".into(), Condition::Absent)],
            ..put("x", &[add("1")])
        };
        let call = story.ask(1, Level::Strong, request);
        let result = answer.encode();
        let entry = id(1, 9 + call as u64);
        story.end(call, Outcome::Done(Reply::Decided { entry, result }));
    };
    let done = Answer::Done(Vec::new());
    let mut story = Story::new();
    create(&mut story, done.clone());
    create(&mut story, Answer::ConditionFailed);
    ordered(&story, 2);
    create(&mut story, done.clone());
    impossible(&story);
    let mut story = Story::new();
    create(&mut story, Answer::ConditionFailed);
    impossible(&story);
    let mut story = Story::new();
    story.ask(1, eventual(1), put("x", &[add("7")]));
    create(&mut story, Answer::ConditionFailed);
    ordered(&story, 2);
    create(&mut story, done.clone());
    impossible(&story);
    // What removes the last value may be superseded in what it adds.
    let mut story = Story::new();
    story.write("x", &[add("7")]);
    story.ask(1, eventual(1), put("x", &[clear(), add("8")]));
    create(&mut story, done);
    ordered(&story, 3);
}

#[test]
fn versions_and_limits() {
    let replace = |story: &mut Story, version: EntryId, answer: Answer| {
        let request = Request {
            conditions: vec![("x".into(), Condition::Version(version))],
            ..put("x", &[clear(), add("9")])
        };
        let call = story.ask(1, Level::Strong, request);
        let (entry, result) = (id(1, 90), answer.encode());
        story.end(call, Outcome::Done(Reply::Decided { entry, result }));
    };
    let run = |version: EntryId, answer: Answer| {
        let mut story = Story::new();
        story.write("x", &[add("1")]);
        story.write("x", &[add("2")]);
        replace(&mut story, version, answer);
        story
    };
    ordered(&run(id(1, 2), Answer::Done(Vec::new())), 3);
    ordered(&run(id(1, 1), Answer::ConditionFailed), 3);
    impossible(&run(id(1, 1), Answer::Done(Vec::new())));
    impossible(&run(id(1, 2), Answer::ConditionFailed));
    let mut story = Story::new();
    story.write("x", &[add("1"), add("2"), add("3")]);
    story.write("x", &[add("4")]);
    ordered(&story, 2);
    let call = story.ask(1, Level::Strong, put("x", &[add("5")]));
    let (entry, result) = (id(1, 3), Answer::Done(Vec::new()).encode());
    story.end(call, Outcome::Done(Reply::Decided { entry, result }));
    impossible(&story);
}

/// A mini-transaction ties registers together: what it does to both is seen of both.
#[test]
fn two_registers_change_as_one() {
    let mut story = Story::new();
    let mut request = put("x", &[add("1")]);
    request.writes.extend(put("y", &[add("1")]).writes);
    let call = story.ask(1, Level::Strong, request);
    story.end(call, Outcome::Unknown);
    let entry = story.commit(call);
    story.read(Level::Strong, "x", entry, &[]);
    story.read(Level::Strong, "y", entry, &[]);
    ordered(&story, 3);
    story.read(Level::Strong, "y", EntryId::ZERO, &[]);
    let violation = impossible(&story);
    assert_eq!(violation.operations, [0, 1, 3]);
}

#[test]
fn giving_up_is_said() {
    let mut story = Story::new();
    for value in ["1", "2", "3"] {
        story.ask(1, Level::Strong, put("x", &[add(value)]));
    }
    story.read(
        Level::Strong,
        "x",
        EntryId::ZERO,
        &[(Stamp::ZERO, add("4"))],
    );
    let searched = search(&story.history, SERVICE, 4);
    let expected = Searched {
        ordered: 0,
        given_up: 4,
    };
    assert_eq!(searched, Ok(expected));
    impossible(&story);
}

#[test]
fn registers_are_apart() {
    let mut story = Story::new();
    let first = story.write("x", &[add("1")]);
    story.write("y", &[add("1")]);
    let call = story.ask(2, Level::Strong, get("x"));
    story.show(call, first, &[]);
    ordered(&story, 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// The search finds an order exactly if trying everything does.
    #[test]
    fn agrees_with_trying_everything(plans in prop::collection::vec(brute::plan(), 1..7)) {
        let history = brute::run(&plans, SERVICE);
        let searched = search(&history, SERVICE, EFFORT);
        let expected = brute::is_possible(&history, SERVICE);
        prop_assert_eq!(searched.is_ok(), expected, "{:?}", searched);
        prop_assert_eq!(searched.map_or(0, |searched| searched.given_up), 0);
    }
}
