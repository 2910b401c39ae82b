//! Objects of Fader beside those of MinIO, as it ships and with synced writes, and beside files
//! that nginx serves. One generator signs for all.
//!
//! | finding | what is counted |
//! |---|---|
//! | 4 KiB, 8 MiB | puts and gets a second, by 32 and by 8 clients |
//! | list | pages of 1,000 of many keys |
//! | disk | 8 MiB puts against writes with fdatasync of as many bytes, in the same rounds |
//! | syncs | syncs of the log and of blocks by put |
//! | race | winners of 64 clients that put one key under a condition |
//! | scale | memory and disk of a million objects of 4 KiB, put and overwritten |
//! | pages | time and memory of pages of ten million keys, beside those of ten thousand |
//! | large | memory while an object is put in parts and got, and while 64 uploads wait |
//!
//! MinIO syncs nothing as it ships; Fader's puts are durable when they are acknowledged.

mod figures;
mod large;
pub(crate) mod load;
mod pages;
mod races;
mod scale;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use fader_client::{Credentials, Http, Pacing, S3, S3Request, Settings};
use hyper::Method;
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use self::figures::{finding, of_rates, sides};
use crate::disk::Probe;
use crate::machine::Machine;
use crate::report::Report;
use crate::server::Server;

const SMALL_BYTES: usize = 4 << 10;
const LARGE_BYTES: usize = 8 << 20;
const SMALL_CLIENTS: u64 = 32;
const LARGE_CLIENTS: u64 = 8;
/// The goals of 8 MiB puts, of which the lower one holds.
const PUT_OF_MINIO: f64 = 1.2;
const PUT_OF_DISK: f64 = 0.85;
/// Small objects that gets read.
const SMALL_OBJECTS: u64 = 1_000;
const LARGE_OBJECTS: u64 = 8;
const LIST_CLIENTS: u64 = 4;
const PAGE: &str = "1000";
const BUCKET: &str = "bench";
/// Connections of a client at most.
const CONNECTIONS_MAX: usize = 80;

/// What it takes beside what all benchmarks do.
#[derive(Args)]
#[group(id = "objects")]
pub(crate) struct Options {
    #[command(flatten)]
    common: crate::Options,
    /// The address of a MinIO that runs already, with the access key of this benchmark; without it
    /// that comparison is left out.
    #[arg(long)]
    minio: Option<String>,
    /// The same of one that syncs what it writes.
    #[arg(long)]
    minio_synced: Option<String>,
    /// The address of an nginx that serves a folder; without it that floor is left out.
    #[arg(long, requires = "nginx_root")]
    nginx: Option<String>,
    /// Its folder.
    #[arg(long)]
    nginx_root: Option<PathBuf>,
    /// Keys of the bucket that is listed.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Bytes of the object that is put in parts.
    #[arg(long, default_value_t = 512 << 20)]
    object_bytes: u64,
    /// Objects of 4 KiB whose memory and disk are measured.
    #[arg(long, default_value_t = 1_000_000)]
    small_objects: u64,
    /// Keys of the bucket whose pages are compared with those of 10,000 keys.
    #[arg(long, default_value_t = 10_000_000)]
    many_keys: u64,
    /// Rounds of each race.
    #[arg(long, default_value_t = 10_000)]
    races: u64,
    /// Parts alone, with commas between them.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
}

impl Options {
    fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// A part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Puts and gets of 4 KiB.
    Small,
    /// Puts and gets of 8 MiB.
    Large,
    /// Pages of many keys.
    List,
    /// Clients that put one key under a condition.
    Races,
    /// Memory of a large object, and of many uploads at once.
    Memory,
    /// Memory and disk of many small objects.
    Scale,
    /// Pages of very many keys beside those of few.
    Pages,
}

/// What is measured of each server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    PutSmall,
    GetSmall,
    PutLarge,
    GetLarge,
    List,
}

impl Work {
    const ALL: [Work; 5] = [
        Work::PutSmall,
        Work::GetSmall,
        Work::PutLarge,
        Work::GetLarge,
        Work::List,
    ];

