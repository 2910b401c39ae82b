//! Each reason says what is waited for, and for whom.

use crate::config::DiskId;
use expect_test::expect;

use super::*;

#[test]
fn each_reason_names_its_subject_and_member() {
    let node = NodeId;
    let filling = TransferProgress {
        by: Some(node(1)),
        bytes: 130 << 20,
        bytes_per_second: 32 << 20,
    };
    let waits = [
        WaitReason::Restart(vec![(node(1), DiskId(7)), (node(2), DiskId(8))]),
        WaitReason::Others(vec![(node(2), DiskId(8)), (node(3), DiskId(9))]),
        WaitReason::Session(node(1)),
        WaitReason::Publication(9),
        WaitReason::Adoption(node(1), 9),
        WaitReason::Arrival(node(1)),
        WaitReason::Hearing(node(1)),
        WaitReason::Handoff(node(1)),
        WaitReason::Slow(node(1)),
        WaitReason::Turn(node(1), node(2)),
        WaitReason::Incarnation(node(1)),
        WaitReason::Members(2, 3),
        WaitReason::Disk(node(1)),
        WaitReason::Membership(node(1)),
        WaitReason::Handshake(node(1), node(2)),
        WaitReason::Lease(node(1)),
        WaitReason::Transfer(node(2), filling),
        WaitReason::Confirmation(node(1), 30, 1200),
        WaitReason::Failure(node(1)),
    ];
    let name = |NodeId(node)| format!("node-{node}");
    let words = waits.map(|it| wrapped(&wait(&it, Duration::from_secs(2), name)));
    expect![[r#"
        all members that served are down. Any one of these recovers the whole chain,
           once it is started on its own disk: node-1, node-2. If none can be, `fader
           cluster restore` goes on with less
        all members that served were down, and some are back. For at most 2s it waits
           for the others: node-2, node-3. Then the one with the longest log recovers
           the chain
        for a ping of node-1, or for the end of its session after 2s without one
        for a controller to publish epoch 9 in ZooKeeper
        for node-1 to report that it has adopted epoch 9
        for node-1, which joins, to hold everything: first a donor answers it and fills
           it
        for node-1, which joins and holds everything, to reach the member that commits
        for node-1, which is decommissioned, to hand off its eventual writes
        for node-1, which is slow to confirm; no other node can replace it, else the
           chain would go on without it
        for node-2 to have joined: then node-1 does, for one joins at a time
        for node-1, which was removed, to join with another incarnation
        for more members: there are 2 of 3, and no other node can join
        for the disk of node-1
        for node-1 to be added to the configuration
        for the handshake of node-1 by node-2
        for ZooKeeper to acknowledge a ping of node-1: its lease is over, and it serves
           nothing strong until then
        for the state transfer to node-2 from node-1: 130 MiB are compared and taken,
           at most 32 MiB/s
        for node-1 to confirm 30 entries; it takes 1200 ms
        for node-1, which has stopped, to be started again: its log says why"#]]
    .assert_eq(&words.join("\n"));
}

#[test]
fn a_domain_that_drains_names_the_awaited_members() {
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let why = draining("carts", names(&["n2"]), names(&["n1", "n3"]));
    expect![[r#"
        domain carts is draining, for n2 to come back with eventual writes that only it
           may have (or `fader cluster mode carts strong --abandon`), for n1, n3 to
           answer what it holds"#]]
    .assert_eq(&wrapped(&why));
}

#[test]
fn a_node_that_leaves_is_waited_for_with_the_order_that_ends_it() {
    let waits = [true, false].map(|has_disk| leaver("n1", ChainId(3), has_disk));
    let words = waits.map(|it| wrapped(&it));
    expect![[r#"
        for n1, which leaves, to hand off its writes of chain 3
        for n1, which leaves, to hand off its writes of chain 3, in a folder that no
           process has: start n1, if it was stopped. If it is gone for good, or the
           folder was damaged and is set aside, `fader cluster decommission n1 --lost`
           gives them up"#]]
    .assert_eq(&words.join("\n"));
}

/// In lines that are not too long for this file.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < 80 => *line += &format!(" {word}"),
            _ => lines.push(format!("   {word}")),
        }
    }
    lines.join("\n").trim_start().to_owned()
}

#[test]
fn a_chain_that_has_not_begun_names_those_that_are_not_there() {
    let of = |names: &[&str]| first_members(names.iter().map(|name| (*name).to_owned()));
    assert!(of(&["n2"]).ends_with(": n2 is missing"));
    assert!(of(&["n2", "n3"]).ends_with(": n2, n3 are missing"));
}

#[test]
fn a_failed_member_is_named_with_its_code_and_a_newer_wait_by_its_own() {
    let once = failed("n2", 1, "no space left on device", "store");
    let expected = "for the member of n2, which failed (no space left on device; store): it \
                    restarts by itself";
    assert_eq!(once, expected);
    let twice = failed("n2", 2, "no space left on device", "store");
    assert!(twice.contains("which failed 2 times ("), "{twice}");
    let unknown = newer("of-tomorrow");
    assert_eq!(
        unknown,
        "for what a newer version of Fader calls of-tomorrow"
    );
}
