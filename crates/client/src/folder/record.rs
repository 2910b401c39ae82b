//! What is kept with each body, in extended attributes (docs/reference/format/folder.md).

use object_store::{Attribute, AttributeValue, Attributes};
use serde_json::{Map, Value};

use super::disk::Stat;

/// The record that has the ETag.
pub(super) const OBJECT: &str = "user.fader.object";
/// The record that has the attributes of the object, where it has any.
pub(super) const ATTRIBUTES: &str = "user.fader.attributes";

const VERSION: u8 = 1;
const OBJECT_BYTES: usize = 45;
/// With what the names of the user's own metadata begin.
const METADATA: &str = "metadata-";

/// The record of a body: its ETag's 128 bits, and which file it was written for.
///
/// A file that was changed by hand, or copied with its records, has another number, size or time
/// than the record says. The record does not count then.
pub(super) fn object(e_tag: u128, stat: &Stat) -> [u8; OBJECT_BYTES] {
    let mut record = [0; OBJECT_BYTES];
    record[0] = VERSION;
    record[1..17].copy_from_slice(&e_tag.to_be_bytes());
    record[17..].copy_from_slice(&identity(stat));
    record
}

fn identity(stat: &Stat) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..8].copy_from_slice(&stat.inode.to_be_bytes());
    bytes[8..16].copy_from_slice(&stat.size.to_be_bytes());
    bytes[16..24].copy_from_slice(&stat.modified.0.to_be_bytes());
    bytes[24..].copy_from_slice(&stat.modified.1.to_be_bytes());
    bytes
}

/// An ETag as objects show it.
pub(super) fn e_tag(number: u128) -> String {
    format!("\"{number:032x}\"")
}

/// The ETag of a file: its record's, or one that is made of what the file system says about it.
pub(super) fn e_tag_of(record: Option<&[u8]>, stat: &Stat) -> String {
    let number = record.and_then(|record| {
        let (head, of) = record.split_at_checked(17)?;
        let number = head.strip_prefix(&[VERSION])?.try_into().ok()?;
        (of == identity(stat)).then(|| u128::from_be_bytes(number))
    });
    number.map_or_else(
        || {
            let (modified, changed) = (stat.modified, stat.changed);
            format!(
                "\"file-{:x}-{:x}-{:x}.{:x}-{:x}.{:x}\"",
                stat.inode, stat.size, modified.0, modified.1, changed.0, changed.1
            )
        },
        e_tag,
    )
}

/// The record of an object's attributes; none when it has none.
pub(super) fn attributes(attributes: &Attributes) -> Option<Vec<u8>> {
    if attributes.is_empty() {
        return None;
    }
    let fields = attributes.iter().filter_map(|(name, value)| {
        let name = match name {
            Attribute::ContentDisposition => "content-disposition".to_owned(),
            Attribute::ContentEncoding => "content-encoding".to_owned(),
            Attribute::ContentLanguage => "content-language".to_owned(),
            Attribute::ContentType => "content-type".to_owned(),
            Attribute::CacheControl => "cache-control".to_owned(),
            Attribute::StorageClass => "storage-class".to_owned(),
            Attribute::Metadata(name) => format!("{METADATA}{name}"),
            _ => return None,
        };
        Some((name, Value::String(value.as_ref().to_owned())))
    });
    let fields: Map<String, Value> = fields.collect();
    Some(Value::Object(fields).to_string().into_bytes())
}

/// The attributes of a record; `None` when it is damaged.
pub(super) fn read_attributes(record: &[u8]) -> Option<Attributes> {
    let fields: Map<String, Value> = serde_json::from_slice(record).ok()?;
    let pairs = fields.into_iter().map(|(name, value)| {
        let Value::String(value) = value else {
            return None;
        };
        let name = match name.as_str() {
            "content-disposition" => Attribute::ContentDisposition,
            "content-encoding" => Attribute::ContentEncoding,
            "content-language" => Attribute::ContentLanguage,
            "content-type" => Attribute::ContentType,
            "cache-control" => Attribute::CacheControl,
            "storage-class" => Attribute::StorageClass,
            name => Attribute::Metadata(name.strip_prefix(METADATA)?.to_owned().into()),
        };
        Some((name, AttributeValue::from(value)))
    });
    pairs.collect()
}
