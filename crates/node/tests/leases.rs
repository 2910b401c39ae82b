//! Leases and sessions of three members on a clock that the test moves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod client;

use fader_node::{Node, Wiring};
use fader_services::simpledb::Error;
use fader_services::{Mode, Reason};

use client::*;

/// Three members that serve, and an item with the value 1.
async fn three_with_an_item(folder: &tempfile::TempDir, wiring: Wiring) -> Node {
    let node = three(folder, wiring);
    node.ready().await.unwrap();
    create_domain(&node, "orders", Mode::Strong).await;
    whole(&node).await;
    put_strongly(&node, "1").await;
    node
}

async fn put_strongly(node: &Node, value: &str) {
    let written = write(node, put("orders", "i", value), strong()).await;
    written.unwrap();
}

/// Which refusal a strong read meets.
async fn refusal(node: &Node) -> Option<Error> {
    write(node, read_of("orders", "i"), strong()).await.err()
}

/// It shows MOVED-1.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_live_keep_their_sessions_through_any_time() {
    for wiring in [Wiring::Star, Wiring::Chain] {
        let folder = tempfile::tempdir().unwrap();
        let node = three_with_an_item(&folder, wiring).await;
        let before = epoch(&node);
        node.cluster().unwrap().advance(5 * SESSION);
        assert_eq!(epoch(&node), before);
        for name in ["n1", "n2", "n3"] {
            ask_only(&node, name);
            assert_eq!(
                values(&node, "orders", "i", strong()).await,
                ["1"],
                "{name}"
            );
        }
        put_strongly(&node, "2").await;
        assert_eq!(epoch(&node), before);
        node.close().await;
    }
}

async fn loses_its_lease_when_cut_off(wiring: Wiring) {
    let folder = tempfile::tempdir().unwrap();
    let node = three_with_an_item(&folder, wiring).await;
    let (before, cluster) = (epoch(&node), node.cluster().unwrap());
    cut_off_n3(&node);
    ask_only(&node, "n3");
    // A lease is half as long as a session, and some time has passed since the last ping.
    cluster.advance(SESSION / 4);
    assert_eq!(values(&node, "orders", "i", strong()).await, ["1"]);
    cluster.advance(SESSION / 4);
    let refused = refusal(&node).await;
    let reason = refused.as_ref().and_then(|refused| refused.reason);
    assert_eq!(reason, Some(Reason::NoMember), "{refused:?}");
    // Its session is not over. Who asks all members is answered by another one.
    assert_eq!(epoch(&node), before);
    ask_any(&node);
    for _member in 0..3 {
        assert_eq!(values(&node, "orders", "i", strong()).await, ["1"]);
    }
    cluster.advance(SESSION / 2);
    serve(&node, &["n1", "n2"]).await;
    put_strongly(&node, "2").await;
    cluster.heal();
    cluster.advance(RETURN);
    whole(&node).await;
    ask_only(&node, "n3");
    assert_eq!(values(&node, "orders", "i", strong()).await, ["1", "2"]);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_a_star_that_is_cut_off_loses_lease_and_session() {
    loses_its_lease_when_cut_off(Wiring::Star).await;
}

/// The last member is the one that names the prefix.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_a_chain_that_is_cut_off_loses_lease_and_session() {
    loses_its_lease_when_cut_off(Wiring::Chain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_paused_loses_its_session_and_comes_back() {
    for victim in ["n1", "n3"] {
        let folder = tempfile::tempdir().unwrap();
        let node = three_with_an_item(&folder, Wiring::Star).await;
        let (before, cluster) = (epoch(&node), node.cluster().unwrap());
        cluster.pause(victim, 2 * SESSION).unwrap();
        cluster.advance(SESSION - 2 * PING);
        assert_eq!(epoch(&node), before);
        cluster.advance(2 * PING);
        let mut others = vec!["n1", "n2", "n3"];
        others.retain(|name| *name != victim);
        serve(&node, &others).await;
        put_strongly(&node, "2").await;
        let is_paused = || {
            let (_, members) = cluster.status();
            let mut named = members.iter().filter(|it| it.name == victim);
            named.any(|it| it.state == "paused")
        };
        assert!(is_paused());
        // The pause ends by the clock, too.
        cluster.advance(SESSION + RETURN);
        assert!(!is_paused());
        whole(&node).await;
        ask_only(&node, victim);
        let shown = values(&node, "orders", "i", strong()).await;
        assert_eq!(shown, ["1", "2"], "{victim}");
        node.close().await;
    }
}
