//! What this machine gives to a job: cores, memory, and ways to input.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use async_trait::async_trait;
use clap::Args;
use fader_client::{Access, Location};
use fader_cloud::{Cloud, ErrorKind, Meter};
use fader_mapreduce::{
    Code, Compute, Inputs, Outcome, Output, Places, Program, Register, Settings, Tools, Worker,
};
use fader_streaming::Library;
use object_store::ObjectStore;

use super::definition::bytes;
use crate::measure::overload::job::{self as overload, Overload};

/// The default of `--memory`.
const MEMORY: u64 = 1 << 30;
/// Memory of a task from which on the allocator may keep what is free.
const LARGE_SLOT_BYTES: u64 = 256 << 20;

/// What a worker may use.
#[derive(Args)]
pub(super) struct Machine {
    /// Memory of this process: programs of your own come on top.
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    memory: u64,
    /// Tasks at once; by default one for each core.
    #[arg(long, value_name = "NUMBER")]
    slots: Option<usize>,
    /// Show no progress, and ask the cloud for nothing but what the job needs.
    #[arg(long)]
    pub(super) quiet: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            memory: MEMORY,
            slots: None,
            quiet: false,
        }
    }
}

impl Machine {
    /// What a job of this process may use: so many tasks at once.
    pub(super) fn of_slots(slots: usize) -> Self {
        Machine {
            slots: Some(slots),
            ..Machine::default()
        }
    }

    /// Whether the allocator must give memory back at once, for the promise of `--memory`. That
    /// takes a fifth more time; what it keeps of larger memory is within the promise.
    pub(super) fn has_little_memory(&self) -> bool {
        self.memory < LARGE_SLOT_BYTES * self.slots() as u64
    }

    fn slots(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.slots.unwrap_or(cores).max(1)
    }

    /// A worker for the job of a register.
    pub(super) fn worker(
        &self,
        output: &Output,
        register: &Register,
        trust: Trust,
    ) -> Result<Worker> {
        let slots = self.slots();
        let settings = Settings {
            slots,
            memory_bytes: for_tasks(usize::try_from(self.memory)?),
        };
        let tools = Tools {
            inputs: Arc::new(Folders::new(&output.cloud().meter)),
            library: Arc::new(trust),
            compute: Arc::new(Threads::start(slots)?),
        };
        Ok(Worker::new(
            output.clone(),
            register.clone(),
            tools,
            settings,
        )?)
    }
}

/// Which programs run here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    /// Whether the worker was told this very job: programs that come with it run, and loads.
    is_named: bool,
    /// Whether a load asks a server of this process.
    is_own: bool,
}

impl Trust {
    pub(super) fn all() -> Self {
        Trust::if_named(true)
    }

    pub(super) fn if_named(is_named: bool) -> Self {
        Trust {
            is_named,
            is_own: false,
        }
    }

    pub(super) fn own(is_own: bool) -> Self {
        Trust {
            is_named: true,
            is_own,
        }
    }
}

impl fader_mapreduce::Library for Trust {
    fn open(&self, program: &Program) -> Outcome<Arc<dyn Code>> {
        if self.is_named && program.name == overload::PROGRAM {
            return Overload::open(program, self.is_own);
        }
        let runs_executables = self.is_named;
        Library { runs_executables }.open(program)
    }
}

/// What a process takes besides tasks after they began: threads, connections, code that is read
/// from the program's file when it first runs.
const LATER_BYTES: usize = 10 << 20;

/// What a process of this memory has for tasks: what it has taken already is none of it.
fn for_tasks(memory: usize) -> usize {
    let taken = std::fs::read_to_string("/proc/self/status").ok();
    let taken = taken.and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<usize>().ok()
    });
    let taken = (taken.unwrap_or_default() << 10) + LATER_BYTES;
    memory.saturating_sub(taken).max(memory / 4)
}

type Work = Box<dyn FnOnce() + Send>;

/// Computes on threads of its own, as many as a worker has slots. They are few, since an allocator
/// keeps memory for each thread. They end with the worker.
#[derive(Debug)]
struct Threads(Sender<Work>);

impl Threads {
    fn start(count: usize) -> Result<Self> {
        let (sender, receiver) = channel::<Work>();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..count {
            let receiver = receiver.clone();
            let next = move || receiver.lock().ok()?.recv().ok();
            let live = move || {
                while let Some(work) = next() {
                    // The attempt hears of it: its output never comes.
                    drop(catch_unwind(AssertUnwindSafe(work)));
                }
            };
            let builder = std::thread::Builder::new().name(format!("compute-{number}"));
            builder.spawn(live).context("a thread does not start")?;
        }
        Ok(Threads(sender))
    }
}

impl Compute for Threads {
    fn start(&self, work: Work) {
        // Without a thread the work is dropped, which its attempt takes for a panic.
        drop(self.0.send(work));
    }
}

/// Opens the places of jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Works(pub(super) Access);

#[async_trait]
impl Places for Works {
    async fn open(&self, url: &str) -> fader_cloud::Result<Cloud> {
        if let (Ok(Location::Folder(path)), Access::Write) = (Location::parse(url), self.0) {
            std::fs::create_dir_all(&path).map_err(|error| {
                let context = format!("cannot make {}", path.display());
                fader_cloud::Error::caused(ErrorKind::Invalid, context, error)
            })?;
        }
        let options = fader_client::Options {
            access: self.0,
            ..fader_client::Options::default()
        };
        fader_client::open(url, &options).await
    }
}

/// Opens clouds for reading, each once.
#[derive(Debug)]
pub(super) struct Folders {
    known: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>,
    meter: Meter,
}

impl Folders {
    /// Their requests count for `meter`.
    pub(super) fn new(meter: &Meter) -> Self {
        Folders {
            known: Mutex::default(),
            meter: meter.clone(),
        }
    }
}

#[async_trait]
impl Inputs for Folders {
    async fn open(&self, base: &str) -> fader_cloud::Result<Arc<dyn ObjectStore>> {
        let known = || {
            self.known
                .lock()
                .expect("nothing panics while it is locked")
        };
        if let Some(objects) = known().get(base) {
            return Ok(objects.clone());
        }
        let options = fader_client::Options {
            access: Access::Read,
            meter: self.meter.clone(),
            ..fader_client::Options::default()
        };
        let cloud = fader_client::open(base, &options).await?;
        known().insert(base.to_owned(), cloud.objects.clone());
        Ok(cloud.objects)
    }
}
