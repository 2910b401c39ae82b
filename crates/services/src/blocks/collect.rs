//! What those ask who let blocks of no version go, and what they make of the answers.

use std::collections::BTreeMap;

use fader_chain::{ALL_GUARDS, ChainId, EntryId};

use crate::blocks::{Attempt, Command, Fenced, GarbageId, Owner, ROWS_MAX, Row};
use crate::key::KeyRange;
use crate::request::{Outcome, Refusal, Reply, Request};
use crate::s3::bucket::{Bucket, Terms};
use crate::s3::command::{DropGarbage, Fence, MoveNote};
use crate::s3::fence::{blocks_of, is_closed};
use crate::s3::layout::{Keys, garbage_of, garbage_of_chain};
use crate::s3::{self, Code, Error, Limits};
use crate::{CollectionId, Direction, Kind, Mode, View, ViewError, catalog};

/// Garbage of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GarbageAt {
    /// The collection of the bucket's index.
    pub collection: CollectionId,
    /// What it is.
    pub id: GarbageId,
}

/// What is to be done about garbage whose wait is over.
#[derive(Clone, Debug)]
pub struct Removal {
    /// First the rows of these blocks go, on their chains.
    pub blocks: BTreeMap<ChainId, Vec<u128>>,
    /// Then this is asked of the bucket's chain.
    pub then: Request,
}

fn bucket(view: &dyn View, collection: CollectionId) -> Result<Option<Bucket<'_>>, ViewError> {
    static LIMITS: std::sync::LazyLock<Limits> = std::sync::LazyLock::new(Limits::default);
    let terms = Terms {
        view,
        limits: &LIMITS,
        guards: &ALL_GUARDS,
        now_ms: 0,
        mode: Mode::Strong,
    };
    Bucket::open(terms, collection)
}

fn of_node(command: s3::Command) -> Request {
    Request::S3(s3::Request::of_node(command))
}

/// A new attempt of this random id for the bucket in a collection; nothing if there is no bucket.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn attempt(
    view: &dyn View,
    collection: CollectionId,
    id: u128,
    begun: EntryId,
) -> Result<Option<Attempt>, ViewError> {
    let bucket = bucket(view, collection)?;
    let bucket = bucket.filter(|bucket| !bucket.settings.is_deleted);
    Ok(bucket.map(|bucket| Attempt {
        id,
        bucket: bucket.settings.id,
        begun,
    }))
}

/// Asks, on the chain of the block's owner, what becomes of a block.
pub fn fence(owner: Owner, block: u128) -> Request {
    of_node(s3::Command::Fence(Fence { owner, block }))
}

/// The same where members may hold eventual puts of blocks: their attempts are closed.
pub fn close_attempt(owner: Owner, block: u128) -> Request {
    of_node(s3::Command::CloseAttempt(Fence { owner, block }))
}

/// The same of a closed attempt, when all is settled that members held of it: a block that nothing
/// names goes with its row.
pub fn end_attempt(owner: Owner, block: u128) -> Request {
    of_node(s3::Command::EndAttempt(Fence { owner, block }))
}

/// Whether an eventual put of blocks may be taken at a member whose log shows `newest`, committed
/// or not (SE-4).
///
/// # Errors
/// The refusal, when its attempt is closed, or [`ViewError`]'s words when the store cannot be read.
pub fn check_attempt(
    newest: &dyn View,
    collection: CollectionId,
    attempt: &Attempt,
) -> Result<(), Refusal> {
    let closed = match bucket(newest, collection) {
        Ok(Some(bucket)) => is_closed(&bucket, attempt),
        // Who takes it says so.
        Ok(None) => Ok(false),
        Err(error) => Err(error),
    };
    match closed {
        Ok(false) => Ok(()),
        Ok(true) => Err(Refusal::S3(Error::of(Code::AttemptFenced))),
        Err(error) => Err(Refusal::S3(error.into())),
    }
}

/// What a fence came to; nothing where that is not known.
pub fn fate(outcome: &Outcome) -> Option<Fenced> {
    match outcome {
        Ok(Reply::S3(s3::Reply::Fenced(fenced))) => Some(*fenced),
        _ => None,
    }
}

/// What is asked of the chain of blocks whose fences came to this.
pub fn verdicts(fates: &[(u128, Row, Fenced)]) -> Vec<Command> {
    let kept = fates.iter().filter(|(.., fate)| *fate == Fenced::Kept);
    let kept: Vec<(u128, u64)> = kept.map(|(id, row, _)| (*id, row.number)).collect();
    let fenced = fates.iter().filter(|(.., fate)| *fate == Fenced::Fenced);
    let fenced: Vec<u128> = fenced.map(|(id, ..)| *id).collect();
    let kept = kept.chunks(ROWS_MAX).map(<[_]>::to_vec);
    let fenced = fenced.chunks(ROWS_MAX).map(<[_]>::to_vec);
    kept.map(Command::EndLeases)
        .chain(fenced.map(Command::Remove))
        .collect()
}

/// At most `count` rows of garbage of a chain behind `after`.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn garbage(
    view: &dyn View,
    after: Option<GarbageAt>,
    count: usize,
) -> Result<Vec<GarbageAt>, ViewError> {
    let KeyRange { mut start, end } = garbage_of_chain();
    if let Some(GarbageAt { collection, id }) = after {
        start = [&*Keys(collection).garbage(id), &[0x00]].concat().into();
    }
    let pairs = view.scan(&start, &end, Direction::Forward).take(count);
    let found = pairs.map(|pair| {
        let (collection, id) = garbage_of(&pair?.0)?;
        Ok(GarbageAt { collection, id })
    });
    found.collect()
}

/// What is to be done about garbage. Of an upload of many parts it is some of it: asked again it
/// goes on. Nothing when it is gone.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn removal(view: &dyn View, at: GarbageAt) -> Result<Option<Removal>, ViewError> {
    let Some(bucket) = bucket(view, at.collection)? else {
        return Ok(None);
    };
    if !bucket.has_row(&bucket.keys.garbage(at.id))? {
        return Ok(None);
    }
    let numbered = blocks_of(&bucket, at.id)?;
    let mut blocks: BTreeMap<ChainId, Vec<u128>> = BTreeMap::new();
    for block in numbered.iter().flat_map(|(_, blocks)| blocks) {
        blocks.entry(block.chain).or_default().push(block.id);
    }
    let then = s3::Command::DropGarbage(DropGarbage {
        collection: at.collection,
        bucket: bucket.settings.id,
        garbage: at.id,
        parts: numbered.iter().filter_map(|(number, _)| *number).collect(),
    });
    Ok(Some(Removal {
        blocks,
        then: of_node(then),
    }))
}

/// Moves the notes of the buckets of a chain that have fences which `note` ends.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn notes(view: &dyn View, note: EntryId) -> Result<Vec<Request>, ViewError> {
    let mut asked = Vec::new();
    for collection in catalog::ids(view, Kind::Bucket) {
        let collection = collection?;
        let KeyRange { start, end } = Keys(collection).fences_behind(note);
        let first = view.scan(&start, &end, Direction::Forward).next();
        if first.transpose()?.is_some() {
            asked.push(of_node(s3::Command::MoveNote(MoveNote {
                collection,
                note,
            })));
        }
    }
    Ok(asked)
}
