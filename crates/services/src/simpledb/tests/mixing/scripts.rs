//! The scripts, each a test by its name.

use super::check;

#[test]
fn all_orders() {
    check("all-orders");
}

#[test]
fn batch_eventual_per_item() {
    check("batch-eventual-per-item");
}

#[test]
fn batch_strong_one_entry() {
    check("batch-strong-one-entry");
}

#[test]
fn collect_per_element() {
    check("collect-per-element");
}

#[test]
fn consistent_eventual_refused() {
    check("consistent-eventual-refused");
}

#[test]
fn counters_pipelined() {
    check("counters-pipelined");
}

#[test]
fn create_domain_race() {
    check("create-domain-race");
}

#[test]
fn delete_domain_race() {
    check("delete-domain-race");
}

#[test]
fn delete_domain_tentative() {
    check("delete-domain-tentative");
}

#[test]
fn delete_marks() {
    check("delete-marks");
}

#[test]
fn delete_then_late_add() {
    check("delete-then-late-add");
}

#[test]
fn domains_strong() {
    check("domains-strong");
}

#[test]
fn expected_barrier() {
    check("expected-barrier");
}

#[test]
fn expected_eventual_refused() {
    check("expected-eventual-refused");
}

#[test]
fn expected_ignores_overlay() {
    check("expected-ignores-overlay");
}

#[test]
fn expected_then_late_value() {
    check("expected-then-late-value");
}

#[test]
fn get_default() {
    check("get-default");
}

#[test]
fn get_order() {
    check("get-order");
}

#[test]
fn get_order_settles() {
    check("get-order-settles");
}

#[test]
fn get_quorum() {
    check("get-quorum");
}

#[test]
fn get_tentative() {
    check("get-tentative");
}

#[test]
fn index_collect() {
    check("index-collect");
}

#[test]
fn index_follows_promotion() {
    check("index-follows-promotion");
}

#[test]
fn index_invisible() {
    check("index-invisible");
}

#[test]
fn index_is_committed() {
    check("index-is-committed");
}

#[test]
fn index_true_stamp() {
    check("index-true-stamp");
}

#[test]
fn level_by_mode() {
    check("level-by-mode");
}

#[test]
fn limit_all_leave() {
    check("limit-all-leave");
}

#[test]
fn limit_at_promotion() {
    check("limit-at-promotion");
}

#[test]
fn limit_is_whole() {
    check("limit-is-whole");
}

#[test]
fn limit_shrinking_passes() {
    check("limit-shrinking-passes");
}

#[test]
fn limit_strong_first() {
    check("limit-strong-first");
}

#[test]
fn limit_uncovers() {
    check("limit-uncovers");
}

#[test]
fn marks_only() {
    check("marks-only");
}

#[test]
fn metadata_committed() {
    check("metadata-committed");
}

#[test]
fn mode_there_and_back() {
    check("mode-there-and-back");
}

#[test]
fn put_again() {
    check("put-again");
}

#[test]
fn recreate_domain() {
    check("recreate-domain");
}

#[test]
fn refusal_is_entry() {
    check("refusal-is-entry");
}

#[test]
fn refusal_retried() {
    check("refusal-retried");
}

#[test]
fn replace_late() {
    check("replace-late");
}

#[test]
fn replace_replace() {
    check("replace-replace");
}

#[test]
fn replace_stamped() {
    check("replace-stamped");
}

#[test]
fn retry_two_members() {
    check("retry-two-members");
}

#[test]
fn select_count() {
    check("select-count");
}

#[test]
fn select_overlay() {
    check("select-overlay");
}

#[test]
fn select_overlay_index() {
    check("select-overlay-index");
}

#[test]
fn select_pages() {
    check("select-pages");
}

#[test]
fn select_r1() {
    check("select-r1");
}

#[test]
fn shop() {
    check("shop");
}

#[test]
fn strong_delete_of_tentative() {
    check("strong-delete-of-tentative");
}

#[test]
fn two_attributes() {
    check("two-attributes");
}

#[test]
fn two_values() {
    check("two-values");
}
