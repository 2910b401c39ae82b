//! PutAttributes and BatchPutAttributes.

use std::collections::BTreeSet;

use bytes::Bytes;
use fader_chain::{Change, ElementOp};

use crate::View;
use crate::simpledb::condition::Condition;
use crate::simpledb::validate::{self, Put};
use crate::simpledb::write::Write;
use crate::simpledb::{BoxUsage, Context, Error, Expected, ItemPut};

/// Puts attributes of one item, if the condition holds.
pub(crate) fn put(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    put: &ItemPut,
    expected: &[Expected],
) -> Result<(BoxUsage, Vec<Change>), Error> {
    validate::domain_name(domain)?;
    let (item, attributes) = validate::put(put, context.limits)?;
    let condition = Condition::parse(expected, context.limits)?;
    let mut write = Write::new(view, context)?;
    let found = write.find(item)?;
    if let Some(condition) = condition {
        condition.check(&found.register)?;
    }
    write.merge(found, operations(&attributes))?;
    Ok((BoxUsage::put(attributes.len()), write.finish()?))
}

/// Puts attributes of several items, all or none.
pub(crate) fn batch_put(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    puts: &[ItemPut],
) -> Result<(BoxUsage, Vec<Change>), Error> {
    validate::domain_name(domain)?;
    let puts = validate::puts(puts, context.limits)?;
    let mut write = Write::new(view, context)?;
    for (item, attributes) in &puts {
        let found = write.find(item)?;
        write.merge(found, operations(attributes))?;
    }
    let sizes = puts.iter().map(|(_, attributes)| attributes.len());
    Ok((BoxUsage::batch_put(sizes), write.finish()?))
}

/// A name that any attribute replaces is cleared once, before everything that is put under it.
pub(crate) fn operations(attributes: &[Put<'_>]) -> Vec<ElementOp> {
    let mut ops = Vec::with_capacity(attributes.len() * 2);
    let replaced = attributes.iter().filter(|attribute| attribute.replace);
    let mut replaced: BTreeSet<&str> = replaced.map(|attribute| attribute.name).collect();
    for attribute in attributes {
        let group = Bytes::copy_from_slice(attribute.name.as_bytes());
        if replaced.remove(attribute.name) {
            ops.push(ElementOp::Clear {
                group: group.clone(),
            });
        }
        let value = Bytes::copy_from_slice(attribute.value.as_bytes());
        ops.push(ElementOp::Add { group, value });
    }
    ops
}
