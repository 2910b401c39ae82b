//! A program of executables, as a job's register keeps it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fader_mapreduce::{Failure, Outcome, Program};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The name of such programs.
pub const PROGRAM: &str = "streaming";

/// Bytes of all files of a program together, at most: each worker reads them with the register.
pub const FILES_BYTES_MAX: usize = 512 << 10;

/// How a program is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// Lines, as Hadoop Streaming has them.
    #[default]
    Text,
    /// Frames of docs/reference/format/frames.md.
    Frames,
}

impl Io {
    fn is_text(&self) -> bool {
        *self == Io::Text
    }
}

/// A mapper and a reducer, with all that they need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streaming {
    /// The command of the mapper; none passes lines on.
    pub mapper: Option<String>,
    /// The command of the combiner; none passes pairs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combiner: Option<String>,
    /// The command of the reducer; none passes pairs on.
    pub reducer: Option<String>,
    /// How both are spoken to.
    #[serde(default, skip_serializing_if = "Io::is_text")]
    pub io: Io,
    /// Hadoop's configuration: what `-D` says, by today's names.
    pub configuration: BTreeMap<String, String>,
    /// Variables of the processes: what `-cmdenv` says.
    pub variables: BTreeMap<String, String>,
    /// The files in the folder of each process, by name.
    pub files: BTreeMap<String, File>,
}

/// A file that comes with a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// SHA-256 of its bytes, in hexadecimal digits.
    sha256: String,
    /// Its bytes in Base64.
    base64: String,
}

fn hash(bytes: &[u8]) -> String {
    const_hex::encode(Sha256::digest(bytes))
}

impl File {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        File {
            sha256: hash(bytes),
            base64: STANDARD.encode(bytes),
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// `Job`: they are damaged.
    pub(crate) fn bytes(&self, name: &str) -> Outcome<Vec<u8>> {
        let bytes = STANDARD.decode(&self.base64).ok();
        let whole = bytes.filter(|bytes| hash(bytes) == self.sha256);
        whole.ok_or_else(|| Failure::Job(format!("the job's file {name:?} is damaged")))
    }
}

impl Streaming {
    /// The program of a job.
    pub fn program(&self) -> Program {
        let text = serde_json::to_string(self);
        let text = text.expect("all keys of its maps are text");
        Program {
            name: PROGRAM.to_owned(),
            arguments: vec![text],
        }
    }

    /// What a job's program says.
    ///
    /// # Errors
    /// `Job`: it is none of ours, or damaged.
    pub fn of(program: &Program) -> Outcome<Self> {
        let [text] = &program.arguments[..] else {
            let words = "a streaming program comes from fader mapreduce streaming";
            return Err(Failure::Job(words.to_owned()));
        };
        let refused = |error| Failure::Job(format!("the job's program: {error}"));
        serde_json::from_str(text).map_err(refused)
    }
}
