//! Searching a tree: from the root down, and right where a page has split since its parent was
//! read.
//!
//! Pages come from a function, so that the same search runs over a buffer pool, a store, or a map
//! in a test. A caller that must wait for a page calls [`Page::route`] itself, page by page.

use std::borrow::Borrow;

use bytes::Bytes;

use crate::error::TreeError;
use crate::key::KeyRef;
use crate::page::{Page, PageId, Route};
use crate::slot::PayloadRef;

/// A split that a parent may not know yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Separator {
    /// Level of the child.
    pub level: u8,
    /// The child's low key.
    pub key: Bytes,
    /// The page that begins there.
    pub child: PageId,
}

/// Where a search ended.
#[derive(Clone, Debug)]
pub struct Found<P> {
    /// Id of the leaf.
    pub id: PageId,
    /// The leaf whose range has the key.
    pub page: P,
    /// The pages on the way, one of each level, the root first.
    pub parents: Vec<PageId>,
    /// Splits that the parents did not know: to be posted by anyone, once.
    pub unposted: Vec<Separator>,
}

/// The leaf of `key`.
///
/// # Errors
/// [`TreeError::Missing`] when a page is not there: read again, the key may exist.
/// [`TreeError::Broken`] when a page contradicts the one that led to it.
pub fn search<P: Borrow<Page>>(
    root: PageId,
    key: &[u8],
    mut fetch: impl FnMut(PageId) -> Option<P>,
) -> Result<Found<P>, TreeError> {
    let (mut id, mut parents, mut unposted) = (root, Vec::new(), Vec::new());
    let mut page = fetch(id).ok_or(TreeError::Missing(id))?;
    loop {
        let next = match page.borrow().route(key) {
            Route::Here => {
                return Ok(Found {
                    id,
                    page,
                    parents,
                    unposted,
                });
            }
            Route::Elsewhere => {
                let what = "its range begins above the key that led to it";
                return Err(TreeError::Broken { page: id, what });
            }
            Route::Down(child) => {
                parents.push(id);
                let child_page = fetch(child).ok_or(TreeError::Missing(child))?;
                if child_page.borrow().level() + 1 != page.borrow().level() {
                    let what = "its level is not one below its parent's";
                    return Err(TreeError::Broken { page: child, what });
                }
                (child, child_page)
            }
            Route::Right(right) => {
                let right_page = fetch(right).ok_or(TreeError::Missing(right))?;
                let is_sibling = page.borrow().high() == Some(right_page.borrow().low())
                    && page.borrow().level() == right_page.borrow().level();
                if !is_sibling {
                    let what = "it does not begin where its left sibling ends";
                    return Err(TreeError::Broken { page: right, what });
                }
                unposted.push(Separator {
                    level: right_page.borrow().level(),
                    key: Bytes::copy_from_slice(right_page.borrow().low()),
                    child: right,
                });
                (right, right_page)
            }
        };
        (id, page) = next;
    }
}

/// The visible records of the keys in `[from, until)`, in the order of their keys. Without `until`,
/// to the end.
///
/// # Errors
/// As [`search`].
pub fn range<P: Borrow<Page>, F: FnMut(PageId) -> Option<P>>(
    root: PageId,
    from: &[u8],
    until: Option<Bytes>,
    mut fetch: F,
) -> Result<Range<P, F>, TreeError> {
    let leaf = search(root, from, &mut fetch)?.page;
    let index = match leaf.borrow().position(from) {
        Ok(index) | Err(index) => index,
    };
    Ok(Range {
        leaf: Some(leaf),
        index,
        until,
        fetch,
    })
}

/// Records along the leaves. It follows right links, so splits during the scan lose and repeat
/// nothing.
#[derive(Debug)]
pub struct Range<P, F> {
    leaf: Option<P>,
    index: usize,
    until: Option<Bytes>,
    fetch: F,
}

impl<P: Borrow<Page>, F: FnMut(PageId) -> Option<P>> Range<P, F> {
    /// The next record; its payload is a part of `leaf`'s memory, see [`Page::share`].
    ///
    /// # Errors
    /// [`TreeError`] as [`search`].
    pub fn next_with<T>(
        &mut self,
        take: impl FnOnce(&Page, KeyRef<'_>, PayloadRef<'_>) -> T,
    ) -> Result<Option<T>, TreeError> {
        loop {
            let Some(leaf) = self.leaf.as_ref().map(Borrow::borrow) else {
                return Ok(None);
            };
            while self.index < leaf.count() {
                let (key, slot) = (leaf.key(self.index), leaf.slot(self.index));
                if self.until.as_ref().is_some_and(|until| key >= until[..]) {
                    self.leaf = None;
                    return Ok(None);
                }
                self.index += 1;
                if let Some(payload) = slot.visible() {
                    return Ok(Some(take(leaf, key, payload)));
                }
            }
            self.advance()?;
        }
    }

    fn advance(&mut self) -> Result<(), TreeError> {
        let leaf = self.leaf.take();
        let leaf = leaf.as_ref().map(Borrow::borrow);
        let Some((high, right)) = leaf.and_then(|leaf| leaf.high().zip(leaf.right())) else {
            return Ok(());
        };
        if self.until.as_ref().is_some_and(|until| high >= &until[..]) {
            return Ok(());
        }
        let next = (self.fetch)(right).ok_or(TreeError::Missing(right))?;
        if next.borrow().low() != high || !next.borrow().is_leaf() {
            let what = "it does not begin where its left sibling ends";
            return Err(TreeError::Broken { page: right, what });
        }
        self.leaf = Some(next);
        self.index = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
