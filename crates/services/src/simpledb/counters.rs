//! What a domain counts: its metadata record, and the pairs of each attribute name.
//!
//! ```text
//! 'm'      := version:u8=1  item_count  item_names_bytes  attribute_name_count
//!             attribute_names_bytes  attribute_value_count  attribute_values_bytes   (varints)
//! 'a' name := pairs with this name (varint, at least 1)
//! ```

use bytes::Bytes;
use fader_chain::{Change, DecodeError, Reader, put_varint};

use crate::{CollectionId, KeyBuilder, Table, View, ViewError};

const VERSION: u8 = 1;

/// The metadata record of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Items.
    pub(crate) item_count: u64,
    /// Bytes of all item names.
    pub(crate) item_names_bytes: u64,
    /// Distinct attribute names.
    pub(crate) attribute_name_count: u64,
    /// Bytes of the distinct attribute names.
    pub(crate) attribute_names_bytes: u64,
    /// Name and value pairs.
    pub(crate) attribute_value_count: u64,
    /// Bytes of all values.
    pub(crate) attribute_values_bytes: u64,
}

impl Counters {
    /// What counts towards the size of a domain.
    pub(crate) fn domain_bytes(&self) -> u64 {
        self.item_names_bytes + self.attribute_names_bytes + self.attribute_values_bytes
    }

    /// The change that stores the counters.
    pub(crate) fn put(&self, collection: CollectionId) -> Change {
        let mut value = Vec::with_capacity(32);
        value.push(VERSION);
        for number in [
            self.item_count,
            self.item_names_bytes,
            self.attribute_name_count,
            self.attribute_names_bytes,
            self.attribute_value_count,
            self.attribute_values_bytes,
        ] {
            put_varint(&mut value, number);
        }
        Change::Put {
            key: metadata_key(collection),
            value: Bytes::from(value),
        }
    }

    fn decode(value: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        if reader.byte()? != VERSION {
            return Err(DecodeError::new("a metadata record's version"));
        }
        let counters = Counters {
            item_count: reader.varint()?,
            item_names_bytes: reader.varint()?,
            attribute_name_count: reader.varint()?,
            attribute_names_bytes: reader.varint()?,
            attribute_value_count: reader.varint()?,
            attribute_values_bytes: reader.varint()?,
        };
        reader.end()?;
        Ok(counters)
    }
}

/// The counters of a domain; `None` when there is no such domain (any more).
pub(crate) fn counters(
    view: &dyn View,
    collection: CollectionId,
) -> Result<Option<Counters>, ViewError> {
    let value = view.get(&metadata_key(collection))?;
    Ok(value.map(Counters::decode).transpose()?)
}

/// Whether the domain is there: the cheapest question.
pub(crate) fn is_alive(view: &dyn View, collection: CollectionId) -> Result<bool, ViewError> {
    Ok(view.get(&metadata_key(collection))?.is_some())
}

/// How many pairs of the domain have this attribute name.
pub(crate) fn attribute_pairs(
    view: &dyn View,
    collection: CollectionId,
    name: &[u8],
) -> Result<u64, ViewError> {
    let Some(value) = view.get(&attribute_key(collection, name))? else {
        return Ok(0);
    };
    let mut reader = Reader::new(value);
    let pairs = reader.varint()?;
    reader.end()?;
    Ok(pairs)
}

/// The change that stores how many pairs have this attribute name.
pub(crate) fn put_attribute_pairs(collection: CollectionId, name: &[u8], pairs: u64) -> Change {
    let key = attribute_key(collection, name);
    if pairs == 0 {
        return Change::Remove { key };
    }
    let mut value = Vec::with_capacity(10);
    put_varint(&mut value, pairs);
    Change::Put {
        key,
        value: Bytes::from(value),
    }
}

/// The key whose presence says that the domain is there.
pub(crate) fn metadata_key(collection: CollectionId) -> Bytes {
    KeyBuilder::with_rest(collection, Table::Metadata, 0).build()
}

fn attribute_key(collection: CollectionId, name: &[u8]) -> Bytes {
    KeyBuilder::with_rest(collection, Table::AttributeCount, name.len())
        .raw(name)
        .build()
}
