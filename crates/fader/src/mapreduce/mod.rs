//! `fader mapreduce`: jobs on any cloud, by workers that are all alike.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fader_client::{Access, Location};
use fader_cloud::Cloud;
use fader_mapreduce::{Output, Places as _, Register, State, Worker};
use fader_services::ErrorCode;

use crate::cloud::{Services, Where};
use crate::failure;
use crate::interrupt::{EXIT_INTERRUPTED, Interrupts};
use crate::output::{self, visible};
use crate::sdb::progress::Progress;

mod definition;
mod inspect;
mod machine;
mod show;
mod steps;
mod streaming;

pub(crate) use definition::bytes;
use definition::{Definition, Details};
use machine::{Machine, Trust, Works};
use steps::Step;
use streaming::Streaming;

const EXAMPLES: &str = "\
Examples:
  fader mapreduce run word-count --input 'file://DIR/**' --output file://OUT
  fader mapreduce run grep 'TODO|FIXME' --input 'src/**/*.rs' --output file://OUT
  fader mapreduce run --job top-words.toml --output file://OUT     (steps: docs/how-to/mapreduce.md)
  fader mapreduce submit sort --input 's3://bucket/in/**' --output s3://bucket/out
  fader mapreduce worker s3://bucket/out                  (on any machine, any number of them)
  fader mapreduce status s3://bucket/out --watch
  fader mapreduce explain word-count --input 'file://DIR/**'
  fader mapreduce streaming -files m.py,r.py -input DIR -output OUT -mapper m.py -reducer r.py

Programs:
  word-count        word, TAB, how often
  inverted-index    word, and each object with it
  reverse-links     target of links in HTML, and each object that links to it
  grep PATTERN      object, place in bytes, line
  sort              lines in order, through all parts
  join              lines `key TAB rest` of two inputs with a key in common
  count-distinct    key, TAB, how many values of lines `key TAB value` differ
  top N             the N lines `key TAB number` with the largest numbers

Output is `part-00000`… and, when all is complete, `_SUCCESS`. Any worker may be killed at any
moment: the others go on, and the same command resumes a job that has no worker. URLs and
credentials: fader cloud --help. A path without a scheme is a folder or file of this machine.";

/// How often a running job is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// What is done with jobs.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a job to its end in this process, on all cores. Joins or resumes the output's job.
    Run(Run),
    /// Begins a job and leaves its work to workers.
    Submit(Submit),
    /// Runs a job of your own executables, with the arguments of Hadoop Streaming.
    Streaming(Streaming),
    /// Works for the output's job until it is over.
    Worker(Work),
    /// Shows how the output's job stands.
    Status(Status),
    /// Lists the jobs of all outputs below a URL.
    List(Where),
    /// Ends a running job without output.
    Cancel(Where),
    /// Removes what jobs that are over left behind.
    Clean(Where),
    /// Before a job: its splits, requests and price. After it: timeline, skew, requests and price.
    Explain(Explain),
    /// Shows why attempts failed.
    Logs(Where),
}

#[derive(Args)]
struct Run {
    /// The program: one of those below.
    #[arg(required_unless_present = "job")]
    program: Option<String>,
    /// What the program is told.
    arguments: Vec<String>,
    /// A file of steps instead of a program: each reads the output of the one before.
    #[arg(long, value_name = "FILE", conflicts_with_all = definition::FLAGS)]
    job: Option<PathBuf>,
    #[command(flatten)]
    details: Details,
    #[command(flatten)]
    output: OutputUrl,
    #[command(flatten)]
    machine: Machine,
}

#[derive(Args)]
struct Submit {
    #[command(flatten)]
    definition: Definition,
    #[command(flatten)]
    output: OutputUrl,
}

#[derive(Args)]
struct Work {
    #[command(flatten)]
    at: Where,
    /// Works only for the job with this id, and runs the executables that come with it.
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    #[command(flatten)]
    machine: Machine,
}

