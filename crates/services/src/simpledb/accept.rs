//! Accepting an eventual write: what it does to each item, decided where it arrives.
//!
//! It is decided on what this member shows, committed state and overlay; the counters it is judged
//! by are the committed ones. Nothing is derived: index and counters follow at the settlement
//! (`settle`). A refusal speaks for this attempt only, since nothing was stamped
//! (docs/internals/protocol/simpledb.md, section 4).

use fader_chain::{Accepted, ElementOp, Stamp};

use crate::simpledb::counter_delta::{CounterBase, CounterDelta};
use crate::simpledb::effective_level::takes_eventual;
use crate::simpledb::pairs::{sorted_pairs, stored_register};
use crate::simpledb::{
    BoxUsage, Code, Context, CostedReply, Error, Reply, Request, delete, put, validate,
};
use crate::{Reason, View, item_key, service};

/// Marks of one register above which it takes no eventual operation: they are waiting for the floor
/// to rise.
const REGISTER_MARKS_MAX: usize = 4096;

/// An eventual write that may be stamped.
pub type Acceptance = service::Acceptance<CostedReply>;

/// Decides an eventual write on what this member shows. That it has no condition is `permits`'s to
/// see to.
///
/// # Errors
/// [`Error`] for the request as a whole, before anything is stamped.
pub fn accept(
    view: &dyn View,
    context: &Context<'_>,
    request: &Request,
) -> Result<Acceptance, Error> {
    let (items, box_usage) = parse(context, request)?;
    let collection = context.collection.ok_or_else(Error::no_such_domain)?;
    let tally = CounterDelta::new(view, context.limits, collection, CounterBase::Committed)?;
    let mut tally = tally.ok_or_else(Error::no_such_domain)?;
    takes_eventual(context.mode)?;
    let mut writes = Vec::with_capacity(items.len());
    for (item, ops) in items {
        let key = item_key(collection, item.as_bytes());
        let mut register = stored_register(view, &key)?;
        if REGISTER_MARKS_MAX < register.mark_count() {
            return Err(Error::later(Reason::TooManyMarks));
        }
        let old = sorted_pairs(&register);
        // Its stamp will be above all that is known here of the item (D5).
        register.merge(&ops, Stamp::MAX);
        let new = sorted_pairs(&register);
        tally.count(item.as_bytes(), &old, &new, |_, _| {})?;
        writes.push(Accepted { key, ops });
    }
    if let Some(code) = tally.finish()? {
        return Err(Error::limit(code));
    }
    let reply = Reply::Done;
    Ok(Acceptance {
        answered: CostedReply { reply, box_usage },
        writes,
    })
}

type Items<'a> = Vec<(&'a str, Vec<ElementOp>)>;

/// What a request does item by item, if nothing is wrong with its parameters.
fn parse<'a>(context: &Context<'_>, request: &'a Request) -> Result<(Items<'a>, BoxUsage), Error> {
    if let Some(domain) = request.domain() {
        validate::domain_name(domain)?;
    }
    match request {
        Request::PutAttributes { put: one, .. } => {
            let (item, attributes) = validate::put(one, context.limits)?;
            let usage = BoxUsage::put(attributes.len());
            Ok((vec![(item, put::operations(&attributes))], usage))
        }
        Request::BatchPutAttributes { puts, .. } => {
            let puts = validate::puts(puts, context.limits)?;
            let usage = BoxUsage::batch_put(puts.iter().map(|(_, attributes)| attributes.len()));
            let items = puts.iter();
            let items = items.map(|(item, attributes)| (*item, put::operations(attributes)));
            Ok((items.collect(), usage))
        }
        Request::DeleteAttributes { delete: one, .. } => {
            let (item, attributes) = validate::delete(one, context.limits)?;
            let usage = BoxUsage::delete(attributes.len());
            Ok((vec![(item, delete::operations(&attributes))], usage))
        }
        Request::BatchDeleteAttributes { deletes, .. } => {
            let deletes = validate::deletes(deletes, context.limits)?;
            let sizes = deletes.iter().map(|(_, attributes)| attributes.len());
            let usage = BoxUsage::batch_delete(sizes);
            Ok((delete::operations_by_item(&deletes), usage))
        }
        _ => Err(Error::new(
            Code::InternalError,
            "What is no write of items was sent where eventual writes are accepted.",
        )),
    }
}

#[cfg(test)]
mod tests;
