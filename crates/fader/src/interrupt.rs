//! Ctrl-C at the commands.

use anyhow::{Context as _, Result};
use fader_services::ErrorCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure;

/// The exit code after an interrupt (128 + SIGINT).
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// The failure of a command that an interrupt ended.
///
/// # Errors
/// Always: with [`ErrorCode::Interrupted`].
pub(crate) fn interrupted<T>() -> Result<T> {
    failure::fail(ErrorCode::Interrupted, "interrupted")
}

/// The interrupts (SIGINT) of this process since [`Interrupts::listen`]. One that arrives between
/// two waits ends the second: `tokio::signal::ctrl_c`, called again in a loop, would miss it.
pub(crate) struct Interrupts(Signal);

impl Interrupts {
    /// Listens from now on; an interrupt ends the process no more by itself.
    ///
    /// # Errors
    /// The system takes no handler of signals.
    pub(crate) fn listen() -> Result<Self> {
        let signal = signal(SignalKind::interrupt()).context("cannot listen to interrupts")?;
        Ok(Interrupts(signal))
    }

    /// Waits for the next interrupt that no earlier wait has seen. Several that arrive before the
    /// wait are one.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Interrupts;

    /// Two listeners, so that a wait of the first proves that the second was told.
    #[tokio::test]
    async fn an_interrupt_between_two_waits_ends_the_second() {
        let mut told = Interrupts::listen().unwrap();
        let mut interrupts = Interrupts::listen().unwrap();
        tokio::select! {
            biased;
            () = interrupts.next() => panic!("nothing interrupts yet"),
            () = std::future::ready(()) => {}
        }
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT)
            .unwrap();
        told.next().await;
        interrupts.next().await;
    }
}
