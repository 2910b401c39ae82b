//! Scopes add up, and bytes of queues are billed in chunks.

use super::*;

fn put(status: u16) -> WireRequest {
    WireRequest::new(RequestKind::ObjectPut, Some(status))
}

/// It shows METER-1.
#[test]
fn a_request_counts_in_its_scope_and_in_all_around() {
    let job = Meter::new("job");
    let (map, reduce) = (job.scope("map"), job.scope("reduce"));
    let task = map.scope("task");
    task.count(&put(200));
    map.count(&put(412));
    reduce.count(&put(200));
    job.count(&put(500));
    assert_eq!(task.usage().requests(), 1);
    assert_eq!(map.usage().requests(), 2);
    assert_eq!(reduce.usage().requests(), 1);
    assert_eq!(job.usage().requests(), 4);
    let within = job.within_usage();
    assert_eq!(within["map"], map.usage());
    assert_eq!(within["reduce"], reduce.usage());
    assert_eq!(job.own_usage().requests(), 1);
    assert_eq!(map.own_usage().requests(), 1);
    assert_eq!(task.own_usage(), task.usage());
    let statuses = job.usage();
    let statuses: Vec<_> = statuses.counts().map(|(_, status, _)| status).collect();
    assert_eq!(statuses, [Some(200), Some(412), Some(500)]);
}

#[test]
fn scopes_of_one_name_are_added_up() {
    let root = Meter::new("job");
    for _ in 0..3 {
        root.scope("commit").count(&put(200));
    }
    assert_eq!(root.within_usage()["commit"].requests(), 3);
}

#[test]
fn nested_scopes_are_told_by_the_names_on_the_way() {
    let root = Meter::new("database");
    let checkpoint = root.scope("checkpoint");
    checkpoint.scope("books").count(&put(200));
    checkpoint.scope("").scope("books").count(&put(412));
    checkpoint.scope("customers").count(&put(200));
    checkpoint.count(&put(200));
    root.scope("").scope("read").scope("books").count(&put(200));
    let requests = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        root.nested_usage()[&names].requests()
    };
    assert_eq!(requests(&["checkpoint", "books"]), 2);
    assert_eq!(requests(&["checkpoint", "customers"]), 1);
    assert_eq!(requests(&["checkpoint"]), 1);
    assert_eq!(requests(&["read", "books"]), 1);
    assert_eq!(root.within_usage()["checkpoint"], checkpoint.usage());
    assert_eq!(checkpoint.within_usage()["books"].requests(), 2);
    assert_eq!(root.own_usage(), Usage::default());
}

#[test]
fn a_queue_bills_each_chunk_that_was_begun() {
    let chunks = |bytes| {
        let meter = Meter::default();
        meter.count(&WireRequest {
            sent_bytes: bytes,
            ..WireRequest::new(RequestKind::QueueSend, Some(200))
        });
        meter.usage().of(RequestKind::QueueSend).chunks
    };
    assert_eq!(chunks(0), 1);
    assert_eq!(chunks(64 * 1024), 1);
    assert_eq!(chunks(64 * 1024 + 1), 2);
    assert_eq!(chunks(256 * 1024), 4);
}

#[test]
fn the_usage_since_a_look_is_what_came_after() {
    let meter = Meter::default();
    meter.count(&put(200));
    let before = meter.usage();
    meter.count(&put(412));
    let since = meter.usage().since(&before);
    assert_eq!(since.requests(), 1);
    assert_eq!(since.of(RequestKind::ObjectPut).requests, 1);
    assert_eq!(meter.usage().since(&meter.usage()), Usage::default());
}
