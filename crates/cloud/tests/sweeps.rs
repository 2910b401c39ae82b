//! Sweeps that only name what they would delete.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod stage;

use std::time::Duration;

use fader_cloud::Domains;
use fader_cloud::bucket::BucketDomains;
use object_store::path::Path;
use stage::Stage;

const DAY_AND_MORE: Duration = Duration::from_secs(90_000);

fn new(stage: &Stage, name: &str) -> BucketDomains {
    let runtime = stage.process(name).runtime();
    BucketDomains::new(stage.objects(), Path::from("p"), runtime)
}

#[test]
fn a_dry_run_writes_nothing_and_names_what_a_sweep_deletes() {
    let stage = Stage::new(1);
    stage.run(async {
        let one = new(&stage, "one");
        one.create("dom").await.unwrap();
        one.delete("dom").await.unwrap();
        stage.sleep(DAY_AND_MORE).await;
        let before = stage.count();
        // A process that knows no recent time of the store.
        let named = new(&stage, "two").sweep(true).await.unwrap();
        assert!(!named.is_empty());
        let kinds = stage.kinds(before);
        let reads = ["GET", "HEAD", "LIST"];
        assert!(kinds.iter().all(|kind| reads.contains(kind)), "{kinds:?}");
        assert_eq!(new(&stage, "three").sweep(false).await.unwrap(), named);
    });
}
