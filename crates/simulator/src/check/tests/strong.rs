//! Strong operations: agreement, names, decisions, the ledger, linearizability, bounds.

use bytes::Bytes;
use expect_test::expect;
use fader_chain::{EntryId, NodeId, Stamp};

use super::story::{Story, add, clear, get, id, put, remove};
use crate::history::*;
use crate::service::Answer;

#[test]
fn a_run_in_which_everything_is_as_it_should_be() {
    let mut story = Story::new();
    let first = story.write("x", &[add("1")]);
    story.read(Level::Strong, "x", first, &[]);
    let second = story.write("x", &[clear(), add("2")]);
    story.read(Level::Strong, "x", second, &[]);
    story.read(Level::Strong, "y", second, &[]);
    story.rest();
    assert_eq!(story.holds("agreement"), 2);
    assert_eq!(story.holds("names"), 2);
    assert_eq!(story.holds("decisions"), 4);
    assert_eq!(story.holds("ledger"), 5);
    assert_eq!(story.holds("linear"), 5);
    assert_eq!(story.holds("stamps"), 3);
    assert_eq!(story.holds("rest"), 6);
}

/// TRACE-4: star wiring, confirmation by index: B commits (2,1) where C has committed (1,1).
#[test]
fn two_entries_at_one_index() {
    let mut story = Story::new();
    story.write("x", &[add("1")]);
    let mut other = Story::new();
    other.publish(&[(2, 1), (3, 1)]);
    other.write("x", &[add("2")]);
    let shift = Moment {
        nanos: 1_000_000_000,
        step: 1000,
    };
    for mut event in other.history.events {
        event.at.nanos += shift.nanos;
        event.at.step += shift.step;
        if matches!(event.fact, Fact::Committed { .. }) {
            story.history.events.push(event);
        }
    }
    expect![[r#"
        I3 violated: 1.1 and 2.1 are both committed
          3.000ms#3 n1 commits 1.1 after 0.0 as 1:1 x [+a=1] (#pairs derived) \x01\x00
          1004.000ms#1004 n2 commits 2.1 after 0.0 as 1:1 x [+a=2] (#pairs derived) \x01\x00"#]]
    .assert_eq(&story.violates("I3"));
}

/// It shows ENTRY-1.
#[test]
fn an_entry_that_follows_nothing_committed() {
    let mut story = Story::new();
    let first = story.write("x", &[add("1")]);
    story.write("x", &[add("2")]);
    let is_first = |event: &Event| match &event.fact {
        Fact::Committed { entry, .. } => entry.id == first,
        _ => false,
    };
    story.history.events.retain(|event| !is_first(event));
    story.violates("I3");
}

/// TRACE-6 (b), `dedupe`: a request that arrives again takes effect again.
#[test]
fn a_name_takes_effect_twice() {
    let mut story = Story::new();
    let call = story.ask(1, Level::Strong, put("x", &[add("1")]));
    story.commit(call);
    let again = story.commit(call);
    story.answer(call, again);
    story.violates("I12");
}

/// A status other than 5xx is a promise.
#[test]
fn a_refused_name_takes_effect() {
    let mut story = Story::new();
    let call = story.ask(1, Level::Strong, put("x", &[add("1")]));
    story.end(call, Outcome::Refused(Refusal::Said("not serving")));
    story.commit(call);
    story.violates("semantics.md 10");
    // Asked again under its name, it may.
    let again = story.ask(1, Level::Strong, put("x", &[add("1")]));
    story.history.calls[again].name = story.history.calls[call].name;
    assert_eq!(story.holds("names"), 1);
}

fn create(story: &mut Story) -> usize {
    let request = Request {
        conditions: vec![("x".into(), Condition::Absent)],
        ..put("x", &[add("1")])
    };
    story.ask(1, Level::Strong, request)
}

#[test]
fn a_condition_is_decided_on_the_log_before_it() {
    let mut story = Story::new();
    let created = create(&mut story);
    let refused = create(&mut story);
    let first = story.commit(created);
    let second = story.commit(refused);
    story.answer(created, first);
    story.answer(refused, second);
    assert_eq!(story.holds("decisions"), 4);
}

/// TRACE-6, `decide_logged`: decided on the committed prefix, both succeed.
#[test]
fn two_conditions_succeed_on_one_version() {
    let mut story = Story::new();
    let calls = [create(&mut story), create(&mut story)];
    let first = story.commit(calls[0]);
    let writes = story.history.calls[calls[1]].request.writes.clone();
    let name = story.name(calls[1]);
    let second = story.append(None, Some(name), Answer::Done(Vec::new()).encode(), &writes);
    story.answer(calls[0], first);
    story.answer(calls[1], second);
    story.violates("I11");
}

/// TRACE-6, `no_waits_commit`: "no" because of an entry that dies with its head.
#[test]
fn a_no_that_is_no_entry() {
    let mut story = Story::new();
    let call = create(&mut story);
    let reply = Reply::Decided {
        entry: id(1, 1),
        result: Answer::ConditionFailed.encode(),
    };
    story.end(call, Outcome::Done(reply));
    story.violates("I6");
    story.write("x", &[add("1")]);
    story.violates("I11");
}

#[test]
fn a_reply_before_the_commit() {
    let mut story = Story::new();
    let call = story.ask(1, Level::Strong, put("x", &[add("1")]));
    let reply = Reply::Decided {
        entry: id(1, 1),
        result: Answer::Done(Vec::new()).encode(),
    };
    story.end(call, Outcome::Done(reply));
    story.commit(call);
    story.violates("I11");
}

#[test]
fn a_reply_that_is_not_what_was_committed() {
    let mut story = Story::new();
    let call = story.ask(1, Level::Strong, put("x", &[add("1")]));
    let entry = story.commit(call);
    let result = Answer::ConditionFailed.encode();
    story.end(call, Outcome::Done(Reply::Decided { entry, result }));
    story.violates("I11");
}

/// SDB-5.6: the counter of an entry does not build on the entry before.
#[test]
fn a_derived_key_that_miscounts() {
    let mut story = Story::new();
    story.write("x", &[add("1")]);
    for event in &mut story.history.events {
        if let Fact::Committed { entry, .. } = &mut event.fact {
            let mut changed = entry.as_ref().clone();
            let put = changed.changes.pop().expect("the derived key");
            let key = put.key().clone();
            let value = crate::service::pairs_value(7);
            changed
                .changes
                .push(fader_chain::Change::Put { key, value });
            *entry = std::sync::Arc::new(changed);
        }
    }
    story.violates("SDB-5.2");
}

/// I6, `sync_before_serving`: a member serves in a later epoch without an acknowledged entry.
#[test]
fn a_member_that_lacks_what_was_acknowledged() {
    let ready = |last: EntryId| {
        let mut story = Story::new();
        let _ = story.write("x", &[add("1")]);
        story.publish(&[(2, 1), (3, 1)]);
        story.fact(Fact::Ready {
            node: NodeId(2),
            epoch: 2,
            last,
        });
        story
    };
    assert_eq!(ready(id(1, 1)).holds("ledger"), 1);
    ready(EntryId::ZERO).violates("I6");
}

#[test]
fn a_member_that_rests_without_what_was_acknowledged() {
    let mut story = Story::new();
    story.write("x", &[add("1")]);
    story.rest();
    story.history.rest[2].applied = EntryId::ZERO;
    story.violates("I6");
}

/// TRACE-1, TRACE-2, TRACE-5, TRACE-14: a member that is not the commit point answers with the
/// past, after another has shown what is newer.
#[test]
fn a_read_shows_the_past() {
    let mut story = Story::new();
    let call = story.ask(1, Level::Strong, put("x", &[add("1")]));
    let entry = story.commit(call);
    story.read(Level::Strong, "x", entry, &[]);
    story.read(Level::Strong, "x", EntryId::ZERO, &[]);
    let violation = story.violates("G1");
    let lines: Vec<&str> = violation.lines().collect();
    let text = "in the log after place 0, though it began when one after place 1 had ended";
    assert_eq!(lines[0], format!("G1 violated: {text}"));
    assert!(
        lines[1].contains("get x as 1:2 => 7.000ms#7 shows at 1.1"),
        "{violation}"
    );
    assert!(
        lines[2].contains("get x as 1:3 => 9.000ms#9 shows at 0.0"),
        "{violation}"
    );
    assert_eq!(lines.len(), 3);
}

/// A write is ordered before a read that ended before it was asked for.
#[test]
fn a_write_before_its_time() {
    let mut story = Story::new();
    let early = story.ask(1, Level::Strong, put("x", &[add("1")]));
    let entry = story.commit(early);
    story.read(Level::Strong, "x", entry, &[]);
    let now = story.tick();
    story.history.calls[early].invoked = now;
    story.violates("G1");
}

/// Two reads that overlap may show two states in either order.
#[test]
fn overlapping_reads_may_differ() {
    let mut story = Story::new();
    let first = story.ask(2, Level::Strong, get("x"));
    let entry = story.write("x", &[add("1")]);
    story.read(Level::Strong, "x", entry, &[]);
    story.show(first, EntryId::ZERO, &[]);
    assert_eq!(story.holds("linear"), 3);
}

/// `read_committed`: what is shown is not the state at the place that it claims.
#[test]
fn a_read_that_is_no_prefix() {
    let mut story = Story::new();
    let first = story.write("x", &[add("1")]);
    let second = story.write("x", &[clear(), add("2")]);
    let call = story.read(Level::Strong, "x", second, &[]);
    let stale = story.register("x", first);
    if let Some((_, Outcome::Done(Reply::Shown { registers, .. }))) =
        &mut story.history.calls[call].end
    {
        registers[0].register = stale;
    }
    story.violates("G1");
}

/// D11: what a bounded read may hide.
#[test]
fn a_bounded_read_hides_at_most_its_bound() {
    let bounded = |bound: Bound| {
        let mut story = Story::new();
        let first = story.write("x", &[add("1")]);
        story.write("y", &[add("1")]);
        story.write("x", &[add("2")]);
        story.write("x", &[remove("1")]);
        story.read(Level::Bounded(bound), "x", first, &[]);
        story
    };
    assert_eq!(bounded(Bound::Versions(2)).holds("bounds"), 1);
    bounded(Bound::Versions(1)).violates("bounded staleness");
    // The older of the two was acknowledged six milliseconds before the read began.
    assert_eq!(bounded(Bound::Micros(6_000)).holds("bounds"), 1);
    bounded(Bound::Micros(5_999)).violates("bounded staleness");
    let mut drifting = bounded(Bound::Micros(5_999));
    drifting.history.drift_ppm = 1000;
    assert_eq!(drifting.holds("bounds"), 1);
}

/// A call whose outcome is unknown has its entry's place from its invocation on.
#[test]
fn an_unknown_outcome_takes_effect_later() {
    let mut story = Story::new();
    let call = story.ask(1, Level::Strong, put("x", &[add("1")]));
    story.end(call, Outcome::Unknown);
    story.read(Level::Strong, "x", EntryId::ZERO, &[]);
    let entry = story.commit(call);
    story.read(Level::Strong, "x", entry, &[]);
    assert_eq!(story.holds("linear"), 3);
}

/// A register that two members hold differently; one that is not the join; a wrong count.
#[test]
fn members_rest_in_one_state() {
    let rested = || {
        let mut story = Story::new();
        story.write("x", &[add("1")]);
        story.write("x", &[remove("1"), add("2")]);
        story.rest();
        story
    };
    assert_eq!(rested().holds("rest"), 6);
    let key: Bytes = "x".into();
    let mut differs = rested();
    let register = differs.history.rest[1].registers.get_mut(&key);
    register
        .expect("x is there")
        .merge(&[add("3")], Stamp::strong(id(1, 1)));
    differs.violates("G3");
    let mut is_not_the_join = rested();
    for member in &mut is_not_the_join.history.rest {
        member.registers.clear();
        member.pairs = 0;
    }
    is_not_the_join.violates("G3");
    let mut miscounts = rested();
    miscounts.history.rest[0].pairs = 2;
    miscounts.violates("SDB-5.1");
}
