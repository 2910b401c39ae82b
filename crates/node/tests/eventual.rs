//! Eventual writes and reads through the handle of a node: alone, and of three members.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod client;

use fader_node::{Call, Node, Wiring};
use fader_services::level::{Bound, Cause, ConsistencyOptions, Outcome, Outcomes};
use fader_services::simpledb::{Code, Expected, Limits, Request};
use fader_services::{Mode, Reason};

use asking::Ask as _;
use client::*;

#[tokio::test]
async fn a_lone_member_takes_and_settles_eventual_writes() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "carts", Mode::Mixed).await;

    let told = write(&node, put("carts", "i", "1"), eventual(1, 1))
        .await
        .unwrap();
    assert!(told.tentative && told.stamp.is_some() && told.outcome.is_none());
    let told = write(&node, put("carts", "i", "2"), settled(eventual(1, 1)))
        .await
        .unwrap();
    assert_eq!(told.outcome, Some(Outcomes::single(Outcome::Applied)));
    assert!(!told.tentative && told.version.is_some());
    // The head settles in the order in which it took them.
    assert_eq!(values(&node, "carts", "i", strong()).await, ["1", "2"]);

    write(&node, put("carts", "i", "3"), strong())
        .await
        .unwrap();
    assert_eq!(values(&node, "carts", "i", strong()).await, ["1", "2", "3"]);
    node.close().await;
}

#[tokio::test]
async fn an_eventual_read_shows_what_is_not_settled() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "carts", Mode::Mixed).await;
    let found = "select * from carts where a = '1'";
    for number in 0..20 {
        let item = format!("i{number}");
        let told = write(&node, put("carts", &item, "1"), eventual(1, 1))
            .await
            .unwrap();
        // At once, be it settled or not.
        let (values, shown) = get(&node, "carts", &item, eventual(1, 1)).await;
        assert_eq!(values, ["1"]);
        assert!(!shown.tentative || shown.stamp == told.stamp);
        let (items, _) = select(&node, found, eventual(1, 1)).await;
        assert_eq!(items.len(), number + 1);
    }
    let last = write(&node, put("carts", "last", "2"), settled(eventual(1, 1)));
    last.await.unwrap();
    let (values, shown) = get(&node, "carts", "i0", eventual(1, 1)).await;
    assert_eq!(values, ["1"]);
    assert!(!shown.tentative);
    assert_eq!(select(&node, found, strong()).await.0.len(), 20);
    node.close().await;
}

/// What was acknowledged before decides reads and conditions with a barrier (G8).
async fn a_barrier_takes_note(node: &Node, w: u8) {
    create_domain(node, "carts", Mode::Mixed).await;
    for number in 0..5 {
        let item = format!("i{number}");
        let told = write(node, put("carts", &item, "1"), eventual(1, w));
        told.await.unwrap();
        assert_eq!(values(node, "carts", &item, barrier()).await, ["1"]);

        let item = format!("j{number}");
        let told = write(node, put("carts", &item, "1"), eventual(1, w));
        told.await.unwrap();
        let Request::PutAttributes { domain, put, .. } = put("carts", &item, "2") else {
            panic!("it is a put");
        };
        let expected = vec![Expected {
            name: Some("a".to_owned()),
            value: Some("1".to_owned()),
            exists: None,
        }];
        let conditional = Request::PutAttributes {
            domain,
            put,
            expected,
        };
        write(node, conditional, barrier()).await.unwrap();
        assert_eq!(values(node, "carts", &item, strong()).await, ["1", "2"]);
    }
}

#[tokio::test]
async fn a_barrier_takes_note_of_what_is_not_settled() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    a_barrier_takes_note(&node, 1).await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_asks_all_members() {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, Wiring::Star);
    node.ready().await.unwrap();
    a_barrier_takes_note(&node, 1).await;
    node.close().await;
}

#[tokio::test]
async fn an_acknowledged_write_outlives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "carts", Mode::Mixed).await;
    let consistency = named(1, eventual(1, 1));
    write(&node, put("carts", "i", "1"), consistency.clone())
        .await
        .unwrap();
    node.close().await;
    drop(node);

    let node = alone(&folder, Limits::default());
    let told = write(&node, put("carts", "i", "1"), settled(consistency))
        .await
        .unwrap();
    assert_eq!(told.outcome, Some(Outcomes::single(Outcome::Applied)));
    assert_eq!(values(&node, "carts", "i", strong()).await, ["1"]);
    node.close().await;
}

