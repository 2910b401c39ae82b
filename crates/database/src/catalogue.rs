//! The catalogue: one object with the database's collections, changed by If-Match.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use fader_blink::{PageId, Sizes};
use fader_cloud::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::layout::PendingQueues;
use crate::level::Level;
use crate::sealing::{PublicIdentity, SealingKey};

/// The format that this build writes. It reads format 1, which has no indexes, and format 2, which
/// has no queues of leaves, too.
const FORMAT: u32 = 3;
/// Bytes of a collection's name, at most.
pub const NAME_BYTES_MAX: usize = 255;
/// Pending-update queues of a collection, at most.
pub const QUEUES_MAX: u16 = 256;
/// Indexes of a collection, at most: each write sends a record to each of them.
pub const INDEXES_MAX: usize = 16;
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

/// A page's id as its digits.
mod page_id {
    use fader_blink::PageId;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(id: &PageId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PageId, D::Error> {
        let digits = String::deserialize(from)?;
        let id = u128::from_str_radix(&digits, 16);
        id.map(PageId)
            .map_err(|_| de::Error::custom(format!("{digits:?} is no page's id")))
    }
}

/// How a collection is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionSettings {
    /// The field of imported records that is their key; none for records of bytes.
    pub key: Option<String>,
    /// The weakest level of a transaction that writes to it.
    pub minimum: Level,
    /// Its pending-update queues. More of them let more checkpoints run at once.
    pub queues: PendingQueues,
    /// Bytes of a leaf, at most.
    pub leaf_bytes: u32,
    /// Bytes of an inner page, at most.
    pub node_bytes: u32,
    /// Whether records wait for approval by [`crate::Database::review`].
    pub is_curated: bool,
    /// Whether its pages and records are encrypted, with a key that the client's identity gets.
    pub is_encrypted: bool,
    /// Secondary indexes: names, with the fields of records that are JSON objects.
    pub indexes: BTreeMap<String, String>,
}

impl Default for CollectionSettings {
    /// The paper's pages: 100 KB and 57 KB; one queue; any level that loses nothing.
    fn default() -> Self {
        CollectionSettings {
            key: None,
            minimum: Level::Basic,
            queues: PendingQueues::default(),
            leaf_bytes: 100_000,
            node_bytes: 57_000,
            is_curated: false,
            is_encrypted: false,
            indexes: BTreeMap::new(),
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
    /// Its pending-update queues.
    pub queues: PendingQueues,
    leaf_bytes: u32,
    node_bytes: u32,
    /// The page that never changes its id.
    #[serde(with = "page_id")]
    pub(crate) root: PageId,
    /// Whether records wait for approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_curated: bool,
    /// Its keys, the newest last; none: it is in clear. Those of an index are its collection's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keys: Vec<SealingKey>,
    /// Its secondary indexes by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, Index>,
}

/// A secondary index: a tree with an entry for each value of a field of each record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The field of the records, which are JSON objects.
    pub field: String,
    /// Whether all records have their entries: lookups work.
    pub is_ready: bool,
    /// Records with an older stamp, milliseconds since 1970, may come from clients that did not
    /// know the index: checkpoints assert their entries.
    pub(crate) asserted_from_ms: u64,
    /// The tree of entries, with its queues. It has no indexes.
    pub(crate) entries: Collection,
}

/// A collection or an index that was dropped: `vacuum` deletes its queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dropped {
    pub(crate) id: CollectionId,
    pub(crate) queues: PendingQueues,
}

