//! A cluster in one process, for people who want to see what one does; and what the chains of any
//! cluster wait for.
//!
//! ```text
//! GET  /cluster/why            {"chains":["chain 0 (epoch 3, …) waits for nothing\n"]}
//! GET  /cluster/why/3          of chain 3 only
//! GET  /cluster/why/ACCOUNT/NAME  of the chain that has this domain
//! GET  /cluster            {"epoch","wiring","lossy","lossy_epoch",
//!                          "members":[{"name","state","role","side","epoch","commit_index"}]}
//! POST /cluster/kill       {"name":"n2"}
//! POST /cluster/restart    {"name":"n2"}
//! POST /cluster/pause      {"name":"n2","ms":5000}
//! POST /cluster/partition  {"sides":[["n1","n2"],["n3"]]}
//! POST /cluster/heal
//! POST /cluster/restore    {"name":"n3"}: goes on with what it has, though others had more
//! ```

use std::time::Duration;

use bytes::Bytes;
use fader_node::{ChainId, Cluster, ClusterError, Node, Wiring};
use fader_services::catalog::{AccountId, Name};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Failure, bad, failure};

/// Carries out one request.
pub(super) async fn answer(
    node: &Node,
    method: &Method,
    verb: &[&str],
    body: &Bytes,
) -> Result<Value, Failure> {
    if let (&Method::GET, ["why", of @ ..]) = (method, verb) {
        return why(node, of).await;
    }
    let Some(cluster) = node.cluster() else {
        let reason = "this node is alone: `fader dev` starts a cluster";
        return Err((StatusCode::NOT_FOUND, reason.to_owned()));
    };
    let order = match (method, verb) {
        (&Method::GET, []) => return Ok(status(cluster)),
        (&Method::POST, [verb]) => Order::read(verb, body)?,
        _ => return Err((StatusCode::NOT_FOUND, "there is no such order".to_owned())),
    };
    let node = node.clone();
    // A member that ends is waited for.
    let carried_out = tokio::task::spawn_blocking(move || match node.cluster() {
        Some(cluster) => order.carry_out(cluster),
        None => Ok(()),
    });
    match carried_out.await {
        Ok(Ok(())) => Ok(json!({})),
        Ok(Err(error)) => Err((StatusCode::CONFLICT, error.to_string())),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

/// What chains wait for: all, one by its number, or that of a domain.
async fn why(node: &Node, of: &[&str]) -> Result<Value, Failure> {
    let only = match of {
        [] => None,
        [number] => {
            let number = number.parse().map(ChainId);
            Some(number.map_err(|_| bad("a chain is a number".to_owned()))?)
        }
        [account, domain] => {
            let account = AccountId((*account).to_owned());
            let chain = node.chain_with(Name::domain(&account, domain)).await;
            Some(chain.map_err(|refusal| failure(&refusal))?)
        }
        _ => return Err(bad("why a chain, or a domain".to_owned())),
    };
    let why = node.why(only).await;
    if why.is_empty() {
        let reason = match only {
            Some(chain) => format!("there is no {chain}"),
            None => "this node is alone: it waits for nobody".to_owned(),
        };
        return Err((StatusCode::NOT_FOUND, reason));
    }
    let chains: Vec<String> = why.iter().map(ToString::to_string).collect();
    Ok(json!({ "chains": chains }))
}

enum Order {
    Kill(String),
    Restart(String),
    Pause(String, Duration),
    Partition(Vec<Vec<String>>),
    Heal,
    Restore(String),
}

impl Order {
    fn read(verb: &str, body: &Bytes) -> Result<Order, Failure> {
        let bad = |what: &str| (StatusCode::BAD_REQUEST, format!("{verb} needs {what}"));
        let value: Value = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(body).map_err(|_| bad("a body in JSON"))?,
        };
        let name = || {
            let name = value["name"].as_str();
            name.map(str::to_owned).ok_or_else(|| bad("a name"))
        };
        match verb {
            "kill" => Ok(Order::Kill(name()?)),
            "restart" => Ok(Order::Restart(name()?)),
            "pause" => {
                let ms = value["ms"].as_u64().ok_or_else(|| bad("a time in ms"))?;
                Ok(Order::Pause(name()?, Duration::from_millis(ms)))
            }
            "partition" => serde_json::from_value(value["sides"].clone())
                .map(Order::Partition)
                .map_err(|_| bad("sides, each a list of names")),
            "heal" => Ok(Order::Heal),
            "restore" => Ok(Order::Restore(name()?)),
            _ => Err((StatusCode::NOT_FOUND, format!("there is no order {verb}"))),
        }
    }

    fn carry_out(self, cluster: &Cluster) -> Result<(), ClusterError> {
        match self {
            Order::Kill(name) => cluster.kill(&name),
            Order::Restart(name) => cluster.restart(&name),
            Order::Pause(name, time) => cluster.pause(&name, time),
            Order::Partition(sides) => cluster.partition(&sides),
            Order::Restore(name) => cluster.restore(&name),
            Order::Heal => {
                cluster.heal();
                Ok(())
            }
        }
    }
}

fn status(cluster: &Cluster) -> Value {
    let (newest, members) = cluster.status();
    let members = members.into_iter().map(|member| {
        json!({
            "name": member.name,
            "state": member.state,
            "role": member.role,
            "side": member.side,
            "epoch": member.epoch,
            "commit_index": member.commit_index,
        })
    });
    let lossy = newest.as_ref().map(|newest| newest.lossy);
    let lossy = lossy.unwrap_or_default();
    let wiring = newest.as_ref().map(|newest| match newest.wiring {
        Wiring::Star => "star",
        Wiring::Chain => "chain",
    });
    json!({
        "epoch": newest.as_ref().map_or(0, |newest| newest.epoch),
        "wiring": wiring,
        "lossy": lossy.count,
        "lossy_epoch": lossy.epoch,
        "members": members.collect::<Vec<_>>(),
    })
}
