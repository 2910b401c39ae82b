//! A file system in memory that is as bad as a real one may be, for processes that take turns.
//!
//! Every change is kept apart from what is durable until it is synced. A [`SimulatedDisk::crash`]
//! gives the disk that the next start finds: all that was synced, and of the rest any part. That is
//! of each name any of its states since the sync, of a file's content any piece, of its records
//! any.
//!
//! Operations are numbered, so that the power can be cut at each of them. Before each, the seed
//! chooses which process goes on. One guard can be left out.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::disk::{Disk, Guard, Kind, Moment, Stat};

/// The time of every change: the clock stands still.
const NOW: Moment = (1_000_000, 0);

thread_local! {
    /// Which process runs on this thread; none is outside of the game.
    static PROCESS: Cell<Option<usize>> = const { Cell::new(None) };
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Content {
    bytes: Vec<u8>,
    records: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Inode {
    File {
        seen: Content,
        durable: Content,
    },
    Folder {
        names: BTreeMap<String, usize>,
        durable: BTreeMap<String, usize>,
        /// How many changes of names are durable, and those that are not.
        synced: usize,
        pending: Vec<(String, Option<usize>)>,
        has_mark: bool,
        is_removed: bool,
    },
}

impl Inode {
    fn folder() -> Inode {
        Inode::Folder {
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            synced: 0,
            pending: Vec::new(),
            has_mark: false,
            is_removed: false,
        }
    }
}

/// Whose turn it is.
#[derive(Debug)]
struct Turns {
    random: ChaCha8Rng,
    ready: BTreeSet<usize>,
    blocked: BTreeSet<usize>,
    current: Option<usize>,
    /// How often the one whose turn it is goes on.
    stays: f64,
}

impl Turns {
    fn choose(&mut self) {
        let is_ready = self.current.is_some_and(|it| self.ready.contains(&it));
        if is_ready && self.random.random_bool(self.stays) {
            return;
        }
        self.current = self.ready.iter().copied().choose(&mut self.random);
    }
}

#[derive(Debug)]
struct State {
    inodes: Vec<Inode>,
    locks: BTreeSet<(usize, String)>,
    operations: u64,
    cut_at: Option<u64>,
    ignored: Option<Guard>,
    turns: Option<Turns>,
    /// What the next write finds.
    fails: Option<(ErrorKind, u32)>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    turned: Condvar,
}

/// The disk. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct SimulatedDisk(Arc<Shared>);

/// A lock on it.
#[derive(Debug)]
pub(super) struct Lock {
    disk: SimulatedDisk,
    of: (usize, String),
    is_ignored: bool,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if !self.is_ignored {
            state.locks.remove(&self.of);
        }
        if let Some(turns) = &mut state.turns {
            turns.ready.append(&mut turns.blocked);
        }
    }
}

impl SimulatedDisk {
    /// An empty disk; a guard to leave out.
    pub(super) fn new(ignored: Option<Guard>) -> Self {
        SimulatedDisk::of(vec![Inode::folder()], ignored)
    }

    fn of(inodes: Vec<Inode>, ignored: Option<Guard>) -> Self {
        let state = State {
            inodes,
            locks: BTreeSet::new(),
            operations: 0,
            cut_at: None,
            ignored,
            turns: None,
            fails: None,
        };
        SimulatedDisk(Arc::new(Shared {
            state: Mutex::new(state),
            turned: Condvar::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A process that failed an assertion has told its test.
        self.0
            .state
            .lock()
            .unwrap_or_else(|error| error.into_inner())
    }

    pub(super) fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Cuts the power at that operation: it and all after it fail.
    pub(super) fn cut_power_at(&self, operation: u64) {
        self.state().cut_at = Some(operation);
    }

    pub(super) fn has_power(&self) -> bool {
        let state = self.state();
        state.cut_at.is_none_or(|at| state.operations < at)
    }

    /// Fails an operation: the one so many operations from now.
    pub(super) fn fail(&self, kind: ErrorKind, after: u32) {
        self.state().fails = Some((kind, after));
    }

    /// Runs processes in turns until all have ended.
    pub(super) fn play<'a>(&self, seed: u64, processes: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        let mut turns = Turns {
            random: ChaCha8Rng::seed_from_u64(seed),
            ready: (0..processes.len()).collect(),
            blocked: BTreeSet::new(),
            current: None,
            stays: 0.0,
        };
        turns.stays = [0.0, 0.5, 0.9][turns.random.random_range(0..3)];
        turns.choose();
        self.state().turns = Some(turns);
        std::thread::scope(|threads| {
            for (number, process) in processes.into_iter().enumerate() {
                let disk = self.clone();
                threads.spawn(move || {
                    PROCESS.set(Some(number));
                    let _end = End {
                        disk: disk.clone(),
                        number,
                    };
                    drop(disk.wait(disk.state(), number));
                    process();
                });
            }
        });
        self.state().turns = None;
    }

    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        number: usize,
    ) -> MutexGuard<'a, State> {
        let is_mine = |state: &State| {
            let turns = state.turns.as_ref();
            turns.is_none_or(|turns| turns.current == Some(number))
        };
        while !is_mine(&state) {
            let waited = self.0.turned.wait(state);
            state = waited.unwrap_or_else(|error| error.into_inner());
        }
        state
    }

    /// Lets another process go on, or this one; what comes next is one operation.
    fn operate(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if let Some(number) = PROCESS.get() {
            if let Some(turns) = &mut state.turns {
                turns.choose();
            }
            self.0.turned.notify_all();
            state = self.wait(state, number);
        }
        if state.cut_at.is_some_and(|at| at <= state.operations) {
            return Err(io::Error::other("the power is cut"));
        }
        state.operations += 1;
        match &mut state.fails {
            Some((kind, 0)) => {
                let kind = *kind;
                state.fails = None;
                Err(kind.into())
            }
            Some((_, after)) => {
                *after -= 1;
                Ok(state)
            }
            None => Ok(state),
        }
    }

    /// What a start finds after the power was cut.
    pub(super) fn crash(&self, seed: u64) -> SimulatedDisk {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let state = self.state();
        let inodes = state.inodes.iter().map(|inode| match inode {
            Inode::File { seen, durable } => {
                let content = match seen == durable {
                    true => durable.clone(),
                    false => torn(seen, durable, &mut random),
                };
                Inode::File {
                    seen: content.clone(),
                    durable: content,
                }
            }
            Inode::Folder {
                durable,
                pending,
                has_mark,
                is_removed,
                ..
            } => {
                let mut names = durable.clone();
                for (name, inode) in pending {
                    // Of each name the last change that happens to be kept.
                    match (random.random_bool(0.5), inode) {
                        (true, Some(inode)) => {
                            names.insert(name.clone(), *inode);
                        }
                        (true, None) => {
                            names.remove(name);
                        }
                        (false, _) => {}
                    }
                }
                Inode::Folder {
                    durable: names.clone(),
                    names,
                    synced: 0,
                    pending: Vec::new(),
                    has_mark: *has_mark && random.random_bool(0.5),
                    is_removed: *is_removed,
                }
            }
        });
        let mut inodes: Vec<Inode> = inodes.collect();
        restore(&mut inodes, 0);
        SimulatedDisk::of(inodes, state.ignored)
    }

    /// What a start finds after all processes were killed.
    pub(super) fn kill(&self) -> SimulatedDisk {
        let state = self.state();
        SimulatedDisk::of(state.inodes.clone(), state.ignored)
    }
}

