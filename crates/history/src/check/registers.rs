//! Linearizability of registers by zones, after Gibbons and Korach, "Testing Shared Memories"
//! (SIAM J. Comput. 26, 1997).
//!
//! The writes of a key have distinct versions. A *cluster* is a write and the reads of its version;
//! f is its earliest return, s its latest call. Its *zone* is forward, from f to s, if f < s, and
//! otherwise backward, from s to f. All of a key's operations have an order exactly if
//! - each read shows a version that was written, and returns at or after its write's call;
//! - no two forward zones overlap;
//! - no backward zone lies inside a forward one.
//!
//! Zones that touch are apart, since equal times are concurrent. The initial value is a write
//! before all. A write with an unknown outcome returns at the end of time.
//!
//! A compare-and-set counts as a read and a write; that both act at one place is for
//! [`search`](super::search()) to judge.

use super::{Fault, Levels};
use crate::{Access, Action, Log, Moment, Operation, Outcome, Rule, Rules, Unfit, Violation};

/// What [`registers`] found good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Keys.
    pub keys: usize,
    /// Reads judged.
    pub reads: usize,
    /// Writes.
    pub writes: usize,
}

/// Judges a log.
///
/// # Errors
/// The violation that was evident first, with the operations that show it. Or the operation that
/// cannot be judged: a return before its call, a version written twice.
pub fn registers<A: Action>(
    log: &Log<A>,
    levels: Levels<'_, A>,
    rules: &Rules,
) -> Result<Judged, Fault> {
    let mut registers = Registers::new(rules.clone());
    registers.records.reserve(log.operations.len());
    for (at, operation) in log.operations.iter().enumerate() {
        registers.add(at, operation, levels(&operation.level))?;
    }
    match registers.finish()? {
        Ok(judged) => Ok(judged),
        Err(breach) => {
            let violation = Violation::new("linearizability of registers", breach.explanation);
            Err(violation
                .operations(&log.operations, breach.operations)
                .into())
        }
    }
}

/// Takes the operations of a log one by one, and keeps of each what the judgement needs.
#[derive(Debug)]
pub struct Registers<A: Action> {
    records: Vec<Record<A>>,
    rules: Rules,
}

/// What a log breaks, without the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// What is wrong.
    pub explanation: String,
    /// The operations that show it, by their places in the log: no more than are needed.
    pub operations: Vec<usize>,
    /// When it was evident.
    evident: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Wrote,
    /// The outcome is unknown.
    Tried,
    Refused,
    Read,
}

#[derive(Debug)]
struct Record<A: Action> {
    key: A::Key,
    version: Option<A::Version>,
    called: Moment,
    returned: Moment,
    operation: u32,
    kind: Kind,
    is_again: bool,
}

/// A moment, or none before all moments, and the operation that it is of.
type At = (Option<Moment>, u32);

/// A write and its reads.
#[derive(Debug)]
struct Cluster<'a, A: Action> {
    version: Option<&'a A::Version>,
    write: Option<u32>,
    /// f.
    first_return: At,
    /// s.
    last_call: At,
}

impl<A: Action> Registers<A> {
    /// Nothing yet.
    pub fn new(rules: Rules) -> Self {
        Registers {
            records: Vec::new(),
            rules,
        }
    }

    /// Takes the next operation, which is at place `at` of the log. One that is not judged promises
    /// nothing: its writes may act later, its reads say nothing.
    ///
    /// # Errors
    /// It returned before its call, or the log is too long.
    pub fn add(
        &mut self,
        at: usize,
        operation: &Operation<A>,
        is_judged: bool,
    ) -> Result<(), Unfit> {
        let unfit = |reason: &str| Unfit {
            operation: at,
            reason: reason.to_owned(),
        };
        if operation.returned() < operation.called {
            return Err(unfit("it returned before it was called"));
        }
        let number = u32::try_from(at).map_err(|_| unfit("more than 2^32 operations"))?;
        let kind = match &operation.end {
            Some((_, Outcome::Done(_))) if is_judged || !self.rules.has(Rule::OtherLevels) => {
                Kind::Wrote
            }
            Some((_, Outcome::Refused(_))) => Kind::Refused,
            _ => Kind::Tried,
        };
        let returned = operation.returned();
        let mut record = |key: &A::Key, version: Option<&A::Version>, kind: Kind| {
            self.records.push(Record {
                key: key.clone(),
                version: version.cloned(),
                called: operation.called,
                returned: match kind {
                    Kind::Tried if self.rules.has(Rule::UnknownLate) => Moment::END,
                    _ => returned,
                },
                operation: number,
                kind,
                is_again: 1 < operation.attempt,
            });
        };
        operation.accesses(&mut |access| match access {
            Access::Read { key, version, .. } if is_judged && kind == Kind::Wrote => {
                record(key, version, Kind::Read);
            }
            Access::Read { .. } => {}
            Access::Write { key, version, .. } => record(key, Some(version), kind),
        });
        Ok(())
    }

