//! Query expressions: not yet.

use crate::View;
use crate::simpledb::{Answered, Code, Context, Error, PageToken};

/// A page of a Query.
pub(crate) fn answer(
    _view: &dyn View,
    _context: &Context<'_>,
    _domain: &str,
    _expression: Option<&str>,
    _max_count: Option<i64>,
    _next_token: Option<&PageToken>,
    _attributes: Option<&[String]>,
) -> Result<Answered, Error> {
    Err(Error::new(
        Code::NotYetImplemented,
        "Feature Query is not yet available",
    ))
}
