//! Which clients are idle, and in how many entries they go.

use std::collections::BTreeMap;

use super::*;
use crate::entry::{Entry, RequestId};

/// The state after `count` strong requests of each of these clients, numbered from 1.1.
fn state(clients: &[(u128, u64)]) -> BTreeMap<Bytes, Bytes> {
    let mut state = BTreeMap::new();
    let mut last = EntryId::ZERO;
    for (client, count) in clients {
        for seq in 1..=*count {
            let id = EntryId::new(1, last.index + 1);
            let request = RequestId {
                client: (*client).into(),
                seq,
                part: 0,
            };
            let entry = Entry {
                id,
                prev: last,
                safe_point: EntryId::ZERO,
                stamp: Stamp::strong(id),
                request: Some(request),
                result: Bytes::new(),
                changes: Vec::new(),
            };
            let mut mutations = Vec::new();
            let mut swept = dedup::DedupCursor::default();
            dedup::record(&entry, request, &state, &mut swept, &mut mutations).unwrap();
            for mutation in mutations {
                state.insert(mutation.key, mutation.value.expect("none is swept"));
            }
            last = id;
        }
    }
    state
}

/// Removes what is found until nothing is; how much each time.
fn drop_all(state: &mut BTreeMap<Bytes, Bytes>, before: u64) -> Vec<usize> {
    let mut removed = Vec::new();
    let mut next = Some(Client::default());
    while let Some(first) = next {
        let found = idle(state, first, EntryId::new(1, before), EntryId::ZERO).unwrap();
        removed.push(found.changes.len());
        for change in found.changes {
            match change {
                Change::Remove { key } => drop(state.remove(&key).expect("it is there")),
                Change::Put { key, value } => drop(state.insert(key, value)),
                other => panic!("{other:?} is no plain change"),
            }
        }
        next = found.next;
    }
    removed
}

#[test]
fn a_client_with_many_results_goes_in_several_entries() {
    let mut state = state(&[(1, 600), (2, 3), (u128::MAX, 2)]);
    assert_eq!(drop_all(&mut state, 605), [256, 256, 96]);
    let clients = [1, 2, u128::MAX].map(|id: u128| keys::client_key(id.into()));
    assert!(state.keys().eq(clients.iter()));
    assert_eq!(drop_all(&mut state, 605), [0]);
}

#[test]
fn an_expired_request_is_not_carried_out_again() {
    let mut state = state(&[(1, 3)]);
    drop_all(&mut state, 3);
    let known = |seq| {
        let name = RequestId {
            client: 1_u128.into(),
            seq,
            part: 0,
        };
        dedup::known(&name, &state).unwrap()
    };
    assert_eq!(known(3), Some(dedup::DedupState::TooOld));
    assert_eq!(known(4), None);
}

/// It shows DEDUP-3.
#[test]
fn a_client_that_asked_later_keeps_all_results() {
    let all = state(&[(1, 300), (2, 3), (3, 2)]);
    let mut state = all.clone();
    // The last of client 2 is 1.303.
    assert_eq!(drop_all(&mut state, 302), [256, 45]);
    assert_eq!(state.len(), 1 + 3 + 1 + 2 + 1);
}

#[test]
fn settlements_above_the_floor_stay() {
    let mut state = state(&[(1, 1), (2, 1)]);
    for value in state.values_mut().filter(|value| 2 < value.len()) {
        let id = value[1];
        *value = Bytes::copy_from_slice(&[1, id, 1]);
    }
    let safe_point = EntryId::new(1, 1);
    let found = idle(&state, Client::default(), EntryId::new(1, 2), safe_point).unwrap();
    let changed = found.changes.into_iter().map(|change| match change {
        Change::Remove { key } | Change::Put { key, .. } => key,
        other => panic!("{other:?} is no plain change"),
    });
    assert!(changed.eq([keys::client_key(1_u128.into()), results_key(1)]));
}

fn results_key(client: u128) -> Bytes {
    keys::result_key(RequestId {
        client: client.into(),
        seq: 1,
        part: 0,
    })
}
