//! Time, so that what waits can be tested without waiting.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

/// A clock of one process.
#[async_trait]
pub trait Clock: Debug + Send + Sync + 'static {
    /// Time since 1970 by the wall clock, which may jump.
    fn wall(&self) -> Duration;

    /// Time since any origin, which never goes back.
    fn monotonic(&self) -> Duration;

    /// Returns when this much more time has passed.
    async fn sleep(&self, time: Duration);
}
