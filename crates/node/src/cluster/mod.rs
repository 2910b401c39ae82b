//! Several members of one chain in one process, with their coordinator: how one sees on one machine
//! what a cluster does.
//!
//! ```text
//!  Node ──▶ Cluster ──▶ member n1 ◀──Links──▶ member n2 ◀──Links──▶ member n3
//!                          │                     │                     │
//!                        Session               Session               Session
//!                          └───────────────▶ Coordinator ◀─────────────┘
//!                                                ▲
//!                                            controller
//! ```
//!
//! Each member has its own folder, lock, engine, log and threads; killed, it forgets what a process
//! that is killed forgets.
//!
//! A chain of a cluster of processes is such a cluster too, of which one member is here, or none
//! (`process.rs`).

mod beginning;
mod blocks;
pub(crate) mod chains;
mod controller;
mod damage;
mod failing;
mod faults;
pub(crate) mod forward_server;
mod hand_over;
pub(crate) mod joining;
mod local_members;
mod names;
mod preferred_roles;
pub(crate) mod process;
mod restore;
mod single_node;
mod status;
pub(crate) mod supervisor;
mod time;
mod wait_report;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::controller::ObservedState;
use fader_chain::{Configuration, DiskId, Identity, NodeId, Progress, Version, Wiring};
use fader_services::ErrorCode;
use fader_services::request::Limits;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::coordinator::{Coordinator, CoordinatorError, LocalCoordinator, Wakeup};
use crate::member::cluster_links::{ClusterLinks, Notifier};
use crate::member::copying::Copying;
use crate::member::lease::SessionKeeper;
use crate::member::local_network::LocalNetwork;
use crate::member::turns::Turns;
use crate::member::{Folder, Member};
use crate::peer::{Outbox, PeerClocks};
use crate::random;
use crate::secrets::seal::Seal;
use crate::settings::{BlockOptions, Settings};
use crate::status::OpenError;
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::lock::FolderLock;

pub(crate) use blocks::Lacking;
pub use controller::Event;
use failing::Failures;
pub use joining::{Plan, ProcessSettings, new_cluster};
pub(crate) use names::Lent;
use names::OwnNames;
pub use status::MemberStatus;
pub use wait_report::WaitReport;

use blocks::LastFull;
use process::Process;
use status::role;

/// How long a member that ended is waited for, while others look at it.
const LOOKED_AT: Duration = Duration::from_secs(5);
/// Scans answered at once; more wait.
const SCANS_MAX: usize = 8;

/// The numbers of a cluster in one process.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// How many members it has, in one process.
    pub size: usize,
    /// How entries travel.
    pub wiring: Wiring,
    /// How long after its last ping a member's session is over (FN-2); a lease lasts half as long.
    pub session: Duration,
    /// How long a message from member to member takes besides what it takes anyway.
    pub delay: Duration,
    /// Those of each member; its data is in a folder `n1`, `n2`, … of this one.
    pub member: Settings,
}

/// What was asked of a cluster cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{context}")]
pub struct ClusterError {
    /// Which failure: [`NotFound`](ErrorCode::NotFound), [`CallInvalid`](ErrorCode::CallInvalid),
    /// [`StateConflict`](ErrorCode::StateConflict), or a member's folder does not open.
    pub code: ErrorCode,
    /// What cannot be done, and why.
    pub context: String,
}

impl ClusterError {
    /// A member's state does not allow it.
    fn conflict(context: impl Into<String>) -> Self {
        let (code, context) = (ErrorCode::StateConflict, context.into());
        ClusterError { code, context }
    }
}

/// A member's place in the process.
struct Slot {
    folder: PathBuf,
    running: RwLock<Option<Running>>,
    /// The number its disk has, once known.
    node: Mutex<Option<NodeId>>,
    /// Whether its folder was found damaged when it was to be opened.
    is_unreadable: AtomicBool,
    failures: Mutex<Failures>,
}

struct Running {
    node: NodeId,
    disk: DiskId,
    member: Arc<Member>,
    is_ending: Arc<AtomicBool>,
    /// Who keeps its session, if it has one, and what wakes it.
    session: Option<JoinHandle<Identity>>,
    keeper: Arc<Wakeup>,
}

/// What a cluster is made of.
struct Parts {
    settings: ClusterSettings,
    coordinator: Arc<dyn Coordinator>,
    links: Arc<LocalNetwork>,
    outbox: Arc<dyn Outbox>,
    clocks: Arc<PeerClocks>,
    /// Those of the members that are here.
    folders: Vec<PathBuf>,
    process: Option<Process>,
    is_lone: bool,
}

