//! The work that queues have to do later: what is over goes, in bounded steps; move tasks go on.
//!
//! Nothing ticks: a row in the system collection says when which queue has something to do. It is
//! done by the head of the chain, as garbage of deleted collections is.

use fader_chain::Change;

use crate::catalog::AccountId;
use crate::key::KeyRange;
use crate::sqs::layout::{self, OF_ERA};
use crate::sqs::message::{Place, Row as _, State};
use crate::sqs::moving;
use crate::sqs::queue::{Queue, Terms};
use crate::{Direction, ViewError};

/// What changes when the first queue that has work to do at `now_ms` does some of it. It does
/// `batch` rows at most; nothing when there is no work. Asked again it goes on.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn upkeep(terms: Terms<'_>, batch: usize) -> Result<Vec<Change>, ViewError> {
    let KeyRange { start, end } = layout::chores(terms.now_ms);
    let first = terms.view.scan(&start, &end, Direction::Forward).next();
    let Some((chore, _)) = first.transpose()? else {
        return Ok(Vec::new());
    };
    let collection = layout::chore_of(&chore)?;
    let Some(settings) = crate::sqs::queue::settings(terms.view, collection)? else {
        // The queue is deleted.
        return Ok(vec![Change::Remove { key: chore }]);
    };
    let account = AccountId(settings.account);
    let terms = Terms {
        account: &account,
        ..terms
    };
    let Some(mut queue) = Queue::open(terms, collection)? else {
        return Ok(vec![Change::Remove { key: chore }]);
    };
    queue.remove(chore);
    queue.counters.chore_ms = 0;
    let mut changes = moving::go_on(&mut queue)?;
    if changes.is_empty() {
        let left = sweep_eras(&mut queue, batch)?;
        let left = sweep_ended(&mut queue, left)?;
        if left == 0 {
            let now_ms = queue.now_ms;
            queue.note_chore(now_ms);
        }
    } else {
        // The rest of the work comes after the task's.
        let now_ms = queue.now_ms;
        queue.note_chore(now_ms);
    }
    changes.extend(queue.finish());
    Ok(changes)
}

/// Takes rows of earlier eras away, up to `batch`: how many more may be.
fn sweep_eras(queue: &mut Queue<'_>, batch: usize) -> Result<usize, ViewError> {
    if !queue.counters.is_unswept {
        return Ok(batch);
    }
    let mut left = batch;
    for table in OF_ERA {
        let rows = queue.scan(&queue.keys().earlier(table), left)?;
        left -= rows.len();
        for (key, _) in rows {
            queue.remove(key);
        }
        if left == 0 {
            return Ok(0);
        }
    }
    queue.counters.is_unswept = false;
    Ok(left)
}

/// Takes messages away whose retention is over, up to `batch`: how many more may be. When the next
/// one will be is noted.
pub(crate) fn sweep_ended(queue: &mut Queue<'_>, batch: usize) -> Result<usize, ViewError> {
    let mut left = batch;
    while 0 < left {
        let range = queue.keys().states_from(queue.counters.first);
        let Some((key, row)) = queue.scan(&range, 1)?.pop() else {
            queue.counters.first = queue.counters.last + 1;
            return Ok(left);
        };
        let (number, state) = (layout::number_of(&key)?, State::decode(row)?);
        queue.counters.first = number;
        let is_moving = matches!(state.place, Place::Moving(_));
        if !queue.is_over(&state) || is_moving {
            let retention_ms = queue.settings.retention_ms();
            let due_ms = (state.kept_from_ms + retention_ms).max(queue.now_ms + 1000);
            queue.note_chore(due_ms);
            return Ok(left);
        }
        queue.leave(&state)?;
        queue.expire(number);
        left -= 1;
    }
    Ok(0)
}
