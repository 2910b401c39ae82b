//! Verifying a whole tree, and one step of a page.

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::page::{Page, PageId};
use crate::search::Separator;
use crate::stamp::Stamp;

/// What a tree is made of, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of levels.
    pub height: usize,
    /// Number of leaves.
    pub leaves: usize,
    /// Number of inner pages, the root included when it is one.
    pub nodes: usize,
    /// Number of records that readers see.
    pub visible: usize,
    /// Number of slots that readers do not see.
    pub dead: usize,
    /// Bytes of all bodies.
    pub bytes: usize,
    /// The greatest LSN.
    pub lsn_max: u64,
    /// The greatest horizon.
    pub horizon_max: Stamp,
    /// The greatest stamp of any register or horizon.
    pub stamp_max: Stamp,
    /// Pages that searches reach by right links only.
    pub unposted: Vec<Separator>,
    /// All pages of the tree. Others of its collection are left over from splits that did not
    /// happen.
    pub reached: BTreeSet<PageId>,
    /// Contradictions. The tree is well when there are none.
    pub problems: Vec<Problem>,
}

/// A contradiction in a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page {page}: {what}")]
pub struct Problem {
    /// Where it shows.
    pub page: PageId,
    /// The contradiction.
    pub what: Cow<'static, str>,
}

/// A page's next version that contradicts the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page's next version is wrong: {0}")]
pub struct StepError(&'static str);

/// Verifies the tree below `root`: ranges, right links, levels, reachability, children. The order
/// of keys, heads and registers inside each page were verified when it was parsed.
pub fn check<P: Borrow<Page>>(root: PageId, mut fetch: impl FnMut(PageId) -> Option<P>) -> Report {
    let mut report = Report::default();
    let Some(page) = fetch(root) else {
        report.problem(root, "is not there");
        return report;
    };
    if !page.borrow().is_root() {
        report.problem(root, "the root's range has an end");
    }
    let mut level = page.borrow().level();
    let mut children = BTreeMap::from([(Bytes::new(), root)]);
    let mut first = root;
    loop {
        let Some(below) = report.level(first, level, &children, &mut fetch) else {
            return report;
        };
        report.height += 1;
        let (Some(next), Some(leftmost)) = (level.checked_sub(1), below.values().next()) else {
            return report;
        };
        (level, first, children) = (next, *leftmost, below);
    }
}

impl Report {
    fn problem(&mut self, page: PageId, what: &'static str) {
        let what = Cow::Borrowed(what);
        self.problems.push(Problem { page, what });
    }

    /// Follows one level from its first page to its last; the children that its pages name, by
    /// their low keys. None when the chain breaks.
    fn level<P: Borrow<Page>>(
        &mut self,
        first: PageId,
        level: u8,
        children: &BTreeMap<Bytes, PageId>,
        fetch: &mut impl FnMut(PageId) -> Option<P>,
    ) -> Option<BTreeMap<Bytes, PageId>> {
        let mut below = BTreeMap::new();
        let mut missing = children.clone();
        let mut low = Bytes::new();
        let mut id = first;
        loop {
            let Some(page) = fetch(id) else {
                self.problem(id, "is not there");
                return None;
            };
            let page = page.borrow();
            if page.low() != low {
                self.problem(id, "it does not begin where its left sibling ends");
                return None;
            }
            if page.level() != level {
                self.problem(id, "its level is not that of its siblings");
                return None;
            }
            match missing.remove(&low) {
                Some(child) if child == id => {}
                Some(_) => self.problem(id, "its parent names another page for its range"),
                None => self.unposted.push(Separator {
                    level,
                    key: low.clone(),
                    child: id,
                }),
            }
            self.page(id, page, &mut below);
            let Some((high, right)) = page.high().zip(page.right()) else {
                break;
            };
            low = Bytes::copy_from_slice(high);
            id = right;
        }
        for child in missing.into_values() {
            self.problem(child, "a parent names it, and no sibling leads to it");
        }
        Some(below)
    }

    fn page(&mut self, id: PageId, page: &Page, below: &mut BTreeMap<Bytes, PageId>) {
        self.reached.insert(id);
        self.bytes += page.body().len();
        self.lsn_max = self.lsn_max.max(page.lsn());
        self.horizon_max = self.horizon_max.max(page.horizon());
        self.stamp_max = self.stamp_max.max(page.horizon());
        if !page.is_leaf() {
            self.nodes += 1;
            below
                .extend((0..page.count()).map(|at| (page.key(at).to_vec().into(), page.child(at))));
            return;
        }
        self.leaves += 1;
        for (_, slot) in page.slots(&[]) {
            *if slot.is_alive() {
                &mut self.visible
            } else {
                &mut self.dead
            } += 1;
            self.stamp_max = self.stamp_max.max(slot.newest().unwrap_or(Stamp::ZERO));
        }
    }
}

/// Verifies that `new` may replace `old` under one id. No register, horizon, or range goes back,
/// and a slot that is gone is dead and below the horizon.
///
/// # Errors
/// [`StepError`] naming the rule that is broken.
pub fn check_step(old: &Page, new: &Page) -> Result<(), StepError> {
    if new.lsn() != old.lsn() + 1 {
        return Err(StepError("its LSN does not follow"));
    }
    if new.horizon() < old.horizon() {
        return Err(StepError("its horizon went back"));
    }
    if new.low() != old.low() {
        return Err(StepError("its range begins elsewhere"));
    }
    if new.level() != old.level() {
        let grows = old.is_root() && new.is_root() && new.level() - 1 == old.level();
        let is_whole = grows && new.count() >= 2;
        return if is_whole {
            Ok(())
        } else {
            Err(StepError("its level changed"))
        };
    }
    let is_wider = match (old.high(), new.high()) {
        (Some(old), Some(new)) => new > old,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if is_wider {
        return Err(StepError("its range grew"));
    }
    let kept = (0..old.count()).filter(|at| new.contains(&old.key(*at).to_vec()));
    for at in kept {
        let found = new.position(&old.key(at).to_vec());
        if !old.is_leaf() {
            match found {
                Ok(index) if new.child(index) == old.child(at) => continue,
                _ => return Err(StepError("a child is gone")),
            }
        }
        let before = old.slot(at);
        let Ok(index) = found else {
            let is_removable = !before.is_alive() && before.newest() <= Some(new.horizon());
            if is_removable {
                continue;
            }
            return Err(StepError(
                "a slot is gone that is alive or above the horizon",
            ));
        };
        let after = new.slot(index);
        let life = |life: Option<crate::slot::Life>| life.map(|life| life.stamp);
        if life(after.life) < life(before.life) || after.newest() < before.newest() {
            return Err(StepError("a register went back"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
