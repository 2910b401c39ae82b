//! What ends the wait of a thread: a change of what the coordinator knows, or anything else that
//! the thread is told of.
//!
//! Invariants:
//! - WAIT-1 no call of [`Wakeup::wake`] is missed: one before [`Wakeup::wait`] ends it at once.
//!   Many before it are as one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes one thread.
#[derive(Debug, Default)]
pub struct Wakeup {
    is_due: Mutex<bool>,
    due: Condvar,
}

impl Wakeup {
    /// Ends the wait under way, or the next one.
    pub fn wake(&self) {
        *self.is_due.lock() = true;
        self.due.notify_one();
    }

    /// Waits until it is woken, or until the time is over.
    pub fn wait(&self, time: Duration) {
        let mut is_due = self.is_due.lock();
        if !*is_due {
            let sleeps = |is_due: &mut bool| !*is_due;
            self.due.wait_while_for(&mut is_due, sleeps, time);
        }
        *is_due = false;
    }
}

/// The threads that hear of changes, as long as they are there.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: Mutex<Vec<Weak<Wakeup>>>,
}

impl Listeners {
    /// `wakeup` is woken at each change from now on.
    pub(super) fn add(&self, wakeup: &Arc<Wakeup>) {
        self.all.lock().push(Arc::downgrade(wakeup));
    }

    /// Something has changed.
    pub(super) fn wake(&self) {
        self.all.lock().retain(|listener| {
            let listener = listener.upgrade();
            listener.inspect(|listener| listener.wake()).is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Listeners, Wakeup};

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_call_before_the_wait_ends_it() {
        let wakeup = Wakeup::default();
        wakeup.wake();
        wakeup.wake();
        wakeup.wait(LONG);
        assert!(!*wakeup.is_due.lock(), "two calls are as one");
        wakeup.wait(Duration::ZERO);
    }

    #[test]
    fn a_call_from_another_thread_ends_the_wait() {
        let wakeup = Arc::new(Wakeup::default());
        let waiting = wakeup.clone();
        let waiter = std::thread::spawn(move || waiting.wait(LONG));
        wakeup.wake();
        waiter.join().unwrap();
    }

    #[test]
    fn a_listener_is_forgotten_with_its_thread() {
        let listeners = Listeners::default();
        let (stays, goes) = (Arc::new(Wakeup::default()), Arc::new(Wakeup::default()));
        listeners.add(&stays);
        listeners.add(&goes);
        drop(goes);
        listeners.wake();
        assert!(*stays.is_due.lock());
        assert_eq!(listeners.all.lock().len(), 1);
    }
}
