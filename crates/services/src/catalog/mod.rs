//! The system collection: accounts, their access keys, and the names of their collections.
//!
//! All that needs randomness, sealing or a clock (key ids, sealed secrets, times) arrives in the
//! command. So a decision is the same at every place where it is made.

pub(crate) mod access_key;
mod domains;
mod modes;
mod name;
mod placement;
mod purge;
mod seam;

pub(crate) use access_key::rights_byte;
pub use access_key::{key, keys};
pub(crate) use domains::{
    buried, collections, count, create, delete, domain_count, domain_names, garbage, ids, kept,
    names, number, put_number, unname,
};
pub use domains::{collection, domain, domain_key, name_key, owner};
#[cfg(test)]
pub(crate) use modes::set as set_mode;
pub use modes::{DrainingDomain, close_collection, draining};
pub(crate) use name::read_kind;
pub use name::{Name, NameBuf};
pub use placement::{DomainPlacement, PendingSaga, State, located, placed, unfinished};
pub(crate) use placement::{condemn, end, enter, found, free, raze, settle};
pub use purge::purge;
pub use seam::{Catalog, Done};

use bytes::Bytes;

use crate::level::DefaultConsistency;
use crate::{
    CollectionId, Decision, ErrorCode, Failure, Kind, Mode, Rule, Unavailable, View, ViewError,
};

/// Who owns domains. Twelve decimal digits, as AWS's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub String);

impl AccountId {
    /// Whether a text is an account of AWS: twelve digits.
    pub fn is_valid(text: &str) -> bool {
        text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The account in names of requests, above 0. No two accounts have the same, and none has that
    /// of what a node asks for itself, 0.
    pub fn number(&self) -> u64 {
        self.0
            .parse()
            .map_or(0, |number: u64| number.saturating_add(1))
    }
}

/// Whether an access key opens anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    /// Requests signed with it are served.
    Active,
    /// Requests signed with it are refused.
    Disabled,
}

/// What an access key may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// Everything that its account may.
    #[default]
    All,
    /// What the policies of resources give to it by its name, and nothing else.
    Granted,
}

/// What an access key is created as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyNature {
    /// The level of its requests that name none.
    pub preference: Option<DefaultConsistency>,
    /// What it may do.
    pub rights: Rights,
}

/// An access key at rest. `Debug` shows no secret: the secret is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKey {
    /// The public id, such as `AKIA…`; 3 to 128 characters of `[A-Za-z0-9_.-]`.
    pub id: String,
    /// Whose requests it signs.
    pub account: AccountId,
    /// The secret, sealed by the node (`node::seal`), bound to the key's id.
    pub sealed_secret: Bytes,
    /// Whether it works.
    pub status: KeyStatus,
    /// Milliseconds since 1970 when it was created.
    pub created_ms: u64,
    /// What its creator wrote beside it; at most 256 bytes.
    pub note: String,
    /// The level of its requests that name none.
    pub preference: Option<DefaultConsistency>,
    /// What it may do.
    pub rights: Rights,
}

/// What changes the catalog.
#[derive(Clone, Debug)]
pub enum Command {
    /// Creates the key, and its account if new. The same id again with other content: `KeyExists`.
    CreateKey(AccessKey),
    /// Sets the status of a key.
    SetKeyStatus {
        /// The key's id.
        id: String,
        /// The new status.
        status: KeyStatus,
    },
    /// Sets what the requests of a key prefer.
    SetKeyPreference {
        /// The key's id.
        id: String,
        /// The new preference.
        preference: Option<DefaultConsistency>,
    },
    /// In one step: creates `replacement` for the account of `id`, and disables `id`.
    RotateKey {
        /// The key that stops working.
        id: String,
        /// The key that takes its place; account and preference are taken from the old one.
        replacement: AccessKey,
    },
    /// Gives a collection another mode, or begins to.
    SetMode {
        /// What it is called.
        name: NameBuf,
        /// The mode.
        mode: Mode,
        /// Of a collection that is to be strong: whether absent members are left behind. The
        /// eventual writes of it that only they have are left behind with them.
        abandon: bool,
    },
    /// Changes nothing. Its answer says that the chain serves, and that all that was acknowledged
    /// before is applied where it is answered.
    Confirm,
}

impl Command {
    /// The ids of the access keys that it changes.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
            Command::CreateKey(key) => (Some(&key.id), None),
            Command::SetKeyStatus { id, .. } | Command::SetKeyPreference { id, .. } => {
                (Some(id), None)
            }
            Command::RotateKey { id, replacement } => (Some(id), Some(&replacement.id)),
            Command::SetMode { .. } | Command::Confirm => (None, None),
        };
        one.into_iter().chain(other).map(String::as_str)
    }

    /// The kind of collections that it is about; of keys that of the oldest.
    pub fn kind(&self) -> Kind {
        match self {
            Command::SetMode { name, .. } => name.kind,
            _ => Kind::Domain,
        }
    }
}

/// Why the catalog refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such key.
    #[error("there is no access key {0}")]
    NoSuchKey(String),
    /// No such domain.
    #[error("there is no domain {0}")]
    NoSuchDomain(String),
    /// The id is taken.
    #[error("access key {0} exists already")]
    KeyExists(String),
    /// It breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Rule),
    /// No member answers now, and why. The same may be asked again.
    #[error("{0}")]
    Unavailable(Unavailable),
    /// The store failed.
    #[error(transparent)]
    View(#[from] ViewError),
}

impl Refusal {
    /// Which failure.
    pub fn code(&self) -> ErrorCode {
        match self {
            Refusal::NoSuchKey(_) | Refusal::NoSuchDomain(_) => ErrorCode::NotFound,
            Refusal::KeyExists(_) => ErrorCode::AlreadyExists,
            Refusal::Invalid(_) => ErrorCode::CallInvalid,
            Refusal::Unavailable(why) => ErrorCode::Refused(why.reason),
            Refusal::View(_) => ErrorCode::StoreUnreadable,
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Later(why) => Refusal::Unavailable(why),
            Failure::Unreadable(error) => Refusal::View(error),
        }
    }
}

/// Decides a command on the newest state of the system collection.
///
/// A command that was carried out already changes nothing and succeeds, so it may be sent again.
pub fn decide(view: &dyn View, command: &Command) -> Decision<Result<(), Refusal>> {
    let changes = match command {
        Command::CreateKey(key) => access_key::create(view, key),
        Command::SetKeyStatus { id, status } => access_key::set_status(view, id, *status),
        Command::SetKeyPreference { id, preference } => {
            access_key::set_preference(view, id, *preference)
        }
        Command::RotateKey { id, replacement } => access_key::rotate(view, id, replacement),
        Command::SetMode {
            name,
            mode,
            abandon,
        } => modes::set(view, name.name(), *mode, *abandon),
        Command::Confirm => Ok(Vec::new()),
    };
    let (outcome, changes) = match changes {
        Ok(changes) => (Ok(()), changes),
        Err(refusal) => (Err(refusal), Vec::new()),
    };
    Decision { outcome, changes }
}

/// What the catalog knows of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainEntry {
    /// The domain's collection.
    pub collection: CollectionId,
    /// Its mode.
    pub mode: Mode,
    /// What it prefers, where neither a request nor its access key names a level.
    pub preference: Option<DefaultConsistency>,
}

impl DomainEntry {
    /// That of a collection which is strong, and prefers nothing.
    pub(crate) fn strong(collection: CollectionId) -> Self {
        DomainEntry {
            collection,
            mode: Mode::Strong,
            preference: None,
        }
    }
}

#[cfg(test)]
mod tests;
