//! The catalogue: one object with the database's collections, changed by If-Match.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use fader_blink::{PageId, Sizes};
use fader_cloud::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::level::Level;

/// The format that this build writes and reads.
const FORMAT: u32 = 1;
/// Bytes of a collection's name, at most.
pub const NAME_BYTES_MAX: usize = 255;
/// Pending-update queues of a collection, at most.
pub const QUEUES_MAX: u16 = 256;
/// Collections of a database, at most: the catalogue is read whole.
const COLLECTIONS_MAX: usize = 10_000;

/// A collection for ever: a name that is dropped and created again gets a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CollectionId(pub u64);

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<CollectionId> for String {
    fn from(id: CollectionId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for CollectionId {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> std::result::Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(CollectionId)
    }
}

/// How a collection is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionSettings {
    /// The field of imported records that is their key; none for records of bytes.
    pub key: Option<String>,
    /// The weakest level of a transaction that writes to it.
    pub minimum: Level,
    /// Pending-update queues: 1 to [`QUEUES_MAX`]. More of them let more checkpoints run at once.
    pub queues: u16,
    /// Bytes of a leaf, at most.
    pub leaf_bytes: u32,
    /// Bytes of an inner page, at most.
    pub node_bytes: u32,
}

impl Default for CollectionSettings {
    /// The paper's pages: 100 KB and 57 KB; one queue; any level that loses nothing.
    fn default() -> Self {
        CollectionSettings {
            key: None,
            minimum: Level::Basic,
            queues: 1,
            leaf_bytes: 100_000,
            node_bytes: 57_000,
        }
    }
}

/// A collection of records in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// Its id.
    pub id: CollectionId,
    /// The field of imported records that is their key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The weakest level of a transaction that writes to it.
    pub minimum: Level,
    /// Number of its pending-update queues.
    pub queues: u16,
    leaf_bytes: u32,
    node_bytes: u32,
    root: String,
}

impl Collection {
    /// A collection whose root has this id.
    ///
    /// # Errors
    /// `Invalid`, naming the bound.
    pub(crate) fn new(
        id: CollectionId,
        root: PageId,
        settings: &CollectionSettings,
    ) -> Result<Self> {
        if !(1..=QUEUES_MAX).contains(&settings.queues) {
            let context = format!("a collection has 1 to {QUEUES_MAX} queues");
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        let collection = Collection {
            id,
            key: settings.key.clone(),
            minimum: settings.minimum,
            queues: settings.queues,
            leaf_bytes: settings.leaf_bytes,
            node_bytes: settings.node_bytes,
            root: format!("{:032x}", root.0),
        };
        collection.check(ErrorKind::Invalid)?;
        Ok(collection)
    }

    /// The page that never changes its id.
    pub(crate) fn root(&self) -> PageId {
        PageId(u128::from_str_radix(&self.root, 16).expect("checked when it was read"))
    }

    /// How large its pages grow.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes::new(self.leaf_bytes as usize, self.node_bytes as usize)
            .expect("checked when it was read")
    }

    fn check(&self, kind: ErrorKind) -> Result<()> {
        let sizes = Sizes::new(self.leaf_bytes as usize, self.node_bytes as usize);
        sizes.map_err(|error| Error::caused(kind, "sizes of pages", error))?;
        if u128::from_str_radix(&self.root, 16).is_err() {
            return Err(Error::new(
                kind,
                format!("root {:?} is no page's id", self.root),
            ));
        }
        Ok(())
    }
}

/// All collections of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Catalogue {
    format: u32,
    /// Random: part of the names of its queues.
    pub(crate) database: String,
    pub(crate) collections: BTreeMap<String, Collection>,
}

impl Catalogue {
    /// A database without collections.
    pub(crate) fn new(database: u64) -> Self {
        Catalogue {
            format: FORMAT,
            database: format!("{database:016x}"),
            collections: BTreeMap::new(),
        }
    }

    /// A collection by its id.
    pub(crate) fn by_id(&self, id: CollectionId) -> Option<&Collection> {
        self.collections.values().find(|found| found.id == id)
    }

    /// Adds a collection.
    ///
    /// # Errors
    /// `Invalid`: the name, or there are too many; `Precondition`: the name is taken.
    pub(crate) fn add(&mut self, name: &str, collection: Collection) -> Result<()> {
        if name.is_empty() || NAME_BYTES_MAX < name.len() || name.chars().any(char::is_control) {
            let context = format!(
                "collection {name:?}: a name has 1 to {NAME_BYTES_MAX} bytes without control \
                 characters"
            );
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        if COLLECTIONS_MAX <= self.collections.len() {
            let context = format!("a database has at most {COLLECTIONS_MAX} collections");
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        if self.collections.contains_key(name) {
            let context = format!("collection {name:?} is there already");
            return Err(Error::new(ErrorKind::Precondition, context));
        }
        self.collections.insert(name.to_owned(), collection);
        Ok(())
    }

    pub(crate) fn encode(&self) -> Bytes {
        let text = serde_json::to_vec_pretty(self);
        text.expect("maps of text and numbers").into()
    }

    /// The catalogue of these bytes.
    ///
    /// # Errors
    /// `Malformed`: foreign, damaged, or of a newer format.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let foreign = |error| {
            let context = "object \"catalogue\" is not the catalogue of a Fader database";
            Error::caused(ErrorKind::Malformed, context, error)
        };
        let Format { format } = serde_json::from_slice(bytes).map_err(foreign)?;
        if format != FORMAT {
            let context = format!(
                "the database has format {format}, this build reads format {FORMAT}: use the \
                 build that wrote it, or a newer one"
            );
            return Err(Error::new(ErrorKind::Malformed, context));
        }
        let catalogue: Catalogue = serde_json::from_slice(bytes).map_err(foreign)?;
        for collection in catalogue.collections.values() {
            collection.check(ErrorKind::Malformed)?;
        }
        Ok(catalogue)
    }
}

#[cfg(test)]
mod tests;
