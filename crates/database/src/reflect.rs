//! Bringing records into the pages of a tree: the work of a checkpoint, and the commit of a Naive
//! transaction.
//!
//! ```text
//! records ─ by leaf ─▶ read leaf ─▶ blink::apply ─▶ right pages, then leaf ─▶ separators up
//!     ▲                                  │
//!     └── records of other pages ◀───────┘
//! ```
//!
//! Invariants:
//! - REFLECT-1 `is_done` means that each record is in a page that landed, is a dead letter, or is
//!   lost as [`Way`] allows. A horizon makes dead letters. Records of other pages are named.
//! - REFLECT-2 a leaf takes records only while the tree leads to it. So none is lost in a page that
//!   a late PUT without If-Match cut off.

use std::time::Duration;

use fader_blink::{HybridTime, Page, PageId, Record, Separator, apply, encode_records};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::stream::{self, StreamExt};
use object_store::path::Path;

use crate::catalogue::{Collection, CollectionId};
use crate::guard::Guard;
use crate::index::{Entries, contradicted};
use crate::sealing::What;
use crate::tree::{Freshness, Landed, Tree, edition, random};

/// For how long a dead slot stays in its page, at least. It is above the retention in the ATOMIC
/// queue, twice that in pending-update queues (14 days each at SQS), and any skew of clocks. A
/// record that comes later is refused and kept as a dead letter.
pub(crate) const DEAD_SLOT_WINDOW: Duration = Duration::from_secs(45 * 24 * 60 * 60);
/// How often records are routed anew, at most: each round but the first is for pages that split
/// meanwhile.
const ROUNDS_MAX: u32 = 64;

/// What became of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reflected {
    /// Whether all of them are in pages, or dead letters.
    pub(crate) is_done: bool,
    /// Pages that were replaced.
    pub(crate) pages: u64,
    /// Pages that splits created.
    pub(crate) splits: u64,
    /// Records that changed a slot.
    pub(crate) applied: u64,
    /// Records that a horizon refused.
    pub(crate) refused: u64,
    /// Removals of index entries that the pages contradict.
    pub(crate) contradicted: Entries,
    /// Records of other pages than the one that they were brought to.
    pub(crate) elsewhere: Vec<Record>,
}

impl Reflected {
    fn nothing() -> Self {
        Reflected {
            is_done: true,
            ..Reflected::default()
        }
    }
}

/// How records are brought into pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'a> {
    /// The collection, or the index.
    pub(crate) collection: &'a Collection,
    /// Whether records are lost when another client was faster to write their page: those of a
    /// Naive transaction.
    pub(crate) is_lost_to_others: bool,
    /// When it ends, by the monotonic clock: a leaf that is read later is not written.
    pub(crate) until: Duration,
}

/// One leaf's part of the work.
#[derive(Default)]
struct OfLeaf {
    is_done: bool,
    pages: u64,
    splits: u64,
    applied: u64,
    refused: Vec<Record>,
    contradicted: Entries,
    elsewhere: Vec<Record>,
    separators: Vec<Separator>,
}

/// Brings records into their pages.
///
/// # Errors
/// Of the store; some records may be in pages.
pub(crate) async fn reflect(
    tree: &Tree<'_>,
    way: Way<'_>,
    records: Vec<Record>,
) -> Result<Reflected> {
    let mut sum = Reflected::nothing();
    let (mut rest, mut separators) = (records, Vec::new());
    for _ in 0..ROUNDS_MAX {
        if rest.is_empty() {
            break;
        }
        let (leaves, unposted) = by_leaf(tree, std::mem::take(&mut rest)).await?;
        separators.extend(unposted);
        let work = leaves
            .into_iter()
            .map(|(id, records)| leaf(tree, way, id, records));
        let mut work = stream::iter(work).buffer_unordered(tree.at_once);
        while let Some(done) = work.next().await {
            let mut done = done?;
            rest.append(&mut done.elsewhere);
            separators.append(&mut done.separators);
            take(tree, way, &mut sum, done).await?;
        }
    }
    sum.is_done &= rest.is_empty();
    separators.sort_unstable();
    separators.dedup();
    tree.post(separators).await?;
    Ok(sum)
}

/// Brings records from the queue of a leaf into that leaf, as far as they are its own.
///
/// # Errors
/// As [`reflect`].
pub(crate) async fn reflect_leaf(
    tree: &Tree<'_>,
    way: Way<'_>,
    id: PageId,
    records: Vec<Record>,
) -> Result<Reflected> {
    let mut sum = Reflected::nothing();
    let (own, elsewhere) = own_records(tree, id, records).await?;
    sum.elsewhere = elsewhere;
    if own.is_empty() {
        return Ok(sum);
    }
    let mut done = leaf(tree, way, id, own).await?;
    sum.elsewhere.append(&mut done.elsewhere);
    let separators = std::mem::take(&mut done.separators);
    take(tree, way, &mut sum, done).await?;
    tree.post(separators).await?;
    Ok(sum)
}

