//! Crashes on purpose: kill -9 of the real binary, and power cuts on the disk seam.

use anyhow::Result;
use clap::Subcommand;

use crate::bench;
use crate::command::{self, Profile};

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
    },
    /// Cuts the power on the disk seam: at every write and sync of a recorded run, and at random.
    ///
    /// The test disk loses, reorders and tears whatever was not synced, which kill -9 cannot show:
    /// the page cache of the operating system survives it.
    Power {
        /// How many random runs.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
    },
}

/// Runs one kind of crash.
pub(crate) fn run(kind: &Kind) -> Result<bool> {
    match kind {
        Kind::Process { rounds, seed } => {
            bench::build()?;
            process(Profile::Release, *rounds, *seed)
        }
        Kind::Power { seeds } => power(*seeds),
    }
}

/// Kill -9, with binaries that are built already.
pub(crate) fn process(profile: Profile, rounds: u32, seed: u64) -> Result<bool> {
    let mut crash = bench::fader_bench(profile, "crash");
    crash.args(["--rounds", &rounds.to_string()]);
    command::succeeds(crash.args(["--seed", &seed.to_string()]))
}

fn power(seeds: u64) -> Result<bool> {
    command::succeeds(
        command::cargo()
            .args([
                "test",
                "--release",
                "--package",
                "fader-node",
                "--test",
                "power",
                "--",
                "--nocapture",
            ])
            .env("FADER_POWER_SEEDS", seeds.to_string()),
    )
}
