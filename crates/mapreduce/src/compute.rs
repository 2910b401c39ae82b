//! Where computation happens: on a pool of threads, or inline in a simulation.

use std::fmt::Debug;

use futures_channel::oneshot;

use crate::failure::{Failure, Outcome};

/// Runs pieces of work that take processor time and wait for nothing of the cloud's.
pub trait Compute: Debug + Send + Sync + 'static {
    /// Runs a piece of work, perhaps later, perhaps on another thread.
    fn start(&self, work: Box<dyn FnOnce() + Send>);
}

/// Computes at once, on the caller's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Compute for Inline {
    fn start(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

/// The result of a piece of work.
///
/// # Errors
/// `Task` when the work panicked.
pub(crate) async fn computed<T: Send + 'static>(
    compute: &dyn Compute,
    work: impl FnOnce() -> T + Send + 'static,
) -> Outcome<T> {
    let (sender, output) = oneshot::channel();
    // The caller may be gone.
    compute.start(Box::new(move || drop(sender.send(work()))));
    let panicked = |_| Failure::task("the program panicked");
    output.await.map_err(panicked)
}
