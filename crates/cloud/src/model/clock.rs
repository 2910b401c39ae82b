//! Virtual time, and the smallest executor that moves it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::Clock;

/// When virtual time begins: 2026-01-01.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

/// Time that passes when [`ModelClock::advance_to_next`] is called.
#[derive(Debug, Default)]
pub struct ModelClock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: Duration,
    /// Who is to be woken when, in the order in which they asked.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    count: u64,
}

impl ModelClock {
    /// Moves on to the next moment at which somebody is to be woken; whether there is one.
    pub fn advance_to_next(&self) -> bool {
        let mut state = self.state();
        let Some(((at, _), waker)) = state.sleepers.pop_first() else {
            return false;
        };
        state.now = state.now.max(at);
        drop(state);
        waker.wake();
        true
    }

    /// Wakes somebody at a time. Who is woken looks again, so once too often does no harm.
    pub(super) fn wake_at(&self, at: Duration, waker: &Waker) {
        let mut state = self.state();
        let number = state.count;
        state.count += 1;
        state.sleepers.insert((at, number), waker.clone());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it is locked")
    }
}

#[async_trait]
impl Clock for ModelClock {
    fn wall(&self) -> Duration {
        BEGINNING + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.state().now
    }

    async fn sleep(&self, time: Duration) {
        let until = self.monotonic() + time;
        poll_fn(|context| {
            if until <= self.monotonic() {
                return Poll::Ready(());
            }
            self.wake_at(until, context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// Runs a future to its end; time passes when nothing else can happen.
///
/// # Panics
/// When the future waits for what never comes.
pub fn run<F: Future>(clock: &ModelClock, future: F) -> F::Output {
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(woken.clone());
    let mut future = pin!(future);
    loop {
        while woken.0.swap(false, Ordering::Relaxed) {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
        }
        assert!(clock.advance_to_next(), "nobody is left to wake the future");
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
