//! Simulated and modelled clusters: builds `fader-simulate` or `fader-model` and hands over.

use std::ffi::OsString;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;

use crate::command::{self, Profile};

/// How often and what.
#[derive(Args)]
pub(crate) struct Options {
    /// For the program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// How long to look for what catches a mutant.
#[derive(Args)]
pub(crate) struct Mutants {
    /// Runs for each, besides the one that is known to catch it.
    #[arg(long, default_value_t = 300)]
    seeds: u64,
}

/// Runs what was asked for.
pub(crate) fn run(options: &Options) -> Result<bool> {
    Profile::Checked.build(&[command::SIMULATOR])?;
    start("fader-simulate", &options.arguments)
}

/// Searches what was asked for. `database`: the models of its protocols, in their whole scopes,
/// and each without one of its rules.
pub(crate) fn model(options: &Options) -> Result<bool> {
    if options
        .arguments
        .first()
        .is_some_and(|first| first == "database")
    {
        return model_of_database();
    }
    Profile::Checked.build(&[command::SIMULATOR])?;
    start("fader-model", &options.arguments)
}

/// The models of the database's protocols. A (queues), B (splits), C1 (transactions), D (sessions)
/// and H (pending records) run on the functions of pages. I (entries of indexes) and K (claims) run
/// on the decisions of clients.
fn model_of_database() -> Result<bool> {
    let mut are_good = true;
    for (package, filter) in [("fader-blink", "tests::"), ("fader-database", "models::")] {
        let mut test = Profile::Checked.cargo("test");
        test.args(["--lib", "--package", package]);
        test.args(IN_MUTANTS);
        test.args([filter, "--", "--nocapture"]);
        are_good &= command::succeeds(test.env("FADER_MODELS", "full"))?;
    }
    Ok(are_good)
}

/// The simulated worlds of every merge: what `fader-simulate` is asked for, how many seeds, and of
/// how many parts a merge runs one. The first draws its profiles by the seed; seeds do not draw
/// those that stand apart.
const WORLDS: [(&[&str], u64, u64); 14] = [
    (&[], 300, 1),
    (&["--profile", "leavings"], 100, 1),
    (&["--profile", "moves"], 100, 1),
    (&["--profile", "borrowings"], 50, 1),
    (&["--profile", "retractions"], 50, 1),
    (&["--profile", "races"], 50, 1),
    (&["--profile", "idlers"], 50, 1),
    (&["--profile", "stops"], 50, 1),
    (&["cloud"], 300, 3),
    (&["database"], 300, 6),
    (&["mapreduce"], 300, 3),
    (&["sqs"], 40, 1),
    (&["s3"], 40, 1),
    (&["registers"], 100, 1),
];

/// The scenarios that take half of a search of all. A merge searches one of them.
const LARGEST: [&str; 3] = ["star-whole", "star-quorum-move", "chain-whole"];

/// How the scopes of blocks begin that search the same in another wiring. A merge searches one.
const WIRINGS: [&str; 2] = ["star-", "chain-"];

/// The runs and searches of every merge, with programs that are built already. Seeds are among the
/// first, so that a merge is judged by its change. Long runs draw others. What a merge does a part
/// of, it chooses by this seed of its own.
pub(crate) fn ci(seed: u64) -> Result<bool> {
    let worlds = WORLDS.iter().map(|&(world, seeds, parts)| {
        let (from, seeds) = part(seeds, parts, seed);
        let mut run = program("fader-simulate");
        run.args(world).args(["--from", &from.to_string()]);
        run.args(["--seeds", &seeds.to_string()]);
        run
    });
    let mut clouds = program("fader-model");
    clouds.args(["cloud", "--quick"]);
    let mut blocks = program("fader-model");
    let scopes = listed(&["blocks"])?;
    blocks.arg("blocks");
    blocks.args(scopes.iter().filter(|scope| is_wired(scope, seed)));
    let mut chains = program("fader-model");
    let scenarios = listed(&[])?;
    chains.args(scenarios.iter().filter(|name| is_searched(name, seed)));
    let mut scripts = scripts();
    scripts.arg("--");
    scripts.args(MUTANTS[..SCRIPTS].iter().map(|(_, filter, _)| filter));
    let mut are_good = true;
    let mut times = Vec::new();
    for mut part in worlds.chain([scripts, clouds, blocks, chains]) {
        let begun = Instant::now();
        are_good &= command::succeeds(&mut part)?;
        times.push((begun.elapsed(), command::shown(&part)));
    }
    for (time, part) in times {
        println!("{:8.1} s  {part}", time.as_secs_f64());
    }
    Ok(are_good)
}

/// The first of so many seeds, and their number, in the part that a run with this seed takes.
fn part(seeds: u64, parts: u64, seed: u64) -> (u64, u64) {
    let each = seeds / parts;
    (1 + seed % parts * each, each)
}

/// What of a model every merge can search.
fn listed(model: &[&str]) -> Result<Vec<String>> {
    let mut list = program("fader-model");
    let listed = list.args(model).args(["--quick", "--list"]).output()?;
    ensure!(listed.status.success(), "fader-model lists no scenarios");
    let names = String::from_utf8(listed.stdout)?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// Whether a run with this seed searches a scenario.
fn is_searched(name: &str, seed: u64) -> bool {
    let place = LARGEST.iter().position(|large| *large == name);
    place.is_none_or(|place| place as u64 == seed % LARGEST.len() as u64)
}

/// Whether a run with this seed searches a scope of blocks: those of bytes in one wiring.
fn is_wired(scope: &str, seed: u64) -> bool {
    let place = WIRINGS.iter().position(|wiring| scope.starts_with(wiring));
    place.is_none_or(|place| place as u64 == seed % WIRINGS.len() as u64)
}

/// A package, a filter of its tests, and whether they need the feature.
type Tests = (&'static str, &'static str, bool);

/// The first of [`MUTANTS`], which every merge runs: their scripts name commands and reports, and
/// fail when those get other names.
const SCRIPTS: usize = 2;

/// Tests that each take one guard or rule away.
const MUTANTS: [Tests; 14] = [
    // The scripts that each show one guard of the protocol at work.
    ("fader-chain", "replica::tests::mutants", true),
    // The scripts and random runs that tell a queue without one of its rules.
    ("fader-services", "sqs::tests::mutants", true),
    // The rules of queues and domains in a bucket, each with its scenario.
    ("fader-cloud", "every_mutant_is_caught", true),
    // The folder store's syncs and locks, on a disk that loses what was not synced.
    ("fader-client", "folder::tests::power::mutants", false),
    // The histories that each show one rule of a check at work.
    ("fader-history", "check::tests::named", true),
    // Runs of registers that checks judge without one of their rules.
    ("fader-simulator", "registers::tests::every_rule", true),
    // Runs of a database's clients without one of its rules.
    ("fader-simulator", "database::tests::every_mutant", true),
    // Runs of jobs without one of the protocol's rules.
    ("fader-simulator", "mapreduce::tests::every_mutant", true),
    // Runs of queues without one of their guards.
    ("fader-simulator", "sqs::tests::every_mutant", true),
    // Runs of buckets without one of the rules of those who carry their bytes, or of their guards.
    ("fader-simulator", "s3::tests::every_rule", true),
    ("fader-simulator", "s3::tests::every_mutant", true),
    // The searches for states that the rules of blocks forbid.
    ("fader-simulator", "model::blocks::tests", true),
    // The searches for states that the rules of pages forbid.
    ("fader-blink", "_caught", true),
    // The same for what clients decide of entries of indexes and of claims.
    ("fader-database", "models::", false),
];

/// The command that builds the scripts of every merge and runs them. Beside the released program
/// their dependencies have the features that they have for the tests of the workspace. So none is
/// built again.
fn scripts() -> Command {
    let mut test = command::cargo();
    test.args(["test", "--quiet", "--lib"]);
    test.args(["--package", command::FADER.name]);
    for (package, ..) in &MUTANTS[..SCRIPTS] {
        test.args(["--package", package, "--features"]);
        test.arg(format!("{package}/mutants"));
    }
    test
}

/// Builds the scripts, so that no test waits for this use of the folder of builds.
pub(crate) fn build_scripts() -> Result<()> {
    command::check(scripts().arg("--no-run"))
}

/// Runs without each guard, in a build of their own: the feature must not reach any other. The last
/// line counts the lines `caught: …`, one for each mutant.
pub(crate) fn mutants(options: &Mutants) -> Result<bool> {
    let mut caught = 0;
    let mut count = |line: &str| {
        // The harness of tests may print dots or a test's name before.
        let is_one = line.contains("caught: ") && !line.contains("not caught: ");
        caught += u64::from(is_one);
    };
    let mut are_good = true;
    for tests in &MUTANTS {
        let mut test = without_one(tests);
        are_good &= command::watch(test.args(["--", "--nocapture"]), &mut count)?;
    }
    let mut build = Profile::Checked.cargo("build");
    build.args(["--quiet", "--package", command::SIMULATOR.name]);
    command::check(build.args(IN_MUTANTS))?;
    for of in [&[][..], &["cloud"]] {
        let mut simulate = Command::new("target/mutants/debug/fader-simulate");
        simulate.args(of);
        simulate.args(["--mutants", "--seeds", &options.seeds.to_string()]);
        are_good &= command::watch(&mut simulate, &mut count)?;
    }
    println!(
        "{caught} mutants caught{}",
        if are_good { "" } else { "; some were not" }
    );
    Ok(are_good)
}

/// The command that runs such tests.
fn without_one(tests: &Tests) -> Command {
    let (package, filter, needs_feature) = tests;
    let mut test = command::cargo();
    test.args(["test", "--quiet", "--tests", "--package", package]);
    if *needs_feature {
        test.args(IN_MUTANTS);
    }
    test.arg(filter);
    test
}

/// A build of its own, with the feature.
const IN_MUTANTS: [&str; 4] = ["--target-dir", "target/mutants", "--features", "mutants"];

fn start(name: &str, arguments: &[OsString]) -> Result<bool> {
    command::succeeds(program(name).args(arguments))
}

/// A program that is built already.
fn program(name: &str) -> Command {
    Command::new(Profile::Checked.program(name))
}

#[cfg(test)]
mod tests;
