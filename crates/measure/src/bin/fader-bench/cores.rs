//! Which cores a load and its server run on. On cores in common the scheduler makes each wait for
//! the other, milliseconds at a time. A generator that waits is late, and its replies are old.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Calls `start` on all cores of this thread but the first, and leaves the thread on the first.
/// Threads and processes that either starts later stay on the same cores. With one core they share
/// it.
///
/// # Errors
/// The system refuses the cores.
pub(crate) fn apart<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    let all = sched_getaffinity(None)?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
    let (mut first, mut others) = (CpuSet::new(), CpuSet::new());
    cores.next().into_iter().for_each(|core| first.set(core));
    cores.for_each(|core| others.set(core));
    if others.count() == 0 {
        return Ok(start());
    }
    sched_setaffinity(None, &others)?;
    let started = start();
    sched_setaffinity(None, &first)?;
    Ok(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_thread_shares_no_core_with_this_one() {
        let all = sched_getaffinity(None).unwrap();
        let of_child = || std::thread::spawn(|| sched_getaffinity(None).unwrap());
        let (of_started, of_this) = std::thread::spawn(move || {
            let started = apart(of_child).unwrap();
            (started.join().unwrap(), sched_getaffinity(None).unwrap())
        })
        .join()
        .unwrap();
        let is_shared = |core: &usize| of_started.is_set(*core) && of_this.is_set(*core);
        assert_eq!(
            (0..CpuSet::MAX_CPU).any(|core| is_shared(&core)),
            all.count() == 1
        );
        let of_both = of_started.count() + of_this.count();
        assert_eq!(of_both, all.count().max(2));
    }
}
