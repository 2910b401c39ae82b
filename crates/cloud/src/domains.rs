//! Domains: what SimpleDB promises.
//!
//! An item is a set of pairs of name and value. A read is strong, and sees every write that was
//! acknowledged before, or eventual, and may miss some. A write with a condition is decided on the
//! newest state.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;

/// What a read must see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadConsistency {
    /// Any state of a little while ago, or newer; cheaper, always there.
    #[default]
    Eventual,
    /// Every write acknowledged before.
    Strong,
}

/// A name with one of its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attribute {
    /// The attribute's name.
    pub name: String,
    /// One value.
    pub value: String,
}

/// A name with a value to put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributePut {
    /// The attribute's name.
    pub name: String,
    /// The value to add.
    pub value: String,
    /// Whether the values that were there before are dropped.
    pub replace: bool,
}

/// An item as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The item's name.
    pub name: String,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// What to put into an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemPut {
    /// The item's name.
    pub name: String,
    /// At least one.
    pub attributes: Vec<AttributePut>,
}

/// What to delete of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemDelete {
    /// The item's name.
    pub name: String,
    /// The attributes, each with its value or, where there is none, with all; the whole item if
    /// this is empty.
    pub attributes: Vec<(String, Option<String>)>,
}

/// What must hold for a write to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The attribute has exactly this one value.
    Value(Attribute),
    /// The attribute named so has no value.
    Absent(String),
}

/// A page of a Select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The items found.
    pub items: Vec<Item>,
    /// Where the next page begins; `None` at the end.
    pub next_token: Option<String>,
}

/// Counts and sizes of a domain; approximate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainMetadata {
    /// Items.
    pub item_count: u64,
    /// Bytes of all item names.
    pub item_names_size_bytes: u64,
    /// Different attribute names.
    pub attribute_name_count: u64,
    /// Their bytes.
    pub attribute_names_size_bytes: u64,
    /// Pairs of name and value.
    pub attribute_value_count: u64,
    /// Bytes of their values.
    pub attribute_values_size_bytes: u64,
    /// When that was counted, in seconds since 1970.
    pub timestamp: u64,
}

/// Domains by name. SimpleDB's limits hold: 256 pairs an item, 1,024 bytes a name or value, 25
/// items a batch.
#[async_trait]
pub trait Domains: Debug + Send + Sync + 'static {
    /// Creates a domain; one that exists stays as it is.
    async fn create(&self, domain: &str) -> Result<()>;

    /// Deletes a domain with all that is in it; one that does not exist is fine.
    async fn delete(&self, domain: &str) -> Result<()>;

    /// The names of all domains, in order.
    async fn list(&self) -> Result<Vec<String>>;

    /// Counts and sizes.
    ///
    /// # Errors
    /// `NotFound`.
    async fn metadata(&self, domain: &str) -> Result<DomainMetadata>;

    /// Puts attributes into an item, on a condition if there is one.
    ///
    /// # Errors
    /// `NotFound` for the domain; `Precondition`.
    async fn put(&self, domain: &str, put: &ItemPut, condition: Option<&Expected>) -> Result<()>;

    /// Puts up to 25 items, all or none.
    ///
    /// # Errors
    /// `NotFound` for the domain.
    async fn put_batch(&self, domain: &str, puts: &[ItemPut]) -> Result<()>;

    /// Deletes an item or parts of it, on a condition if there is one; what is not there is fine.
    ///
    /// # Errors
    /// `NotFound` for the domain; `Precondition`.
    async fn remove(
        &self,
        domain: &str,
        delete: &ItemDelete,
        condition: Option<&Expected>,
    ) -> Result<()>;

    /// Deletes up to 25 items or parts of them, all or none.
    ///
    /// # Errors
    /// `NotFound` for the domain.
    async fn remove_batch(&self, domain: &str, deletes: &[ItemDelete]) -> Result<()>;

    /// The attributes of an item: all of them when `names` is empty; none if there is no such item.
    ///
    /// # Errors
    /// `NotFound` for the domain.
    async fn get(
        &self,
        domain: &str,
        item: &str,
        names: &[String],
        reading: ReadConsistency,
    ) -> Result<Vec<Attribute>>;

    /// A page of a Select.
    ///
    /// # Errors
    /// `NotFound` for the domain; `Invalid` when the expression or the token is none.
    async fn select(
        &self,
        expression: &str,
        next_token: Option<&str>,
        reading: ReadConsistency,
    ) -> Result<Page>;
}
