//! Mutants of clouds: each promise that `simulate cloud` checks is broken once. A guard is missing
//! or a cloud is worse than promised, and a run or a scope must tell.
//!
//! Scenarios for every guard are in crates/cloud/tests/modelled/bucket_mutants.rs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fader_cloud::bucket::Guard;
use fader_cloud::model::Staleness;
use fader_simulator::cloud::{Backend, Failure, Plan, explore, run, scopes};

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// A guard of queues and domains in a bucket is missing.
    Without(Guard),
    /// A modelled queue gives messages twice.
    Duplicates,
    /// A modelled queue gives messages that were removed.
    Resurrections,
    /// Modelled objects are read as they were.
    OldObjects,
    /// Modelled domains are read as they were, for longer than their law says.
    OldDomains,
    /// Batches are written item by item.
    SplitBatches,
}
use Wrong::{Duplicates, OldDomains, OldObjects, Resurrections, SplitBatches, Without};

/// What tells.
#[derive(Clone, Copy)]
enum By {
    /// The run of this seed. Seeds drift when plans change: the next ones are tried too.
    Seed(u64),
    /// A scope of `model cloud`.
    Scope(&'static str),
}
use By::{Scope, Seed};

/// The promise that is broken, by what, and what tells.
const MUTANTS: &[(&str, Wrong, By)] = &[
    (
        "lost",
        Without(Guard::SendAfterPut),
        Scope("send-ambiguous"),
    ),
    ("lost", Without(Guard::SendUnknown), Scope("send-ambiguous")),
    ("removed", Resurrections, Seed(1)),
    ("removed", Without(Guard::NewName), Seed(1)),
    ("removed", Without(Guard::NewNameIfAbsent), Seed(1)),
    ("removed", Without(Guard::UpdateIfMatch), Seed(1)),
    ("removed", Without(Guard::NewName), Scope("send-ambiguous")),
    ("removed", Without(Guard::BodyAfterClaim), Scope("receive")),
    (
        "removed",
        Without(Guard::SegmentBeforeState),
        Scope("receive-crash"),
    ),
    ("removed", Without(Guard::PeekState), Scope("peek")),
    ("removed", Without(Guard::PeekIfMatch), Scope("peek")),
    ("held", Duplicates, Seed(1)),
    ("held", Without(Guard::CreateIfAbsent), Scope("receive")),
    ("held", Without(Guard::CreateIfAbsent), Seed(1)),
    ("linear", OldObjects, Seed(1)),
    (
        "linear",
        Without(Guard::DecideAgain),
        Scope("write-ambiguous"),
    ),
    ("fresh", OldDomains, Seed(1)),
    ("whole", SplitBatches, Seed(1)),
    ("slots", Without(Guard::SlotIfAbsent), Scope("follow")),
    (
        "slots",
        Without(Guard::SlotIfAbsent),
        Scope("append-ambiguous"),
    ),
    (
        "slots",
        Without(Guard::ResolveFirst),
        Scope("append-ambiguous"),
    ),
    ("followed", Without(Guard::YoungFromSending), Seed(8)),
    ("followed", Without(Guard::OwnGet), Seed(22)),
    (
        "leftovers",
        Without(Guard::Orphans),
        Scope("receive-ambiguous"),
    ),
    ("leftovers", Without(Guard::SealHelp), Scope("domain-crash")),
    (
        "leftovers",
        Without(Guard::ManifestStays),
        Scope("domain-ambiguous"),
    ),
    ("live", Without(Guard::ClaimIds), Scope("receive-ambiguous")),
];

/// Runs of one scope, at most.
const RUNS_MAX: u64 = 200_000;

/// Says of every mutant what tells; whether all were caught. After the seed that is known, those
/// below `seeds` are tried.
pub(super) fn score(seeds: u64) -> bool {
    let mut caught = 0;
    for (promise, wrong, by) in MUTANTS {
        let finding = match by {
            Seed(known) => of_seeds(promise, *wrong, *known, seeds),
            Scope(name) => of_scope(promise, *wrong, name),
        };
        match finding {
            Some(finding) => {
                caught += 1;
                println!("caught: {promise} with {wrong:?}, {finding}");
            }
            None => println!("not caught: {promise} with {wrong:?}"),
        }
    }
    println!("{caught}/{} mutants of clouds caught", MUTANTS.len());
    caught == MUTANTS.len()
}

fn of_seeds(promise: &str, wrong: Wrong, known: u64, seeds: u64) -> Option<String> {
    let mut all = std::iter::once(known).chain(1..=seeds);
    let backend = match wrong {
        Without(_) => Backend::Bucket,
        _ => Backend::Models,
    };
    let found = all.find_map(|seed| {
        let failure = failure(&mutated(seed, backend, Some(wrong)))?;
        let is_it = failure.guarantee == promise;
        // What fails with nothing wrong tells nothing.
        let is_right = is_it && self::failure(&mutated(seed, backend, None)).is_none();
        is_right.then_some((seed, failure))
    });
    found.map(|(seed, failure)| format!("by seed {seed}: {failure}"))
}

/// The plan of a seed, with one thing wrong.
fn mutated(seed: u64, backend: Backend, wrong: Option<Wrong>) -> Plan {
    let mut plan = Plan::new(seed, backend);
    match wrong {
        None => {}
        Some(Without(guard)) => plan.removed = Some(guard),
        Some(Duplicates) => plan.profile.queues.duplicates = 500,
        Some(Resurrections) => plan.profile.queues.resurrections = 500,
        Some(OldObjects) => {
            plan.profile.objects.reads = Staleness::Uniform(Duration::from_secs(5));
        }
        Some(OldDomains) => {
            plan.profile.domains.staleness = Staleness::Constant(Duration::from_secs(20));
        }
        Some(SplitBatches) => plan.splits_batches = true,
    }
    plan
}

/// The promise that a run breaks. A panic is one, too.
fn failure(plan: &Plan) -> Option<Failure> {
    let found = catch_unwind(AssertUnwindSafe(|| run(plan, false).failure));
    found.unwrap_or_else(|_| {
        Some(Failure {
            guarantee: "panic",
            text: String::new(),
        })
    })
}

fn of_scope(promise: &str, wrong: Wrong, name: &str) -> Option<String> {
    let Without(guard) = wrong else {
        return None;
    };
    let scope = scopes().into_iter().find(|scope| scope.name == name)?;
    let (failure, _) = explore(&scope, RUNS_MAX, Some(guard)).failure?;
    (failure.guarantee == promise).then(|| format!("by scope {name}: {failure}"))
}
