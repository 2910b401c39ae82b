//! SimpleDB's wire protocol: form parameters to requests, replies to XML.

mod action;
mod parse;
mod xml;

pub(crate) use action::{Action, Version};
pub(crate) use parse::request;
pub(crate) use xml::{error, reply};
