//! I11: the outcome of a strong request is what the service says on the log before its entry. The
//! client is told that outcome after the entry is committed.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Change, Entry, EntryId};

use super::evidence::merges;
use super::replay::Replay;
use super::{Evidence, Verdict, Violation, Witness};
use crate::history::{Reply, Request};
use crate::service::{PAIRS, Service, State, pairs_value};

/// Each entry's result and changes equal the service's decision on the log before it; each reply is
/// a committed result.
///
/// # Errors
/// The first entry that was decided on something else, or the first reply that is untrue.
pub fn decisions(evidence: &Evidence<'_>, service: Service) -> Verdict {
    let replies = replies(evidence)?;
    let requests = requests(evidence);
    let mut replay = Replay::default();
    let mut count = replies;
    for (entry, event) in &evidence.log {
        let asked = requests.get(&entry.id);
        let decision = asked.map(|(at, request)| (*at, service.decide(request, &replay)));
        replay.take(entry);
        let wrong = |text: String| Violation::new("I11", text).event(event);
        if let Some((at, decision)) = decision {
            count += 1;
            let answer = decision.answer.encode();
            let writes = decision.writes.iter();
            let writes = writes.map(|write| (&write.key, write.ops.as_slice()));
            if answer != entry.result || !writes.eq(merges(entry)) {
                let text = format!("the log before {} gives {:?}", entry.id, decision.answer);
                return Err(wrong(text).call(evidence.history, at));
            }
        }
        if let Some(derived) = derived(entry)
            && *derived != pairs_value(replay.pairs())
        {
            let text = format!("after {} there are {} pairs", entry.id, replay.pairs());
            return Err(Violation::new("SDB-5.2", text).event(event));
        }
    }
    Ok(count)
}

/// The requests of strong entries that are known, with the first call of each.
fn requests<'a>(evidence: &Evidence<'a>) -> BTreeMap<EntryId, (usize, &'a Request)> {
    let mut requests = BTreeMap::new();
    for (entry, at) in evidence.strong_calls() {
        let request = &evidence.history.calls[at].request;
        requests.entry(entry).or_insert((at, request));
    }
    requests
}

/// Every reply to a strong request names a committed entry of this request, with its result, and
/// was given after the commit (CO-4).
fn replies(evidence: &Evidence<'_>) -> Verdict {
    let history = evidence.history;
    let mut claimed = BTreeMap::new();
    for (at, call) in history.calls.iter().enumerate() {
        let Some((end, Reply::Decided { entry, result })) = call.done() else {
            continue;
        };
        let wrong = |text: String| Violation::new("I11", text).call(history, at);
        let place = evidence.place(*entry).filter(|place| *place > 0);
        let Some(place) = place else {
            return Err(wrong(format!("{entry} was never committed")));
        };
        let (committed, event) = evidence.log[place - 1];
        let wrong = |text: &str| wrong(text.to_owned()).event(event);
        if committed.result != *result || committed.request != call.name {
            return Err(wrong("the reply is not what was committed"));
        }
        if end < event.at {
            return Err(wrong("answered before its entry was committed"));
        }
        if let Some(other) = claimed.insert(*entry, at)
            && call.name.is_none()
        {
            return Err(wrong("two calls had one entry").call(history, other));
        }
    }
    Ok(claimed.len())
}

fn derived(entry: &Entry) -> Option<&Bytes> {
    entry.changes.iter().find_map(|change| match change {
        Change::Put { key, value } if key == PAIRS => Some(value),
        _ => None,
    })
}
