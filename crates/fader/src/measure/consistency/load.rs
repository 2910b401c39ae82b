//! Reads and writes, strong and eventual, in any mix.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use fader_client::system_runtime;
use fader_history::object::{Log, Operation, Outcome, Request, Text, Verb};
use fader_history::{Header, Order};
use fader_measure::{
    Act, Arrivals, InSimpleDb, Intent, Load, Party, Plan, Provider, Rate, Starts, Until, Workload,
    drive_all, mix,
};
use fader_services::ErrorCode;
use serde::Serialize;

use super::cluster::{Cluster, PATIENCE};
use crate::failure;

/// So few that at a low rate reads meet items that are being written.
const ITEMS: u64 = 10;
pub(super) const VALUE_BYTES: usize = 500;
/// A refused client waits so long: no client asks as fast as it is refused.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    StrongRead,
    StrongWrite,
    EventualRead,
    EventualWrite,
}

/// Of how many operations in one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    /// Writes, of all.
    pub(super) writes: f64,
    /// Eventual ones, of reads and of writes.
    pub(super) eventual: f64,
}

/// How many operations there were in all, and what was said of those that were not carried out.
#[derive(Default, Serialize)]
pub(super) struct Failures {
    pub(super) asked: u64,
    pub(super) failed: BTreeMap<String, u64>,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [
        Kind::StrongRead,
        Kind::StrongWrite,
        Kind::EventualRead,
        Kind::EventualWrite,
    ];

    /// Kinds of reads, and of writes.
    pub(super) const READS: [Kind; 2] = [Kind::StrongRead, Kind::EventualRead];
    pub(super) const WRITES: [Kind; 2] = [Kind::StrongWrite, Kind::EventualWrite];

    pub(super) fn is_write(self) -> bool {
        Kind::WRITES.contains(&self)
    }

    /// As the paper calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::StrongRead => "SC read",
            Kind::StrongWrite => "SC write",
            Kind::EventualRead => "EC read",
            Kind::EventualWrite => "EC write",
        }
    }

    /// What a request of the kind asks for, by its number among [`LEVELS`].
    fn level(self) -> usize {
        match self {
            Kind::StrongRead | Kind::StrongWrite => 0,
            Kind::EventualRead => 1,
            Kind::EventualWrite => 2,
        }
    }

    pub(super) fn of(operation: &Operation) -> Kind {
        let is_read = operation.action.verb == Verb::Read;
        match (is_read, is_strong(&operation.level)) {
            (true, true) => Kind::StrongRead,
            (false, true) => Kind::StrongWrite,
            (true, false) => Kind::EventualRead,
            (false, false) => Kind::EventualWrite,
        }
    }
}

/// What is asked for.
pub(super) const LEVELS: [&str; 3] = ["strong", "eventual; r=2", "eventual; w=2"];

/// Whether operations at a level have one order.
pub(super) fn is_strong(level: &Text) -> bool {
    &**level == LEVELS[0]
}

/// Of so many operations in a row each kind has its share exactly: shares are in quarters. Drawn
/// one by one, the few operations of a point would have other shares than they should. The error
/// would be more than what one step of a figure comes to.
const DEAL: u64 = 16;

impl Mix {
    /// The kind of an operation, the same in every run: each deal is shuffled in its own way.
    fn kind(self, number: u64) -> Kind {
        let first = number - number % DEAL;
        let own = mix(number);
        let before = (first..first + DEAL).filter(|other| mix(*other) < own);
        let place = before.count() as f64;
        let writes = self.writes * DEAL as f64;
        let reads = DEAL as f64 - writes;
        match place < writes {
            true if place < writes * self.eventual => Kind::EventualWrite,
            true => Kind::StrongWrite,
            false if place - writes < reads * self.eventual => Kind::EventualRead,
            false => Kind::StrongRead,
        }
    }
}

/// A mix on items that no other load of the cluster asks for: its log is whole.
struct Fresh {
    mix: Mix,
    load: u64,
}

impl Workload for Fresh {
    fn plan(&self, sequence: u64) -> Intent {
        let kind = self.mix.kind(sequence);
        let (act, value) = match kind.is_write() {
            true => (Act::Write, Some(sequence)),
            false => (Act::Read, None),
        };
        Intent {
            act,
            key: ITEMS * self.load + mix(!sequence) % ITEMS,
            value,
            level: kind.level(),
        }
    }
}

/// A cluster as the generator asks it.
struct InCluster(Arc<InSimpleDb>);

