//! Eventual operations: stamps, settlements, quorums, leases, conservation, barriers, rest.

use fader_chain::{EntryId, NodeId, Stamp};

use super::story::{Story, add, clear, eventual, get, id, put, remove};
use crate::history::*;

const R1: Level = Level::Eventual {
    quorum: 1,
    sloppy: false,
};
const R2: Level = Level::Eventual {
    quorum: 2,
    sloppy: false,
};

#[test]
fn a_run_in_which_everything_is_as_it_should_be() {
    let mut story = Story::new();
    let first = story.write("x", &[add("1")]);
    let (call, stamp) = story.put_eventually("x", &[clear(), add("2")], (first, 9), &[2, 3]);
    story.read(R2, "x", first, &[(stamp, clear()), (stamp, add("2"))]);
    story.read(Level::Strong, "x", first, &[]);
    let settled = story.settle(call, stamp);
    story.read(Level::Strong, "x", settled, &[]);
    story.read(R2, "x", settled, &[]);
    story.write("x", &[add("3")]);
    story.rest();
    assert_eq!(story.holds("quorums"), 2);
    assert_eq!(story.holds("outcomes"), 3);
    assert_eq!(story.holds("linear"), 5);
    assert_eq!(story.holds("rest"), 6);
    // Four elements; above the first write, below the last; above what its member showed.
    assert_eq!(story.holds("stamps"), 7);
}

/// G2 (a), `base_dirty`: A appends w, everyone persists, the client has its answer; C, where w is
/// dirty, stamps e below w.
#[test]
fn stamped_below_what_was_acknowledged() {
    let mut story = Story::new();
    story.write("x", &[add("1")]);
    story.put_eventually("x", &[clear()], (EntryId::ZERO, 9), &[3]);
    story.violates("G2 (a)");
}

/// The same without a lease is excepted.
#[test]
fn detached_writes_may_be_below() {
    let mut story = Story::new();
    story.write("x", &[add("1")]);
    let level = Level::Eventual {
        quorum: 1,
        sloppy: true,
    };
    let call = story.ask(3, level, put("x", &[add("2")]));
    let stamp = story.stamp(call, 3, EntryId::ZERO, 9);
    let last = story.history.events.len() - 2;
    if let Fact::Stamped(stamping) = &mut story.history.events[last].fact {
        stamping.lease = false;
    }
    let reply = Reply::Accepted {
        stamps: vec![stamp],
        attached: false,
        statuses: Vec::new(),
    };
    story.end(call, Outcome::Done(reply));
    assert_eq!(story.holds("stamps"), 2);
}

/// G2 (b), D15: a forged base wins over every later strong write.
#[test]
fn acknowledged_above_what_comes_later() {
    let mut story = Story::new();
    story.put_eventually("x", &[add("1")], (id(9, 9), 9), &[3]);
    story.write("x", &[add("2")]);
    story.violates("G2 (b)");
}

#[test]
fn a_settlement_is_not_above_its_base() {
    let mut story = Story::new();
    let (call, stamp) = story.put_eventually("x", &[add("1")], (id(1, 5), 9), &[3]);
    story.settle(call, stamp);
    story.violates("I14");
}

/// `promote_if_larger`: the head promotes without comparing.
#[test]
fn an_older_element_after_a_newer_one() {
    let mut story = Story::new();
    let ops = [add("1")];
    let (old, old_stamp) = story.put_eventually("x", &ops, (EntryId::ZERO, 1), &[2]);
    let (new, new_stamp) = story.put_eventually("x", &ops, (EntryId::ZERO, 2), &[3]);
    story.settle(new, new_stamp);
    story.settle_as(old, old_stamp, ops.to_vec(), WriteStatus::Applied);
    story.violates("I14");
}

