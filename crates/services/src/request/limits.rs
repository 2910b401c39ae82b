//! The limits of all services.

use crate::{blocks, exports, s3, simpledb, sqs};

/// The limits of all services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// SimpleDB's.
    pub simpledb: simpledb::Limits,
    /// SQS's.
    pub sqs: sqs::Limits,
    /// S3's.
    pub s3: s3::Limits,
    /// Those of blocks of objects.
    pub blocks: blocks::Limits,
    /// Those of exports of domains.
    pub exports: exports::Limits,
}

impl Limits {
    /// The most bytes of a body that lie in a row instead of blocks.
    pub fn inline_bytes(&self) -> usize {
        usize::try_from(self.s3.inline_bytes).unwrap_or(usize::MAX)
    }

    /// The most bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.s3.block_bytes as usize
    }
}
