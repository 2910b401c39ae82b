//! Waiting to the microsecond on a runtime of one thread, whose own timers are as coarse as a
//! millisecond. It is a timer of the kernel among the sockets that the thread polls.

use std::io;
use std::time::Duration;

/// Waits for one time after another.
pub(crate) struct Pacer {
    /// A pipe to tokio: what it polls and reads is a timer.
    #[cfg(target_os = "linux")]
    timer: tokio::net::unix::pipe::Receiver,
}

#[cfg(target_os = "linux")]
impl Pacer {
    /// A pacer of the runtime that this is called on.
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let timer = tokio::net::unix::pipe::Receiver::from_file_unchecked(timer.into())?;
        Ok(Pacer { timer })
    }

    /// Returns when this much time has passed.
    pub(crate) async fn wait(&mut self, time: Duration) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec = Itimerspec {
            it_interval: none,
            it_value: Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                // A timer of 0 is off.
                tv_nsec: i64::from(time.subsec_nanos()).max(i64::from(time.as_secs() == 0)),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)?;
        loop {
            self.timer.readable().await?;
            match self.timer.try_read(&mut [0; 8]) {
                // What was ready is stale: wait on.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Pacer {
    /// A pacer of the runtime that this is called on.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Pacer {})
    }

    /// Returns when this much time has passed, a millisecond late at times.
    pub(crate) async fn wait(&mut self, time: Duration) -> io::Result<()> {
        tokio::time::sleep(time).await;
        Ok(())
    }
}
