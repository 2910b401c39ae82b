//! SQS's two protocols to and from the commands of `services::sqs`.
//!
//! ```text
//! JSON 1.0   POST /, X-Amz-Target: AmazonSQS.Action, a JSON object   ─▶ Node ─▶ parse ─▶ Command
//! Query      POST or GET, / or the queue's path, Action=…            ─▶ Node ─▶
//! Reply ─▶ fields ─▶ JSON, or XML without space between elements
//! ```

mod action;
mod json;
mod node;
mod parse;
mod protocol;
mod render;

pub(crate) use action::Action;
pub(crate) use json::{Json, Object};
pub(crate) use node::{Form, Node, malformed};
pub(crate) use parse::parse;
pub(crate) use protocol::{Protocol, TARGET, protocol_of, region_of, target};
pub(crate) use render::{Place, Rendered, error, reply, side};

#[cfg(test)]
mod tests;
