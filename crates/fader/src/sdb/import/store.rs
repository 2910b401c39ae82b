//! One batch of an import: stored as a whole, or item by item when the whole is refused.

use std::time::Duration;

use anyhow::{Result, bail};
use fader_client::{CallOptions, Error, ErrorKind, SimpleDb};
use fader_cloud::ItemPut;

/// How often a request is sent before the import gives up.
const ATTEMPTS_MAX: u32 = 7;

/// The wait before the second attempt; it doubles each time.
const WAIT_FIRST: Duration = Duration::from_millis(100);

/// What became of a line.
pub(super) struct Settled {
    pub(super) number: u64,
    pub(super) item: String,
    pub(super) outcome: Outcome,
}

/// Whether a line's item is stored.
pub(super) enum Outcome {
    Stored,
    Rejected(String),
}

/// Stores a batch.
///
/// # Errors
/// When the service cannot be reached, or refuses for a reason that is not the items'.
pub(super) async fn batch(
    service: &SimpleDb,
    domain: &str,
    batch: Vec<(u64, ItemPut)>,
) -> Result<Vec<Settled>> {
    let (numbers, puts): (Vec<u64>, Vec<ItemPut>) = batch.into_iter().unzip();
    let mut settled = Vec::with_capacity(puts.len());
    // All or nothing: one item that is refused refuses its neighbours, which then go alone.
    let is_stored = puts.len() > 1 && attempt(service, domain, &puts).await?.is_ok();
    for (number, put) in numbers.into_iter().zip(puts) {
        let outcome = match is_stored {
            true => Outcome::Stored,
            false => match attempt(service, domain, std::slice::from_ref(&put)).await? {
                Ok(()) => Outcome::Stored,
                Err(reason) => Outcome::Rejected(format!("item {:?}: {reason}", put.name)),
            },
        };
        settled.push(Settled {
            number,
            item: put.name,
            outcome,
        });
    }
    Ok(settled)
}

/// Sends a batch until there is an answer; the refusal's text when the items are at fault.
async fn attempt(
    service: &SimpleDb,
    domain: &str,
    puts: &[ItemPut],
) -> Result<std::result::Result<(), String>> {
    let mut wait = WAIT_FIRST;
    for _ in 1..ATTEMPTS_MAX {
        match service
            .batch_put_attributes(domain, puts, CallOptions::default())
            .await
        {
            Ok(_) => return Ok(Ok(())),
            Err(error) => match judge(&error) {
                Judgement::Items(reason) => return Ok(Err(reason)),
                Judgement::Import => bail!(error),
                Judgement::Later => tokio::time::sleep(wait).await,
            },
        }
        wait *= 2;
    }
    match service
        .batch_put_attributes(domain, puts, CallOptions::default())
        .await
    {
        Ok(_) => Ok(Ok(())),
        Err(error) => bail!(error),
    }
}

/// What a failure is about.
enum Judgement {
    /// These items: the others can go on.
    Items(String),
    /// The whole import: no request would fare better.
    Import,
    /// This moment. Sending again is safe even if the first was carried out.
    Later,
}

fn judge(error: &Error) -> Judgement {
    match &error.kind {
        ErrorKind::Refused { status, .. } if *status >= 500 || *status == 408 => Judgement::Later,
        ErrorKind::Refused { status: 403, .. } => Judgement::Import,
        ErrorKind::Refused { code, .. } if code == "NoSuchDomain" || code == "RequestExpired" => {
            Judgement::Import
        }
        ErrorKind::Refused { code, message, .. } => Judgement::Items(format!("{code}: {message}")),
        ErrorKind::Unavailable | ErrorKind::Ambiguous => Judgement::Later,
        ErrorKind::Invalid | ErrorKind::Malformed => Judgement::Import,
    }
}