/// Folders whose removal was not kept are there again.
fn restore(inodes: &mut [Inode], at: usize) {
    if let Inode::Folder {
        names, is_removed, ..
    } = &mut inodes[at]
    {
        *is_removed = false;
        let inner: Vec<usize> = names.values().copied().collect();
        for inode in inner {
            restore(inodes, inode);
        }
    }
}

/// Any part of what was not synced.
fn torn(seen: &Content, durable: &Content, random: &mut ChaCha8Rng) -> Content {
    let mut content = durable.clone();
    if random.random_bool(0.5) {
        let end = random.random_range(0..=seen.bytes.len());
        content.bytes = seen.bytes[..end].to_vec();
        if random.random_bool(0.5) {
            content.bytes.resize(seen.bytes.len(), 0);
        }
    }
    for (name, value) in &seen.records {
        if random.random_bool(0.5) {
            content.records.insert(name.clone(), value.clone());
        }
    }
    content
}

/// Ends a process's turns, also when it panics.
struct End {
    disk: SimulatedDisk,
    number: usize,
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(turns) = &mut self.disk.state().turns {
            turns.ready.remove(&self.number);
            turns.choose();
        }
        self.disk.0.turned.notify_all();
    }
}

impl State {
    fn names(&self, folder: usize) -> io::Result<&BTreeMap<String, usize>> {
        match &self.inodes[folder] {
            Inode::Folder { names, .. } => Ok(names),
            Inode::File { .. } => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn find(&self, folder: usize, name: &str) -> io::Result<usize> {
        let found = self.names(folder)?.get(name);
        found.copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn is_folder(&self, inode: usize) -> bool {
        matches!(self.inodes[inode], Inode::Folder { .. })
    }

    fn set_name(&mut self, folder: usize, name: &str, inode: Option<usize>) -> io::Result<()> {
        let Inode::Folder {
            names,
            pending,
            is_removed,
            ..
        } = &mut self.inodes[folder]
        else {
            return Err(ErrorKind::NotADirectory.into());
        };
        if *is_removed {
            return Err(ErrorKind::NotFound.into());
        }
        match inode {
            Some(inode) => names.insert(name.to_owned(), inode),
            None => names.remove(name),
        };
        pending.push((name.to_owned(), inode));
        Ok(())
    }

    fn make(&mut self, folder: usize, name: &str, inode: Inode) -> io::Result<usize> {
        if self.find(folder, name).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let number = self.inodes.len();
        self.set_name(folder, name, Some(number))?;
        self.inodes.push(inode);
        Ok(number)
    }

    fn content(&mut self, file: usize) -> io::Result<&mut Content> {
        match &mut self.inodes[file] {
            Inode::File { seen, .. } => Ok(seen),
            Inode::Folder { .. } => Err(ErrorKind::IsADirectory.into()),
        }
    }
}

impl Disk for SimulatedDisk {
    type Folder = usize;
    type File = usize;
    type Lock = Lock;

    fn root(&self) -> io::Result<usize> {
        Ok(0)
    }

    fn folder(&self, at: &usize, name: &str) -> io::Result<usize> {
        let state = self.operate()?;
        let found = state.find(*at, name)?;
        match state.is_folder(found) {
            true => Ok(found),
            false => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn create_folder(&self, at: &usize, name: &str) -> io::Result<()> {
        let mut state = self.operate()?;
        state.make(*at, name, Inode::folder()).map(|_| ())
    }

    fn remove_folder(&self, at: &usize, name: &str) -> io::Result<()> {
        let mut state = self.operate()?;
        let found = state.find(*at, name)?;
        if !state.names(found)?.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        state.set_name(*at, name, None)?;
        if let Inode::Folder { is_removed, .. } = &mut state.inodes[found] {
            *is_removed = true;
        }
        Ok(())
    }

    fn number(&self, folder: &usize) -> io::Result<u64> {
        drop(self.operate()?);
        Ok(*folder as u64)
    }

    fn is_removed(&self, folder: &usize) -> io::Result<bool> {
        let state = self.operate()?;
        Ok(matches!(
            state.inodes[*folder],
            Inode::Folder {
                is_removed: true,
                ..
            }
        ))
    }

    fn modified(&self, _: &usize) -> io::Result<Moment> {
        Ok(NOW)
    }

    fn now(&self) -> Moment {
        // Every empty folder is old enough to be removed.
        (NOW.0 + 1_000, 0)
    }

    fn has_mark(&self, folder: &usize) -> io::Result<bool> {
        let state = self.operate()?;
        Ok(matches!(
            state.inodes[*folder],
            Inode::Folder { has_mark: true, .. }
        ))
    }

    fn mark(&self, folder: &usize) -> io::Result<()> {
        let mut state = self.operate()?;
        if let Inode::Folder { has_mark, .. } = &mut state.inodes[*folder] {
            *has_mark = true;
        }
        Ok(())
    }

    fn list(&self, folder: &usize) -> io::Result<Vec<(String, Kind)>> {
        let state = self.operate()?;
        let names = state.names(*folder)?.iter();
        let kind = |inode: usize| match state.is_folder(inode) {
            true => Kind::Folder,
            false => Kind::File,
        };
        Ok(names
            .map(|(name, inode)| (name.clone(), kind(*inode)))
            .collect())
    }

    fn sync_folder(&self, folder: &usize, guard: Guard) -> io::Result<()> {
        // It covers the changes before its begin, and no others.
        let state = self.operate()?;
        if state.ignored == Some(guard) {
            return Ok(());
        }
        let covered = match &state.inodes[*folder] {
            Inode::Folder {
                synced, pending, ..
            } => synced + pending.len(),
            Inode::File { .. } => 0,
        };
        drop(state);
        let mut state = self.operate()?;
        if let Inode::Folder {
            durable,
            synced,
            pending,
            ..
        } = &mut state.inodes[*folder]
        {
            let count = covered.saturating_sub(*synced);
            *synced += count;
            for (name, inode) in pending.drain(..count) {
                match inode {
                    Some(inode) => durable.insert(name, inode),
                    None => durable.remove(&name),
                };
            }
        }
        Ok(())
    }

    fn create(&self, at: &usize, name: &str) -> io::Result<usize> {
        let mut state = self.operate()?;
        let file = Inode::File {
            seen: Content::default(),
            durable: Content::default(),
        };
        state.make(*at, name, file)
    }

    fn open(&self, at: &usize, name: &str) -> io::Result<usize> {
        self.operate()?.find(*at, name)
    }

    fn rename(&self, from: &usize, name: &str, to: &usize, new_name: &str) -> io::Result<()> {
        let mut state = self.operate()?;
        let inode = state.find(*from, name)?;
        if state
            .find(*to, new_name)
            .is_ok_and(|found| state.is_folder(found))
        {
            return Err(ErrorKind::IsADirectory.into());
        }
        state.set_name(*to, new_name, Some(inode))?;
        state.set_name(*from, name, None)
    }

    fn remove(&self, at: &usize, name: &str) -> io::Result<()> {
        let mut state = self.operate()?;
        let found = state.find(*at, name)?;
        if state.is_folder(found) {
            return Err(ErrorKind::IsADirectory.into());
        }
        state.set_name(*at, name, None)
    }

    fn stat(&self, file: &usize) -> io::Result<Stat> {
        let state = self.operate()?;
        let (kind, size) = match &state.inodes[*file] {
            Inode::File { seen, .. } => (Kind::File, seen.bytes.len() as u64),
            Inode::Folder { .. } => (Kind::Folder, 0),
        };
        Ok(Stat {
            kind,
            inode: *file as u64,
            size,
            modified: NOW,
            changed: NOW,
        })
    }

    fn write(&self, file: &usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.operate()?;
        let content = &mut state.content(*file)?.bytes;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        content.resize(content.len().max(end), 0);
        content[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn copy(&self, from: &usize, to: &usize) -> io::Result<()> {
        let mut state = self.operate()?;
        let bytes = state.content(*from)?.bytes.clone();
        state.content(*to)?.bytes = bytes;
        Ok(())
    }

    fn read(&self, file: &usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.operate()?;
        let bytes = &state.content(*file)?.bytes;
        let (start, end) = (offset as usize, offset as usize + buffer.len());
        let found = bytes.get(start..end).ok_or(ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn record(&self, file: &usize, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.operate()?;
        Ok(state.content(*file)?.records.get(name).cloned())
    }

    fn set_record(&self, file: &usize, name: &str, value: &[u8]) -> io::Result<()> {
        let mut state = self.operate()?;
        let records = &mut state.content(*file)?.records;
        records.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn sync_file(&self, file: &usize, guard: Guard) -> io::Result<()> {
        let mut state = self.operate()?;
        if state.ignored == Some(guard) {
            return Ok(());
        }
        if let Inode::File { seen, durable } = &mut state.inodes[*file] {
            *durable = seen.clone();
        }
        Ok(())
    }

    fn lock(&self, at: &usize, name: &str, guard: Guard) -> io::Result<Lock> {
        let of = (*at, name.to_owned());
        loop {
            let mut state = self.operate()?;
            let is_ignored = state.ignored == Some(guard);
            if is_ignored || state.locks.insert(of.clone()) {
                let disk = self.clone();
                return Ok(Lock {
                    disk,
                    of,
                    is_ignored,
                });
            }
            if let (Some(number), Some(turns)) = (PROCESS.get(), &mut state.turns) {
                turns.ready.remove(&number);
                turns.blocked.insert(number);
            }
        }
    }

    fn try_lock(&self, folder: &usize, guard: Guard) -> io::Result<Option<Lock>> {
        let mut state = self.operate()?;
        let of = (*folder, String::new());
        let is_ignored = state.ignored == Some(guard);
        let is_free = is_ignored || state.locks.insert(of.clone());
        let disk = self.clone();
        Ok(is_free.then(|| Lock {
            disk,
            of,
            is_ignored,
        }))
    }

    fn wait<'a, T>(
        &self,
        _: &Condvar,
        mutex: &'a Mutex<T>,
        held: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        drop(held);
        // Without power the sync that is waited for fails as well.
        drop(self.operate());
        mutex.lock().unwrap_or_else(|error| error.into_inner())
    }

    fn keeps(&self, guard: Guard) -> bool {
        self.state().ignored != Some(guard)
    }
}
