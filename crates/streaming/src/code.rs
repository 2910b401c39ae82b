//! Executables as the code of a job.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fader_mapreduce::{
    Batch, BuiltIn, Code, Combine, Combining, Context, Emit, Failure, Library as Programs, Map,
    Outcome, Part, Phase, Program, Reduce,
};

use crate::arguments::words;
use crate::folder::Folder;
use crate::framed;
use crate::frames::Frames;
use crate::lines::{Lines, split};
use crate::process::{Cut, Process};
use crate::program::{Io, PROGRAM, Streaming};
use crate::settings::Settings;

/// Variables of this process that a program sees. Credentials are none of them.
const INHERITED: [&str; 8] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "USER",
    "PYTHONPATH",
];

/// The built-in programs, and those of executables.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Whether this process may run a job's executables: they come from the output's register.
    pub runs_executables: bool,
}

impl Programs for Library {
    fn open(&self, program: &Program) -> Outcome<Arc<dyn Code>> {
        if program.name != PROGRAM {
            return BuiltIn.open(program);
        }
        if !self.runs_executables {
            let words = "the job runs executables that come with it: name the job, with --job ID, \
                         if this machine may run them";
            return Err(Failure::Job(words.to_owned()));
        }
        let streaming = Streaming::of(program)?;
        let settings = Settings::of(&streaming.configuration).map_err(Failure::Job)?;
        Ok(Arc::new(Executables(Arc::new(Shared {
            streaming,
            settings,
        }))))
    }
}

#[derive(Debug)]
struct Shared {
    streaming: Streaming,
    settings: Settings,
}

#[derive(Clone, Debug)]
struct Executables(Arc<Shared>);

impl Code for Executables {
    fn mapper(&self, of: &Context<'_>) -> Outcome<Box<dyn Map>> {
        let context = of;
        let of = Of::new(self, of, self.0.streaming.mapper.as_deref())?;
        if self.0.streaming.io == Io::Frames {
            return Ok(Box::new(framed::Mapper::new(of, context)?));
        }
        Ok(Box::new(Mapper {
            of,
            running: None,
            passed: Lines::default(),
            text: Vec::new(),
        }))
    }

    fn combining(&self) -> Combining {
        match self.0.streaming.combiner {
            Some(_) => Combining::Program,
            None => Combining::None,
        }
    }

    fn combiner(&self, of: &Context<'_>) -> Outcome<Option<Box<dyn Combine>>> {
        let Some(command) = self.0.streaming.combiner.as_deref() else {
            return Ok(None);
        };
        let mut of = Of::new(self, of, Some(command))?;
        of.name = "combiner";
        Ok(Some(Box::new(Combiner { of, running: None })))
    }

    fn reducer(&self, of: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        let context = of;
        let of = Of::new(self, of, self.0.streaming.reducer.as_deref())?;
        if self.0.streaming.io == Io::Frames {
            return Ok(Box::new(framed::Reducer::new(of, context)?));
        }
        Ok(Box::new(Reducer { of, running: None }))
    }

    fn partition(&self, key: &[u8], hash: u64, partitions: u32, _: &[Vec<u8>]) -> u32 {
        if self.0.streaming.io == Io::Frames {
            return (((hash >> 32) * u64::from(partitions)) >> 32) as u32;
        }
        let keys = &self.0.settings.keys;
        keys.partition(keys.key(key), partitions)
    }
}

/// What the processes of an attempt have in common.
pub(crate) struct Of {
    shared: Arc<Shared>,
    /// The command; none passes lines on.
    command: Option<Vec<String>>,
    variables: Vec<(String, String)>,
    folder: Folder,
    name: &'static str,
}

impl Of {
    fn new(code: &Executables, of: &Context<'_>, command: Option<&str>) -> Outcome<Self> {
        let shared = code.0.clone();
        let command = match command.map(words) {
            None => None,
            Some(Ok(words)) if !words.is_empty() => Some(words),
            Some(_) => return Err(Failure::Job("a command without words".to_owned())),
        };
        let is_map = of.task.phase == Phase::Map;
        let own = [
            ("mapreduce_job_id", of.job.to_string()),
            ("mapreduce_job_reduces", of.reduces.to_string()),
            ("mapreduce_task_id", of.task.to_string()),
            (
                "mapreduce_task_attempt_id",
                format!("{}-{}", of.task, of.attempt),
            ),
            ("mapreduce_task_partition", of.task.number.to_string()),
            ("mapreduce_task_ismap", is_map.to_string()),
        ];
        let configured = shared.streaming.configuration.iter();
        let configured = configured.map(|(name, value)| (variable(name), value.clone()));
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let given = shared.streaming.variables.clone();
        Ok(Of {
            variables: configured.chain(own).chain(given).collect(),
            folder: Folder::new(&shared.streaming)?,
            name: if is_map { "mapper" } else { "reducer" },
            command,
            shared,
        })
    }

