//! What services put into chains beside what is asked of them: the first row of a collection, steps
//! across chains, and work that is due.

use bytes::Bytes;
use fader_chain::{ChainId, Change, ElementOp, Guards, Settled, Stamp};

use crate::catalog::Name;
use crate::figures::{Figure, Figures};
use crate::request::Limits;
use crate::s3::S3;
use crate::service::Service as _;
use crate::simpledb::SimpleDb;
use crate::sqs::Sqs;
use crate::steps::Action;
use crate::waiters::Stir;
use crate::{
    CollectionId, Inconsistency, Kind, Mode, Table, View, ViewError, catalog, s3, simpledb, sqs,
};

/// Settles an eventual operation on `newest`, the state of the head's log: by the service whose
/// table its register is in.
///
/// # Errors
/// [`ViewError`] when the store cannot be read, or the key is no register's.
pub fn settle(
    newest: &dyn View,
    limits: &Limits,
    key: &Bytes,
    ops: Vec<ElementOp>,
    stamp: Stamp,
) -> Result<Settled, ViewError> {
    match key.get(size_of::<CollectionId>()) {
        Some(table) if *table == Table::Items as u8 => {
            SimpleDb::settle(newest, &limits.simpledb, key, ops, stamp)
        }
        Some(table) if *table == Table::Arrivals as u8 => {
            Sqs::settle(newest, &limits.sqs, key, ops, stamp)
        }
        Some(table) if *table == Table::PutRegisters as u8 => {
            S3::settle(newest, &limits.s3, key, ops, stamp)
        }
        _ => Err(ViewError::from(Inconsistency::NoRegister)),
    }
}

/// What the change of a row means to those who wait for its collection, which is told too. `value`
/// is what the row has then, unless it was removed. Nothing of a key that is in no collection.
pub fn stir(key: &[u8], value: Option<&Bytes>) -> Option<(CollectionId, Stir)> {
    let (collection, rest) = key.split_first_chunk()?;
    let stir = match rest.first() {
        Some(table) if sqs::has_table(*table) => sqs::stir(key, value),
        _ => Stir::Now,
    };
    Some((CollectionId(u64::from_be_bytes(*collection)), stir))
}

/// What changes when the services of a chain do some of the work that is due at `now_ms`. They do
/// `batch` rows at most; nothing when there is none. Asked again they go on.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn upkeep(
    view: &dyn View,
    limits: &Limits,
    guards: &Guards,
    chain: ChainId,
    now_ms: u64,
    batch: usize,
) -> Result<Vec<Change>, ViewError> {
    let changes = sqs::upkeep(view, &limits.sqs, guards, chain, now_ms, batch)?;
    match changes.is_empty() {
        true => s3::upkeep(view, &limits.s3, guards, now_ms, batch),
        false => Ok(changes),
    }
}

/// Refuses a mode that a collection cannot have, in words.
pub(crate) fn check_mode(
    view: &dyn View,
    name: Name<'_>,
    collection: CollectionId,
    mode: Mode,
) -> Result<(), catalog::Refusal> {
    match name.kind {
        Kind::Queue => Ok(sqs::check_mode(name.name, mode)?),
        Kind::Bucket => s3::tentative::check_mode(view, collection, mode),
        Kind::Domain | Kind::Counter => Ok(()),
    }
}

/// What services show of their collections.
pub const FIGURES: &[Figure] = &sqs::FIGURES;

/// What the services of a chain show of its collections at `now_ms`, of up to `most` by name.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn figures(
    view: &dyn View,
    limits: &Limits,
    chain: ChainId,
    now_ms: u64,
    most: usize,
) -> Result<Figures, ViewError> {
    let mut figures = Figures::new(FIGURES);
    for found in catalog::collections(view, Kind::Queue) {
        let (name, collection) = found?;
        if let Some(shown) = sqs::figures(view, &limits.sqs, chain, now_ms, &name, collection)? {
            figures.add(shown, most);
        }
    }
    Ok(figures)
}

/// The row that says that a collection is there, as it begins.
pub(crate) fn founded(kind: Kind, collection: CollectionId) -> Change {
    match kind {
        Kind::Domain => simpledb::Counters::default().put(collection),
        Kind::Counter => catalog::put_number(simpledb::metadata_key(collection), 0),
        Kind::Queue | Kind::Bucket => Change::Put {
            key: simpledb::metadata_key(collection),
            value: Bytes::new(),
        },
    }
}

/// What else changes when a collection is razed on its own chain.
pub(crate) fn razed(
    view: &dyn View,
    guards: &Guards,
    name: Name<'_>,
    chain: ChainId,
    collection: CollectionId,
) -> Result<Vec<Change>, ViewError> {
    match name.kind {
        Kind::Queue => sqs::razed(view, guards, name.account, chain, collection),
        Kind::Domain | Kind::Bucket | Kind::Counter => Ok(Vec::new()),
    }
}

/// What a step of a service does on the chain that takes it: what came of it, and what changes.
pub(crate) fn take_step(
    view: &dyn View,
    guards: &Guards,
    action: &Action,
) -> Result<(Bytes, Vec<Change>), ViewError> {
    match action {
        #[cfg(feature = "counter")]
        Action::Counter(transfer) => transfer.take(view),
        Action::Queue(step) => step.take(view),
        Action::Free(name, collection) => {
            let changes = catalog::free(view, guards, name.name(), *collection)?;
            Ok((Bytes::new(), changes))
        }
        Action::Found(..) | Action::Raze(..) => Err(not_of_a_service()),
    }
}

/// What its origin makes of that.
pub(crate) fn settle_step(
    view: &dyn View,
    action: &Action,
    outcome: &[u8],
) -> Result<Vec<Change>, ViewError> {
    match (action, outcome) {
        #[cfg(feature = "counter")]
        (Action::Counter(transfer), outcome) => transfer.settle(view, outcome),
        (Action::Queue(step), outcome) => step.settle(view, outcome),
        (Action::Free(..), _) => Ok(Vec::new()),
        (Action::Found(..) | Action::Raze(..), _) => Err(not_of_a_service()),
    }
}

/// Collections come and go by rules of their own (`steps`).
fn not_of_a_service() -> ViewError {
    ViewError::from(Inconsistency::StepOfNoService)
}
