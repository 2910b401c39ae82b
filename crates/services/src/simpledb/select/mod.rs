//! Select expressions: not yet.

use crate::View;
use crate::simpledb::{Answered, Code, Context, Error, PageToken};

/// The domain that an expression names.
pub(crate) fn domain(_expression: &str) -> Option<&str> {
    None
}

/// A page of a Select.
pub(crate) fn answer(
    _view: &dyn View,
    _context: &Context<'_>,
    _expression: &str,
    _next_token: Option<&PageToken>,
) -> Result<Answered, Error> {
    Err(Error::new(
        Code::NotYetImplemented,
        "Feature Select is not yet available",
    ))
}

/// How a Select would be answered.
pub(crate) fn explain(
    _view: &dyn View,
    _context: &Context<'_>,
    _expression: &str,
) -> Result<Answered, Error> {
    Err(Error::new(
        Code::NotYetImplemented,
        "Feature Select is not yet available",
    ))
}
