//! What this machine gives to a job: cores, memory, and ways to input.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use async_trait::async_trait;
use clap::Args;
use fader_client::Access;
use fader_cloud::Cloud;
use fader_mapreduce::{Compute, Inputs, Register, Settings, Tools, Worker};
use fader_streaming::Library;
use object_store::ObjectStore;

use super::definition::bytes;

/// The default of `--memory`.
const MEMORY: u64 = 1 << 30;

/// What a worker may use.
#[derive(Args)]
pub(super) struct Machine {
    /// Memory for all tasks together.
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    memory: u64,
    /// Tasks at once; by default one for each core.
    #[arg(long, value_name = "NUMBER")]
    slots: Option<usize>,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            memory: MEMORY,
            slots: None,
        }
    }
}

impl Machine {
    /// A worker for the job of a register. `runs_executables`: whether those that come with the job
    /// may run here.
    pub(super) fn worker(
        &self,
        cloud: &Cloud,
        register: &Register,
        runs_executables: bool,
    ) -> Result<Worker> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings {
            slots: self.slots.unwrap_or(cores),
            memory_bytes: usize::try_from(self.memory)?,
            ..Settings::default()
        };
        let tools = Tools {
            inputs: Arc::new(Folders::default()),
            library: Arc::new(Library { runs_executables }),
            compute: Arc::new(Threads),
        };
        Ok(Worker::new(
            cloud.clone(),
            register.clone(),
            tools,
            settings,
        )?)
    }
}

/// Computes on tokio's threads for what blocks: as many at once as a worker has slots.
#[derive(Clone, Copy, Debug)]
struct Threads;

impl Compute for Threads {
    fn start(&self, work: Box<dyn FnOnce() + Send>) {
        drop(tokio::task::spawn_blocking(work));
    }
}

/// Opens clouds for reading, each once.
#[derive(Debug, Default)]
pub(super) struct Folders(Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>);

#[async_trait]
impl Inputs for Folders {
    async fn open(&self, base: &str) -> fader_cloud::Result<Arc<dyn ObjectStore>> {
        let known = || self.0.lock().expect("nothing panics while it is locked");
        if let Some(objects) = known().get(base) {
            return Ok(objects.clone());
        }
        let options = fader_client::Options {
            access: Access::Read,
            ..fader_client::Options::default()
        };
        let cloud = fader_client::open(base, &options).await?;
        known().insert(base.to_owned(), cloud.objects.clone());
        Ok(cloud.objects)
    }
}