/// D7, D8, TRACE-7: a removed value returns with a member that was absent, because its mark is
/// gone.
#[test]
fn a_removed_value_returns() {
    let resurrect = |ops: Vec<_>, status| {
        let mut story = Story::new();
        let first = story.write("x", &[add("1")]);
        let (late, stamp) = story.put_eventually("x", &[add("1")], (first, 1), &[2]);
        let removed = story.write("x", &[remove("1")]);
        story.safe_point = removed;
        story.publish(&[(1, 1), (3, 1)]);
        story.settle_as(late, stamp, ops, status);
        story
    };
    resurrect(vec![add("1")], WriteStatus::Applied).violates("I17");
    assert_eq!(
        resurrect(Vec::new(), WriteStatus::Superseded).holds("outcomes"),
        2
    );
}

/// D8: clears and removals bring nothing back; after the safe point they may come again.
#[test]
fn an_older_clear_may_come_again_after_the_floor() {
    let clears = |is_collected: bool| {
        let mut story = Story::new();
        let (late, stamp) = story.put_eventually("x", &[clear()], (EntryId::ZERO, 1), &[2]);
        let cleared = story.write("x", &[clear()]);
        if is_collected {
            story.safe_point = cleared;
        }
        story.publish(&[(1, 1), (2, 1), (3, 1)]);
        story.settle_as(late, stamp, vec![clear()], WriteStatus::Applied);
        story
    };
    assert_eq!(clears(true).holds("outcomes"), 2);
    clears(false).violates("I14");
}

/// Section 6 of semantics.md: the history that is one of element writes, not of whole operations.
#[test]
fn a_replace_may_take_effect_in_part() {
    let mut story = Story::new();
    let first = story.write("x", &[add("z")]);
    let (call, stamp) = story.put_eventually("x", &[clear(), add("y")], (first, 3), &[2]);
    let second = story.write("x", &[add("x")]);
    story.read(Level::Strong, "x", second, &[]);
    let settled = story.settle(call, stamp);
    let call = story.read(Level::Strong, "x", settled, &[]);
    let shown = story.history.calls[call].to_string();
    assert!(
        shown.contains("!a@1.1+3n2/0 a=x@1.2 a=y@1.1+3n2/0"),
        "{shown}"
    );
    story.rest();
    assert_eq!(story.holds("linear"), 5);
}

/// G6, `overlay_apart`: a strong read shows what is in an overlay.
#[test]
fn a_strong_read_shows_a_tentative_value() {
    let mut story = Story::new();
    let (_, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[2]);
    story.read(Level::Strong, "x", EntryId::ZERO, &[(stamp, add("1"))]);
    story.violates("G6");
}

/// TRACE-9: [A,B,C], e held by A and B, W = 2; A dies; N = 2, R = 1 at C misses it.
#[test]
fn a_quorum_read_after_a_removal_misses_a_write() {
    let read_of = |is_shown: bool| {
        let mut story = Story::new();
        let (_, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[1, 2]);
        story.publish(&[(2, 1), (3, 1)]);
        let above = [(stamp, add("1"))];
        let above: &[_] = if is_shown { &above } else { &[] };
        story.read(R1, "x", EntryId::ZERO, above);
        story
    };
    assert_eq!(read_of(true).holds("quorums"), 1);
    read_of(false).violates("G4");
}

/// TRACE-9, the other half: [A,B], C joins, W = 2 by A and C; B, still N = 2, R = 1 misses it.
#[test]
fn a_quorum_read_in_the_epoch_before_misses_a_write() {
    let mut story = Story::new();
    story.publish(&[(1, 1), (2, 1)]);
    let old = story.epoch;
    story.publish(&[(1, 1), (2, 1), (3, 1)]);
    story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[1, 3]);
    story.epoch = old;
    story.read(R1, "x", EntryId::ZERO, &[]);
    story.violates("G4");
}