#[tokio::test]
async fn a_level_goes_with_the_mode_and_the_members() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "strong", Mode::Strong).await;
    create_domain(&node, "mixed", Mode::Mixed).await;
    create_domain(&node, "eventual", Mode::Eventual).await;
    let code = async |domain: &str, consistency: ConsistencyOptions| {
        let told = write(&node, put(domain, "i", "1"), consistency).await;
        told.map(|told| told.tentative).map_err(|error| error.code)
    };
    let cases = [
        (
            "strong",
            eventual(1, 1),
            Err(Code::InvalidParameterCombination),
        ),
        ("strong", ConsistencyOptions::default(), Ok(false)),
        ("mixed", eventual(1, 1), Ok(true)),
        ("mixed", eventual(1, 2), Err(Code::InvalidParameterValue)),
        ("mixed", ConsistencyOptions::default(), Ok(false)),
        ("eventual", ConsistencyOptions::default(), Ok(true)),
        ("eventual", strong(), Err(Code::InvalidParameterCombination)),
        ("none", eventual(1, 1), Err(Code::NoSuchDomain)),
    ];
    for (domain, consistency, expected) in cases {
        let level = consistency.level;
        assert_eq!(
            code(domain, consistency).await,
            expected,
            "{domain} {level:?}"
        );
    }
    node.close().await;
}

#[tokio::test]
async fn a_name_is_settled_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder, Limits::default());
    create_domain(&node, "carts", Mode::Mixed).await;
    let consistency = named(1, eventual(1, 1));
    let first = write(&node, put("carts", "i", "1"), consistency.clone())
        .await
        .unwrap();
    let ended = write(&node, put("carts", "i", "1"), settled(consistency.clone()))
        .await
        .unwrap();
    assert_eq!(ended.outcome, Some(Outcomes::single(Outcome::Applied)));
    assert!(ended.stamp.is_none_or(|stamp| Some(stamp) == first.stamp));
    let again = write(&node, put("carts", "i", "1"), settled(consistency))
        .await
        .unwrap();
    assert_eq!(again.version, ended.version);

    let taken = write(&node, put("carts", "i", "1"), named(1, strong())).await;
    assert_eq!(taken.unwrap_err().code, Code::InvalidParameterCombination);
    node.close().await;
}

/// XO-6. A lone member keeps no digests: its folder may be opened by an older binary again.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_of_one_eventual_request() {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, Wiring::Star);
    node.ready().await.unwrap();
    create_domain(&node, "carts", Mode::Mixed).await;
    let request = |digest| ConsistencyOptions {
        digest,
        ..named(1, eventual(1, 3))
    };
    write(&node, put("carts", "i", "1"), request(1))
        .await
        .unwrap();
    // Held by all, at any member, and from the second round on settled.
    for _round in 0..3 {
        for _member in 0..3 {
            let taken = write(&node, put("carts", "i", "2"), request(2)).await;
            assert_eq!(taken.unwrap_err().code, Code::InvalidParameterCombination);
        }
        let again = write(&node, put("carts", "i", "1"), settled(request(1)))
            .await
            .unwrap();
        assert_eq!(again.outcome, Some(Outcomes::single(Outcome::Applied)));
    }
    assert_eq!(values(&node, "carts", "i", strong()).await, ["1"]);
    node.close().await;
}

#[tokio::test]
async fn a_limit_is_looked_at_once_more_when_it_is_settled() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        domain_pairs: 1,
        ..Limits::default()
    };
    let node = alone(&folder, limits);
    create_domain(&node, "carts", Mode::Mixed).await;
    // Both are accepted: they are judged by committed counters.
    let consistency = settled(eventual(1, 1));
    let (one, other) = tokio::join!(
        write(&node, put("carts", "i", "1"), consistency.clone()),
        write(&node, put("carts", "j", "1"), consistency),
    );
    assert_eq!(
        one.unwrap().outcome,
        Some(Outcomes::single(Outcome::Applied))
    );
    let cause = Cause::Limit(Code::NumberDomainAttributesExceeded);
    assert_eq!(
        other.unwrap().outcome,
        Some(Outcomes::single(Outcome::Superseded(Some(cause))))
    );
    assert_eq!(values(&node, "carts", "i", strong()).await, ["1"]);
    assert!(values(&node, "carts", "j", strong()).await.is_empty());
    node.close().await;
}

