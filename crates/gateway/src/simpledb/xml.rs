//! Replies and refusals as SimpleDB's XML, byte for byte: no white space between elements.
//!
//! A name or value that XML 1.0 cannot carry (control characters, noncharacters) is shown whole in
//! base64 with `encoding="base64"`. A carriage return is a character reference, since parsers turn
//! a plain one into a line feed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fader_services::simpledb::{
    Attribute, CostedReply, DomainMetadata, Error, Item, PageToken, Reply,
};

use crate::simpledb::{Action, Version};

/// What a reply of everything but attributes takes at most, and most of those.
const REPLY_BYTES: usize = 512;

/// The XML of a reply.
pub(crate) fn reply(
    version: Version,
    action: Action,
    answered: &CostedReply,
    request_id: &str,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(REPLY_BYTES + content_bytes(&answered.reply));
    let name = action.name();
    push(
        &mut out,
        &["<?xml version=\"1.0\"?>\n<", name, "Response xmlns=\""],
    );
    push(&mut out, &[version.namespace(), "\">"]);
    if !matches!(answered.reply, Reply::Done) {
        push(&mut out, &["<", name, "Result>"]);
        result(&mut out, &answered.reply);
        push(&mut out, &["</", name, "Result>"]);
    }
    push(
        &mut out,
        &[
            "<ResponseMetadata><RequestId>",
            request_id,
            "</RequestId><BoxUsage>",
        ],
    );
    display(&mut out, answered.box_usage);
    push(
        &mut out,
        &["</BoxUsage></ResponseMetadata></", name, "Response>"],
    );
    out
}

/// The XML of a refusal. Box usage is shown when there is some, as AWS does.
pub(crate) fn error(error: &Error, request_id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(REPLY_BYTES + error.message.len());
    let code = error.code.name();
    push(
        &mut out,
        &[
            "<?xml version=\"1.0\"?>\n<Response><Errors><Error><Code>",
            &code,
        ],
    );
    push(&mut out, &["</Code><Message>"]);
    message(&mut out, &error.message);
    push(&mut out, &["</Message>"]);
    if error.box_usage.0 > 0 {
        push(&mut out, &["<BoxUsage>"]);
        display(&mut out, error.box_usage);
        push(&mut out, &["</BoxUsage>"]);
    }
    push(
        &mut out,
        &[
            "</Error></Errors><RequestID>",
            request_id,
            "</RequestID></Response>",
        ],
    );
    out
}

fn result(out: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::Done => {}
        Reply::Domains { names, next_token } => {
            for name in names {
                // A domain's name has no character that needs an encoding.
                element(out, "DomainName", name.as_bytes());
            }
            token(out, next_token.as_ref());
        }
        Reply::Metadata(figures) => metadata(out, figures),
        Reply::Attributes(attributes) => {
            for attribute in attributes {
                pair(out, attribute);
            }
        }
        Reply::Items { items, next_token } => {
            for item in items {
                items_item(out, item);
            }
            token(out, next_token.as_ref());
        }
        Reply::ItemNames { names, next_token } => {
            for name in names {
                element(out, "ItemName", name);
            }
            token(out, next_token.as_ref());
        }
        Reply::Plan(lines) => {
            for line in lines {
                element(out, "Line", line.as_bytes());
            }
        }
    }
}

fn items_item(out: &mut Vec<u8>, item: &Item) {
    push(out, &["<Item>"]);
    element(out, "Name", &item.name);
    for attribute in &item.attributes {
        pair(out, attribute);
    }
    push(out, &["</Item>"]);
}

fn pair(out: &mut Vec<u8>, attribute: &Attribute) {
    push(out, &["<Attribute>"]);
    element(out, "Name", &attribute.name);
    element(out, "Value", &attribute.value);
    push(out, &["</Attribute>"]);
}

fn metadata(out: &mut Vec<u8>, figures: &DomainMetadata) {
    for (name, figure) in [
        ("ItemCount", figures.item_count),
        ("ItemNamesSizeBytes", figures.item_names_bytes),
        ("AttributeNameCount", figures.attribute_name_count),
        ("AttributeNamesSizeBytes", figures.attribute_names_bytes),
        ("AttributeValueCount", figures.attribute_value_count),
        ("AttributeValuesSizeBytes", figures.attribute_values_bytes),
        ("Timestamp", figures.timestamp_s),
    ] {
        push(out, &["<", name, ">"]);
        display(out, figure);
        push(out, &["</", name, ">"]);
    }
}

fn token(out: &mut Vec<u8>, token: Option<&PageToken>) {
    if let Some(PageToken(bytes)) = token {
        push(out, &["<NextToken>", &BASE64.encode(bytes), "</NextToken>"]);
    }
}

/// An element of text, in base64 when XML cannot carry it.
fn element(out: &mut Vec<u8>, name: &str, text: &[u8]) {
    push(out, &["<", name]);
    match std::str::from_utf8(text) {
        Ok(text) if is_plain(text) => push(out, &[">", text]),
        Ok(text) if text.chars().all(is_carried) => {
            push(out, &[">"]);
            escape(out, text);
        }
        _ => push(out, &[" encoding=\"base64\">", &BASE64.encode(text)]),
    }
    push(out, &["</", name, ">"]);
}

/// A message. It has no encoding of its own, so that what XML cannot carry becomes U+FFFD.
fn message(out: &mut Vec<u8>, text: &str) {
    if text.chars().all(is_carried) {
        escape(out, text);
    } else {
        let carried: String = text
            .chars()
            .map(|c| if is_carried(c) { c } else { '\u{FFFD}' })
            .collect();
        escape(out, &carried);
    }
}

fn escape(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'\r' => out.extend_from_slice(b"&#xD;"),
            plain => out.push(plain),
        }
    }
}

/// Whether all of it is printable ASCII that needs no thought. Without an early end, so that many
/// bytes are compared at once.
fn is_plain(text: &str) -> bool {
    let is_plain = |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'<' | b'>');
    text.bytes().fold(true, |all, byte| all & is_plain(byte))
}

/// Whether XML carries the character: neither among XML 1.1's restricted ones, which confuse
/// parsers of 1.0 or are forbidden there, nor a noncharacter.
fn is_carried(character: char) -> bool {
    !matches!(
        u32::from(character),
        0x0..=0x8 | 0xB..=0xC | 0xE..=0x1F | 0x7F..=0x84 | 0x86..=0x9F | 0xFDD0..=0xFDEF
    ) && u32::from(character) & 0xFFFE != 0xFFFE
}

/// An estimate of what names and values take, so that one allocation does.
fn content_bytes(reply: &Reply) -> usize {
    const TAGS: usize = 64;
    let of_attributes = |attributes: &[Attribute]| -> usize {
        attributes
            .iter()
            .map(|a| a.name.len() + a.value.len() + TAGS)
            .sum()
    };
    match reply {
        Reply::Done | Reply::Metadata(_) => 0,
        Reply::Domains { names, .. } => names.iter().map(|name| name.len() + TAGS).sum(),
        Reply::Attributes(attributes) => of_attributes(attributes),
        Reply::Items { items, .. } => items
            .iter()
            .map(|item| item.name.len() + TAGS + of_attributes(&item.attributes))
            .sum(),
        Reply::ItemNames { names, .. } => names.iter().map(|name| name.len() + TAGS).sum(),
        Reply::Plan(lines) => lines.iter().map(|line| line.len() + TAGS).sum(),
    }
}

fn push(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

fn display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    use std::io::Write as _;
    write!(out, "{value}").expect("a Vec takes every byte");
}

#[cfg(test)]
mod tests;
