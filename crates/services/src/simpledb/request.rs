//! Requests and replies of SimpleDB, apart from any wire format.
//!
//! The gateway guarantees what the types say (UTF-8, flags parsed, parts present); everything else
//! (lengths, counts, names, existence) is judged by `decide` and `answer`.

use bytes::Bytes;

use crate::Mode;
use crate::level::DefaultConsistency;
use crate::simpledb::select;

/// Where a page ended, as bytes that only `services` understands. They carry a checksum and are
/// bound to the request that they continue; the gateway shows them in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken(pub Bytes);

/// One action with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Creates a domain; an existing one is fine, unless it was created in another mode or with
    /// another preference than is asked.
    CreateDomain {
        /// 3 to 255 characters of `[a-zA-Z0-9_.-]`.
        domain: String,
        /// The mode of its collection; strong when absent.
        mode: Option<Mode>,
        /// What its collection prefers.
        preference: Option<DefaultConsistency>,
    },
    /// Deletes a domain with all it holds; an absent one is fine.
    DeleteDomain {
        /// The domain.
        domain: String,
    },
    /// Names of the account's domains, in byte order.
    ListDomains {
        /// 1 to 100; 100 when absent.
        max_count: Option<i64>,
        /// Where the page before ended.
        next_token: Option<PageToken>,
    },
    /// Counts and sizes of a domain.
    DomainMetadata {
        /// The domain.
        domain: String,
    },
    /// Puts attributes of one item.
    PutAttributes {
        /// The domain.
        domain: String,
        /// What to put.
        put: ItemPut,
        /// The condition.
        expected: Vec<Expected>,
    },
    /// Puts attributes of several items, all or none.
    BatchPutAttributes {
        /// The domain.
        domain: String,
        /// Distinct items.
        puts: Vec<ItemPut>,
    },
    /// Deletes attributes of one item, or the item.
    DeleteAttributes {
        /// The domain.
        domain: String,
        /// What to delete.
        delete: ItemDelete,
        /// The condition.
        expected: Vec<Expected>,
    },
    /// Deletes attributes of several items, all or none.
    BatchDeleteAttributes {
        /// The domain.
        domain: String,
        /// The items.
        deletes: Vec<ItemDelete>,
    },
    /// Attributes of one item.
    GetAttributes {
        /// The domain.
        domain: String,
        /// The item.
        item: String,
        /// Only these attributes; all when empty.
        names: Vec<String>,
        /// Whether every write acknowledged before must be seen.
        consistent: bool,
    },
    /// A Select expression. Its domain is inside; `services::simpledb::select` reads it.
    Select {
        /// The text.
        expression: String,
        /// Where the page before ended.
        next_token: Option<PageToken>,
        /// Whether every write acknowledged before must be seen.
        consistent: bool,
    },
    /// Fader's own: how a Select would be answered, in words.
    ExplainSelect {
        /// The text.
        expression: String,
    },
    /// Query and QueryWithAttributes of 2007-11-07.
    Query {
        /// The domain.
        domain: String,
        /// The expression; absent or empty selects all items.
        expression: Option<String>,
        /// 1 to 250; 100 when absent.
        max_count: Option<i64>,
        /// Where the page before ended.
        next_token: Option<PageToken>,
        /// `None`: item names only. `Some`: attributes too, all when empty.
        attributes: Option<Vec<String>>,
    },
}

impl Request {
    /// The domain whose collection the request is about, for the router to resolve. A Select names
    /// it in its expression; none when that cannot be read (`answer` then says why).
    pub fn domain(&self) -> Option<&str> {
        match self {
            Request::ListDomains { .. } => None,
            Request::Select { expression, .. } | Request::ExplainSelect { expression } => {
                select::domain(expression)
            }
            Request::CreateDomain { domain, .. }
            | Request::DeleteDomain { domain }
            | Request::DomainMetadata { domain }
            | Request::PutAttributes { domain, .. }
            | Request::BatchPutAttributes { domain, .. }
            | Request::DeleteAttributes { domain, .. }
            | Request::BatchDeleteAttributes { domain, .. }
            | Request::GetAttributes { domain, .. }
            | Request::Query { domain, .. } => Some(domain),
        }
    }

    /// Whether the request may change state: then it goes to `decide`, else to `answer`.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Request::CreateDomain { .. }
                | Request::DeleteDomain { .. }
                | Request::PutAttributes { .. }
                | Request::BatchPutAttributes { .. }
                | Request::DeleteAttributes { .. }
                | Request::BatchDeleteAttributes { .. }
        )
    }
}

/// A condition of a write: one attribute's single value, or its absence.
///
/// The parts are as submitted; `decide` refuses contradictory or incomplete ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The attribute.
    pub name: Option<String>,
    /// The value it must have.
    pub value: Option<String>,
    /// Whether it must exist; absent means it must.
    pub exists: Option<bool>,
}

/// One attribute to put. Absent parts are as submitted: `decide` refuses them with AWS's message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributePut {
    /// The name.
    pub name: Option<String>,
    /// The value.
    pub value: Option<String>,
    /// Whether the attribute's old values go first.
    pub replace: bool,
}

/// One attribute to delete: with a value that pair, without all values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeDelete {
    /// The name.
    pub name: Option<String>,
    /// The value.
    pub value: Option<String>,
}

/// What to put into one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemPut {
    /// The item; `None` when the request named none.
    pub item: Option<String>,
    /// In the order of the request's indices.
    pub attributes: Vec<AttributePut>,
}

/// What to delete from one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemDelete {
    /// The item; `None` when the request named none.
    pub item: Option<String>,
    /// In the order of the request's indices; the whole item when empty.
    pub attributes: Vec<AttributeDelete>,
}

/// A name and value pair in a reply. UTF-8 (it was when it came in).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The name.
    pub name: Bytes,
    /// The value.
    pub value: Bytes,
}

/// An item in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The item's name.
    pub name: Bytes,
    /// Attributes in order of first insertion, their values in byte order.
    pub attributes: Vec<Attribute>,
}

/// The reply of DomainMetadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainMetadata {
    /// Items.
    pub item_count: u64,
    /// Bytes of all item names.
    pub item_names_bytes: u64,
    /// Distinct attribute names.
    pub attribute_name_count: u64,
    /// Bytes of the distinct attribute names.
    pub attribute_names_bytes: u64,
    /// Name and value pairs.
    pub attribute_value_count: u64,
    /// Bytes of all values.
    pub attribute_values_bytes: u64,
    /// Seconds since 1970 of these figures.
    pub timestamp_s: u64,
}

/// What an action gives back when it succeeds.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// CreateDomain, DeleteDomain and all puts and deletes.
    Done,
    /// ListDomains.
    Domains {
        /// In byte order.
        names: Vec<String>,
        /// Present when there are more.
        next_token: Option<PageToken>,
    },
    /// DomainMetadata.
    Metadata(DomainMetadata),
    /// GetAttributes; empty for an item that does not exist.
    Attributes(Vec<Attribute>),
    /// Select and QueryWithAttributes.
    Items {
        /// The page.
        items: Vec<Item>,
        /// Present when there may be more.
        next_token: Option<PageToken>,
    },
    /// Query.
    ItemNames {
        /// The page.
        names: Vec<Bytes>,
        /// Present when there may be more.
        next_token: Option<PageToken>,
    },
    /// ExplainSelect: lines of text.
    Plan(Vec<String>),
}
