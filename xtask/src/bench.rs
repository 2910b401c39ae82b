//! Benchmarks: builds what is measured in release mode and hands over to `fader-bench`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::command::{self, Package, Profile};
use crate::previous_build::PreviousBuild;
use crate::python;

mod foundation;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Which benchmark.
    name: Name,
    /// A few seconds instead of minutes: shows that the benchmark works, not how fast Fader is.
    #[arg(long, visible_alias = "small")]
    quick: bool,
    /// How often each side of a comparison is run, interleaved.
    #[arg(long)]
    runs: Option<u32>,
    /// Of `failover`: each member's share of one core, such as `60%`. Counts refused puts by their
    /// reasons, and judges nothing. Needs a quota of processor time (cgroup v1).
    #[arg(long)]
    cpu: Option<String>,
    /// Of `window`: the file that every cell is written to, as CSV.
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Of `scale`: how many nodes the clusters have that are compared, such as `3,6,12`. Needs a
    /// quota of processor time (cgroup v1).
    #[arg(long, value_name = "NUMBERS")]
    nodes: Option<String>,
    /// Of `simpledb`, `one-node`, `scale` and `etcd`: an earlier commit, whose binary takes part in
    /// each round. Of `one-node` the last commit without replicas, unless told.
    #[arg(long, value_name = "COMMIT")]
    before: Option<String>,
    /// Of `phases`: how many items; the article's 10,000 unless told.
    #[arg(long)]
    items: Option<u32>,
    /// Of `phases`: what each server takes, as `fader serve --limit` has it; the article's unless
    /// told.
    #[arg(long)]
    limit: Option<String>,
    /// Of `phases`: which runs, by name and with commas between them; all unless told. Of
    /// `mapreduce`: which parts, of `words`, `memory`, `few`, `workers`, `sort`, `words-index`,
    /// `index`, `links`. Of `sqs`: `flow`. Of `s3`: `small`, `large`, `list`, `races`,
    /// `memory`, `scale`, `pages`, `join`.
    #[arg(long)]
    only: Option<String>,
    /// Of the part `join` of `s3`: MiB of blocks that the member lacks; 2,048 unless told.
    #[arg(long)]
    mb: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Puts and gets against a bare HTTP server, fdatasync and moto_server.
    Simpledb,
    /// Select on a million items against the same Select on ten thousand.
    Select,
    /// Memory of a million items, and the start after a crash with 1 GB of log.
    Memory,
    /// Steps of the replication core: writes through three members in memory.
    Steps,
    /// Instructions and rates of one node, against those of the commit before there were replicas.
    OneNode,
    /// Queues against ElasticMQ's, long polls, and receives that wait. Needs Java and Maven.
    Sqs,
    /// Objects against MinIO's and against files of nginx. Needs Go and nginx, and takes minutes to
    /// build MinIO; with `--quick` Fader alone. Part `join`: what a member costs the load that
    /// joins a cluster and lacks all blocks.
    S3,
    /// Clients that look for a service's capacity, in virtual time: every algorithm, every service.
    Window,
    /// What clients notice when a member is killed, cut off, held at its disk, or paused with its
    /// clock; and its return.
    Failover,
    /// What each level costs in one-way delays between members.
    Delay,
    /// Reads at every member of a chain of 3, 5 and 7 against reads at its tail.
    Scaling,
    /// Idle processor time of five nodes; 64 chains on fifteen nodes. With `--nodes`, rates of
    /// clusters of several sizes, each process with a share of a core.
    Scale,
    /// A cluster of three processes against three etcd servers.
    Etcd,
    /// What strangers' connections, bodies and heads cost a signed client, and memory.
    Attacks,
    /// What `fader measure` finds where the truth is known: Redis with a late replica, a cut off
    /// follower of etcd, members of Fader 50 ms apart. Needs redis-server and Go.
    Replicas,
    /// Word count and sort by MapReduce, beside a program of two threads, coreutils, Polars, DuckDB
    /// and Hadoop. Indexes of small files, beside Hadoop. Needs Java and Maven, Debian's package
    /// linux-source-6.1, the toolchain's component rust-docs, and two hours.
    Mapreduce,
    /// The database in virtual time: 64 clients against one and against a table with one manifest,
    /// the paper's bookstore, prices. Then 64 clients beside Delta Lake's at one S3 server that
    /// lets requests wait, which needs Go. Then beside SQLite: import in order and at random, a
    /// scan, point reads. Needs a C compiler and libsqlite3-dev for the reads.
    Database,
    /// The article's five phases in real time, at one address and at three; half an hour, and
    /// less with fewer items or a higher limit.
    Phases,
    /// Fader's client on one thread, against a bare loop over hyper's connections.
    Client,
    /// The load generator against wrk, and 50,000 operations a second on one thread. Needs wrk.
    Generator,
    /// The checks of logs: ten million operations on registers in 10 s and 1 GB; a hundred thousand
    /// beside Porcupine. Needs Go.
    Checker,
    /// What 10,000 waiting requests cost a member, and how soon a change reaches one.
    Waiting,
    /// Queues and domains in a bucket, in virtual time; durable sends to a folder, against a bare
    /// loop of the file system's calls.
    Cloud,
}

