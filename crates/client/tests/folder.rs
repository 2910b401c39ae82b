//! The folder store keeps the contract's promises.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use fader_client::{Folder, SystemClock};
use fader_cloud::conformance::{self, SystemUnderTest};

#[tokio::test]
async fn a_folder_keeps_every_promise_of_objects() {
    let at = tempfile::tempdir().unwrap();
    let folder = Folder::open(at.path()).unwrap();
    let clock = SystemClock::default();
    let subject = SystemUnderTest {
        service: &folder as &dyn object_store::ObjectStore,
        clock: &clock,
        prefix: "it",
    };
    let mut verdicts = Vec::new();
    conformance::objects(&subject, &mut |verdict| verdicts.push(verdict)).await;
    assert!(14 <= conformance::judge(&verdicts, &[]).unwrap());
}
