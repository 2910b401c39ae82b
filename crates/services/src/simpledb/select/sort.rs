//! ORDER BY: its rule, and the order itself.
//!
//! Results come in the order of (sort value, item name), both reversed by DESC. An item's sort
//! value is one of its values of the sort attribute: the smallest, or with DESC the greatest. It
//! must satisfy one of the predicates on the attribute which every result must satisfy. When there
//! is no such predicate it is of all its values. An item without one is no result, for AWS promises
//! that *returned results must contain the attribute on which you are sorting*.
//!
//! So the order is that of the sort attribute's index, with each item at one of its entries.
//! Reading the index and sorting what was read otherwise give the same.

use super::index_scan::{FieldScan, IndexScan};
use super::predicate::{Condition, Field, Formula, Predicate, Test};
use super::range::Ranges;
use super::statement::{Order, Selection};
use crate::simpledb::{Code, Error};

/// Refuses to sort by a field that no predicate constrains, or IS NULL only.
pub(crate) fn check(selection: &Selection) -> Result<(), Error> {
    match &selection.order {
        Some(order) if !constrains(&selection.condition, &order.field) => Err(invalid_sort()),
        _ => Ok(()),
    }
}

/// The refusal of a sort.
pub(crate) fn invalid_sort() -> Error {
    Error::new(
        Code::InvalidSortExpression,
        "Invalid sort expression. The sort attribute must be present in at least one of the \
         predicates, and the predicate cannot contain the is null operator.",
    )
}

/// The walk of the index whose order is the one that is asked for.
pub(crate) fn walk<'s>(selection: &'s Selection, order: &'s Order) -> IndexScan<'s> {
    let conjuncts = selection.condition.conjuncts();
    let formulas: Vec<&Formula> = conjuncts
        .into_iter()
        .filter_map(|conjunct| match conjunct {
            Condition::Predicate(predicate) if predicate.field == order.field => {
                Some(&predicate.formula)
            }
            _ => None,
        })
        .collect();
    let lane = if formulas.is_empty() {
        FieldScan::whole(&order.field)
    } else {
        FieldScan::new(&order.field, formulas)
    };
    IndexScan::new(
        vec![lane],
        order.direction,
        Ranges::of_items(&selection.condition),
    )
}

fn constrains(condition: &Condition, field: &Field) -> bool {
    match condition {
        Condition::Predicate(predicate) => predicate.field == *field,
        Condition::Not(set) => !is_not_null(set) && constrains(set, field),
        Condition::And(sets) | Condition::Or(sets) | Condition::Intersection(sets) => {
            sets.iter().any(|set| constrains(set, field))
        }
    }
}

fn is_not_null(condition: &Condition) -> bool {
    matches!(
        condition,
        Condition::Predicate(Predicate {
            formula: Formula::Test(Test::Present),
            ..
        })
    )
}
