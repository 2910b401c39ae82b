//! `fader-simulate cloud|database|mapreduce|sqs|s3|registers`: runs many simulated clouds,
//! databases, jobs, queues, buckets or chains of registers, or one of them for a reader.

#[cfg(feature = "mutants")]
mod mutants;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use fader_chain::Guards;
use fader_simulator::cloud::{self, Backend, Failure};
use fader_simulator::membership::Run;
use fader_simulator::{database, mapreduce, registers, s3, sqs};

/// One seed in so many is run twice: the same seed gives the same run.
const REPEATED: u64 = 10;

/// How many clouds, and of which kind.
#[derive(Args)]
pub(crate) struct Options {
    /// How many seeds.
    #[arg(long, default_value_t = 300)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Prints what happened (with `--seed`).
    #[arg(long)]
    trace: bool,
    /// Makes a failing run of a database smaller before it is shown: at most this many runs (with
    /// `--seed`).
    #[arg(long, default_value_t = 300)]
    shrink: usize,
    /// Breaks each promise once, and runs until a check tells.
    #[cfg(feature = "mutants")]
    #[arg(long)]
    mutants: bool,
    /// How many threads run clouds.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// What many runs came to.
#[derive(Default)]
struct Tally {
    runs: u64,
    steps: u64,
    calls: u64,
    claims: BTreeMap<&'static str, usize>,
    failures: BTreeMap<u64, Failure>,
}

/// What one run came to.
pub(crate) struct Found {
    backend: Backend,
    failure: Option<Failure>,
    claims: BTreeMap<&'static str, usize>,
    steps: u64,
    calls: u64,
    digest: u64,
    trace: Vec<String>,
}

/// A kind of simulated world.
#[derive(Clone, Copy)]
pub(crate) struct World {
    /// Its command.
    name: &'static str,
    /// Runs a seed, perhaps with a trace.
    run: fn(u64, bool) -> Found,
    /// Makes the failing run of a seed smaller: what is left of its plan, and its run with a trace.
    shrink: Option<Shrink>,
}

/// Takes a seed, its failure and how many runs it may take.
type Shrink = fn(u64, &Failure, usize) -> (String, Found);

/// Processes on clouds.
pub(crate) const CLOUD: World = World {
    name: "cloud",
    run: |seed, is_traced| {
        let backend = Backend::ALL[(seed % Backend::ALL.len() as u64) as usize];
        let run = cloud::run(&cloud::Plan::new(seed, backend), is_traced);
        Found {
            backend,
            failure: run.failure,
            claims: run.claims,
            steps: run.steps,
            calls: run.history.calls(),
            digest: run.digest,
            trace: run.trace,
        }
    },
    shrink: None,
};

/// Clients of a database.
pub(crate) const DATABASE: World = World {
    name: "database",
    run: |seed, is_traced| {
        let plan = database::Plan::new(seed);
        of_database(&plan, is_traced)
    },
    shrink: Some(|seed, failure, runs_max| {
        let (plan, _) = database::shrink(&database::Plan::new(seed), failure, runs_max);
        (plan.summary(), of_database(&plan, true))
    }),
};

fn of_database(plan: &database::Plan, is_traced: bool) -> Found {
    let run = database::run(plan, is_traced);
    Found {
        backend: plan.backend(),
        failure: run.failure,
        claims: run.claims,
        steps: run.steps,
        calls: run.calls,
        digest: run.digest,
        trace: run.trace,
    }
}

/// Jobs on one output.
pub(crate) const MAPREDUCE: World = World {
    name: "mapreduce",
    run: |seed, is_traced| {
        let run = mapreduce::run(&mapreduce::Plan::new(seed), is_traced);
        Found {
            backend: Backend::Models,
            failure: run.failure,
            claims: run.claims,
            steps: run.steps,
            calls: run.calls,
            digest: run.digest,
            trace: run.trace,
        }
    },
    shrink: None,
};

/// Queues of the store, on the members of two chains.
pub(crate) const SQS: World = World {
    name: "sqs",
    run: |seed, is_traced| of_store(sqs::run(seed, &Guards::default(), is_traced)),
    shrink: None,
};

/// Buckets of the store, on the members of a chain.
pub(crate) const S3: World = World {
    name: "s3",
    run: |seed, is_traced| of_store(s3::run(seed, &Guards::default(), None, is_traced)),
    shrink: None,
};

/// Puts and gets on a chain of mode `strong`, which four judges of linearizability judge.
pub(crate) const REGISTERS: World = World {
    name: "registers",
    run: |seed, is_traced| of_store(registers::run(seed, is_traced)),
    shrink: None,
};

fn of_store(run: Run) -> Found {
    let mut hasher = DefaultHasher::new();
    (run.events, &run.claims).hash(&mut hasher);
    Found {
        backend: Backend::Models,
        failure: run.failure.map(|it| Failure {
            guarantee: it.guarantee,
            text: it.text,
        }),
        calls: run.claims.get("calls").copied().unwrap_or(0) as u64,
        claims: run.claims,
        steps: run.events,
        digest: hasher.finish(),
        trace: run.trace,
    }
}

/// Simulates; whether no promise was broken.
pub(crate) fn simulate(world: World, options: &Options) -> bool {
    #[cfg(feature = "mutants")]
    if options.mutants {
        return mutants::score(options.seeds);
    }
    match options.seed {
        Some(seed) => one(world, seed, options),
        None => many(world, options),
    }
}

fn one(world: World, seed: u64, options: &Options) -> bool {
    let mut found = (world.run)(seed, options.trace);
    if let (Some(shrink), Some(failure)) = (world.shrink, &found.failure)
        && 0 < options.shrink
    {
        println!("seed {seed}: {failure}");
        let (left, smaller) = shrink(seed, failure, options.shrink);
        println!("made smaller: {left}");
        found = smaller;
        if !options.trace {
            found.trace.clear();
        }
    }
    found.trace.iter().for_each(|line| println!("{line}"));
    println!(
        "seed {seed} ({:?}): {} steps, {} calls",
        found.backend, found.steps, found.calls
    );
    for (name, count) in &found.claims {
        println!("  {name:<12} {count}");
    }
    if let Some(failure) = &found.failure {
        println!("{failure}");
    }
    found.failure.is_none()
}

/// Runs a seed, and some of them twice. A panic is a finding.
fn judged(world: World, seed: u64, tally: &Mutex<Tally>) {
    let found = catch_unwind(AssertUnwindSafe(|| {
        let found = (world.run)(seed, false);
        let repeated = seed
            .is_multiple_of(REPEATED)
            .then(|| (world.run)(seed, false).digest);
        (found, repeated)
    }));
    let mut tally = tally.lock().expect("no thread panics while it counts");
    tally.runs += 1;
    let failure = match found {
        Err(panic) => Some(Failure {
            guarantee: "panic",
            text: text(panic.as_ref()),
        }),
        Ok((found, repeated)) => {
            tally.steps += found.steps;
            tally.calls += found.calls;
            for (name, count) in found.claims {
                *tally.claims.entry(name).or_default() += count;
            }
            let differs = repeated.is_some_and(|digest| digest != found.digest);
            let other = differs.then(|| Failure {
                guarantee: "repeat",
                text: "the same seed gave another run".to_owned(),
            });
            found.failure.or(other)
        }
    };
    if let Some(failure) = failure {
        println!("seed {seed}: {failure}");
        tally.failures.insert(seed, failure);
    }
    if tally.runs.is_multiple_of(100) {
        eprintln!("{} runs, {} failed", tally.runs, tally.failures.len());
    }
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without words").to_owned()
}

fn many(world: World, options: &Options) -> bool {
    let next = AtomicU64::new(options.from);
    let end = options.from + options.seeds;
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if end <= seed {
                        break;
                    }
                    judged(world, seed, &tally);
                }
            });
        }
    });
    let tally = tally
        .into_inner()
        .expect("no thread panics while it counts");
    println!(
        "{} runs of {}, {} steps, {} calls; claims checked:",
        tally.runs, world.name, tally.steps, tally.calls
    );
    for (name, count) in &tally.claims {
        println!("  {name:<12} {count}");
    }
    println!("{} violations", tally.failures.len());
    if let Some((seed, _)) = tally.failures.first_key_value() {
        let name = world.name;
        println!("to see one: cargo xtask simulate {name} --seed {seed} --trace");
    }
    tally.failures.is_empty()
}
