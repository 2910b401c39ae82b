//! Kill -9 at random moments under load, again and again on one data folder.
//!
//! Each round has a domain of its own. After each kill the server is started again (every few
//! rounds it is killed once more while it recovers). The newest domains are compared with what was
//! acknowledged. Older ones are dropped, so that deleting domains is under fire too.
//!
//! It tests what a crash of the process can break. The page cache survives that, so whether syncs
//! are in their places is the business of the power-cut tests.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fader_client::{CallOptions, SimpleDb};
use fader_cloud::Item;
use fader_measure::DomainLog;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::runtime::Runtime;

use crate::server::Server;

mod load;

/// Domains that are compared after each round.
const DOMAINS_KEPT: usize = 3;
/// After how many rounds a start is killed too.
const START_KILL_EVERY: u32 = 5;
const KILL_AFTER_MS: std::ops::Range<u64> = 5..400;
const KILL_START_AFTER_MS: std::ops::Range<u64> = 1..60;
/// Rounds between two lines of progress.
const PROGRESS_EVERY: u32 = 20;

/// How often to crash.
#[derive(Args)]
pub(crate) struct Options {
    /// The server's binary.
    #[arg(long)]
    fader: PathBuf,
    /// How often to kill it under load.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Where the random moments come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the server keeps its data, in a folder of its own that is removed at the end; it is
    /// kept when something is wrong.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
}

/// What all rounds came to.
#[derive(Default)]
struct Total {
    acknowledged: u64,
    increments: u64,
    doubtful: u64,
    killed_starts: u32,
    longest_start: Duration,
}

/// Crashes; whether nothing was lost, doubled or made up.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let scratch = tempfile::Builder::new()
        .prefix("fader-crash-")
        .tempdir_in(&options.scratch)?;
    match rounds(options, &scratch.path().join("data")) {
        Ok(total) => {
            println!(
                "{} kills under load and {} while starting: {} acknowledged writes and deletes and \
                 {} conditional increments are all there, once; {} requests had no answer; the \
                 longest start took {} ms",
                options.rounds,
                total.killed_starts,
                total.acknowledged,
                total.increments,
                total.doubtful,
                total.longest_start.as_millis(),
            );
            Ok(true)
        }
        Err(error) => {
            let seed = options.seed;
            let folder = scratch.keep();
            println!(
                "FAILED (seed {seed}, data in {}): {error:#}",
                folder.display()
            );
            Ok(false)
        }
    }
}

fn rounds(options: &Options, data: &Path) -> Result<Total> {
    let runtime = Runtime::new()?;
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let mut total = Total::default();
    let mut domains: VecDeque<(String, DomainLog)> = VecDeque::new();
    for round in 1..=options.rounds {
        if round % START_KILL_EVERY == 0 {
            let moment = Duration::from_millis(random.random_range(KILL_START_AFTER_MS));
            kill_start(&options.fader, data, moment)?;
            total.killed_starts += 1;
        }
        let server = Server::fader(&options.fader, data)?;
        total.longest_start = total.longest_start.max(server.start_time);
        let client = Arc::new(server.client()?);
        runtime
            .block_on(verify(&client, &domains))
            .with_context(|| format!("round {round}"))?;
        runtime.block_on(drop_oldest(&client, &mut domains))?;

        let domain = format!("round-{round}");
        runtime.block_on(client.create_domain(&domain))?;
        let moment = Duration::from_millis(random.random_range(KILL_AFTER_MS));
        let running = runtime.block_on(async { load::start(&client, &domain) });
        std::thread::sleep(moment);
        server.crash()?;
        let log = runtime.block_on(running.finish())?;
        let noted = log.noted();
        total.acknowledged += noted.acknowledged;
        total.increments += noted.increments;
        total.doubtful += noted.doubtful;
        domains.push_back((domain, log));
        if round % PROGRESS_EVERY == 0 {
            eprintln!(
                "round {round} of {}: {} writes",
                options.rounds, total.acknowledged
            );
        }
    }
    let server = Server::fader(&options.fader, data)?;
    runtime.block_on(verify(&Arc::new(server.client()?), &domains))?;
    let status = server.stop()?;
    if !status.success() {
        bail!("the last server did not end in peace: {status}");
    }
    Ok(total)
}

/// Starts a server and kills it before it says anything.
fn kill_start(binary: &Path, data: &Path, moment: Duration) -> Result<()> {
    let mut child = Command::new(binary)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    std::thread::sleep(moment);
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Compares all domains with their logs.
async fn verify(client: &Arc<SimpleDb>, domains: &VecDeque<(String, DomainLog)>) -> Result<()> {
    let mut listed = client.list_domains().await?;
    listed.sort();
    let mut expected: Vec<&str> = domains.iter().map(|(name, _)| name.as_str()).collect();
    expected.sort_unstable();
    if listed != expected {
        bail!("the domains are {listed:?}, not {expected:?}");
    }
    for (domain, log) in domains {
        let found = all_items(client, domain).await?;
        if let Err(difference) = log.check(&found) {
            bail!("{domain}: {difference}");
        }
        let metadata = client.domain_metadata(domain).await?;
        if metadata.item_count != found.len() as u64 {
            bail!(
                "{domain}: {} items are counted, {} shown",
                metadata.item_count,
                found.len()
            );
        }
    }
    Ok(())
}

/// Makes room for one more domain. The kill comes while the server still sweeps.
async fn drop_oldest(client: &SimpleDb, domains: &mut VecDeque<(String, DomainLog)>) -> Result<()> {
    while DOMAINS_KEPT <= domains.len() {
        if let Some((domain, _)) = domains.pop_front() {
            client.delete_domain(&domain).await?;
        }
    }
    Ok(())
}

async fn all_items(client: &SimpleDb, domain: &str) -> Result<Vec<Item>> {
    let expression = format!("select * from `{domain}` limit 2500");
    let mut items = Vec::new();
    let mut token = None;
    loop {
        let page = client
            .select(&expression, token.as_deref(), CallOptions::consistent())
            .await?;
        items.extend(page.items);
        token = page.next_token;
        if token.is_none() {
            return Ok(items);
        }
    }
}