/// The cluster.
pub struct Cluster {
    settings: ClusterSettings,
    coordinator: Arc<dyn Coordinator>,
    links: Arc<LocalNetwork>,
    /// The way to all members.
    outbox: Arc<dyn Outbox>,
    clocks: Arc<PeerClocks>,
    slots: Vec<Slot>,
    pub(crate) process: Option<Process>,
    /// Whether its only member has no company, and never will.
    is_lone: bool,
    /// Who answers the next read.
    pub(crate) next: AtomicUsize,
    /// The one that alone takes what any may, where a test has said so.
    asked: RwLock<Option<NodeId>>,
    last_full: LastFull,
    /// For requests that several members may be asked.
    pub(crate) names: OwnNames,
    pub(crate) scans: Semaphore,
    is_closing: AtomicBool,
    /// Wakes the controller.
    wakeup: Arc<Wakeup>,
    /// Those of the controller.
    turns: Turns,
    controller: Mutex<Option<JoinHandle<()>>>,
    /// Who hears of what happens.
    tell: Box<dyn Fn(Event) + Send + Sync>,
    /// Last, so that the folder is held until everything else is gone.
    _lock: Option<FolderLock>,
}

impl Cluster {
    /// Opens the folders of all members and starts them; `tell` hears of what happens.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) fn open(
        settings: ClusterSettings,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<(Seal, Arc<Cluster>), OpenError> {
        let data = settings.member.data.clone();
        let creating = |source| OpenError::io(format!("creating {}", data.display()), source);
        RealDisk.create_folder(&data).map_err(creating)?;
        if data.join("log").exists() {
            return Err(OpenError::new(
                ErrorCode::DataForeign,
                format!(
                    "{} is the folder of a node that is alone: start it with `fader serve`",
                    data.display()
                ),
            ));
        }
        let lock = FolderLock::take(&data)?;
        // Members seal secrets that others open: the key is the cluster's.
        let seal = Seal::load(&RealDisk, &data, !LocalCoordinator::is_there(&data))?;
        let (session, clock) = (settings.session, settings.member.clock.clone());
        let coordinator = LocalCoordinator::open(Arc::new(RealDisk), &data, session, clock)?;
        let links = LocalNetwork::new(settings.delay);
        let folders = (1..=settings.size).map(|number| data.join(format!("n{number}")));
        let parts = Parts {
            folders: folders.collect(),
            settings,
            coordinator: Arc::new(coordinator),
            outbox: links.clone(),
            clocks: Arc::new(PeerClocks::new(session)),
            links,
            process: None,
            is_lone: false,
        };
        let cluster = Self::assemble(parts, Some(lock), tell);
        let mut damage = None;
        for slot in &cluster.slots {
            match cluster.start(slot) {
                Err(error) if error.is_damage() || error.is_panic() => {
                    damage = Some(error.context);
                }
                started => started?,
            }
        }
        // Of several members one may be damaged: the others go on, and it joins again.
        let goes_on = cluster
            .slots
            .iter()
            .any(|slot| slot.running.read().is_some());
        if let Some(reason) = damage.filter(|_| !goes_on) {
            return Err(OpenError::damaged(reason));
        }
        let members = cluster.slots.iter().filter_map(|slot| {
            let running = slot.running.read();
            running.as_ref().map(|it| Arc::clone(&it.member))
        });
        let checked = members
            .map(|member| seal.check(&*member.snapshot(), &data))
            .find(Result::is_err);
        if let Some(Err(foreign)) = checked {
            cluster.close();
            return Err(foreign);
        }
        cluster.control()?;
        Ok((seal, cluster))
    }

    fn assemble(
        parts: Parts,
        lock: Option<FolderLock>,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let slots = parts.folders.into_iter().map(|folder| Slot {
            folder,
            running: RwLock::new(None),
            node: Mutex::new(None),
            is_unreadable: AtomicBool::new(false),
            failures: Mutex::default(),
        });
        Arc::new(Cluster {
            slots: slots.collect(),
            settings: parts.settings,
            coordinator: parts.coordinator,
            links: parts.links,
            outbox: parts.outbox,
            clocks: parts.clocks,
            process: parts.process,
            is_lone: parts.is_lone,
            next: AtomicUsize::new(0),
            asked: RwLock::new(None),
            last_full: LastFull::default(),
            names: OwnNames::default(),
            scans: Semaphore::new(SCANS_MAX),
            is_closing: AtomicBool::new(false),
            wakeup: Arc::default(),
            turns: Turns::default(),
            controller: Mutex::new(None),
            tell: Box::new(tell),
            _lock: lock,
        })
    }