#[derive(Args)]
struct Status {
    #[command(flatten)]
    at: Where,
    /// Looks again every 2 s, until the job is over.
    #[arg(long)]
    watch: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Explain {
    /// The URL of an output with a job; or a program, with `--input`.
    #[arg(value_name = "URL|PROGRAM")]
    what: String,
    #[command(flatten)]
    definition: Details,
    #[command(flatten)]
    services: Services,
    /// The price book: `fader cloud prices` lists them.
    #[arg(long, value_name = "BOOK", default_value = "aws-2026")]
    prices: String,
}

/// Where the output is.
#[derive(Args)]
struct OutputUrl {
    /// The URL of the output: a folder, or a prefix of a bucket.
    #[arg(long, value_name = "URL")]
    output: String,
    #[command(flatten)]
    services: Services,
}

impl Options {
    /// Whether tasks run in this process with little memory.
    pub(crate) fn has_little_memory(&self) -> bool {
        match &self.command {
            Command::Run(options) => options.machine.has_little_memory(),
            Command::Streaming(options) => options.machine.has_little_memory(),
            Command::Worker(options) => options.machine.has_little_memory(),
            _ => false,
        }
    }
}

/// Carries out one `fader mapreduce` command.
pub(crate) async fn run(options: &Options) -> Result<ExitCode> {
    let work = async {
        match &options.command {
            Command::Run(options) => run_job(options).await,
            Command::Submit(options) => submit(options).await,
            Command::Streaming(options) => streaming::run(options).await,
            Command::Worker(options) => work(options).await,
            Command::Status(options) => inspect::status(options).await,
            Command::List(at) => inspect::list(at).await,
            Command::Cancel(at) => cancel(at).await,
            Command::Clean(at) => clean(at).await,
            Command::Explain(options) => inspect::explain(options).await,
            Command::Logs(at) => inspect::logs(at).await,
        }
    };
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        done = work => done,
        () = interrupts.next() => {
            note!("interrupted; {}", resumption(&options.command));
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
    }
}

/// What goes on after an interrupt.
fn resumption(command: &Command) -> String {
    match command {
        Command::Run(_) | Command::Streaming(_) => {
            let words: Vec<String> = std::env::args()
                .map(|word| definition::quoted(&word))
                .collect();
            format!("nothing is lost. To resume: {}", words.join(" "))
        }
        Command::Worker(_) => {
            "the job goes on with other workers; its task is taken over after a lease".to_owned()
        }
        _ => "a job that runs goes on".to_owned(),
    }
}

async fn cloud(url: &str, services: &Services, access: Access) -> Result<Cloud> {
    let url = definition::url(url)?;
    if let (Location::Folder(path), Access::Write) = (Location::parse(&url)?, access) {
        let context = || format!("cannot make {}", path.display());
        std::fs::create_dir_all(&path).with_context(context)?;
    }
    Ok(fader_client::open(&url, &services.options(access)).await?)
}

fn output_of(cloud: Cloud, access: Access) -> Output {
    let output = Output::new(cloud, fader_mapreduce::Guards::default());
    output.with_places(Arc::new(Works(access)))
}

/// The output with the place of the register's job (`--work`).
async fn of_job(output: &Output, register: &Register) -> Result<Output> {
    let placed = output.of_job(register, &register.job).await;
    placed.context("the place of the job (--work)")
}

/// The output and the register of its job, to read or to write.
async fn registered(at: &Where, access: Access) -> Result<(Output, Register)> {
    let url = definition::url(&at.url)?;
    let cloud = fader_client::open(&url, &at.services.options(access)).await?;
    let output = output_of(cloud, access);
    let register = output.register().await?;
    let nothing = || format!("no job was ever started for {}", visible(&at.url));
    Ok((output, register.with_context(nothing)?))
}

/// Begins, joins or resumes the output's job.
async fn begin(
    definition: &fader_mapreduce::Definition,
    output: &str,
    services: &Services,
) -> Result<(Output, Register)> {
    definition::check(definition, &definition::url(output)?)?;
    let cloud = cloud(output, services, Access::Write).await?;
    let place = output_of(cloud, Access::Write);
    // What earlier jobs left: late writes of dead workers may have come since.
    place.clean().await?;
    if let Some(work) = &definition.work {
        let opened = Works(Access::Write).open(work).await;
        opened.with_context(|| format!("--work {}", visible(work)))?;
    }
    let begun = place.begin(definition).await;
    let register = begun.with_context(|| visible(output))?;
    Ok((of_job(&place, &register).await?, register))
}

/// A place below a URL.
pub(crate) struct Below {
    pub(crate) cloud: Cloud,
    url: String,
}

impl Below {
    /// The URL of a place within.
    pub(crate) fn below(&self, name: &str) -> String {
        within(&self.url, name)
    }
}

/// The URL of a place below another.
fn within(url: &str, name: &str) -> String {
    let (place, query) = match url.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (url, String::new()),
    };
    format!("{}/{name}{query}", place.trim_end_matches('/'))
}

