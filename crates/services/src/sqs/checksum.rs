//! What SDKs verify: MD5 of bodies and attributes; and the hash of a body for deduplication.
//!
//! ```text
//! attributes := each, by name: text(name) text(type) kind:u8 value:bytes
//! text       := size:u32be bytes        kind := 1 a text or number, 2 binary
//! ```

use md5_many::{Md5Many, Md5State};
use sha2::{Digest as _, Sha256};

use crate::sqs::command::{Attribute, Value};

/// The MD5 of a body.
pub(crate) fn of_body(body: &str) -> u128 {
    u128::from_be_bytes(md5_many::md5(body.as_bytes()))
}

/// The MD5s of bodies, computed side by side: those of ten take the time of two.
pub(crate) fn of_bodies<'a>(bodies: impl Iterator<Item = &'a str>) -> Vec<u128> {
    let bodies: Vec<&[u8]> = bodies.map(str::as_bytes).collect();
    let mut sums = vec![[0; 16]; bodies.len()];
    Md5Many::new().hash_many(&bodies, &mut sums);
    sums.into_iter().map(u128::from_be_bytes).collect()
}

/// The MD5 of attributes; none where there are none.
pub(crate) fn of_attributes(attributes: &[Attribute]) -> Option<u128> {
    if attributes.is_empty() {
        return None;
    }
    let mut sorted: Vec<&Attribute> = attributes.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut hash = Md5State::new();
    for attribute in sorted {
        add(&mut hash, attribute.name.as_bytes());
        add(&mut hash, attribute.data_type.as_bytes());
        match &attribute.value {
            Value::Text(text) => {
                hash.update(&[1]);
                add(&mut hash, text.as_bytes());
            }
            Value::Binary(bytes) => {
                hash.update(&[2]);
                add(&mut hash, bytes);
            }
            // Neither is ever sent.
            Value::Missing | Value::List => {}
        }
    }
    Some(u128::from_be_bytes(hash.finalize()))
}

fn add(hash: &mut Md5State, bytes: &[u8]) {
    let size = u32::try_from(bytes.len()).expect("a message has less than 4 GiB");
    hash.update(&size.to_be_bytes());
    hash.update(bytes);
}

/// The deduplication id of a body: its SHA-256 in hexadecimal.
pub(crate) fn deduplication_id(body: &str) -> String {
    const_hex::encode(Sha256::digest(body.as_bytes()))
}
