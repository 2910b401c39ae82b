//! Dead letters: messages that were received often enough move to another queue.
//!
//! On one chain a move is part of the receive's entry. Towards another chain the receive hides the
//! messages and begins a step (`steps`) that carries them. The destination puts them, once. Then
//! their own chain deletes them, or shows them again where the destination took none.
//!
//! Invariants:
//! - QU-10 a message is in one queue. It leaves its own in the entry that puts it into the other.
//!   Or its step's record has it until it is known to be there.

use bytes::Bytes;
use fader_chain::{ALL_GUARDS, ChainId, Change, Guard};

use crate::catalog::{self, AccountId, Name};
use crate::sqs::error::Error;
use crate::sqs::layout::{self, Spot};
use crate::sqs::limits::Limits;
use crate::sqs::message::{Body, Place, State};
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::reply::show_uuid;
use crate::sqs::wire::{wire_choice, wire_fields};
use crate::steps::{self, Action, Step};
use crate::{CollectionId, Kind, View, ViewError};

/// Bytes of messages that one decision moves, but for the last one of them.
const MOVED_BYTES: usize = 1 << 20;

/// What a queue does on another chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// Messages go to another queue.
    Move(Transfer),
    /// A queue names another one as its dead-letter queue, or no longer does.
    Link(Link),
}
wire_choice!(QueueStep, "a step of a queue", { 0 => Move(it), 1 => Link(it) });

/// Messages on their way to another chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    from: CollectionId,
    to: CollectionId,
    /// The era of the queue that they leave.
    era: u32,
    at_ms: u64,
    parcels: Vec<Parcel>,
}
wire_fields!(Transfer {
    from,
    to,
    era,
    at_ms,
    parcels
});

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parcel {
    number: u64,
    receives: u32,
    first_receive_ms: u64,
    kept_from_ms: u64,
    body: Body,
}
wire_fields!(Parcel {
    number,
    receives,
    first_receive_ms,
    kept_from_ms,
    body
});

/// A source of a dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub(crate) to: CollectionId,
    pub(crate) source: String,
    pub(crate) place: (ChainId, CollectionId),
    pub(crate) is_linked: bool,
}
wire_fields!(Link {
    to,
    source,
    place,
    is_linked
});

const DONE: &[u8] = b"";
const NOT_DONE: &[u8] = b"!";

/// What became of a message that may be a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It is none, or there is nowhere to go: it is received as any.
    Not,
    /// It is in the other queue.
    Gone,
    /// It is hidden, on its way.
    Hidden,
    /// It is one, and this decision moves no more: the next one does.
    Full,
}

/// Where messages go.
enum Target<'a> {
    Unknown,
    /// Another queue of this chain.
    Here(Box<Queue<'a>>),
    /// A queue of another chain.
    There(ChainId, CollectionId),
    Nowhere,
}

/// The messages that one decision moves.
pub(crate) struct DeadLetters<'a> {
    target: Target<'a>,
    parcels: Vec<Parcel>,
    moved: u64,
    bytes: usize,
    /// Whether they are dead letters, which name the queue that they come from.
    is_dead: bool,
}

impl Default for DeadLetters<'_> {
    fn default() -> Self {
        DeadLetters {
            target: Target::Unknown,
            parcels: Vec::new(),
            moved: 0,
            bytes: 0,
            is_dead: true,
        }
    }
}

impl<'a> DeadLetters<'a> {
    /// For messages that go to this place, with any setting of their queue.
    pub(crate) fn towards(
        terms: Terms<'a>,
        chain: ChainId,
        collection: CollectionId,
        is_fifo: bool,
    ) -> Result<Self, ViewError> {
        let target = match chain == terms.chain {
            false => Target::There(chain, collection),
            true => here(terms, collection, is_fifo)?,
        };
        Ok(DeadLetters {
            target,
            is_dead: false,
            ..DeadLetters::default()
        })
    }

    /// Whether messages for this place go where these do.
    pub(crate) fn goes_to(&self, chain: ChainId, collection: CollectionId) -> bool {
        match &self.target {
            Target::Here(target) => target.collection == collection,
            Target::There(to, place) => (*to, *place) == (chain, collection),
            Target::Unknown | Target::Nowhere => false,
        }
    }

    /// Whether nothing is moved.
    pub(crate) fn is_empty(&self) -> bool {
        self.moved == 0
    }

    /// How many messages are moved.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    /// Whether this decision moves no more.
    pub(crate) fn is_full(&self) -> bool {
        MOVED_BYTES <= self.bytes
    }

    /// Moves a message if it was received often enough. It is in no index any more.
    pub(crate) fn move_there(
        &mut self,
        queue: &mut Queue<'a>,
        number: u64,
        state: &State,
        spot: Spot,
    ) -> Result<Moved, ViewError> {
        let redrive = queue.settings.redrive.as_ref();
        let Some(redrive) = redrive.filter(|it| it.max_receives <= state.receives) else {
            return Ok(Moved::Not);
        };
        if !queue.has(Guard::QueueDeadLetter) || redrive.queue() == queue.settings.name {
            return Ok(Moved::Not);
        }
        if matches!(self.target, Target::Unknown) {
            self.target = find(queue)?;
        }
        self.carry(queue, number, state, spot)
    }