#[async_trait]
impl Provider for InCluster {
    async fn ask(&self, client: u32, request: &Request, level: &str) -> Outcome {
        let outcome = self.0.ask(client, request, level).await;
        if !matches!(outcome, Outcome::Done(_)) {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        outcome
    }
}

/// Response times of some kinds of operations, in milliseconds.
pub(super) fn taken(operations: &[Operation], wanted: &[Kind]) -> Vec<f64> {
    let of = operations
        .iter()
        .filter(|one| wanted.contains(&Kind::of(one)));
    let time = |one: &Operation| Some(one.done()?.0.since(one.intended) as f64 / 1e6);
    of.filter_map(time).collect()
}

/// The mean of [`taken`].
pub(super) fn mean(operations: &[Operation], wanted: &[Kind]) -> f64 {
    let values = taken(operations, wanted);
    values.iter().sum::<f64>() / values.len() as f64
}

impl Failures {
    pub(super) fn add(&mut self, operations: &[Operation]) {
        self.asked += operations.len() as u64;
        for operation in operations {
            let why = match &operation.end {
                Some((_, Outcome::Done(_))) => continue,
                Some((_, Outcome::Refused(why))) => why,
                _ => "no answer",
            };
            let line = format!("{}: {why}", Kind::of(operation).name());
            *self.failed.entry(line).or_default() += 1;
        }
    }
}

/// Operations that begin at a rate, with any speed of their answers.
pub(super) async fn at_rate(cluster: &Cluster, mix: Mix, rate: f64, time: Duration) -> Result<Log> {
    let load = Load::Open(Starts::Rate {
        rate: Rate::Constant(rate),
        arrivals: Arrivals::Constant,
        seed: 0,
    });
    // As many as can be under way before the first has no answer in time.
    let most = (rate * PATIENCE.as_secs_f64()).ceil() as u32 + 1;
    load_with(cluster, mix, load, most, time).await
}

/// Clients that each begin an operation when they have the answer to the last.
pub(super) async fn saturated(
    cluster: &Cluster,
    mix: Mix,
    clients: u32,
    time: Duration,
) -> Result<Log> {
    load_with(cluster, mix, Load::Closed, clients, time).await
}

/// Writes that were done in the time.
pub(super) fn writes_within(operations: &[Operation], time: Duration) -> u64 {
    let is_within = |one: &&Operation| {
        let returned = one.done().map(|(at, _)| u128::from(at.nanos));
        Kind::of(one).is_write() && returned.is_some_and(|at| at < time.as_nanos())
    };
    operations.iter().filter(is_within).count() as u64
}

async fn load_with(
    cluster: &Cluster,
    mix: Mix,
    load: Load,
    connections: u32,
    time: Duration,
) -> Result<Log> {
    let workload = Fresh {
        mix,
        load: cluster.next_load(),
    };
    let party = Party {
        plan: Plan {
            name: "consistency".to_owned(),
            load,
            until: Until::Elapsed(time),
            connections,
            threads: 1,
            errors_max: None,
            levels: LEVELS.map(Text::from).to_vec(),
        },
        workload: Arc::new(workload),
        provider: Arc::new(InCluster(cluster.objects.clone())),
        endpoint: "cluster".into(),
        first: 0,
    };
    let operations = drive_all(&system_runtime(), vec![vec![(Duration::ZERO, party)]]).await;
    // A request that is wrong measures nothing.
    let is_wrong = |one: &&Operation| match &one.end {
        Some((_, Outcome::Refused(why))) => why.starts_with('4'),
        _ => false,
    };
    match operations.iter().find(is_wrong) {
        Some(wrong) => failure::fail(ErrorCode::RequestRefused, wrong),
        None => Ok(Log {
            header: Header {
                target: "cluster".to_owned(),
                levels: LEVELS.map(str::to_owned).to_vec(),
                order: Order::Told,
                ..Header::default()
            },
            operations,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{DEAL, Kind, Mix};

    #[test]
    fn a_mix_is_what_was_asked_for_in_every_deal() {
        for (writes, eventual) in [(0.75, 0.25), (0.5, 0.75), (0.25, 0.5)] {
            let mix = Mix { writes, eventual };
            let shares = [
                (1.0 - writes) * (1.0 - eventual),
                writes * (1.0 - eventual),
                (1.0 - writes) * eventual,
                writes * eventual,
            ];
            for deal in 0..100 {
                let kinds: Vec<_> = (DEAL * deal..DEAL * (deal + 1))
                    .map(|number| mix.kind(number))
                    .collect();
                let count = |kind| kinds.iter().filter(|of| **of == kind).count() as f64;
                assert_eq!(Kind::ALL.map(count), shares.map(|it| it * DEAL as f64));
            }
        }
    }

    #[test]
    fn deals_differ() {
        let mix = Mix {
            writes: 0.5,
            eventual: 0.5,
        };
        let deal = |deal| (DEAL * deal..DEAL * (deal + 1)).map(move |it| mix.kind(it));
        assert!(!deal(0).eq(deal(1)));
    }

    #[test]
    fn pure_mixes_are_pure() {
        let kinds = |writes, eventual| (0..500).map(move |n| Mix { writes, eventual }.kind(n));
        assert!(kinds(0.0, 0.0).all(|kind| kind == Kind::StrongRead));
        assert!(kinds(1.0, 1.0).all(|kind| kind == Kind::EventualWrite));
    }
}
