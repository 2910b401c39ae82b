//! Names for writes that must not happen twice.
//!
//! A name is a client, at random, and a number that only that client uses (protocol XO-1). A
//! service remembers the results of a client's last 1,024 numbers and refuses older ones (XO-4). So
//! a client whose oldest unfinished write lies too far back begins no other: another client does.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use fader_chain::RequestId;

/// How far the numbers of a client's unfinished writes may lie apart. Bound: 1 to 1,023; half of
/// what is remembered, since those that came to no end are not counted.
const SPAN_MAX: u64 = 512;

/// Gives names.
#[derive(Debug, Default)]
pub(crate) struct RequestIds {
    clients: Mutex<Vec<Client>>,
}

#[derive(Debug)]
struct Client {
    client: u128,
    next: u64,
    /// The numbers of writes under way.
    open: BTreeSet<u64>,
}

/// A name in use, until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestIdGuard<'a> {
    names: &'a RequestIds,
    name: RequestId,
}

impl RequestIds {
    /// A name that was never used.
    pub(crate) fn take(&self) -> RequestIdGuard<'_> {
        let mut clients = self.clients();
        let free = clients.iter().position(Client::has_room);
        let at = free.unwrap_or(clients.len());
        if free.is_none() {
            clients.push(Client {
                client: rand::random(),
                next: 0,
                open: BTreeSet::new(),
            });
        }
        let it = &mut clients[at];
        it.next += 1;
        it.open.insert(it.next);
        RequestIdGuard {
            names: self,
            name: RequestId {
                client: it.client.into(),
                seq: it.next,
                part: 0,
            },
        }
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Client>> {
        let clients = self.clients.lock();
        clients.expect("nothing panics while the list is locked")
    }
}

impl Client {
    fn has_room(&self) -> bool {
        let oldest = self.open.first();
        oldest.is_none_or(|oldest| self.next - oldest < SPAN_MAX)
    }
}

impl RequestIdGuard<'_> {
    pub(crate) fn name(&self) -> &RequestId {
        &self.name
    }
}

impl Drop for RequestIdGuard<'_> {
    fn drop(&mut self) {
        let mut clients = self.names.clients();
        let it = clients
            .iter_mut()
            .find(|it| it.client == self.name.client.id);
        if let Some(it) = it {
            it.open.remove(&self.name.seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_write_under_way_is_never_left_behind_by_a_window() {
        let names = RequestIds::default();
        let old = names.take();
        let mut seen = BTreeSet::from([*old.name()]);
        for _ in 0..3 * SPAN_MAX {
            let named = names.take();
            assert!(seen.insert(*named.name()), "a name is given once");
        }
        let of_old = seen.iter().filter(|it| it.client == old.name().client);
        let newest = of_old.map(|it| it.seq).max().unwrap_or_default();
        assert_eq!(newest - old.name().seq, SPAN_MAX);
        // When it is over, its client goes on.
        let client = old.name().client;
        drop(old);
        assert_eq!(names.take().name().client, client);
    }
}
