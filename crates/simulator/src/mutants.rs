//! The mutant score: each guard of the protocol is removed once, and some run must fail.
//!
//! What is redundant by design is not counted (docs/internals/protocol/invariants.md, "Guards that
//! go together"); such guards stand here in pairs.

use std::ops::Range;

use fader_chain::{Guard, Guards, Wiring};
use fader_simulator::world::{Choice, Failure, Mode, Plan, RunProfile, run};
use fader_simulator::{membership, model, steps};

/// Guards that are removed together, and what is known to fail without them.
type Mutant = (&'static [Guard], By);

/// What catches a mutant.
#[derive(Clone, Copy)]
enum By {
    /// The run of this seed. Seeds drift when the world changes: the next ones are tried too.
    Seed(u64),
    /// The run of this seed about this theme, in the same way.
    About(RunProfile, u64),
    /// The run of this seed of a chain of two that comes to rest, in the same way.
    InTwo(u64),
    /// The run of this seed of a world for sessions, in the same way.
    Sessions(u64),
    /// The run of this seed of steps across chains, in the same way.
    Steps(u64),
    /// A scenario of the exhaustive model.
    Scenario(&'static str),
}
use By::{About, InTwo, Scenario, Seed, Sessions, Steps};

const MUTANTS: &[Mutant] = &[
    (&[Guard::EpochCheck], Seed(48)),
    (&[Guard::PersistFirst], Seed(3090)),
    (&[Guard::SyncingConfirms], Seed(1)),
    (
        &[Guard::ConfirmId, Guard::AdoptReconciles],
        Scenario("chain-moves-three"),
    ),
    (&[Guard::AdoptReconciles], Seed(197)),
    (&[Guard::HelloIds], Scenario("chain-moves")),
    (&[Guard::AnswerWhenCommitted], Seed(1)),
    (&[Guard::LeaseRead], Seed(59)),
    (&[Guard::LeaseStamp], Seed(39)),
    (&[Guard::LeaseEndsAtAlarm], About(RunProfile::Stops, 1)),
    (&[Guard::Query], Seed(8)),
    (&[Guard::QueryByCommitPoint], Seed(8)),
    (&[Guard::TailWaits], Scenario("star-crash")),
    (&[Guard::ReadCommitted], Seed(29)),
    (&[Guard::SyncingSilent], Seed(425)),
    (&[Guard::SyncingNoStamp], Seed(975)),
    (&[Guard::DecideLogged], Seed(1)),
    (&[Guard::NoLogged], Seed(1)),
    (&[Guard::NoWaitsCommit], Seed(1)),
    (&[Guard::Dedupe], Seed(2)),
    (&[Guard::DedupePending], Seed(6)),
    (&[Guard::DedupeNo], Scenario("star-conditions")),
    (&[Guard::TruncDropsResults], Scenario("star-cut")),
    (&[Guard::EventualDedupe], Seed(1)),
    (&[Guard::EventualDigest], About(RunProfile::Borrowings, 2)),
    (&[Guard::NamePart], Seed(1)),
    (&[Guard::WindowRefuses], Scenario("star-window")),
    (&[Guard::IdleFloor], About(RunProfile::Idlers, 136)),
    (&[Guard::TxnDirtyAll], Scenario("star-transactions")),
    (&[Guard::PromoteIfLarger], Seed(4)),
    (&[Guard::BaseDirty], Seed(24)),
    (&[Guard::BaseAdopted], Scenario("star-moves-mixed")),
    (&[Guard::BaseOverlay], Scenario("chain-elements")),
    (&[Guard::BaseToken], Seed(67)),
    (&[Guard::BaseFloor], Seed(210)),
    (&[Guard::BaseOpened], Seed(1)),
    (&[Guard::StampClean], About(RunProfile::Closings, 38)),
    (&[Guard::CloseCommitted], Scenario("chain-mode-close")),
    (&[Guard::CloseAwaits], About(RunProfile::Closings, 34)),
    (&[Guard::DropWaits], Seed(1902)),
    (&[Guard::SettlesOwnTime], Seed(59)),
    (&[Guard::BaseNumbered], Scenario("star-forged")),
    (&[Guard::InvisibleKept], Seed(1)),
    (&[Guard::OverlayApart], Seed(9)),
    (&[Guard::KeepUntilCommitted], Seed(1)),
    (&[Guard::JoinKeepsOverlay], Scenario("star-mixed-rejoin")),
    (&[Guard::MembersAreSame], Scenario("star-quorum-crash")),
    (&[Guard::JointW], Scenario("star-quorum-join")),
    (&[Guard::Exchange], Scenario("star-quorum-crash")),
    (&[Guard::ExchangeMeets], Scenario("star-quorum-crash")),
    (&[Guard::ExchangeCommit], Scenario("star-quorum-loss")),
    (&[Guard::SettleByName], Seed(7)),
    (&[Guard::PruneCommitted], Seed(4)),
    (&[Guard::LimitWhole], Seed(6)),
    (&[Guard::AckAttached], Seed(289)),
    (&[Guard::RejoinFilter], Scenario("star-filter")),
    (&[Guard::Quarantine], Scenario("star-filter")),
    (&[Guard::FilterPerElement], Scenario("star-filter")),
    (&[Guard::CollectByVersion], Scenario("star-filter-ids")),
    (
        &[Guard::CollectWaitsGap],
        About(RunProfile::SafePoints, 445),
    ),
    (&[Guard::ReportApplied], About(RunProfile::SafePoints, 2)),
    (&[Guard::CollectByEntry], Scenario("star-collect")),
    (&[Guard::DigestCompare], Seed(8)),
    (&[Guard::DigestMajority], Seed(40)),
    (&[Guard::DigestHead], InTwo(1)),
    (&[Guard::DiffersFills], Seed(8)),
    (&[Guard::LeaveAdopted], About(RunProfile::Quorums, 751)),
    (&[Guard::LeaveHandsOn], About(RunProfile::Leavings, 2)),
    (&[Guard::HandOnAll], About(RunProfile::Leavings, 305)),
    (&[Guard::LeavingTakesNone], About(RunProfile::Leavings, 81)),
    (&[Guard::HandedOnEnds], About(RunProfile::Retractions, 2)),
    (&[Guard::CopyRefused], About(RunProfile::Copies, 4)),
    (&[Guard::RestartFurthest], About(RunProfile::Copies, 8)),
    (&[Guard::CasPublish], Seed(140)),
    (&[Guard::ConfigurationFirst], About(RunProfile::Races, 15)),
    (&[Guard::AnyVersion], Sessions(9)),
    (&[Guard::StillNoPing], Sessions(1)),
    (&[Guard::WatchRearmed], Sessions(1)),
    (&[Guard::CachedKeyEnds], Sessions(1)),
    (&[Guard::UnknownKeysBounded], Sessions(1)),
    (&[Guard::ClockBound], Scenario("star-restart")),
    (&[Guard::FillDoneLast], Seed(46)),
    (&[Guard::FillPersisted], About(RunProfile::Fills, 2)),
    (&[Guard::FillDefers], Seed(100)),
    (&[Guard::JoinBringsResults], Seed(32)),
    (&[Guard::BarrierAll], Seed(13)),
    (&[Guard::BarrierSettles], Seed(10)),
    (&[Guard::BoundLease], Seed(9)),
    (&[Guard::StepRecorded], Steps(1)),
    (&[Guard::StepTaken], Steps(2)),
    (&[Guard::StepOnce], Steps(1)),
];

/// Says of every mutant what caught it; whether all were. After the seed that is known, `seeds`
/// more are tried.
pub(crate) fn score(seeds: u64, choice: &Choice) -> bool {
    let mut caught = 0;
    for (guards, by) in MUTANTS {
        let removed = Guards::without(guards.to_vec());
        let finding = match by {
            Seed(known) => by_seed(*known, seeds, choice, &removed),
            About(theme, known) => {
                let choice = Choice {
                    profile: Some(*theme),
                    ..*choice
                };
                let finding = by_seed(*known, seeds, &choice, &removed);
                finding.map(|finding| format!("in {theme:?} {finding}"))
            }
            InTwo(known) => {
                let choice = Choice {
                    members: Some(2),
                    wiring: Some(Wiring::Chain),
                    mode: Some(Mode::Liveness),
                    ..*choice
                };
                let finding = by_seed(*known, seeds, &choice, &removed);
                finding.map(|finding| format!("in a chain of two {finding}"))
            }
            Sessions(known) => {
                let finding = of_sessions(*known, seeds, &removed);
                finding.map(|finding| format!("of sessions {finding}"))
            }
            Steps(known) => {
                let finding = of_steps(*known, seeds, &removed);
                finding.map(|finding| format!("of steps {finding}"))
            }
            Scenario(name) => {
                model::catches(&removed, name).map(|what| format!("by scenario {name}: {what}"))
            }
        };
        let names: Vec<String> = guards.iter().map(|guard| format!("{guard:?}")).collect();
        let names = names.join(" with ");
        match finding {
            Some(finding) => {
                caught += 1;
                println!("caught: {names:<28} {finding}");
            }
            None => println!("not caught: {names}"),
        }
    }
    println!("{caught}/{} mutants caught", MUTANTS.len());
    caught == MUTANTS.len()
}

fn by_seed(known: u64, seeds: u64, choice: &Choice, removed: &Guards) -> Option<String> {
    let fails = |seed: u64, guards: &Guards| run(&Plan::new(seed, choice), guards, false).failure;
    first_failing(known, seeds, removed, fails)
}

fn of_sessions(known: u64, seeds: u64, removed: &Guards) -> Option<String> {
    let fails = |seed: u64, guards: &Guards| membership::run(seed, guards, false).failure;
    first_failing(known, seeds, removed, fails)
}

fn of_steps(known: u64, seeds: u64, removed: &Guards) -> Option<String> {
    let fails = |seed: u64, guards: &Guards| steps::run(seed, guards, false).failure;
    first_failing(known, seeds, removed, fails)
}

/// The first seed, from the known one on, that fails without these guards and not with all.
fn first_failing(
    known: u64,
    seeds: u64,
    removed: &Guards,
    fails: impl Fn(u64, &Guards) -> Option<Failure>,
) -> Option<String> {
    let (seed, failure) = std::iter::once(known)
        .chain(1..=seeds)
        .filter_map(|seed| Some((seed, fails(seed, removed)?)))
        // What fails with all guards in place catches nothing.
        .find(|(seed, _)| fails(*seed, &Guards::default()).is_none())?;
    let text = failure.to_string();
    let line = text.lines().next().unwrap_or("");
    Some(format!("by seed {seed}: {line}"))
}

/// Says which of the runs of `seeds` seeds that are right with all guards fail without these.
///
/// # Errors
/// The first name that no mutant has: a guard is removed by name only if its entry is in the list.
pub(crate) fn hunt(
    names: &[String],
    seeds: Range<u64>,
    choice: &Choice,
    is_of_sessions: bool,
) -> Result<(), String> {
    let all = MUTANTS.iter().flat_map(|(guards, _)| *guards);
    let all: Vec<Guard> = all.copied().collect();
    let of_name = |name: &String| {
        let mut named = all.iter().filter(|guard| *name == format!("{guard:?}"));
        named.next().copied().ok_or_else(|| name.clone())
    };
    let removed: Vec<Guard> = names.iter().map(of_name).collect::<Result<_, _>>()?;
    let removed = Guards::without(removed);
    for seed in seeds {
        let finding = match is_of_sessions {
            true => of_sessions(seed, 0, &removed),
            false => by_seed(seed, 0, choice, &removed),
        };
        if let Some(finding) = finding {
            println!("{names:?} caught {finding}");
        }
    }
    Ok(())
}
