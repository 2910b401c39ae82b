//! Move tasks: all messages that a dead-letter queue has go to another queue, at a rate.
//!
//! A task is a row of the dead-letter queue. It goes on in bounded entries of `upkeep`, on the head
//! of the queue's chain, so that it survives restarts and failovers.
//!
//! Invariants:
//! - QM-1 a task moves messages that were there when it began, and could be received.
//! - QM-2 of one queue one task runs.

use fader_chain::{ChainId, Change};

use crate::catalog::{self, Name};
use crate::key::KeyRange;
use crate::service::Context;
use crate::sqs::command::{
    CancelMessageMoveTask, ListMessageMoveTasks, Request, StartMessageMoveTask,
};
use crate::sqs::dead::{DeadLetters, Moved};
use crate::sqs::error::{Code, Error};
use crate::sqs::grants;
use crate::sqs::handle::{derive, show};
use crate::sqs::layout::{self, Index, Spot};
use crate::sqs::limits::Limits;
use crate::sqs::message::{MoveTask, Place, Row as _};
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::reply::{Reply, Task};
use crate::sqs::settings::name_in;
use crate::sqs::show::count;
use crate::{CollectionId, Direction, Kind, View, ViewError};

const RUNNING: u8 = 0;
const COMPLETED: u8 = 1;
const CANCELLED: u8 = 2;
const FAILED: u8 = 3;
const STATUS: [&str; 4] = ["RUNNING", "COMPLETED", "CANCELLED", "FAILED"];
/// Tasks of one queue that are remembered.
const REMEMBERED: usize = 10;
/// Messages that one entry moves.
const BATCH: usize = 64;

type Decided = Result<(Reply, Vec<Change>), Error>;

/// Begins a task.
pub(crate) fn start(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &StartMessageMoveTask,
) -> Decided {
    let mut queue = source(view, context, "SourceArn")?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let invalid = |message: &str| Err(Error::new(Code::InvalidParameterValue, message));
    let most = context.limits.moves_per_second;
    let per_second = match command.max_per_second {
        None => 0,
        Some(given) => match u64::try_from(given) {
            Ok(rate) if (1..=most).contains(&rate) => rate,
            _ => {
                let reason = format!("Value must be between 1 and {most}.");
                let name = "MaxNumberOfMessagesPerSecond";
                return Err(Error::value(&given.to_string(), name, &reason));
            }
        },
    };
    let sources = layout::sources_after(queue.collection, None);
    if queue.scan(&sources, 1)?.is_empty() {
        return invalid("Source queue must be configured as a Dead Letter Queue.");
    }
    if queue.counters.task_ms != 0 {
        return invalid(
            "There is already a task running. Only one active task is allowed for a source queue \
             arn at a given time.",
        );
    }
    let place = context.towards.map(|place| (place.chain, place.collection));
    if command.destination.is_some() && place.is_none() {
        return Err(not_found("DestinationArn"));
    }
    let task = MoveTask {
        id: derive(request.seed, "task", 0),
        destination: command.destination.clone().unwrap_or_default(),
        destination_arn: command.destination_arn.clone(),
        per_second,
        moved: 0,
        to_move: count(&mut queue)?.visible,
        last: queue.counters.last,
        status: RUNNING,
        failure: None,
        place,
        next_ms: queue.now_ms,
    };
    forget_tasks(&mut queue)?;
    // Two tasks do not begin in one millisecond: the row of the first would go.
    let mut started_ms = queue.now_ms;
    while queue
        .get(&layout::task_key(queue.collection, started_ms))?
        .is_some()
    {
        started_ms += 1;
    }
    queue.counters.task_ms = started_ms;
    put(&mut queue, started_ms, &task);
    let now_ms = queue.now_ms;
    queue.note_chore(now_ms);
    let handle = handle(&queue, started_ms, &task);
    Ok((Reply::Started(handle), queue.finish()))
}

fn source<'a>(
    view: &'a dyn View,
    context: &Context<'a, Limits>,
    parameter: &str,
) -> Result<Queue<'a>, Error> {
    Queue::of(view, context).map_err(|error| match error.code {
        Code::QueueDoesNotExist => not_found(parameter),
        _ => error,
    })
}

fn not_found(parameter: &str) -> Error {
    let message =
        format!("The resource that you specified for the {parameter} parameter doesn't exist.");
    Error::new(Code::ResourceNotFound, message)
}

