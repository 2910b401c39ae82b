//! A cluster in one process, for people who want to see what one does; and what the chains of any
//! cluster wait for.
//!
//! ```text
//! GET  /cluster/diagnose            {"chains":["chain 0 (epoch 3, …) waits for nothing\n"]}
//! GET  /cluster/diagnose/3          of chain 3 only
//! GET  /cluster/diagnose/ACCOUNT/NAME  of the chain that has this domain
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
use hyper::Method;
use serde_json::{Value, json};

use super::Failure;

/// Carries out one request.
pub(super) async fn answer(
    node: &Node,
    method: &Method,
    verb: &[&str],
    body: &Bytes,
) -> Result<Value, Failure> {
    if let (&Method::GET, ["diagnose", of @ ..]) = (method, verb) {
        return wait_reports(node, of).await;
    }
    let Some(cluster) = node.cluster() else {
        let reason = "this node is alone: `fader dev` starts a cluster";
        return Err(Failure::not_found(reason));
    };
    let order = match (method, verb) {
        (&Method::GET, []) => return Ok(status(cluster)),
        (&Method::POST, [verb]) => Order::read(verb, body)?,
        _ => return Err(Failure::not_found("there is no such order")),
    };
    let node = node.clone();
    // A member that ends is waited for.
    let carried_out = tokio::task::spawn_blocking(move || match node.cluster() {
        Some(cluster) => order.carry_out(cluster),
        None => Ok(()),
    });
    carried_out.await??;
    Ok(json!({}))
}

/// What chains wait for: all, one by its number, or that of a domain.
async fn wait_reports(node: &Node, of: &[&str]) -> Result<Value, Failure> {
    let only = match of {
        [] => None,
        [number] => {
            let number = number.parse().map(ChainId);
            Some(number.map_err(|_| Failure::invalid("a chain is a number"))?)
        }
        [account, domain] => {
            let account = AccountId((*account).to_owned());
            let chain = node.chain_with(Name::domain(&account, domain)).await;
            Some(chain?)
        }
        _ => return Err(Failure::invalid("why a chain, or a domain")),
    };
    let why = node.wait_reports(only).await;
    if why.is_empty() {
        let reason = match only {
            Some(chain) => format!("there is no {chain}"),
            None => "this node is alone: it waits for no other node".to_owned(),
        };
        return Err(Failure::not_found(reason));
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
        let bad = |what: &str| Failure::invalid(format!("{verb} needs {what}"));
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
            _ => Err(Failure::not_found(format!("there is no order {verb}"))),
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
