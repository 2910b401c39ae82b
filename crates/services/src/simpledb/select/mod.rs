//! Select: which items of a domain, in which order, a page at a time.
//!
//! ```text
//! text ─ lexer, parse ─▶ statement ─ plan ─▶ walk of an index ─ execute ─▶ page, position ─▶ token
//!                           │ predicate: is an item in the set?  ▲
//!                           └────────────────────────────────────┘
//! ```
//!
//! Where AWS documents nothing, or two readings are possible, this is ours:
//! - A list of attributes selects only items that have one of them; with `itemName()` in the list,
//!   other items too, bare. QueryWithAttributes gives bare items always.
//! - `itemName()`, `count(*)` and keywords are recognised in any case, names are not.
//! - IN counts as one comparison of the expression, and as many value tests of its predicate as it
//!   has values.
//! - `count(*)` ignores the default size of a page, and LIMIT bounds how much it counts. Its reply
//!   is one item called `Domain`. It can go on from a token of any other output, and the other way
//!   round. Domain, condition and order must be the same.
//! - Without ORDER BY, items come in the order that was fastest to read.

mod execute;
mod explain;
#[cfg(test)]
mod fuzz;
mod index_scan;
mod lexer;
mod parse;
mod plan;
mod position;
mod predicate;
mod range;
mod sort;
mod statement;

pub(crate) use lexer::Escape;
pub(crate) use parse::{Parser, check_counts, check_requested, invalid_expression, invalid_limit};
pub(crate) use predicate::{Condition, Field, Formula, Pattern, Predicate, Test};
pub(crate) use sort::{check as check_sort, invalid_sort};
pub(crate) use statement::{Order, Output, Selection, Statement};

use bytes::Bytes;

use self::execute::{Page, PageRequest};
use self::position::Position;
use super::counters::{Counters, counters};
use super::token::{self, Kind};
use super::{Attribute, BoxUsage, Code, Context, CostedReply, Error, Item, PageToken, Reply};
use crate::View;

/// The domain that a Select expression names, if it can be told.
pub(crate) fn domain(expression: &str) -> Option<&str> {
    parse::domain(expression)
}

/// Answers a Select.
///
/// # Errors
/// [`Error`] as SimpleDB words it.
pub(crate) fn answer(
    view: &dyn View,
    context: &Context<'_>,
    expression: &str,
    next_token: Option<&PageToken>,
) -> Result<CostedReply, Error> {
    let Statement {
        output,
        selection,
        limit,
    } = Statement::parse(expression, context.limits)?;
    let items_max = match (limit, &output) {
        (Some(limit), _) => limit,
        (None, Output::Count) => usize::MAX,
        (None, _) => context.limits.page_items_default,
    };
    let is_all = selection.condition == Condition::EVERYTHING && selection.order.is_none();
    if output == Output::Count && is_all && limit.is_none() && next_token.is_none() {
        let counters = domain_counters(view, context)?;
        let count = counters
            .item_count
            .saturating_add_signed(context.unsettled_items);
        return Ok(counted(count, None));
    }
    let (page, next_token) = page(
        view,
        context,
        Kind::Select,
        &selection,
        &output,
        items_max,
        next_token,
    )?;
    if output == Output::Count {
        return Ok(counted(page.count as u64, next_token));
    }
    let box_usage = BoxUsage::select(page.items.len());
    Ok(CostedReply {
        reply: Reply::Items {
            items: page.items,
            next_token,
        },
        box_usage,
    })
}

/// Says how a Select would be answered.
///
/// # Errors
/// [`Error`] as SimpleDB words it.
pub(crate) fn explain(
    view: &dyn View,
    context: &Context<'_>,
    expression: &str,
) -> Result<CostedReply, Error> {
    let statement = Statement::parse(expression, context.limits)?;
    domain_counters(view, context)?;
    let collection = context.collection.ok_or_else(no_such_domain)?;
    let lines = explain::lines(view, collection, &statement, context.limits)?;
    Ok(CostedReply {
        reply: Reply::Plan(lines),
        box_usage: BoxUsage::select(0),
    })
}

/// A page of a selection, and the token that goes on after it.
pub(crate) fn page(
    view: &dyn View,
    context: &Context<'_>,
    kind: Kind,
    selection: &Selection,
    output: &Output,
    items_max: usize,
    next_token: Option<&PageToken>,
) -> Result<(Page, Option<PageToken>), Error> {
    domain_counters(view, context)?;
    let collection = context.collection.ok_or_else(no_such_domain)?;
    let text = selection.to_string();
    let invalid = || {
        Error::new(
            Code::InvalidNextToken,
            "The specified next token is not valid.",
        )
    };
    let position = match next_token {
        Some(token) => {
            let bytes = token::open(token, kind, context.account, text.as_bytes())?;
            Some(Position::decode(bytes).map_err(|_| invalid())?)
        }
        None => None,
    };
    let wanted = PageRequest {
        view,
        collection,
        selection,
        output,
        items_max,
        bytes_max: context.limits.page_bytes,
        pace: context.pace,
    };
    let page = wanted.page(position)?.ok_or_else(invalid)?;
    let next_token = page
        .next
        .as_ref()
        .map(|position| token::seal(kind, context.account, text.as_bytes(), &position.encode()));
    Ok((page, next_token))
}

/// The counters of the domain, which must exist.
fn domain_counters(view: &dyn View, context: &Context<'_>) -> Result<Counters, Error> {
    let counters = match context.collection {
        Some(collection) => counters(view, collection)?,
        None => None,
    };
    counters.ok_or_else(no_such_domain)
}

fn no_such_domain() -> Error {
    Error::new(Code::NoSuchDomain, "The specified domain does not exist.")
}

/// The reply of `count(*)`.
fn counted(count: u64, next_token: Option<PageToken>) -> CostedReply {
    let value = Bytes::from(count.to_string());
    let attribute = Attribute {
        name: Bytes::from_static(b"Count"),
        value,
    };
    let item = Item {
        name: Bytes::from_static(b"Domain"),
        attributes: vec![attribute],
    };
    let reply = Reply::Items {
        items: vec![item],
        next_token,
    };
    CostedReply {
        reply,
        box_usage: BoxUsage::count(count),
    }
}

#[cfg(test)]
pub(crate) mod tests;
