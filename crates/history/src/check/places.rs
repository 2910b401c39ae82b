//! What a log's operations read and wrote, by key and rank. A version's rank is its place among the
//! versions of its key, from 1; the initial value has rank 0.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Access, Action, Log, Moment, Operation, Order, Outcome, Unfit};

/// A read that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// Its place in the log.
    pub(super) operation: usize,
    /// The key, by its number.
    pub(super) key: usize,
    pub(super) rank: usize,
    pub(super) called: Moment,
    pub(super) returned: Moment,
}

/// A write that was not refused: all its attempts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// Its place in the log.
    pub(super) operation: usize,
    /// The key, by its number.
    pub(super) key: usize,
    pub(super) rank: usize,
    pub(super) called: Moment,
    /// The end of time if it was not acknowledged.
    pub(super) returned: Moment,
}

impl Write {
    pub(super) fn is_acknowledged(&self) -> bool {
        self.returned != Moment::END
    }
}

/// Reads and writes of a log in the order of their calls.
#[derive(Debug)]
pub(super) struct Places<'a, A: Action> {
    pub(super) keys: Vec<&'a A::Key>,
    pub(super) reads: Vec<Read>,
    pub(super) writes: Vec<Write>,
}

/// A key and a version of it.
type Name<'a, A> = (&'a <A as Action>::Key, &'a <A as Action>::Version);

/// What the log says of one version.
#[derive(Debug)]
struct Known<'a, A: Action> {
    place: Option<&'a A::Place>,
    write: Option<Write>,
}

impl<'a, A: Action> Places<'a, A> {
    /// Ranks every version of the log.
    ///
    /// # Errors
    /// An operation that returned before its call; a version that two requests wrote. Of
    /// [`Order::OneWriter`], a key with two writers, and a read of a version that none wrote. Of
    /// [`Order::Told`], an acknowledged write or a read whose place no reply tells.
    pub(super) fn new(log: &'a Log<A>) -> Result<Self, Unfit> {
        log.check()?;
        let mut known = writes(log)?;
        let mut keys = BTreeSet::new();
        for operation in &log.operations {
            operation.accesses(&mut |access| match access {
                Access::Read {
                    key,
                    version,
                    place,
                } => {
                    keys.insert(key);
                    if let (Some(version), Some(place)) = (version, place) {
                        let known = known.entry((key, version)).or_insert(Known {
                            place: None,
                            write: None,
                        });
                        known.place = known.place.or(Some(place));
                    }
                }
                Access::Write { key, .. } => drop(keys.insert(key)),
            });
        }
        let keys: Vec<&A::Key> = keys.into_iter().collect();
        let ranks = match log.header.order {
            Order::Told => by_place(&known),
            Order::OneWriter => by_call(log, &known)?,
        };
        let mut places = Places {
            keys,
            reads: Vec::new(),
            writes: Vec::new(),
        };
        places.write(&known, &ranks)?;
        for (at, operation) in log.operations.iter().enumerate() {
            places.read(at, operation, &ranks)?;
        }
        places
            .reads
            .sort_by_key(|read| (read.called, read.operation));
        places
            .writes
            .sort_by_key(|write| (write.called, write.operation));
        Ok(places)
    }

