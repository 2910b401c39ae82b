//! What the processes of a run do, until faults end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fader_cloud::{Clock, Cloud, Result};
use fader_mapreduce::{
    Definition, Guards, Inline, Inputs, Output, Register, Settings, State, Tools, Worker,
};
use object_store::ObjectStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;

use super::plan::Role;
use super::program::Programs;

/// Opens folders of the model: `mem://NAME`.
#[derive(Debug)]
struct Folders(Arc<dyn ObjectStore>);

#[async_trait]
impl Inputs for Folders {
    async fn open(&self, base: &str) -> Result<Arc<dyn ObjectStore>> {
        let prefix = Path::from(base.trim_start_matches("mem://"));
        Ok(Arc::new(PrefixStore::new(self.0.clone(), prefix)))
    }
}

/// A process.
#[derive(Clone)]
pub(super) struct Actor {
    pub(super) cloud: Cloud,
    pub(super) role: Role,
    pub(super) definition: Definition,
    pub(super) guards: Guards,
    /// True time.
    pub(super) truth: Arc<dyn Clock>,
    /// When work ends.
    pub(super) until: Duration,
    pub(super) mappers: Arc<AtomicU64>,
    /// Jobs, joins and cleanings.
    pub(super) calls: Arc<AtomicU64>,
}

impl Actor {
    /// Starts its work.
    pub(super) fn start(&self) {
        drop(self.cloud.runtime.spawn(self.clone().live()));
    }

    pub(super) fn output(&self) -> Output {
        Output::new(self.cloud.clone(), self.guards)
    }

    fn is_over(&self) -> bool {
        self.until <= self.truth.monotonic()
    }

    async fn live(self) {
        if let Role::Cancel(after) = self.role {
            self.cloud.runtime.clock.sleep(after).await;
            drop(self.cancel().await);
        }
        while !self.is_over() {
            self.calls.fetch_add(1, Ordering::Relaxed);
            match self.role {
                Role::Run => drop(self.run().await),
                Role::Work | Role::Cancel(_) => drop(self.work().await),
                Role::Clean => drop(self.output().clean().await),
            }
            let pause = 20 + self.cloud.runtime.random() % 2_000;
            self.cloud
                .runtime
                .clock
                .sleep(Duration::from_millis(pause))
                .await;
        }
    }

    async fn cancel(&self) -> Result<()> {
        let output = self.output();
        if let Some(register) = output.register().await? {
            output.decide(&register.job, State::Cancelled, "").await?;
        }
        Ok(())
    }

    /// What `fader mapreduce run` does.
    pub(super) async fn run(&self) -> Result<Register> {
        let output = self.output();
        if self.guards.has(fader_mapreduce::Guard::CleanAgain) {
            output.clean().await?;
        }
        let register = output.begin(&self.definition).await?;
        let worker = self.worker(&register);
        worker.submit().await?;
        worker.run().await
    }

    async fn work(&self) -> Result<()> {
        if let Some(register) = self.output().register().await? {
            self.worker(&register).run().await?;
        }
        Ok(())
    }

    pub(super) fn worker(&self, register: &Register) -> Worker {
        let tools = Tools {
            inputs: Arc::new(Folders(self.cloud.objects.clone())),
            library: Arc::new(Programs {
                runtime: self.cloud.runtime.clone(),
                mappers: self.mappers.clone(),
            }),
            compute: Arc::new(Inline),
        };
        let settings = Settings {
            slots: 2,
            memory_bytes: 1 << 20,
        };
        let made = Worker::new(self.output(), register.clone(), tools, settings);
        made.expect("both programs are known")
    }
}
