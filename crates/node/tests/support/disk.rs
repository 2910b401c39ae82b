//! A disk in memory that is as bad as a real one may be.
//!
//! Every change is kept apart from what is durable until it is synced. A [`SimulatedDisk::crash`]
//! gives the disk that the next start finds. It has everything synced, and of the rest any pieces,
//! in any order, cut at any byte, some of them garbage. Names are lost apart from contents.
//!
//! Writes, renames, removals and syncs are numbered, so that the power can be cut at each of them.
//!
//! Deliberately absent: lost or damaged *synced* bytes happen only by [`SimulatedDisk::flip`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fader_node::disk::{Disk, File, SyncSite};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[derive(Clone, Debug)]
enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    SetSize(usize),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    /// What a read sees.
    seen: Vec<u8>,
    /// What a crash keeps for sure.
    durable: Vec<u8>,
    /// What leads from `durable` to `seen`.
    pending: Vec<Pending>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Link(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    fn folder(&self) -> Option<&Path> {
        match self {
            NameChange::Link(path, _) | NameChange::Rename(path, _) | NameChange::Remove(path) => {
                path.parent()
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    /// Files and folders.
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<NameChange>,
    operations: u64,
    power_cut_at: Option<u64>,
    ignored: Option<SyncSite>,
    bytes_free: Option<usize>,
    failing_reads: bool,
    failing_writes: bool,
    failing_syncs: bool,
}

impl State {
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        self.check_power()
    }

    fn check_power(&self) -> io::Result<()> {
        match self.power_cut_at {
            Some(at) if at < self.operations => Err(io::Error::other("the power is cut")),
            _ => Ok(()),
        }
    }

    fn inode(&self, path: &Path) -> io::Result<usize> {
        self.check_power()?;
        self.names
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change_name(&mut self, change: NameChange) -> io::Result<()> {
        self.operate()?;
        change.apply(&mut self.names);
        self.pending_names.push(change);
        Ok(())
    }

    /// Takes space for `grown` more bytes of data.
    fn take(&mut self, grown: usize) -> io::Result<()> {
        if let Some(free) = &mut self.bytes_free {
            *free = free.checked_sub(grown).ok_or(io::ErrorKind::StorageFull)?;
        }
        Ok(())
    }
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

impl SimulatedDisk {
    /// An empty disk without faults.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// How many operations were numbered so far.
    pub(crate) fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Cuts the power at that operation: it and everything after it fails.
    pub(crate) fn cut_power_at(&self, operation: u64) {
        self.state.lock().power_cut_at = Some(operation);
    }

    /// Ends a power cut that took nothing: what remains of a process that was killed.
    pub(crate) fn restore_power(&self) {
        self.state.lock().power_cut_at = None;
    }

    /// Whether operations still work.
    pub(crate) fn has_power(&self) -> bool {
        self.state.lock().check_power().is_ok()
    }

    /// Makes every sync of that site say it succeeded and do nothing.
    pub(crate) fn ignore_sync(&self, site: Option<SyncSite>) {
        self.state.lock().ignored = site;
    }

    /// Leaves this many bytes for data; `None` for no end of it.
    pub(crate) fn set_bytes_free(&self, bytes: Option<usize>) {
        self.state.lock().bytes_free = bytes;
    }

    /// Makes every read fail, or none.
    pub(crate) fn fail_reads(&self, failing: bool) {
        self.state.lock().failing_reads = failing;
    }

    /// Makes every write fail, or none.
    pub(crate) fn fail_writes(&self, failing: bool) {
        self.state.lock().failing_writes = failing;
    }

    /// Makes every sync fail, or none.
    pub(crate) fn fail_syncs(&self, failing: bool) {
        self.state.lock().failing_syncs = failing;
    }

    /// The paths of all files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// The bytes of a file as a read sees them; `None` when there is no such file.
    pub(crate) fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state
            .names
            .get(path)
            .map(|&inode| state.inodes[inode].seen.clone())
    }

    /// Flips the bits of `mask` in one byte of a file, on the medium.
    pub(crate) fn flip(&self, path: &Path, offset: usize, mask: u8) {
        let mut state = self.state.lock();
        if let Some(&inode) = state.names.get(path) {
            let inode = &mut state.inodes[inode];
            for content in [&mut inode.seen, &mut inode.durable] {
                if let Some(byte) = content.get_mut(offset) {
                    *byte ^= mask;
                }
            }
        }
    }

    /// A sync that happens outside of this disk (the engine's). Says whether it was carried out.
    ///
    /// # Errors
    /// As a sync of a file.
    pub(crate) fn sync_elsewhere(&self, site: SyncSite) -> io::Result<bool> {
        let mut state = self.state.lock();
        state.operate()?;
        if state.failing_syncs {
            return Err(io::Error::other("the sync failed"));
        }
        Ok(state.ignored != Some(site))
    }

    /// A copy of the disk as it is, without faults: what a start after an orderly end finds.
    pub(crate) fn copy(&self) -> SimulatedDisk {
        let state = self.state.lock();
        let inodes = state.inodes.iter().map(|inode| {
            let seen = inode.seen.clone();
            Inode {
                durable: seen.clone(),
                seen,
                pending: Vec::new(),
            }
        });
        Self::holding(inodes.collect(), state.names.clone())
    }

    /// The disk after a power cut, now. Faults are gone. The same seed loses the same.
    pub(crate) fn crash(&self, seed: u64) -> SimulatedDisk {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let state = self.state.lock();
        let inodes = state.inodes.iter().map(|inode| {
            let survived = survive(inode, &mut random);
            Inode {
                seen: survived.clone(),
                durable: survived,
                pending: Vec::new(),
            }
        });
        let inodes = inodes.collect();
        let mut names = state.durable_names.clone();
        let keeps = random.random_range(0..3_u8);
        for change in &state.pending_names {
            if keeps == 2 || (keeps == 1 && random.random_bool(0.5)) {
                change.apply(&mut names);
            }
        }
        Self::holding(inodes, without_orphans(&names))
    }

    fn holding(inodes: Vec<Inode>, names: BTreeMap<PathBuf, usize>) -> SimulatedDisk {
        let durable_names = names.clone();
        let state = State {
            inodes,
            names,
            durable_names,
            ..State::default()
        };
        SimulatedDisk {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn link(&self, path: &Path) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.check_power()?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.failing_writes {
            return Err(io::Error::other("the write failed"));
        }
        state.take(1)?;
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.change_name(NameChange::Link(path.to_owned(), inode))?;
        Ok(inode)
    }
}

/// What a crash leaves of a file. Each pending change is whole, in part, as garbage or not at all,
/// and some later ones are there without earlier ones.
fn survive(inode: &Inode, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut content = inode.durable.clone();
    let keeps = random.random_range(0..3_u8);
    for change in &inode.pending {
        if keeps == 0 || (keeps == 1 && random.random_bool(0.5)) {
            continue;
        }
        match change {
            Pending::SetSize(size) => content.resize(*size, 0),
            Pending::Write { offset, bytes } => survive_write(&mut content, *offset, bytes, random),
        }
    }
    content
}

fn survive_write(content: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut ChaCha8Rng) {
    let mut at = 0;
    while at < bytes.len() {
        let size = random.random_range(1..=bytes.len() - at);
        let piece = &bytes[at..at + size];
        let (start, end) = (offset + at, offset + at + size);
        at += size;
        let fate = random.random_range(0..8_u8);
        if fate == 0 {
            continue;
        }
        if content.len() < end {
            content.resize(end, 0);
        }
        if fate == 1 {
            random.fill(&mut content[start..end]);
        } else {
            content[start..end].copy_from_slice(piece);
        }
    }
}

/// A name whose folder did not survive is out of reach.
fn without_orphans(names: &BTreeMap<PathBuf, usize>) -> BTreeMap<PathBuf, usize> {
    let is_root = |folder: &Path| folder.parent().is_none();
    let is_reachable = |path: &Path| {
        path.ancestors()
            .skip(1)
            .all(|folder| is_root(folder) || names.contains_key(folder))
    };
    names
        .iter()
        .filter(|(path, _)| is_reachable(path))
        .map(|(path, at)| (path.clone(), *at))
        .collect()
}

impl Disk for SimulatedDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let missing = |path: &&Path| path.parent().is_some() && self.content(path).is_none();
        let missing: Vec<&Path> = folder.ancestors().filter(missing).collect();
        missing
            .iter()
            .rev()
            .try_for_each(|folder| self.link(folder).map(drop))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        state.inode(folder)?;
        let inside = state
            .names
            .keys()
            .filter(|path| path.parent() == Some(folder));
        Ok(inside
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let inode = self.link(path)?;
        Ok(Box::new(SimulatedFile {
            state: self.state.clone(),
            inode,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let inode = self.state.lock().inode(path)?;
        Ok(Box::new(SimulatedFile {
            state: self.state.clone(),
            inode,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.inode(from)?;
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.inode(path)?;
        state.change_name(NameChange::Remove(path.to_owned()))
    }

    fn bytes_free(&self, _folder: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        state.check_power()?;
        Ok(state.bytes_free.map_or(u64::MAX, |free| free as u64))
    }

    fn sync_folder(&self, folder: &Path, site: SyncSite) -> io::Result<()> {
        if !self.sync_elsewhere(site)? {
            return Ok(());
        }
        let mut state = self.state.lock();
        let pending = std::mem::take(&mut state.pending_names);
        let (here, elsewhere): (Vec<_>, Vec<_>) = pending
            .into_iter()
            .partition(|change| change.folder() == Some(folder));
        here.iter()
            .for_each(|change| change.apply(&mut state.durable_names));
        state.pending_names = elsewhere;
        Ok(())
    }
}

struct SimulatedFile {
    state: Arc<Mutex<State>>,
    inode: usize,
}

impl File for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.check_power()?;
        Ok(state.inodes[self.inode].seen.len() as u64)
    }

    fn set_size(&mut self, size: u64) -> io::Result<()> {
        let size = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut state = self.state.lock();
        state.operate()?;
        let inode = &mut state.inodes[self.inode];
        inode.seen.resize(size, 0);
        inode.pending.push(Pending::SetSize(size));
        Ok(())
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        state.check_power()?;
        if state.failing_reads {
            return Err(io::Error::other("the read failed"));
        }
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let content = &state.inodes[self.inode].seen;
        let end = start
            .checked_add(buffer.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(
            content
                .get(start..end)
                .ok_or(io::ErrorKind::UnexpectedEof)?,
        );
        Ok(())
    }

    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut state = self.state.lock();
        let powered = state.operate();
        if state
            .power_cut_at
            .is_some_and(|at| at + 1 < state.operations)
        {
            return powered;
        }
        let failing = state.failing_writes;
        let room = match state.bytes_free {
            Some(free) if free < bytes.len() => free,
            _ => bytes.len(),
        };
        state.take(room)?;
        let written = &bytes[..room];
        let inode = &mut state.inodes[self.inode];
        let end = offset + written.len();
        if inode.seen.len() < end {
            inode.seen.resize(end, 0);
        }
        inode.seen[offset..end].copy_from_slice(written);
        inode.pending.push(Pending::Write {
            offset,
            bytes: written.to_vec(),
        });
        powered?;
        match () {
            () if failing => Err(io::Error::other("the write failed")),
            () if room < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            () => Ok(()),
        }
    }

    fn sync(&mut self, site: SyncSite) -> io::Result<()> {
        let mut state = self.state.lock();
        state.operate()?;
        if state.failing_syncs {
            return Err(io::Error::other("the sync failed"));
        }
        if state.ignored != Some(site) {
            let inode = &mut state.inodes[self.inode];
            inode.durable = inode.seen.clone();
            inode.pending.clear();
        }
        Ok(())
    }
}
