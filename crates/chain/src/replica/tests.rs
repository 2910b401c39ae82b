//! Scripts of chains of several members, driven by hand.

mod cluster;
mod convergence;
#[cfg(feature = "mutants")]
mod mutants;
mod random;
mod script;
mod toy;
mod words;

use script::check;

/// One test per script.
macro_rules! scripts {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )*};
}

scripts! {
    a_quorum_waits_for_no_silent_member
    a_silent_member_is_asked_last
    a_handshake_waits_for_its_configuration
    a_walk_of_digests_rests_when_nothing_changes
    a_member_at_rest_is_left_alone
    a_collection_opens_by_one_entry
    a_member_ahead_of_an_old_copy_stops
    a_copy_that_serves_behind_its_donor_stops
    the_writes_of_a_leaving_member_are_handed_off
    a_leaving_member_holds_nothing_new
    a_draining_collection_is_drained
    a_draining_collection_waits_for_absent_members
    a_change_of_mode_is_taken_back
    a_member_behind_a_change_of_mode_does_not_stamp
    abandoned_writes_are_gone
    a_quorum_read_shows_the_newest_commit
    a_member_says_what_it_waits_for
    tombstones_are_kept_until_all_have_applied_the_settlements
    members_are_asked_after_the_draining_entry_is_committed
    a_settled_write_is_acknowledged_when_w_members_have_it
    a_slow_promotion_is_not_refused_for_its_number
    a_stamp_is_above_what_the_overlay_shows
    a_removal_that_finds_nothing_is_settled
    the_writes_of_a_returning_member_are_handed_off
    writes_of_a_returning_member_below_the_safe_point_are_judged
    writes_hidden_by_a_refused_operation_are_shown
    superseded_is_told_at_the_commit
    parts_of_a_batch_are_settled_apart
    merging_refuses_no_clock
    an_older_addition_survives_a_newer_write_of_another_value
    an_acknowledgement_after_the_lease_is_detached
    a_write_is_held_by_a_quorum_of_the_epoch_before
    a_strong_removal_of_a_tentative_write_wins
    a_stamp_is_above_what_is_dirty
    a_stamp_waits_until_its_base_is_adopted
    a_stamp_waits_for_heads_that_it_does_not_know
    a_stamp_waits_for_no_member_that_was_not_head
    a_settlement_that_is_not_committed_dies_with_its_head
    a_session_stamps_above_what_it_wrote_elsewhere
    a_session_reads_its_writes_at_any_member
    a_session_waits_for_what_its_token_cannot_name
    a_retry_at_another_member_is_settled_once
    a_name_belongs_to_its_account
    a_name_is_of_one_request
    names_wait_for_their_version
    a_digest_waits_for_its_version
    a_refused_operation_leaves_every_overlay
    a_quorum_read_joins_and_repairs
    a_quorum_after_a_removal_waits_for_the_overlays
    a_quorum_after_a_removal_waits_for_the_commit
    a_member_without_membership_or_lease_does_not_stamp
    a_lost_operation_ends_in_an_error
    a_limit_refuses_all_of_an_operation
    a_forged_base_is_not_settled
    a_condition_sees_no_overlay
    a_clock_goes_on_after_a_restart
    a_barrier_takes_note_of_what_others_hold
    an_eventual_write_is_held_and_settled
    an_epoch_with_the_same_members_stops_nothing
    a_write_takes_its_way_in_star_wiring
    a_write_takes_its_way_in_chain_wiring
    a_dirty_read_asks_the_commit_point
    the_work_of_members_is_counted
    a_new_head_waits_for_what_it_inherited
    an_uncommitted_suffix_is_cut
    a_moved_head_counts_its_own_epoch_only
    a_deposed_head_answers_nothing
    a_refusal_is_an_entry
    a_retry_finds_its_result
    results_of_idle_clients_are_dropped
    conditions_pipeline
    lost_messages_are_sent_again
    a_full_member_refuses_writes
    a_stamp_is_based_on_a_settlement
    a_removed_value_does_not_return_with_a_member
    an_operation_is_judged_by_ids
    the_writes_of_a_member_are_handed_off
    a_rotten_row_is_told
    a_fill_is_no_faster_than_its_rate
    a_chain_goes_on_with_what_a_member_has
    a_diverged_member_is_filled_after_its_crash
    of_two_that_differ_the_head_is_right
    messages_of_an_old_epoch_are_dropped_and_logged_once
    a_member_that_does_not_confirm_is_slow
    a_repeatedly_slow_member_is_removed
    one_of_two_serving_members_is_waited_for_longer
    a_slow_member_rests_unless_another_serves_alone
    a_head_that_no_member_confirms_is_slow
    the_first_of_a_chain_that_does_not_confirm_is_slow
    the_first_of_a_chain_in_which_all_owe_is_slow
    a_head_of_a_chain_that_no_member_answers_is_slow
    a_head_that_is_heard_again_gives_others_time
    a_commit_point_from_which_most_differ_is_wrong
    an_incarnation_whose_membership_came_and_went_unheard_ends
    a_joining_member_is_heard_though_its_confirmation_is_lost
    a_member_joins_by_entries
    tombstones_are_collected_by_entries_of_the_head
    attributes_keep_their_order_when_tombstones_go
    lost_chunks_of_a_transfer_are_requested_again
    a_fill_compares_anew_in_a_new_epoch
    a_transfer_goes_on_with_another_donor
    a_lone_member_serves_acknowledged_writes
    a_member_whose_disk_is_lost_joins_as_a_new_one
    a_half_filled_state_answers_nothing
    entries_above_a_gap_wait_until_it_is_closed
    entries_above_a_gap_are_applied_in_parts
    a_word_of_an_old_epoch_ends_no_joining
    a_member_joins_by_its_state
    a_member_joins_by_its_state_in_chain_wiring
}
