//! Amazon SimpleDB (2009-04-15, and Query of 2007-11-07): what each action means.

mod accept;
mod box_usage;
mod condition;
mod counter_delta;
mod counters;
mod delete;
mod domains;
mod effective_level;
mod error;
mod export;
mod get;
mod limits;
mod pairs;
mod put;
mod query;
mod request;
mod result;
mod seam;
mod select;
mod settle;
mod tentative;
mod token;
mod validate;
mod write;

pub use accept::{Acceptance, accept};
pub use box_usage::BoxUsage;
pub(crate) use counters::{Counters, metadata_key};
pub use domains::decide_names;
pub(crate) use effective_level::no_such_quorum;
pub use effective_level::{effective_level, permits_quorum};
pub use error::{Code, Error};
pub use export::{Item as WholeItem, item_count, items};
pub(crate) use export::{open_token, seal_token};
pub use get::{answer_item, is_tentative};
pub use limits::Limits;
pub use request::{
    Attribute, AttributeDelete, AttributePut, DomainMetadata, Expected, Item, ItemDelete, ItemPut,
    PageToken, Reply, Request,
};
pub use result::{decode_outcome, depends_on_state, encode_cause, encode_outcome, settled_outcome};
pub use seam::SimpleDb;
pub use settle::{Settled, settle};
pub use tentative::{Tentative, Unsettled};

use crate::{Decision, View, service};

/// What a decision or an answer knows beside the view.
pub type Context<'a> = service::Context<'a, Limits>;

/// A reply with what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct CostedReply {
    /// The reply.
    pub reply: Reply,
    /// The box usage to report.
    pub box_usage: BoxUsage,
}

/// Decides a request that may change state ([`Request::is_write`]).
///
/// `view` is the newest state of the log, pending entries included.
pub fn decide(
    view: &dyn View,
    context: &Context<'_>,
    request: &Request,
) -> Decision<Result<CostedReply, Error>> {
    let decided = match request {
        Request::CreateDomain {
            domain,
            mode,
            preference,
        } => domains::create(view, context, domain, *mode, *preference),
        Request::DeleteDomain { domain } => domains::delete(view, context, domain),
        Request::PutAttributes {
            domain,
            put,
            expected,
        } => put::put(view, context, domain, put, expected),
        Request::BatchPutAttributes { domain, puts } => put::batch_put(view, context, domain, puts),
        Request::DeleteAttributes {
            domain,
            delete,
            expected,
        } => delete::delete(view, context, domain, delete, expected),
        Request::BatchDeleteAttributes { domain, deletes } => {
            delete::batch_delete(view, context, domain, deletes)
        }
        Request::ListDomains { .. }
        | Request::DomainMetadata { .. }
        | Request::GetAttributes { .. }
        | Request::Select { .. }
        | Request::ExplainSelect { .. }
        | Request::Query { .. } => {
            let outcome = answer(view, context, request);
            return Decision {
                outcome,
                changes: Vec::new(),
            };
        }
    };
    match decided {
        Ok((box_usage, changes)) => Decision {
            outcome: Ok(CostedReply {
                reply: Reply::Done,
                box_usage,
            }),
            changes,
        },
        Err(error) => Decision {
            outcome: Err(error),
            changes: Vec::new(),
        },
    }
}

/// Answers a request that changes nothing, on a committed view.
///
/// # Errors
/// [`Error`] as SimpleDB words it; a request that writes is refused as `InternalError`.
pub fn answer(
    view: &dyn View,
    context: &Context<'_>,
    request: &Request,
) -> Result<CostedReply, Error> {
    match request {
        Request::GetAttributes {
            domain,
            item,
            names,
            consistent: _,
        } => get::get(view, context, domain, item, names),
        Request::Select {
            expression,
            next_token,
            consistent: _,
        } => select::answer(view, context, expression, next_token.as_ref()),
        Request::ExplainSelect { expression } => select::explain(view, context, expression),
        Request::Query {
            domain,
            expression,
            max_count,
            next_token,
            attributes,
        } => query::answer(
            view,
            context,
            domain,
            expression.as_deref(),
            *max_count,
            next_token.as_ref(),
            attributes.as_deref(),
        ),
        Request::ListDomains {
            max_count,
            next_token,
        } => domains::list(view, context, *max_count, next_token.as_ref()),
        Request::DomainMetadata { domain } => domains::metadata(view, context, domain),
        Request::CreateDomain { .. }
        | Request::DeleteDomain { .. }
        | Request::PutAttributes { .. }
        | Request::BatchPutAttributes { .. }
        | Request::DeleteAttributes { .. }
        | Request::BatchDeleteAttributes { .. } => Err(Error::new(
            Code::InternalError,
            "A write was sent where only reads are answered.",
        )),
    }
}

#[cfg(test)]
mod tests;
