//! The part of a cloud that is the process's own: its clock, its tasks and its entropy.
//!
//! A system takes time, concurrency and randomness from a [`Runtime`] alone. On a real one it runs
//! on the machine; on a simulated one the same code runs in virtual time, from a seed.
//!
//! Invariants:
//! - RUNTIME-1 a task that was spawned runs until it ends or its process dies, also when nothing
//!   awaits it.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{BoxFuture, Either, FutureExt, select};

use crate::clock::Clock;

/// Starts tasks that run beside their caller.
pub trait Tasks: Debug + Send + Sync + 'static {
    /// Runs a future to its end, beside the caller.
    fn start(&self, task: BoxFuture<'static, ()>);
}

/// Random bytes of a process: of the operating system, or of a simulation's seed.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// Clock, tasks and entropy of one process. Clones are the same process.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Its tasks.
    pub tasks: Arc<dyn Tasks>,
    /// Its entropy.
    pub entropy: Arc<dyn Entropy>,
}

impl Runtime {
    /// Runs a future beside the caller. The result is its output, or `None` when the task died with
    /// its process; dropping the result does not end the task.
    pub fn spawn<F>(&self, future: F) -> impl Future<Output = Option<F::Output>> + Send + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (sender, output) = oneshot::channel();
        let task = async move {
            // The caller may have dropped the result.
            let _ = sender.send(future.await);
        };
        self.tasks.start(task.boxed());
        output.map(Result::ok)
    }

    /// The output of a future, or `None` when it has not ended within `time`; it is dropped then.
    pub async fn timeout<F: Future>(&self, time: Duration, future: F) -> Option<F::Output> {
        match select(pin!(future), self.clock.sleep(time)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// A random number of 64 bits.
    pub fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        self.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random id of 128 bits: it is never drawn twice.
    pub fn random_id(&self) -> u128 {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}
