//! Which members run in this process: those that the layout puts here, and those that have not
//! handed off yet what they hold. And the steps by which chains get to where they are to be.
//!
//! Invariants:
//! - FOLDERS-1 a folder is deleted when its member has ended. The newest configuration, read after
//!   that, neither has a membership for its disk nor waits for it: it was decommissioned (LV-3).
//! - FOLDERS-2 a member whose folder is here runs, wanted or not: what it alone holds comes to the
//!   others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::placement::layout::{ClusterLimits, is_at_rest};
use fader_chain::{ChainId, Configuration, DiskId, Identity};
use parking_lot::{Mutex, RwLock};

use super::process::{DataChains, ProcessContext, Tell, host};
use super::{Cluster, Slot};
use crate::coordinator::{LiveNode, Wakeup};
use crate::member::Member;
use crate::settings::Settings;
use crate::status::OpenError;

/// How often at least it is looked for what is to begin or to end, if no change is heard of.
const LOOK: Duration = Duration::from_secs(1);
/// How often a process without a member pings in the time of a session.
const PINGS: u32 = 10;
/// What is put behind the name of a folder that is being deleted.
const LEFT: &str = "left";

/// The thread that looks.
pub(crate) struct MemberSupervisor {
    home: Arc<ProcessContext>,
    is_ending: Arc<AtomicBool>,
    /// Wakes the thread.
    wakeup: Arc<Wakeup>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl MemberSupervisor {
    /// Starts it.
    pub(super) fn start(
        home: Arc<ProcessContext>,
        system: Arc<Cluster>,
        data: &DataChains,
        member: Settings,
        tell: Tell,
    ) -> io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let wakeup = Arc::new(Wakeup::default());
        home.listen(&wakeup);
        let mut keeper = SupervisorThread {
            home: home.clone(),
            system,
            data: Arc::downgrade(data),
            member,
            tell,
            told: BTreeMap::new(),
            is_ending: is_ending.clone(),
            wakeup: wakeup.clone(),
            pinged: None,
        };
        let builder = std::thread::Builder::new().name("hosting".to_owned());
        let thread = builder.spawn(move || keeper.run())?;
        Ok(MemberSupervisor {
            home,
            is_ending,
            wakeup,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Nothing begins or ends after that.
    pub(crate) fn close(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.wakeup.wake();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the keeper of members ended by a broken invariant");
        }
        self.home.stay(false);
    }
}

struct SupervisorThread {
    home: Arc<ProcessContext>,
    system: Arc<Cluster>,
    data: Weak<RwLock<Vec<Arc<Cluster>>>>,
    member: Settings,
    tell: Tell,
    /// What was told last of a chain whose member does not start.
    told: BTreeMap<ChainId, String>,
    is_ending: Arc<AtomicBool>,
    wakeup: Arc<Wakeup>,
    /// When it pinged last for a process without a member.
    pinged: Option<Instant>,
}

impl SupervisorThread {
    fn run(&mut self) {
        self.home.stay(true);
        let look = LOOK.min(self.home.coordinator().cluster().session / PINGS);
        while let Some(data) = self.data.upgrade() {
            if self.is_ending.load(Ordering::Relaxed) {
                return;
            }
            self.ping_alone();
            self.start_new_chains(&data);
            let chains = data.read().clone();
            drop(data);
            for cluster in chains.iter().chain([&self.system.clone()]) {
                self.reconcile(cluster);
            }
            self.home.count_placeable(&chains);
            self.advance(&chains);
            drop(chains);
            self.wakeup.wait(look);
        }
    }

    /// A process without a member has a session: without one it is given none.
    fn ping_alone(&mut self) {
        let every = self.home.coordinator().cluster().session / PINGS;
        if self.pinged.is_none_or(|at| every <= at.elapsed()) {
            self.pinged = Some(Instant::now());
            self.home.ping_alone();
        }
    }

    /// Begins to take part in chains that were added.
    fn start_new_chains(&mut self, data: &DataChains) {
        let layout = self.home.layout();
        let known = data.read().len();
        for chain in layout.chains.keys().skip(1 + known).copied() {
            let tell = self.tell.clone();
            let begun = host(&self.home, chain, &self.member, move |event| {
                tell(chain, event);
            });
            let begun = begun.and_then(|cluster| cluster.control().map(|()| cluster));
            match begun {
                Ok(cluster) => data.write().push(cluster),
                Err(error) => return self.say(chain, &error),
            }
        }
    }

    /// Starts the member that is to be here, and ends one that has left.
    fn reconcile(&mut self, cluster: &Cluster) {
        let Some(process) = &cluster.process else {
            return;
        };
        let chain = process.chain;
        match cluster.attend() {
            Ok(()) => drop(self.told.remove(&chain)),
            Err(error) => self.say(chain, &error),
        }
    }

    /// It is tried again and again: the same is told once.
    fn say(&mut self, chain: ChainId, error: &OpenError) {
        let error = error.to_string();
        if self.told.get(&chain) != Some(&error) {
            tracing::error!(%chain, error, "the member that is to be here does not start");
            self.told.insert(chain, error);
        }
    }

    /// LY2: the next step, by the node that decides for the system chain. That another one does the
    /// same is no matter.
    fn advance(&self, data: &[Arc<Cluster>]) {
        if !self.system.decides() {
            return;
        }
        let coordinator = self.home.coordinator();
        let (layout, live) = (coordinator.layout(), coordinator.live());
        let newest = |chain: ChainId| match chain.0.checked_sub(1) {
            None => self.system.configuration(),
            Some(at) => data.get(at as usize)?.configuration(),
        };
        let rests = |chain: ChainId| {
            let places = layout.nodes(chain);
            let incarnations = live.iter().map(|it| (it.name.clone(), it.member(chain)));
            let concerned = incarnations.filter(|(name, it)| it.is_some() || places.contains(name));
            let incarnations: Vec<(String, Option<Identity>)> = concerned.collect();
            is_at_rest(newest(chain).as_deref(), layout.nodes(chain), &incarnations)
        };
        let names: BTreeSet<String> = live.iter().map(|it| it.name.clone()).collect();
        let has_data = |it: &&LiveNode| it.members.iter().any(|(of, _)| *of != ChainId::SYSTEM);
        let hold = live.iter().filter(has_data);
        let hold: BTreeSet<String> = hold.map(|it| it.name.clone()).collect();
        let policy = &coordinator.cluster().policy;
        let limits = ClusterLimits::of(coordinator.version());
        if let Some(next) = layout.step(policy, &limits, rests, &names, &hold)
            && let Err(error) = coordinator.advance(&layout, &next)
        {
            tracing::warn!(%error, "a step of placing was perhaps not taken");
        }
    }
}

impl Cluster {
    fn attend(&self) -> Result<(), OpenError> {
        let (Some(process), [slot]) = (&self.process, &self.slots[..]) else {
            return Ok(());
        };
        let is_wanted = process.is_wanted();
        let runs = slot.running.read().is_some();
        let is_damaged = slot.is_unreadable.load(Ordering::Relaxed);
        let rests = slot.failures.lock().rests();
        if !runs && !is_damaged && !rests && (is_wanted || slot.folder.exists()) {
            self.start(slot)?;
        }
        if runs && !is_wanted && self.has_left(slot) {
            self.clear(slot)?;
        }
        Ok(())
    }

    /// Whether the member here has no part in its chain, as far as is known.
    fn has_left(&self, slot: &Slot) -> bool {
        let running = slot.running.read();
        let (Some(running), Some(newest)) = (running.as_ref(), self.configuration()) else {
            return false;
        };
        let is_known = running.member.shared().epoch() <= newest.epoch;
        is_known && !has_part(&newest, running.disk)
    }

    /// FOLDERS-1.
    fn clear(&self, slot: &Slot) -> Result<(), OpenError> {
        let Some(process) = &self.process else {
            return Ok(());
        };
        let Some(incarnation) = self.stop(slot, Member::close) else {
            return Ok(());
        };
        self.coordinator.close(incarnation);
        *slot.node.lock() = None;
        let coordinator = process.home.coordinator();
        let newest = coordinator.newest_of(process.chain);
        let newest = newest.map_err(|error| {
            OpenError::io("reading whether a member has left", io::Error::other(error))
        })?;
        if newest.is_none_or(|newest| has_part(&newest, incarnation.disk)) {
            // It begins again.
            return Ok(());
        }
        delete(&slot.folder).map_err(|source| {
            OpenError::io(format!("deleting {}", slot.folder.display()), source)
        })?;
        tracing::info!(chain = %process.chain, "the member here has left for good");
        Ok(())
    }
}

/// Whether a disk has a membership, or is waited for.
fn has_part(newest: &Configuration, disk: DiskId) -> bool {
    let is_member = newest.members.iter().any(|member| member.disk == disk);
    is_member || newest.absent.iter().any(|absent| absent.disk == disk)
}

/// No member opens a folder of which a part is deleted.
fn delete(folder: &Path) -> io::Result<()> {
    let left = folder.with_extension(LEFT);
    if left.exists() {
        std::fs::remove_dir_all(&left)?;
    }
    std::fs::rename(folder, &left)?;
    std::fs::remove_dir_all(&left)
}

/// Deletes what an earlier process had not deleted to the end.
pub(super) fn sweep(chains: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(chains)? {
        let path: PathBuf = entry?.path();
        if path.extension().is_some_and(|extension| extension == LEFT) {
            std::fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}
