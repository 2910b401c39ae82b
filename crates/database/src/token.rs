//! A token: the one message of a queue. The client that received it has it until it shows again.

use std::time::Duration;

use fader_cloud::{Queues, Receive, Received, Result};

/// The token, hidden from others for `time`; none while another client has it, or it is lost.
///
/// # Errors
/// Of the queues.
pub(crate) async fn receive(
    queues: &dyn Queues,
    queue: &str,
    time: Duration,
) -> Result<Option<Received>> {
    let how = Receive {
        max: 1,
        visibility: Some(time),
        wait: Duration::ZERO,
    };
    let received = queues.receive(queue, &how).await?;
    Ok(received.into_iter().next())
}

/// Sends a token.
///
/// # Errors
/// Of the queues. It may have been sent then.
pub(crate) async fn send(queues: &dyn Queues, queue: &str, text: String) -> Result<()> {
    let sent = queues.send(queue, &[text]).await?;
    sent.into_iter().try_for_each(|outcome| outcome.map(drop))
}

/// Whether there is a token, shown or hidden.
///
/// # Errors
/// Of the queues.
pub(crate) async fn is_there(queues: &dyn Queues, queue: &str) -> Result<bool> {
    Ok(queues.counts(queue).await?.total() > 0)
}
