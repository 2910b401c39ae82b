//! For each guard a script that shows something only where the guard is missing.

mod eventual;

use super::script::shown_without;
use crate::*;

/// A chain of one with more than goes into one part, and a member that has taken one part of it.
const HALF_FILLED: &str = "
    start 1
    configure 1 star 1
    run
    lease 1
    load 1 300 9000
    put 1 10 k a name=7/1
    run
    start 2
    floors
    configure 2 star 1 2s
    sync 1 2
    flush
    deliver 1 2
    flush
    deliver 2 1
    deliver 2 1
    flush
    deliver 1 2
";

/// The lines of a script, without what they show.
fn lines_of(name: &str) -> String {
    let script = std::fs::read_to_string(format!("testscripts/replica/{name}")).unwrap();
    let blocks = script.split("\n\n");
    let lines = blocks.filter_map(|block| Some(block.split_once("\n---")?.0));
    let lines = lines
        .flat_map(str::lines)
        .filter(|line| !line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

#[track_caller]
fn check(guard: Guard, script: &str, broken: &str) {
    let shown = shown_without(Guards::default(), script);
    assert!(!shown.contains(broken), "with all guards:\n{shown}");
    let shown = shown_without(Guards::without([guard]), script);
    assert!(shown.contains(broken), "without {guard:?}:\n{shown}");
}

#[test]
fn done_is_said_when_the_gap_is_closed() {
    check(Guard::FillDoneLast, HALF_FILLED, "n2 reports SyncDone");
}

#[test]
fn done_is_said_when_what_was_filled_is_durable() {
    let all_taken = "
        flush
        deliver 2 1
        deliver 2 1
        deliver 2 1
        flush
        deliver 1 2
        deliver 1 2
        deliver 1 2
        flush
        deliver 2 1
        deliver 1 2
    ";
    let script = format!("{HALF_FILLED}{all_taken}");
    check(Guard::FillPersisted, &script, "n2 reports SyncDone");
}

#[test]
fn done_is_said_of_the_handshake_of_its_epoch() {
    // The donor of epoch 3 lacked what that of epoch 4 has.
    let script = "
        start 1 2 3
        configure 1 star 1 2 3
        run
        lease 1 2 3
        put 1 10 k a
        run
        crash 3
        configure 2 star 1 2
        run
        start 3
        configure 3 star 1 2 3s
        run
        put 1 11 k b
        flush
        deliver 1 2
        sync 2
        crash 1
        configure 4 star 2 3s
        sync 2 3
        flush
        deliver 2 3
        tick 200
    ";
    let broken = "SyncDone { epoch: 4, last: EntryId { epoch: 1, index: 1 } }";
    check(Guard::FillSameEpoch, script, broken);
}

#[test]
fn entries_above_a_gap_wait() {
    let script = format!(
        "{HALF_FILLED}
        add 1 11 load000299 b
        run
        same 1 2
        "
    );
    check(Guard::FillDefers, &script, "different");
}

#[test]
fn results_come_with_the_state() {
    let script = format!(
        "{HALF_FILLED}
        run
        configure 3 star 1 2
        run
        crash 1
        configure 4 star 2
        run
        put 2 14 k x name=7/1
        run
        "
    );
    check(Guard::JoinBringsResults, &script, "n2 answers 14: done as");
}

#[test]
fn an_open_gap_is_reported() {
    let script = format!("{HALF_FILLED} tick 200");
    check(
        Guard::CollectWaitsGap,
        &script,
        "n2 reports Floor { epoch: 2, applied: EntryId { epoch: 1, index: 301 }, gap: false }",
    );
}

#[test]
fn applied_entries_are_reported() {
    // HOLE-12: the overlay still holds what the mark would have pruned.
    let script = "
        start 1 2
        configure 1 star 1 2
        run
        lease 1 2
        floors
        put 1 10 k a
        run
        hold 2
        del 1 11 k
        run
        tick 200
    ";
    let broken = "n2 reports Floor { epoch: 1, applied: EntryId { epoch: 1, index: 2 }";
    check(Guard::ReportApplied, script, broken);
}

#[test]
fn marks_go_by_their_entry() {
    // D7: the removal is settled before the addition that it is newer than.
    let script = "
        start 1 2
        configure 1 star 1 2
        run
        put 1 10 k a
        put 1 11 k a
        run
        floor 1.2
        configure 2 star 1 2
        run
        settle 1 remove k x 1.1 4
        run
        tick 200
        run
        settle 1 add k x 1.1 3
        run
        lease 1 2
        read 2 20 k
    ";
    check(Guard::CollectByEntry, script, "k=a+x");
}

#[test]
fn returning_operations_are_filtered_by_element() {
    let script = lines_of("a_removed_value_does_not_return_with_a_member");
    check(Guard::RejoinFilter, &script, "k=a+b");
    check(Guard::FilterPerElement, &script, "k=a+b");
}

#[test]
fn digests_are_compared() {
    let script = lines_of("a_rotten_row_is_told");
    let shown = shown_without(Guards::default(), &script);
    assert!(
        shown.contains("reports Differs"),
        "with all guards:\n{shown}"
    );
    let shown = shown_without(Guards::without([Guard::DigestCompare]), &script);
    assert!(!shown.contains("Differs"), "without the guard:\n{shown}");
}

#[test]
fn most_members_are_right() {
    let script = lines_of("a_commit_point_from_which_most_differ_is_wrong");
    check(Guard::DigestMajority, &script, "node: NodeId(2)");
}

#[test]
fn a_diverged_member_is_filled_with_any_log() {
    let script = lines_of("a_rotten_row_is_told");
    check(Guard::DiffersFills, &script, "different in 2 keys");
}

#[test]
fn of_two_the_head_is_right() {
    let script = lines_of("of_two_that_differ_the_head_is_right");
    check(Guard::DigestHead, &script, "node: NodeId(1)");
}

#[test]
fn a_member_that_may_believe_to_serve_does_not_leave() {
    // Member 3 has not heard that it serves no more. Were it left out, writes would be answered
    // without it, and it would show what was before.
    let stale = shown_without(
        Guards::default(),
        "
        start 1 2 3
        configure 1 star 1 2 3
        run
        lease 1 2 3
        put 1 10 k a
        run
        configure 2 star 1 2 3s to=1,2
        configure 3 star 1 2 to=1,2
        run
        put 1 11 k b
        run
        read 3 12 k
        ",
    );
    assert!(stale.contains("n1 answers 11"), "{stale}");
    assert!(stale.contains("n3 answers 12: at 1.1: k=a"), "{stale}");

    let member = |node: u32| Identity {
        node: NodeId(node),
        incarnation: Incarnation(1),
        disk: DiskId(u128::from(node)),
    };
    let first = controller::first(
        &[1, 2, 3].map(member),
        Wiring::Star,
        crate::version::Version::NEWEST,
    );
    let mut observed = controller::ObservedState {
        sessions: [1, 2, 3].map(member).to_vec(),
        unheard: Vec::new(),
        reports: controller::Reports::default(),
        size: 3,
        unwanted: Vec::new(),
        wiring: Wiring::Star,
        role_change: Some(controller::RoleChange::Demote(NodeId(3))),
        raise_safe_point: false,
        restart: None,
        version: crate::version::Version::NEWEST,
    };
    let second = controller::next(&first, &observed).unwrap();
    observed.role_change = None;
    let (epoch, id, node) = (2, EntryId::new(1, 1), NodeId(2));
    let report = Report::Differs { epoch, id, node };
    observed.reports.note(NodeId(1), report);
    assert_eq!(controller::next(&second, &observed), None);
    let guards = Guards::without([Guard::LeaveAdopted]);
    let third = controller::next_guarded(&second, &observed, &guards).unwrap();
    assert_eq!(third.member(NodeId(3)), None);
}

#[test]
fn returning_operations_are_filtered_by_ids() {
    let script = lines_of("an_operation_is_judged_by_ids");
    check(Guard::CollectByVersion, &script, "k=a+b");
}

#[test]
fn a_decision_that_was_cut_is_decided_anew() {
    // Member 3 alone gets the write; 2 does not have it, greets 3, and 3 lets go of it. When 3 is
    // head, a retry by name is a request that no head has decided.
    let script = "
        start 1 2 3
        configure 1 star 1 2 3
        run
        put 1 10 k a name=7/1
        flush
        deliver 1 3
        sync 3
        crash 1
        configure 2 star 2 3
        run
        configure 3 star 3 2
        run
        lease 2 3
        put 3 11 k a name=7/1
        run
    ";
    let shown = shown_without(Guards::default(), script);
    assert!(shown.contains("n3 answers 11: done as 3.1"), "{shown}");
    // With a result that outlived its entry the retry waits for what will never be committed.
    let shown = shown_without(Guards::without([Guard::TruncDropsResults]), script);
    assert!(!shown.contains("n3 answers 11"), "{shown}");
}
