//! The promises of the levels, checked on a history and the state at its end.

use std::collections::BTreeMap;

use fader_blink::Stamp;
use fader_database::Level;

use super::history::{Deed, Fate, History, Step};
use crate::cloud::Failure;

/// How often each promise was put to the test.
pub(super) type Claims = BTreeMap<&'static str, usize>;

/// Transactions with an unknown outcome that one key's check tries in all combinations.
const UNKNOWN_MAX: usize = 10;

/// Checks all promises against the records at the end.
pub(super) fn all(history: &History, end: &BTreeMap<String, String>) -> Result<Claims, Failure> {
    let mut claims = Claims::new();
    kept(history, end, &mut claims)?;
    whole(history, end, &mut claims)?;
    sessions(history, &mut claims)?;
    Ok(claims)
}

/// A deed on one key, with the stamp of its transaction if that is known.
struct Write<'a> {
    stamp: Option<Stamp>,
    deed: &'a Deed,
}

fn writes<'a>(history: &'a History, key: &str) -> Vec<Write<'a>> {
    let all = history.transactions.iter().filter_map(|transaction| {
        let stamp = match transaction.fate {
            Fate::Done(stamp) => Some(stamp),
            Fate::Unknown => None,
            Fate::Refused => return None,
        };
        let (_, deed) = transaction.deeds.iter().find(|(other, _)| other == key)?;
        Some(Write { stamp, deed })
    });
    all.collect()
}

/// Operations in the order of their stamps: an update of an absent key does nothing.
fn result<'a>(deeds: impl Iterator<Item = &'a Deed>) -> Option<&'a str> {
    deeds.fold(None, |value, deed| match deed {
        Deed::Put(new) => Some(&new[..]),
        Deed::Update(new) => value.map(|_| &new[..]),
        Deed::Delete => None,
    })
}

/// Nothing that was acknowledged is lost, and the state is that of the operations in the order of
/// their stamps. A transaction of unknown outcome has any place, or none (DB-10).
fn kept(
    history: &History,
    end: &BTreeMap<String, String>,
    claims: &mut Claims,
) -> Result<(), Failure> {
    let mut keys: Vec<&String> = history
        .transactions
        .iter()
        .flat_map(|transaction| transaction.deeds.iter().map(|(key, _)| key))
        .chain(end.keys())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let writes = writes(history, key);
        let (mut known, unknown): (Vec<_>, Vec<_>) =
            writes.iter().partition(|write| write.stamp.is_some());
        known.sort_by_key(|write| write.stamp);
        let found = end.get(key).map(String::as_str);
        if UNKNOWN_MAX < unknown.len() {
            continue;
        }
        *claims.entry("kept").or_default() += 1;
        let known: Vec<&Deed> = known.iter().map(|write| write.deed).collect();
        let unknown: Vec<&Deed> = unknown.iter().map(|write| write.deed).collect();
        if !is_possible(&known, &unknown, found) {
            let text = format!("{key} is {found:?} after {known:?}, perhaps {unknown:?}");
            return Err(Failure {
                guarantee: "kept",
                text,
            });
        }
    }
    Ok(())
}

/// Whether the known deeds in their order, with any of the others anywhere, come to `found`.
fn is_possible(known: &[&Deed], unknown: &[&Deed], found: Option<&str>) -> bool {
    // Only the last states matter: after each known deed any sequence of others may follow.
    let mut states: Vec<Option<&str>> = vec![None];
    close(&mut states, unknown);
    for deed in known {
        states = states
            .into_iter()
            .map(|state| match deed {
                Deed::Put(new) => Some(&new[..]),
                Deed::Update(new) => state.map(|_| &new[..]),
                Deed::Delete => None,
            })
            .collect();
        close(&mut states, unknown);
    }
    states.contains(&found)
}

/// All states that any of the deeds lead to. A deed may count twice, which allows a little more.
fn close<'a>(states: &mut Vec<Option<&'a str>>, deeds: &[&'a Deed]) {
    loop {
        let before = states.len();
        for deed in deeds {
            for at in 0..states.len() {
                let next = result([*deed].into_iter());
                let next = match (deed, states[at]) {
                    (Deed::Update(new), Some(_)) => Some(&new[..]),
                    (Deed::Update(_), None) => None,
                    _ => next,
                };
                if !states.contains(&next) {
                    states.push(next);
                }
            }
        }
        if states.len() == before {
            return;
        }
    }
}

/// An Atomic transaction is there whole, or not at all; an acknowledged one is there.
fn whole(
    history: &History,
    end: &BTreeMap<String, String>,
    claims: &mut Claims,
) -> Result<(), Failure> {
    for (number, transaction) in history.transactions.iter().enumerate() {
        if transaction.level != Level::Atomic {
            continue;
        }
        *claims.entry("whole").or_default() += 1;
        let own = ["a", "z"].map(|side| end.contains_key(&format!("{side}{number:06}")));
        let is_right = match transaction.fate {
            Fate::Unknown => own[0] == own[1],
            Fate::Refused => own == [false, false],
            Fate::Done(_) => own == [true, true],
        };
        if !is_right {
            let text = format!("transaction {number}, {:?}: {own:?}", transaction.fate);
            return Err(Failure {
                guarantee: "whole",
                text,
            });
        }
    }
    Ok(())
}

/// What a session knows of a key. Both stamps only rise.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    /// Of the newest put or delete: the key is absent only by a delete at or above it.
    life: Stamp,
    /// Of the newest write: a value that is read is at or above it.
    value: Stamp,
}

/// Read your writes and monotonic reads, for each key of each session.
fn sessions(history: &History, claims: &mut Claims) -> Result<(), Failure> {
    let mut floors: BTreeMap<(u64, &str), Floor> = BTreeMap::new();
    for (session, step) in &history.steps {
        match step {
            Step::Wrote(number) => {
                let transaction = &history.transactions[*number];
                let Fate::Done(stamp) = transaction.fate else {
                    continue;
                };
                for (key, deed) in &transaction.deeds {
                    // An update of an absent key leaves nothing to read.
                    if !matches!(deed, Deed::Update(_)) {
                        let floor = floors.entry((*session, key)).or_default();
                        floor.life = stamp.max(floor.life);
                        floor.value = stamp.max(floor.value);
                    }
                }
            }
            Step::Read(key, value) => {
                *claims.entry("session").or_default() += 1;
                let floor = floors.entry((*session, key)).or_default();
                let before = *floor;
                *floor = after(history, key, value.as_deref(), before).ok_or_else(|| {
                    let text = format!("session {session} read {key} = {value:?} after {before:?}");
                    Failure {
                        guarantee: "session",
                        text,
                    }
                })?;
            }
        }
    }
    Ok(())
}

/// What a session knows after it read this value, if it may read it.
fn after(history: &History, key: &str, value: Option<&str>, floor: Floor) -> Option<Floor> {
    let writes = writes(history, key);
    let Some(value) = value else {
        let is_deleted = writes.iter().any(|write| {
            *write.deed == Deed::Delete && write.stamp.is_none_or(|stamp| floor.life <= stamp)
        });
        return (floor.life == Stamp::ZERO || is_deleted).then_some(floor);
    };
    let write = writes.iter().find(|write| match write.deed {
        Deed::Put(new) | Deed::Update(new) => new == value,
        Deed::Delete => false,
    });
    let write = write?;
    let Some(stamp) = write.stamp else {
        return Some(floor);
    };
    let life = match write.deed {
        Deed::Put(_) => stamp.max(floor.life),
        // A delete from before the update may still come.
        _ => floor.life,
    };
    (floor.value <= stamp).then_some(Floor { life, value: stamp })
}
