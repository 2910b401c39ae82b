//! The contract's runtime: the machine's clock, tokio's tasks, the operating system's entropy.

use std::sync::Arc;

use fader_cloud::{Entropy, Runtime, Tasks};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::clock::SystemClock;

/// Tasks of a tokio runtime, which ends them when it ends.
#[derive(Clone, Debug)]
struct TokioTasks(Handle);

/// The entropy of the operating system, stretched by `rand`'s generator of each thread.
#[derive(Clone, Copy, Debug)]
struct SystemEntropy;

impl Tasks for TokioTasks {
    fn start(&self, task: BoxFuture<'static, ()>) {
        // Not awaited: the output goes through the channel.
        drop(self.0.spawn(task));
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }
}

/// The runtime of this process: tasks run on the tokio runtime that this is called on.
///
/// # Panics
/// When it is not called on one.
pub fn system_runtime() -> Runtime {
    Runtime {
        clock: Arc::new(SystemClock::default()),
        tasks: Arc::new(TokioTasks(Handle::current())),
        entropy: Arc::new(SystemEntropy),
    }
}
