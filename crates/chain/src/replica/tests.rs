//! Scripts of chains of several members, driven by hand.

mod cluster;
#[cfg(feature = "mutants")]
mod mutants;
mod random;
mod script;
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
    an_eventual_write_is_held_and_settled
    a_write_takes_its_way_in_star_wiring
    a_write_takes_its_way_in_chain_wiring
    a_dirty_read_asks_the_commit_point
    a_new_head_waits_for_what_it_inherited
    an_uncommitted_suffix_is_cut
    a_moved_head_counts_its_own_epoch_only
    a_deposed_head_answers_nothing
    a_refusal_is_an_entry
    a_retry_finds_its_result
    conditions_pipeline
    lost_messages_are_sent_again
    a_removed_value_does_not_return_with_a_member
    an_operation_is_judged_by_ids
    what_a_member_held_is_handed_on
    a_member_joins_by_entries
    marks_are_collected_by_entries_of_the_head
    attributes_keep_their_order_when_marks_go
    what_is_lost_of_a_fill_is_asked_for_again
    a_fill_goes_on_with_another_greeter
    a_member_alone_serves_what_was_acknowledged
    a_member_whose_disk_is_lost_joins_as_a_new_one
    a_half_filled_state_answers_nothing
    entries_above_a_gap_wait_until_it_is_closed
    a_word_of_an_old_epoch_ends_no_joining
    a_member_joins_by_its_state
    a_member_joins_by_its_state_in_chain_wiring
}