/// Opens a place below a URL.
pub(crate) async fn folder(url: &str, name: &str, access: Access) -> Result<Below> {
    let url = within(&definition::url(url)?, name);
    let cloud = Works(access).open(&url).await?;
    Ok(Below { cloud, url })
}

/// Runs a job to its end in this process, so many tasks at once; what it published. `is_own`:
/// whether it asks a server of this process.
pub(crate) async fn complete(
    output: &str,
    definition: &fader_mapreduce::Definition,
    slots: usize,
    is_own: bool,
) -> Result<fader_mapreduce::Success> {
    definition::check(definition, output)?;
    let cloud = Works(Access::Write).open(output).await?;
    let place = output_of(cloud, Access::Write);
    let register = place.begin(definition).await?;
    let worker = Machine::of_slots(slots).worker(&place, &register, Trust::own(is_own))?;
    worker.submit().await?;
    let ended = worker.run().await?;
    match place.success().await? {
        Some(success) if ended.state == State::Publishing => Ok(success),
        _ => failure::fail(
            ErrorCode::JobFailed,
            format_args!(
                "the job {} ended without output: {}",
                ended.job,
                visible(&ended.reason)
            ),
        ),
    }
}

async fn run_job(options: &Run) -> Result<ExitCode> {
    let output = &options.output;
    let run = async |definition: &fader_mapreduce::Definition, url: &str| {
        let (output, register) = begin(definition, url, &output.services).await?;
        finish(&options.machine, &output, &register).await
    };
    let Some(file) = &options.job else {
        let program = options.program.as_deref().unwrap_or_default();
        let definition = options.details.of(program, &options.arguments)?;
        return run(&definition, &output.output).await;
    };
    let steps = steps::read(file, &output.output)?;
    let Some((last, before)) = steps.split_last() else {
        return failure::invalid(format_args!("{} has no step", file.display()));
    };
    for (number, step) in (1..).zip(before) {
        let name = visible(&step.definition.program.name);
        if is_complete(step, &output.services).await? {
            note!("step {number}, {name}: complete before");
            continue;
        }
        note!("step {number}, {name}: {}", visible(&step.output));
        run(&step.definition, &step.output).await?;
    }
    let name = visible(&last.definition.program.name);
    note!("step {}, {name}: {}", steps.len(), visible(&last.output));
    run(&last.definition, &last.output).await
}

/// Whether the output of a step is there, of this very definition.
async fn is_complete(step: &Step, services: &Services) -> Result<bool> {
    let cloud = cloud(&step.output, services, Access::Write).await?;
    let place = output_of(cloud, Access::Write);
    let Some(register) = place.register().await? else {
        return Ok(false);
    };
    let is_same = register.definition == step.definition;
    Ok(is_same && place.success().await?.is_some())
}

