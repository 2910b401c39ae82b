//! The four session guarantees, after Terry and others, "Session Guarantees for Weakly Consistent
//! Replicated Data" (PDIS 1994).
//!
//! A session is that of an operation, or its process if it names none. In a session one operation
//! precedes another that was called after it returned.
//! - *Read your writes*: a read shows no version older than one that the session wrote before.
//! - *Monotonic reads*: a read shows no version older than one that the session read before.
//! - *Monotonic writes*: a write is newer than those that the session acknowledged before. Of two
//!   keys: a session that reads the later write reads no version of the other key that is older
//!   than the earlier write.
//! - *Writes follow reads*: a write is newer than what the session read before; of two keys
//!   likewise.

use std::collections::BTreeMap;

use super::places::{Places, Read, Write};
use crate::{Action, Log, Moment, Operation, Rule, Rules, Unfit, Violation};

/// What a log shows of one guarantee.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guarantee {
    /// Operations that the guarantee says something of.
    pub checked: usize,
    /// Operations that break it.
    pub violated: usize,
    /// The first of them.
    pub first: Option<Violation>,
}

/// What a log shows of the session guarantees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Sessions.
    pub sessions: usize,
    /// Read your writes.
    pub read_your_writes: Guarantee,
    /// Monotonic reads.
    pub monotonic_reads: Guarantee,
    /// Monotonic writes.
    pub monotonic_writes: Guarantee,
    /// Writes follow reads.
    pub writes_follow_reads: Guarantee,
}

impl Sessions {
    /// Each guarantee with its name.
    pub fn all(&self) -> [(&'static str, &Guarantee); 4] {
        [
            ("read your writes", &self.read_your_writes),
            ("monotonic reads", &self.monotonic_reads),
            ("monotonic writes", &self.monotonic_writes),
            ("writes follow reads", &self.writes_follow_reads),
        ]
    }

    /// The first violation of any of them.
    pub fn violation(&self) -> Option<&Violation> {
        let firsts = self.all().into_iter();
        firsts.filter_map(|(_, one)| one.first.as_ref()).next()
    }
}

/// Counts the operations that each guarantee speaks of, and those that break it.
///
/// # Errors
/// An operation whose place in the order of versions is not known.
pub fn sessions<A: Action>(log: &Log<A>, rules: &Rules) -> Result<Sessions, Unfit> {
    let places = Places::new(log)?;
    let mut by_session: BTreeMap<Session, Vec<Touch>> = BTreeMap::new();
    let reads = places.reads.iter().map(Touch::of_read);
    for touch in reads.chain(places.writes.iter().map(Touch::of_write)) {
        let session = session_of(&log.operations[touch.operation]);
        by_session.entry(session).or_default().push(touch);
    }
    let mut check = Check {
        log,
        rules,
        pasts: by_session.values().map(|all| Past::new(all)).collect(),
        writers: BTreeMap::new(),
        found: Sessions {
            sessions: by_session.len(),
            ..Sessions::default()
        },
    };
    for (session, touches) in by_session.values().enumerate() {
        for write in touches.iter().filter(|touch| touch.is_write) {
            let before = check.pasts[session].before(write.called);
            let writer = Writer {
                session,
                before,
                operation: write.operation,
            };
            check.writers.insert((write.key, write.rank), writer);
        }
    }
    for (session, touches) in by_session.into_values().enumerate() {
        check.session(session, touches);
    }
    Ok(check.found)
}

/// Sessions first, then processes whose operations name none.
type Session = (Option<u32>, u32);

fn session_of<A: Action>(operation: &Operation<A>) -> Session {
    match operation.session {
        Some(session) => (Some(session), 0),
        None => (None, operation.process),
    }
}

/// A read or a write of a session.
#[derive(Clone, Copy, Debug)]
struct Touch {
    operation: usize,
    key: usize,
    rank: usize,
    called: Moment,
    returned: Moment,
    is_write: bool,
}

impl Touch {
    fn of_read(read: &Read) -> Touch {
        Touch {
            operation: read.operation,
            key: read.key,
            rank: read.rank,
            called: read.called,
            returned: read.returned,
            is_write: false,
        }
    }

