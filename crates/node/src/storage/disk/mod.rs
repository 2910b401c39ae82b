//! The seam to the file system: the few operations that the log and the seal need.
//!
//! What a file system promises, and no more. Written bytes are sure after [`File::sync`]. That a
//! file exists under a name is sure after [`Disk::sync_folder`] of the folder it was made, renamed
//! or removed in. A rename is atomic. Until then a crash may keep any part of it, in any order.
//!
//! Every sync names its [`SyncSite`], so that a test can leave out any one of them and must notice.
//!
//! Deliberately absent: the engine's own files (docs/internals/decisions/0002-engine.md), and
//! locks.

mod real;

use std::io;
use std::path::Path;

pub use real::RealDisk;

/// Whether an error of this kind says that there is no room, which may end by itself.
pub(crate) fn is_full(error: io::ErrorKind) -> bool {
    matches!(
        error,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Each place in the code that makes something durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncSite {
    /// The folder that holds the node's files, after the log's folder was made in it.
    DataFolder,
    /// A new segment's header, before the segment is used.
    SegmentHeader,
    /// The log's folder, after a segment was made in it.
    SegmentFolder,
    /// The entries of a group commit.
    Entries,
    /// What a start found: a process that was killed may not have synced it.
    Recovered,
    /// The sealing key, before it gets its name.
    SealKey,
    /// The folder of the sealing key, after it got its name.
    SealFolder,
    /// That something was acknowledged at all, before it is.
    Acknowledged,
    /// What the engine holds, before the log lets go of it.
    Engine,
    /// What the coordinator keeps, before it gets its name.
    Coordinator,
    /// The coordinator's folder, after its file got its name.
    CoordinatorFolder,
    /// The data folder, after the folder of blocks was made in it.
    BlocksFolder,
    /// The header of a segment of blocks, before blocks are written to it.
    BlockHeader,
    /// The folder of blocks, after a segment was made in it.
    BlockSegment,
    /// The blocks of a group commit.
    Blocks,
    /// What a start found in a segment of blocks: a process that was killed may not have synced it.
    BlocksRecovered,
    /// The list of a segment of blocks, before another segment is begun or removed.
    BlockList,
    /// Copies of blocks, before their list is written.
    BlockCopies,
    /// The folder of blocks, after a segment was removed.
    BlockSegmentRemoved,
}

impl SyncSite {
    /// All of a member's whose loss shows after any power cut. The coordinator has a test of its
    /// own, and [`SyncSite::Acknowledged`] matters when the log is lost as well.
    pub const ALL: [SyncSite; 8] = [
        SyncSite::DataFolder,
        SyncSite::SegmentHeader,
        SyncSite::SegmentFolder,
        SyncSite::Entries,
        SyncSite::Recovered,
        SyncSite::SealKey,
        SyncSite::SealFolder,
        SyncSite::Engine,
    ];

    /// All of a store of blocks.
    pub const BLOCKS: [SyncSite; 8] = [
        SyncSite::BlocksFolder,
        SyncSite::BlockHeader,
        SyncSite::BlockSegment,
        SyncSite::Blocks,
        SyncSite::BlocksRecovered,
        SyncSite::BlockList,
        SyncSite::BlockCopies,
        SyncSite::BlockSegmentRemoved,
    ];
}

/// A file system.
pub trait Disk: Send + Sync {
    /// Makes a folder that only its owner can enter; an existing one is fine.
    ///
    /// # Errors
    /// What the operating system says.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names of the files in a folder, in no order.
    ///
    /// # Errors
    /// What the operating system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes an empty file that only its owner can read.
    ///
    /// # Errors
    /// What the operating system says; `AlreadyExists` when the name is taken.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file.
    ///
    /// # Errors
    /// What the operating system says; `NotFound` when there is none.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Gives a file another name in the same folder, in place of what had that name.
    ///
    /// # Errors
    /// What the operating system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the operating system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Bytes that may still be written to the file system of a folder.
    ///
    /// # Errors
    /// What the operating system says.
    fn bytes_free(&self, folder: &Path) -> io::Result<u64>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync_folder(&self, folder: &Path, site: SyncSite) -> io::Result<()>;
}

/// An open file.
pub trait File: Send + Sync {
    /// How long it is.
    ///
    /// # Errors
    /// What the operating system says.
    fn size(&self) -> io::Result<u64>;

    /// Makes it this long; what is new reads as zeros.
    ///
    /// # Errors
    /// What the operating system says.
    fn set_size(&mut self, size: u64) -> io::Result<()>;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// What the operating system says; `UnexpectedEof` when the file ends before.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Fills `buffer` from `offset` on, if all of it is in memory: it does not wait for the disk.
    /// Says whether it did; where it does not know, it did not.
    fn read_cached_at(&self, _offset: u64, _buffer: &mut [u8]) -> bool {
        false
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// What the operating system says; any part may have been written.
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Says that each write from now on is synced before the next, and not read meanwhile: the
    /// operating system need not keep a copy.
    fn write_through(&mut self) {}

    /// Says that `size` bytes at `offset`, which are durable, are not read soon: the operating
    /// system need not keep a copy.
    fn forget(&self, _offset: u64, _size: u64) {}

    /// Makes what was written durable. After an error nothing is known of what was written since
    /// the last success, and a later success says nothing about it.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync(&mut self, site: SyncSite) -> io::Result<()>;
}

/// The whole content of a file.
///
/// # Errors
/// As [`Disk::open`] and [`File::read_exact_at`].
pub(crate) fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let size = usize::try_from(file.size()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; size];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}
