//! Access keys in the system collection.
//!
//! ```text
//! key   := 'k' id
//! value := version:u8=2  account:bytes  status:u8  created_ms:varint
//!          sealed_secret:bytes  note:bytes  preference:bytes (as text; empty: none)
//! status := 0 disabled, 1 active; 2 more of a key with granted rights only
//! ```
//!
//! A process that does not know such keys refuses them: their status means nothing to it.
//!
//! Version 1 ends with the note: no preference.

use bytes::Bytes;
use fader_chain::{Change, DecodeError, Reader, put_bytes, put_varint};

use crate::catalog::{AccessKey, AccountId, KeyStatus, Refusal, Rights};
use crate::level::DefaultConsistency;
use crate::{Direction, KeyBuilder, Rule, SYSTEM, Table, View, ViewError};

const VERSION: u8 = 2;
const VERSION_WITHOUT_PREFERENCE: u8 = 1;
pub(crate) const ID_SIZE_MIN: usize = 3;
pub(crate) const ID_SIZE_MAX: usize = 128;
pub(crate) const ACCOUNT_SIZE: usize = 12;
pub(crate) const NOTE_SIZE_MAX: usize = 256;

/// The access key with this id.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn key(view: &dyn View, id: &str) -> Result<Option<AccessKey>, ViewError> {
    let value = view.get(&stored_key(id))?;
    value
        .map(|value| decode(id.to_owned(), value).map_err(ViewError::from))
        .transpose()
}

/// All access keys, by id.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn keys(view: &dyn View) -> Result<Vec<AccessKey>, ViewError> {
    let prefix = KeyBuilder::new(SYSTEM, Table::AccessKeys);
    let (start, end) = (prefix.clone().build(), prefix.build_end());
    view.scan(&start, &end, Direction::Forward)
        .map(|pair| {
            let (key, value) = pair?;
            let id = text(key.slice(start.len()..), "an access key's id")?;
            Ok(decode(id, value)?)
        })
        .collect()
}

pub(super) fn create(view: &dyn View, new: &AccessKey) -> Result<Vec<Change>, Refusal> {
    validate(new)?;
    match key(view, &new.id)? {
        Some(old) if old == *new => Ok(Vec::new()),
        Some(_) => Err(Refusal::KeyExists(new.id.clone())),
        None => Ok(vec![put(new)]),
    }
}

pub(super) fn set_status(
    view: &dyn View,
    id: &str,
    status: KeyStatus,
) -> Result<Vec<Change>, Refusal> {
    let old = key(view, id)?.ok_or_else(|| Refusal::NoSuchKey(id.to_owned()))?;
    if old.status == status {
        return Ok(Vec::new());
    }
    Ok(vec![put(&AccessKey { status, ..old })])
}

pub(super) fn set_preference(
    view: &dyn View,
    id: &str,
    preference: Option<DefaultConsistency>,
) -> Result<Vec<Change>, Refusal> {
    let old = key(view, id)?.ok_or_else(|| Refusal::NoSuchKey(id.to_owned()))?;
    if old.preference == preference {
        return Ok(Vec::new());
    }
    Ok(vec![put(&AccessKey { preference, ..old })])
}

pub(super) fn rotate(
    view: &dyn View,
    id: &str,
    replacement: &AccessKey,
) -> Result<Vec<Change>, Refusal> {
    let old = key(view, id)?.ok_or_else(|| Refusal::NoSuchKey(id.to_owned()))?;
    if replacement.id == id {
        return Err(Refusal::KeyExists(id.to_owned()));
    }
    let mut changes = create(
        view,
        &AccessKey {
            account: old.account,
            preference: old.preference,
            rights: old.rights,
            ..replacement.clone()
        },
    )?;
    changes.extend(set_status(view, id, KeyStatus::Disabled)?);
    Ok(changes)
}

fn validate(key: &AccessKey) -> Result<(), Refusal> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !(ID_SIZE_MIN..=ID_SIZE_MAX).contains(&key.id.len()) || !key.id.bytes().all(is_word) {
        return Err(Rule::KeyId.into());
    }
    let account = &key.account.0;
    if account.len() != ACCOUNT_SIZE || !account.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Rule::Account.into());
    }
    if NOTE_SIZE_MAX < key.note.len() {
        return Err(Rule::Note.into());
    }
    Ok(())
}

fn stored_key(id: &str) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::AccessKeys)
        .raw(id.as_bytes())
        .build()
}

fn put(key: &AccessKey) -> Change {
    let mut value = Vec::with_capacity(64 + key.sealed_secret.len() + key.note.len());
    value.push(VERSION);
    put_bytes(&mut value, key.account.0.as_bytes());
    value.push(u8::from(key.status == KeyStatus::Active) + rights_byte(key.rights));
    put_varint(&mut value, key.created_ms);
    put_bytes(&mut value, &key.sealed_secret);
    put_bytes(&mut value, key.note.as_bytes());
    let preference = key.preference.map(|preference| preference.to_string());
    put_bytes(&mut value, preference.unwrap_or_default().as_bytes());
    Change::Put {
        key: stored_key(&key.id),
        value: Bytes::from(value),
    }
}

fn decode(id: String, value: Bytes) -> Result<AccessKey, DecodeError> {
    let mut reader = Reader::new(value);
    let version = reader.byte()?;
    if !(VERSION_WITHOUT_PREFERENCE..=VERSION).contains(&version) {
        return Err(DecodeError::new("an access key's version"));
    }
    let account = AccountId(text(reader.bytes()?, "an access key's account")?);
    let (status, rights) = match reader.byte()? {
        0 => (KeyStatus::Disabled, Rights::All),
        1 => (KeyStatus::Active, Rights::All),
        2 => (KeyStatus::Disabled, Rights::Granted),
        3 => (KeyStatus::Active, Rights::Granted),
        _ => return Err(DecodeError::new("an access key's status")),
    };
    let created_ms = reader.varint()?;
    let sealed_secret = reader.bytes()?;
    let note = text(reader.bytes()?, "an access key's note")?;
    let preference = match version {
        VERSION_WITHOUT_PREFERENCE => None,
        _ => decode_preference(reader.bytes()?)?,
    };
    reader.end()?;
    Ok(AccessKey {
        id,
        account,
        sealed_secret,
        status,
        created_ms,
        note,
        preference,
        rights,
    })
}

/// What the rights add to the byte of a status.
pub(crate) fn rights_byte(rights: Rights) -> u8 {
    match rights {
        Rights::All => 0,
        Rights::Granted => 2,
    }
}

/// A preference as text; none when empty.
pub(super) fn decode_preference(bytes: Bytes) -> Result<Option<DefaultConsistency>, DecodeError> {
    const WHAT: &str = "a preference";
    match text(bytes, WHAT)?.as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| DecodeError::new(WHAT)),
    }
}

/// A text.
pub(super) fn text(bytes: Bytes, what: &'static str) -> Result<String, DecodeError> {
    String::from_utf8(bytes.into()).map_err(|_| DecodeError::new(what))
}
