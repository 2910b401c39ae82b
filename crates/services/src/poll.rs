//! What the carriers of a request that may wait tell each other of it. Its decider tells that it
//! waits, its asker that its client has gone.
//!
//! ```text
//! client gone ──▶ give_up ──▶ [given_up: told to the decider's process] ──▶ give_up there
//!                                                                             │
//! decided to wait ──▶ note_waits ─────────────────────────────────────────────┴──▶ over
//! ```
//!
//! A poll whose client has gone ends once it waits, and not before. A decision that serves it is
//! still told, to a client that may only have ended its half of the connection.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Context, Poll as Polled, Waker};

/// A request that may wait, as it is carried out.
#[derive(Debug, Default)]
pub struct Poll(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waits: bool,
    is_given_up: bool,
    wakers: Vec<Waker>,
}

impl Poll {
    /// It was decided that it waits.
    pub fn note_waits(&self) {
        self.change(|state| state.waits = true);
    }

    /// Its client has gone, or had better be answered now.
    pub fn give_up(&self) {
        self.change(|state| state.is_given_up = true);
    }

    /// Resolves when its client has gone.
    pub async fn given_up(&self) {
        self.until(|state| state.is_given_up).await;
    }

    /// Resolves when its client has gone and it waits: it may end without an effect.
    pub async fn over(&self) {
        self.until(|state| state.is_given_up && state.waits).await;
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let wakers = {
            let mut state = self.state();
            change(&mut state);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    async fn until(&self, is_reached: impl Fn(&State) -> bool) {
        poll_fn(|context: &mut Context<'_>| {
            let mut state = self.state();
            if is_reached(&state) {
                return Polled::Ready(());
            }
            let waker = context.waker();
            if !state.wakers.iter().any(|known| known.will_wake(waker)) {
                state.wakers.push(waker.clone());
            }
            Polled::Pending
        })
        .await;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it is locked")
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn one_whose_client_has_gone_is_over_once_it_waits() {
        for is_gone_first in [true, false] {
            let poll = Poll::default();
            let mut context = Context::from_waker(Waker::noop());
            let (mut gone, mut over) = (pin!(poll.given_up()), pin!(poll.over()));
            assert!(gone.as_mut().poll(&mut context).is_pending());
            assert!(over.as_mut().poll(&mut context).is_pending());
            match is_gone_first {
                true => poll.give_up(),
                false => poll.note_waits(),
            }
            assert_eq!(
                gone.as_mut().poll(&mut context).is_ready(),
                is_gone_first,
                "who waits has not gone"
            );
            assert!(over.as_mut().poll(&mut context).is_pending());
            match is_gone_first {
                true => poll.note_waits(),
                false => poll.give_up(),
            }
            assert!(over.as_mut().poll(&mut context).is_ready());
        }
    }
}