/// What G4 does not claim: too few members, all holders lost, a read that claims no quorum.
#[test]
fn writes_a_read_need_not_show() {
    let story_of = |holders: &[u32], members: &[(u32, u128)], level| {
        let mut story = Story::new();
        let (call, _) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), holders);
        story.publish(members);
        story.read(level, "x", EntryId::ZERO, &[]);
        (story, call)
    };
    let all = [(1, 1), (2, 1), (3, 1)];
    assert_eq!(story_of(&[1, 2], &all, R1).0.holds("quorums"), 0);
    assert_eq!(story_of(&[1, 2], &[(3, 1)], R1).0.holds("quorums"), 0);
    let sloppy = Level::Eventual {
        quorum: 2,
        sloppy: true,
    };
    assert_eq!(story_of(&[1, 2], &all, sloppy).0.holds("quorums"), 0);
    // Back in another incarnation, serving: no longer lost.
    story_of(&[1, 2], &[(1, 2), (2, 1), (3, 1)], R2)
        .0
        .violates("G4");
    // Unless it came back without its disk, or forgot.
    let (mut story, _) = story_of(&[1], &[(1, 1)], R1);
    let disk_lost = Event {
        at: story.history.calls[1].invoked,
        fact: Fact::DiskLost { node: NodeId(1) },
    };
    story.violates("G4");
    story.history.events.push(disk_lost);
    assert_eq!(story.holds("quorums"), 0);
    let (mut story, call) = story_of(&[1], &[(1, 2)], R1);
    let name = story.name(call);
    let forgotten = Event {
        at: story.history.calls[1].invoked,
        fact: Fact::Forgotten {
            node: NodeId(1),
            name,
        },
    };
    story.history.events.push(forgotten);
    // GC-5: it may forget only what is below the safe point.
    story.violates("I16");
    for event in &mut story.history.events {
        if let Fact::Published(configuration) = &mut event.fact {
            std::sync::Arc::make_mut(configuration).safe_point = id(1, 1);
        }
    }
    assert_eq!(story.holds("quorums"), 0);
}

/// GC-6: absent at a safe point above it counts as covered; an older value that is still there does
/// not.
#[test]
fn an_absence_above_the_stamp_covers() {
    let read_at = |safe_point: EntryId, shown: &[_]| {
        let mut story = Story::new();
        let (_, stamp) = story.put_eventually("x", &[remove("1")], (id(1, 1), 1), &[1, 2, 3]);
        assert!(stamp < Stamp::strong(id(1, 2)));
        let mut other = Story::new();
        other.write("x", &[add("1")]);
        let is_commit = |event: &Event| matches!(event.fact, Fact::Committed { .. });
        other.history.events.retain(is_commit);
        story.history.events.splice(1..1, other.history.events);
        story.safe_point = safe_point;
        story.read(R1, "x", EntryId::ZERO, shown);
        story
    };
    assert_eq!(read_at(id(1, 2), &[]).holds("quorums"), 1);
    read_at(id(1, 1), &[]).violates("G4");
    let older = (Stamp::strong(id(1, 1)), add("1"));
    read_at(id(1, 2), &[older]).violates("G4");
}

/// ER-1: a member shows at least what is committed there.
#[test]
fn an_eventual_read_shows_what_is_committed() {
    let mut story = Story::new();
    let first = story.write("x", &[add("1")]);
    let second = story.write("x", &[clear(), add("2")]);
    let call = story.read(R1, "x", second, &[]);
    assert_eq!(story.holds("linear"), 2);
    let stale = story.register("x", first);
    if let Some((_, Outcome::Done(Reply::Shown { registers, .. }))) =
        &mut story.history.calls[call].end
    {
        registers[0].register = stale;
    }
    story.violates("ER-1");
}

/// I9: an eventual read shows what no client wrote, or no head has committed.
#[test]
fn an_eventual_read_invents() {
    let stamps = [
        Stamp::strong(id(1, 1)),
        Stamp {
            base: EntryId::ZERO,
            clock: 4,
            node: 2,
            counter: 0,
        },
    ];
    for stamp in stamps {
        let mut story = Story::new();
        story.read(R1, "x", EntryId::ZERO, &[(stamp, add("1"))]);
        story.violates("G4");
    }
}

/// D13, `ack_attached`: B's confirmation reaches A after both their leases ended.
#[test]
fn an_attached_acknowledgement_without_a_lease() {
    let mut story = Story::new();
    story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[1, 2]);
    let last = story
        .history
        .events
        .last_mut()
        .expect("the acknowledgement");
    if let Fact::Acknowledged { lease, .. } = &mut last.fact {
        *lease = false;
    }
    story.violates("G7");
}