    /// Moves a message that is in no index any more.
    pub(crate) fn carry(
        &mut self,
        queue: &mut Queue<'a>,
        number: u64,
        state: &State,
        spot: Spot,
    ) -> Result<Moved, ViewError> {
        if matches!(self.target, Target::Unknown | Target::Nowhere) {
            return Ok(Moved::Not);
        }
        if self.is_full() {
            return Ok(Moved::Full);
        }
        let Some(body) = queue.body(number)? else {
            queue.forget(number);
            return Ok(Moved::Gone);
        };
        self.bytes += body.text.len();
        self.moved += 1;
        // Two letters that had one deduplication id are two messages in their queue.
        let own_id = body.deduplication_id.as_ref().map(|_| show_uuid(body.id));
        let parcel = Parcel {
            number,
            receives: state.receives,
            first_receive_ms: state.first_receive_ms,
            kept_from_ms: state.kept_from_ms,
            body: Body {
                source_arn: self.is_dead.then(|| queue.settings.arn()),
                deduplication_id: match self.is_dead {
                    true => own_id,
                    false => body.deduplication_id,
                },
                ..body
            },
        };
        if let Target::Here(target) = &mut self.target {
            arrive(target, &parcel)?;
            queue.counters.totals.moved += 1;
            if queue.has(Guard::QueueMoveWhole) {
                queue.forget(number);
            } else {
                let place = Place::Ready(spot);
                queue.put_state(
                    number,
                    &State {
                        place,
                        ..state.clone()
                    },
                );
            }
            return Ok(Moved::Gone);
        }
        let place = Place::Moving(spot);
        queue.put_state(
            number,
            &State {
                place,
                ..state.clone()
            },
        );
        self.parcels.push(parcel);
        Ok(Moved::Hidden)
    }

    /// What the decision changes beside the queue itself, and the step that it begins.
    pub(crate) fn finish(
        self,
        queue: &Queue<'a>,
    ) -> Result<(Option<Step>, Vec<Change>), ViewError> {
        match self.target {
            Target::Here(target) => Ok((None, target.finish())),
            Target::There(chain, to) if !self.parcels.is_empty() => {
                let transfer = Transfer {
                    from: queue.collection,
                    to,
                    era: queue.counters.era,
                    at_ms: queue.now_ms,
                    parcels: self.parcels,
                };
                let action = Action::Queue(QueueStep::Move(transfer));
                let terms = queue.terms;
                let (step, changes) = steps::begin(terms.view, terms.guards, chain, action)?;
                Ok((Some(step), changes))
            }
            _ => Ok((None, Vec::new())),
        }
    }
}

/// The dead-letter queue of a queue.
fn find<'a>(queue: &Queue<'a>) -> Result<Target<'a>, ViewError> {
    let Some(redrive) = &queue.settings.redrive else {
        return Ok(Target::Nowhere);
    };
    let terms = queue.terms;
    let name = Name::new(Kind::Queue, terms.account, redrive.queue());
    if let Some(entry) = catalog::collection(terms.view, name)? {
        return here(terms, entry.collection, queue.settings.is_fifo());
    }
    Ok(match redrive.place {
        Some((chain, collection)) if chain != terms.chain => Target::There(chain, collection),
        _ => Target::Nowhere,
    })
}

fn here<'a>(
    terms: Terms<'a>,
    collection: CollectionId,
    is_fifo: bool,
) -> Result<Target<'a>, ViewError> {
    let target = Queue::open(terms, collection)?;
    Ok(match target.filter(|it| it.settings.is_fifo() == is_fifo) {
        Some(target) => Target::Here(Box::new(target)),
        None => Target::Nowhere,
    })
}

/// Puts a message into the queue that it was moved to. In a standard queue its retention goes on;
/// in a FIFO queue it begins anew.
fn arrive(queue: &mut Queue<'_>, parcel: &Parcel) -> Result<(), ViewError> {
    let kept_from_ms = match queue.settings.is_fifo() {
        true => queue.now_ms,
        false => parcel.kept_from_ms,
    };
    let (receives, first_ms) = (parcel.receives, parcel.first_receive_ms);
    queue.add(&parcel.body, kept_from_ms, receives, first_ms, kept_from_ms)?;
    Ok(())
}

impl QueueStep {
    /// The ids of the messages that it carries.
    pub fn messages(&self) -> Vec<u128> {
        match self {
            QueueStep::Move(transfer) => transfer.parcels.iter().map(|it| it.body.id).collect(),
            QueueStep::Link(_) => Vec::new(),
        }
    }

