//! The limits of S3, and of what new buckets are. AWS's by default; configuration may change them.

use crate::s3::settings::{Ownership, PublicAccessBlock};

/// Sizes in bytes, counts in pieces, times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Buckets of one account.
    pub buckets_per_account: u64,
    /// Who owns the objects of a new bucket that does not say.
    pub ownership: Ownership,
    /// Which public access a new bucket refuses.
    pub public_access: Option<PublicAccessBlock>,
    /// The longest key.
    pub key_bytes: usize,
    /// Names and values of the user's metadata of one object, together.
    pub metadata_bytes: usize,
    /// Tags of one object.
    pub object_tags: usize,
    /// Tags of one bucket.
    pub bucket_tags: usize,
    /// Bytes of a bucket's policy.
    pub policy_bytes: usize,
    /// Rules of a lifecycle configuration.
    pub lifecycle_rules: usize,
    /// Rules of a CORS configuration.
    pub cors_rules: usize,
    /// The largest object, or part, whose bytes are in the index.
    pub inline_bytes: u64,
    /// The largest block.
    pub block_bytes: u32,
    /// The largest object of one put, and the largest part.
    pub put_bytes: u64,
    /// The smallest part that is not the last.
    pub part_bytes_min: u64,
    /// The greatest number of a part.
    pub parts: u32,
    /// The largest object of parts.
    pub object_bytes: u64,
    /// Keys of one request that deletes several.
    pub delete_keys: usize,
    /// Entries of one page of a list.
    pub page_entries: usize,
    /// Blocks that one read names.
    pub read_blocks: usize,
    /// What a day of a lifecycle rule is.
    pub day_ms: u64,
    /// How long the upkeep of a deleted bucket waits between two looks at its garbage.
    pub garbage_look_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            buckets_per_account: 10_000,
            ownership: Ownership::BucketOwnerEnforced,
            public_access: Some(PublicAccessBlock::default()),
            key_bytes: 1024,
            metadata_bytes: 2048,
            object_tags: 10,
            bucket_tags: 50,
            policy_bytes: 20_480,
            lifecycle_rules: 1000,
            cors_rules: 100,
            inline_bytes: 16 << 10,
            block_bytes: 4 << 20,
            put_bytes: 5 << 30,
            part_bytes_min: 5 << 20,
            parts: 10_000,
            object_bytes: 5 << 40,
            delete_keys: 1000,
            page_entries: 1000,
            read_blocks: 64,
            day_ms: 86_400_000,
            garbage_look_ms: 60_000,
        }
    }
}
