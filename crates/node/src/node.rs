//! The handle of a node: writes go to the chain thread, reads are answered where they are asked.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fader_chain::{ChainId, ReplicationLag};
use fader_services::blocks::Block;
use fader_services::catalog::{self, AccountId, Catalog, Name, Refusal};
use fader_services::figures::Figures;
use fader_services::forward::{self, DomainMode};
use fader_services::request::own;
use fader_services::service::Trouble;
use fader_services::{Call, ErrorCode, Kind, Reason};
use tokio::runtime::Handle;

use crate::cluster::chains::Chains;
use crate::cluster::joining::{self, Joined};
use crate::cluster::{Cluster, ClusterSettings, Event, ProcessSettings, WaitReport};
use crate::member::Folder;
use crate::peer::PeerCounters;
use crate::request::{Answer, BodyWriter, Collector, Reach, Router, Stored, Unread, Unsettled};
use crate::secrets::seal::Seal;
use crate::settings::Settings;
use crate::status::{Counters, Health, OpenError, Recovery};
use crate::storage::care::{self, Findings};
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::engine::{self, Engine};

mod keys;

/// How often a start that waits says why.
const TELL: Duration = Duration::from_secs(10);
/// How often it looks whether it waits still.
const AGAIN: Duration = Duration::from_millis(50);
/// How often it is looked for steps across chains that no request finishes.
const SWEEP: Duration = Duration::from_secs(1);

/// One member with its disk, or several of one chain. Cheap to clone; all clones are one node.
#[derive(Clone)]
pub struct Node {
    router: Arc<Router>,
}

impl Node {
    /// Opens the data folder, creating it if absent, and recovers.
    ///
    /// # Errors
    /// [`OpenError`]: locked by another process, damaged, or refused by the operating system.
    pub fn open(settings: Settings) -> Result<(Node, Recovery), OpenError> {
        if joining::is_its_folder(&settings.data) {
            return Err(in_company(&settings.data));
        }
        Self::assemble(Folder::open_alone(settings)?, &RealDisk)
    }

    /// Reads all that is in a lone node's data folder, and changes nothing but what a start would.
    ///
    /// # Errors
    /// [`OpenError`]: locked by another process, or refused by the operating system.
    pub fn check(settings: &Settings) -> Result<Findings, OpenError> {
        let _lock = Folder::lock(&settings.data)?;
        care::check(&settings.data, settings.cache_bytes)
    }

    /// Has a data folder work again. An engine that is damaged is made anew from the log; a log
    /// that is damaged is cut there, if `accepts_loss`. What was there is set aside. Says what was
    /// done.
    ///
    /// # Errors
    /// [`OpenError`]: nothing can be done, or not without a loss.
    pub fn repair(settings: Settings, accepts_loss: bool) -> Result<Vec<String>, OpenError> {
        let mut done = Vec::new();
        let lock = Folder::lock(&settings.data)?;
        let findings = care::check(&settings.data, settings.cache_bytes)?;
        if findings.damage.is_empty() {
            return Ok(done);
        }
        if let Some((path, offset)) = &findings.cut {
            let file = path.display();
            if !accepts_loss {
                return Err(OpenError::damaged(format!(
                    "{}\nWhat follows offset {offset} of {file} cannot be had from this folder. To \
                     go on without it, and lose those writes: fader repair --accept-loss",
                    findings.damage.join("\n")
                )));
            }
            let aside = care::cut(&settings.data, path, *offset)
                .map_err(|source| OpenError::io(format!("cutting {file}"), source))?;
            done.push(format!(
                "the log was cut at offset {offset} of {file}: later writes are lost. It is kept \
                 as it was in {}",
                aside.display()
            ));
        }
        drop(lock);
        let folder = match findings.cut {
            Some(_) => Folder::open_anew(settings)?,
            None => Folder::open_alone(settings)?,
        };
        if folder.is_rebuilt() {
            done.push("the engine was made anew from the log".to_owned());
        }
        let (node, _) = Self::assemble(folder, &RealDisk)?;
        node.router.close();
        Ok(done)
    }