    fn of_write(write: &Write) -> Touch {
        Touch {
            operation: write.operation,
            key: write.key,
            rank: write.rank,
            called: write.called,
            returned: write.returned,
            is_write: true,
        }
    }
}

/// The greatest rank of a key, and the operation that it is of.
type Floor = Option<(usize, usize)>;

/// What a session did to a key, by its returns: after so many of its operations, the greatest rank.
#[derive(Debug, Default)]
struct Rise(Vec<(usize, usize, usize)>);

impl Rise {
    fn add(&mut self, count: usize, rank: usize, operation: usize) {
        if self.0.last().is_none_or(|(_, last, _)| *last < rank) {
            self.0.push((count, rank, operation));
        }
    }

    fn at(&self, count: usize) -> Floor {
        let below = self.0.partition_point(|(after, ..)| *after <= count);
        let (_, rank, operation) = self.0.get(below.checked_sub(1)?)?;
        Some((*rank, *operation))
    }
}

/// A session's operations by their returns.
#[derive(Debug, Default)]
struct Past {
    returns: Vec<Moment>,
    writes: BTreeMap<usize, Rise>,
    reads: BTreeMap<usize, Rise>,
}

impl Past {
    fn new(touches: &[Touch]) -> Past {
        let mut sorted: Vec<&Touch> = touches.iter().collect();
        sorted.sort_by_key(|touch| (touch.returned, touch.operation));
        let mut past = Past::default();
        for (at, touch) in sorted.into_iter().enumerate() {
            past.returns.push(touch.returned);
            let rises = match touch.is_write {
                true => &mut past.writes,
                false => &mut past.reads,
            };
            let rise = rises.entry(touch.key).or_default();
            rise.add(at + 1, touch.rank, touch.operation);
        }
        past
    }

    /// How many operations returned before this moment.
    fn before(&self, called: Moment) -> usize {
        self.returns.partition_point(|returned| *returned < called)
    }
}

/// The session that wrote a version, and how many of its operations returned before that.
#[derive(Clone, Copy, Debug)]
struct Writer {
    session: usize,
    before: usize,
    operation: usize,
}

/// What a session has seen of another: so many of its operations, by a read of this write.
#[derive(Clone, Copy, Debug)]
struct Sight {
    before: usize,
    write: usize,
    read: usize,
}

struct Check<'a, A: Action> {
    log: &'a Log<A>,
    rules: &'a Rules,
    pasts: Vec<Past>,
    writers: BTreeMap<(usize, usize), Writer>,
    found: Sessions,
}