    /// Judges what was taken.
    ///
    /// # Errors
    /// A write whose version another request wrote, too.
    pub fn finish(mut self) -> Result<Result<Judged, Breach>, Unfit> {
        self.records.sort_unstable_by(|one, other| {
            let names = one.key.cmp(&other.key);
            let names = names.then_with(|| one.version.cmp(&other.version));
            names.then_with(|| (one.kind, one.operation).cmp(&(other.kind, other.operation)))
        });
        let mut judged = Judged::default();
        let mut breach: Option<Breach> = None;
        for of_key in self.records.chunk_by(|one, other| one.key == other.key) {
            judged.keys += 1;
            let reads = of_key.iter().filter(|one| one.kind == Kind::Read).count();
            judged.reads += reads;
            judged.writes += of_key.len() - reads;
            let found = Key::new(of_key, &self.rules)?.breach();
            breach = [breach, found]
                .into_iter()
                .flatten()
                .min_by_key(|one| one.evident);
        }
        Ok(breach.map_or(Ok(judged), Err))
    }
}

/// The clusters of a key.
struct Key<'a, A: Action> {
    key: &'a A::Key,
    rules: &'a Rules,
    clusters: Vec<Cluster<'a, A>>,
    breach: Option<Breach>,
}

impl<'a, A: Action> Key<'a, A> {
    fn new(records: &'a [Record<A>], rules: &'a Rules) -> Result<Self, Unfit> {
        let mut key = Key {
            key: &records[0].key,
            rules,
            clusters: Vec::new(),
            breach: None,
        };
        for records in records.chunk_by(|one, other| one.version == other.version) {
            key.cluster(records)?;
        }
        Ok(key)
    }

    /// The records of one version: its writes, then its reads.
    fn cluster(&mut self, records: &'a [Record<A>]) -> Result<(), Unfit> {
        let version = records[0].version.as_ref();
        let (writes, reads) =
            records.split_at(records.partition_point(|record| record.kind != Kind::Read));
        let write = match version {
            None => None,
            Some(_) => match self.write(writes)? {
                Some(write) => Some(write),
                None => {
                    if let (Some(read), true) = (reads.first(), self.rules.has(Rule::Written)) {
                        let of = reads
                            .iter()
                            .min_by_key(|read| read.returned)
                            .unwrap_or(read);
                        self.unwritten(of, writes);
                    }
                    return Ok(());
                }
            },
        };
        let start = (None, u32::MAX);
        let mut cluster = match &write {
            Some(write) => Cluster {
                version,
                write: Some(write.operation),
                first_return: (Some(write.returned), write.operation),
                last_call: (Some(write.called), write.operation),
            },
            None if self.rules.has(Rule::InitialFirst) => Cluster {
                version: None,
                write: None,
                first_return: start,
                last_call: start,
            },
            None => Cluster {
                version: None,
                write: None,
                first_return: (Some(Moment::END), u32::MAX),
                last_call: start,
            },
        };
        for read in reads {
            if let Some(write) = &write
                && read.returned < write.called
                && self.rules.has(Rule::ReadAfterWrite)
            {
                let text = format!(
                    "{}: {} was read, and its write was called only after that",
                    self.key,
                    shown(&cluster)
                );
                let places = [read.operation, write.operation];
                self.found(text, &places, write.called);
            }
            let returned = (Some(read.returned), read.operation);
            if returned.0 < cluster.first_return.0 && self.rules.has(Rule::EarliestReturn) {
                cluster.first_return = returned;
            }
            let is_last = cluster.last_call.0 <= Some(read.called);
            if is_last && self.rules.has(Rule::LatestCall) {
                cluster.last_call = (Some(read.called), read.operation);
            }
        }
        self.clusters.push(cluster);
        Ok(())
    }

