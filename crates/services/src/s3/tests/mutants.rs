//! Each guard of buckets is needed: without it random scripts tell.

use fader_chain::{Guard, Guards};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use super::model::{acts, compare};

/// Random scripts that one mutant is given at most.
const SCRIPTS: usize = 3_000;

const GUARDS: [Guard; 11] = [
    Guard::S3Condition,
    Guard::S3Garbage,
    Guard::S3BucketId,
    Guard::S3Fence,
    Guard::S3FenceGarbage,
    Guard::S3Note,
    Guard::S3GarbageStays,
    Guard::S3UploadOpen,
    Guard::S3Unlisted,
    Guard::S3PartReplaced,
    Guard::S3UploadDone,
];

/// Where random scripts tell a bucket without this guard from its model.
fn told_by_scripts(guard: Guard) -> Option<String> {
    let mut runner = TestRunner::deterministic();
    let scripts = proptest::collection::vec(acts(), 20..60);
    (0..SCRIPTS).find_map(|_| {
        let script = scripts.new_tree(&mut runner).unwrap().current();
        compare(&script, Guards::without([guard])).err()
    })
}

#[test]
fn every_guard_of_buckets_is_needed() {
    for guard in GUARDS {
        assert!(told_by_scripts(guard).is_some(), "nothing tells {guard:?}");
    }
}