    /// The step on the chain of the other queue.
    pub(crate) fn take(&self, view: &dyn View) -> Result<(Bytes, Vec<Change>), ViewError> {
        let (to, at_ms) = match self {
            QueueStep::Move(transfer) => (transfer.to, transfer.at_ms),
            QueueStep::Link(link) => (link.to, 0),
        };
        let limits = Limits::default();
        let account = AccountId(String::new());
        let Some(mut queue) = Queue::open(terms(view, &account, &limits, at_ms), to)? else {
            return Ok((Bytes::from_static(NOT_DONE), Vec::new()));
        };
        match self {
            QueueStep::Move(transfer) => {
                for parcel in &transfer.parcels {
                    if queue.settings.is_fifo() != parcel.body.deduplication_id.is_some() {
                        return Ok((Bytes::from_static(NOT_DONE), Vec::new()));
                    }
                    arrive(&mut queue, parcel)?;
                }
            }
            QueueStep::Link(link) => {
                if link.is_linked && !is_allowed(&queue, link) {
                    return Ok((Bytes::from_static(NOT_DONE), Vec::new()));
                }
                set_link(&mut queue, link);
            }
        }
        Ok((Bytes::from_static(DONE), queue.finish()))
    }

    /// What the queue that the messages left makes of that.
    pub(crate) fn settle(&self, view: &dyn View, outcome: &[u8]) -> Result<Vec<Change>, ViewError> {
        let QueueStep::Move(transfer) = self else {
            return Ok(Vec::new());
        };
        let limits = Limits::default();
        let account = AccountId(String::new());
        let terms = terms(view, &account, &limits, transfer.at_ms);
        let Some(mut queue) = Queue::open(terms, transfer.from)? else {
            return Ok(Vec::new());
        };
        // A purge in between took them all.
        if queue.counters.era != transfer.era {
            return Ok(Vec::new());
        }
        for parcel in &transfer.parcels {
            let Some(state) = queue.state(parcel.number)? else {
                continue;
            };
            let Place::Moving(spot) = state.place else {
                continue;
            };
            queue.leave(&state)?;
            if outcome == DONE {
                queue.counters.totals.moved += 1;
                queue.forget(parcel.number);
            } else {
                let place = Place::Ready(spot);
                let state = State { place, ..state };
                queue.enter(&state)?;
                queue.put_state(parcel.number, &state);
            }
        }
        Ok(queue.finish())
    }
}

fn terms<'a>(
    view: &'a dyn View,
    account: &'a AccountId,
    limits: &'a Limits,
    now_ms: u64,
) -> Terms<'a> {
    Terms {
        view,
        account,
        limits,
        guards: &ALL_GUARDS,
        chain: ChainId::SYSTEM,
        now_ms,
    }
}

fn is_allowed(queue: &Queue<'_>, link: &Link) -> bool {
    let arn = format!(
        "arn:aws:sqs:{}:{}:{}",
        queue.settings.region, queue.settings.account, link.source
    );
    let allow = queue.settings.redrive_allow.as_ref();
    allow.is_none_or(|allow| allow.allows(&arn))
}

/// Notes in a dead-letter queue that another queue names it, or no longer does.
pub(crate) fn set_link(queue: &mut Queue<'_>, link: &Link) {
    let key = layout::source_key(queue.collection, &link.source);
    match link.is_linked {
        true => {
            let place = layout::encode(&link.place, 1, 32);
            queue.put(key, place);
        }
        false => queue.remove(key),
    }
}

/// What a queue's change of its dead-letter queue changes beside the queue itself: the old one
/// forgets it, the new one notes it.
///
/// # Errors
/// InvalidParameterValue where the new one is not there, is of the other type, or allows it not.
pub(crate) fn relink(
    queue: &mut Queue<'_>,
    text: &str,
    old: Option<(ChainId, CollectionId)>,
) -> Result<Vec<Change>, Error> {
    let terms = queue.terms;
    let source = queue.settings.name.clone();
    let place = (terms.chain, queue.collection);
    let redrive = queue.settings.redrive.clone();
    let new = redrive.as_ref().and_then(|redrive| redrive.place);
    let mut changes = Vec::new();
    let mut begun = Vec::new();
    let links = [(old, false), (new, true)].into_iter();
    for (to, is_linked) in
        links.filter(|(to, is_linked)| to.is_some() && (*is_linked || old != new))
    {
        let Some((chain, to)) = to else { continue };
        let link = Link {
            to,
            source: source.clone(),
            place,
            is_linked,
        };
        if (chain, to) == place {
            set_link(queue, &link);
        } else if chain == terms.chain {
            let Some(mut target) = Queue::open(terms, to)? else {
                continue;
            };
            if is_linked {
                check_target(queue, &target, &link, text)?;
            }
            set_link(&mut target, &link);
            changes.extend(target.finish());
        } else {
            begun.push((chain, Action::Queue(QueueStep::Link(link))));
        }
    }
    changes.extend(steps::begin_all(terms.view, terms.guards, begun)?.1);
    Ok(changes)
}

fn check_target(
    queue: &Queue<'_>,
    target: &Queue<'_>,
    link: &Link,
    text: &str,
) -> Result<(), Error> {
    let refuse = |reason: &str| Err(Error::value(text, "RedrivePolicy", reason));
    if target.settings.is_fifo() != queue.settings.is_fifo() {
        return refuse("Dead-letter queue must be same type of queue as the source.");
    }
    if !is_allowed(target, link) {
        return refuse("The dead-letter queue's RedriveAllowPolicy does not allow this source.");
    }
    Ok(())
}
