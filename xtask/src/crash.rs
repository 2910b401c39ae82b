//! Crashes on purpose: kill -9 of the real binary, and power cuts on the disk seam.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
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
    /// Kills processes (kill -9) that share objects, queues and domains in a folder, and queues and
    /// domains on gofakes3 behind a proxy that cuts replies, and checks what each was told. Then
    /// cuts the power under the folder. Needs Go.
    Cloud {
        /// How often to kill them.
        #[arg(long, default_value_t = 200)]
        rounds: u32,
        /// How many random power cuts.
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
        Kind::Cloud { rounds, seeds } => cloud(*rounds, *seeds),
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

fn cloud(rounds: u32, seeds: u64) -> Result<bool> {
    let server = FakeS3::start()?;
    let mut crashes = command::cargo();
    crashes
        .args(["test", "--release", "--package", "fader-client"])
        .args(["--test", "folder_crash", "--test", "cloud_crash"])
        .args(["--", "--nocapture", "--test-threads", "1"])
        .env("FADER_CRASH_ROUNDS", rounds.to_string())
        .env("FADER_CRASH_S3", &server.address)
        .env("AWS_ACCESS_KEY_ID", "crash")
        .env("AWS_SECRET_ACCESS_KEY", "crash");
    let mut power = command::cargo();
    power
        .args(["test", "--release", "--package", "fader-client"])
        .args(["--lib", "folder::tests::power", "--", "--nocapture"])
        .env("FADER_POWER_SEEDS", seeds.to_string());
    Ok(command::succeeds(&mut crashes)? & command::succeeds(&mut power)?)
}

/// A running gofakes3 with a bucket `crash`, ended with this value.
struct FakeS3 {
    process: Child,
    address: String,
}

impl FakeS3 {
    fn start() -> Result<FakeS3> {
        let program = command::root().join("target/gofakes3");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(".");
        command::check(build.current_dir(command::root().join("tests/gofakes3")))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let process = Command::new(program)
            .arg(&address)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = FakeS3 { process, address };
        let mut tries = 0;
        while let Err(error) = server.create_bucket() {
            tries += 1;
            ensure!(tries < 300, "gofakes3 does not answer: {error}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    fn create_bucket(&self) -> Result<()> {
        let mut stream = TcpStream::connect(&self.address)?;
        let head = format!("PUT /crash HTTP/1.1\r\nHost: {}\r\n", self.address);
        let rest = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(format!("{head}{rest}").as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        ensure!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        Ok(())
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        // It holds nothing that is kept.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
