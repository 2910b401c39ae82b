//! The rules that commands of a node itself keep, and what each says when it is broken.
//!
//! Deliberately absent: the rules of SimpleDB, SQS and S3, whose errors are AWS's.

use fader_chain::{DecodeError, Mode, Reader, RequestId};

use crate::Failure;
use crate::catalog::access_key::{ACCOUNT_SIZE, ID_SIZE_MAX, ID_SIZE_MIN, NOTE_SIZE_MAX};
use crate::forward::wire::Wire;
use crate::level::show_name;
use crate::service::{NAME_TOO_FAR, Trouble};

/// The rule that a command breaks: it can never be carried out as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rule {
    /// The shape of an access key's id.
    #[error(
        "an access key id has {ID_SIZE_MIN} to {ID_SIZE_MAX} characters of A-Z, a-z, 0-9, _, - \
         and ."
    )]
    KeyId,
    /// The shape of an account.
    #[error("an account has {ACCOUNT_SIZE} digits")]
    Account,
    /// The length of an access key's note.
    #[error("the note of an access key has at most {NOTE_SIZE_MAX} bytes")]
    Note,
    /// Members are left behind where a collection becomes strong, and nowhere else.
    #[error("only a change to strong leaves members behind")]
    Abandon,
    /// The level of a command.
    #[error("it is carried out strongly only")]
    StrongOnly,
    /// Commands are decided, not answered.
    #[error("a command was sent where only reads are answered")]
    ReadsOnly,
    /// The number of blocks of one command.
    #[error("too many blocks at once")]
    BlockCount,
    /// The collection has to be there.
    #[error("there is no such collection")]
    NoCollection,
    /// A name is one request's (XO-6).
    #[error("the request's name is that of another request")]
    NameTaken,
    /// Names rise in steps (XO-8).
    #[error("{NAME_TOO_FAR}")]
    NameTooFar,
    /// `r` and `w` are numbers of members.
    #[error("{} must be between 1 and {size}", if *.is_write { "w" } else { "r" })]
    Quorum {
        /// Whether it is `w`.
        is_write: bool,
        /// Members of the chain.
        size: usize,
    },
    /// A session is one account's.
    #[error("the session's token is not one of this account")]
    StrangeToken,
    /// A session goes on while its writes are there.
    #[error("the write {} is lost", show_name(.0))]
    Lost(RequestId),
    /// A session goes on while what it has seen is there.
    #[error("what this session has seen is lost")]
    Forgotten,
    /// The modes of a queue.
    #[error("{} cannot have the mode {mode}.", if *.is_fifo { "A FIFO queue" } else { "A queue" })]
    QueueMode {
        /// Whether it is a FIFO queue.
        is_fifo: bool,
        /// The mode that it cannot have.
        mode: Mode,
    },
    /// The modes of a bucket.
    #[error("A bucket cannot have the mode {0}.")]
    BucketMode(Mode),
    /// A bucket that keeps versions is strong.
    #[error("A bucket that keeps versions, or did, cannot have the mode mixed.")]
    BucketVersions,
    /// A sentence alone: of a process in a cluster below version 7, or of the catalog to a step.
    #[error("{0}")]
    Told(String),
    /// One of a newer process, by its name.
    #[error("it breaks the rule {0}, which this version of Fader does not know")]
    Newer(String),
}

impl Rule {
    /// The rule that a node found broken, or why it found nothing out.
    ///
    /// # Errors
    /// [`Failure`]: the request is not carried out now, or the store could not be read.
    pub(crate) fn of(trouble: Trouble) -> Result<Rule, Failure> {
        Ok(match trouble {
            Trouble::Unavailable(why) => return Err(why.into()),
            Trouble::Unreadable(error) => return Err(error.into()),
            Trouble::NoCollection => Rule::NoCollection,
            Trouble::NameTaken => Rule::NameTaken,
            Trouble::NameTooFar => Rule::NameTooFar,
            Trouble::Quorum { name, size, .. } => Rule::Quorum {
                is_write: name == "w",
                size,
            },
            Trouble::StrangeToken => Rule::StrangeToken,
            Trouble::Lost(name) => Rule::Lost(name),
            Trouble::Forgotten => Rule::Forgotten,
        })
    }

    /// What it is called between nodes.
    fn name(&self) -> &str {
        match self {
            Rule::KeyId => "key-id",
            Rule::Account => "account",
            Rule::Note => "note",
            Rule::Abandon => "abandon",
            Rule::StrongOnly => "strong-only",
            Rule::ReadsOnly => "reads-only",
            Rule::BlockCount => "block-count",
            Rule::NoCollection => "no-collection",
            Rule::NameTaken => "name-taken",
            Rule::NameTooFar => "name-too-far",
            Rule::Quorum { .. } => "quorum",
            Rule::StrangeToken => "strange-token",
            Rule::Lost(_) => "lost",
            Rule::Forgotten => "forgotten",
            Rule::QueueMode { .. } => "queue-mode",
            Rule::BucketMode(_) => "bucket-mode",
            Rule::BucketVersions => "bucket-versions",
            Rule::Told(_) => "told",
            Rule::Newer(name) => name,
        }
    }

    /// Its name and its arguments.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.name().to_owned().put(out);
        match self {
            Rule::Quorum { is_write, size } => {
                is_write.put(out);
                size.put(out);
            }
            Rule::Lost(name) => name.put(out),
            Rule::QueueMode { is_fifo, mode } => {
                is_fifo.put(out);
                mode.put(out);
            }
            Rule::BucketMode(mode) => mode.put(out),
            Rule::Told(words) => words.put(out),
            _ => {}
        }
    }

    /// Reads what `put` wrote. Of a rule that is not known its arguments are passed over.
    pub(crate) fn read(mut arguments: Reader) -> Result<Rule, DecodeError> {
        let reader = &mut arguments;
        let name = String::read(reader)?;
        let rule = match name.as_str() {
            "key-id" => Rule::KeyId,
            "account" => Rule::Account,
            "note" => Rule::Note,
            "abandon" => Rule::Abandon,
            "strong-only" => Rule::StrongOnly,
            "reads-only" => Rule::ReadsOnly,
            "block-count" => Rule::BlockCount,
            "no-collection" => Rule::NoCollection,
            "name-taken" => Rule::NameTaken,
            "name-too-far" => Rule::NameTooFar,
            "quorum" => Rule::Quorum {
                is_write: Wire::read(reader)?,
                size: Wire::read(reader)?,
            },
            "strange-token" => Rule::StrangeToken,
            "lost" => Rule::Lost(Wire::read(reader)?),
            "forgotten" => Rule::Forgotten,
            "queue-mode" => Rule::QueueMode {
                is_fifo: Wire::read(reader)?,
                mode: Wire::read(reader)?,
            },
            "bucket-mode" => Rule::BucketMode(Wire::read(reader)?),
            "bucket-versions" => Rule::BucketVersions,
            "told" => Rule::Told(Wire::read(reader)?),
            _ => return Ok(Rule::Newer(name)),
        };
        arguments.end()?;
        Ok(rule)
    }
}
