//! Reads and writes, strong and eventual, in any mix.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fader_client::{Demand, Error, ErrorKind, SimpleDb};
use fader_cloud::AttributePut;
use fader_services::level;
use serde::Serialize;
use tokio::task::JoinSet;

use super::cluster::{Cluster, DOMAIN};

/// So few that at a low rate reads meet items that are being written.
const ITEMS: u64 = 10;
const VALUE_BYTES: usize = 500;
/// Whoever was refused waits so long: nobody asks as fast as it is refused.
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

/// What came of operations.
#[derive(Default)]
pub(super) struct Samples {
    /// Latencies of those that were carried out, in milliseconds.
    pub(super) taken: BTreeMap<Kind, Vec<f64>>,
    /// What was said of the others, and how often.
    failed: BTreeMap<String, u64>,
}

/// How many operations there were in all, and what was said of those that were not carried out.
#[derive(Default, Serialize)]
pub(super) struct Tally {
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

    /// What a request of the kind asks for.
    fn level(self) -> &'static str {
        match self {
            Kind::StrongRead | Kind::StrongWrite => "strong",
            Kind::EventualRead => "eventual; r=2",
            Kind::EventualWrite => "eventual; w=2",
        }
    }
}

/// Of so many operations in a row each kind has its share exactly: shares are in quarters. Drawn
/// one by one, the few operations of a point would have other shares than they should, by more
/// than what one step of a figure comes to.
const DEAL: u64 = 16;

impl Mix {
    /// The kind of an operation, the same in every run: each deal is shuffled in its own way.
    fn kind(self, number: u64) -> Kind {
        let first = number - number % DEAL;
        let own = scatter(number);
        let before = (first..first + DEAL).filter(|other| scatter(*other) < own);
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

/// The finalizer of SplitMix64.
fn scatter(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What a level is called in a request.
pub(super) fn demand(level: &str) -> Result<Demand<'static>> {
    let asked: level::Demand = level.parse().map_err(anyhow::Error::msg)?;
    Ok(Demand {
        level: asked.level,
        ..Demand::default()
    })
}

/// One read or write of an item.
pub(super) async fn one(
    client: &SimpleDb,
    is_write: bool,
    item: &str,
    number: u64,
    demand: Demand<'_>,
) -> Result<(), Error> {
    if !is_write {
        let found = client.get_attributes(DOMAIN, item, &[], demand).await;
        return found.map(|_| ());
    }
    let put = AttributePut {
        name: "v".to_owned(),
        value: format!("{number:0VALUE_BYTES$}"),
        replace: true,
    };
    let puts = [put];
    let put = client.put_attributes(DOMAIN, item, &puts, None, demand);
    put.await.map(|_| ())
}

/// How long an operation took, in milliseconds; or why nobody carried it out.
type Timed = (Kind, Result<f64, String>);

/// An operation that may be refused by a member that is left out, or has no answer in time, is one
/// of many; any other failure ends the measurement.
async fn timed(client: Arc<SimpleDb>, kind: Kind, number: u64) -> Result<Timed> {
    let item = format!("item-{}", scatter(!number) % ITEMS);
    let demand = demand(kind.level())?;
    let start = Instant::now();
    let done = one(&client, kind.is_write(), &item, number, demand).await;
    let taken = match done {
        Ok(()) => Ok(start.elapsed().as_secs_f64() * 1e3),
        Err(error) if is_no_answer(&error.kind) => {
            tokio::time::sleep(AFTER_FAILURE).await;
            Err(format!("{}: {error}", kind.name()))
        }
        Err(error) => return Err(error).context(kind.name()),
    };
    Ok((kind, taken))
}

fn is_no_answer(kind: &ErrorKind) -> bool {
    match kind {
        ErrorKind::Refused { status, .. } => 500 <= *status,
        ErrorKind::Unavailable | ErrorKind::Ambiguous => true,
        ErrorKind::Invalid | ErrorKind::Malformed => false,
    }
}

impl Samples {
    fn add(&mut self, (kind, taken): Timed) {
        match taken {
            Ok(taken) => self.taken.entry(kind).or_default().push(taken),
            Err(why) => *self.failed.entry(why).or_default() += 1,
        }
    }

    /// The mean latency of reads, of writes, or of both.
    pub(super) fn mean(&self, wanted: &[Kind]) -> f64 {
        let of = wanted.iter().filter_map(|kind| self.taken.get(kind));
        let values: Vec<f64> = of.flatten().copied().collect();
        values.iter().sum::<f64>() / values.len() as f64
    }
}

impl Tally {
    pub(super) fn add(&mut self, samples: Samples) {
        let taken: usize = samples.taken.values().map(Vec::len).sum();
        self.asked += taken as u64;
        for (why, count) in samples.failed {
            self.asked += count;
            *self.failed.entry(why).or_default() += count;
        }
    }
}

/// Operations that begin at a rate, whatever their answers do.
pub(super) async fn at_rate(
    cluster: &Cluster,
    mix: Mix,
    rate: f64,
    time: Duration,
) -> Result<Samples> {
    let mut tasks = JoinSet::new();
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    let count = (rate * time.as_secs_f64()).ceil() as u64;
    for number in 0..count {
        ticks.tick().await;
        tasks.spawn(timed(cluster.client.clone(), mix.kind(number), number));
    }
    let mut samples = Samples::default();
    while let Some(done) = tasks.join_next().await {
        samples.add(done??);
    }
    Ok(samples)
}

/// What many clients got done.
pub(super) struct Done {
    /// Writes whose answers came in the time.
    pub(super) writes: u64,
    /// All, those under way at the end among them.
    pub(super) samples: Samples,
}

/// Clients that each begin an operation when they have the answer to the last.
pub(super) async fn saturated(
    cluster: &Cluster,
    mix: Mix,
    clients: usize,
    time: Duration,
) -> Result<Done> {
    let numbers = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..clients {
        let (client, numbers) = (cluster.client.clone(), numbers.clone());
        tasks.spawn(async move {
            let mut own = Vec::new();
            while begin.elapsed() < time {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let done = timed(client.clone(), mix.kind(number), number).await?;
                own.push((done, begin.elapsed() < time));
            }
            anyhow::Ok(own)
        });
    }
    let (mut writes, mut samples) = (0, Samples::default());
    while let Some(own) = tasks.join_next().await {
        for (done, is_in_time) in own?? {
            let (kind, taken) = &done;
            writes += u64::from(is_in_time && kind.is_write() && taken.is_ok());
            samples.add(done);
        }
    }
    Ok(Done { writes, samples })
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
