//! What a connection to ZooKeeper read with watches, kept as long as they have not fired.
//!
//! Invariants:
//! - ZKWIRE-5 what is kept was read on this connection, with a watch that has not fired.
//!
//! A server sends the notice of a watch before it shows the change to the same connection. So what
//! is kept is as new as all that was read on the connection.

use std::collections::{BTreeMap, BTreeSet};

use crate::guard::{Guard, Guards};

/// Keeps what was read, `V`, by where it was read, `K`.
#[derive(Clone, Debug)]
pub struct WatchCache<K, V> {
    kept: BTreeMap<K, V>,
    /// How many watches fired.
    notices: u64,
    /// Without their guard: those whose watch fired, which is not set again.
    fired: BTreeSet<K>,
    guards: Guards,
}

/// A read that is under way.
#[derive(Clone, Copy, Debug)]
pub struct WatchedRead {
    /// How many watches had fired when it was sent.
    notices: u64,
    /// Whether it sets a watch.
    pub watches: bool,
}

impl<K: Clone + Ord, V> WatchCache<K, V> {
    /// That of a new connection.
    pub fn new(guards: Guards) -> Self {
        WatchCache {
            kept: BTreeMap::new(),
            notices: 0,
            fired: BTreeSet::new(),
            guards,
        }
    }

    /// What is kept.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.kept.get(key)
    }

    /// How many watches fired.
    pub fn notices(&self) -> u64 {
        self.notices
    }

    /// A read is sent.
    pub fn begin<Q: Ord + ?Sized>(&self, key: &Q) -> WatchedRead
    where
        K: std::borrow::Borrow<Q>,
    {
        WatchedRead {
            notices: self.notices,
            watches: !self.fired.contains(key),
        }
    }

    /// A read was answered. Its watch may have fired before the answer was here: what was read
    /// while a watch fired is not kept.
    pub fn on_read(&mut self, key: K, read: WatchedRead, value: V) {
        if read.notices == self.notices {
            self.kept.insert(key, value);
        }
    }

    /// A watch fired.
    pub fn on_notice<Q>(&mut self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        self.notices += 1;
        self.kept.remove(key);
        if !self.guards.has(Guard::WatchRearmed) {
            self.fired.insert(key.to_owned());
        }
    }

    /// It is read the next time.
    pub fn forget<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
    {
        self.kept.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with one value, its watch, and the notices that are on their way.
    #[derive(Default)]
    struct Server {
        value: u64,
        is_watched: bool,
        fired: bool,
    }

    impl Server {
        fn change(&mut self) {
            self.value += 1;
            self.fired |= std::mem::take(&mut self.is_watched);
        }
    }

    /// Reads it, while `changes` happen before the answer is read. What was read, and what is true.
    fn look(cache: &mut WatchCache<u8, u64>, server: &mut Server, changes: u64) -> (u64, u64) {
        if std::mem::take(&mut server.fired) {
            cache.on_notice(&0);
        }
        if let Some(kept) = cache.get(&0) {
            return (*kept, server.value);
        }
        let read = cache.begin(&0);
        server.is_watched |= read.watches;
        let value = server.value;
        (0..changes).for_each(|_| server.change());
        // The notice is on the connection before the answer only if it fired before the read.
        cache.on_read(0, read, value);
        (value, value)
    }

    fn is_seen(guards: Guards) -> bool {
        let mut cache = WatchCache::new(guards);
        let mut server = Server::default();
        for round in 0..20 {
            look(&mut cache, &mut server, round % 3);
            server.change();
        }
        let (seen, is) = look(&mut cache, &mut server, 0);
        seen == is
    }

    #[test]
    fn a_changed_node_is_read_again() {
        assert!(is_seen(Guards::default()));
    }

    #[test]
    fn an_unchanged_node_is_read_once() {
        let mut cache = WatchCache::new(Guards::default());
        let read = cache.begin(&0);
        assert!(read.watches);
        cache.on_read(0, read, 7);
        assert_eq!(cache.get(&0), Some(&7));
        cache.forget(&0);
        assert_eq!(cache.get(&0), None);
    }

    #[test]
    fn a_read_during_a_firing_watch_is_not_kept() {
        let mut cache = WatchCache::new(Guards::default());
        let read = cache.begin(&0);
        cache.on_notice(&0);
        cache.on_read(0, read, 7);
        assert_eq!(cache.get(&0), None);
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn without_a_new_watch_the_second_change_is_missed() {
        assert!(!is_seen(Guards::without(vec![Guard::WatchRearmed])));
    }
}
