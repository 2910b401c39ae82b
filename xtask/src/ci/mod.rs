//! Everything that must pass before a merge, step after step.
//!
//! Steps that need cores alone run beside steps that wait for clocks, one after the other, and give
//! way to them.
//!
//! Invariants:
//! 1. The last line is `N passed, N failed`, alone on its line: the test cases of all suites. A
//!    step that fails without having counted a failed case adds one, so `0 failed` means success.
//! 2. A failed step does not hide what later steps would say, unless they need what it builds.
//! 3. Small benchmarks judge nothing, so they run side by side, and are what a slow machine leaves
//!    out: those that would begin after [`BENCHES_BEGIN`]. A benchmark that does not end is ended,
//!    and has failed.
//! 4. The output of a step stands whole, also of one that runs beside others.
//! 5. Of benchmarks, simulated worlds and the longest tests in Python a run takes a part, which its
//!    seed draws. A few runs take all. The seed stands in the first line.

use std::os::unix::process::CommandExt as _;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::command::{self, Profile};
use crate::{bench, crash, fake_s3, python, simulate, tidy};

mod beside;
mod lanes;
mod programs;
mod score;

use beside::Besides;
use programs::Program;
use score::Score;

/// How long after the start of a run a benchmark may begin.
const BENCHES_BEGIN: Duration = Duration::from_mins(65);
/// How long a small benchmark may run: many times as long as the slowest does.
const BENCH_LIMIT: Duration = Duration::from_mins(10);

/// Which part to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these steps, such as `--only tidy,clippy`.
    #[arg(long, value_delimiter = ',', value_parser = NAMES)]
    only: Vec<String>,
}

/// What a run draws its samples from, and where it is told to draw an earlier run's. proptest reads
/// it too.
const SEED: &str = "PROPTEST_RNG_SEED";

/// What the steps of a run share.
struct Course {
    begun: Instant,
    /// Of all that properties draw, and of which parts of long steps run.
    seed: u64,
    /// Whether all steps run. A step that is asked for by name runs whole.
    is_whole: bool,
    /// What the step `compile` built, until the step `test` takes it.
    programs: Mutex<Option<Vec<Program>>>,
}

struct Step {
    name: &'static str,
    run: fn(&mut Score, &Course) -> Result<bool>,
    /// Whether the steps after it begin before it has ended. It judges nothing by time, and takes
    /// the time of the cores that they leave.
    is_beside: bool,
    /// The step that builds what it starts.
    needs: Option<&'static str>,
}

const NAMES: [&str; 13] = [
    "format", "tidy", "python", "clippy", "compile", "build", "doc", "simulate", "test", "sdk",
    "crash", "alone", "bench",
];

/// Programs that wait come while something runs beside them that needs cores.
const STEPS: [Step; 13] = [
    Step::new(NAMES[0], format),
    Step::new(NAMES[1], |_, _| tidy::run()),
    Step::new(NAMES[2], |_, _| python::check()).beside(),
    Step::new(NAMES[3], clippy),
    Step::new(NAMES[4], compile),
    Step::new(NAMES[5], build).beside(),
    Step::new(NAMES[6], doc).beside(),
    Step::new(NAMES[7], simulated).needs("build").beside(),
    Step::new(NAMES[8], test).needs("compile"),
    Step::new(NAMES[9], sdk).needs("build"),
    Step::new(NAMES[10], crashes).needs("build").beside(),
    Step::new(NAMES[11], alone).needs("build"),
    Step::new(NAMES[12], benchmark).needs("build"),
];

impl Step {
    const fn new(name: &'static str, run: fn(&mut Score, &Course) -> Result<bool>) -> Step {
        Step {
            name,
            run,
            is_beside: false,
            needs: None,
        }
    }

    const fn needs(mut self, step: &'static str) -> Step {
        self.needs = Some(step);
        self
    }

    const fn beside(mut self) -> Step {
        self.is_beside = true;
        self
    }

    /// Runs it to its end.
    fn result(&self, course: &Course) -> Ended {
        let start = Instant::now();
        let mut score = Score::default();
        let is_good = (self.run)(&mut score, course).unwrap_or_else(|error| {
            println!("{}: {error:#}", self.name);
            false
        });
        Ended::new(self.name, score, is_good, start.elapsed())
    }
}

/// A step that has ended.
struct Ended {
    name: &'static str,
    score: Score,
    time: Duration,
}

impl Ended {
    fn new(name: &'static str, mut score: Score, is_good: bool, time: Duration) -> Ended {
        if !is_good && score.failed == 0 {
            score.failed = 1;
        }
        Ended { name, score, time }
    }

    fn verdict(&self) -> &'static str {
        match self.score.failed {
            0 => "ok",
            _ => "FAILED",
        }
    }

    /// A run that is cut off says so far how long its steps took.
    fn print(&self) {
        let seconds = self.time.as_secs_f64();
        println!("\n{}: {} after {seconds:.0} s", self.name, self.verdict());
    }
}

