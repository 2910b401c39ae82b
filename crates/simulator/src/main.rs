//! `fader-simulate`: runs many worlds, or one of them for a reader. `cargo xtask simulate` builds
//! and starts it.

mod clouds;
#[cfg(feature = "mutants")]
mod mutants;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use fader_chain::{Guards, Wiring};
use fader_simulator::world::{Choice, Failure, Mode, Plan, Run, RunProfile, losses, run, shrink};
use fader_simulator::{membership, steps};

/// Simulated clusters of Fader's chain: every fault from a seed, every guarantee checked.
#[derive(Parser)]
#[command(
    name = "cargo xtask simulate",
    bin_name = "cargo xtask simulate",
    args_conflicts_with_subcommands = true
)]
struct Options {
    #[command(subcommand)]
    other: Option<Other>,
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
    /// Makes a failing run smaller before it is shown: at most this many runs.
    #[arg(long, default_value_t = 600)]
    shrink: usize,
    /// What runs are to show; by their seeds if not given.
    #[arg(long)]
    mode: Option<ModeName>,
    /// How many members a chain has; by the seeds if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=5))]
    members: Option<u32>,
    /// How entries travel at first; by the seeds if not given.
    #[arg(long)]
    wiring: Option<WiringName>,
    /// Whether there are eventual operations; by the seeds if not given.
    #[arg(long)]
    mixed: Option<bool>,
    /// Whether the mode changes where there are eventual operations; by the seeds if not given.
    #[arg(long)]
    modes: Option<bool>,
    /// What runs are about; by the seeds if not given.
    #[arg(long, value_parser = profiles())]
    profile: Option<RunProfile>,
    /// Only runs of sessions in ZooKeeper; without a profile each seed has one besides its own run.
    #[arg(long, conflicts_with = "profile")]
    sessions: bool,
    /// Only runs of steps across chains; without a profile each seed has one besides its own run.
    #[arg(long, conflicts_with_all = ["profile", "sessions"])]
    steps: bool,
    /// Only runs in which one member is lost; without a profile each seed has one besides its own
    /// run.
    #[arg(long, conflicts_with_all = ["profile", "sessions", "steps"])]
    losses: bool,
    /// Removes each guard once, and runs until that is caught.
    #[cfg(feature = "mutants")]
    #[arg(long)]
    mutants: bool,
    /// Removes these guards, and says which of the runs that are right with them fail.
    #[cfg(feature = "mutants")]
    #[arg(long, value_name = "GUARD")]
    without: Vec<String>,
    /// How many threads run worlds.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// What else can be simulated.
#[derive(Subcommand)]
enum Other {
    /// Processes on clouds of objects, queues and domains, instead of chains.
    Cloud(clouds::Options),
    /// Clients of a database on such clouds.
    Database(clouds::Options),
    /// Jobs of map and reduce tasks on such clouds.
    Mapreduce(clouds::Options),
    /// Producers and consumers of the store's queues, on the members of two chains.
    Sqs(clouds::Options),
    /// Clients of the store's buckets, and their blocks, on the members of a chain.
    S3(clouds::Options),
    /// Puts and gets on a chain, also with changed answers: four checks of linearizability agree.
    Registers(clouds::Options),
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    /// Faults all the time: nothing wrong is ever said.
    Safety,
    /// Faults end: then everything comes to rest.
    Liveness,
}

#[derive(Clone, Copy, ValueEnum)]
enum WiringName {
    /// The head sends to all and commits.
    Star,
    /// Each member sends to its successor, the tail commits.
    Chain,
}

/// Reads the name of a profile.
fn profiles() -> impl TypedValueParser<Value = RunProfile> {
    let possible = |profile: RunProfile| {
        let (name, about) = profile.words();
        PossibleValue::new(name).help(about)
    };
    let named = |name: String| {
        let mut all = RunProfile::ALL.into_iter();
        all.find(|profile| profile.words().0 == name)
            .expect("only what is possible is read")
    };
    PossibleValuesParser::new(RunProfile::ALL.map(possible)).map(named)
}

/// What many runs came to.
#[derive(Default)]
struct Tally {
    runs: u64,
    others: u64,
    events: u64,
    calls: u64,
    claims: BTreeMap<&'static str, usize>,
    /// With the flag that shows the run.
    failures: Vec<(u64, &'static str, Failure)>,
}

impl Options {
    /// Whether runs of one world alone are asked for.
    fn is_part(&self) -> bool {
        self.sessions || self.steps || self.losses
    }

