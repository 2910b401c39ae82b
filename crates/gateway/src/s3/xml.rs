//! XML of S3: bodies of requests as a bounded tree, and replies without space between elements.
//!
//! Invariants:
//! - SXML-1 a tree has at most [`ELEMENTS_MAX`] elements, [`DEPTH_MAX`] inside each other: its
//!   memory is a small multiple of its text.
//! - SXML-2 entities are the five of XML and characters by number; a document type is refused.
//!
//! Deliberately absent: namespaces and attributes, but for the type of a grantee.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::s3::fault::{Fault, malformed_xml};

/// Elements inside elements.
const DEPTH_MAX: usize = 12;
/// Elements of one document: 10,000 parts with all their checksums.
const ELEMENTS_MAX: usize = 100_000;

/// One element: its own text and the elements in it, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    /// Its local name.
    pub(crate) name: String,
    /// The text directly in it.
    pub(crate) text: String,
    /// `xsi:type`.
    pub(crate) kind: Option<String>,
    /// The elements directly in it.
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// Reads a document whose root has this name.
    ///
    /// # Errors
    /// MalformedXML.
    pub(crate) fn parse(document: &[u8], root: &str) -> Result<Element, Fault> {
        let text = std::str::from_utf8(document).map_err(|_| malformed_xml())?;
        let element = read(text).ok_or_else(malformed_xml)?;
        match element.name == root {
            true => Ok(element),
            false => Err(malformed_xml()),
        }
    }

    /// The first element of that name directly in this one.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All elements of that name directly in this one.
    pub(crate) fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first element of that name directly in this one.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| &*child.text)
    }

    /// The same, which has to be there.
    pub(crate) fn need(&self, name: &str) -> Result<&str, Fault> {
        self.text_of(name).ok_or_else(malformed_xml)
    }

    /// The same, read as a number or a word.
    pub(crate) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Fault> {
        let text = self.text_of(name).map(str::trim);
        let parsed = text.map(|text| text.parse().map_err(|_| malformed_xml()));
        parsed.transpose()
    }
}

fn read(text: &str) -> Option<Element> {
    let mut reader = Reader::from_str(text);
    let mut open = vec![Element::default()];
    let mut count = 0;
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                count += 1;
                if DEPTH_MAX < open.len() || ELEMENTS_MAX < count {
                    return None;
                }
                open.push(opened(&start)?);
            }
            Event::Empty(start) => {
                count += 1;
                if ELEMENTS_MAX < count {
                    return None;
                }
                open.last_mut()?.children.push(opened(&start)?);
            }
            Event::End(_) => {
                let element = open.pop()?;
                open.last_mut()?.children.push(element);
            }
            Event::Text(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
            Event::CData(text) => open.last_mut()?.text.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => open.last_mut()?.text.push(resolve(&reference)?),
            Event::DocType(_) => return None,
            Event::Eof => break,
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
        }
    }
    let document = open.pop().filter(|_| open.is_empty())?;
    let is_blank = document.text.trim().is_empty();
    let [root] = <[Element; 1]>::try_from(document.children).ok()?;
    is_blank.then_some(root)
}

fn opened(start: &BytesStart<'_>) -> Option<Element> {
    let kind = start.try_get_attribute("xsi:type").ok()?;
    Some(Element {
        name: start.local_name().as_ref().to_owned(),
        kind: kind.map(|kind| kind.value.as_ref().to_owned()),
        ..Element::default()
    })
}

fn resolve(reference: &BytesRef<'_>) -> Option<char> {
    if let Some(character) = reference.resolve_char_ref().ok()? {
        return Some(character);
    }
    match &*reference.xml10_content() {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

/// A document that is being written.
pub(crate) struct Writer {
    out: String,
    open: Vec<&'static str>,
}

impl Writer {
    /// A document with this root, in S3's namespace.
    pub(crate) fn new(root: &'static str) -> Writer {
        let mut writer = Writer::bare(root);
        writer.out.pop();
        writer
            .out
            .push_str(" xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
        writer
    }

    /// A document with this root, in no namespace.
    pub(crate) fn bare(root: &'static str) -> Writer {
        let mut writer = Writer {
            out: String::with_capacity(1024),
            open: Vec::new(),
        };
        writer
            .out
            .push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        writer.begin(root);
        writer
    }

    /// Begins an element.
    pub(crate) fn begin(&mut self, name: &'static str) {
        self.out.push('<');
        self.out.push_str(name);
        self.out.push('>');
        self.open.push(name);
    }

    /// Begins an element with an attribute, whose value needs no escape.
    pub(crate) fn begin_with(&mut self, name: &'static str, attributes: &str) {
        self.begin(name);
        self.out.pop();
        self.out.push(' ');
        self.out.push_str(attributes);
        self.out.push('>');
    }

    /// Ends the element that was begun last.
    pub(crate) fn end(&mut self) {
        if let Some(name) = self.open.pop() {
            self.out.push_str("</");
            self.out.push_str(name);
            self.out.push('>');
        }
    }

    /// An element with a text.
    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        self.begin(name);
        self.inside(text);
        self.end();
    }

    /// Text in the element that was begun last.
    pub(crate) fn inside(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                // Parsers turn a plain one into a line feed; the others are as AWS shows them.
                control if control < ' ' && !matches!(control, '\t' | '\n') => {
                    self.out.push_str(&format!("&#{};", u32::from(control)));
                }
                other => self.out.push(other),
            }
        }
    }

    /// The same of what shows itself.
    pub(crate) fn show(&mut self, name: &'static str, value: impl std::fmt::Display) {
        self.text(name, &value.to_string());
    }

    /// The same where there is a value.
    pub(crate) fn some(&mut self, name: &'static str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.show(name, value);
        }
    }

    /// The document.
    pub(crate) fn done(mut self) -> Vec<u8> {
        while !self.open.is_empty() {
            self.end();
        }
        self.out.into_bytes()
    }
}

#[cfg(test)]
mod tests;