/// Runs the steps; whether all went well.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let course = Course {
        begun: Instant::now(),
        seed: seed()?,
        is_whole: options.only.is_empty(),
        programs: Mutex::default(),
    };
    let seed = course.seed;
    println!("samples are drawn from seed {seed}: `{SEED}={seed} cargo xtask ci` repeats them");
    let is_wanted =
        |step: &&Step| options.only.is_empty() || options.only.iter().any(|it| it == step.name);
    let wanted: Vec<&Step> = STEPS.iter().filter(is_wanted).collect();
    let steps = thread::scope(|scope| {
        let run = move |step: &Step| beside::run(step.name, seed);
        course.ended(&wanted, Besides::start(scope, run))
    })?;
    Ok(summary(steps))
}

impl Course {
    /// Runs the steps to their ends.
    fn ended(&self, wanted: &[&'static Step], mut besides: Besides) -> Result<Vec<Ended>> {
        let mut ended: Vec<Ended> = Vec::new();
        for (place, step) in wanted.iter().enumerate() {
            let is_last = place + 1 == wanted.len();
            if step.is_beside && !is_last {
                besides.begin(step)?;
                continue;
            }
            // What it needs may still run beside.
            let is_asked = |needed: &str| wanted[..place].iter().any(|step| step.name == needed);
            let needed = step.needs.filter(|needed| is_asked(needed));
            while needed.is_some_and(|needed| ended.iter().all(|step| step.name != needed))
                && let Some(beside) = besides.next()?
            {
                ended.push(beside);
            }
            let failed = ended.iter().filter(|step| step.score.failed != 0);
            if is_to_begin(step, &failed.map(|step| step.name).collect::<Vec<_>>()) {
                println!("\n--- {} ---", step.name);
                let result = step.result(self);
                result.print();
                ended.push(result);
            }
            while let Some(beside) = besides.ended() {
                ended.push(beside);
            }
        }
        while let Some(beside) = besides.next()? {
            ended.push(beside);
        }
        Ok(ended)
    }
}

/// Whether what a step needs has not failed.
fn is_to_begin(step: &Step, failed: &[&str]) -> bool {
    step.needs.is_none_or(|needed| !failed.contains(&needed))
}

/// Prints what the steps came to; whether all went well.
fn summary(steps: Vec<Ended>) -> bool {
    let mut total = Score::default();
    println!();
    for step in steps {
        let seconds = step.time.as_secs_f64();
        println!("{:<8} {:<6} {seconds:>7.1} s", step.name, step.verdict());
        total.add(step.score);
    }
    let (passed, failed) = (total.passed, total.failed);
    println!("\nthe slowest tests:");
    for (seconds, name) in total.slowest() {
        println!("{seconds:>7.1} s  {name}");
    }
    println!("\n{passed} passed, {failed} failed");
    failed == 0
}

/// The seed of this run: a new one each time, unless one is given.
fn seed() -> Result<u64> {
    match std::env::var(SEED) {
        Ok(given) => given.parse().with_context(|| format!("{SEED} is a number")),
        Err(_) => Ok(u64::try_from(
            SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis(),
        )?),
    }
}

fn format(_: &mut Score, _: &Course) -> Result<bool> {
    command::succeeds(command::cargo().args(["fmt", "--all", "--check"]))
}

/// The crates that have guards to take away, by the feature that no other step compiles.
const MUTANTS: &str = "fader-blink/mutants,fader-chain/mutants,fader-cloud/mutants,\
    fader-database/mutants,fader-history/mutants,fader-mapreduce/mutants,fader-services/mutants,\
    fader-simulator/mutants";

/// The workspace with its mutants; then, in one of [`LINTS`] runs, the released program alone,
/// without the features that tests turn on.
fn clippy(_: &mut Score, course: &Course) -> Result<bool> {
    let lint = |which: &[&str]| {
        let mut clippy = command::cargo();
        clippy
            .arg("clippy")
            .args(which)
            .args(["--", "--deny", "warnings"]);
        command::succeeds(&mut clippy)
    };
    let is_good = lint(&["--workspace", "--all-targets", "--features", MUTANTS])?;
    let is_left_out = course.is_whole && course.seed % LINTS != 1;
    Ok(is_good && (is_left_out || lint(&["--package", "fader-fader"])?))
}

/// How many runs lint the released program once.
const LINTS: u64 = 3;

/// Builds the test programs, which the step `test` runs.
fn compile(_: &mut Score, course: &Course) -> Result<bool> {
    let built = programs::build()?;
    *course.programs.lock().map_err(lanes::panicked)? = Some(built);
    Ok(true)
}

/// The pages of the crates, and the examples in them.
fn doc(score: &mut Score, _: &Course) -> Result<bool> {
    let mut doc = command::cargo();
    doc.args(["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "--deny warnings");
    let is_good = command::succeeds(&mut doc)?;
    let mut examples = command::cargo();
    examples.args(["test", "--workspace", "--doc", "--quiet"]);
    let run = command::watch(&mut examples, |line| score.add_libtest("doc", line))?;
    Ok(run && is_good)
}

fn test(score: &mut Score, course: &Course) -> Result<bool> {
    let built = course.programs.lock().map_err(lanes::panicked)?.take();
    programs::run(built.map_or_else(programs::build, Ok)?, score, course.seed)
}

/// Builds the programs that the next steps start.
fn build(_: &mut Score, _: &Course) -> Result<bool> {
    let packages = [&bench::PACKAGES[..], &[command::SIMULATOR]].concat();
    Profile::Checked.build(&packages)?;
    simulate::build_scripts().map(|()| true)
}

/// Clusters in simulated worlds.
fn simulated(score: &mut Score, course: &Course) -> Result<bool> {
    let is_good = simulate::ci(course.seed)?;
    score.add_one(is_good);
    Ok(is_good)
}

/// The binary against the SDKs, and the command line from outside: files of tests side by side.
fn sdk(score: &mut Score, course: &Course) -> Result<bool> {
    python::prepare()?;
    python::prepare_clients()?;
    // On two cores: at any time some tests wait for clocks and leases.
    let lanes = [
        "-n",
        "6",
        "--dist",
        "loadfile",
        // The order of tests/conftest.py: files of minutes first.
        "--no-loadscope-reorder",
        "-m",
        "not alone and not clouds",
    ];
    pytest(&lanes, score, course)
}

/// Tests of the binary that tests beside them would disturb.
fn alone(score: &mut Score, course: &Course) -> Result<bool> {
    python::prepare()?;
    pytest(&["-m", "alone"], score, course)
}

fn pytest(which: &[&str], score: &mut Score, course: &Course) -> Result<bool> {
    let mut pytest = python::program("pytest");
    pytest
        .args(["-q", "-rs", "--durations=20", "--color=no"])
        .args(which)
        .arg("tests")
        .env("FADER_BIN", Profile::Checked.program("fader"));
    if course.is_whole {
        pytest.env("FADER_TESTS_DRAWN_BY", course.seed.to_string());
    }
    command::watch(&mut pytest, |line| score.add_pytest(line))
}

fn crashes(score: &mut Score, _: &Course) -> Result<bool> {
    let mut are_good = true;
    let processes = [
        crash::process(Profile::Checked, 10, 1)?,
        crash::queues(Profile::Checked, 5, 1)?,
        crash::objects(Profile::Checked, 3, 1)?,
        crash::databases(Profile::Checked, 5, 1)?,
        fake_s3::sample()?,
    ];
    for is_good in processes {
        score.add_one(is_good);
        are_good &= is_good;
    }
    Ok(are_good)
}

/// How many small benchmarks run side by side: most wait.
const BENCHES: usize = 3;
/// A run of all steps takes every second benchmark.
const PARTS: usize = 2;

/// The benchmarks of the longest time, the longest first.
const LONGEST: [&str; 5] = ["delay", "attacks", "replicas", "failover", "window"];

fn benchmark(score: &mut Score, course: &Course) -> Result<bool> {
    let native = [
        "simpledb",
        "select",
        "memory",
        "steps",
        "one-node",
        "window",
        "client",
        "generator",
        "checker",
        "cloud",
        "database",
        "s3",
    ];
    let native = native.map(|name| {
        let mut quick = bench::fader_bench(Profile::Checked, name);
        quick.arg("--quick");
        (name.to_owned(), quick)
    });
    let mut benches: Vec<_> = native
        .into_iter()
        .chain(bench::small_by_python(Profile::Checked)?)
        .collect();
    lanes::put_first(&mut benches, &LONGEST, |(name, _)| name);
    if course.is_whole {
        benches = part_of(benches, course.seed);
    }
    let total = Mutex::new((score, true));
    let benches = benches.into_iter().enumerate().collect();
    lanes::each(benches, BENCHES, |(number, (name, mut quick))| {
        if BENCHES_BEGIN <= course.begun.elapsed() {
            println!("bench {name}: left out, for this run takes long already");
            return Ok(());
        }
        quick.process_group(0);
        python::with_ports_of_its_own(&mut quick, number + 1);
        let kept = command::root().join(format!("target/bench-{number}.output"));
        let (said, is_good) = command::output(&mut quick, &kept, BENCH_LIMIT)?;
        let mut total = total.lock().map_err(lanes::panicked)?;
        println!("\nbench {name}\n{said}");
        total.0.add_one(is_good);
        total.1 &= is_good;
        Ok(())
    })?;
    Ok(total.into_inner().map_err(lanes::panicked)?.1)
}

/// What a run with this seed takes of benchmarks.
fn part_of<T>(benches: Vec<T>, seed: u64) -> Vec<T> {
    let first = usize::from(!seed.is_multiple_of(PARTS as u64));
    benches.into_iter().skip(first).step_by(PARTS).collect()
}

#[cfg(test)]
mod tests;
