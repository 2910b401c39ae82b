//! What is wrong with the parameters of a request, before any state is looked at.
//!
//! The first thing wrong is what is reported, in this order. First come the domain's name and how
//! many items there are. Then come item by item its name, how many attributes it has, and attribute
//! by attribute the name and the value. Last is the condition. Only then is the domain looked for.

use std::collections::BTreeSet;

use crate::Mode;
use crate::simpledb::{AttributeDelete, AttributePut, Code, Error, ItemDelete, ItemPut, Limits};

const DOMAIN_NAME_SIZE_MIN: usize = 3;
const DOMAIN_NAME_SIZE_MAX: usize = 255;

/// An attribute to put that has all its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
    pub(crate) replace: bool,
}

/// Attributes to delete: one value of a name, or the name with all its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delete<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: Option<&'a str>,
}

/// An item with what to do to its attributes.
pub(crate) type ItemWith<'a, A> = (&'a str, Vec<A>);

/// A domain's name.
pub(crate) fn domain_name(name: &str) -> Result<(), Error> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_size_fine = (DOMAIN_NAME_SIZE_MIN..=DOMAIN_NAME_SIZE_MAX).contains(&name.len());
    if is_size_fine && name.bytes().all(is_allowed) {
        return Ok(());
    }
    // The space at the end is the service's own.
    let message = format!("Value ({name}) for parameter DomainName is invalid. ");
    Err(Error::new(Code::InvalidParameterValue, message))
}

/// The mode of a collection that is to be created.
pub(crate) fn creation_mode(mode: Option<Mode>) -> Result<(), Error> {
    match mode.filter(|mode| !mode.is_at_rest()) {
        None => Ok(()),
        Some(mode) => Err(Error::new(
            Code::InvalidParameterValue,
            format!("A domain cannot be created in mode ({mode})."),
        )),
    }
}

/// The item and the attributes of PutAttributes.
pub(crate) fn put<'a>(put: &'a ItemPut, limits: &Limits) -> Result<ItemWith<'a, Put<'a>>, Error> {
    let item = item_name(put.item.as_deref(), limits)?;
    if put.attributes.is_empty() {
        return Err(missing(format!("No attributes for item ='{item}'.")));
    }
    attribute_count(item, put.attributes.len(), limits)?;
    let attributes = put
        .attributes
        .iter()
        .map(|attribute| put_parts(attribute, limits));
    Ok((item, attributes.collect::<Result<_, _>>()?))
}

/// The items and the attributes of BatchPutAttributes.
pub(crate) fn puts<'a>(
    puts: &'a [ItemPut],
    limits: &Limits,
) -> Result<Vec<ItemWith<'a, Put<'a>>>, Error> {
    item_count(puts.len(), limits)?;
    let mut names = BTreeSet::new();
    puts.iter()
        .map(|one| {
            let valid = put(one, limits)?;
            if !names.insert(valid.0) {
                let message = "The item name was specified more than once.";
                return Err(Error::new(Code::DuplicateItemName, message));
            }
            Ok(valid)
        })
        .collect()
}

/// The item and the attributes of DeleteAttributes.
pub(crate) fn delete<'a>(
    delete: &'a ItemDelete,
    limits: &Limits,
) -> Result<ItemWith<'a, Delete<'a>>, Error> {
    let item = item_name(delete.item.as_deref(), limits)?;
    attribute_count(item, delete.attributes.len(), limits)?;
    let attributes = delete
        .attributes
        .iter()
        .map(|attribute| delete_parts(attribute, limits));
    Ok((item, attributes.collect::<Result<_, _>>()?))
}

/// The items and the attributes of BatchDeleteAttributes; an item may be named twice.
pub(crate) fn deletes<'a>(
    deletes: &'a [ItemDelete],
    limits: &Limits,
) -> Result<Vec<ItemWith<'a, Delete<'a>>>, Error> {
    item_count(deletes.len(), limits)?;
    deletes.iter().map(|one| delete(one, limits)).collect()
}

