//! A reply's XML as a tree.
//!
//! Invariants:
//! - CXML-1 no deeper than [`DEPTH_MAX`]; no larger than the reply it was read from.
//! - CXML-2 text with `encoding="base64"` is decoded.
//!
//! Deliberately absent: document types (refused: they define entities), namespaces, attributes
//! other than `encoding`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::error::Error;

/// Elements inside elements: a Select reply has six levels.
const DEPTH_MAX: usize = 16;

/// One element: its own text and the elements in it, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its local name.
    pub name: String,
    /// The text directly in it.
    pub text: String,
    /// The elements directly in it.
    pub children: Vec<Element>,
    is_base64: bool,
}

impl Element {
    /// Reads a document's root element.
    ///
    /// # Errors
    /// `Malformed`: no well-formed XML, elements nested too deep, or a document type.
    pub fn parse(document: &str) -> Result<Element, Error> {
        let mut reader = Reader::from_str(document);
        let mut open = vec![Element::default()];
        loop {
            match reader.read_event().map_err(|error| malformed(&error))? {
                Event::Start(start) if open.len() > DEPTH_MAX => {
                    return Err(Error::malformed(format!("{:?} is too deep", start.name())));
                }
                Event::Start(start) => open.push(Element::opened(&start)?),
                Event::Empty(start) => close(&mut open, Element::opened(&start)?)?,
                Event::End(_) => {
                    let element = open.pop().ok_or_else(unbalanced)?;
                    close(&mut open, element)?;
                }
                Event::Text(text) => last(&mut open)?.text.push_str(&text.xml10_content()),
                Event::CData(text) => last(&mut open)?.text.push_str(&text.xml10_content()),
                Event::GeneralRef(reference) => {
                    let character = resolve(&reference)?;
                    last(&mut open)?.text.push(character);
                }
                Event::DocType(_) => return Err(Error::malformed("reply has a document type")),
                Event::Eof => break,
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            }
        }
        let document = open
            .pop()
            .filter(|_| open.is_empty())
            .ok_or_else(unbalanced)?;
        match <[Element; 1]>::try_from(document.children) {
            Ok([root]) => Ok(root),
            Err(_) => Err(Error::malformed("reply has not one root element")),
        }
    }

    /// The first element of that name directly in this one.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All elements of that name directly in this one.
    pub fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first element of that name directly in this one; empty if there is none.
    pub fn child_text(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| &child.text)
    }

    fn opened(start: &BytesStart<'_>) -> Result<Element, Error> {
        let encoding = start
            .try_get_attribute("encoding")
            .map_err(|error| malformed(&error))?;
        Ok(Element {
            name: start.local_name().as_ref().to_owned(),
            is_base64: encoding.is_some_and(|encoding| encoding.value.as_ref() == "base64"),
            ..Element::default()
        })
    }
}

fn close(open: &mut [Element], mut element: Element) -> Result<(), Error> {
    if element.is_base64 {
        let octets = STANDARD
            .decode(&element.text)
            .map_err(|error| malformed(&error))?;
        element.text = String::from_utf8(octets).map_err(|error| malformed(&error))?;
    }
    last(open)?.children.push(element);
    Ok(())
}

fn last(open: &mut [Element]) -> Result<&mut Element, Error> {
    open.last_mut().ok_or_else(unbalanced)
}

fn resolve(reference: &BytesRef<'_>) -> Result<char, Error> {
    if let Some(character) = reference
        .resolve_char_ref()
        .map_err(|error| malformed(&error))?
    {
        return Ok(character);
    }
    match &*reference.xml10_content() {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        unknown => Err(Error::malformed(format!("unknown entity {unknown:?}"))),
    }
}

fn unbalanced() -> Error {
    Error::malformed("reply's elements are not balanced")
}

fn malformed(error: &dyn std::error::Error) -> Error {
    Error::malformed(format!("reply is not readable XML: {error}"))
}

#[cfg(test)]
mod tests;
