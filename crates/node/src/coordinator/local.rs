//! A coordinator in the members' own process, durable in one file.
//!
//! ```text
//! file := "FADERCRD"  format:u32=2  next:varint  count disk*  configuration?  crc:u32
//! disk := id:u128be  node  epoch  last:id   the number it has, the greatest epoch it adopted, an
//!                                           entry that it had in that one
//! ```
//!
//! Format 1 has no `last`; it is written while no disk has one. The file is written anew, synced,
//! and given its name. Sessions are not in it: with the process its members are gone, and no
//! session outlives them.
//!
//! Invariants:
//! - (COORD-1) to COORD-5 of the seam.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use fader_chain::controller::Reports;
use fader_chain::{
    Configuration, DecodeError, DiskId, EntryId, Identity, Incarnation, NodeId, Progress, Reader,
    Report, Version, put_bytes, put_varint,
};
use parking_lot::Mutex;

use super::wakeup::{Listeners, Wakeup};
use super::{Coordinator, CoordinatorError, Outage, PingTime};
use crate::clock::Clock;
use crate::status::OpenError;
use crate::storage::disk::{self, Disk, SyncSite};

const FILE: &str = "coordinator";
const FILE_NEW: &str = "coordinator.new";
const MAGIC: &[u8; 8] = b"FADERCRD";
const FORMAT: u32 = 2;
const CRC_SIZE: usize = 4;
/// How far disks have come is written this often in the time of a session, and when an incarnation
/// ends.
const WRITES: u32 = 10;
/// A member is silent that was not heard of in this part of a session.
const SILENT: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiskEntry {
    node: NodeId,
    /// What its incarnations reported.
    progress: Progress,
}

/// What is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    next_node: u32,
    disks: BTreeMap<u128, DiskEntry>,
    configuration: Option<Arc<Configuration>>,
}

#[derive(Default)]
struct State {
    kept: Kept,
    /// How far disks have come since that was written.
    progress: BTreeMap<u128, Progress>,
    /// When that was tried last, and whether it failed.
    written_at: Option<Instant>,
    is_troubled: bool,
    /// When each session was pinged last.
    sessions: BTreeMap<Identity, Instant>,
    reports: Reports,
}

/// The coordinator.
pub struct LocalCoordinator {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    session: Duration,
    /// By which sessions end.
    clock: Clock,
    state: Mutex<State>,
    listeners: Listeners,
}

