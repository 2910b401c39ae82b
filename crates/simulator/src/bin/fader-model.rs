//! `fader-model`: searches the scenarios of the model to their ends.
//!
//! `cargo xtask model` builds and runs it. Exit codes: 0 every scenario was searched to its end and
//! nothing was violated; 1 otherwise.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use clap::{Args, Parser, Subcommand};
use fader_chain::Guards;
use fader_simulator::cloud;
use fader_simulator::model::{Delivery, Limits, Outcome, Scenario, explore, scenarios};

/// Searches every state that small chains of the real core can get into.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    other: Option<Other>,
    /// Only these scenarios.
    names: Vec<String>,
    /// Only the scenarios that every merge searches.
    #[arg(long)]
    quick: bool,
    /// Names the scenarios.
    #[arg(long)]
    list: bool,
    /// Gives up a search after so many states.
    #[arg(long, default_value_t = 40_000_000)]
    states: usize,
    /// Messages arrive one by one, where they would arrive together: many more states, and the
    /// same verdicts.
    #[arg(long)]
    in_order: bool,
    /// Says how many different parts the states are made of.
    #[arg(long)]
    sizes: bool,
    /// Searches at a time.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// What else can be searched.
#[derive(Subcommand)]
enum Other {
    /// Every schedule of queues and domains in a bucket, in small scopes.
    Cloud(Cloud),
}

#[derive(Args)]
struct Cloud {
    /// Only these scopes.
    names: Vec<String>,
    /// Only the scopes that every merge searches.
    #[arg(long)]
    quick: bool,
    /// Names the scopes.
    #[arg(long)]
    list: bool,
    /// Gives up a scope after so many runs.
    #[arg(long, default_value_t = 5_000_000)]
    runs: u64,
    /// Searches at a time.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(Other::Cloud(cloud)) = &cli.other {
        return match search_clouds(cloud) {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        };
    }
    let is_wanted = |scenario: &Scenario| match cli.names.is_empty() {
        true => !cli.quick || scenario.is_quick,
        false => cli.names.iter().any(|name| name == scenario.name),
    };
    let mut wanted: Vec<Scenario> = scenarios().into_iter().filter(is_wanted).collect();
    if cli.list {
        wanted
            .iter()
            .for_each(|scenario| println!("{}", scenario.name));
        return ExitCode::SUCCESS;
    }
    // A member that stops is a finding of the search, which tells it.
    std::panic::set_hook(Box::new(|_| {}));
    println!(
        "{:24} {:>9} {:>11} {:>5}",
        "scenario", "states", "transitions", "depth"
    );
    for scenario in &mut wanted {
        if cli.in_order && scenario.delivery == Delivery::Together {
            scenario.delivery = Delivery::InOrder;
        }
    }
    wanted.reverse();
    let queue = Mutex::new(wanted);
    let next = || queue.lock().ok()?.pop();
    let limits = Limits { states: cli.states };
    let unclean: usize = thread::scope(|scope| {
        let worker = || {
            let mut unclean = 0;
            while let Some(scenario) = next() {
                unclean += usize::from(!search(&scenario, limits, cli.sizes));
            }
            unclean
        };
        let workers: Vec<_> = (0..cli.threads).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(|worker| worker.join().unwrap_or(1));
        ended.sum()
    });
    match unclean {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Searches one scenario and says how it ended; whether to its end and without a violation.
fn search(scenario: &Scenario, limits: Limits, sizes: bool) -> bool {
    let found = explore(scenario, &Guards::default(), limits);
    let outcome = match &found.outcome {
        Outcome::Exhausted => "exhausted".to_owned(),
        Outcome::CutOff => "CUT OFF".to_owned(),
        Outcome::Violated { what, trace } => format!("VIOLATED: {what}\n{trace}"),
    };
    println!(
        "{:24} {:>9} {:>11} {:>5} {outcome}",
        scenario.name, found.states, found.transitions, found.depth,
    );
    if sizes {
        println!("    {}", found.sizes);
    }
    matches!(found.outcome, Outcome::Exhausted)
}

/// Searches scopes of clouds; how many were not searched to their ends without a violation.
fn search_clouds(options: &Cloud) -> usize {
    let is_wanted = |scope: &cloud::Scope| match options.names.is_empty() {
        true => !options.quick || scope.is_quick,
        false => options.names.iter().any(|name| name == scope.name),
    };
    let mut wanted: Vec<cloud::Scope> = cloud::scopes().into_iter().filter(is_wanted).collect();
    if options.list {
        wanted.iter().for_each(|scope| println!("{}", scope.name));
        return 0;
    }
    println!(
        "{:24} {:>9} {:>9} {:>5}",
        "scope", "runs", "blocked", "depth"
    );
    wanted.reverse();
    let queue = Mutex::new(wanted);
    let next = || queue.lock().ok()?.pop();
    let worker = || {
        let mut unclean = 0;
        while let Some(scope) = next() {
            unclean += usize::from(!search_cloud(&scope, options.runs));
        }
        unclean
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(|worker| worker.join().unwrap_or(1));
        ended.sum()
    })
}

fn search_cloud(scope: &cloud::Scope, runs_max: u64) -> bool {
    let found = cloud::explore(scope, runs_max, None);
    let outcome = match (&found.failure, found.is_exhausted) {
        (Some((failure, trace)), _) => format!("VIOLATED: {failure}\n{}", trace.join("\n")),
        (None, true) => "exhausted".to_owned(),
        (None, false) => "CUT OFF".to_owned(),
    };
    println!(
        "{:24} {:>9} {:>9} {:>5} {outcome}",
        scope.name, found.runs, found.blocked, found.depth,
    );
    found.failure.is_none() && found.is_exhausted
}
