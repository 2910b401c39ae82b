//! Runs of buckets are deterministic, and right; without any of their rules one of them tells.

use super::*;

/// It shows MWORLD-4.
#[test]
fn the_same_seed_gives_the_same_run() {
    let [one, other] = [(); 2].map(|()| run(3, &Guards::default(), None, true));
    assert_eq!(one.trace, other.trace);
    assert_eq!(one.claims, other.claims);
}

#[test]
fn nothing_is_wrong_with_the_first_seeds() {
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..25 {
        let found = run(seed, &Guards::default(), None, false);
        assert_eq!(found.failure, None, "seed {seed}");
        for (claim, count) in found.claims {
            *claims.entry(claim).or_default() += count;
        }
    }
    // Everything that is checked happens, and what is rare as well.
    for claim in [
        "acknowledged",
        "barriers",
        "brought back",
        "clock steps",
        "commits of the fenced",
        "completed",
        "come to nothing",
        "completed again",
        "conditions refused",
        "copies",
        "copies between chains",
        "crashes",
        "damage",
        "deletes",
        "ended",
        "ended attempts",
        "ended finishers",
        "made",
        "not made",
        "not unmade",
        "unmade",
        "ends",
        "failovers",
        "fenced",
        "fetched",
        "filled",
        "forgotten",
        "freed",
        "garbage",
        "joins",
        "kept",
        "linear",
        "lists",
        "no answer",
        "notes",
        "partitions",
        "parts",
        "promoted",
        "promoted with blocks",
        "puts of the closed",
        "reads",
        "repaired",
        "rowless",
        "settled by barriers",
        "superseded",
        "taken",
        "unknown",
        "winners",
        "wipes",
    ] {
        assert!(claims.contains_key(claim), "{claim} did not happen");
    }
}

/// A head loses its disk, and another member starts before the head is left out.
#[test]
fn a_head_that_lost_its_disk_begins_no_epoch() {
    let mut world = World::new(1, &Guards::default(), None, false);
    world.make_first();
    let on = world.on;
    let chain = &mut world.chains[on];
    let (head, other, epoch) = (chain.seats[0], chain.seats[1], chain.epoch);
    chain.crash(other, false, &mut world.random);
    chain.crash(head, true, &mut world.random);
    let life = chain.members[other].life;
    world.start(other, life);
    let chain = &world.chains[on];
    assert!(chain.members[other].is_up);
    assert_eq!(chain.epoch, epoch);
    assert!(!chain.members[other].log.is_empty());
}

/// Seeds that each mutant is searched in, after the one that is known to catch it.
const SEEDS: u64 = 120;

const RULES: [(Rule, u64); 21] = [
    (Rule::Collection, 1),
    (Rule::NewestEmpty, 1),
    (Rule::EndCommitted, 1),
    (Rule::AnswerFreed, 1),
    (Rule::CheckedRepair, 1),
    (Rule::Closed, 3),
    (Rule::SettleNewest, 13),
    (Rule::Barrier, 3),
    (Rule::OwnBytes, 1),
    (Rule::Gate, 1),
    (Rule::SyncBytes, 2),
    (Rule::JoinBytes, 1),
    (Rule::KeepLogged, 1),
    (Rule::Wait, 1),
    (Rule::Monotonic, 30),
    (Rule::Fence, 2),
    (Rule::CopyBytes, 1),
    (Rule::PartRows, 2),
    (Rule::Newest, 2),
    (Rule::Fresh, 1),
    (Rule::CheckedRead, 9),
];

/// The first seed that fails, and by which guarantee.
fn caught(known: u64, run: impl Fn(u64) -> Run) -> Option<(u64, &'static str)> {
    let mut seeds = std::iter::once(known).chain(1..=SEEDS);
    seeds.find_map(|seed| Some((seed, run(seed).failure?.guarantee)))
}

/// It shows SB-7 and GWAIT-1. A line `caught: …` for each rule that a run misses when it is taken
/// away.
///
/// Some rules no seed tells, and models do (`model::ReadRule`, `model::EventualRule`). The wait of
/// garbage and a barrier begin at the safe point, and a fence is looked for in the log.
#[test]
fn every_rule_is_needed() {
    let mut missed = Vec::new();
    for (rule, known) in RULES {
        let found = caught(known, |seed| {
            run(seed, &Guards::default(), Some(rule), false)
        });
        match found {
            Some((seed, by)) => println!("caught: {rule:?}, by seed {seed} of buckets, {by:?}"),
            None => missed.push(rule),
        }
    }
    assert_eq!(missed, [], "not caught in {SEEDS} seeds");
}

/// It shows SB-2, SB-6, SB-7 and SAGA-2. The same for the guards of the service.
#[cfg(feature = "mutants")]
#[test]
fn every_mutant_is_caught() {
    use fader_chain::Guard;

    let mut missed = Vec::new();
    for guards in [
        &[Guard::StepRecorded][..],
        &[Guard::StepTaken],
        &[Guard::S3Empty],
        &[Guard::S3Ended],
        // A step that is taken once frees no name of a later bucket.
        &[Guard::S3FreesOwn, Guard::StepOnce],
        &[Guard::S3GarbageStays],
        &[Guard::S3BucketId],
        &[Guard::S3Condition],
        &[Guard::S3Garbage],
        &[Guard::S3Fence],
        &[Guard::S3FenceGarbage],
        &[Guard::S3Note],
        &[Guard::S3Close],
        &[Guard::S3UploadOpen],
        &[Guard::S3Unlisted],
        &[Guard::S3PartReplaced],
    ] {
        let removed = Guards::without(guards);
        match caught(1, |seed| run(seed, &removed, None, false)) {
            Some((seed, by)) => println!("caught: {guards:?}, by seed {seed} of buckets, {by:?}"),
            None => missed.push(guards),
        }
    }
    assert!(missed.is_empty(), "{missed:?} not caught in {SEEDS} seeds");
}
