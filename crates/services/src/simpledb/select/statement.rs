//! A Select expression as it was understood.

use std::fmt::{self, Display, Formatter};

use super::predicate::{Condition, Field, Name};
use super::{parse, sort};
use crate::Direction;
use crate::simpledb::{Error, Limits};

/// What a Select gives of each item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// `*`
    Everything,
    /// `itemName()`
    Names,
    /// `count(*)`
    Count,
    /// Named attributes.
    Attributes {
        /// Which ones.
        names: Vec<String>,
        /// Whether `itemName()` was among them: then items without any of the attributes are
        /// results too.
        bare_items: bool,
    },
}

/// ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// What is compared.
    pub(crate) field: Field,
    /// Smallest or greatest first.
    pub(crate) direction: Direction,
}

/// Which items in which order: all that a page token is bound to. `Display` is its canonical text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The domain.
    pub(crate) domain: String,
    /// The items.
    pub(crate) condition: Condition,
    /// Their order; none means the order that is read fastest.
    pub(crate) order: Option<Order>,
}

/// A Select expression that is valid in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// What it gives of each item.
    pub(crate) output: Output,
    /// The items.
    pub(crate) selection: Selection,
    /// LIMIT.
    pub(crate) limit: Option<usize>,
}

impl Statement {
    /// Understands `text`.
    ///
    /// # Errors
    /// [`Error`] as SimpleDB words it: syntax, sort, number of comparisons, attributes or items.
    pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Self, Error> {
        let statement = parse::statement(text, limits)?;
        sort::check(&statement.selection)?;
        Ok(statement)
    }
}

impl Display for Selection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "from {}", Name(&self.domain))?;
        if self.condition != Condition::EVERYTHING {
            write!(f, " where {}", self.condition)?;
        }
        match &self.order {
            Some(Order {
                field,
                direction: Direction::Forward,
            }) => write!(f, " order by {field}"),
            Some(Order {
                field,
                direction: Direction::Backward,
            }) => {
                write!(f, " order by {field} desc")
            }
            None => Ok(()),
        }
    }
}
