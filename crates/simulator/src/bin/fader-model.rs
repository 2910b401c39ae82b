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
use fader_simulator::model::{
    BlockScope, Delivery, Found, LeftOut, Limits, Outcome, Scenario, block_scopes, explore,
    scenarios, traces,
};

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
    /// Blocks of objects: their bytes beside their rows, on the real replica; commits, reads,
    /// eventual puts and collectors, on the real decisions.
    Blocks(Blocks),
}

/// Each scope is searched breadth first to its end. In every state a member that serves has the
/// bytes of the rows that it shows, and every version is whole. A read that takes less than the
/// wait of garbage ends whole. An eventual put that was acknowledged is placed, or a later one is.
/// From every state the steps of members and collectors alone lead to one in which nothing is
/// left to go. The table says how many states and steps there are, and how far the farthest is.
#[derive(Args)]
struct Blocks {
    /// Only these scopes.
    names: Vec<String>,
    /// Only the scopes that every merge searches.
    #[arg(long)]
    quick: bool,
    /// Names the scopes.
    #[arg(long)]
    list: bool,
    /// Leaves out this rule of nodes: some scope then ends with a trace.
    #[arg(long, value_parser = LeftOut::named)]
    without: Option<LeftOut>,
    /// Leaves out each rule in a scope that tells it. Prints the traces, the shortest first. Built
    /// with the feature `mutants` it leaves out guards of services, too.
    #[arg(long, conflicts_with = "without")]
    rules: bool,
    /// Gives up a scope after so many states.
    #[arg(long, default_value_t = 40_000_000)]
    states: usize,
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

/// The head of a table of searches.
const HEADER: &str = "scenario                    states transitions depth";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let is_good = match &cli.other {
        Some(Other::Cloud(cloud)) => search_clouds(cloud) == 0,
        Some(Other::Blocks(blocks)) => search_blocks(blocks),
        None => search_chains(&cli),
    };
    match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Searches scenarios of chains; whether all went to their ends without a violation.
fn search_chains(cli: &Cli) -> bool {
    let is_wanted = |scenario: &Scenario| match cli.names.is_empty() {
        true => !cli.quick || scenario.is_quick,
        false => cli.names.iter().any(|name| name == scenario.name),
    };
    let mut wanted: Vec<Scenario> = scenarios().into_iter().filter(is_wanted).collect();
    if cli.list {
        wanted
            .iter()
            .for_each(|scenario| println!("{}", scenario.name));
        return true;
    }
    // A member that stops is a finding of the search, which tells it.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{HEADER}");
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
    unclean == 0
}

/// Searches one scenario and says how it ended; whether to its end and without a violation.
fn search(scenario: &Scenario, limits: Limits, sizes: bool) -> bool {
    let found = explore(scenario, &Guards::default(), limits);
    show(scenario.name, &found, sizes)
}

/// Prints how a search ended; whether at its end and without a violation.
fn show(name: &str, found: &Found, sizes: bool) -> bool {
    let outcome = match &found.outcome {
        Outcome::Exhausted => "exhausted".to_owned(),
        Outcome::CutOff => "CUT OFF".to_owned(),
        Outcome::Violated { what, trace } => format!("VIOLATED: {what}\n{trace}"),
    };
    println!(
        "{:24} {:>9} {:>11} {:>5} {outcome}",
        name, found.states, found.transitions, found.depth,
    );
    if sizes {
        println!("    {}", found.sizes);
    }
    matches!(found.outcome, Outcome::Exhausted)
}

/// Searches scopes of blocks; whether all went to their ends without a violation. Where rules are
/// left out: whether each is told.
fn search_blocks(options: &Blocks) -> bool {
    let is_wanted = |scope: &BlockScope| match options.names.is_empty() {
        true => !options.quick || scope.is_quick(),
        false => options.names.iter().any(|name| name == scope.name()),
    };
    let wanted: Vec<BlockScope> = block_scopes().into_iter().filter(is_wanted).collect();
    if options.list {
        wanted.iter().for_each(|scope| println!("{}", scope.name()));
        return true;
    }
    // A member that stops is a finding of the search, which tells it.
    std::panic::set_hook(Box::new(|_| {}));
    let limits = Limits {
        states: options.states,
    };
    if options.rules {
        return tell_rules(&wanted, limits);
    }
    println!("{HEADER}");
    let unclean = wanted.iter().filter(|scope| {
        let found = scope.explore(options.without, limits);
        !show(scope.name(), &found, false)
    });
    unclean.count() == 0
}

/// Prints what is told without each rule.
fn tell_rules(wanted: &[BlockScope], limits: Limits) -> bool {
    match traces(wanted, limits) {
        Ok(told) => {
            for (rule, scope, trace) in &told {
                println!("without {rule:?}, {scope}: {trace}\n");
            }
            println!("{} rules left out, each is told", told.len());
            for rule in LeftOut::rules().filter(|rule| !rule.is_needed()) {
                println!("not needed: {rule:?}");
            }
            true
        }
        Err(untold) => {
            println!("not told: {untold:?}");
            false
        }
    }
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
