//! What is logged is logged once, and what is remembered of it bounded.

use super::*;

#[test]
fn a_reason_is_news_once_until_the_peer_was_well() {
    let complaints = Complaints::default();
    let (one, two) = (Who::Node(NodeId(1)), Who::Node(NodeId(2)));
    assert!(complaints.is_new(one, "a"));
    assert!(!complaints.is_new(one, "a"));
    assert!(complaints.is_new(one, "b"));
    assert!(complaints.is_new(two, "a"));
    complaints.forget(one);
    assert!(complaints.is_new(one, "a"));
    assert!(!complaints.is_new(two, "a"));
}

#[test]
fn what_is_remembered_is_bounded() {
    let complaints = Complaints::default();
    for node in 0..2 * COMPLAINTS_MAX {
        let who = Who::Node(NodeId(node as u32));
        assert_eq!(complaints.is_new(who, "a"), node < COMPLAINTS_MAX);
    }
    assert_eq!(complaints.0.lock().len(), COMPLAINTS_MAX);
}
