//! `fader mapreduce streaming`: jobs of executables, with Hadoop Streaming's arguments.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use fader_mapreduce::Shuffle;

use super::definition::{named, url};
use super::machine::Machine;
use super::{begin, finish, leave};
use crate::cloud::Services;

const EXAMPLES: &str = "\
Examples:
  fader mapreduce streaming -files m.py,r.py -input DIR -output OUT -mapper m.py -reducer r.py
  fader mapreduce streaming -input 's3://b/in/*' -output s3://b/out -mapper cat -reducer 'wc -l'
  fader mapreduce streaming --memory 512MiB --submit -D mapreduce.job.reduces=4 \\
      -input 's3://b/in' -output s3://b/out -mapper 'grep -o ERROR' -reducer 'uniq -c'

Hadoop's arguments:
  -input URL, -output URL      what is read and made; -input may be repeated
  -mapper, -reducer COMMAND    read lines and write lines `key TAB value`; without one, lines pass
  -files A,B#NAME              files that come with the job, in the folder of each process
  -numReduceTasks N            reduce tasks, and parts; 1 unless told
  -D NAME=VALUE                separators, key fields, comparator, partitioner, timeout
  -cmdenv NAME=VALUE           a variable of the processes
  -partitioner CLASS           HashPartitioner, KeyFieldBasedPartitioner
  -combiner COMMAND            a reducer that runs on the pairs of a map task before they are sent
  -io text|frames              how programs are spoken to: lines, or docs/reference/format/frames.md

Executables run in a folder of their own, without the credentials of this process. A worker runs
them only when it is told the job: fader mapreduce worker URL --job ID.
See docs/how-to/mapreduce.md";

/// A job of executables.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Streaming {
    #[command(flatten)]
    pub(super) machine: Machine,
    #[command(flatten)]
    services: Services,
    /// Begins the job and leaves its work to workers.
    #[arg(long)]
    submit: bool,
    /// After this time without a sign of life an attempt's task is given to another.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::dev::time)]
    lease: std::time::Duration,
    /// What carries pairs from map to reduce tasks: object, or queue (a queue for each partition).
    #[arg(long, value_name = "SHUFFLE", default_value = "object", value_parser = named::<Shuffle>)]
    shuffle: Shuffle,
    /// The URL below which the job keeps what only it reads; by default below the output.
    #[arg(long, value_name = "URL")]
    work: Option<String>,
    /// Arguments of Hadoop Streaming, after all others.
    #[arg(
        value_name = "HADOOP",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    arguments: Vec<String>,
}

/// Runs such a job to its end, or begins it.
pub(super) async fn run(options: &Streaming) -> Result<ExitCode> {
    let read = |path: &str| std::fs::read(path);
    let mut job = fader_streaming::parse(&options.arguments, &read)?;
    for ignored in &job.ignored {
        note!("warning: {ignored} does nothing here");
    }
    let inputs = job.definition.inputs.iter();
    job.definition.inputs = inputs.map(|input| url(input)).collect::<Result<_>>()?;
    job.definition.shuffle = options.shuffle;
    job.definition.lease_ms = u64::try_from(options.lease.as_millis())?;
    job.definition.work = options.work.as_deref().map(url).transpose()?;
    let (cloud, register) = begin(&job.definition, &job.output, &options.services).await?;
    match options.submit {
        true => leave(&cloud, &register, &job.output).await,
        false => finish(&options.machine, &cloud, &register).await,
    }
}
