//! The rules of batches: what is refused whole.

use std::collections::BTreeSet;

use crate::sqs::error::{Code, Error};
use crate::sqs::limits::Limits;
use crate::sqs::reply::Entry;

const ID_BYTES_MAX: usize = 80;

/// Refuses a batch that is empty, too long, or whose ids are no ids or not distinct.
pub(crate) fn check<'a>(
    ids: impl Iterator<Item = &'a str> + Clone,
    what: &str,
    limits: &Limits,
) -> Result<(), Error> {
    let count = ids.clone().count();
    let most = limits.batch_entries;
    if count == 0 {
        let message = format!("There should be at least one {what} in the request.");
        return Err(Error::new(Code::EmptyBatchRequest, message));
    }
    if most < count {
        let message =
            format!("Maximum number of entries per request are {most}. You have sent {count}.");
        return Err(Error::new(Code::TooManyEntriesInBatchRequest, message));
    }
    let mut seen = BTreeSet::new();
    for id in ids {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(1..=ID_BYTES_MAX).contains(&id.len()) || !id.bytes().all(is_plain) {
            let message = "A batch entry id can only contain alphanumeric characters, hyphens and \
                           underscores. It can be at most 80 letters long.";
            return Err(Error::new(Code::InvalidBatchEntryId, message));
        }
        if !seen.insert(id) {
            let message = format!("Id {id} repeated.");
            return Err(Error::new(Code::BatchEntryIdsNotDistinct, message));
        }
    }
    Ok(())
}

/// Of a request that is no batch: the refusal of its entry is that of the request.
pub(crate) fn single<T>(is_batch: bool, entries: &mut Vec<Entry<T>>) -> Result<(), Error> {
    if is_batch {
        return Ok(());
    }
    match entries.pop() {
        Some(Entry {
            outcome: Err(error),
            ..
        }) => Err(error),
        Some(entry) => {
            entries.push(entry);
            Ok(())
        }
        None => Ok(()),
    }
}
