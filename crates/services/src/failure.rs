//! Why nothing came of a request that a node handed to a service of its own, or to another node.

use fader_chain::{DecodeError, Reader};

use crate::forward::wire::Wire;
use crate::service::Meaning;
use crate::{Reason, ViewError};

/// What stands behind the sentence of a reason where a write may have taken effect.
const UNSURE: &str = "; it is not known whether the write took effect";

/// Why a request is not carried out now. `Display` is a sentence for people, without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Why.
    pub reason: Reason,
    /// Whether a write may have taken effect, and the reason does not say so itself.
    pub is_unsure: bool,
    /// What is shown in place of the reason's sentence: of the store what it said itself.
    pub detail: Option<Box<str>>,
}

impl Unavailable {
    /// What is known of it where an older process sent its sentence alone.
    fn of_words(reason: Reason, words: &str) -> Self {
        let sentence = reason.sentence();
        let (is_unsure, rest) = match words.strip_suffix(UNSURE) {
            Some(rest) if words != sentence => (true, rest),
            _ => (false, words),
        };
        Unavailable {
            reason,
            is_unsure,
            detail: (rest != sentence).then(|| rest.into()),
        }
    }
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sentence = self.reason.sentence();
        f.write_str(self.detail.as_deref().unwrap_or(sentence))?;
        f.write_str(if self.is_unsure { UNSURE } else { "" })
    }
}

impl From<Reason> for Unavailable {
    fn from(reason: Reason) -> Self {
        Unavailable {
            reason,
            is_unsure: false,
            detail: None,
        }
    }
}

/// Why nothing came of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No member answers now. The same may be asked again.
    #[error("{0}")]
    Later(Unavailable),
    /// The store could not be read.
    #[error(transparent)]
    Unreadable(#[from] ViewError),
}

impl Failure {
    /// What a process of an older version told in words alone. It is an outage where a reason's
    /// sentence stands in them, else a failure of the store.
    pub fn of_words(words: String) -> Self {
        match Reason::of(&words) {
            Reason::Store => Failure::Unreadable(ViewError::Told { words }),
            reason => Failure::Later(Unavailable::of_words(reason, &words)),
        }
    }

    /// The reason by which the request is refused.
    pub fn reason(&self) -> Reason {
        match self {
            Failure::Later(why) => why.reason,
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
        Failure::Later(reason.into())
    }
}

impl From<Unavailable> for Failure {
    fn from(why: Unavailable) -> Self {
        Failure::Later(why)
    }
}

/// In a cluster below version 7 it is told in words alone; see `forward::coded` for the others.
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

    /// What a process of an older cluster makes of it.
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
        let full = Failure::Later(Unavailable {
            detail: Some("no space left on device".into()),
            ..Reason::Store.into()
        });
        assert_eq!(full.meaning(), Meaning::Unreadable);
        assert_eq!(told(&full).meaning(), Meaning::Unreadable);
    }

    #[test]
    fn words_of_an_older_process_say_whether_a_write_may_have_taken_effect() {
        let unsure = Failure::Later(Unavailable {
            is_unsure: true,
            ..Reason::Unconfirmed.into()
        });
        let words = "too few members confirmed it in time; it is not known whether the write took \
                     effect";
        assert_eq!(unsure.to_string(), words);
        assert_eq!(told(&unsure), unsure);
        let more = Failure::of_words("the node is stopping for an upgrade".to_owned());
        let Failure::Later(why) = &more else {
            panic!("{more:?}");
        };
        assert_eq!((why.reason, why.is_unsure), (Reason::Stopping, false));
        assert_eq!(more.to_string(), "the node is stopping for an upgrade");
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
