//! DeleteAttributes and BatchDeleteAttributes.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Change, ElementOp};

use crate::View;
use crate::simpledb::condition::Condition;
use crate::simpledb::validate::{self, Delete, ItemWith};
use crate::simpledb::write::Write;
use crate::simpledb::{BoxUsage, Context, Error, Expected, ItemDelete};

/// Deletes attributes of one item or the item, if the condition holds.
pub(crate) fn delete(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    delete: &ItemDelete,
    expected: &[Expected],
) -> Result<(BoxUsage, Vec<Change>), Error> {
    validate::domain_name(domain)?;
    let (item, attributes) = validate::delete(delete, context.limits)?;
    let condition = Condition::parse(expected, context.limits)?;
    let mut write = Write::new(view, context)?;
    let found = write.find(item)?;
    if let Some(condition) = condition {
        condition.check(&found.register)?;
    }
    write.merge(found, operations(&attributes))?;
    Ok((BoxUsage::delete(attributes.len()), write.finish()?))
}

/// Deletes attributes of several items or the items, all or none.
pub(crate) fn batch_delete(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    deletes: &[ItemDelete],
) -> Result<(BoxUsage, Vec<Change>), Error> {
    validate::domain_name(domain)?;
    let deletes = validate::deletes(deletes, context.limits)?;
    let mut write = Write::new(view, context)?;
    for (item, ops) in operations_by_item(&deletes) {
        let found = write.find(item)?;
        write.merge(found, ops)?;
    }
    let sizes = deletes.iter().map(|(_, attributes)| attributes.len());
    Ok((BoxUsage::batch_delete(sizes), write.finish()?))
}

/// The operations of each item, in the order in which the items are first named.
pub(crate) fn operations_by_item<'a>(
    deletes: &[ItemWith<'a, Delete<'_>>],
) -> Vec<(&'a str, Vec<ElementOp>)> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut items: Vec<(&str, Vec<ElementOp>)> = Vec::with_capacity(deletes.len());
    for (item, attributes) in deletes {
        let place = *places.entry(item).or_insert(items.len());
        match items.get_mut(place) {
            Some((_, ops)) => ops.extend(operations(attributes)),
            None => items.push((item, operations(attributes))),
        }
    }
    items
}

/// What is done to one item.
pub(crate) fn operations(attributes: &[Delete<'_>]) -> Vec<ElementOp> {
    if attributes.is_empty() {
        return vec![ElementOp::ClearAll];
    }
    let operation = |attribute: &Delete<'_>| {
        let group = Bytes::copy_from_slice(attribute.name.as_bytes());
        match attribute.value {
            Some(value) => ElementOp::Remove {
                group,
                value: Bytes::copy_from_slice(value.as_bytes()),
            },
            None => ElementOp::Clear { group },
        }
    };
    attributes.iter().map(operation).collect()
}
