//! Why nothing came of a request that a node handed to a service of its own, or to another node.

use fader_chain::{DecodeError, Reader};

use crate::forward::wire::Wire;
use crate::service::Meaning;
use crate::{Reason, ViewError};

/// Why nothing came of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No member answers now. The same may be asked again.
    #[error("{words}")]
    Later {
        /// Why.
        reason: Reason,
        /// The reason's sentence, with what is added to it; of the store its own words.
        words: String,
    },
    /// The store could not be read.
    #[error(transparent)]
    Unreadable(#[from] ViewError),
}

impl Failure {
    /// What was told in words alone: an outage where a reason's sentence stands in them, else a
    /// failure of the store.
    pub fn of_words(words: String) -> Self {
        match Reason::of(&words) {
            Reason::Store => Failure::Unreadable(ViewError::Told { words }),
            reason => Failure::Later { reason, words },
        }
    }

    /// The reason by which the request is refused.
    pub fn reason(&self) -> Reason {
        match self {
            Failure::Later { reason, .. } => *reason,
            Failure::Unreadable(_) => Reason::Store,
        }
    }

    /// What a node makes of it.
    pub(crate) fn meaning(&self) -> Meaning {
        match self.reason() {
            Reason::Store => Meaning::Unreadable,
            reason => Meaning::Later(reason),
        }
    }
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Failure::Later {
            reason,
            words: reason.sentence().to_owned(),
        }
    }
}

/// Nodes of every version tell it in words alone.
impl Wire for Failure {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_string().put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(Failure::of_words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What another process makes of it.
    fn told(failure: &Failure) -> Failure {
        let mut bytes = Vec::new();
        failure.put(&mut bytes);
        assert_eq!(bytes[1..], *failure.to_string().as_bytes(), "words alone");
        Failure::read(&mut Reader::new(bytes.into())).unwrap()
    }

    #[test]
    fn an_outage_keeps_its_reason_between_nodes() {
        for reason in Reason::ALL {
            let failure = Failure::from(reason);
            if reason != Reason::Store {
                assert_eq!(told(&failure), failure);
                assert_eq!(failure.meaning(), Meaning::Later(reason));
            }
        }
        let full = Failure::Later {
            reason: Reason::Store,
            words: "no space left on device".to_owned(),
        };
        assert_eq!(full.meaning(), Meaning::Unreadable);
        assert_eq!(told(&full).meaning(), Meaning::Unreadable);
    }

    #[test]
    fn a_store_that_cannot_be_read_is_told_in_its_words() {
        let failure = Failure::from(ViewError::BlockLost(7));
        let words = "the bytes of block 00000000000000000000000000000007 are damaged or missing";
        assert_eq!(failure.to_string(), words);
        let expected = Failure::Unreadable(ViewError::Told {
            words: words.to_owned(),
        });
        assert_eq!(told(&failure), expected);
        assert_eq!(expected.meaning(), failure.meaning());
    }
}
