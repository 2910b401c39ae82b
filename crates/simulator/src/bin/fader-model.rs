//! `fader-model`: searches the scenarios of the model to their ends.
//!
//! `cargo xtask model` builds and runs it. Exit codes: 0 every scenario was searched to its end and
//! nothing was violated; 1 otherwise.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use clap::Parser;
use fader_chain::Guards;
use fader_simulator::model::{Delivery, Limits, Outcome, Scenario, explore, scenarios};

/// Searches every state that small chains of the real core can get into.
#[derive(Parser)]
struct Cli {
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

fn main() -> ExitCode {
    let cli = Cli::parse();
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
