//! Applying records to a page, and posting separators to its parent.
//!
//! What the caller does with a [`Change`] (`docs/reference/format/page.md`, "A change"). It creates
//! the new pages by create-if-absent, in any order, and replaces the old page by If-Match. Only
//! then it sends the forwards, removes the messages, and posts the separators. After 412 it drops
//! the change. After an unknown outcome it reads the page again and follows its chain: what the
//! pages show is what happened.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use crate::divide::{Sizes, divide, separator};
use crate::guard::{self, Guard};
use crate::key::KeyRef;
use crate::page::{Page, PageId, Route};
use crate::record::Record;
use crate::search::Separator;
use crate::slot::{Outcome, Slot};
use crate::stamp::{HybridTime, Stamp};
use crate::write::{Cell, Content, Edition, Frame};

/// A page's next version, with the pages that must be created before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Pages to create, under ids that no page has had.
    pub created: Vec<(PageId, Page)>,
    /// The version that replaces the page.
    pub page: Page,
    /// What to post to the parent level once the page is replaced. Searches work without.
    pub separators: Vec<Separator>,
}

/// Where something must go instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// This page, or one that it leads to.
    Page(PageId),
    /// The root: this page knows no page with the key.
    Root,
}

/// A record, or a separator, of another page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward<T> {
    /// Where to.
    pub target: Target,
    /// What.
    pub item: T,
}

/// What applying records to a page comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// None when the page reflects all of its records already.
    pub change: Option<Change>,
    /// Records of other pages: to be sent on before their messages are removed.
    pub forwards: Vec<Forward<Record>>,
    /// Records that the horizon refuses: counted, and kept in a dead-letter object.
    pub refused: Vec<Record>,
    /// Number of records that changed their slot.
    pub applied: usize,
    /// Number of records without effect: repeated, or older than what the slot has.
    pub superseded: usize,
}

/// What posting separators to a page comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// None when the page has all of its separators already.
    pub change: Option<Change>,
    /// Separators of other pages.
    pub forwards: Vec<Forward<Separator>>,
    /// Separators that name another child than the page does: the tree is damaged.
    pub conflicts: Vec<Separator>,
}

/// Applies records to a page, in the order of their stamps; their order and repetition in `records`
/// mean nothing. Dead slots whose stamps are all older than `prune_before` are removed, and raise
/// the horizon.
///
/// # Panics
/// When a record is not within its bounds: see [`Record::check`]. Decoded records are.
pub fn apply(
    page: &Page,
    records: &[Record],
    prune_before: HybridTime,
    sizes: &Sizes,
    edition: &mut Edition<'_>,
) -> Applied {
    let (own, forwards) = sort_out(page, records);
    let mut applied = Applied {
        change: None,
        forwards,
        refused: Vec::new(),
        applied: 0,
        superseded: 0,
    };
    if !page.is_leaf() {
        return applied;
    }
    let changed = merge(page, &own, &mut applied);
    let mut horizon = page.horizon();
    let mut cells = weave(page, &changed);
    let before = cells.len();
    cells.retain(|cell| {
        let Content::Slot(slot) = cell.content else {
            return true;
        };
        let newest = slot.newest().unwrap_or(Stamp::ZERO);
        let is_old = !slot.is_alive() && newest.time < prune_before;
        if is_old && guard::has(Guard::HorizonRises) {
            horizon = horizon.max(newest);
        }
        !is_old
    });
    if !changed.is_empty() || cells.len() < before {
        let is_append = changed
            .keys()
            .next()
            .is_some_and(|first| is_behind(page, first));
        let draft = Draft {
            page,
            cells,
            horizon,
            is_append,
        };
        applied.change = Some(draft.change(sizes, edition, &own));
    }
    applied
}

