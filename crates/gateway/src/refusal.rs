//! Refusals that the gateway itself makes, before any service is asked. They cost no box usage.

use fader_services::simpledb::{BoxUsage, Code, Error};

/// A refusal with SimpleDB's code and message.
pub(crate) fn refuse(code: Code, message: impl Into<String>) -> Error {
    Error {
        code,
        message: message.into(),
        box_usage: BoxUsage::default(),
        reason: None,
    }
}

/// The request has to have a parameter that it has not.
pub(crate) fn missing(name: &str) -> Error {
    refuse(
        Code::MissingParameter,
        format!("The request must contain the parameter {name}."),
    )
}

/// A parameter has a value that it cannot have; `reason` is a sentence.
pub(crate) fn invalid_value(value: &str, name: &str, reason: &str) -> Error {
    refuse(
        Code::InvalidParameterValue,
        format!("Value ({value}) for parameter {name} is invalid. {reason}"),
    )
}

/// What is asked of HTTP itself makes no sense; `reason` without its full stop.
pub(crate) fn invalid_http(reason: &str) -> Error {
    refuse(
        Code::InvalidHttpRequest,
        format!("The HTTP request is invalid. Reason: {reason}."),
    )
}