    fn write(
        &mut self,
        known: &BTreeMap<Name<'a, A>, Known<'a, A>>,
        ranks: &BTreeMap<Name<'a, A>, usize>,
    ) -> Result<(), Unfit> {
        for (name, known) in known {
            let Some(write) = known.write else { continue };
            match ranks.get(name) {
                Some(rank) => self.writes.push(Write {
                    key: self.number(name.0),
                    rank: *rank,
                    ..write
                }),
                // Without a place a write that was not acknowledged was seen by no one.
                None if !write.is_acknowledged() => {}
                None => {
                    return Err(Unfit {
                        operation: write.operation,
                        reason: "no reply tells the place of the version it wrote".to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        at: usize,
        operation: &'a Operation<A>,
        ranks: &BTreeMap<Name<'a, A>, usize>,
    ) -> Result<(), Unfit> {
        let Some((returned, _)) = operation.done() else {
            return Ok(());
        };
        let mut unknown = None;
        operation.accesses(&mut |access| {
            let Access::Read { key, version, .. } = access else {
                return;
            };
            let rank = match version {
                None => Some(0),
                Some(version) => ranks.get(&(key, version)).copied(),
            };
            match (rank, version) {
                (Some(rank), _) => self.reads.push(Read {
                    operation: at,
                    key: self.number(key),
                    rank,
                    called: operation.called,
                    returned,
                }),
                (None, version) => unknown = version,
            }
        });
        match unknown {
            None => Ok(()),
            Some(version) => Err(Unfit {
                operation: at,
                reason: format!("unknown version: nothing says where {version} stands"),
            }),
        }
    }

    fn number(&self, key: &A::Key) -> usize {
        self.keys.partition_point(|known| *known < key)
    }
}

/// The writes that were not refused, by key and version.
fn writes<A: Action>(log: &Log<A>) -> Result<BTreeMap<Name<'_, A>, Known<'_, A>>, Unfit> {
    let mut known: BTreeMap<Name<'_, A>, Known<'_, A>> = BTreeMap::new();
    let mut twice = None;
    for (at, operation) in log.operations.iter().enumerate() {
        if operation.is_refused() {
            continue;
        }
        let returned = match &operation.end {
            Some((returned, Outcome::Done(_))) => *returned,
            _ => Moment::END,
        };
        operation.accesses(&mut |access| {
            let Access::Write {
                key,
                version,
                place,
            } = access
            else {
                return;
            };
            let write = Write {
                operation: at,
                key: 0,
                rank: 0,
                called: operation.called,
                returned,
            };
            let known = known.entry((key, version)).or_insert(Known {
                place: None,
                write: None,
            });
            known.place = known.place.or(place);
            match &mut known.write {
                None => known.write = Some(write),
                Some(first) => {
                    let is_again = |at: usize| 1 < log.operations[at].attempt;
                    if !is_again(at) && !is_again(first.operation) {
                        let reason = format!("{version} is written to {key} twice");
                        twice = Some((at, reason));
                    }
                    first.called = first.called.min(write.called);
                    first.returned = first.returned.min(write.returned);
                }
            }
        });
        if let Some((operation, reason)) = twice {
            return Err(Unfit { operation, reason });
        }
    }
    Ok(known)
}

/// Ranks by the places that replies told.
fn by_place<'a, A: Action>(
    known: &BTreeMap<Name<'a, A>, Known<'a, A>>,
) -> BTreeMap<Name<'a, A>, usize> {
    let mut placed: Vec<(&A::Key, &A::Place, Name<'a, A>)> = known
        .iter()
        .filter_map(|(name, known)| known.place.map(|place| (name.0, place, *name)))
        .collect();
    placed.sort();
    let of_keys = placed.chunk_by(|(one, ..), (other, ..)| one == other);
    of_keys
        .flat_map(|of_key| {
            let ranked = of_key.iter().enumerate();
            ranked.map(|(at, (_, _, name))| (*name, at + 1))
        })
        .collect()
}

/// Ranks by the calls of each key's one writer.
fn by_call<'a, A: Action>(
    log: &Log<A>,
    known: &BTreeMap<Name<'a, A>, Known<'a, A>>,
) -> Result<BTreeMap<Name<'a, A>, usize>, Unfit> {
    let written = known.iter();
    let mut called: Vec<(&A::Key, Moment, Name<'a, A>, usize)> = written
        .filter_map(|(name, known)| {
            let write = known.write?;
            Some((name.0, write.called, *name, write.operation))
        })
        .collect();
    called.sort();
    let mut ranks = BTreeMap::new();
    for of_key in called.chunk_by(|(one, ..), (other, ..)| one == other) {
        let writer = log.operations[of_key[0].3].process;
        for (at, (key, _, name, operation)) in of_key.iter().enumerate() {
            let process = log.operations[*operation].process;
            if process != writer {
                return Err(Unfit {
                    operation: *operation,
                    reason: format!(
                        "processes {writer} and {process} both write {key}, and no reply tells \
                         the order of versions"
                    ),
                });
            }
            ranks.insert(*name, at + 1);
        }
    }
    Ok(ranks)
}