/// Records whose keys lead to a leaf, and the others.
async fn own_records(
    tree: &Tree<'_>,
    id: PageId,
    mut records: Vec<Record>,
) -> Result<(Vec<Record>, Vec<Record>)> {
    records.sort_unstable();
    records.dedup();
    if !tree.guards.has(Guard::LeafOfTree) {
        return Ok((records, Vec::new()));
    }
    let mut is_new = false;
    let (mut own, mut elsewhere) = (Vec::new(), Vec::new());
    for record in records {
        let mut believed = tree.believed_leaf(&record.key).await?;
        if believed != id && !is_new {
            // The pool may be behind.
            tree.find(&record.key, 0, Freshness::Now).await?;
            believed = tree.believed_leaf(&record.key).await?;
            is_new = true;
        }
        match believed == id {
            true => own.push(record),
            false => elsewhere.push(record),
        }
    }
    Ok((own, elsewhere))
}

/// Adds one leaf's part.
async fn take(tree: &Tree<'_>, way: Way<'_>, sum: &mut Reflected, done: OfLeaf) -> Result<()> {
    sum.is_done &= done.is_done;
    sum.pages += done.pages;
    sum.splits += done.splits;
    sum.applied += done.applied;
    sum.refused += done.refused.len() as u64;
    sum.contradicted.extend(done.contradicted);
    bury(tree, way.collection.id, done.refused).await
}

/// Records by the leaf that has their keys, as far as the pool knows.
async fn by_leaf(
    tree: &Tree<'_>,
    mut records: Vec<Record>,
) -> Result<(Vec<(PageId, Vec<Record>)>, Vec<Separator>)> {
    records.sort_unstable();
    records.dedup();
    let any_age = Freshness::Within(Duration::MAX);
    let (mut leaves, mut separators) = (Vec::new(), Vec::new());
    let mut rest = records.into_iter().peekable();
    while let Some(first) = rest.next() {
        let found = tree.leaf(&first.key, any_age).await?;
        separators.extend(found.unposted);
        let mut of_leaf = vec![first];
        while let Some(next) = rest.next_if(|next| found.held.page.contains(&next.key)) {
            of_leaf.push(next);
        }
        leaves.push((found.id, of_leaf));
    }
    Ok((leaves, separators))
}

async fn leaf(tree: &Tree<'_>, way: Way<'_>, id: PageId, records: Vec<Record>) -> Result<OfLeaf> {
    let runtime = &tree.store.0.runtime;
    let since = runtime.clock.monotonic();
    let Some(held) = tree.read(id, since).await? else {
        let context = format!("page {id} is not there");
        return Err(Error::new(ErrorKind::NotFound, context));
    };
    if way.until < runtime.clock.monotonic() {
        return Ok(OfLeaf::default());
    }
    let wall = runtime.clock.wall().saturating_sub(DEAD_SLOT_WINDOW);
    let prune = HybridTime::from_ms(u64::try_from(wall.as_millis()).unwrap_or(0));
    let applied = {
        let mut random = random(runtime);
        let mut edition = edition(runtime, &tree.sealer, &mut random);
        apply(&held.page, &records, prune, &tree.sizes, &mut edition)
    };
    let mut done = OfLeaf {
        is_done: true,
        refused: applied.refused,
        elsewhere: applied
            .forwards
            .into_iter()
            .map(|forward| forward.item)
            .collect(),
        ..OfLeaf::default()
    };
    let Some(change) = applied.change else {
        return Ok(done);
    };
    match tree.write(id, &held, &change).await? {
        Landed::Yes => {}
        Landed::Outrun if way.is_lost_to_others => return Ok(done),
        Landed::Outrun | Landed::Unsure => return Ok(OfLeaf::default()),
    }
    let pages = change.created.iter().map(|(_, page)| page);
    let pages: Vec<&Page> = pages.chain([&change.page]).collect();
    done.contradicted = contradicted(way.collection, tree.guards, &held.page, &pages, &records);
    done.pages = 1;
    done.splits = change.created.len() as u64;
    done.applied = applied.applied as u64;
    done.separators = change.separators;
    Ok(done)
}

/// Keeps records that no page takes any more.
async fn bury(tree: &Tree<'_>, collection: CollectionId, records: Vec<Record>) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let malformed = |error| Error::caused(ErrorKind::Malformed, "refused records", error);
    let bytes = encode_records(&records).map_err(malformed)?;
    let what = What::Records(collection);
    let bytes = tree
        .sealer
        .seal(&what, bytes, &*tree.store.0.runtime.entropy)?;
    let id = tree.store.0.runtime.random_id();
    let key = Path::from(format!("db/dead/{collection}/{id:032x}"));
    tree.counted().put_surely(&key, bytes).await
}
