//! A chain whose last servers' disks are lost goes on with what another member has, when an
//! operator says so. It goes on with nothing less (AL-4 to AL-6).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod client;

use bytes::Bytes;
use fader_node::{Call, Node, Wiring};
use fader_services::level::ConsistencyOptions;
use fader_services::simpledb::{Code, Request};
use fader_services::{ErrorCode, Mode};

use asking::{Ask as _, Said};
use client::*;

/// Waits until the cluster's members are these, in any order.
async fn members_are(node: &Node, expected: &[&str]) {
    let cluster = node.cluster().unwrap();
    let serve = || {
        let (_, members) = cluster.status();
        let serving = members.into_iter().filter(|member| member.role.is_some());
        serving.map(|member| member.name).collect::<Vec<_>>()
    };
    let waiting = async {
        while serve() != expected {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

fn get_of(item: &str) -> Request {
    Request::GetAttributes {
        domain: "orders".to_owned(),
        item: item.to_owned(),
        names: Vec::new(),
        consistent: true,
    }
}

/// A read in the session of a token.
async fn read_after(node: &Node, token: Bytes) -> Said {
    let consistency = ConsistencyOptions {
        session: Some(token),
        ..strong()
    };
    node.ask(Call::new(&account(), get_of("i"), consistency))
        .await
}

/// The operator says so, as soon as the member has a session.
async fn go_on_with_n3(node: &Node) {
    let cluster = node.cluster().unwrap();
    let told = async {
        loop {
            let (newest, _) = cluster.status();
            assert_eq!(newest.unwrap().lossy.count, 0, "no member begins by itself");
            match cluster.restore("n3") {
                Ok(()) => return,
                Err(error) => assert_eq!(error.code, ErrorCode::StateConflict, "{error}"),
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
}

async fn goes_on_with_less(wiring: Wiring) {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, wiring);
    node.ready().await.unwrap();
    create_domain(&node, "orders", Mode::Strong).await;
    write(&node, put("orders", "i", "1"), strong())
        .await
        .unwrap();
    let cluster = node.cluster().unwrap();
    let refusal = |name: &str| cluster.restore(name).unwrap_err().to_string();
    assert!(
        refusal("n2").contains("nothing has to be lost"),
        "all serve"
    );
    // The third one is absent while others acknowledge, to a session and under a name.
    kill(&node, "n3");
    members_are(&node, &["n1", "n2"]).await;
    let with_session = ConsistencyOptions {
        session: Some(Bytes::new()),
        ..named(1, strong())
    };
    let told = write(&node, put("orders", "i", "2"), with_session.clone()).await;
    let token = told.unwrap().session.unwrap();
    // Both that have everything are lost with their disks; one came back with an empty one.
    kill(&node, "n1");
    kill(&node, "n2");
    std::fs::remove_dir_all(folder.path().join("n1")).unwrap();
    let n2 = folder.path().join("n2");
    std::fs::rename(&n2, folder.path().join("kept")).unwrap();
    assert!(refusal("n3").contains("does not run"));
    let codes = ["n3", "n9"].map(|name| cluster.restore(name).unwrap_err().code);
    assert_eq!(codes, [ErrorCode::StateConflict, ErrorCode::NotFound]);
    cluster.restart("n1").unwrap();
    cluster.restart("n3").unwrap();
    go_on_with_n3(&node).await;
    assert_eq!(values(&node, "orders", "i", strong()).await, ["1"]);
    members_are(&node, &["n1", "n3"]).await;
    // A session that saw more is told, once; the name is free.
    let (lost, told) = read_after(&node, token).await;
    assert_eq!(lost.unwrap_err().code, Code::TentativeValueLost);
    let token = told.session.unwrap();
    let (found, _) = read_after(&node, token).await;
    found.unwrap();
    write(&node, put("orders", "i", "2"), with_session)
        .await
        .unwrap();
    write(&node, put("orders", "i", "3"), strong())
        .await
        .unwrap();
    // A disk that was thought to be lost comes back: what only it has is discarded.
    std::fs::rename(folder.path().join("kept"), &n2).unwrap();
    cluster.restart("n2").unwrap();
    whole(&node).await;
    for _member in 0..3 {
        let shown = values(&node, "orders", "i", strong()).await;
        assert_eq!(shown, ["1", "2", "3"]);
    }
    let (newest, _) = cluster.status();
    let newest = newest.unwrap();
    assert_eq!(newest.lossy.count, 1);
    assert!(
        newest
            .absent
            .iter()
            .all(|absent| absent.disk != newest.members[0].disk)
    );
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_star_goes_on_with_less() {
    goes_on_with_less(Wiring::Star).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_goes_on_with_less() {
    goes_on_with_less(Wiring::Chain).await;
}