/// The benchmarks that Python drives: of clusters, and of a server under attack.
const BY_PYTHON: [Name; 9] = [
    Name::Failover,
    Name::Delay,
    Name::Scaling,
    Name::Scale,
    Name::Etcd,
    Name::Attacks,
    Name::Mapreduce,
    Name::Database,
    Name::Replicas,
];

/// What measures, and what is measured.
pub(crate) const PACKAGES: [Package; 2] = [command::FADER, command::MEASURE];

/// Builds both as they are released.
pub(crate) fn build() -> Result<()> {
    Profile::Release.build(&PACKAGES)
}

/// Runs one benchmark.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let compares_builds = matches!(
        options.name,
        Name::Simpledb | Name::OneNode | Name::Scale | Name::Etcd
    );
    if options.before.is_some() && !compares_builds {
        bail!("--before goes with `simpledb`, `one-node`, `scale` and `etcd`");
    }
    if options.nodes.is_some() && options.name != Name::Scale {
        bail!("--nodes goes with `scale`");
    }
    if options.mb.is_some() && options.name != Name::S3 {
        bail!("--mb goes with `s3`");
    }
    if let Name::Waiting = options.name {
        return waiting();
    }
    build()?;
    if let Name::Failover = options.name {
        // Only a build with assertions lets its lease clock be set back.
        Profile::Checked.build(&[command::FADER])?;
    }
    if let Name::Sqs = options.name {
        return with_peers(options, "queues.bench", options.only.as_deref());
    }
    if let Name::S3 = options.name {
        return objects(options);
    }
    if let Name::Phases = options.name {
        return phases(options);
    }
    let name = options
        .name
        .to_possible_value()
        .context("every benchmark has a name")?;
    if BY_PYTHON.contains(&options.name) {
        let mut is_good = true;
        if let Name::Database = options.name {
            is_good = command::succeeds(&mut by_fader_bench(options, name.get_name())?)?;
        }
        let how = Measured {
            is_quick: options.quick,
            runs: options.runs,
            cpu: options.cpu.as_deref(),
            nodes: options.nodes.as_deref(),
            only: options.only.as_deref(),
            mb: None,
        };
        let mut bench = by_python(Profile::Release, name.get_name(), &how)?;
        if let Some(commit) = &options.before {
            bench.arg("--before").arg(earlier(commit)?);
        }
        return Ok(command::succeeds(&mut bench)? && is_good);
    }
    command::succeeds(&mut by_fader_bench(options, name.get_name())?)
}

/// One of the benchmarks of `fader-bench`, with what it compares with.
fn by_fader_bench(options: &Options, name: &str) -> Result<Command> {
    let mut bench = fader_bench(Profile::Release, name);
    if options.quick {
        bench.arg("--quick");
    }
    if let Some(runs) = options.runs {
        bench.arg("--runs").arg(runs.to_string());
    }
    if let Some(path) = &options.csv {
        bench.arg("--csv").arg(path);
    }
    match options.name {
        Name::Simpledb => {
            python::prepare()?;
            bench.arg("--moto").arg(python::path("moto_server"));
        }
        Name::Generator => {
            bench.arg("--wrk").arg("wrk");
        }
        Name::Checker => {
            bench.arg("--porcupine").arg(porcupine()?);
        }
        Name::OneNode => {
            if options.before.is_none()
                && let Some(binary) = foundation::FOUNDATION.build()?
            {
                bench.arg("--before").arg(binary);
            }
        }
        _ => {}
    }
    if let Some(commit) = &options.before {
        bench.arg("--before").arg(earlier(commit)?);
    }
    Ok(bench)
}

/// The binary of an earlier commit, as it would be released.
fn earlier(commit: &str) -> Result<PathBuf> {
    let folder = format!("target/before/{commit}");
    let earlier = PreviousBuild {
        commit,
        folder: &folder,
        is_release: true,
    };
    let binary = earlier.build()?;
    binary.with_context(|| format!("name a commit of this clone, not {commit}"))
}

/// Builds the program that judges logs by Porcupine.
fn porcupine() -> Result<PathBuf> {
    let program = command::root().join("target/porcupine");
    let mut go = Command::new("go");
    go.current_dir(command::root().join("tests/porcupine"));
    command::check(go.args(["build", "-o"]).arg(&program).arg("."))
        .context("Go builds it: apt-get install golang")?;
    Ok(program)
}

/// The node's own tests have the only service that waits: they show the figures.
fn waiting() -> Result<bool> {
    let mut test = command::cargo();
    test.args([
        "test",
        "--release",
        "--package",
        "fader-node",
        "--test",
        "counter",
    ]);
    test.args(["--", "--ignored", "--nocapture", "figures"]);
    command::succeeds(&mut test)
}

/// `fader-bench NAME` on the binary beside it; both are built already.
pub(crate) fn fader_bench(profile: Profile, name: &str) -> Command {
    let mut bench = Command::new(profile.program("fader-bench"));
    bench.arg(name).arg("--fader").arg(profile.program("fader"));
    bench
}

