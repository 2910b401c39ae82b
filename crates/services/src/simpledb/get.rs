//! GetAttributes.

use bytes::Bytes;
use fader_chain::{Register, Stamp};

use crate::simpledb::pairs::stored_register;
use crate::simpledb::{
    Attribute, BoxUsage, Code, Context, CostedReply, Error, Reply, Request, counters, validate,
};
use crate::{CollectionId, View, item_key};

/// Answers GetAttributes from a register that was read elsewhere: the join of what members show.
/// `view` is this member's, and tells whether the domain is there.
///
/// # Errors
/// [`Error`] as SimpleDB words it; a request other than GetAttributes is refused as
/// `InternalError`.
pub fn answer_item(
    view: &dyn View,
    context: &Context<'_>,
    request: &Request,
    shown: Register,
) -> Result<CostedReply, Error> {
    let Request::GetAttributes {
        domain,
        item,
        names,
        consistent: _,
    } = request
    else {
        let message = "A request about no item was sent where items are answered.";
        return Err(Error::new(Code::InternalError, message));
    };
    check(view, context, domain, item, names)?;
    Ok(answered(shown, names))
}

/// Whether an unsettled element decided anything of what `request` is shown, a removal included. It
/// did if the pairs, each with the write that put it, or their order, are others in `shown` than in
/// `committed` (SDB-6.3).
pub fn is_tentative(request: &Request, committed: &Register, shown: &Register) -> bool {
    let names = match request {
        Request::GetAttributes { names, .. } => names.as_slice(),
        _ => &[],
    };
    !written(shown, names).eq(written(committed, names))
}

/// The attributes of `item`, or those called one of `names`: in order of first insertion, and the
/// values of each in byte order. An item that is not there has none.
pub(crate) fn get(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    item: &str,
    names: &[String],
) -> Result<CostedReply, Error> {
    let collection = check(view, context, domain, item, names)?;
    let register = stored_register(view, &item_key(collection, item.as_bytes()))?;
    Ok(answered(register, names))
}

fn check(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    item: &str,
    names: &[String],
) -> Result<CollectionId, Error> {
    validate::domain_name(domain)?;
    validate::get(item, names, context.limits)?;
    let collection = context.collection.ok_or_else(Error::no_such_domain)?;
    if !counters::is_alive(view, collection)? {
        return Err(Error::no_such_domain());
    }
    Ok(collection)
}

fn answered(register: Register, names: &[String]) -> CostedReply {
    let mut attributes = Vec::with_capacity(register.groups.len());
    let mut name_count = 0;
    for group in register.groups {
        if !is_wanted(names, &group.name) {
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
    CostedReply {
        reply: Reply::Attributes(attributes),
        box_usage: BoxUsage::get(name_count),
    }
}

/// What is shown, each with the write that put it.
fn written<'a>(
    register: &'a Register,
    names: &'a [String],
) -> impl Iterator<Item = (&'a Bytes, &'a Bytes, Stamp)> {
    let groups = register.groups.iter();
    let groups = groups.filter(|group| is_wanted(names, &group.name));
    groups.flat_map(|group| {
        let live = group.members.iter().filter(|member| member.live);
        live.map(|member| (&group.name, &member.value, member.written))
    })
}

fn is_wanted(names: &[String], name: &[u8]) -> bool {
    names.is_empty() || names.iter().any(|one| one.as_bytes() == name)
}