impl LocalCoordinator {
    /// Opens the coordinator whose file is in `folder`, an existing one or a new one; sessions
    /// last so long, by this clock.
    ///
    /// # Errors
    /// [`OpenError`]: damaged, or refused by the operating system.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        session: Duration,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let path = folder.join(FILE);
        let kept = match disk::read_file(&*disk, &path) {
            Ok(bytes) => decode(&bytes).map_err(|error| {
                OpenError::damaged(format!(
                    "{} is damaged: {error}. Restore the data folder from a copy",
                    path.display()
                ))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept {
                next_node: 1,
                ..Kept::default()
            },
            Err(source) => {
                let context = format!("reading {}", path.display());
                return Err(OpenError::io(context, source));
            }
        };
        Ok(LocalCoordinator {
            disk,
            folder: folder.to_owned(),
            session,
            clock,
            state: Mutex::new(State {
                kept,
                ..State::default()
            }),
            listeners: Listeners::default(),
        })
    }

    /// Whether `folder` has one.
    pub(crate) fn is_there(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    /// Makes `kept` durable, with how far disks have come, and then the truth.
    fn keep(&self, state: &mut State, mut kept: Kept) -> Result<(), CoordinatorError> {
        for (disk, progress) in &state.progress {
            if let Some(known) = kept.disks.get_mut(disk) {
                known.progress = known.progress.max(*progress);
            }
        }
        if kept == state.kept {
            return Ok(());
        }
        let written = self.write(&encode(&kept));
        written.map_err(|error| Outage::system(&error))?;
        state.kept = kept;
        state.progress.clear();
        self.listeners.wake();
        Ok(())
    }

    /// Makes durable how far disks have come.
    fn keep_progress(&self, state: &mut State) {
        let kept = state.kept.clone();
        let was_troubled = std::mem::take(&mut state.is_troubled);
        state.written_at = Some(self.clock.instant());
        if let Err(error) = self.keep(state, kept) {
            state.is_troubled = true;
            if !was_troubled {
                tracing::warn!(%error, "how far disks have come cannot be noted");
            }
        }
    }

    fn keep_if_due(&self, state: &mut State) {
        let (now, wait) = (self.clock.instant(), self.session / WRITES);
        if state.written_at.is_none_or(|at| at + wait <= now) {
            self.keep_progress(state);
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.join(FILE_NEW);
        let mut file = match self.disk.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.disk.open(&path)?,
            other => other?,
        };
        file.set_size(bytes.len() as u64)?;
        file.write_all_at(0, bytes)?;
        file.sync(SyncSite::Coordinator)?;
        self.disk.rename(&path, &self.folder.join(FILE))?;
        self.disk
            .sync_folder(&self.folder, SyncSite::CoordinatorFolder)
    }
}

impl State {
    fn end_sessions(&mut self, session: Duration, now: Instant) {
        self.sessions
            .retain(|_, pinged| now.duration_since(*pinged) < session);
    }
}

impl Coordinator for LocalCoordinator {
    fn session(&self) -> Duration {
        self.session
    }

    /// All members are in this process.
    fn version(&self) -> Version {
        Version::NEWEST
    }

    fn open(
        &self,
        disk: DiskId,
        incarnation: Incarnation,
        shown: Progress,
    ) -> Result<Identity, CoordinatorError> {
        let mut state = self.state.lock();
        self.keep_progress(&mut state);
        let mut kept = state.kept.clone();
        let newest = kept.configuration.as_ref().map_or(0, |newest| newest.epoch);
        if newest < shown.epoch {
            return Err(CoordinatorError::history_lost(shown.epoch, newest));
        }
        let node = match kept.disks.get_mut(&disk.0) {
            Some(known) if shown < known.progress => {
                return Err(CoordinatorError::old_disk(
                    known.node,
                    shown,
                    known.progress,
                ));
            }
            Some(known) => {
                known.progress = known.progress.max(shown.certain());
                known.node
            }
            None => {
                let node = NodeId(kept.next_node);
                kept.next_node += 1;
                let progress = shown.certain();
                kept.disks.insert(disk.0, DiskEntry { node, progress });
                node
            }
        };
        self.keep(&mut state, kept)?;
        let member = Identity {
            node,
            incarnation,
            disk,
        };
        state.sessions.insert(member, self.clock.instant());
        self.listeners.wake();
        Ok(member)
    }

    fn ping(&self, member: Identity) -> Result<PingTime, CoordinatorError> {
        let pinged_at = PingTime(self.clock.monotonic_ms());
        let mut state = self.state.lock();
        state.end_sessions(self.session, self.clock.instant());
        self.keep_if_due(&mut state);
        match state.sessions.get_mut(&member) {
            Some(pinged) => {
                *pinged = self.clock.instant();
                Ok(pinged_at)
            }
            None => Err(CoordinatorError::SessionOver),
        }
    }

    fn close(&self, member: Identity) {
        let mut state = self.state.lock();
        if state.sessions.remove(&member).is_some() {
            self.keep_progress(&mut state);
        }
        drop(state);
        self.listeners.wake();
    }

    fn configuration(&self) -> Result<Option<Arc<Configuration>>, CoordinatorError> {
        Ok(self.state.lock().kept.configuration.clone())
    }

    fn publish(&self, expected: u64, next: Configuration) -> Result<bool, CoordinatorError> {
        let mut state = self.state.lock();
        let newest = state.kept.configuration.as_ref();
        if newest.map_or(0, |newest| newest.epoch) != expected || next.epoch <= expected {
            return Ok(false);
        }
        let kept = Kept {
            configuration: Some(Arc::new(next)),
            ..state.kept.clone()
        };
        self.keep(&mut state, kept)?;
        Ok(true)
    }

    fn report(&self, member: Identity, report: Report) {
        let mut state = self.state.lock();
        if !state.sessions.contains_key(&member) {
            return;
        }
        state
            .progress
            .entry(member.disk.0)
            .or_default()
            .note(&report);
        match report {
            Report::Adopted { .. } => self.keep_progress(&mut state),
            _ => self.keep_if_due(&mut state),
        }
        state.reports.note(member.node, report);
        self.listeners.wake();
    }

    fn sessions(&self) -> Vec<Identity> {
        let mut state = self.state.lock();
        state.end_sessions(self.session, self.clock.instant());
        state.sessions.keys().copied().collect()
    }

    fn progress(&self, disk: DiskId) -> Result<Progress, CoordinatorError> {
        let state = self.state.lock();
        let known = state.kept.disks.get(&disk.0).map(|known| known.progress);
        Ok(known.unwrap_or_default())
    }

    fn reports(&self) -> Reports {
        self.state.lock().reports.clone()
    }

    fn silent(&self) -> Vec<NodeId> {
        let state = self.state.lock();
        let (now, wait) = (self.clock.instant(), self.session / SILENT);
        let sessions = state.sessions.iter();
        let silent = sessions.filter(|(_, pinged)| **pinged + wait <= now);
        silent.map(|(incarnation, _)| incarnation.node).collect()
    }

    fn is_reachable(&self) -> bool {
        true
    }

    fn listen(&self, listener: &Arc<Wakeup>) {
        self.listeners.add(listener);
    }
}

fn encode(kept: &Kept) -> Vec<u8> {
    let mut disks = kept.disks.values();
    let format = match disks.any(|disk| disk.progress.last != EntryId::ZERO) {
        true => FORMAT,
        false => 1,
    };
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&format.to_le_bytes());
    put_varint(&mut out, u64::from(kept.next_node));
    put_varint(&mut out, kept.disks.len() as u64);
    for (disk, entry) in &kept.disks {
        out.extend_from_slice(&disk.to_be_bytes());
        put_varint(&mut out, u64::from(entry.node.0));
        put_varint(&mut out, entry.progress.epoch);
        if format == FORMAT {
            entry.progress.last.encode(&mut out);
        }
    }
    let mut bytes = Vec::new();
    if let Some(newest) = &kept.configuration {
        newest.encode_to(&mut bytes);
    }
    put_bytes(&mut out, &bytes);
    let crc = checksum(CrcAlgorithm::Crc32Iscsi, &out) as u32;
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Result<Kept, DecodeError> {
    let split = bytes.len().checked_sub(CRC_SIZE);
    let (body, crc) = bytes.split_at(split.ok_or_else(|| DecodeError::new("the file's size"))?);
    if checksum(CrcAlgorithm::Crc32Iscsi, body) as u32 != u32_of(crc) {
        return Err(DecodeError::new("the file's checksum"));
    }
    let head = body.strip_prefix(MAGIC).and_then(<[u8]>::split_first_chunk);
    let Some((format, rest)) = head.map(|(format, rest)| (u32::from_le_bytes(*format), rest))
    else {
        return Err(DecodeError::new("the file's beginning"));
    };
    if !(1..=FORMAT).contains(&format) {
        return Err(DecodeError::new("the file's format"));
    }
    let mut reader = Reader::new(Bytes::copy_from_slice(rest));
    let next_node = reader.varint_u32()?;
    let count = reader.count()?;
    let mut disks = BTreeMap::new();
    for _ in 0..count {
        let disk = reader.u128()?;
        let node = NodeId(reader.varint_u32()?);
        let epoch = reader.varint()?;
        let last = match format {
            1 => EntryId::ZERO,
            _ => EntryId::decode(&mut reader)?,
        };
        let progress = Progress { epoch, last };
        disks.insert(disk, DiskEntry { node, progress });
    }
    let newest = reader.bytes()?;
    reader.end()?;
    let configuration = match newest.is_empty() {
        true => None,
        false => Some(Arc::new(Configuration::decode_from(newest)?)),
    };
    Ok(Kept {
        next_node,
        disks,
        configuration,
    })
}

fn u32_of(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
mod tests;