impl Collection {
    /// A collection whose ids, and those of its indexes, come from `ids`.
    ///
    /// # Errors
    /// `Invalid`, naming the bound.
    pub(crate) fn new(
        settings: &CollectionSettings,
        key: Option<SealingKey>,
        mut ids: impl FnMut() -> (CollectionId, PageId),
    ) -> Result<Self> {
        if INDEXES_MAX < settings.indexes.len() {
            let context = format!("a collection has at most {INDEXES_MAX} indexes");
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        if settings.is_curated && settings.minimum == Level::Naive {
            let context = "records cannot wait for approval at level naive: it writes pages";
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        let (id, root) = ids();
        if !settings.queues.is_possible() {
            let context = format!("a collection has 1 to {QUEUES_MAX} queues");
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        let mut collection = Collection {
            id,
            key: settings.key.clone(),
            minimum: settings.minimum,
            queues: settings.queues,
            leaf_bytes: settings.leaf_bytes,
            node_bytes: settings.node_bytes,
            root,
            is_curated: settings.is_curated,
            keys: key.into_iter().collect(),
            indexes: BTreeMap::new(),
        };
        collection.check(ErrorKind::Invalid)?;
        for (name, field) in &settings.indexes {
            check_name("index", name)?;
            let (id, root) = ids();
            let index = Index {
                field: field.clone(),
                is_ready: true,
                asserted_from_ms: 0,
                entries: collection.entries(id, root),
            };
            collection.indexes.insert(name.clone(), index);
        }
        Ok(collection)
    }

    /// The tree of entries of a new index of this collection.
    pub(crate) fn entries(&self, id: CollectionId, root: PageId) -> Collection {
        Collection {
            id,
            key: None,
            is_curated: false,
            queues: self.queues.of_index(),
            root,
            indexes: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Bytes of a leaf, at most.
    pub(crate) fn leaf_bytes(&self) -> usize {
        self.leaf_bytes as usize
    }

    /// Whether its pages and records are encrypted.
    pub fn is_encrypted(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The identities that were granted its newest key.
    pub fn granted(&self) -> impl Iterator<Item = PublicIdentity> {
        self.keys
            .last()
            .into_iter()
            .flat_map(|key| key.grants.keys().copied())
    }

    /// Gives it these keys, and its indexes.
    pub(crate) fn set_keys(&mut self, keys: Vec<SealingKey>) {
        for index in self.indexes.values_mut() {
            index.entries.keys.clone_from(&keys);
        }
        self.keys = keys;
    }

    /// The trees of its indexes.
    pub(crate) fn index_trees(&self) -> impl Iterator<Item = &Collection> {
        self.indexes.values().map(|index| &index.entries)
    }

    /// How large its pages grow.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes::new(self.leaf_bytes as usize, self.node_bytes as usize)
            .expect("checked when it was read")
    }

    fn check(&self, kind: ErrorKind) -> Result<()> {
        let sizes = Sizes::new(self.leaf_bytes as usize, self.node_bytes as usize);
        sizes.map_err(|error| Error::caused(kind, "sizes of pages", error))?;
        self.index_trees().try_for_each(|tree| tree.check(kind))
    }
}

impl From<&Collection> for Dropped {
    fn from(collection: &Collection) -> Self {
        Dropped {
            id: collection.id,
            queues: collection.queues,
        }
    }
}

/// All collections of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Catalogue {
    format: u32,
    /// Random: part of the names of its queues.
    pub(crate) database: String,
    /// Whether the store keeps no conditions of PUTs: a token stands for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_timed: bool,
    pub(crate) collections: BTreeMap<String, Collection>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dropped: Vec<Dropped>,
}

impl Catalogue {
    /// A database without collections.
    pub(crate) fn new(database: u64) -> Self {
        Catalogue {
            format: FORMAT,
            database: format!("{database:016x}"),
            is_timed: false,
            collections: BTreeMap::new(),
            dropped: Vec::new(),
        }
    }

    /// All trees: collections, and the entries of their indexes.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &Collection> {
        let collections = self.collections.values();
        collections
            .flat_map(|collection| std::iter::once(collection).chain(collection.index_trees()))
    }

    /// A tree by its id.
    pub(crate) fn by_id(&self, id: CollectionId) -> Option<&Collection> {
        self.trees().find(|found| found.id == id)
    }

    /// The collection that a tree is, or is an index of.
    pub(crate) fn name_of(&self, id: CollectionId) -> Option<&str> {
        let mut all = self.collections.iter();
        let found = all.find(|(_, collection)| {
            let mut indexes = collection.index_trees();
            collection.id == id || indexes.any(|tree| tree.id == id)
        });
        found.map(|(name, _)| name.as_str())
    }

    /// Takes a collection out.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(collection) = self.collections.remove(name) else {
            return false;
        };
        self.dropped
            .extend(collection.index_trees().map(Dropped::from));
        self.dropped.push(Dropped::from(&collection));
        true
    }

    /// Adds a collection.
    ///
    /// # Errors
    /// `Invalid`: the name, or there are too many; `Precondition`: the name is taken.
    pub(crate) fn add(&mut self, name: &str, collection: Collection) -> Result<()> {
        check_name("collection", name)?;
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
        let mut written = self.clone();
        for collection in written.collections.values_mut() {
            for index in collection.indexes.values_mut() {
                index.entries.keys.clear();
            }
        }
        let text = serde_json::to_vec_pretty(&written);
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
        if !(1..=FORMAT).contains(&format) {
            let context = format!(
                "the database has format {format}, this build reads formats up to {FORMAT}: use \
                 the build that wrote it, or a newer one"
            );
            return Err(Error::new(ErrorKind::Malformed, context));
        }
        let mut catalogue: Catalogue = serde_json::from_slice(bytes).map_err(foreign)?;
        catalogue.format = FORMAT;
        for collection in catalogue.collections.values_mut() {
            collection.check(ErrorKind::Malformed)?;
            let keys = std::mem::take(&mut collection.keys);
            collection.set_keys(keys);
        }
        Ok(catalogue)
    }
}

/// Whether a collection or an index may have this name.
pub(crate) fn check_name(kind: &str, name: &str) -> Result<()> {
    if name.is_empty() || NAME_BYTES_MAX < name.len() || name.chars().any(char::is_control) {
        let context = format!(
            "{kind} {name:?}: a name has 1 to {NAME_BYTES_MAX} bytes without control characters"
        );
        return Err(Error::new(ErrorKind::Invalid, context));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
