//! Records that a client left in the queues of a service for too long.

use std::time::Duration;

use crate::stage;
use fader_database::{Database, Level, Options};
use stage::{Backend, cloud, on_all, process};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A client that checkpoints nothing.
fn patient() -> Options {
    Options {
        checkpoint_after: 1_000 * DAY,
        finish_after: 1_000 * DAY,
        ..Options::default()
    }
}

#[test]
fn a_database_that_is_opened_late_says_what_may_have_expired() {
    on_all(|model, backend| async move {
        drop(stage::database(&model, "first", backend).await);
        let there = cloud(&model, &process(&model, "second"), backend);
        let clock = there.runtime.clock.clone();
        let second = Database::open(there, patient()).await.expect("a database");
        let mut transaction = second.begin(Level::Basic);
        let put = transaction.put("books", b"k", b"v").await;
        put.expect("a valid record");
        transaction.commit().await.expect("a cloud without faults");
        clock.sleep(13 * DAY).await;
        let third = cloud(&model, &process(&model, "third"), backend);
        let third = Database::open(third, patient()).await.expect("a database");
        let early = third.may_have_expired().await;
        assert_eq!(early.expect("a cloud without faults"), None);
        clock.sleep(2 * DAY).await;
        let late = third
            .may_have_expired()
            .await
            .expect("a cloud without faults");
        let mut reader = third.begin(Level::Basic);
        match backend {
            Backend::Service => assert!(late.is_some_and(|time| 15 * DAY <= time), "{late:?}"),
            Backend::Bucket => assert_eq!(late, None),
        }
        // What is said is so.
        third.settle().await.expect("a cloud without faults");
        let found = reader.get("books", b"k").await.expect("a readable tree");
        assert_eq!(found.is_some(), backend == Backend::Bucket);
        assert_eq!(
            third.may_have_expired().await.expect("a cloud"),
            late.filter(|_| found.is_none())
        );
    });
}
