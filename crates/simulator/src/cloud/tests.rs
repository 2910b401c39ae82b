//! Runs repeat, and a cloud that breaks a promise is found out.

use super::*;

#[test]
fn a_plan_gives_the_same_run_twice() {
    for (seed, backend) in (1..8).zip(Backend::ALL.into_iter().cycle()) {
        let plan = Plan::new(seed, backend);
        let (one, other) = (run(&plan, true), run(&plan, true));
        assert_eq!(one.failure, None, "seed {seed}");
        assert_eq!(one.digest, other.digest, "seed {seed}");
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!(format!("{:?}", one.history), format!("{:?}", other.history));
    }
}

/// The guarantees that runs of a changed profile break.
fn broken(change: fn(&mut Plan)) -> Vec<&'static str> {
    let failures = (1..15).filter_map(|seed| {
        let mut plan = Plan::new(seed, Backend::Models);
        change(&mut plan);
        run(&plan, false).failure
    });
    failures.map(|failure| failure.guarantee).collect()
}

#[test]
fn a_cloud_that_breaks_its_promises_is_found_out() {
    let duplicates = broken(|plan| plan.profile.queues.duplicates = 500);
    assert!(duplicates.contains(&"held"), "{duplicates:?}");
    let resurrections = broken(|plan| plan.profile.queues.resurrections = 500);
    assert!(resurrections.contains(&"removed"), "{resurrections:?}");
    let stale = broken(|plan| plan.domain_staleness = std::time::Duration::ZERO);
    assert!(stale.contains(&"fresh"), "{stale:?}");
    let objects = broken(|plan| {
        let age = std::time::Duration::from_secs(5);
        plan.profile.objects.reads = fader_cloud::model::Staleness::Uniform(age);
    });
    assert!(objects.contains(&"linear"), "{objects:?}");
}
