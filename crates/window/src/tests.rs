//! Scripts: one file per behaviour. Properties: any caller, any service.

mod property;
mod script;

use self::script::check;

#[test]
fn the_seed_starts_linearly_and_halves_once() {
    check("the_seed_starts_linearly_and_halves_once");
}

#[test]
fn the_seed_restarts_slowly_after_a_rest() {
    check("the_seed_restarts_slowly_after_a_rest");
}

#[test]
fn the_seed_tries_five_times_behind_the_rest() {
    check("the_seed_tries_five_times_behind_the_rest");
}

#[test]
fn requests_leave_evenly() {
    check("requests_leave_evenly");
}

#[test]
fn a_service_that_asks_for_quiet_gets_it() {
    check("a_service_that_asks_for_quiet_gets_it");
}

#[test]
fn a_request_that_may_have_taken_effect_is_not_repeated() {
    check("a_request_that_may_have_taken_effect_is_not_repeated");
}

#[test]
fn an_unsent_request_is_sent_again() {
    check("an_unsent_request_is_sent_again");
}

#[test]
fn a_deadline_ends_a_wait() {
    check("a_deadline_ends_a_wait");
}

#[test]
fn a_cancelled_request_gives_its_place_back() {
    check("a_cancelled_request_gives_its_place_back");
}

#[test]
fn a_refused_window_shrinks_to_two_requests_a_second() {
    check("a_refused_window_shrinks_to_two_requests_a_second");
}

#[test]
fn the_first_answer_ends_the_wait_of_an_outage() {
    check("the_first_answer_ends_the_wait_of_an_outage");
}

#[test]
fn a_service_that_never_took_anything_is_left_alone() {
    check("a_service_that_never_took_anything_is_left_alone");
}

#[test]
fn lanes_do_not_see_each_other() {
    check("lanes_do_not_see_each_other");
}