#[test]
fn stamped_without_a_lease_and_not_sloppy() {
    let mut story = Story::new();
    let call = story.ask(1, eventual(1), put("x", &[add("1")]));
    story.stamp(call, 1, EntryId::ZERO, 1);
    if let Fact::Stamped(stamping) = &mut story.history.events[1].fact {
        stamping.lease = false;
    }
    story.violates("G7");
}

/// EV-4: W counts members that hold it, each once.
#[test]
fn acknowledged_without_a_quorum() {
    let mut story = Story::new();
    let call = story.ask(1, eventual(2), put("x", &[add("1")]));
    let stamp = story.stamp(call, 1, EntryId::ZERO, 1);
    story.hold(call, 1);
    story.accept(call, 1, stamp);
    story.violates("G7");
}

/// I16, D2 (a), TRACE-12: acknowledged, and at rest it is nowhere.
#[test]
fn an_acknowledged_write_disappears() {
    let lost = |members: &[(u32, u128)]| {
        let mut story = Story::new();
        story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[1, 2]);
        story.publish(members);
        story.rest();
        story
    };
    lost(&[(1, 1), (2, 1), (3, 1)]).violates("I16");
    // A holder that returns hands it on.
    lost(&[(1, 2), (3, 1)]).violates("I16");
    // TRACE-11: no holder of it is left.
    assert_eq!(lost(&[(3, 1)]).holds("outcomes"), 2);
}

/// D4: an element is dropped for a tentative one; a limit refuses a part.
#[test]
fn operations_enter_whole() {
    let settle_as = |ops: Vec<_>, status| {
        let mut story = Story::new();
        let body = [clear(), add("1")];
        let (call, stamp) = story.put_eventually("x", &body, (EntryId::ZERO, 1), &[1]);
        story.settle_as(call, stamp, ops, status);
        story
    };
    assert_eq!(
        settle_as(vec![clear(), add("1")], WriteStatus::Applied).holds("outcomes"),
        2
    );
    settle_as(vec![clear()], WriteStatus::Applied).violates("D4");
    settle_as(Vec::new(), WriteStatus::Applied).violates("G5");
    settle_as(vec![clear(), add("1")], WriteStatus::Superseded).violates("D4");
    settle_as(Vec::new(), WriteStatus::Superseded).violates("G5");
    settle_as(Vec::new(), WriteStatus::Refused).violates("G5");
    settle_as(vec![add("2")], WriteStatus::Applied).violates("I15");
}

/// SDB-4.1, 4.2: what would grow the register beyond its limit is refused, and only that.
#[test]
fn a_limit_at_promotion() {
    let mut story = Story::new();
    let (call, stamp) = story.put_eventually("x", &[add("4"), add("5")], (id(1, 0), 1), &[1]);
    story.write("x", &[add("1"), add("2")]);
    story.settle(call, stamp);
    story.rest();
    assert_eq!(story.holds("outcomes"), 3);
    let mut beyond = Story::new();
    let body = [add("4"), add("5")];
    let (call, stamp) = beyond.put_eventually("x", &body, (id(1, 0), 1), &[1]);
    beyond.write("x", &[add("1"), add("2")]);
    beyond.settle_as(call, stamp, body.to_vec(), WriteStatus::Applied);
    beyond.violates("SDB-4.1");
}

/// TRACE-35, PR-7: *superseded* is told at the commit of the settlement, and it is true.
#[test]
fn a_client_is_told_the_fate() {
    let told = |status: WriteStatus, is_settled: bool| {
        let mut story = Story::new();
        let (call, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[1]);
        story.write("x", &[add("1")]);
        if is_settled {
            story.settle(call, stamp);
        }
        let retry = story.ask(1, eventual(1), put("x", &[add("1")]));
        story.history.calls[retry].name = story.history.calls[call].name;
        let reply = Reply::Accepted {
            stamps: vec![stamp],
            attached: true,
            statuses: vec![status],
        };
        story.end(retry, Outcome::Done(reply));
        story
    };
    assert_eq!(told(WriteStatus::Superseded, true).holds("outcomes"), 3);
    told(WriteStatus::Applied, true).violates("G5");
    told(WriteStatus::Superseded, false).violates("G5");
}