/// Ends a task. What was moved stays moved.
pub(crate) fn cancel(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &CancelMessageMoveTask,
) -> Decided {
    let mut queue = source(view, context, "SourceArn")?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let started_ms = queue.counters.task_ms;
    let task = find(&queue, started_ms)?;
    let task = task.filter(|task| show(&task.id.to_be_bytes()) == command.task);
    let Some(task) = task else {
        return Err(Error::new(Code::ResourceNotFound, "Task does not exist."));
    };
    let moved = task.moved;
    end(&mut queue, started_ms, task, CANCELLED);
    Ok((Reply::Cancelled(moved), queue.finish()))
}

/// The newest tasks.
pub(crate) fn list(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &ListMessageMoveTasks,
) -> Result<Reply, Error> {
    let queue = source(view, context, "SourceArn")?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let given = command.max_results.unwrap_or(1);
    let count = usize::try_from(given)
        .ok()
        .filter(|count| (1..=REMEMBERED).contains(count));
    let count = count.ok_or_else(|| {
        let reason = format!("Value must be between 1 and {REMEMBERED}.");
        Error::value(&given.to_string(), "MaxResults", &reason)
    })?;
    let KeyRange { start, end } = layout::tasks(queue.collection);
    let mut tasks = Vec::new();
    for pair in view.scan(&start, &end, Direction::Backward).take(count) {
        let (key, row) = pair?;
        let (started_ms, task) = (layout::number_of(&key)?, MoveTask::decode(row)?);
        let is_running = task.status == RUNNING;
        tasks.push(Task {
            handle: is_running.then(|| handle(&queue, started_ms, &task)),
            status: STATUS[usize::from(task.status.min(FAILED))].to_owned(),
            source_arn: queue.settings.arn(),
            destination_arn: task.destination_arn,
            max_per_second: Some(task.per_second).filter(|rate| *rate != 0),
            moved: task.moved,
            to_move: task.to_move,
            failure: task.failure,
            started_ms,
        });
    }
    Ok(Reply::Tasks(tasks))
}

/// A handle names the queue, so that it can be found.
fn handle(queue: &Queue<'_>, _started_ms: u64, task: &MoveTask) -> String {
    let id = show(&task.id.to_be_bytes());
    show(format!("{id} {}", queue.settings.arn()).as_bytes())
}

/// The task and the ARN of its queue in a handle.
pub fn split_task_handle(handle: &str) -> Option<(String, String)> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(handle)
        .ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (id, arn) = text.split_once(' ')?;
    Some((id.to_owned(), arn.to_owned()))
}

fn find(queue: &Queue<'_>, started_ms: u64) -> Result<Option<MoveTask>, ViewError> {
    match started_ms {
        0 => Ok(None),
        started_ms => queue.row(&layout::task_key(queue.collection, started_ms)),
    }
}

fn put(queue: &mut Queue<'_>, started_ms: u64, task: &MoveTask) {
    let key = layout::task_key(queue.collection, started_ms);
    queue.put(key, task.encode());
}

fn end(queue: &mut Queue<'_>, started_ms: u64, task: MoveTask, status: u8) {
    queue.counters.task_ms = 0;
    put(queue, started_ms, &MoveTask { status, ..task });
}

/// Forgets the oldest tasks, so that there is room for a new one.
fn forget_tasks(queue: &mut Queue<'_>) -> Result<(), ViewError> {
    let tasks = queue.scan(&layout::tasks(queue.collection), 2 * REMEMBERED)?;
    let more = (tasks.len() + 1).saturating_sub(REMEMBERED);
    for (key, _) in tasks.into_iter().take(more) {
        queue.remove(key);
    }
    Ok(())
}