    /// Whether each seed has a run of a world that is asked for alone, or not.
    fn has(&self, is_asked: bool) -> bool {
        is_asked || (self.profile.is_none() && !self.is_part())
    }

    fn choice(&self) -> Choice {
        Choice {
            mode: self.mode.map(|mode| match mode {
                ModeName::Safety => Mode::Safety,
                ModeName::Liveness => Mode::Liveness,
            }),
            members: self.members,
            wiring: self.wiring.map(|wiring| match wiring {
                WiringName::Star => Wiring::Star,
                WiringName::Chain => Wiring::Chain,
            }),
            mixed: self.mixed,
            modes: self.modes,
            profile: self.profile,
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    // A panic in a replica is a finding, told with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(other) = &options.other {
        let is_good = match other {
            Other::Cloud(options) => clouds::simulate(clouds::CLOUD, options),
            Other::Database(options) => clouds::simulate(clouds::DATABASE, options),
            Other::Mapreduce(options) => clouds::simulate(clouds::MAPREDUCE, options),
            Other::Sqs(options) => clouds::simulate(clouds::SQS, options),
            Other::S3(options) => clouds::simulate(clouds::S3, options),
            Other::Registers(options) => clouds::simulate(clouds::REGISTERS, options),
        };
        return match is_good {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    }
    #[cfg(feature = "mutants")]
    if !options.without.is_empty() {
        let seeds = options.from..options.from + options.seeds;
        let (names, choice) = (&options.without, options.choice());
        return match mutants::hunt(names, seeds, &choice, options.sessions) {
            Ok(()) => ExitCode::SUCCESS,
            Err(name) => {
                eprintln!("error: no mutant removes {name}: add its entry to mutants.rs");
                ExitCode::FAILURE
            }
        };
    }
    #[cfg(feature = "mutants")]
    if options.mutants {
        return match mutants::score(options.seeds, &options.choice()) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    }
    let is_good = match options.seed {
        Some(seed) => one(seed, &options),
        None => many(&options),
    };
    match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Shows one run, made smaller if it fails.
fn one(seed: u64, options: &Options) -> bool {
    if options.sessions {
        let found = membership::run(seed, &Guards::default(), options.trace);
        return one_of("sessions", seed, &found);
    }
    if options.steps {
        let found = steps::run(seed, &Guards::default(), options.trace);
        return one_of("steps", seed, &found);
    }
    let guards = Guards::default();
    if options.losses {
        let found = losses(seed, &guards, options.trace);
        if let Some(failure) = &found.failure {
            println!("{failure}");
        }
        show(seed, &found);
        return found.failure.is_none();
    }
    let plan = Plan::new(seed, &options.choice());
    let found = run(&plan, &guards, options.trace);
    let Some(failure) = &found.failure else {
        show(seed, &found);
        return true;
    };
    let (plan, _) = shrink(&plan, failure, &guards, options.shrink);
    let smaller: Run = run(&plan, &guards, true);
    if options.trace {
        smaller.trace.iter().for_each(|line| println!("{line}"));
    }
    println!("seed {seed}: {failure}");
    println!(
        "made smaller: {} members, {:?}, {} faults, {} orders: {:?}",
        plan.members,
        plan.wiring,
        plan.faults.len(),
        plan.clients.iter().map(Vec::len).sum::<usize>(),
        plan.faults,
    );
    if let Some(failure) = smaller.failure {
        println!("{failure}");
    }
    false
}

fn show(seed: u64, found: &Run) {
    found.trace.iter().for_each(|line| println!("{line}"));
    let calls = found.history.calls.len();
    println!("seed {seed}: {} events, {calls} calls", found.events);
    for (name, count) in &found.claims {
        println!("  {name:<12} {count}");
    }
}

/// Shows one run of another world.
fn one_of(what: &str, seed: u64, found: &membership::Run) -> bool {
    found.trace.iter().for_each(|line| println!("{line}"));
    println!("seed {seed} of {what}: {} events", found.events);
    for (name, count) in &found.claims {
        println!("  {name:<12} {count}");
    }
    if let Some(failure) = &found.failure {
        println!("{failure}");
    }
    found.failure.is_none()
}

fn many(options: &Options) -> bool {
    let next = AtomicU64::new(options.from);
    let end = options.from + options.seeds;
    let tally = Mutex::new(Tally::default());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if end <= seed {
                        break;
                    }
                    let guards = Guards::default();
                    let sessions = options
                        .has(options.sessions)
                        .then(|| membership::run(seed, &guards, false));
                    let steps = options
                        .has(options.steps)
                        .then(|| steps::run(seed, &guards, false));
                    let of_losses = options
                        .has(options.losses)
                        .then(|| losses(seed, &guards, false));
                    let plan = Plan::new(seed, &options.choice());
                    let found = (!options.is_part()).then(|| run(&plan, &guards, false));
                    let mut tally = tally.lock().expect("no thread panics while it counts");
                    if let Some(found) = sessions {
                        tally.add_other(seed, "--sessions ", found);
                    }
                    if let Some(found) = steps {
                        tally.add_other(seed, "--steps ", found);
                    }
                    if let Some(found) = of_losses {
                        tally.add(seed, "--losses ", found);
                    }
                    if let Some(found) = found {
                        tally.add(seed, "", found);
                    }
                    is_over.store(20 <= tally.failures.len(), Ordering::Relaxed);
                }
            });
        }
    });
    let tally = tally
        .into_inner()
        .expect("no thread panics while it counts");
    tally.print();
    tally.failures.is_empty()
}

