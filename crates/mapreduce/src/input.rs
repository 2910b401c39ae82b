//! Input: where it is, and how its bytes are cut into records. Pure, but for the seam that opens
//! it.

mod cutter;
mod fields;
mod inflate;
mod pattern;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};

pub(crate) use cutter::Cutter;
pub(crate) use fields::Fields;
pub(crate) use inflate::{Compression, Inflater};
pub use pattern::Pattern;

/// Bytes of a record, at most.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// How an object is cut into records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A record is a line, up to its line feed.
    Lines,
    /// A record is a whole object.
    Whole,
    /// A line is a JSON object. A record has these of its fields, with a TAB between them; without
    /// fields it is the line.
    Json(Vec<String>),
    /// CSV with a header. A record has these of its columns, or all, with a TAB between them.
    Csv(Vec<String>),
    /// Parquet. A record is a row: these of its columns, or all, with a TAB between them.
    Parquet(Vec<String>),
}

impl Format {
    /// Whether an object of this name can be read in pieces.
    pub(crate) fn is_cut(&self, key: &str) -> bool {
        match self {
            Format::Lines | Format::Json(_) => Compression::of(key) == Compression::None,
            Format::Parquet(_) => true,
            Format::Whole | Format::Csv(_) => false,
        }
    }

    /// Whether the last record of a piece may end beyond it.
    pub(crate) fn reads_on(&self) -> bool {
        matches!(self, Format::Lines | Format::Json(_))
    }
}

/// Opens the folders and buckets of input, for reading.
#[async_trait]
pub trait Inputs: Debug + Send + Sync + 'static {
    /// The objects below a URL.
    ///
    /// # Errors
    /// As opening any cloud.
    async fn open(&self, base: &str) -> fader_cloud::Result<Arc<dyn ObjectStore>>;
}

#[cfg(test)]
mod tests;