/// How they measure.
#[derive(Default)]
struct Measured<'a> {
    is_quick: bool,
    runs: Option<u32>,
    cpu: Option<&'a str>,
    nodes: Option<&'a str>,
    only: Option<&'a str>,
    mb: Option<u32>,
}

/// One of the benchmarks that Python drives, with binaries that are built already.
fn by_python(profile: Profile, name: &str, how: &Measured<'_>) -> Result<Command> {
    python::prepare()?;
    let mut bench = python::program("python");
    bench
        .args(["-m", "benchmarks", name])
        .env("PYTHONPATH", command::root().join("tests"))
        .env("FADER_BIN", profile.program("fader"));
    if how.is_quick {
        bench.arg("--small");
    }
    if let Some(runs) = how.runs {
        bench.arg("--runs").arg(runs.to_string());
    }
    if let Some(cpu) = how.cpu {
        bench.args(["--cpu", cpu]);
    }
    if let Some(nodes) = how.nodes {
        bench.args(["--nodes", nodes]);
    }
    if let Some(only) = how.only {
        bench.args(["--only", only]);
    }
    if let Some(mb) = how.mb {
        bench.args(["--mb", &mb.to_string()]);
    }
    if name == "delay" {
        bench.args(["--keep", DELAY]);
    }
    Ok(bench)
}

/// The benchmarks that Python drives, small, as every merge runs them: names and commands.
pub(crate) fn small_by_python(profile: Profile) -> Result<Vec<(String, Command)>> {
    let names = BY_PYTHON.iter().filter_map(ValueEnum::to_possible_value);
    let names = names.map(|name| name.get_name().to_owned());
    let quick = Measured {
        is_quick: true,
        ..Measured::default()
    };
    names
        .chain([JOIN.to_owned()])
        .map(|name| {
            let command = by_python(profile, &name, &quick)?;
            Ok((name, command))
        })
        .collect()
}

/// The part of `s3` that is about a cluster.
const JOIN: &str = "join";

/// Objects: `join` by itself, and the other parts together.
fn objects(options: &Options) -> Result<bool> {
    let named = options.only.as_deref();
    let (joins, others): (Vec<&str>, Vec<&str>) = named
        .into_iter()
        .flat_map(|names| names.split(','))
        .partition(|name| *name == JOIN);
    let mut are_good = true;
    if named.is_none() || !others.is_empty() {
        let only = named.map(|_| others.join(","));
        are_good &= match options.quick {
            true => {
                let mut bench = by_fader_bench(options, "s3")?;
                command::succeeds(bench.args(only.iter().flat_map(|only| ["--only", only])))?
            }
            false => with_peers(options, "objects.bench", only.as_deref())?,
        };
    }
    if named.is_none() || !joins.is_empty() {
        let how = Measured {
            is_quick: options.quick,
            runs: options.runs,
            mb: options.mb,
            ..Measured::default()
        };
        are_good &= command::succeeds(&mut by_python(Profile::Release, JOIN, &how)?)?;
    }
    Ok(are_good)
}

/// A benchmark beside servers that a module of tests starts.
fn with_peers(options: &Options, module: &str, only: Option<&str>) -> Result<bool> {
    python::prepare()?;
    let mut bench = python::program("python");
    bench
        .args(["-m", module])
        .arg(Profile::Release.program("fader-bench"))
        .env("PYTHONPATH", command::root().join("tests"))
        .env("FADER_BIN", Profile::Release.program("fader"));
    if options.quick {
        bench.arg("--quick");
    }
    if let Some(runs) = options.runs {
        bench.args(["--runs", &runs.to_string()]);
    }
    if let Some(only) = only {
        bench.args(["--only", only]);
    }
    command::succeeds(&mut bench)
}

/// Where the figures of `delay`, and their numbers, are left.
const DELAY: &str = "target/delay";

/// Where logs and plots of the five phases are left.
const PHASES: &str = "target/phases";

fn phases(options: &Options) -> Result<bool> {
    python::prepare()?;
    match std::fs::remove_dir_all(PHASES) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut run = python::program("python");
    run.args(["tests/five_phases.py", PHASES]);
    if options.quick {
        run.arg("--quick");
    }
    if let Some(items) = options.items {
        run.arg("--items").arg(items.to_string());
    }
    if let Some(limit) = &options.limit {
        run.arg("--limit").arg(limit);
    }
    if let Some(only) = &options.only {
        run.arg("--only").arg(only);
    }
    command::succeeds(&mut run)
}

/// Builds the binary from nothing in `target`, and says how long it took.
pub(crate) fn release_time(target: &Path) -> Result<bool> {
    let clear = || match std::fs::remove_dir_all(target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    clear()?;
    command::check(command::cargo().arg("fetch"))?;
    let start = Instant::now();
    command::check(
        command::cargo()
            .args([
                "build",
                "--release",
                "--package",
                "fader-fader",
                "--target-dir",
            ])
            .arg(target),
    )?;
    let elapsed = start.elapsed();
    clear()?;
    println!("release build from nothing: {} s", elapsed.as_secs());
    Ok(elapsed.as_secs() < 600)
}