/// Makes a job known, and works for it to its end.
async fn finish(machine: &Machine, output: &Output, register: &Register) -> Result<ExitCode> {
    let worker = machine.worker(output, register, Trust::all())?;
    worker.submit().await?;
    drive(output, worker, register, machine.quiet).await
}

async fn submit(options: &Submit) -> Result<ExitCode> {
    let definition = options.definition.of()?;
    let output = &options.output;
    let (place, register) = begin(&definition, &output.output, &output.services).await?;
    leave(&place, &register, &output.output).await
}

/// Makes a job known, and leaves its work to others.
async fn leave(output: &Output, register: &Register, url: &str) -> Result<ExitCode> {
    let worker = Machine::default().worker(output, register, Trust::all())?;
    worker.submit().await?;
    output::print(&format!("{}\n", register.job))?;
    let (url, job) = (definition::quoted(url), &register.job);
    note!("to work for it: fader mapreduce worker {url} --job {job}");
    Ok(ExitCode::SUCCESS)
}

async fn work(options: &Work) -> Result<ExitCode> {
    let (output, register) = registered(&options.at, Access::Write).await?;
    let output = of_job(&output, &register).await?;
    if let Some(job) = &options.job
        && *job != register.job.to_string()
    {
        return failure::fail(
            ErrorCode::StateConflict,
            format_args!("the output's job is {}", register.job),
        );
    }
    let trust = Trust::if_named(options.job.is_some());
    let worker = options.machine.worker(&output, &register, trust)?;
    drive(&output, worker, &register, options.machine.quiet).await
}

/// Works to the job's end, with progress on standard error unless it is quiet.
async fn drive(
    output: &Output,
    worker: Worker,
    register: &Register,
    is_quiet: bool,
) -> Result<ExitCode> {
    let mut progress = Progress::new(None);
    let look = async {
        loop {
            tokio::time::sleep(LOOK).await;
            // A look that fails is left out: the next one may do.
            if let Ok(Some(status)) = output.status().await {
                progress.show(show::done(&status), show::line(&status));
            }
        }
    };
    let ended = tokio::select! {
        ended = worker.run() => ended,
        () = look, if !is_quiet => unreachable!("it looks until it is dropped"),
    };
    progress.finish();
    let ended = ended.context("the job can be resumed")?;
    if ended.job != register.job {
        return failure::fail(
            ErrorCode::StateConflict,
            format_args!("the job was replaced by {}", ended.job),
        );
    }
    match ended.state {
        State::Publishing => {
            if let Some(success) = output.success().await? {
                note!("{}", show::summary(&success));
            }
            note!("{}", show::requests(&output.cloud().meter.usage()));
            Ok(ExitCode::SUCCESS)
        }
        State::Cancelled => failure::fail(ErrorCode::JobFailed, "the job was cancelled"),
        State::Failed => failure::fail(
            ErrorCode::JobFailed,
            format_args!("the job failed: {}", visible(&ended.reason)),
        ),
        State::Running => failure::fail(
            ErrorCode::StateConflict,
            "the job still runs: run the command again",
        ),
    }
}

async fn cancel(at: &Where) -> Result<ExitCode> {
    let (output, register) = registered(at, Access::Write).await?;
    let said = output.decide(&register.job, State::Cancelled, "").await?;
    match said.state {
        State::Cancelled => {
            output.clean().await?;
            output::print(&format!("{} is cancelled\n", said.job))?;
            Ok(ExitCode::SUCCESS)
        }
        State::Publishing => failure::fail(
            ErrorCode::StateConflict,
            "it is too late: the job succeeded",
        ),
        State::Failed | State::Running => failure::fail(
            ErrorCode::StateConflict,
            format_args!("the job is {}", show::state(said.state)),
        ),
    }
}

async fn clean(at: &Where) -> Result<ExitCode> {
    let (output, _) = registered(at, Access::Write).await?;
    let cleaned = output.clean().await?;
    let text = format!(
        "{} objects, {} queues and domains removed\n",
        cleaned.objects, cleaned.services
    );
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