    /// Starts a process, on input of this name.
    pub(crate) fn start(&self, source: Option<&str>) -> Outcome<Option<Process>> {
        let Some([program, arguments @ ..]) = self.command.as_deref() else {
            return Ok(None);
        };
        let mut command = Command::new(found(program, self.folder.path()));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear();
        let inherited = INHERITED.iter();
        command.envs(inherited.filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("HOME", self.folder.path());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(source) = source {
            command.env("mapreduce_map_input_file", source);
        }
        let name = format!("{} {program:?}", self.name);
        let settings = &self.shared.settings;
        let cut = match self.shared.streaming.io {
            Io::Text => Cut::Lines(Lines::default()),
            Io::Frames => Cut::Frames(Frames::default()),
        };
        let (timeout, is_exit_judged) = (settings.timeout, settings.is_exit_judged);
        Process::start(command, name, cut, timeout, is_exit_judged).map(Some)
    }
}

/// A program of the job's files, or one of this machine's.
fn found(program: &str, folder: &Path) -> PathBuf {
    let own = folder.join(program);
    match own.is_file() {
        true => own,
        false => PathBuf::from(program),
    }
}

/// A setting as a variable: Hadoop makes `_` of all but letters and digits.
fn variable(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(plain).collect()
}

/// Feeds records to a process for each object.
struct Mapper {
    of: Of,
    running: Option<Process>,
    /// Of the lines that are passed on, without a command.
    passed: Lines,
    text: Vec<u8>,
}

/// Gives a pair for each line of a mapper or a combiner, whose output has this form.
fn emitter<'a>(
    settings: &'a Settings,
    output: &'a (Vec<u8>, usize),
    key: &'a mut Vec<u8>,
    out: &'a mut dyn Emit,
) -> impl FnMut(&[u8]) -> Outcome<()> + 'a {
    let (separator, fields) = output;
    move |line| {
        let (of, value) = split(line, separator, *fields);
        settings.keys.shuffled(of, key);
        out.emit(key, value);
        Ok(())
    }
}

impl Map for Mapper {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        if self.running.is_none() {
            self.running = self.of.start(Some(batch.source))?;
        }
        let mut key = Vec::new();
        let settings = &self.of.shared.settings;
        let mut take = emitter(settings, &settings.map_output, &mut key, out);
        match &mut self.running {
            None => self.passed.feed(batch.bytes, &mut take),
            Some(process) => {
                // Each line ends with LF, however it ended.
                self.text.clear();
                let text = &mut self.text;
                let mut lines = Lines::default();
                let mut line = |line: &[u8]| {
                    text.extend_from_slice(line);
                    text.push(b'\n');
                    Ok(())
                };
                lines.feed(batch.bytes, &mut line)?;
                lines.finish(&mut line)?;
                process.feed(&self.text, &mut take)
            }
        }
    }

    fn end_of_source(&mut self, _: &str, out: &mut dyn Emit) -> Outcome<()> {
        let mut key = Vec::new();
        let settings = &self.of.shared.settings;
        let counters = {
            let mut take = emitter(settings, &settings.map_output, &mut key, out);
            match self.running.take() {
                None => {
                    self.passed.finish(&mut take)?;
                    return Ok(());
                }
                Some(process) => process.end(&mut take)?,
            }
        };
        for (name, number) in counters {
            out.count(&name, number);
        }
        Ok(())
    }
}

/// Feeds pairs to a process for each partition of each segment: to Hadoop a combiner is a reducer.
struct Combiner {
    of: Of,
    running: Option<Process>,
}

impl Combine for Combiner {
    fn pair(&mut self, key: &[u8], value: &[u8], out: &mut dyn Emit) -> Outcome<()> {
        if self.running.is_none() {
            self.running = self.of.start(None)?;
        }
        let Some(process) = &mut self.running else {
            return Ok(());
        };
        let settings = &self.of.shared.settings;
        let mut made = Vec::new();
        let mut take = emitter(settings, &settings.reduce_output, &mut made, out);
        for part in [settings.keys.key(key), &settings.reduce_input, value, b"\n"] {
            process.feed(part, &mut take)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Emit) -> Outcome<()> {
        let Some(process) = self.running.take() else {
            return Ok(());
        };
        let (settings, mut made) = (&self.of.shared.settings, Vec::new());
        let counters = process.end(&mut emitter(
            settings,
            &settings.reduce_output,
            &mut made,
            out,
        ))?;
        for (name, number) in counters {
            out.count(&name, number);
        }
        Ok(())
    }
}

/// Feeds the pairs of a partition to one process.
struct Reducer {
    of: Of,
    running: Option<Process>,
}

/// Writes a line of a reducer to the part.
fn writer<'a>(settings: &'a Settings, out: &'a mut Part) -> impl FnMut(&[u8]) -> Outcome<()> + 'a {
    let (separator, fields) = &settings.reduce_output;
    move |line| {
        let (key, value) = split(line, separator, *fields);
        pair(&settings.part, key, value, out);
        Ok(())
    }
}

fn pair(separator: &[u8], key: &[u8], value: &[u8], out: &mut Part) {
    for part in [key, separator, value] {
        out.bytes.extend_from_slice(part);
    }
    out.end_line();
}

impl Reducer {
    fn start(&mut self) -> Outcome<()> {
        if self.running.is_none() {
            self.running = self.of.start(None)?;
        }
        Ok(())
    }
}

impl Reduce for Reducer {
    fn begin(&mut self, _: &[u8], _: &mut Part) -> Outcome<()> {
        self.start()
    }

    fn value(&mut self, key: &[u8], value: &[u8], out: &mut Part) -> Outcome<()> {
        let settings = &self.of.shared.settings;
        let key = settings.keys.key(key);
        match &mut self.running {
            None => pair(&settings.part, key, value, out),
            Some(process) => {
                let mut take = writer(settings, out);
                for part in [key, &settings.reduce_input, value, b"\n"] {
                    process.feed(part, &mut take)?;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &[u8], _: &mut Part) -> Outcome<()> {
        Ok(())
    }

    fn finish(&mut self, out: &mut Part) -> Outcome<()> {
        // A partition without keys has a process, too.
        self.start()?;
        if let Some(process) = self.running.take() {
            let counters = process.end(&mut writer(&self.of.shared.settings, out))?;
            for (name, number) in counters {
                out.count(&name, number);
            }
        }
        Ok(())
    }
}