/// Posts separators to an inner page. Posting is a union of sets: order and repetition mean
/// nothing. A separator goes to the level above its child: the page is asked for its level, since a
/// root changes its own.
pub fn post(
    page: &Page,
    separators: &[Separator],
    sizes: &Sizes,
    edition: &mut Edition<'_>,
) -> Posted {
    let mut posted = Posted {
        change: None,
        forwards: Vec::new(),
        conflicts: Vec::new(),
    };
    let mut new = BTreeMap::new();
    for item in separators {
        let target = match page.route(&item.key) {
            _ if page.level() <= item.level => Some(Target::Root),
            Route::Elsewhere | Route::Here => Some(Target::Root),
            Route::Right(right) => Some(Target::Page(right)),
            Route::Down(child) if page.level() > item.level + 1 => Some(Target::Page(child)),
            Route::Down(_) => None,
        };
        if let Some(target) = target {
            let item = item.clone();
            posted.forwards.push(Forward { target, item });
            continue;
        }
        let known = match page.position(&item.key) {
            Ok(index) => Some(page.child(index)),
            Err(_) => new.get(&item.key).copied(),
        };
        match known {
            None => drop(new.insert(item.key.clone(), item.child)),
            Some(child) if child == item.child => {}
            Some(_) => posted.conflicts.push(item.clone()),
        }
    }
    if !new.is_empty() {
        let is_append = new
            .keys()
            .next()
            .is_some_and(|first| is_behind(page, first));
        let cells = weave(page, &new);
        let horizon = page.horizon();
        let draft = Draft {
            page,
            cells,
            horizon,
            is_append,
        };
        posted.change = Some(draft.change(sizes, edition, &[]));
    }
    posted
}

/// Records of this page, by key and stamp and each once; and those of others.
fn sort_out<'r>(page: &Page, records: &'r [Record]) -> (Vec<&'r Record>, Vec<Forward<Record>>) {
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut own = Vec::with_capacity(sorted.len());
    let mut forwards = Vec::new();
    for record in sorted {
        let target = match page.route(&record.key) {
            Route::Here => None,
            Route::Right(_) if !guard::has(Guard::HighKey) && page.is_leaf() => None,
            Route::Down(_) if !guard::has(Guard::ForwardDown) => None,
            Route::Right(id) | Route::Down(id) => Some(Target::Page(id)),
            Route::Elsewhere => Some(Target::Root),
        };
        match target {
            None => own.push(record),
            Some(target) => {
                let item = record.clone();
                forwards.push(Forward { target, item });
            }
        }
    }
    (own, forwards)
}

/// The slots that the records change. `own` is in the order of keys.
fn merge(page: &Page, own: &[&Record], applied: &mut Applied) -> BTreeMap<Bytes, Slot> {
    let mut changed = BTreeMap::new();
    for of_key in own.chunk_by(|one, other| one.key == other.key) {
        let key = &of_key[0].key;
        let mut slot = page.find(key).to_slot(|bytes| page.share(bytes));
        let before = slot.clone();
        for record in of_key {
            match slot.merge(record, page.horizon()) {
                Outcome::Applied => applied.applied += 1,
                Outcome::Superseded => applied.superseded += 1,
                Outcome::Refused => applied.refused.push((*record).clone()),
            }
        }
        if slot != before {
            changed.insert(key.clone(), slot);
        }
    }
    changed
}

/// What a changed key has now.
trait Entry {
    /// None when the key has nothing any more.
    fn content(&self) -> Option<Content<'_>>;
}

impl Entry for Slot {
    fn content(&self) -> Option<Content<'_>> {
        let slot = self.as_ref();
        slot.newest().map(|_| Content::Slot(slot))
    }
}

impl Entry for PageId {
    fn content(&self) -> Option<Content<'_>> {
        Some(Content::Child(*self))
    }
}

/// The page's cells with the changed ones in their places.
fn weave<'a>(page: &'a Page, changed: &'a BTreeMap<Bytes, impl Entry>) -> Vec<Cell<'a>> {
    let kept = |index| {
        let content = match page.is_leaf() {
            true => Content::Slot(page.slot(index)),
            false => Content::Child(page.child(index)),
        };
        let key = page.key(index);
        Cell { key, content }
    };
    let mut cells = Vec::with_capacity(page.count() + changed.len());
    let mut next = 0;
    for (key, entry) in changed {
        let (index, after) = match page.position(key) {
            Ok(index) => (index, index + 1),
            Err(index) => (index, index),
        };
        cells.extend((next..index).map(kept));
        next = after;
        let key = KeyRef::whole(key);
        cells.extend(entry.content().map(|content| Cell { key, content }));
    }
    cells.extend((next..page.count()).map(kept));
    cells
}

/// Whether `key` is above all keys of the last page of its level: keys that ascend fill pages to
/// the end.
fn is_behind(page: &Page, key: &[u8]) -> bool {
    page.right().is_none() && page.position(key) == Err(page.count())
}

/// A page's next version before it is divided.
struct Draft<'a> {
    page: &'a Page,
    cells: Vec<Cell<'a>>,
    horizon: Stamp,
    is_append: bool,
}

