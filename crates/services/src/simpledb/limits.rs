//! The limits of SimpleDB. AWS's by default; configuration may raise them.

/// Sizes in bytes of UTF-8, counts in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Domains of one account.
    pub domains_per_account: u64,
    /// Sum of item names, distinct attribute names and values of a domain.
    pub domain_bytes: u64,
    /// Attribute name and value pairs of a domain.
    pub domain_pairs: u64,
    /// Attribute name and value pairs of an item.
    pub item_pairs: usize,
    /// Item name, attribute name or value.
    pub text_bytes: usize,
    /// Attributes in one PutAttributes or DeleteAttributes.
    pub submitted_attributes: usize,
    /// Items in one BatchPutAttributes or BatchDeleteAttributes.
    pub submitted_items: usize,
    /// Attributes named in one GetAttributes or Select.
    pub requested_attributes: usize,
    /// Items in one page of Select.
    pub page_items: usize,
    /// Items in one page of Select without LIMIT.
    pub page_items_default: usize,
    /// Names and values in one page of Select.
    pub page_bytes: usize,
    /// Comparisons in one Select expression.
    pub select_comparisons: usize,
    /// Different attributes in one Select expression.
    pub select_attributes: usize,
    /// Bytes of a Select or Query expression.
    pub expression_bytes: usize,
    /// How deep parentheses and NOT may nest in an expression (ours: bounds the stack).
    pub expression_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            domains_per_account: 250,
            domain_bytes: 10 << 30,
            domain_pairs: 1_000_000_000,
            item_pairs: 256,
            text_bytes: 1024,
            submitted_attributes: 256,
            submitted_items: 25,
            requested_attributes: 256,
            page_items: 2500,
            page_items_default: 100,
            page_bytes: 1 << 20,
            select_comparisons: 20,
            select_attributes: 20,
            expression_bytes: 64 << 10,
            expression_depth: 64,
        }
    }
}
