//! What tokens promise.

use fader_chain::{EntryId, Stamp};

use super::story::{Story, add, eventual, get, id, put, remove};
use crate::history::*;

const R1: Level = Level::Eventual {
    quorum: 1,
    sloppy: false,
};

const READS: &str = "read your writes, monotonic reads";
const WRITES: &str = "monotonic writes, writes follow reads";

/// The session of a story writes x eventually at member 1.
fn written() -> (Story, usize, Stamp) {
    let mut story = Story::new();
    let (call, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 5), &[1]);
    story.in_session(1, call);
    (story, call, stamp)
}

#[test]
fn a_session_that_sees_what_it_knows() {
    let (mut story, call, stamp) = written();
    let read = story.read(R1, "x", EntryId::ZERO, &[(stamp, add("1"))]);
    story.in_session(1, read);
    let settled = story.settle(call, stamp);
    let read = story.read(Level::Strong, "x", settled, &[]);
    story.in_session(1, read);
    let write = story.ask(1, Level::Strong, put("x", &[remove("1")]));
    story.in_session(1, write);
    let entry = story.commit(write);
    story.answer(write, entry);
    let read = story.read(R1, "x", entry, &[]);
    story.in_session(1, read);
    // Three reads that show commits and registers, two writes.
    assert_eq!(story.holds("sessions"), 8);
}

/// D2 (c): "stamp at least 3" is content with another client's newer value.
#[test]
fn a_session_does_not_see_its_own_write() {
    let (mut story, _, _) = written();
    let (_, other) = story.put_eventually("x", &[add("2")], (EntryId::ZERO, 6), &[3]);
    let read = story.read(R1, "x", EntryId::ZERO, &[(other, add("2"))]);
    story.in_session(1, read);
    story.violates(READS);
}

/// What excuses it: refused by a limit, lost with an error, another attempt settled.
#[test]
fn writes_a_session_need_not_see() {
    let (mut story, call, stamp) = written();
    let lost = story.ask(2, R1, get("x"));
    story.in_session(1, lost);
    let name = story.name(call);
    story.end(lost, Outcome::Refused(Refusal::Lost(vec![name])));
    let read = story.read(R1, "x", EntryId::ZERO, &[]);
    story.in_session(1, read);
    assert_eq!(story.holds("sessions"), 3);

    let (mut refused, call, stamp_refused) = written();
    assert_eq!(stamp, stamp_refused);
    refused.write("x", &[add("2"), add("3"), add("4")]);
    let settled = refused.settle(call, stamp);
    let read = refused.read(R1, "x", settled, &[]);
    refused.in_session(1, read);
    // Nothing is claimed of what it shows of x.
    assert_eq!(refused.holds("sessions"), 2);

    let (mut retried, call, _) = written();
    let strong = retried.write("y", &[add("1")]);
    let second = retried.stamp(call, 3, strong, 9);
    let settled = retried.settle(call, second);
    let read = retried.read(R1, "x", settled, &[]);
    retried.in_session(1, read);
    assert_eq!(retried.holds("sessions"), 3);
}

/// Monotonic reads over all registers: what one register showed of the log binds another's read.
#[test]
fn a_session_goes_back() {
    let mut story = Story::new();
    let entry = story.write("x", &[add("1")]);
    let read = story.read(R1, "x", entry, &[]);
    story.in_session(1, read);
    let read = story.read(R1, "y", EntryId::ZERO, &[]);
    assert_eq!(story.holds("sessions"), 1);
    story.in_session(1, read);
    story.violates("monotonic reads");
}

/// A tentative value that was read must be shown again.
#[test]
fn a_session_reads_a_tentative_value_once() {
    let mut story = Story::new();
    let (_, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 5), &[1]);
    for above in [&[(stamp, add("1"))][..], &[]] {
        let read = story.read(R1, "x", EntryId::ZERO, above);
        story.in_session(1, read);
    }
    story.violates(READS);
}

/// TRACE-8: e0 at A on a base that B does not have, then e1 of the same session at B: below e0.
#[test]
fn a_sessions_writes_are_stamped_in_order() {
    let second = |base: EntryId, clock: u64| {
        let mut story = Story::new();
        let (first, _) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 5), &[1]);
        story.in_session(1, first);
        let (second, _) = story.put_eventually("x", &[add("2")], (base, clock), &[2]);
        story.in_session(1, second);
        story
    };
    assert_eq!(second(EntryId::ZERO, 6).holds("sessions"), 2);
    second(EntryId::ZERO, 4).violates(WRITES);
}

/// Writes follow reads, per register (D18).
#[test]
fn a_write_follows_what_was_read() {
    let story_of = |key: &str| {
        let mut story = Story::new();
        let (_, stamp) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 5), &[1]);
        let read = story.read(R1, "x", EntryId::ZERO, &[(stamp, add("1"))]);
        story.in_session(1, read);
        let (write, _) = story.put_eventually(key, &[add("2")], (EntryId::ZERO, 4), &[2]);
        story.in_session(1, write);
        story
    };
    assert_eq!(story_of("y").holds("sessions"), 2);
    story_of("x").violates(WRITES);
}

/// A retry keeps the place of its first attempt.
#[test]
fn a_retry_in_a_session_keeps_its_place() {
    let (mut story, call, stamp) = written();
    let (second, _) = story.put_eventually("x", &[add("2")], (EntryId::ZERO, 6), &[1]);
    story.in_session(1, second);
    let retry = story.ask(2, eventual(1), put("x", &[add("1")]));
    story.in_session(1, retry);
    story.history.calls[retry].name = story.history.calls[call].name;
    story.accept(retry, 1, stamp);
    assert_eq!(story.holds("sessions"), 2);
}

/// A call that was invoked before another ended knows nothing of it.
#[test]
fn calls_of_a_session_that_overlap() {
    let mut story = Story::new();
    let read = story.ask(2, R1, get("x"));
    story.in_session(1, read);
    let (write, _) = story.put_eventually("x", &[add("1")], (EntryId::ZERO, 5), &[1]);
    story.in_session(1, write);
    story.show(read, EntryId::ZERO, &[]);
    assert_eq!(story.holds("sessions"), 2);
    assert_eq!(story.register("x", id(1, 9)).pairs().count(), 0);
}