impl Draft<'_> {
    fn change(self, sizes: &Sizes, edition: &mut Edition<'_>, own: &[&Record]) -> Change {
        let page = self.page;
        let right = page.high().zip(page.right());
        let frame = Frame {
            level: page.level(),
            low: page.low(),
            right,
            horizon: self.horizon,
        };
        let limit = sizes.limit(page.level());
        let overhead = frame.bytes(0);
        let parts = divide(&self.cells, page.level(), overhead, limit, self.is_append);
        let lsn = page.lsn() + 1;
        if parts.len() == 1 {
            let page = frame.page(&self.cells, edition.envelope(lsn));
            let (created, separators) = (Vec::new(), Vec::new());
            return Change {
                created,
                page,
                separators,
            };
        }
        let lows: Vec<Vec<u8>> = parts[1..]
            .iter()
            .map(|part| separator(&self.cells[part.start - 1], &self.cells[part.start]))
            .collect();
        let is_root = page.is_root();
        let (ids, pages) = self.parts(&parts, &lows, own, edition);
        if is_root {
            return grow(page, &lows, ids, pages, self.horizon, edition);
        }
        let separators = lows.into_iter().zip(&ids).map(|(key, id)| Separator {
            level: page.level(),
            key: key.into(),
            child: *id,
        });
        let separators = separators.collect();
        let mut pages = pages.into_iter();
        let page = pages.next().expect("more than one part");
        let created = ids.into_iter().zip(pages).collect();
        Change {
            created,
            page,
            separators,
        }
    }

    /// The page of each part, and the ids of those that are new: all but the first, and of a root
    /// all.
    fn parts(
        &self,
        parts: &[Range<usize>],
        lows: &[Vec<u8>],
        own: &[&Record],
        edition: &mut Edition<'_>,
    ) -> (Vec<PageId>, Vec<Page>) {
        let (page, is_root) = (self.page, self.page.is_root());
        let new_count = lows.len() + usize::from(is_root);
        let ids: Vec<PageId> = (0..new_count).map(|_| edition.page_id()).collect();
        let behind = &ids[usize::from(is_root)..];
        let mut pages = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let low = if index == 0 {
                page.low()
            } else {
                &lows[index - 1]
            };
            let right = match behind.get(index) {
                Some(id) => Some((&lows[index][..], *id)),
                None => page.high().zip(page.right()),
            };
            let is_created = index > 0 || is_root;
            let horizon = match is_created && !guard::has(Guard::HorizonInherited) {
                true => Stamp::ZERO,
                false => self.horizon,
            };
            let frame = Frame {
                level: page.level(),
                low,
                right,
                horizon,
            };
            let is_lineal = !is_created || guard::has(Guard::Lineage);
            let envelope = edition.envelope(if is_lineal { page.lsn() + 1 } else { 1 });
            pages.push(frame.page(&self.part(index, part, own), envelope));
        }
        (ids, pages)
    }

    /// The cells of a part. The mutant leaves the batch out of created pages.
    fn part(&self, index: usize, part: &Range<usize>, own: &[&Record]) -> Vec<Cell<'_>> {
        let cells = &self.cells[part.clone()];
        if guard::has(Guard::UpperInRight) || index == 0 {
            return cells.to_vec();
        }
        let is_batch = |cell: &&Cell<'_>| own.iter().any(|record| cell.key == record.key[..]);
        cells
            .iter()
            .filter(|cell| !is_batch(cell))
            .copied()
            .collect()
    }
}

/// The root after a split: one level higher, with the parts as its children. Its id stays.
fn grow(
    root: &Page,
    lows: &[Vec<u8>],
    ids: Vec<PageId>,
    pages: Vec<Page>,
    horizon: Stamp,
    edition: &mut Edition<'_>,
) -> Change {
    let keys = std::iter::once(&[][..]).chain(lows.iter().map(Vec::as_slice));
    let cells: Vec<Cell<'_>> = keys
        .zip(&ids)
        .map(|(key, id)| Cell {
            key: KeyRef::whole(key),
            content: Content::Child(*id),
        })
        .collect();
    let level = root
        .level()
        .checked_add(1)
        .expect("a tree of 255 levels has more pages than ids");
    let frame = Frame {
        level,
        low: &[],
        right: None,
        horizon,
    };
    let page = frame.page(&cells, edition.envelope(root.lsn() + 1));
    let created = ids.into_iter().zip(pages).collect();
    let separators = Vec::new();
    Change {
        created,
        page,
        separators,
    }
}

#[cfg(test)]
mod tests;
