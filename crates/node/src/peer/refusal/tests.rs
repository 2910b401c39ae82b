//! What is logged is logged once, and what is remembered of it bounded.

use super::*;

#[test]
fn a_reason_is_news_once_until_the_peer_was_well() {
    let log_once = LogOnce::default();
    let (one, two) = (Who::Node(NodeId(1)), Who::Node(NodeId(2)));
    assert!(log_once.is_new(one, "a"));
    assert!(!log_once.is_new(one, "a"));
    assert!(log_once.is_new(one, "b"));
    assert!(log_once.is_new(two, "a"));
    log_once.forget(one);
    assert!(log_once.is_new(one, "a"));
    assert!(!log_once.is_new(two, "a"));
}

#[test]
fn memory_of_refusals_is_bounded() {
    let log_once = LogOnce::default();
    for node in 0..2 * COMPLAINTS_MAX {
        let who = Who::Node(NodeId(node as u32));
        assert_eq!(log_once.is_new(who, "a"), node < COMPLAINTS_MAX);
    }
    assert_eq!(log_once.0.lock().len(), COMPLAINTS_MAX);
}
