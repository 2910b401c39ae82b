//! Which tree holds what.

use fader_chain::row_key;
use fader_services::{CollectionId, index_key, item_key};

use super::*;

/// Recovery applies a change to one tree and not to another, so what one change writes is in one.
#[test]
fn a_row_is_in_the_tree_of_its_register() {
    let item = item_key(CollectionId(7), b"item");
    assert_eq!(Tree::of(&item), Tree::Registers);
    let row = |index| row_key(EntryId::new(1, index), &item);
    assert_eq!(Tree::of(&row(1)), Tree::Registers);
    assert_eq!(Tree::of_range(&row(1), &row(2)), Some(Tree::Registers));
    let pair = index_key(CollectionId(7), b"name", b"value", b"item");
    assert_eq!(Tree::of(&pair), Tree::Index);
}
