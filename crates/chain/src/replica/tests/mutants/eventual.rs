//! The guards of eventual operations: each has a script that shows something else without it.

use super::super::script::{lines_of, shown_without};
use super::check;
use crate::{Guard, Guards};

macro_rules! missed {
    ($($name:ident: $guard:ident, $script:literal => $broken:literal;)*) => {$(
        #[test]
        fn $name() {
            check(Guard::$guard, &lines_of($script), $broken);
        }
    )*};
}

missed! {
    lease_stamp: LeaseStamp,
        "a_member_without_membership_or_lease_does_not_stamp"
        => "n1 answers 10: held";
    syncing_no_stamp: SyncingNoStamp,
        "a_member_without_membership_or_lease_does_not_stamp"
        => "n3 answers 14: held";
    eventual_dedupe: EventualDedupe,
        "a_retry_at_another_member_is_settled_once"
        => "n1 answers 16: at 1.4: k=b";
    eventual_digest: EventualDigest,
        "a_name_is_of_one_request"
        => "n2 answers 11: held";
    name_part: NamePart,
        "parts_of_a_batch_are_settled_apart"
        => "n1 answers 11: at 1.1: k=a";
    base_dirty: BaseDirty,
        "a_stamp_is_above_what_is_dirty"
        => "201/1 is 0.0";
    base_adopted: BaseAdopted,
        "a_stamp_waits_until_its_base_is_adopted"
        => "n1 answers 14: at 3.3: k=b";
    base_safe_point: BaseFloor,
        "a_stamp_is_above_what_is_dirty"
        => "301/1 is 0.0";
    base_overlay: BaseOverlay,
        "a_stamp_is_above_what_the_overlay_shows"
        => "n2 answers 15: at 1.1, tentatively: k=c";
    base_token: BaseToken,
        "a_session_stamps_above_what_it_wrote_elsewhere"
        => "n1 answers 14: at 1.4: k=c";
    base_opened: BaseOpened,
        "a_collection_opens_by_one_entry"
        => "201/1 is 0.0";
    stamp_clean: StampClean,
        "a_draining_collection_is_drained"
        => "n2 answers 15: held";
    close_committed: CloseCommitted,
        "members_are_asked_after_the_draining_entry_is_committed"
        => "n2 answers 16: gone";
    close_awaits: CloseAwaits,
        "a_draining_collection_waits_for_absent_members"
        => "n1 answers 13: done";
    drop_waits: DropWaits,
        "tombstones_are_kept_until_all_have_applied_the_settlements"
        => "n3 answers 16: at 1.6, tentative: [b\"a\"]";
    hand_on_all: HandOnAll,
        "the_writes_of_a_leaving_member_are_handed_off"
        => "n3 reports HandoffDone { epoch: 2 }\nn1 holds \nn2 holds \nn3 holds 301/1";
    leaving_takes_none: LeavingTakesNone,
        "a_leaving_member_holds_nothing_new"
        => "n3 to n1: Offer, Held";
    handed_on_ends: HandedOnEnds,
        "a_leaving_member_holds_nothing_new"
        => "n3 reports Adopted { epoch: 4 }";
    settles_own_time: SettlesOwnTime,
        "abandoned_writes_are_gone"
        => "n3 answers 18: at 4.8: cart-one/k=a";
    invisible_kept: InvisibleKept,
        "a_removal_that_finds_nothing_is_settled"
        => "n1 answers 14: at 1.2: k=a";
    overlay_apart: OverlayApart,
        "a_condition_sees_no_overlay"
        => "n1 answers 14: at 1.2: k=b";
    keep_until_committed: KeepUntilCommitted,
        "a_settlement_that_is_not_committed_dies_with_its_head"
        => "n3 answers 12: at 1.1: k=a";
    join_keeps_overlay: JoinKeepsOverlay,
        "the_writes_of_a_returning_member_are_handed_off"
        => "n1 answers 13: at 2.2: k=a";
    same_members_go_on: SameMembersGoOn,
        "an_epoch_with_the_same_members_stops_nothing"
        => "n2 answers 11: refused, NotServing";
    joint_w: JointW,
        "a_write_is_held_by_a_quorum_of_the_epoch_before"
        => "n1 answers 11: held, 101/1 is 1.1+1.1.0\nn1 holds";
    exchange: Exchange,
        "a_quorum_after_a_removal_waits_for_the_overlays"
        => "n3 answers 12: at 1.1, tentatively: k=a";
    silent_last: SilentLast,
        "a_silent_member_is_asked_last"
        => "n3 to n1: Show\nn3 answers 12";
    exchange_meets: ExchangeMeets,
        "a_quorum_after_a_removal_waits_for_the_overlays"
        => "n3 answers 12: at 1.1, tentatively: k=a";
    exchange_commit: ExchangeCommit,
        "a_quorum_after_a_removal_waits_for_the_commit"
        => "n3 answers 12: at 0.0";
    settle_by_name: SettleByName,
        "an_older_addition_survives_a_newer_write_of_another_value"
        => "n3 answers 12: at 1.1: k=b";
    prune_committed: PruneCommitted,
        "writes_hidden_by_a_refused_operation_are_shown"
        => "n3 answers 15: at 1.3: k=x";
    limit_whole: LimitWhole,
        "a_limit_refuses_all_of_an_operation"
        => "n1 answers 16: at 1.4: k=u+v";
    ack_attached: AckAttached,
        "an_acknowledgement_after_the_lease_is_detached"
        => "n2 answers 12: held, 201/2";
    rejoin_filter: RejoinFilter,
        "writes_of_a_returning_member_below_the_safe_point_are_judged"
        => "k=a+b";
    quarantine: Quarantine,
        "the_writes_of_a_returning_member_are_handed_off"
        => "n3 holds 301/1 is 1.1+1.3.0 with 1\nn3 reports";
    clock_bound: ClockBound,
        "a_clock_goes_on_after_a_restart"
        => "102/1 is 0.0+5000.1.0";
    window_refuses: WindowRefuses,
        "a_slow_promotion_is_not_refused_for_its_number"
        => "n2 answers 12: held";
    barrier_all: BarrierAll,
        "a_barrier_takes_note_of_what_others_hold"
        => "n1 answers 12: at 0.0";
    barrier_settles: BarrierSettles,
        "a_barrier_takes_note_of_what_others_hold"
        => "n1 answers 12: at 1.1: \n";
}

#[test]
#[should_panic(expected = "I14")]
fn promote_if_larger() {
    let guards = Guards::without([Guard::PromoteIfLarger]);
    shown_without(guards, &lines_of("superseded_is_told_at_the_commit"));
}

#[test]
#[should_panic(expected = "I14")]
fn base_numbered() {
    let guards = Guards::without([Guard::BaseNumbered]);
    shown_without(guards, &lines_of("a_forged_base_is_not_settled"));
}