/// The item and the attribute names of a read. Nothing is called by the empty name, so that a read
/// of it finds nothing.
pub(crate) fn get(item: &str, names: &[String], limits: &Limits) -> Result<(), Error> {
    size("Item", item, limits)?;
    if limits.requested_attributes < names.len() {
        let message = "Too many attributes requested.";
        return Err(Error::new(Code::TooManyRequestedAttributes, message));
    }
    names.iter().try_for_each(|name| size("Name", name, limits))
}

/// An attribute's name that is to be written, or compared.
pub(crate) fn attribute_name(name: &str, limits: &Limits) -> Result<(), Error> {
    not_empty("Name", name, "attribute")?;
    size("Name", name, limits)
}

/// An attribute's value.
pub(crate) fn attribute_value(value: &str, limits: &Limits) -> Result<(), Error> {
    size("Value", value, limits)
}

/// A refusal because a parameter is missing.
pub(crate) fn missing(message: impl Into<String>) -> Error {
    Error::new(Code::MissingParameter, message)
}

fn item_name<'a>(name: Option<&'a str>, limits: &Limits) -> Result<&'a str, Error> {
    let name = name.ok_or_else(|| missing("The request must contain the parameter ItemName."))?;
    not_empty("Item", name, "item")?;
    size("Item", name, limits)?;
    Ok(name)
}

fn item_count(count: usize, limits: &Limits) -> Result<(), Error> {
    if count == 0 {
        return Err(missing("The request must contain the parameter ItemName."));
    }
    if limits.submitted_items < count {
        let message = format!(
            "Too many items in a single call. Up to {} items per call allowed.",
            limits.submitted_items
        );
        return Err(Error::new(Code::NumberSubmittedItemsExceeded, message));
    }
    Ok(())
}

fn attribute_count(item: &str, count: usize, limits: &Limits) -> Result<(), Error> {
    if limits.submitted_attributes < count {
        let message = format!(
            "Too many attributes for item {item} in a single call. \
             Up to {} attributes per call allowed.",
            limits.submitted_attributes
        );
        return Err(Error::new(Code::NumberSubmittedAttributesExceeded, message));
    }
    Ok(())
}

fn put_parts<'a>(attribute: &'a AttributePut, limits: &Limits) -> Result<Put<'a>, Error> {
    let name = required_name(
        attribute.name.as_deref(),
        attribute.value.as_deref(),
        limits,
    )?;
    let value = attribute.value.as_deref().ok_or_else(|| {
        missing(format!(
            "Attribute.Value missing for Attribute.Name='{name}'."
        ))
    })?;
    attribute_value(value, limits)?;
    Ok(Put {
        name,
        value,
        replace: attribute.replace,
    })
}

fn delete_parts<'a>(attribute: &'a AttributeDelete, limits: &Limits) -> Result<Delete<'a>, Error> {
    let value = attribute.value.as_deref();
    let name = required_name(attribute.name.as_deref(), value, limits)?;
    if let Some(value) = value {
        attribute_value(value, limits)?;
    }
    Ok(Delete { name, value })
}

fn required_name<'a>(
    name: Option<&'a str>,
    value: Option<&str>,
    limits: &Limits,
) -> Result<&'a str, Error> {
    let name = name.ok_or_else(|| match value {
        Some(value) => missing(format!(
            "Attribute.Name missing for Attribute.Value='{value}'."
        )),
        None => missing("The request must contain the parameter Name"),
    })?;
    attribute_name(name, limits)?;
    Ok(name)
}

fn not_empty(parameter: &str, text: &str, what: &str) -> Result<(), Error> {
    if !text.is_empty() {
        return Ok(());
    }
    let message = format!(
        "Value (\"\") for parameter {parameter} is invalid.\
         The empty string is an illegal {what} name"
    );
    Err(Error::new(Code::InvalidParameterValue, message))
}

fn size(parameter: &str, text: &str, limits: &Limits) -> Result<(), Error> {
    if text.len() <= limits.text_bytes {
        return Ok(());
    }
    let message = format!(
        "Value (\"{text}\") for parameter {parameter} is invalid. \
         Value exceeds maximum length of {}.",
        limits.text_bytes
    );
    Err(Error::new(Code::InvalidParameterValue, message))
}