/// A write that is held by as many as are asked, then settled: every member shows it.
async fn is_settled_everywhere(wiring: Wiring) {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, wiring);
    node.ready().await.unwrap();
    create_domain(&node, "carts", Mode::Mixed).await;
    for w in 1..=3 {
        // Each time another member is the first to be asked.
        let item = format!("i{w}");
        let consistency = named(u64::from(w), eventual(1, w));
        let told = write(&node, put("carts", &item, "1"), consistency.clone())
            .await
            .unwrap();
        assert!(told.tentative || told.version.is_some());
        // R + W > 3 (G4), at any member.
        for _member in 0..3 {
            assert_eq!(
                values(&node, "carts", &item, eventual(4 - w, w)).await,
                ["1"]
            );
            if w == 3 {
                let found = format!("select * from carts where itemName() = '{item}'");
                assert_eq!(
                    select(&node, &found, eventual(1, 1)).await.0,
                    [item.as_str()]
                );
            }
        }
        let told = write(&node, put("carts", &item, "1"), settled(consistency))
            .await
            .unwrap();
        assert_eq!(told.outcome, Some(Outcomes::single(Outcome::Applied)));
        for _member in 0..3 {
            assert_eq!(values(&node, "carts", &item, strong()).await, ["1"]);
        }
    }
    let refused = write(&node, put("carts", "i", "1"), eventual(1, 4)).await;
    assert_eq!(refused.unwrap_err().code, Code::InvalidParameterValue);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_settle_a_write_in_a_star() {
    is_settled_everywhere(Wiring::Star).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_settle_a_write_in_a_chain() {
    is_settled_everywhere(Wiring::Chain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_at_two_members_is_not_lost_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, Wiring::Star);
    node.ready().await.unwrap();
    create_domain(&node, "carts", Mode::Mixed).await;
    for victim in ["n1", "n2", "n3"] {
        let item = format!("on {victim}");
        let told = write(&node, put("carts", &item, "1"), eventual(1, 2)).await;
        let cluster = node.cluster().unwrap();
        cluster.kill(victim).unwrap();
        told.unwrap();
        cluster.advance(SESSION);
        node.ready().await.unwrap();
        // Each holder has it settled, sooner or later.
        let shown = async {
            while values(&node, "carts", &item, strong()).await != ["1"] {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, shown).await.unwrap();
        cluster.restart(victim).unwrap();
        whole(&node).await;
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_that_is_away_may_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, Wiring::Star);
    node.ready().await.unwrap();
    create_domain(&node, "carts", Mode::Mixed).await;
    write(&node, put("carts", "i", "1"), eventual(1, 3))
        .await
        .unwrap();
    let cluster = node.cluster().unwrap();
    // Together: for a while both are late, and neither's session is over.
    cluster.kill("n2").unwrap();
    cluster.kill("n3").unwrap();
    cluster.advance(SESSION);
    serve(&node, &["n1"]).await;
    node.ready().await.unwrap();
    // As many as the chain has when they are back, and one more.
    let few = Some(Reason::TooFewMembers);
    for (w, expected) in [
        (2, (Code::ServiceUnavailable, few)),
        (3, (Code::ServiceUnavailable, few)),
        (4, (Code::InvalidParameterValue, None)),
    ] {
        let refused = write(&node, put("carts", "i", "2"), eventual(1, w)).await;
        let refused = refused.unwrap_err();
        assert_eq!((refused.code, refused.reason), expected, "w={w}");
        let request = read_of("carts", "i");
        let (refused, _) = node
            .ask(Call::new(&account(), request, eventual(w, 1)))
            .await;
        let refused = refused.unwrap_err();
        assert_eq!((refused.code, refused.reason), expected, "r={w}");
    }
    cluster.restart("n2").unwrap();
    cluster.restart("n3").unwrap();
    whole(&node).await;
    write(&node, put("carts", "i", "2"), eventual(1, 3))
        .await
        .unwrap();
    node.close().await;
}

fn bounded(bound: Bound) -> ConsistencyOptions {
    ConsistencyOptions {
        bound: Some(bound),
        ..eventual(1, 1)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_is_proven_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = three(&folder, Wiring::Star);
    node.ready().await.unwrap();
    create_domain(&node, "orders", Mode::Strong).await;
    // Each member shows what was acknowledged, with any knowledge of the commit. At first it shows
    // it from its log, and with its version all the same.
    for round in 0..20 {
        let bound = [Bound::Versions(0), Bound::Millis(0)][round % 2];
        let written = write(&node, put("orders", "i", "1"), strong()).await;
        let version = written.unwrap().version;
        for _member in 0..3 {
            let (values, told) = get(&node, "orders", "i", bounded(bound)).await;
            assert_eq!(values, ["1"]);
            assert_eq!((told.version, told.tentative), (version, false));
            assert!(told.stamp.is_some());
        }
    }
    // Without the coordinator there are no leases: what was not behind then is as old as that.
    let absent = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
    let cluster = node.cluster().unwrap();
    cluster.partition(&[Vec::new(), absent]).unwrap();
    cluster.advance(SESSION / 2);
    let now = bounded(Bound::Versions(0));
    let refused = write(&node, read_of("orders", "i"), now.clone()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, Code::ServiceUnavailable);
    assert_eq!(refused.reason, Some(Reason::NotFresh), "{refused}");
    let hour = bounded(Bound::Millis(3_600_000));
    assert_eq!(values(&node, "orders", "i", hour).await, ["1"]);
    cluster.heal();
    cluster.advance(PING);
    whole(&node).await;
    assert_eq!(values(&node, "orders", "i", now).await, ["1"]);
    node.close().await;
}