    /// As [`Node::open`], on a disk and an engine of the caller's choice, without a lock.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_with(
        settings: Settings,
        disk: &Arc<dyn Disk>,
        engine: Arc<dyn Engine>,
    ) -> Result<(Node, Recovery), OpenError> {
        let folder = Folder::open_with(settings, disk, engine)?;
        Self::assemble(folder, &**disk)
    }

    fn assemble(folder: Folder, disk: &dyn Disk) -> Result<(Node, Recovery), OpenError> {
        if !folder.is_alone() {
            return Err(in_company(folder.data()));
        }
        let seal = Seal::load(disk, folder.data(), folder.is_new())?;
        seal.check(&*folder.snapshot(), folder.data())?;
        let look = folder.settings().blocks.look;
        let (system, recovery) = Cluster::of_one(folder)?;
        let node = Node::of(Chains::of_one(system), seal).collecting(look)?;
        Ok((node, recovery))
    }

    /// Lets blocks go that no version names.
    fn collecting(self, look: Duration) -> Result<Node, OpenError> {
        let collector = Collector::start(&self.router, look);
        let collector =
            collector.map_err(|source| OpenError::io("starting the thread of blocks", source))?;
        *self.router.collector.lock() = Some(collector);
        Ok(self)
    }

    /// Opens the folders of all members of a chain in this process, creating them if absent, and
    /// starts them; `tell` hears of what happens.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_cluster(
        settings: ClusterSettings,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Node, OpenError> {
        let look = settings.member.blocks.look;
        let (seal, cluster) = Cluster::open(settings, tell)?;
        Node::of(Chains::of_one(cluster), seal).collecting(look)
    }

    /// Joins a cluster of processes, creating the data folder if absent, and waits for its
    /// coordinator if need be. Requests of other processes are carried out on `runtime`; `tell`
    /// hears of what happens.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn join(
        settings: ProcessSettings,
        runtime: Handle,
        tell: impl Fn(ChainId, Event) + Send + Sync + 'static,
    ) -> Result<Node, OpenError> {
        let (sweeping, look) = (runtime.clone(), settings.member.blocks.look);
        let joined = joining::join(settings, runtime, tell)?;
        let Joined { seal, home, .. } = joined;
        let chains = Chains {
            system: joined.system,
            data: joined.data,
            home: Some((home.clone(), joined.supervisor)),
        };
        let node = Node::of(chains, seal).collecting(look)?;
        let router = Arc::downgrade(&node.router);
        if node.router.several().is_some() {
            let router = router.clone();
            sweeping.spawn(async move {
                let mut before = Unsettled::default();
                while let Some(router) = router.upgrade() {
                    router.finish_others(&mut before).await;
                    drop(router);
                    tokio::time::sleep(SWEEP).await;
                }
            });
        }
        home.serve_others(Box::new(move |chain, asked| {
            let router = router.clone();
            Box::pin(async move {
                match router.upgrade() {
                    Some(router) => router.carry_out_for(chain, asked).await,
                    None => forward::ForwardedReply::NotHere(Reason::Stopping.into()),
                }
            })
        }));
        Ok(node)
    }

    fn of(chains: Chains, seal: Seal) -> Node {
        Node {
            router: Arc::new(Router::new(chains, seal)),
        }
    }

    /// Whether it has no others to wait for.
    pub fn is_alone(&self) -> bool {
        self.router.in_company().is_none()
    }

    /// Whether what concerns accounts and keys is decided by a member of this process.
    pub fn decides(&self) -> bool {
        self.router.chains.system().decides()
    }

    /// Waits until requests are answered: a chain whose members all were down first finds itself.
    ///
    /// # Errors
    /// [`Refusal`] when that takes too long.
    pub async fn ready(&self) -> Result<(), Refusal> {
        let system = self.router.chains.system();
        if self.router.chains.home.is_none() {
            return Ok(system.ready().await?);
        }
        // Others may be started much later.
        let mut told: Option<Instant> = None;
        while !self.is_ready().await {
            if told.is_none_or(|at| TELL <= at.elapsed()) {
                told = Some(Instant::now());
                for report in self.wait_reports(Some(ChainId::SYSTEM)).await {
                    tracing::warn!(
                        why = report.in_a_line(),
                        "waiting: this node's member of the system chain does not serve"
                    );
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        Ok(())
    }

    /// Whether the system chain answers: the member here, where one is to be.
    async fn is_ready(&self) -> bool {
        let system = self.router.chains.system();
        let is_elsewhere = system.process.as_ref().is_some_and(|it| !it.is_wanted());
        match is_elsewhere && system.local_member().is_none() {
            true => {
                let confirm = Arc::new(Call::of_node(catalog::Command::Confirm));
                let told = self
                    .router
                    .on_chain(ChainId::SYSTEM, &confirm, Reach::Anywhere);
                told.await.is_ok_and(|(outcome, _)| outcome.is_ok())
            }
            false => system.ready().await.is_ok(),
        }
    }

    /// The cluster, if it is one of members of this process.
    pub fn cluster(&self) -> Option<&Cluster> {
        let chains = self.router.in_company()?;
        chains.home.is_none().then(|| &**chains.system())
    }

    /// Carries out a request of a client, at the level that it demands. A refusal never
    /// took effect; one of a write that says later, or that the store failed, means unknown
    /// ([`Meaning`](fader_services::service::Meaning)). It is of the request's service, as the
    /// reply is.
    pub async fn call(&self, call: Call) -> Answer {
        self.router.route(call).await
    }

    /// Begins an attempt to store the bytes of a new object, or of a part of an `upload`, for a
    /// collection. Each repetition is a new one. `size` bytes will come, where that is told.
    ///
    /// # Errors
    /// [`Trouble::NoCollection`]; [`Trouble::Unavailable`], not now; or the store fails.
    pub async fn begin_body(
        &self,
        name: Name<'_>,
        upload: Option<u128>,
        size: Option<u64>,
    ) -> Result<BodyWriter, Trouble> {
        self.router.clone().begin_body(name, upload, size).await
    }

    /// The first bytes of a `range` of a block that a reply named, at least one. All are compared
    /// with their checksums.
    ///
    /// # Errors
    /// [`Unread`].
    pub async fn read_block(&self, block: &Block, range: Range<u32>) -> Result<Bytes, Unread> {
        self.router.read_block(block, range).await
    }

    /// What is stored will not be committed: its blocks go soon, unless they were committed after
    /// all.
    pub fn give_up(&self, stored: &Stored) {
        self.router.give_up(stored);
    }

    /// Carries out a catalog command.
    ///
    /// # Errors
    /// [`catalog::Refusal`].
    pub async fn catalog(&self, command: catalog::Command) -> Result<(), Refusal> {
        let mut call = Call::of_node(command.clone());
        if let catalog::Command::SetMode { name, .. } = &command {
            call.account.clone_from(&name.account);
        }
        let (outcome, _) = self.call(call).await;
        for id in command.keys() {
            self.router.forget_key(id);
        }
        own::<Catalog>(outcome).map(|catalog::Done| ())
    }

    /// The mode of a collection, and what a change of it waits for; `None` when there is no such
    /// collection. The head of its chain is asked, and where it does not answer, the member here.
    ///
    /// # Errors
    /// [`Refusal::View`] when the store fails, [`Refusal::Unavailable`] when no member answers.
    pub async fn mode(&self, name: Name<'_>) -> Result<Option<DomainMode>, Refusal> {
        self.router.mode(name).await
    }

    /// The chain that has a collection.
    ///
    /// # Errors
    /// [`Refusal::NoSuchDomain`], or [`Refusal::Unavailable`] when that is not known here.
    pub async fn chain_with(&self, name: Name<'_>) -> Result<ChainId, Refusal> {
        self.router.chain_with(name).await
    }

    /// The chains of which a member here serves.
    pub fn chains_here(&self) -> Vec<ChainId> {
        let chains = self.router.chains.with_numbers();
        let here = chains.filter(|(_, chain)| chain.local_member().is_some());
        here.map(|(number, _)| number).collect()
    }

    /// All that a chain has committed, with what was acknowledged before: fixed until it is
    /// dropped.
    ///
    /// # Errors
    /// [`Trouble::Unavailable`]: no member here serves the chain.
    pub async fn fixed(&self, chain: ChainId) -> Result<engine::Snapshot, Trouble> {
        self.router.fixed(chain).await
    }

    /// The account that owns a bucket, by the name alone; `None` where there is no such bucket.
    ///
    /// # Errors
    /// [`Refusal::View`] when the store fails, or no member answers.
    pub async fn bucket_owner(&self, bucket: &str) -> Result<Option<AccountId>, Refusal> {
        let anyone = AccountId(String::new());
        let name = Name::new(Kind::Bucket, &anyone, bucket);
        let known = self.router.known_catalog(name).await?;
        Ok(catalog::owner(&*known, name)?)
    }

    /// Counts a client that is refused.
    pub fn count_refusal(&self, chain: ChainId, reason: Reason) {
        self.router.count_refusal(chain, reason);
    }

    /// Whether the node can do its work.
    pub fn health(&self) -> Health {
        self.router.chains.health()
    }

    /// Counters since the start: of several chains their sums, with the system chain's epoch; of
    /// several members of one the head's.
    pub fn counters(&self) -> Counters {
        Counters::of_node(&self.chains())
    }

    /// The counters of each chain that has a member here. The memory that uploads to all chains
    /// share is with the first one's.
    pub fn chains(&self) -> Vec<(ChainId, Counters)> {
        let mut chains = self.router.chains.counters();
        if let Some((_, first)) = chains.first_mut() {
            first.blocks.memory_bytes += self.router.lent_bytes();
        }
        chains
    }

    /// What the services show of the collections whose chains have their heads here, of up to
    /// `most` by name. It reads the store.
    pub fn figures(&self, most: usize) -> Figures {
        self.router.chains.figures(most)
    }

    /// How far members are behind the heads that are here, by chain and name.
    pub fn behind(&self) -> Vec<(ChainId, String, ReplicationLag)> {
        self.router.chains.behind()
    }

    /// How often members here have failed, and how many do not run again yet, by chain.
    pub fn failures(&self) -> Vec<(ChainId, u64, u64)> {
        self.router
            .in_company()
            .map_or_else(Vec::new, Chains::failures)
    }

    /// How many requests of clients were refused with 503 here, by chain and reason.
    pub fn refusals(&self) -> Vec<(ChainId, Reason, u64)> {
        self.router.refusals()
    }

    /// How often the members here gave up their leases, since the lease clock stood still (CK-2).
    pub fn clock_alarms(&self) -> u64 {
        self.router.chains.system().clock_alarms()
    }

    /// What went between this process and each other one of its cluster, by name.
    pub fn peers(&self) -> Vec<(String, PeerCounters)> {
        self.router.chains.peers()
    }

    /// What the chains of this process wait for; of one chain only, if one is named. What only the
    /// members of other processes know, they are asked.
    pub async fn wait_reports(&self, only: Option<ChainId>) -> Vec<WaitReport> {
        let chains = self.router.in_company().into_iter();
        let chains = chains.flat_map(|chains| chains.with_numbers());
        let wanted = chains.filter(|(chain, _)| only.is_none_or(|only| only == *chain));
        let asked =
            wanted.map(|(chain, of)| tokio::spawn(async move { of.wait_report(chain).await }));
        let asked: Vec<_> = asked.collect();
        let mut why = Vec::new();
        for it in asked {
            why.extend(it.await);
        }
        why
    }

    /// Finishes what is queued, makes everything durable and ends the node's threads.
    pub async fn close(&self) {
        let router = self.router.clone();
        let closing = tokio::task::spawn_blocking(move || router.close());
        if closing.await.is_err() {
            tracing::error!("closing the node failed");
        }
    }
}

fn in_company(folder: &Path) -> OpenError {
    OpenError::new(
        ErrorCode::DataForeign,
        format!(
            "{} is the folder of a member of a cluster: start it as such",
            folder.display()
        ),
    )
}