impl<A: Action> Check<'_, A> {
    fn session(&mut self, session: usize, mut touches: Vec<Touch>) {
        touches.sort_by_key(|touch| (touch.called, touch.operation));
        let mut returning: Vec<Touch> = touches
            .iter()
            .filter(|touch| !touch.is_write)
            .copied()
            .collect();
        returning.sort_by_key(|touch| (touch.returned, touch.operation));
        let mut returning = returning.into_iter().peekable();
        let mut seen: BTreeMap<usize, Sight> = BTreeMap::new();
        for touch in touches {
            while let Some(read) = returning.next_if(|read| read.returned < touch.called) {
                let Some(writer) = self.writers.get(&(read.key, read.rank)) else {
                    continue;
                };
                let sight = Sight {
                    before: writer.before,
                    write: writer.operation,
                    read: read.operation,
                };
                let known = seen.entry(writer.session).or_insert(sight);
                if known.before < sight.before {
                    *known = sight;
                }
            }
            let until = match self.rules.has(Rule::ProgramOrder) {
                true => touch.called,
                false => touch.returned,
            };
            let mut before = self.pasts[session].before(until);
            if !self.rules.has(Rule::AcknowledgedOwn) && !touch.is_write {
                before = self.pasts[session].returns.len();
            }
            let past = &self.pasts[session];
            let wrote = past.writes.get(&touch.key).and_then(|rise| rise.at(before));
            let read = past.reads.get(&touch.key).and_then(|rise| rise.at(before));
            match touch.is_write {
                true => self.write(&touch, wrote, read),
                false => self.read(session, &touch, wrote, read, &seen),
            }
        }
    }

    fn write(&mut self, touch: &Touch, wrote: Floor, read: Floor) {
        if touch.returned == Moment::END {
            return;
        }
        let own = [wrote.filter(|(_, operation)| *operation != touch.operation)];
        let text = "a write stands below an earlier one of its session";
        let broken = self.rules.has(Rule::MonotonicWrites);
        let found = &mut self.found.monotonic_writes;
        judge(
            found,
            "monotonic writes",
            self.log,
            touch,
            &own,
            broken,
            text,
        );
        let text = "a write stands below what its session read before";
        let broken = self.rules.has(Rule::WritesFollowReads);
        let found = &mut self.found.writes_follow_reads;
        judge(
            found,
            "writes follow reads",
            self.log,
            touch,
            &[read],
            broken,
            text,
        );
    }

    fn read(
        &mut self,
        session: usize,
        touch: &Touch,
        wrote: Floor,
        read: Floor,
        seen: &BTreeMap<usize, Sight>,
    ) {
        let text = "a read shows less than its session wrote before";
        let broken = self.rules.has(Rule::ReadYourWrites);
        let found = &mut self.found.read_your_writes;
        judge(
            found,
            "read your writes",
            self.log,
            touch,
            &[wrote],
            broken,
            text,
        );
        let text = "a read shows less than its session read before";
        let broken = self.rules.has(Rule::MonotonicReads);
        let found = &mut self.found.monotonic_reads;
        judge(
            found,
            "monotonic reads",
            self.log,
            touch,
            &[read],
            broken,
            text,
        );
        for is_write in [true, false] {
            let others = seen.iter().filter(|(other, _)| **other != session);
            let floors = others.filter_map(|(other, sight)| {
                let past = &self.pasts[*other];
                let rises = if is_write { &past.writes } else { &past.reads };
                let (rank, operation) = rises.get(&touch.key)?.at(sight.before)?;
                Some((rank, operation, *sight))
            });
            let Some((rank, operation, sight)) = floors.max_by_key(|(rank, ..)| *rank) else {
                continue;
            };
            let (found, guarantee, rule, text) = match is_write {
                true => (
                    &mut self.found.monotonic_writes,
                    "monotonic writes",
                    Rule::MonotonicWritesAcross,
                    "a session saw a write, then missed an earlier one of the same writer",
                ),
                false => (
                    &mut self.found.writes_follow_reads,
                    "writes follow reads",
                    Rule::WritesFollowReadsAcross,
                    "a session saw a write, then missed what its writer had read before",
                ),
            };
            found.checked += 1;
            if touch.rank < rank && self.rules.has(rule) {
                found.violated += 1;
                let places = [operation, sight.write, sight.read, touch.operation];
                let first =
                    || Violation::new(guarantee, text).operations(&self.log.operations, places);
                found.first.get_or_insert_with(first);
            }
        }
    }
}

/// Counts one operation, whose rank must not be below the greatest floor.
fn judge<A: Action>(
    found: &mut Guarantee,
    guarantee: &'static str,
    log: &Log<A>,
    touch: &Touch,
    floors: &[Floor],
    is_ruled: bool,
    text: &str,
) {
    let Some((rank, operation)) = floors.iter().flatten().max() else {
        return;
    };
    found.checked += 1;
    if touch.rank < *rank && is_ruled {
        found.violated += 1;
        let places = [*operation, touch.operation];
        let first = || Violation::new(guarantee, text).operations(&log.operations, places);
        found.first.get_or_insert_with(first);
    }
}
