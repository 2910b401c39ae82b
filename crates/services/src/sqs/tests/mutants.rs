//! Each guard of the queues is needed: without it the random scripts or a script of its own tell.

use fader_chain::{Guard, Guards};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use super::fixture::*;
use super::model::{acts, compare};
use crate::policy::Principal;
use crate::sqs::command::*;

/// Random scripts that one mutant is given at most.
const SCRIPTS: usize = 3_000;

/// Where random scripts tell a queue without this guard from its model.
fn told_by_scripts(guard: Guard) -> Option<String> {
    let mut runner = TestRunner::deterministic();
    let scripts = proptest::collection::vec(acts(), 1..60);
    (0..SCRIPTS).find_map(|at| {
        let script = scripts.new_tree(&mut runner).unwrap().current();
        let told = compare(at % 2 == 0, &script, Guards::without([guard]));
        told.err()
            .map(|difference| format!("{difference} of {script:?}"))
    })
}

fn without(guard: Guard, mut chain: Chain) -> Chain {
    chain.guards = Guards::without([guard]);
    chain
}

#[test]
fn random_scripts_find_a_replica_without_a_guard() {
    for guard in [
        Guard::QueueDeadline,
        Guard::QueueGroup,
        Guard::QueueDuplicate,
        Guard::QueueMark,
        Guard::QueueTime,
        Guard::QueueHandleNewest,
        Guard::QueuePurge,
        Guard::QueueExpiry,
        Guard::QueueDelay,
    ] {
        assert!(told_by_scripts(guard).is_some(), "{guard:?} is not missed");
        println!("caught: {guard:?}");
    }
    assert_eq!(
        told_by_scripts(Guard::QueueWake),
        None,
        "scripts have no long polls"
    );
}

#[test]
fn a_window_that_never_ends_is_told() {
    let mut chain = without(Guard::QueueDuplicateEnds, Chain::with_fifo(&[]));
    let first = chain.send_to("a", "1");
    chain.pass(301);
    assert_eq!(chain.send_to("a", "1").id, first.id);
    println!("caught: {:?}", Guard::QueueDuplicateEnds);
}

#[test]
fn a_forged_handle_is_told() {
    let mut chain = without(Guard::QueueHandle, Chain::with_queue(&[]));
    chain.send(Q, "one");
    let held = chain.receive(Q, 1).remove(0);
    let mut forged = held.handle.into_bytes();
    *forged.last_mut().unwrap() = b'A';
    chain
        .delete(Q, &String::from_utf8(forged).unwrap())
        .unwrap();
    assert_eq!(chain.rows_of(Q), 0);
    println!("caught: {:?}", Guard::QueueHandle);
}

#[test]
fn too_many_in_flight_are_told() {
    let mut chain = without(Guard::QueueInFlight, Chain::with_queue(&[]));
    chain.limits.in_flight = 1;
    chain.send(Q, "one");
    chain.send(Q, "two");
    assert_eq!(chain.receive(Q, 10).len(), 2);
    println!("caught: {:?}", Guard::QueueInFlight);
}

#[test]
fn a_lost_wake_up_is_told() {
    let mut chain = without(Guard::QueueWake, Chain::with_queue(&[]));
    chain.send(Q, "one");
    chain.receive(Q, 1);
    let poll = Command::ReceiveMessage(ReceiveMessage {
        wait_seconds: Some(20),
        arrived_ms: START,
        ..receive(Q, 1)
    });
    let request = chain.request(poll);
    assert_eq!(chain.decide(&request).unwrap_err().wake_ms, None);
    println!("caught: {:?}", Guard::QueueWake);
}

/// A queue whose letters go to `failed` after one receive.
fn with_letters() -> Chain {
    let mut chain = Chain::new(0);
    chain.create("failed", &[]).unwrap();
    let redrive = format!(
        r#"{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:{ACCOUNT}:failed","maxReceiveCount":1}}"#
    );
    let attributes = [
        ("VisibilityTimeout", "0"),
        ("RedrivePolicy", redrive.as_str()),
    ];
    chain.create(Q, &attributes).unwrap();
    chain.send(Q, "bad");
    assert_eq!(chain.bodies(Q, 1), ["bad"]);
    chain
}

#[test]
fn a_dead_letter_that_stays_or_is_in_both_queues_is_told() {
    let mut stays = without(Guard::QueueDeadLetter, with_letters());
    assert_eq!(stays.bodies(Q, 1), ["bad"]);
    let mut both = without(Guard::QueueMoveWhole, with_letters());
    both.receive(Q, 1);
    assert_eq!(both.bodies("failed", 1), ["bad"]);
    assert_ne!(both.rows_of(Q), 0, "it is in both");
    println!("caught: {:?}", Guard::QueueDeadLetter);
    println!("caught: {:?}", Guard::QueueMoveWhole);
}

#[test]
fn a_policy_that_is_not_asked_is_told() {
    let mut chain = without(Guard::QueuePolicy, Chain::with_queue(&[]));
    chain.caller = Caller::of(Principal::Anonymous);
    chain.send(Q, "from anyone");
    println!("caught: {:?}", Guard::QueuePolicy);
}
