//! DeleteAttributes and BatchDeleteAttributes.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Change, ElementOp};

use crate::View;
use crate::simpledb::condition::Condition;
use crate::simpledb::validate::{self, Delete};
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
    let register = write.register(item)?;
    if let Some(condition) = condition {
        condition.check(&register)?;
    }
    write.merge(item, register, operations(&attributes))?;
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
    let mut items: BTreeMap<&str, Vec<ElementOp>> = BTreeMap::new();
    for (item, attributes) in &deletes {
        items
            .entry(item)
            .or_default()
            .extend(operations(attributes));
    }
    let mut write = Write::new(view, context)?;
    for (item, ops) in items {
        let register = write.register(item)?;
        write.merge(item, register, ops)?;
    }
    let sizes = deletes.iter().map(|(_, attributes)| attributes.len());
    Ok((BoxUsage::batch_delete(sizes), write.finish()?))
}

fn operations(attributes: &[Delete<'_>]) -> Vec<ElementOp> {
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
