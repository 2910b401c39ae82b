//! Query and QueryWithAttributes of 2007-11-07: an older language for the same selections.

mod parse;

#[cfg(test)]
pub(crate) use parse::selection;

use super::select::{self, Output};
use super::token::Kind;
use super::{BoxUsage, Context, CostedReply, Error, PageToken, Reply};
use crate::View;

/// Items on one page at most; the language is older than the limits of Select.
const PAGE_ITEMS: usize = 250;

/// Answers a Query.
///
/// # Errors
/// [`Error`] as SimpleDB words it.
pub(crate) fn answer(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    expression: Option<&str>,
    max_count: Option<i64>,
    next_token: Option<&PageToken>,
    attributes: Option<&[String]>,
) -> Result<CostedReply, Error> {
    let items_max = match max_count {
        None => context.limits.page_items_default,
        Some(count) => usize::try_from(count)
            .ok()
            .filter(|count| (1..=PAGE_ITEMS).contains(count))
            .ok_or_else(|| select::invalid_limit(count, PAGE_ITEMS))?,
    };
    let selection = parse::selection(domain, expression.unwrap_or_default(), context.limits)?;
    let output = match attributes {
        None => Output::Names,
        Some([]) => Output::Everything,
        Some(names) => {
            select::check_requested(names.len(), context.limits)?;
            Output::Attributes {
                names: names.to_vec(),
                bare_items: true,
            }
        }
    };
    let (page, next_token) = select::page(
        view,
        context,
        Kind::Query,
        &selection,
        &output,
        items_max,
        next_token,
    )?;
    let box_usage = BoxUsage::select(page.items.len());
    let items = page.items;
    let reply = if attributes.is_none() {
        let names = items.into_iter().map(|item| item.name).collect();
        Reply::ItemNames { names, next_token }
    } else {
        Reply::Items { items, next_token }
    };
    Ok(CostedReply { reply, box_usage })
}

#[cfg(test)]
mod tests;
