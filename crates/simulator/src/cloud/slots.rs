//! The slots of a log in a bucket as they are, and what its followers saw of them.
//!
//! | check | what it shows |
//! |---|---|
//! | [`slots`] | a log has no gap; an acknowledged write is in one slot, a refused one in none |
//! | [`followed`] | a follower sees all writes up to a slot, no fewer later, none too late |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fader_cloud::ErrorKind;
use fader_cloud::model::Model;

use super::history::{Append, Failure, Follow, History};

/// What the names of appended items begin with.
pub(super) const ENTRY: &str = "entry-";
/// Bytes of such a name.
const ENTRY_BYTES: usize = ENTRY.len() + 9;

/// The name of an appended item, by the process and the number of the call.
pub(super) fn entry(process: usize, call: u64) -> String {
    format!("{ENTRY}{process:02}.{call:06}")
}

/// A slot of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) number: u64,
    /// The appended items of its writes.
    pub(super) entries: BTreeSet<String>,
}

/// The logs of a domain by their incarnations, read from the bucket without a request.
pub(super) fn logs(model: &Model, folder: &str) -> BTreeMap<String, Vec<Slot>> {
    let mut logs: BTreeMap<String, Vec<Slot>> = BTreeMap::new();
    for key in model.object_keys() {
        let Some(rest) = key.strip_prefix(folder) else {
            continue;
        };
        let mut parts = rest.trim_start_matches('/').split('/');
        let (Some(incarnation), Some(number)) = (parts.next(), parts.next()) else {
            continue;
        };
        let slot = Slot {
            number: u64::from_str_radix(number, 16).unwrap_or(0),
            entries: entries_in(&model.object(&key).unwrap_or_default()),
        };
        logs.entry(incarnation.to_owned()).or_default().push(slot);
    }
    logs
}

/// The names of appended items among bytes.
fn entries_in(bytes: &[u8]) -> BTreeSet<String> {
    let found = bytes.windows(ENTRY_BYTES);
    let found = found.filter(|window| window.starts_with(ENTRY.as_bytes()));
    found
        .map(|window| String::from_utf8_lossy(window).into_owned())
        .collect()
}

/// No slot is lost, no write doubled.
pub(super) fn slots(history: &History) -> Result<usize, Failure> {
    let broken = |text| {
        Err(Failure {
            guarantee: "slots",
            text,
        })
    };
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    let mut claims = 0;
    for (incarnation, slots) in &history.logs {
        for (slot, number) in slots.iter().zip(1..) {
            claims += 1;
            if slot.number != number {
                let found = slot.number;
                return broken(format!(
                    "log {incarnation}: slot {found} after {}",
                    number - 1
                ));
            }
            for entry in &slot.entries {
                if let Some(other) = places.insert(entry, number) {
                    return broken(format!("{entry} is in slots {other} and {number}"));
                }
            }
        }
    }
    if history.logs.is_empty() {
        return Ok(0);
    }
    for Append { name, outcome, .. } in &history.appends {
        let place = places.get(name.as_str());
        match (outcome, place) {
            (Some(Ok(())), None) => {
                return broken(format!("{name} was acknowledged, and is in no slot"));
            }
            (Some(Err(kind)), Some(slot)) if *kind != ErrorKind::Ambiguous => {
                return broken(format!(
                    "{name} failed with {kind:?}, and is in slot {slot}"
                ));
            }
            _ => {}
        }
    }
    Ok(claims)
}

/// What a follower sees is the log up to a slot, no earlier one than before. It misses no write
/// acknowledged before a strong read, or before an eventual one by more than its law.
pub(super) fn followed(history: &History, staleness: Duration) -> Result<usize, Failure> {
    let mut last: BTreeMap<(usize, u64), &Follow> = BTreeMap::new();
    for follow in &history.follows {
        in_order(history, follow)?;
        let law = match follow.is_strong {
            true => Duration::ZERO,
            false => staleness,
        };
        let missed = history.appends.iter().find(|append| {
            let is_old = append
                .span
                .ended
                .is_some_and(|ended| ended + law < follow.invoked);
            is_old && append.outcome == Some(Ok(())) && !follow.names.contains(&append.name)
        });
        if let Some(missed) = missed {
            return broken(follow, &format!("misses {}", missed.name));
        }
        // Copies of a service may be behind one another; a log's view is not behind itself.
        let before = last.insert(follow.by, follow);
        let gone = before.filter(|_| !history.logs.is_empty());
        let gone = gone.and_then(|before| before.names.difference(&follow.names).next());
        if let Some(gone) = gone {
            return broken(follow, &format!("shows {gone} no more"));
        }
    }
    let mut by_size: Vec<&Follow> = history.follows.iter().collect();
    by_size.sort_by_key(|follow| follow.names.len());
    for two in by_size.windows(2) {
        if let Some(other) = two[0].names.difference(&two[1].names).next() {
            return broken(
                two[1],
                &format!("has no {other}, which a smaller state has"),
            );
        }
    }
    Ok(history.follows.len())
}

fn broken<T>(follow: &Follow, what: &str) -> Result<T, Failure> {
    let at = follow.answered.as_secs_f64();
    let (process, _) = follow.by;
    Err(Failure {
        guarantee: "followed",
        text: format!("at {at:.3} s process {process} {what}"),
    })
}

/// Whether a follower saw whole slots, without a gap.
fn in_order(history: &History, follow: &Follow) -> Result<(), Failure> {
    for slots in history.logs.values() {
        let is_seen = |slot: &Slot| slot.entries.iter().any(|name| follow.names.contains(name));
        let Some(last) = slots.iter().rposition(is_seen) else {
            continue;
        };
        let mut all = slots[..=last].iter().flat_map(|slot| &slot.entries);
        if let Some(skipped) = all.find(|name| !follow.names.contains(*name)) {
            let last = slots[last].number;
            return broken(follow, &format!("has slot {last} and not {skipped}"));
        }
    }
    Ok(())
}