    /// Begins to act as controller.
    fn control(self: &Arc<Self>) -> Result<(), OpenError> {
        let controller = controller::start(self)
            .map_err(|source| OpenError::io("starting the controller", source))?;
        *self.controller.lock() = Some(controller);
        Ok(())
    }

    /// Ends all members in order, and the controller.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.wakeup.wake();
        if let Some(controller) = self.controller.lock().take()
            && controller.join().is_err()
        {
            tracing::error!("the controller ended by a broken invariant");
        }
        for slot in &self.slots {
            // After its member, which has a lease as long as it lives.
            if let Some(incarnation) = self.stop(slot, Member::close) {
                self.coordinator.close(incarnation);
            }
        }
    }

    /// Whether its members end.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// The newest configuration, if there is one.
    pub(crate) fn configuration(&self) -> Option<Arc<Configuration>> {
        self.coordinator.configuration().ok().flatten()
    }

    /// The members to begin with, when all are there.
    fn first_members(&self, sessions: &[Identity]) -> Option<Vec<Identity>> {
        match &self.process {
            Some(process) => process.first_members(),
            None => (sessions.len() == self.settings.size).then(|| sessions.to_vec()),
        }
    }

    /// What a controller knows, and the members that are not heard of.
    pub(crate) fn observed(&self) -> (ObservedState, Vec<NodeId>) {
        (controller::observed(self, false), self.coordinator.silent())
    }

    /// Whether the coordinator could be asked the last time.
    pub(crate) fn is_reachable(&self) -> bool {
        self.coordinator.is_reachable()
    }

    /// The cluster's version.
    pub(crate) fn version(&self) -> Version {
        self.coordinator.version()
    }

    /// S: how long a member that is not heard of counts as alive.
    pub(crate) fn session(&self) -> Duration {
        self.coordinator.session()
    }

    /// The names of those that the chain is to begin with, and that are not there.
    pub(crate) fn missing(&self) -> Vec<String> {
        let process = self.process.as_ref();
        process.map_or_else(Vec::new, Process::missing)
    }

    /// The limits of what members here store.
    pub(crate) fn limits(&self) -> &Limits {
        &self.settings.member.limits
    }

    /// How blocks are kept here.
    pub(crate) fn block_options(&self) -> &BlockOptions {
        &self.settings.member.blocks
    }

    /// Whether it has, or had, a member here.
    pub(crate) fn is_here(&self) -> bool {
        let is_here = |slot: &Slot| {
            let is_failed = slot.failures.lock().rests();
            let is_damaged = slot.is_unreadable.load(Ordering::Relaxed);
            is_failed || is_damaged || slot.running.read().is_some()
        };
        self.process.is_none() || self.slots.iter().any(is_here)
    }

    /// Whether this process has a part in the chain, or is to have one.
    fn is_concerned(&self) -> bool {
        let process = self.process.as_ref();
        self.is_here() || process.is_none_or(Process::is_wanted)
    }

    /// The members that are to leave: the chain is placed elsewhere.
    fn unwanted(&self) -> Vec<NodeId> {
        let process = self.process.as_ref();
        process.map_or_else(Vec::new, Process::unwanted)
    }

    /// How many members it is to have.
    fn size(&self) -> usize {
        match &self.process {
            Some(process) => process.places().len(),
            None => self.settings.size,
        }
    }

    /// A member that runs here, in any state.
    pub(crate) fn any(&self) -> Option<Arc<Member>> {
        self.members().next()
    }

    /// How often the process gave up its leases, since its clock stood still.
    pub(crate) fn clock_alarms(&self) -> u64 {
        self.clocks.alarms()
    }

    /// The members that run here.
    pub(crate) fn members(&self) -> impl Iterator<Item = Arc<Member>> {
        let members = self.slots.iter().map(|slot| slot.running.read());
        members.filter_map(|running| Some(running.as_ref()?.member.clone()))
    }

    /// The members that run here, with their numbers.
    pub(crate) fn running(&self) -> Vec<(NodeId, Arc<Member>)> {
        let running = self.slots.iter().map(|slot| slot.running.read());
        let running = running.filter_map(|running| {
            let running = running.as_ref()?;
            Some((running.node, running.member.clone()))
        });
        running.collect()
    }

    /// The name of the member with this number.
    pub(crate) fn name(&self, node: NodeId) -> String {
        if let Some(process) = &self.process {
            return process.name(node).unwrap_or_else(|| node.to_string());
        }
        let at = self
            .slots
            .iter()
            .position(|slot| *slot.node.lock() == Some(node));
        at.map_or_else(|| node.to_string(), |at| format!("n{}", at + 1))
    }

    fn slot(&self, name: &str) -> Result<&Slot, ClusterError> {
        let number = name
            .strip_prefix('n')
            .and_then(|number| number.parse().ok());
        let at = number.and_then(|number: usize| number.checked_sub(1));
        at.and_then(|at| self.slots.get(at)).ok_or_else(|| {
            let size = self.slots.len();
            ClusterError {
                code: ErrorCode::NotFound,
                context: format!("there is no member {name:?}: they are n1 to n{size}"),
            }
        })
    }

    fn start(&self, slot: &Slot) -> Result<(), OpenError> {
        let mut running = slot.running.write();
        if running.is_some() {
            return Ok(());
        }
        let settings = Settings {
            data: slot.folder.clone(),
            session: self.settings.session,
            ..self.settings.member.clone()
        };
        let opened = self.guarded(slot, || Folder::open(settings));
        if let Some(error) = opened.as_ref().err().filter(|error| error.is_damage()) {
            tracing::error!(reason = error.context, "a member is damaged");
            slot.is_unreadable.store(true, Ordering::Relaxed);
        }
        let folder = opened?;
        let failed = |source| {
            OpenError::io(
                format!("starting the member in {}", slot.folder.display()),
                source,
            )
        };
        let incarnation =
            random::incarnation().map_err(|error| failed(std::io::Error::other(error)))?;
        let progress = folder.progress();
        let me = self
            .coordinator
            .open(folder.disk(), incarnation, progress)
            .map_err(|error| match error {
                CoordinatorError::Refused { code, context } => OpenError::new(code, context),
                other => failed(std::io::Error::other(other)),
            })?;
        let live = || self.live(folder, me, progress, &failed);
        let begun = self.guarded(slot, live);
        *running = Some(begun.inspect_err(|_| self.coordinator.close(me))?);
        *slot.node.lock() = Some(me.node);
        drop(running);
        self.on_started(slot);
        Ok(())
    }

    fn live(
        &self,
        folder: Folder,
        me: Identity,
        progress: Progress,
        failed: &impl Fn(std::io::Error) -> OpenError,
    ) -> Result<Running, OpenError> {
        let wakeup = Arc::new(Wakeup::default());
        let (notifier, notices) = Notifier::new(wakeup.clone());
        let links = ClusterLinks {
            outbox: self.outbox.clone(),
            notices: notifier,
            clocks: self.clocks.clone(),
        };
        let (member, recovery) = folder.live(me, Some(links))?;
        if let Some(torn) = recovery.torn {
            match recovery.possibly_lost {
                0 => tracing::warn!(torn, "the last write was cut short, and never acknowledged"),
                bytes => tracing::error!(
                    torn,
                    bytes,
                    "the log ends in zeros within a record: acknowledged writes may be lost"
                ),
            }
        }
        self.links
            .connect(me.node, member.jobs(), member.shared().clone());
        let is_ending = Arc::new(AtomicBool::new(false));
        let session = SessionKeeper {
            me,
            coordinator: self.coordinator.clone(),
            links: self.links.clone(),
            shared: member.shared().clone(),
            jobs: member.jobs(),
            notices,
            wakeup: wakeup.clone(),
            is_ending: is_ending.clone(),
            told: 0,
            has_told: false,
            progress,
            reports: VecDeque::new(),
            leased_ms: 0,
            is_over: false,
            refused: None,
            has_stopped: false,
            left_out: 0,
            again_at: None,
            outbox: self.outbox.clone(),
            copying: Copying::default(),
        };
        let builder = std::thread::Builder::new().name(format!("session-{}", me.node));
        let session = builder.spawn(move || session.run()).map_err(failed)?;
        Ok(Running {
            node: me.node,
            disk: me.disk,
            member: Arc::new(member),
            is_ending,
            session: Some(session),
            keeper: wakeup,
        })
    }

    /// Ends a member that runs; whose incarnation that was.
    fn stop(&self, slot: &Slot, end: fn(&Member)) -> Option<Identity> {
        let running = slot.running.write().take()?;
        self.links.disconnect(running.node);
        running.is_ending.store(true, Ordering::Relaxed);
        end(&running.member);
        let ended = running.session?.join();
        if ended.is_err() {
            tracing::error!("a session ended by a broken invariant");
        }
        // Those who still look at it hold its folder.
        let end = Instant::now() + LOOKED_AT;
        let is_looked_at = || 1 < Arc::strong_count(&running.member);
        let is_asked = || 1 < Arc::strong_count(running.member.shared());
        while (is_looked_at() || is_asked()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        ended.ok()
    }
}
