//! `fader-simulate cloud`: runs many simulated clouds, or one of them for a reader.

#[cfg(feature = "mutants")]
mod mutants;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use fader_simulator::cloud::{Backend, Failure, Plan, run};

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

/// Simulates; whether no promise was broken.
pub(crate) fn simulate(options: &Options) -> bool {
    #[cfg(feature = "mutants")]
    if options.mutants {
        return mutants::score(options.seeds);
    }
    match options.seed {
        Some(seed) => one(seed, options.trace),
        None => many(options),
    }
}

fn backend(seed: u64) -> Backend {
    Backend::ALL[(seed % Backend::ALL.len() as u64) as usize]
}

fn one(seed: u64, is_traced: bool) -> bool {
    let plan = Plan::new(seed, backend(seed));
    let found = run(&plan, is_traced);
    found.trace.iter().for_each(|line| println!("{line}"));
    println!(
        "seed {seed} ({:?}): {} steps, {} calls",
        plan.backend,
        found.steps,
        found.history.calls()
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
fn judged(seed: u64, tally: &Mutex<Tally>) {
    let plan = Plan::new(seed, backend(seed));
    let found = catch_unwind(AssertUnwindSafe(|| {
        let found = run(&plan, false);
        let repeated = seed
            .is_multiple_of(REPEATED)
            .then(|| run(&plan, false).digest);
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
            tally.calls += found.history.calls();
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

fn many(options: &Options) -> bool {
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
                    judged(seed, &tally);
                }
            });
        }
    });
    let tally = tally
        .into_inner()
        .expect("no thread panics while it counts");
    println!(
        "{} clouds, {} steps, {} calls; claims checked:",
        tally.runs, tally.steps, tally.calls
    );
    for (name, count) in &tally.claims {
        println!("  {name:<12} {count}");
    }
    println!("{} violations", tally.failures.len());
    if let Some((seed, _)) = tally.failures.first_key_value() {
        println!("to see one: cargo xtask simulate cloud --seed {seed} --trace");
    }
    tally.failures.is_empty()
}
