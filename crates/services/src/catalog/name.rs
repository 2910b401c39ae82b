//! What collections are called.
//!
//! ```text
//! name := account:bytes  name:bytes  kind      kind: nothing of a domain; else kind:u8
//! ```

use fader_chain::{DecodeError, Reader, put_bytes};

use crate::Kind;
use crate::catalog::AccountId;
use crate::catalog::access_key::text;

/// What a collection is called, and by whom. Of a kind whose names are the cluster's, the account
/// is the one that asks: the name alone says which collection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// What it is.
    pub kind: Kind,
    /// Whose it is.
    pub account: &'a AccountId,
    /// Its name.
    pub name: &'a str,
}

impl<'a> Name<'a> {
    /// A name of this kind.
    pub fn new(kind: Kind, account: &'a AccountId, name: &'a str) -> Self {
        Name {
            kind,
            account,
            name,
        }
    }

    /// That of a domain.
    pub fn domain(account: &'a AccountId, name: &'a str) -> Self {
        Name::new(Kind::Domain, account, name)
    }

    /// The same, to keep.
    pub fn to_owned(self) -> NameBuf {
        NameBuf {
            kind: self.kind,
            account: self.account.clone(),
            name: self.name.to_owned(),
        }
    }

    /// Appends it to a value. Of a domain it is what version 3 of a cluster wrote.
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_bytes(out, self.account.0.as_bytes());
        put_bytes(out, self.name.as_bytes());
        if self.kind != Kind::Domain {
            out.push(self.kind.byte());
        }
    }
}

/// What a collection is called, to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameBuf {
    /// What it is.
    pub kind: Kind,
    /// Whose it is.
    pub account: AccountId,
    /// Its name.
    pub name: String,
}

impl NameBuf {
    /// The same, borrowed.
    pub fn name(&self) -> Name<'_> {
        Name::new(self.kind, &self.account, &self.name)
    }

    /// Reads what [`Name::put`] wrote, to the end of the value.
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let account = AccountId(text(reader.bytes()?, "the account of a collection")?);
        let name = text(reader.bytes()?, "the name of a collection")?;
        let kind = match reader.remaining() == 0 {
            true => Kind::Domain,
            false => read_kind(reader)?,
        };
        Ok(NameBuf {
            kind,
            account,
            name,
        })
    }
}

/// The kind of a collection.
pub(crate) fn read_kind(reader: &mut Reader) -> Result<Kind, DecodeError> {
    Kind::from_byte(reader.byte()?).ok_or_else(|| DecodeError::new("the kind of a collection"))
}

#[cfg(test)]
mod tests;
