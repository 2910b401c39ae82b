//! Work side by side.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

use anyhow::{Result, anyhow};

/// One for each core of the smallest machine that runs CI.
pub(super) const LANES: usize = 2;

/// Does the work of each item, of at most `lanes` at a time, in their order.
///
/// # Errors
/// The first of a lane, which takes no more items then.
pub(super) fn each<T: Send>(
    items: Vec<T>,
    lanes: usize,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(items));
    let next = || waiting.lock().ok()?.pop_front();
    let lane = || -> Result<()> {
        while let Some(item) = next() {
            work(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let ended: Vec<_> = lanes.into_iter().map(|lane| lane.join()).collect();
        ended.into_iter().try_for_each(|lane| match lane {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// Puts items of these names before all others, in the order of the names.
pub(super) fn put_first<T>(items: &mut [T], names: &[&str], name: impl Fn(&T) -> &str) {
    items.sort_by_key(|item| {
        let place = names.iter().position(|first| *first == name(item));
        place.unwrap_or(names.len())
    });
}

/// What a lock of a lane that panicked becomes.
pub(super) fn panicked<E>(_: E) -> anyhow::Error {
    anyhow!("a lane panicked")
}
