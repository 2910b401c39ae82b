//! Names that this process gives to requests without one, so that it may ask several members.
//!
//! A write that is asked twice needs a name (XO-2). Numbers of one client must come in order, or
//! nearly so (XO-4), and members keep what each client's last requests came to. So a client is lent
//! to one request at a time, with the next of its numbers. There are as many clients as there are
//! such requests at once.

use std::io;

use fader_chain::RequestId;
use parking_lot::Mutex;

use crate::random;

/// The clients that are lent to no request, each with its next number.
#[derive(Debug, Default)]
pub(crate) struct OwnNames(Mutex<Vec<RequestId>>);

/// A name that is one request's. Its client is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    names: &'a OwnNames,
    name: RequestId,
}

impl OwnNames {
    /// A name that no request has.
    ///
    /// # Errors
    /// [`io::Error`] when the system has no randomness for another client.
    pub(crate) fn lend(&self) -> io::Result<Lent<'_>> {
        let free = self.0.lock().pop();
        let name = match free {
            Some(name) => name,
            None => RequestId {
                client: random::incarnation().map_err(io::Error::other)?.0.into(),
                seq: 1,
                part: 0,
            },
        };
        Ok(Lent { names: self, name })
    }
}

impl Lent<'_> {
    /// The name.
    pub(crate) fn name(&self) -> RequestId {
        self.name
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let next = RequestId {
            seq: self.name.seq + 1,
            ..self.name
        };
        self.names.0.lock().push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_given_twice_and_a_clients_numbers_rise_one_by_one() {
        let names = OwnNames::default();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let lent = [(); 4].map(|()| names.lend().unwrap());
            seen.extend(lent.iter().map(Lent::name));
        }
        let mut clients: Vec<_> = seen.iter().map(|it| it.client).collect();
        clients.sort();
        clients.dedup();
        assert_eq!(clients.len(), 4, "as many as there were at once");
        for client in clients {
            let its = seen.iter().filter(|it| it.client == client);
            let numbers: Vec<u64> = its.map(|it| it.seq).collect();
            assert_eq!(numbers, [1, 2, 3]);
        }
    }
}
