//! Crashes on purpose: kill -9 of the real binary, and power cuts on the disk seam.

use std::process::Command;

use anyhow::Result;
use clap::{Subcommand, ValueEnum};

use crate::bench;
use crate::command::{self, Profile};
use crate::fake_s3::FakeS3;
use crate::python;

/// What is asked of a server while it crashes.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Service {
    /// Items of SimpleDB.
    Simpledb,
    /// Queues of SQS.
    Sqs,
    /// Objects of S3: of a lone server, then, a tenth as often, of a cluster of three.
    S3,
}

impl Service {
    /// As options name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::Simpledb => "simpledb",
            Service::Sqs => "sqs",
            Service::S3 => "s3",
        }
    }
}

/// Which kind of crash.
#[derive(Subcommand)]
pub(crate) enum Kind {
    /// Kills the release binary (kill -9) at random moments under load, starts it again and checks
    /// every acknowledged write.
    Process {
        /// How often to kill it.
        #[arg(long, default_value_t = 200)]
        rounds: u32,
        /// Where the random moments come from; the same seed gives the same moments.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// What the load asks for.
        #[arg(long, default_value = "simpledb")]
        service: Service,
    },
    /// Cuts the power on the disk seam: at every write and sync of a recorded run, and at random.
    ///
    /// The test disk loses, reorders and tears all that was not synced. A kill cannot show that:
    /// the page cache of the operating system survives it.
    Power {
        /// How many random runs.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// What the clients ask for.
        #[arg(long, default_value = "simpledb")]
        service: Service,
    },
    /// Damages a real data folder with domains and queues at random: each kind of file, by flips,
    /// truncations, zeros and deletions.
    ///
    /// What comes of each is refused with the file and the reason, mended, or without effect. A
    /// wrong answer, a silent loss, and a node that serves and then fails, are violations.
    Damage {
        /// How many.
        #[arg(long, default_value_t = 1_000)]
        seeds: u64,
    },
    /// Kills processes (kill -9) that share objects, queues and domains in a folder, and checks
    /// what each was told. It does the same with queues and domains on gofakes3 behind a proxy that
    /// cuts replies. Then cuts the power under the folder. Needs Go.
    Cloud {
        /// How often to kill them.
        #[arg(long, default_value_t = 200)]
        rounds: u32,
        /// How many random power cuts.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
    },
    /// Kills `fader db` processes (kill -9) that write one database, at random moments: in a
    /// folder, then, a tenth as often, on gofakes3. After each kill every acknowledged write is
    /// there, what is atomic is whole, and `fader db verify` finds nothing. Needs Go.
    Database {
        /// How often all of them are killed.
        #[arg(long, default_value_t = 100)]
        rounds: u32,
        /// Where the random moments come from.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Kills processes (kill -9) of jobs in a folder: workers, the one that began the job, or all,
    /// and resumes it. The output is that of a calm job, and no more tasks were begun in vain than
    /// the killed had slots. Then crashes two simulated workers of a job of three map and two
    /// reduce tasks, at each pair of their awaits. Minutes.
    Mapreduce {
        /// How often processes are killed.
        #[arg(long, default_value_t = 30)]
        rounds: u32,
        /// Where the random moments come from.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// Runs one kind of crash.
pub(crate) fn run(kind: &Kind) -> Result<bool> {
    match kind {
        Kind::Process {
            rounds,
            seed,
            service,
        } => {
            bench::build()?;
            match service {
                Service::Simpledb => process(Profile::Release, *rounds, *seed),
                Service::Sqs => queues(Profile::Release, *rounds, *seed),
                Service::S3 => {
                    let is_good = objects(Profile::Release, *rounds, *seed)?;
                    Ok(objects_of_three(Profile::Release, rounds.div_ceil(10), *seed)? && is_good)
                }
            }
        }
        Kind::Power { seeds, service } => {
            let test = match service {
                Service::Simpledb => "power",
                Service::Sqs => "power_queues",
                Service::S3 => "power_buckets",
            };
            of_node(test, "FADER_POWER_SEEDS", *seeds)
        }
        Kind::Damage { seeds } => of_node("damage", "FADER_DAMAGE_SEEDS", *seeds),
        Kind::Cloud { rounds, seeds } => cloud(*rounds, *seeds),
        Kind::Database { rounds, seed } => {
            bench::build()?;
            databases(Profile::Release, *rounds, *seed)
        }
        Kind::Mapreduce { rounds, seed } => {
            bench::build()?;
            Ok(program(&["jobs"], Profile::Release, *rounds, *seed)? && pairs_of_awaits()?)
        }
    }
}

/// The real code on simulated clouds, with two crashes.
fn pairs_of_awaits() -> Result<bool> {
    let mut test = checked_test("fader-mapreduce");
    test.args(["--test", "faults", "--", "--nocapture", "--ignored"]);
    command::succeeds(test.arg("two_workers_may_die_at_each_pair_of_awaits"))
}

/// Kill -9, with binaries that are built already.
pub(crate) fn process(profile: Profile, rounds: u32, seed: u64) -> Result<bool> {
    let mut crash = bench::fader_bench(profile, "crash");
    crash.args(["--rounds", &rounds.to_string()]);
    command::succeeds(crash.args(["--seed", &seed.to_string()]))
}

/// The same for queues.
pub(crate) fn queues(profile: Profile, rounds: u32, seed: u64) -> Result<bool> {
    program(&["queues"], profile, rounds, seed)
}

/// The same for objects.
pub(crate) fn objects(profile: Profile, rounds: u32, seed: u64) -> Result<bool> {
    program(&["objects"], profile, rounds, seed)
}

/// The same for objects in a cluster of three processes, of which one after the other is killed.
fn objects_of_three(profile: Profile, rounds: u32, seed: u64) -> Result<bool> {
    program(&["objects", "--members", "3"], profile, rounds, seed)
}

/// Kill -9 of clients of a database in a folder, then, a tenth as often, on gofakes3.
pub(crate) fn databases(profile: Profile, rounds: u32, seed: u64) -> Result<bool> {
    let is_good = program(&["databases"], profile, rounds, seed)?;
    let server = FakeS3::start()?;
    let mut crash = of_program(&["databases"], profile, rounds.div_ceil(10), seed)?;
    Ok(command::succeeds(server.known_to(&mut crash))? && is_good)
}

/// A program of tests that kills the server.
fn program(module: &[&str], profile: Profile, rounds: u32, seed: u64) -> Result<bool> {
    command::succeeds(&mut of_program(module, profile, rounds, seed)?)
}

fn of_program(module: &[&str], profile: Profile, rounds: u32, seed: u64) -> Result<Command> {
    python::prepare()?;
    let mut crash = python::program("python");
    crash
        .arg("-m")
        .args(module)
        .args(["--rounds", &rounds.to_string()])
        .args(["--seed", &seed.to_string()])
        .env("FADER_BIN", profile.program("fader"))
        .env("PYTHONPATH", command::root().join("tests"));
    python::with_ports_of_its_own(&mut crash, 0);
    Ok(crash)
}

/// The tests of a package, optimised.
fn checked_test(package: &str) -> Command {
    let mut test = Profile::Checked.cargo("test");
    test.args(["--package", package]);
    test
}

/// A test of the node with so many seeds.
fn of_node(test: &str, variable: &str, seeds: u64) -> Result<bool> {
    let mut run = checked_test("fader-node");
    run.args(["--test", test, "--", "--nocapture"]);
    command::succeeds(run.env(variable, seeds.to_string()))
}

fn cloud(rounds: u32, seeds: u64) -> Result<bool> {
    let server = FakeS3::start()?;
    let mut crashes = checked_test("fader-client");
    crashes
        .args(["--test", "folder_crash", "--test", "cloud_crash"])
        .args(["--", "--nocapture", "--test-threads", "1"])
        .env("FADER_CRASH_ROUNDS", rounds.to_string());
    server.known_to(&mut crashes);
    let mut power = checked_test("fader-client");
    power
        .args(["--lib", "folder::tests::power", "--", "--nocapture"])
        .env("FADER_POWER_SEEDS", seeds.to_string());
    Ok(command::succeeds(&mut crashes)? & command::succeeds(&mut power)?)
}
