//! The condition of a write: one attribute's single value, or its absence.

use bytes::Bytes;
use fader_chain::Register;

use crate::simpledb::{Code, Error, Expected, Limits, validate};

/// A condition without contradictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition<'a> {
    /// The attribute has this value and no other.
    Equals {
        /// The attribute.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// The attribute has no value.
    Absent {
        /// The attribute.
        name: &'a str,
    },
}

impl<'a> Condition<'a> {
    /// What the request submitted, if anything. Parts under different indices are one condition, as
    /// long as there is one of each.
    pub(crate) fn parse(
        expected: &'a [Expected],
        limits: &Limits,
    ) -> Result<Option<Condition<'a>>, Error> {
        let refuse = |code, message: &str| Err(Error::new(code, message));
        if expected.is_empty() {
            return Ok(None);
        }
        let mut names = expected.iter().filter_map(|part| part.name.as_deref());
        let mut values = expected.iter().filter_map(|part| part.value.as_deref());
        let mut flags = expected.iter().filter_map(|part| part.exists);
        let (name, value, exists) = (names.next(), values.next(), flags.next());
        if names.next().is_some() {
            let message = "Only one Expected.Name can be specified";
            return refuse(Code::MultipleExpectedNames, message);
        }
        if values.next().is_some() {
            let message = "Only one Expected.Value can be specified";
            return refuse(Code::MultipleExpectedValues, message);
        }
        if flags.next().is_some() {
            let message = "Only one Exists condition can be specified";
            return refuse(Code::MultipleExistsConditions, message);
        }
        let message = "The request must contain the parameter Expected.Name.";
        let name = name.ok_or_else(|| validate::missing(message))?;
        validate::attribute_name(name, limits)?;
        match (value, exists) {
            (Some(_), Some(false)) => refuse(
                Code::ExistsAndExpectedValue,
                "Expected.Exists=false and Expected.Value cannot be specified together",
            ),
            (None, Some(false)) => Ok(Some(Condition::Absent { name })),
            (Some(value), _) => {
                validate::attribute_value(value, limits)?;
                Ok(Some(Condition::Equals { name, value }))
            }
            (None, _) => refuse(
                Code::IncompleteExpectedValues,
                "If Expected.Exists = True or unspecified, then Expected.Value has to be specified",
            ),
        }
    }

    /// Whether the item is as the condition says.
    pub(crate) fn check(self, register: &Register) -> Result<(), Error> {
        let (Condition::Equals { name, .. } | Condition::Absent { name }) = self;
        let mut values = register
            .group(name.as_bytes())
            .into_iter()
            .flat_map(|group| group.values());
        match (self, values.next(), values.next()) {
            (Condition::Absent { .. }, None, _) => Ok(()),
            (Condition::Absent { .. }, Some(_), _) => Err(Error::new(
                Code::ConditionalCheckFailed,
                format!("Conditional check failed. Attribute ({name}) value exists"),
            )),
            (Condition::Equals { .. }, None, _) => Err(Error::new(
                Code::AttributeDoesNotExist,
                format!("Attribute ({name}) does not exist"),
            )),
            (Condition::Equals { .. }, Some(_), Some(_)) => Err(Error::new(
                Code::MultiValuedAttribute,
                format!(
                    "Attribute ({name}) is multi-valued. \
                     Conditional check can only be performed on a single-valued attribute"
                ),
            )),
            (Condition::Equals { value, .. }, Some(found), None) => equal(name, found, value),
        }
    }
}

fn equal(name: &str, found: &Bytes, expected: &str) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let found = String::from_utf8_lossy(found);
    Err(Error::new(
        Code::ConditionalCheckFailed,
        format!(
            "Conditional check failed. \
             Attribute ({name}) value is ({found}) but was expected ({expected})"
        ),
    ))
}