    /// The write of a version: all attempts of one request; none if there is none but refused ones.
    fn write(&self, writes: &[Record<A>]) -> Result<Option<Write>, Unfit> {
        let is_joined = self.rules.has(Rule::AttemptsJoined);
        let apart = writes
            .iter()
            .filter(|write| !write.is_again || !is_joined)
            .skip(1);
        if let Some(other) = apart.max_by_key(|write| write.operation)
            && let Some(version) = &other.version
        {
            return Err(Unfit {
                operation: other.operation as usize,
                reason: format!("{version} is written to {} twice", self.key),
            });
        }
        let is_effective =
            |write: &&Record<A>| write.kind != Kind::Refused || !self.rules.has(Rule::RefusedNever);
        let effective = || writes.iter().filter(is_effective);
        let called = effective()
            .map(|write| (write.called, write.operation))
            .min();
        let returned = effective().map(|write| write.returned).min();
        Ok(called
            .zip(returned)
            .map(|((called, operation), returned)| Write {
                called,
                returned,
                operation,
            }))
    }

    fn unwritten(&mut self, read: &Record<A>, refused: &[Record<A>]) {
        let version = read
            .version
            .as_ref()
            .map_or_else(String::new, A::Version::to_string);
        let how = match refused.is_empty() {
            true => "nothing wrote it",
            false => "its write was refused",
        };
        let text = format!("{}: {version} was read, and {how}", self.key);
        let mut places = vec![read.operation];
        places.extend(refused.first().map(|write| write.operation));
        self.found(text, &places, read.returned);
    }

    fn found(&mut self, explanation: String, operations: &[u32], evident: Moment) {
        let mut operations: Vec<usize> = operations
            .iter()
            .filter(|operation| **operation != u32::MAX)
            .map(|operation| *operation as usize)
            .collect();
        operations.sort_unstable();
        operations.dedup();
        let breach = Breach {
            explanation,
            operations,
            evident,
        };
        if self
            .breach
            .as_ref()
            .is_none_or(|known| evident < known.evident)
        {
            self.breach = Some(breach);
        }
    }

    /// What is wrong with this key, the first that was evident.
    fn breach(mut self) -> Option<Breach> {
        let clusters = std::mem::take(&mut self.clusters);
        let is_before =
            |one: Option<Moment>, other: Option<Moment>| match self.rules.has(Rule::Touching) {
                true => one < other,
                false => one <= other,
            };
        let (mut forward, backward): (Vec<_>, Vec<_>) = clusters
            .iter()
            .partition(|cluster| cluster.first_return.0 < cluster.last_call.0);
        forward.sort_unstable_by_key(|cluster| cluster.first_return);
        let mut widest: Option<&Cluster<'_, A>> = None;
        for next in &forward {
            if let Some(widest) = widest
                && is_before(next.first_return.0, widest.last_call.0)
                && self.rules.has(Rule::ForwardApart)
            {
                let text = format!(
                    "{}: {one} was complete before the last call of {other}, and {other} of {one}",
                    self.key,
                    one = shown(widest),
                    other = shown(next)
                );
                self.overlap(text, widest, next);
            }
            if widest.is_none_or(|widest| widest.last_call < next.last_call) {
                widest = Some(next);
            }
        }
        for zone in backward {
            let (from, to) = (zone.last_call.0, zone.first_return.0);
            let after = forward.partition_point(|one| is_before(one.first_return.0, from));
            let Some(around) = after.checked_sub(1).map(|at| forward[at]) else {
                continue;
            };
            if is_before(to, around.last_call.0) && self.rules.has(Rule::BackwardOutside) {
                let text = format!(
                    "{}: {} began and ended while {} was the value",
                    self.key,
                    shown(zone),
                    shown(around)
                );
                self.overlap(text, zone, around);
            }
        }
        self.breach
    }

    fn overlap(&mut self, text: String, one: &Cluster<'_, A>, other: &Cluster<'_, A>) {
        let places: Vec<u32> = [one, other]
            .iter()
            .flat_map(|cluster| {
                let write = cluster.write.unwrap_or(u32::MAX);
                [write, cluster.first_return.1, cluster.last_call.1]
            })
            .collect();
        let evident = one.last_call.0.max(other.last_call.0).unwrap_or_default();
        self.found(text, &places, evident);
    }
}

/// A write, all its attempts together.
struct Write {
    called: Moment,
    returned: Moment,
    operation: u32,
}

fn shown<A: Action>(cluster: &Cluster<'_, A>) -> String {
    match &cluster.version {
        Some(version) => version.to_string(),
        None => "the initial value".to_owned(),
    }
}
