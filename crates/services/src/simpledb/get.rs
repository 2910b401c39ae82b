//! GetAttributes.

use fader_chain::Register;

use crate::simpledb::{Answered, Attribute, BoxUsage, Context, Error, Reply, counters, validate};
use crate::{View, item_key};

/// The attributes of `item`, or those called one of `names`: in order of first insertion, and the
/// values of each in byte order. An item that is not there has none.
pub(crate) fn get(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    item: &str,
    names: &[String],
) -> Result<Answered, Error> {
    validate::domain_name(domain)?;
    validate::get(item, names, context.limits)?;
    let collection = context.collection.ok_or_else(Error::no_such_domain)?;
    if !counters::is_alive(view, collection)? {
        return Err(Error::no_such_domain());
    }
    let register = match view.get(&item_key(collection, item.as_bytes()))? {
        Some(bytes) => Register::decode(bytes).map_err(crate::ViewError::from)?,
        None => Register::default(),
    };
    let is_wanted =
        |name: &[u8]| names.is_empty() || names.iter().any(|one| one.as_bytes() == name);
    let mut attributes = Vec::with_capacity(register.groups.len());
    let mut name_count = 0;
    for group in register.groups {
        if !is_wanted(&group.name) {
            continue;
        }
        let size_before = attributes.len();
        let live = group.members.into_iter().filter(|member| member.live);
        attributes.extend(live.map(|member| Attribute {
            name: group.name.clone(),
            value: member.value,
        }));
        name_count += usize::from(size_before < attributes.len());
    }
    Ok(Answered {
        reply: Reply::Attributes(attributes),
        box_usage: BoxUsage::get(name_count),
    })
}
