//! All items of a domain, in pages: what an export reads, on one state of the store.

use bytes::Bytes;
use fader_chain::Register;

use crate::catalog::AccountId;
use crate::simpledb::pairs::sorted_pairs;
use crate::simpledb::{PageToken, counters, token};
use crate::{
    CollectionId, Direction, KeyBuilder, Table, View, ViewError, item_key, split_item_key,
};

/// An item: its name, and its pairs by name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name.
    pub name: Bytes,
    /// Its pairs, sorted.
    pub pairs: Vec<(Bytes, Bytes)>,
}

/// The items of a domain that come after `after`, in the order of their names: those that have
/// `bytes` together, at least one. Nothing of a domain that is not there.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn items(
    view: &dyn View,
    collection: CollectionId,
    after: Option<&[u8]>,
    bytes: usize,
) -> Result<Option<Vec<Item>>, ViewError> {
    if !counters::is_alive(view, collection)? {
        return Ok(None);
    }
    let start = match after {
        None => item_key(collection, b""),
        Some(name) => item_key(collection, &[name, &[0x00]].concat()),
    };
    let end = KeyBuilder::new(collection, Table::Items).build_end();
    let (mut items, mut size) = (Vec::new(), 0);
    for pair in view.scan(&start, &end, Direction::Forward) {
        let (key, row) = pair?;
        let Some((_, name)) = split_item_key(&key) else {
            continue;
        };
        let name = key.slice_ref(name);
        let pairs = sorted_pairs(&Register::decode(row)?);
        if pairs.is_empty() {
            continue;
        }
        let sizes = pairs.iter().map(|(name, value)| name.len() + value.len());
        size += name.len() + sizes.sum::<usize>();
        items.push(Item { name, pairs });
        if bytes <= size {
            break;
        }
    }
    Ok(Some(items))
}

/// How many items a domain has; 0 where it is not there.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn item_count(view: &dyn View, collection: CollectionId) -> Result<u64, ViewError> {
    let counters = counters::counters(view, collection)?;
    Ok(counters.map_or(0, |counters| counters.item_count))
}

/// A token of ListExports.
pub(crate) fn seal_token(account: &AccountId, text: &[u8], position: &[u8]) -> Bytes {
    token::seal(token::Kind::Exports, account, text, position).0
}

/// The position in one, if it is of this account and text.
pub(crate) fn open_token(token: &Bytes, account: &AccountId, text: &[u8]) -> Option<Bytes> {
    let token = PageToken(token.clone());
    token::open(&token, token::Kind::Exports, account, text).ok()
}