impl Tally {
    fn add(&mut self, seed: u64, flag: &'static str, found: Run) {
        self.runs += 1;
        self.calls += found.history.calls.len() as u64;
        self.count(seed, flag, found.events, found.claims, found.failure);
        if self.runs.is_multiple_of(500) {
            eprintln!("{} runs, {} failed", self.runs, self.failures.len());
        }
    }

    /// A run of another world, and the flag that shows it.
    fn add_other(&mut self, seed: u64, flag: &'static str, found: membership::Run) {
        self.others += 1;
        self.count(seed, flag, found.events, found.claims, found.failure);
    }

    /// `flag` is what shows the run.
    fn count(
        &mut self,
        seed: u64,
        flag: &'static str,
        events: u64,
        claims: impl IntoIterator<Item = (&'static str, usize)>,
        failure: Option<Failure>,
    ) {
        self.events += events;
        for (name, count) in claims {
            *self.claims.entry(name).or_default() += count;
        }
        if let Some(failure) = failure {
            let text = failure.to_string();
            let line = text.lines().next().unwrap_or("");
            println!("{flag}seed {seed}: {line}");
            self.failures.push((seed, flag, failure));
        }
    }

    fn print(&self) {
        println!(
            "{} runs, {} of sessions and steps, {} events, {} calls; claims checked:",
            self.runs, self.others, self.events, self.calls
        );
        for (name, count) in &self.claims {
            println!("  {name:<12} {count}");
        }
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, _, failure) in &self.failures {
            *kinds.entry(failure.guarantee).or_default() += 1;
        }
        println!("{} violations", self.failures.len());
        for (name, count) in &kinds {
            println!("  {name:<12} {count}");
        }
        if let Some((seed, flag, _)) = self.failures.iter().min_by_key(|(seed, ..)| *seed) {
            println!("to see one: cargo xtask simulate {flag}--seed {seed} --trace");
        }
    }
}
