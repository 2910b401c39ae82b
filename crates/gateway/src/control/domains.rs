//! The modes of domains, queues and buckets.
//!
//! ```text
//! GET  /domains/ACCOUNT/NAME       {"account","domain","mode","absent":["n2"],"silent":["n3"]}
//! POST /domains/ACCOUNT/NAME/mode  {"mode":"strong","abandon":false} -> the same
//! ```
//!
//! The same below `/queues` and `/buckets`.
//!
//! `absent` and `silent` name the members that a domain of mode `draining` waits for.

use bytes::Bytes;
use fader_node::Node;
use fader_services::catalog::{AccountId, Command, Name, Refusal};
use fader_services::forward::DomainMode;
use fader_services::{Kind, Mode, UnknownMode};
use hyper::Method;
use serde_json::{Value, json};

use super::Failure;

/// Carries out one request.
pub(super) async fn answer(
    node: &Node,
    method: &Method,
    kind: Kind,
    path: &[&str],
    body: &Bytes,
) -> Result<Value, Failure> {
    match (method, path) {
        (&Method::GET, [account, domain]) => {
            let owner = AccountId((*account).to_owned());
            let name = Name::new(kind, &owner, domain);
            shown(name, node.mode(name).await)
        }
        (&Method::POST, [account, domain, "mode"]) => {
            let (mode, abandon) = read(body)?;
            let owner = AccountId((*account).to_owned());
            let name = Name::new(kind, &owner, domain);
            let command = Command::SetMode {
                name: name.to_owned(),
                mode,
                abandon,
            };
            node.catalog(command).await?;
            tracing::info!(account, name = domain, ?kind, %mode, abandon, "asked for a mode");
            shown(name, node.mode(name).await)
        }
        _ => Err(Failure::not_found("there is no such order")),
    }
}

/// What people call a collection of this kind.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Domain => "domain",
        Kind::Queue => "queue",
        Kind::Bucket => "bucket",
        Kind::Counter => "counter",
    }
}

/// What is asked of a domain or a queue.
fn read(body: &Bytes) -> Result<(Mode, bool), Failure> {
    let order: Value = serde_json::from_slice(body)
        .map_err(|error| Failure::invalid(format!("the body is not JSON: {error}")))?;
    let fields = order.as_object().into_iter().flatten();
    let mut unknown = fields.filter(|(name, _)| !["mode", "abandon"].contains(&name.as_str()));
    if let Some((name, _)) = unknown.next() {
        return Err(Failure::invalid(format!("the field {name:?} is not known")));
    }
    let mode = order["mode"].as_str();
    let mode = mode.ok_or_else(|| Failure::invalid("the body needs a mode"))?;
    let mode = mode.parse();
    let mode = mode.map_err(|error: UnknownMode| Failure::invalid(error.to_string()))?;
    let abandon = match &order["abandon"] {
        Value::Null => Some(false),
        given => given.as_bool(),
    };
    let abandon = abandon.ok_or_else(|| Failure::invalid("abandon is true or false"))?;
    Ok((mode, abandon))
}

fn shown(name: Name<'_>, mode: Result<Option<DomainMode>, Refusal>) -> Result<Value, Failure> {
    let (account, what) = (&name.account.0, kind_name(name.kind));
    let Some(mode) = mode? else {
        let reason = format!("account {account} has no {what} {}", name.name);
        return Err(Failure::not_found(reason));
    };
    Ok(json!({
        "account": account,
        what: name.name,
        "mode": mode.mode.to_string(),
        "absent": mode.absent,
        "silent": mode.silent,
    }))
}
