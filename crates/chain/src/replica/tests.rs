//! Scripts of chains of several members, driven by hand.

mod cluster;
mod script;

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
    a_member_joins_by_entries
    a_member_joins_by_its_state
    a_member_joins_by_its_state_in_chain_wiring
}
