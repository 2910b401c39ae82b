//! The mutant score: each guard of the protocol is removed once, and some run must fail.
//!
//! What is redundant by design is not counted (docs/protocol/invariants.md, "Guards that go
//! together"); such guards stand here in pairs.

use fader_chain::{Guard, Guards};
use fader_simulator::world::{Choice, Plan, run};

/// Guards that are removed together, and the seed of a run that fails without them, if one is
/// known: it is tried first.
type Mutant = (&'static [Guard], Option<u64>);

const MUTANTS: &[Mutant] = &[
    (&[Guard::EpochCheck], Some(10)),
    (&[Guard::PersistFirst], Some(15)),
    (&[Guard::ConfirmThisEpoch], None),
    (&[Guard::SyncingConfirms], Some(57)),
    (&[Guard::ConfirmId, Guard::AdoptReconciles], None),
    (&[Guard::AdoptReconciles], Some(84)),
    (&[Guard::HelloIds], Some(13)),
    (&[Guard::HelloPersisted], None),
    (&[Guard::LearnReady], None),
    (&[Guard::AnswerWhenCommitted], Some(1)),
    (&[Guard::LeaseRead], Some(129)),
    (&[Guard::LeaseStamp], Some(43)),
    (&[Guard::LeaseQuery, Guard::QuerySameEpoch], None),
    (&[Guard::Query], Some(6)),
    (&[Guard::QueryByCommitPoint], Some(6)),
    (&[Guard::TailWaits], Some(209)),
    (&[Guard::ReadCommitted], Some(13)),
    (&[Guard::SyncingSilent], Some(500)),
    (&[Guard::SyncingNoStamp], Some(617)),
    (&[Guard::DecideLogged], Some(1)),
    (&[Guard::NoLogged], Some(1)),
    (&[Guard::NoWaitsCommit], Some(1)),
    (&[Guard::Dedupe], Some(17)),
    (&[Guard::DedupePending], Some(17)),
    (&[Guard::DedupeNo], None),
    (&[Guard::TruncDropsResults], None),
    (&[Guard::EventualDedupe], Some(1)),
    (&[Guard::NamePart], Some(1)),
    (&[Guard::WindowRefuses], None),
    (&[Guard::TxnDirtyAll], None),
    (&[Guard::PromoteIfLarger], Some(1)),
    (&[Guard::BaseDirty], Some(15)),
    (&[Guard::BaseOverlay], None),
    (&[Guard::BaseToken], Some(48)),
    (&[Guard::BaseFloor], Some(97)),
    (&[Guard::BaseNumbered], None),
    (&[Guard::InvisibleKept], Some(1)),
    (&[Guard::OverlayApart], Some(1)),
    (&[Guard::KeepUntilCommitted], Some(1)),
    (&[Guard::JoinKeepsOverlay], None),
    (&[Guard::JointW], None),
    (&[Guard::Exchange], None),
    (&[Guard::ExchangeCommit], None),
    (&[Guard::SettleByName], Some(7)),
    (&[Guard::PruneCommitted], Some(1)),
    (&[Guard::LimitWhole], Some(90)),
    (&[Guard::AckAttached], Some(127)),
    (&[Guard::RejoinFilter], None),
    (&[Guard::Quarantine], None),
    (&[Guard::FilterPerElement], None),
    (&[Guard::CollectByVersion], None),
    (&[Guard::CollectWaitsGap], None),
    (&[Guard::ReportApplied], None),
    (&[Guard::CollectByEntry], None),
    (&[Guard::DigestCompare], None),
    (&[Guard::ClockBound], None),
    (&[Guard::FillDoneLast], None),
    (&[Guard::FillSameEpoch], None),
    (&[Guard::FillPersisted], None),
    (&[Guard::FillDefers], Some(32)),
    (&[Guard::JoinBringsResults], Some(32)),
    (&[Guard::BarrierAll], Some(23)),
    (&[Guard::BarrierSettles], Some(15)),
    (&[Guard::BoundLease], Some(15)),
];

/// Runs until every mutant is caught, or `seeds` runs have not caught it. Whether all were.
pub(crate) fn score(seeds: u64, choice: &Choice) -> bool {
    let mut caught = 0;
    for (guards, known) in MUTANTS {
        let seeds = known.iter().copied().chain(1..=seeds);
        let removed = Guards::without(guards.to_vec());
        let finding = seeds
            .map(|seed| (seed, run(&Plan::new(seed, choice), &removed, false).failure))
            .find_map(|(seed, failure)| Some((seed, failure?)));
        let names: Vec<String> = guards.iter().map(|guard| format!("{guard:?}")).collect();
        let names = names.join(" with ");
        match finding {
            Some((seed, failure)) => {
                caught += 1;
                let text = failure.to_string();
                let line = text.lines().next().unwrap_or("");
                println!("{names:<28} caught by seed {seed}: {line}");
            }
            None => println!("{names:<28} SURVIVES"),
        }
    }
    println!("{caught}/{} mutants caught", MUTANTS.len());
    caught == MUTANTS.len()
}
