//! Load on servers that were started elsewhere: what the benchmarks of clusters are driven by.
//!
//! Prints one line of JSON: what was done in each second, and the latencies.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use fader_client::{Credentials, SignatureVersion, Signer};
use fader_measure::{
    BatchPut, ERRORS_MAX, Form, Get, Intent, Items, Load, Plan, Put, Ran, Summary, Target, Until,
    Verdict, Wire, Workload, run,
};

/// The variables that hold the access key and its secret.
const KEYS: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

/// What, where and for how long.
#[derive(Args)]
pub(crate) struct Options {
    /// What is asked.
    #[arg(value_enum)]
    operation: Operation,
    /// The servers, all of which hold the same data; each gets its part of the connections.
    #[arg(long, required = true, value_delimiter = ',')]
    to: Vec<SocketAddr>,
    /// The domain, which must exist.
    #[arg(long, default_value = "load")]
    domain: String,
    /// Items; to be read, they must have been filled.
    #[arg(long, default_value_t = 1000)]
    items: u64,
    /// Bytes of an item's one value.
    #[arg(long, default_value_t = 500)]
    bytes: usize,
    /// Connections over all servers.
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// For how long; `fill` ends when all items are there.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// The level of each request; without one, reads are strong.
    #[arg(long)]
    level: Option<String>,
    /// Added to the stamps, so that a run writes what none has written before.
    #[arg(long, default_value_t = 1)]
    stamp: u64,
    /// Counts what is refused, or not answered, and goes on.
    #[arg(long)]
    tolerant: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Operation {
    /// All items, once, in batches.
    Fill,
    /// PutAttributes of one item after the other.
    Put,
    /// GetAttributes of items at random, which must be as `fill` left them.
    Get,
}

/// A workload whose requests name their level.
struct At<W> {
    workload: W,
    level: Option<String>,
}

impl<W: Workload> Workload for At<W> {
    fn plan(&self, sequence: u64) -> Intent {
        self.workload.plan(sequence)
    }
}

impl<W: Wire> Wire for At<W> {
    fn action(&self) -> &'static str {
        self.workload.action()
    }

    fn parameters(&self, intent: &Intent, form: &mut Form) {
        self.workload.parameters(intent, form);
        if let Some(level) = &self.level {
            form.push("Fader-Consistency", level);
        }
    }

    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict {
        self.workload.verify(intent, body)
    }
}

/// Drives all servers at the same time.
pub(crate) fn drive(options: &Options) -> Result<()> {
    ensure!(
        options.to.len() <= options.connections as usize,
        "fewer connections than servers"
    );
    let runs: Vec<Result<Ran>> = std::thread::scope(|scope| {
        let threads: Vec<_> = options
            .to
            .iter()
            .enumerate()
            .map(|(number, address)| scope.spawn(move || drive_one(options, number, *address)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(run) => run,
            Err(_) => bail!("a thread panicked"),
        };
        threads.into_iter().map(join).collect()
    });
    let mut all: Option<Ran> = None;
    for ran in runs {
        let ran = ran?;
        match &mut all {
            None => all = Some(ran),
            Some(all) => {
                all.log.operations.extend(ran.log.operations);
                for (reason, count) in ran.refusals {
                    *all.refusals.entry(reason).or_default() += count;
                }
            }
        }
    }
    print(&all.context("there is a server at least")?);
    Ok(())
}

fn drive_one(options: &Options, number: usize, address: SocketAddr) -> Result<Ran> {
    let (count, place) = (u32::try_from(options.to.len())?, u32::try_from(number)?);
    let batches = matches!(options.operation, Operation::Fill);
    if batches && 0 < number {
        return Ok(Ran {
            log: fader_history::Log::default(),
            elapsed: Duration::ZERO,
            refusals: BTreeMap::new(),
        });
    }
    let items = Arc::new(Items {
        domain: options.domain.clone(),
        count: options.items,
        attributes: 1,
        value_bytes: options.bytes,
        groups: 0,
    });
    let level = options.level.clone();
    let (workload, until): (Arc<dyn Wire>, _) = match options.operation {
        Operation::Fill => {
            let workload = BatchPut {
                items,
                stamp_first: 0,
            };
            let until = Until::Operations(workload.operations());
            (Arc::new(At { workload, level }), until)
        }
        Operation::Put => {
            // Servers begin at different items.
            let stamp_first = options.stamp + number as u64 * options.items / u64::from(count);
            let workload = Put { items, stamp_first };
            (Arc::new(At { workload, level }), timed(options))
        }
        Operation::Get => {
            let workload = Get {
                stamps: (0..items.count).map(|key| (key, 0)).collect(),
                consistent: level.is_none(),
                items,
            };
            (Arc::new(At { workload, level }), timed(options))
        }
    };
    let plan = Plan {
        name: String::from("load"),
        load: Load::Closed,
        until,
        connections: (options.connections + count - 1 - place) / count,
        threads: 1,
        errors_max: (!options.tolerant).then_some(ERRORS_MAX),
        levels: Vec::new(),
    };
    let credentials = credentials()?;
    let signer = Signer::new(&credentials, SignatureVersion::V2, &address.to_string());
    let target = Target {
        address,
        signer: Arc::new(signer),
    };
    Ok(run(&target, &plan, workload, |_| {})?)
}

/// What requests are signed with, of the environment.
pub(crate) fn credentials() -> Result<Credentials> {
    let [id, secret] = KEYS.map(|name| std::env::var(name).with_context(|| name.to_owned()));
    Ok(Credentials::new(&id?, &secret?))
}

fn timed(options: &Options) -> Until {
    Until::Elapsed(Duration::from_secs_f64(options.seconds))
}

fn print(ran: &Ran) {
    let summary = Summary::of(&ran.log, ran.elapsed);
    let mut seconds = Vec::new();
    for (returned, _) in ran.log.operations.iter().filter_map(|one| one.done()) {
        let second = usize::try_from(returned.nanos / 1_000_000_000).unwrap_or(usize::MAX);
        if seconds.len() <= second {
            seconds.resize(second + 1, 0_u64);
        }
        seconds[second] += 1;
    }
    let failed = ran.log.operations.iter().filter(|it| it.done().is_none());
    let lost = failed.count() as u64 - ran.refusals.values().sum::<u64>();
    let ms = |quantile| summary.response.value_at_quantile(quantile) as f64 / 1e6;
    let line = serde_json::json!({
        "done": summary.done,
        "rate": summary.rate,
        "refused": ran.refusals,
        "lost": lost,
        "p50_ms": ms(0.5),
        "p99_ms": ms(0.99),
        "seconds": seconds,
    });
    println!("{line}");
}