    fn name(self) -> &'static str {
        match self {
            Work::PutSmall => "4 KiB puts",
            Work::GetSmall => "4 KiB gets",
            Work::PutLarge => "8 MiB puts",
            Work::GetLarge => "8 MiB gets",
            Work::List => "pages of 1,000 keys",
        }
    }

    fn clients(self) -> u64 {
        match self {
            Work::PutSmall | Work::GetSmall => SMALL_CLIENTS,
            Work::PutLarge | Work::GetLarge => LARGE_CLIENTS,
            Work::List => LIST_CLIENTS,
        }
    }

    fn part(self) -> Part {
        match self {
            Work::PutSmall | Work::GetSmall => Part::Small,
            Work::PutLarge | Work::GetLarge => Part::Large,
            Work::List => Part::List,
        }
    }

    /// Whether a server of files can do it.
    fn is_get(self) -> bool {
        matches!(self, Work::GetSmall | Work::GetLarge)
    }
}

/// One server, and its operations a second by round, for each work.
struct Subject {
    name: &'static str,
    client: Arc<S3>,
    is_full: bool,
    rates: [Vec<f64>; Work::ALL.len()],
}

impl Subject {
    fn new(name: &'static str, address: &str, is_full: bool) -> Result<Subject> {
        Ok(Subject {
            name,
            client: Arc::new(client(address)?),
            is_full,
            rates: Default::default(),
        })
    }

    fn of(&self, work: Work) -> &[f64] {
        &self.rates[work as usize]
    }
}

fn client(address: &str) -> Result<S3> {
    let (key, secret) = Server::credentials();
    client_of(address, &Credentials::new(key, secret))
}

