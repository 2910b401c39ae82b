//! Items as lines of a file: JSON lines and CSV, both ways.
//!
//! JSON: `{"item":"name","attributes":{"one":"value","many":["value","value"]}}`. Exact: what is
//! exported is what is imported. With a field for the item's name, flat objects are read too:
//! `{"isbn":"0385333498","Year":1959}`.
//!
//! CSV: a header, one column with the item's name, the others attributes. Several values stand in
//! columns of the same name, or in one cell with a separator. An empty cell is no value, so a value
//! that is empty text does not survive CSV.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fader_cloud::{Attribute, AttributePut, Item, ItemPut};
use serde_json::{Map, Value, json};

use crate::failure;

#[cfg(test)]
mod tests;

/// The field of the item's name where nothing else is said.
pub(super) const ITEM: &str = "item";

const ATTRIBUTES: &str = "attributes";

/// An item as a line of JSON.
pub(super) fn to_json(item: &Item) -> String {
    let mut attributes: Map<String, Value> = Map::new();
    for Attribute { name, value } in &item.attributes {
        let value = Value::String(value.clone());
        match attributes.get_mut(name) {
            None => drop(attributes.insert(name.clone(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(one) => *one = Value::Array(vec![one.take(), value]),
        }
    }
    // Written by hand, so that the item's name comes first.
    format!(
        "{{\"{ITEM}\":{},\"{ATTRIBUTES}\":{}}}\n",
        json!(item.name),
        json!(attributes)
    )
}

/// Reads a line of JSON. `field` names the item's field of a flat object; without it the line is as
/// [`to_json`] writes it.
///
/// # Errors
/// When the line is not such an object, or has no item name or no value.
pub(super) fn from_json(line: &str, field: Option<&str>, replace: bool) -> Result<ItemPut> {
    let mut object: Map<String, Value> = serde_json::from_str(line).context("not a JSON object")?;
    let name = object.remove(field.unwrap_or(ITEM));
    let name = name.with_context(|| format!("no field {:?}", field.unwrap_or(ITEM)))?;
    let [name] = &texts(&name).context("the item's name is no text")?[..] else {
        return failure::invalid("the item's name is not one text");
    };
    let attributes = match (field, object.remove(ATTRIBUTES)) {
        (Some(_), Some(attributes)) => {
            object.insert(ATTRIBUTES.to_owned(), attributes);
            object
        }
        (Some(_), None) => object,
        (None, Some(Value::Object(attributes))) if object.is_empty() => attributes,
        (None, _) => {
            return failure::invalid(format_args!(
                "not {{\"{ITEM}\":…,\"{ATTRIBUTES}\":{{…}}}}; for flat objects say which field \
                 names the item: --item-name FIELD"
            ));
        }
    };
    let mut puts = Vec::new();
    for (name, value) in &attributes {
        let values = texts(value).with_context(|| format!("attribute {name:?}"))?;
        puts.extend(values.into_iter().map(|value| put(name, value, replace)));
    }
    item(name, puts)
}

/// The texts of a JSON value: numbers and booleans as JSON writes them, null as none.
fn texts(value: &Value) -> Result<Vec<String>> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Number(number) => Ok(vec![number.to_string()]),
        Value::Bool(truth) => Ok(vec![truth.to_string()]),
        Value::Array(values) if values.iter().any(Value::is_array) => {
            failure::invalid("arrays in arrays")
        }
        Value::Array(values) => {
            let parts: Result<Vec<_>> = values.iter().map(texts).collect();
            Ok(parts?.concat())
        }
        Value::Object(_) => failure::invalid("an object is no value"),
    }
}

/// Which column of a CSV file is what.
pub(super) struct Header {
    names: Vec<String>,
    item: usize,
}

impl Header {
    /// Reads the header; `field` names the column of the item's name, the first if `None`.
    ///
    /// # Errors
    /// When there is no such column.
    pub(super) fn new(record: &csv::StringRecord, field: Option<&str>) -> Result<Self> {
        let names: Vec<String> = record.iter().map(str::to_owned).collect();
        let item = match field {
            None => 0,
            Some(field) => {
                let at = names.iter().position(|name| name == field);
                at.with_context(|| format!("the header has no column {field:?}"))?
            }
        };
        Ok(Header { names, item })
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When it has too many cells, no item name or no value.
    pub(super) fn read(
        &self,
        record: &csv::StringRecord,
        separator: Option<char>,
        replace: bool,
    ) -> Result<ItemPut> {
        if record.len() > self.names.len() {
            return failure::invalid(format_args!(
                "{} cells under {} columns",
                record.len(),
                self.names.len()
            ));
        }
        let mut puts = Vec::new();
        for (index, cell) in record
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != self.item)
        {
            let name = &self.names[index];
            let values: Vec<&str> = match separator {
                Some(separator) => cell.split(separator).collect(),
                None => vec![cell],
            };
            let values = values.into_iter().filter(|value| !value.is_empty());
            puts.extend(values.map(|value| put(name, value.to_owned(), replace)));
        }
        item(record.get(self.item).unwrap_or_default(), puts)
    }
}

fn put(name: &str, value: String, replace: bool) -> AttributePut {
    AttributePut {
        name: name.to_owned(),
        value,
        replace,
    }
}

fn item(name: &str, attributes: Vec<AttributePut>) -> Result<ItemPut> {
    if name.is_empty() {
        return failure::invalid("the item's name is empty");
    }
    if attributes.is_empty() {
        return failure::invalid(format_args!("item {name:?} has no value"));
    }
    Ok(ItemPut {
        name: name.to_owned(),
        attributes,
    })
}

/// The columns that a CSV file of some items needs: per attribute the most values in one item.
#[derive(Default)]
pub(super) struct Columns {
    widths: BTreeMap<String, usize>,
}

impl Columns {
    /// Makes room for an item.
    pub(super) fn widen(&mut self, item: &Item) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for attribute in &item.attributes {
            *counts.entry(&attribute.name).or_default() += 1;
        }
        for (name, count) in counts {
            let width = self.widths.entry(name.to_owned()).or_default();
            *width = count.max(*width);
        }
    }

    /// The header: with a separator one column an attribute, else as many as values need.
    pub(super) fn header(&self, separator: Option<char>) -> Vec<String> {
        let mut header = vec![ITEM.to_owned()];
        for (name, width) in &self.widths {
            let width = if separator.is_some() { 1 } else { *width };
            header.extend(std::iter::repeat_n(name.clone(), width));
        }
        header
    }

    /// An item's record.
    ///
    /// # Errors
    /// When the item does not fit the columns, or a value holds the separator.
    pub(super) fn row(&self, item: &Item, separator: Option<char>) -> Result<Vec<String>> {
        let fits = |attribute: &Attribute| self.widths.contains_key(&attribute.name);
        if let Some(stranger) = item.attributes.iter().find(|attribute| !fits(attribute)) {
            return failure::invalid(format_args!(
                "item {:?}: no column {:?}",
                item.name, stranger.name
            ));
        }
        let mut row = vec![item.name.clone()];
        for (name, width) in &self.widths {
            let values = item
                .attributes
                .iter()
                .filter(|attribute| attribute.name == *name);
            let values: Vec<&str> = values.map(|attribute| attribute.value.as_str()).collect();
            match separator {
                Some(separator) if values.iter().any(|value| value.contains(separator)) => {
                    return failure::invalid(format_args!(
                        "item {:?}: a value of {name:?} holds the separator",
                        item.name
                    ));
                }
                Some(separator) => row.push(values.join(&separator.to_string())),
                None if values.len() > *width => {
                    return failure::invalid(format_args!(
                        "item {:?}: too few columns {name:?}",
                        item.name
                    ));
                }
                None => {
                    let empty = std::iter::repeat_n("", width - values.len());
                    row.extend(values.iter().copied().chain(empty).map(str::to_owned));
                }
            }
        }
        Ok(row)
    }
}
