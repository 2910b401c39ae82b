//! Lists of queues in a bucket that are longer than a page: what is hidden hides nothing else.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use crate::stage;
use fader_cloud::Queues;
use fader_cloud::bucket::BucketQueues;
use futures_util::future::join_all;
use stage::Stage;
use stage::queues::{new, now, send, start};

/// Segments, each with a state, that fill more than a page of 1,000 keys.
const HIDDEN: usize = 510;

/// A queue with so many segments that its process holds, and one that can be received.
async fn crowded(stage: &Stage, hidden: usize) -> (BucketQueues, String) {
    let queues = start(stage).await;
    for _ in 0..hidden {
        send(&queues, 1).await;
    }
    let how = now(1, 3600);
    for _ in 0..hidden / 10 {
        let held = join_all((0..10).map(|_| queues.receive("q", &how))).await;
        assert!(held.iter().all(|held| held.as_ref().unwrap().len() == 1));
    }
    let sent = send(&queues, 1).await;
    (queues, sent[0].clone())
}

/// It shows RECEIVER-2.
#[test]
fn a_message_behind_a_page_of_hidden_ones_is_received() {
    let stage = Stage::new(1);
    stage.run(async {
        let (holder, sent) = crowded(&stage, HIDDEN).await;
        let before = stage.count();
        let found = holder.receive("q", &now(10, 0)).await.unwrap();
        assert_eq!(found.first().map(|one| &one.id), Some(&sent), "as a peek");
        assert_eq!(stage.kinds(before), ["LIST", "LIST", "GET"]);
        // A process that knows the states looks at none of them.
        stage.sleep(Duration::from_secs(2)).await;
        let before = stage.count();
        let found = holder.receive("q", &now(10, 1)).await.unwrap();
        assert_eq!(found.first().map(|one| &one.id), Some(&sent));
        assert_eq!(stage.kinds(before), ["LIST", "LIST", "PUT", "GET"]);
    });
}

#[test]
fn a_fresh_process_finds_it_before_it_looks_at_states() {
    let stage = Stage::new(1);
    stage.run(async {
        let (_, sent) = crowded(&stage, HIDDEN).await;
        let before = stage.count();
        let peeked = new(&stage, "peek").receive("q", &now(10, 0)).await.unwrap();
        assert_eq!(peeked.first().map(|one| &one.id), Some(&sent));
        let kinds = stage.kinds(before);
        assert!(kinds.len() < 550, "{} requests", kinds.len());
        let before = stage.now();
        let fresh = new(&stage, "fresh");
        let found = fresh.receive("q", &now(10, 3600)).await.unwrap();
        assert_eq!(found.first().map(|one| &one.id), Some(&sent));
        // One after the other, 510 looks take 13 s.
        let took = (stage.now() - before).as_secs_f64();
        assert!(took < 2.0, "{took} s");
        // All is hidden now.
        assert_eq!(fresh.receive("q", &now(10, 30)).await.unwrap(), []);
    });
}

/// More segments than a process remembers: a list comes to its end all the same.
#[test]
fn more_hidden_segments_than_are_remembered_end() {
    let stage = Stage::new(1);
    stage.run(async {
        let (_, sent) = crowded(&stage, 2_100).await;
        let fresh = new(&stage, "fresh");
        let found = fresh.receive("q", &now(10, 3600)).await.unwrap();
        assert_eq!(found.first().map(|one| &one.id), Some(&sent));
        for _ in 0..2 {
            assert_eq!(fresh.receive("q", &now(10, 30)).await.unwrap(), []);
        }
    });
}