/// A retry that finds its name settled is answered from the settlement.
#[test]
fn a_settled_write_needs_no_acknowledgement() {
    let answered = |is_settled: bool| {
        let mut story = Story::new();
        let call = story.ask(1, eventual(2), put("x", &[add("1")]));
        let stamp = story.stamp(call, 1, EntryId::ZERO, 1);
        if is_settled {
            story.settle(call, stamp);
        }
        let reply = Reply::Accepted {
            stamps: vec![stamp],
            attached: true,
            statuses: Vec::new(),
        };
        story.end(call, Outcome::Done(reply));
        story
    };
    assert_eq!(answered(true).holds("outcomes"), 1);
    answered(false).violates("G7");
}

/// TRACE-10: one name stamped at two members, a strong write between: settled once, by either
/// attempt.
#[test]
fn a_retry_is_settled_once() {
    let retried = || {
        let mut story = Story::new();
        let (call, first) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[1, 2]);
        let strong = story.write("x", &[remove("1")]);
        let second = story.stamp(call, 3, strong, 2);
        (story, call, first, second)
    };
    let (mut story, call, first, second) = retried();
    story.settle(call, second);
    story.rest();
    assert_eq!(story.holds("names"), 2);
    story.settle(call, first);
    story.violates("I12");
}

/// G8: a barrier that did not ask a member which held a write.
#[test]
fn a_barrier_is_above_what_was_acknowledged() {
    let barrier = |is_settled: bool| {
        let mut story = Story::new();
        let (call, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[2]);
        let asked = story.ask(1, Level::Barrier, get("x"));
        if is_settled {
            story.settle(call, stamp);
        }
        let last = story.last();
        story.show(asked, last, &[]);
        story
    };
    assert_eq!(barrier(true).holds("barriers"), 1);
    barrier(false).violates("G8");
}

#[test]
fn a_barrier_condition_is_above_what_was_acknowledged() {
    let mut story = Story::new();
    let (eventual, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[2]);
    let request = Request {
        conditions: vec![("x".into(), Condition::Absent)],
        ..put("y", &[add("1")])
    };
    let asked = story.ask(1, Level::Barrier, request);
    let entry = story.commit(asked);
    story.answer(asked, entry);
    story.violates("G8");
    story.settle(eventual, stamp);
    story.violates("G8");
}

/// A retry is answered by the entry of the first attempt, which was before.
#[test]
fn a_barrier_asked_for_again_is_where_it_was() {
    let mut story = Story::new();
    let request = Request {
        conditions: vec![("x".into(), Condition::Absent)],
        ..put("y", &[add("1")])
    };
    let first = story.ask(1, Level::Barrier, request.clone());
    let entry = story.commit(first);
    story.end(first, Outcome::Unknown);
    story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[2]);
    let again = story.ask(1, Level::Barrier, request);
    story.answer(again, entry);
    story.history.calls[again].name = story.history.calls[first].name;
    assert_eq!(story.holds("barriers"), 0);
}

/// A holder that was removed and is in quarantine, or is gone, binds no barrier.
#[test]
fn a_barrier_knows_nothing_of_quarantines() {
    let mut story = Story::new();
    story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[2]);
    story.publish(&[(1, 1), (3, 1)]);
    story.publish(&[(1, 1), (3, 1), (2, 2)]);
    story.read(Level::Barrier, "x", EntryId::ZERO, &[]);
    assert_eq!(story.holds("barriers"), 0);
}

/// HOLE-3: an operation that the log has refused stays in an overlay.
#[test]
fn an_overlay_that_is_never_empty() {
    let mut story = Story::new();
    let (call, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 1), &[2]);
    story.settle(call, stamp);
    story.rest();
    let name = story.name(call);
    story.history.rest[1].overlay.push(name);
    story.violates("G3");
}
