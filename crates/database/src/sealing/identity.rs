//! Identities: key pairs, for which a collection's key is wrapped.

use std::fmt;

use fader_cloud::Entropy;
use serde::{Deserialize, Serialize};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::{KEY_BYTES, unhex};

/// The secret of one who may read and write encrypted collections. It is wiped from memory, and
/// never shown.
#[derive(Clone)]
pub struct Identity(pub(super) StaticSecret);

impl Identity {
    /// A new identity.
    pub fn new(entropy: &dyn Entropy) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        entropy.fill(&mut *bytes);
        Identity(StaticSecret::from(*bytes))
    }

    /// Its public part.
    pub fn public(&self) -> PublicIdentity {
        PublicIdentity(*PublicKey::from(&self.0).as_bytes())
    }

    /// The secret as text, to be kept where only its owner reads.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(const_hex::encode(self.0.as_bytes()))
    }

    /// The identity of [`Identity::reveal`]'s text; none for any other.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(unhex(text)?);
        Some(Identity(StaticSecret::from(*bytes)))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public())
    }
}

/// The public part of an identity: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicIdentity(pub(super) [u8; KEY_BYTES]);

impl fmt::Display for PublicIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&const_hex::encode(self.0))
    }
}

impl fmt::Debug for PublicIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<PublicIdentity> for String {
    fn from(identity: PublicIdentity) -> String {
        identity.to_string()
    }
}

impl TryFrom<String> for PublicIdentity {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for PublicIdentity {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let bytes = unhex(text).map(PublicIdentity);
        bytes.ok_or_else(|| format!("{text:?} is no identity: it has 64 hexadecimal digits"))
    }
}
