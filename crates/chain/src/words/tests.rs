//! Each reason says what is waited for, and for whom.

use crate::config::DiskId;
use expect_test::expect;

use super::*;

#[test]
fn each_reason_names_what_and_who() {
    let node = NodeId;
    let filling = Filling {
        by: Some(node(1)),
        bytes: 130 << 20,
        bytes_per_second: 32 << 20,
    };
    let waits = [
        Wait::Restart(vec![(node(1), DiskId(7)), (node(2), DiskId(8))]),
        Wait::Others(vec![(node(2), DiskId(8)), (node(3), DiskId(9))]),
        Wait::Session(node(1)),
        Wait::Publication(9),
        Wait::Adoption(node(1), 9),
        Wait::Arrival(node(1)),
        Wait::Hearing(node(1)),
        Wait::HandingOn(node(1)),
        Wait::Slow(node(1)),
        Wait::Turn(node(1), node(2)),
        Wait::Life(node(1)),
        Wait::Members(2, 3),
        Wait::Disk(node(1)),
        Wait::Seat(node(1)),
        Wait::Greeting(node(1), node(2)),
        Wait::Lease(node(1)),
        Wait::Fill(node(2), filling),
        Wait::Confirmation(node(1), 30, 1200),
        Wait::Failure(node(1)),
    ];
    let name = |NodeId(node)| format!("node-{node}");
    let words = waits.map(|it| wrapped(&wait(&it, Duration::from_secs(2), name)));
    expect![[r#"
        all members that served are down. Any one of these, started on its own disk,
           begins again with everything: node-1, node-2. If none can be, `fader cluster
           restore` goes on with less
        all members that served were down, and some are back. For at most 2s it waits
           for the others: node-2, node-3. Then the one that has most begins again
        for node-1 to be heard of again, or for the end of its session, which comes
           when it was silent for 2s
        for a controller to publish epoch 9 in ZooKeeper, which what is known asks for
        for node-1 to say that it has adopted epoch 9
        for node-1, which joins, to hold everything: until then it is greeted, filled
           or sent what it lacks
        for node-1, which joins and holds everything, to be heard by the member that
           commits
        for node-1, which leaves for good, to hand on the eventual writes that it holds
        for node-1, which is slow to confirm; nobody can take its place, else the chain
           would go on without it
        for node-2 to have joined: then node-1 does, for one joins at a time
        for node-1, which was left out, to begin another life, and join
        for more members: there are 2 of 3, and nobody else is there to join
        for the disk of node-1
        for a place for node-1 in the configuration
        for the greeting of node-1 by node-2
        for ZooKeeper to acknowledge a ping of node-1: its lease is over, and it serves
           nothing strong until then
        for node-2 to be filled by node-1: 130 MiB are compared and taken, at most 32
           MiB a second
        for node-1 to confirm 30 entries; it takes 1200 ms
        for node-1, which has stopped, to be started again: its log says why"#]]
    .assert_eq(&words.join("\n"));
}

#[test]
fn a_domain_that_closes_names_who_is_awaited() {
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(closing("carts", Vec::new(), Vec::new()), None);
    let why = closing("carts", names(&["n2"]), names(&["n1", "n3"])).unwrap();
    expect![[r#"
        domain carts is closing, for n2 to come back with eventual writes that only it
           may have (or `fader cluster mode carts strong --abandon`), for n1, n3 to
           answer what it holds"#]]
    .assert_eq(&wrapped(&why));
}

#[test]
fn a_node_that_leaves_is_waited_for_with_the_order_that_ends_it() {
    let waits = [true, false].map(|has_disk| leaver("n1", ChainId(3), has_disk));
    let words = waits.map(|it| wrapped(&it));
    expect![[r#"
        for n1, which leaves, to hand on what it held of chain 3
        for n1, which leaves, to hand on what it may hold of chain 3, in a folder that
           no process has: start n1, if it was stopped. If it is gone for good, or the
           folder was damaged and is set aside, the order with --lost gives that up:
           `fader cluster drain n1 --lost`"#]]
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