/// Goes on with the task of a queue: what changes beside the queue itself. The work of the next
/// time is noted.
pub(crate) fn go_on<'a>(queue: &mut Queue<'a>) -> Result<Vec<Change>, ViewError> {
    let started_ms = queue.counters.task_ms;
    let Some(mut task) = find(queue, started_ms)? else {
        return Ok(Vec::new());
    };
    if queue.now_ms < task.next_ms {
        queue.note_chore(task.next_ms);
        return Ok(Vec::new());
    }
    let limit = match task.per_second {
        0 => BATCH,
        rate => usize::try_from(rate).unwrap_or(BATCH).min(BATCH),
    };
    let mut carried: Option<DeadLetters<'a>> = None;
    let mut left = limit;
    let mut is_over = false;
    while 0 < left {
        let Some((number, spot)) = next(queue, task.last)? else {
            is_over = true;
            break;
        };
        let Some((chain, collection)) = destination(queue, &task, number)? else {
            task.failure = Some("AWS.SimpleQueueService.NonExistentQueue".to_owned());
            break;
        };
        let terms = queue.terms;
        let is_fifo = queue.settings.is_fifo();
        let towards = match &mut carried {
            Some(carried) if carried.goes_to(chain, collection) => carried,
            // Messages of another source go in another entry.
            Some(_) => break,
            None => {
                let towards = DeadLetters::towards(terms, chain, collection, is_fifo)?;
                carried.insert(towards)
            }
        };
        match carry(queue, towards, number, spot)? {
            Moved::Gone | Moved::Hidden => left -= 1,
            Moved::Full => break,
            Moved::Not => {
                task.failure = Some("AWS.SimpleQueueService.NonExistentQueue".to_owned());
                break;
            }
        }
    }
    let moved = carried.as_ref().map_or(0, DeadLetters::moved);
    task.moved += moved;
    let changes = match carried {
        Some(carried) => carried.finish(queue)?.1,
        None => Vec::new(),
    };
    if task.failure.is_some() {
        end(queue, started_ms, task, FAILED);
    } else if is_over {
        end(queue, started_ms, task, COMPLETED);
    } else {
        let pause_ms = match task.per_second {
            0 => 0,
            rate => moved * 1000 / rate,
        };
        task.next_ms = queue.now_ms + pause_ms;
        put(queue, started_ms, &task);
        queue.note_chore(task.next_ms);
    }
    Ok(changes)
}

/// The next message that can be received now, and was there when the task began (QM-1).
fn next(queue: &mut Queue<'_>, last: u64) -> Result<Option<(u64, Spot)>, ViewError> {
    let is_fifo = queue.settings.is_fifo();
    for index in [Index::Ready, Index::Scheduled] {
        let front = queue.front(index, Spot::MIN, 1)?;
        let Some((spot, _)) = front.rows.first() else {
            continue;
        };
        let is_due = index == Index::Ready || (spot.at <= queue.now_ms && !is_fifo);
        if is_due && spot.number <= last {
            return Ok(Some((spot.number, *spot)));
        }
    }
    Ok(None)
}

/// Where a message goes.
fn destination(
    queue: &Queue<'_>,
    task: &MoveTask,
    number: u64,
) -> Result<Option<(ChainId, CollectionId)>, ViewError> {
    if !task.destination.is_empty() {
        return Ok(task.place);
    }
    let body = queue.body(number)?;
    let arn = body.and_then(|body| body.source_arn);
    let Some(name) = arn.as_deref().and_then(name_in) else {
        return Ok(None);
    };
    let terms = queue.terms;
    let found = Name::new(Kind::Queue, terms.account, name);
    if let Some(entry) = catalog::collection(terms.view, found)? {
        return Ok(Some((terms.chain, entry.collection)));
    }
    let link = queue.get(&layout::source_key(queue.collection, name))?;
    Ok(link.map(|row| layout::decode(row, 1)).transpose()?)
}

fn carry<'a>(
    queue: &mut Queue<'a>,
    towards: &mut DeadLetters<'a>,
    number: u64,
    spot: Spot,
) -> Result<Moved, ViewError> {
    let Some(state) = queue.state(number)? else {
        queue.withdraw(Index::Ready, spot)?;
        return Ok(Moved::Gone);
    };
    queue.leave(&state)?;
    if queue.is_over(&state) {
        queue.expire(number);
        return Ok(Moved::Gone);
    }
    // It is received there as a message that was never received.
    let fresh = crate::sqs::message::State {
        receives: 0,
        first_receive_ms: 0,
        ..state.clone()
    };
    let moved = towards.carry(queue, number, &fresh, spot)?;
    match moved {
        Moved::Not | Moved::Full => {
            queue.enter(&state)?;
            queue.put_state(number, &state);
        }
        Moved::Hidden => {
            // Its group waits for the other chain.
            let place = Place::Moving(spot);
            queue.enter(&crate::sqs::message::State { place, ..state })?;
        }
        Moved::Gone => {}
    }
    Ok(moved)
}
