//! Calls that wait for the log's tail.

use futures_channel::oneshot;

use super::Machine;
use crate::error::{Error, Result, like};

/// Reads the state, or is told why there is none.
pub(super) type Reader<M> = Box<dyn FnOnce(Result<&M>) + Send>;

/// A call that waits for the log's tail, with the way to its caller.
pub(super) enum Ask<M: Machine> {
    Write(M::Write, oneshot::Sender<Result<()>>),
    Read(Reader<M>),
    Seal(oneshot::Sender<Result<()>>),
}

impl<M: Machine> std::fmt::Debug for Ask<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ask::Write(..) => "Write",
            Ask::Read(_) => "Read",
            Ask::Seal(_) => "Seal",
        })
    }
}

impl<M: Machine> Ask<M> {
    /// Answers with this error.
    pub(super) fn fail(self, error: &Error) {
        // The caller may have gone.
        let _ = match self {
            Ask::Write(_, reply) | Ask::Seal(reply) => reply.send(Err(like(error))).is_ok(),
            Ask::Read(read) => {
                read(Err(like(error)));
                true
            }
        };
    }
}