fn client_of(address: &str, credentials: &Credentials) -> Result<S3> {
    let settings = Settings {
        connections_max: CONNECTIONS_MAX,
        pace: Pacing::Bare,
        ..Settings::default()
    };
    let http = Http::here(fader_window::Settings::default());
    Ok(S3::on(http, address, Some(credentials), &settings)?)
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let common = &options.common;
    let (scratch, machine) = Machine::begin(&common.scratch)?;
    let server = Server::fader(&common.fader, &scratch.path().join("data"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(common.threads.max(1) as usize)
        .enable_all()
        .build()?;
    let mut subjects = subjects(options, &server)?;
    let works: Vec<Work> = Work::ALL
        .into_iter()
        .filter(|it| options.has(it.part()))
        .collect();
    let sized = |small: u64, whole: u64| if common.quick { small } else { whole };
    let keys = match options.has(Part::List) {
        true => sized(2_000, options.keys),
        false => 0,
    };
    for subject in subjects.iter().filter(|it| it.is_full) {
        eprintln!("filling {} with {keys} keys", subject.name);
        runtime.block_on(fill(&subject.client, keys))?;
    }
    let mut findings = Vec::new();
    let mut notes = Vec::new();
    if !works.is_empty() {
        let turns = Turns {
            works: &works,
            keys,
        };
        let measured = rounds(
            common,
            &mut subjects,
            &turns,
            &runtime,
            &server,
            scratch.path(),
        )?;
        findings.extend(of_rates(&subjects, &measured.synced, common.seed));
        notes.extend(measured.small.note("4 KiB"));
        notes.extend(measured.large.note("8 MiB"));
    }
    let fader = Arc::clone(&subjects[0].client);
    if options.has(Part::Races) {
        let races = sized(20, options.races);
        findings.extend(runtime.block_on(races::run(&fader, races))?.findings());
    }
    if options.has(Part::Memory) {
        let bytes = sized(32 << 20, options.object_bytes);
        let large = large::measure(&runtime, &server, &fader, bytes)?;
        findings.extend(large.findings());
        notes.push(large.note());
    }
    ensure!(server.stop()?.success(), "the server did not end in peace");
    if options.has(Part::Scale) {
        let objects = sized(2_000, options.small_objects);
        let scale = scale::measure(&runtime, &common.fader, scratch.path(), objects)?;
        findings.extend(scale.findings());
    }
    if options.has(Part::Pages) {
        let many = sized(12_000, options.many_keys);
        let pages = pages::measure(&runtime, common, scratch.path(), many)?;
        findings.extend(pages);
    }
    let report = Report {
        benchmark: "s3",
        machine,
        sides: subjects.iter().flat_map(sides).collect(),
        findings,
        notes,
    };
    report.finish(common.json.as_deref(), common.quick)
}

/// What is compared: Fader first.
fn subjects(options: &Options, server: &Server) -> Result<Vec<Subject>> {
    let address = format!("http://{}", server.target().address);
    let mut subjects = vec![Subject::new("fader", &address, true)?];
    if let Some(address) = &options.minio {
        subjects.push(Subject::new("MinIO", address, true)?);
    }
    if let Some(address) = &options.minio_synced {
        subjects.push(Subject::new("MinIO, synced", address, true)?);
    }
    if let (Some(address), Some(root)) = (&options.nginx, &options.nginx_root) {
        write_files(root)?;
        subjects.push(Subject::new("nginx", address, false)?);
    }
    Ok(subjects)
}

/// Puts to Fader, and what it synced meanwhile.
#[derive(Default)]
struct Syncs {
    puts: u64,
    of_log: u64,
    of_blocks: u64,
}

impl Syncs {
    fn add(&mut self, puts: u64, log: u64, blocks: u64) {
        self.puts += puts;
        self.of_log += log;
        self.of_blocks += blocks;
    }

    /// Nothing where none was put.
    fn note(&self, size: &str) -> Option<String> {
        let by_put = |syncs: u64| syncs as f64 / self.puts as f64;
        let (log, blocks) = (by_put(self.of_log), by_put(self.of_blocks));
        (0 < self.puts).then(|| {
            format!("Fader by put of {size}: {log:.3} syncs of the log, {blocks:.3} of blocks.")
        })
    }
}

/// What rounds measure beside the rates.
#[derive(Default)]
struct Measured {
    /// 8 MiB writes with fdatasync a second, by round.
    synced: Vec<f64>,
    small: Syncs,
    large: Syncs,
}

/// Syncs of the log and of blocks since the server's start.
fn syncs(server: &Server) -> Result<(u64, u64)> {
    Ok((
        server.metric("fader_log_syncs_total")?,
        server.metric("fader_block_syncs_total")?,
    ))
}

/// What is done in each round.
struct Turns<'a> {
    works: &'a [Work],
    /// Keys of the bucket that is listed.
    keys: u64,
}

/// Measures works of all subjects in shuffled rounds, and the disk in each.
fn rounds(
    common: &crate::Options,
    subjects: &mut [Subject],
    turns: &Turns<'_>,
    runtime: &Runtime,
    server: &Server,
    scratch: &Path,
) -> Result<Measured> {
    let mut probe = Probe::new(scratch, LARGE_BYTES)?;
    let mut measured = Measured::default();
    let mut random = ChaCha8Rng::seed_from_u64(common.seed);
    let keys = turns.keys;
    let mut turns: Vec<(usize, Work)> = (0..subjects.len())
        .flat_map(|at| turns.works.iter().map(move |work| (at, *work)))
        .filter(|(at, work)| subjects[*at].is_full || work.is_get())
        .collect();
    for round in 0..common.runs() {
        eprintln!("round {} of {}", round + 1, common.runs());
        turns.shuffle(&mut random);
        for &(at, work) in &turns {
            // What a server left unwritten is not written in the next one's turn.
            rustix::fs::syncfs(std::fs::File::open(scratch)?)?;
            let client = Arc::clone(&subjects[at].client);
            let before = syncs(server)?;
            let (count, rate) = runtime.block_on(rate(client, work, keys, common.seconds()))?;
            subjects[at].rates[work as usize].push(rate);
            let after = syncs(server)?;
            let (log, blocks) = (after.0 - before.0, after.1 - before.1);
            match work {
                Work::PutSmall if at == 0 => measured.small.add(count, log, blocks),
                Work::PutLarge if at == 0 => measured.large.add(count, log, blocks),
                _ => {}
            }
        }
        let begin = Instant::now();
        let writes = probe.run(common.seconds())?;
        let rate = writes.len() as f64 / begin.elapsed().as_secs_f64();
        measured.synced.push(rate);
    }
    Ok(measured)
}

/// The files that nginx serves: those that gets read.
fn write_files(root: &Path) -> Result<()> {
    let folder = root.join(BUCKET);
    std::fs::create_dir_all(folder.join("small"))?;
    std::fs::create_dir_all(folder.join("large"))?;
    for at in 0..SMALL_OBJECTS {
        std::fs::write(folder.join(small(at)), content(SMALL_BYTES, at))?;
    }
    for at in 0..LARGE_OBJECTS {
        std::fs::write(folder.join(large_key(at)), content(LARGE_BYTES, at))?;
    }
    Ok(())
}

fn small(at: u64) -> String {
    format!("small/{at:08}")
}

fn large_key(at: u64) -> String {
    format!("large/{at:08}")
}

fn listed(at: u64) -> String {
    format!("listed/{at:08}")
}

/// Bytes that do not compress, other ones for each number.
fn content(count: usize, number: u64) -> Bytes {
    use rand::Rng as _;
    let mut bytes = vec![0; count];
    ChaCha8Rng::seed_from_u64(number).fill_bytes(&mut bytes);
    bytes.into()
}

async fn put(client: &S3, key: &str, body: Bytes) -> Result<()> {
    let request = S3Request {
        body,
        ..S3Request::new(Method::PUT, BUCKET, key)
    };
    client.call(request).await?;
    Ok(())
}

/// Makes the bucket, with the objects that gets read and the keys that are listed.
async fn fill(client: &Arc<S3>, keys: u64) -> Result<()> {
    client.call(S3Request::new(Method::PUT, BUCKET, "")).await?;
    for at in 0..LARGE_OBJECTS {
        put(client, &large_key(at), content(LARGE_BYTES, at)).await?;
    }
    let fill = |client: Arc<S3>, at: u64| async move {
        match at.checked_sub(SMALL_OBJECTS) {
            None => put(&client, &small(at), content(SMALL_BYTES, at)).await,
            Some(at) => put(&client, &listed(at), Bytes::new()).await,
        }
    };
    numbered(client, SMALL_OBJECTS + keys, fill).await
}

/// Does something for each number below `count`. As many clients as small objects have take the
/// numbers.
async fn numbered<F>(
    client: &Arc<S3>,
    count: u64,
    act: impl Fn(Arc<S3>, u64) -> F + Clone + Send + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send,
{
    let next = Arc::new(AtomicU64::new(0));
    let mut clients: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..SMALL_CLIENTS {
        let (client, next, act) = (Arc::clone(client), Arc::clone(&next), act.clone());
        clients.spawn(async move {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if count <= at {
                    return Ok(());
                }
                act(Arc::clone(&client), at).await?;
            }
        });
    }
    all(clients).await
}

async fn all(mut clients: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = clients.join_next().await {
        ended.context("a client panicked")??;
    }
    Ok(())
}

/// Operations, and how many a second.
async fn rate(client: Arc<S3>, work: Work, keys: u64, time: Duration) -> Result<(u64, f64)> {
    // Prepared before: the generator's cores are the servers'.
    let body = match work {
        Work::PutSmall => content(SMALL_BYTES, 0),
        Work::PutLarge => content(LARGE_BYTES, 0),
        _ => Bytes::new(),
    };
    let done = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let until = begin + time;
    let mut clients: JoinSet<Result<()>> = JoinSet::new();
    for number in 0..work.clients() {
        let (client, done, body) = (Arc::clone(&client), Arc::clone(&done), body.clone());
        clients.spawn(async move {
            let mut turn = number;
            while Instant::now() < until {
                once(&client, work, turn, keys, &body).await?;
                done.fetch_add(1, Ordering::Relaxed);
                turn += work.clients();
            }
            Ok(())
        });
    }
    all(clients).await?;
    let count = done.load(Ordering::Relaxed);
    Ok((count, count as f64 / begin.elapsed().as_secs_f64()))
}

async fn once(client: &S3, work: Work, turn: u64, keys: u64, body: &Bytes) -> Result<()> {
    let get = async |key: &str, bytes: usize| {
        let reply = client
            .call(S3Request::new(Method::GET, BUCKET, key))
            .await?;
        ensure!(reply.body.len() == bytes, "{key} is not whole");
        Ok(())
    };
    match work {
        Work::PutSmall => put(client, &format!("put/{:08}", turn % 10_000), body.clone()).await,
        Work::PutLarge => put(client, &format!("put-large/{:08}", turn % 16), body.clone()).await,
        Work::GetSmall => get(&small(turn * 7 % SMALL_OBJECTS), SMALL_BYTES).await,
        Work::GetLarge => get(&large_key(turn % LARGE_OBJECTS), LARGE_BYTES).await,
        Work::List => {
            let after = listed(turn * 997 % keys.saturating_sub(1_000).max(1));
            let query = [
                ("list-type", "2"),
                ("prefix", "listed/"),
                ("max-keys", PAGE),
                ("start-after", &after),
            ];
            let request = S3Request {
                query: &query,
                ..S3Request::new(Method::GET, BUCKET, "")
            };
            let page = client.call(request).await?.xml()?;
            let count = page.child_text("KeyCount");
            ensure!(count == PAGE, "a page has {count} keys");
            Ok(())
        }
    }
}
