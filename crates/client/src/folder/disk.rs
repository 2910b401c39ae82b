//! The seam to the file system: the few operations that the folder store needs.
//!
//! What a file system promises, and no more. A file's content and records survive a power cut after
//! [`Disk::sync_file`]. A name made, replaced or removed in a folder survives one after
//! [`Disk::sync_folder`] of that folder. Until then a power cut keeps any part, in any order. A
//! rename within the file system is atomic to readers.
//!
//! Every sync and every lock names its [`Guard`], so that a test can leave out any one of them and
//! must notice.

use std::fmt;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Each sync and each lock of the store, and what sharing them rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// A staged body and its records, before it gets its name.
    Body,
    /// The folder of a key, after the key's body got its name.
    Entry,
    /// The folder that holds a new folder, before the new one counts as durable.
    Parent,
    /// The folder of a key, after the key was deleted.
    Removal,
    /// The folder of a key, before a condition on it is refused.
    Refusal,
    /// The file that names the format, before it gets its name.
    Format,
    /// The lock under which a condition is checked and a body gets its name.
    Stripe,
    /// The lock that tells the staging folder of a live process from leftovers.
    Owner,
    /// That a sync which is shared began after the changes of all that share it.
    Round,
}

/// What a name in a folder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A plain file.
    File,
    /// A folder.
    Folder,
    /// A link, a socket, a device.
    Other,
}

/// A moment as the file system keeps it: seconds and nanoseconds since 1970.
pub(super) type Moment = (i64, u32);

/// What the file system says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) kind: Kind,
    /// The file's number; another file may get it after a removal.
    pub(super) inode: u64,
    /// Octets.
    pub(super) size: u64,
    /// When the content was changed last.
    pub(super) modified: Moment,
    /// When content, name or records were changed last.
    pub(super) changed: Moment,
}

/// A file system, from one folder down. Names are single components of a path.
///
/// Errors are the operating system's. Of a name that is a link, `InvalidInput`; of a folder on
/// another file system, `CrossesDevices`.
pub(super) trait Disk: fmt::Debug + Send + Sync + 'static {
    /// An open folder; it stays the same one when its name is given to another.
    type Folder: fmt::Debug + Send + Sync + 'static;
    /// An open file, the same way.
    type File: fmt::Debug + Send + Sync + 'static;
    /// A lock; held until it is dropped or its process dies.
    type Lock: fmt::Debug + Send + Sync + 'static;

    /// The folder from which all begins.
    fn root(&self) -> io::Result<Self::Folder>;

    /// Opens a folder. `NotADirectory` when the name is a file's.
    fn folder(&self, at: &Self::Folder, name: &str) -> io::Result<Self::Folder>;

    /// Makes a folder.
    fn create_folder(&self, at: &Self::Folder, name: &str) -> io::Result<()>;

    /// Removes a folder. `DirectoryNotEmpty` when it has names in it.
    fn remove_folder(&self, at: &Self::Folder, name: &str) -> io::Result<()>;

    /// The folder's number: that of no other folder while this one is open.
    fn number(&self, folder: &Self::Folder) -> io::Result<u64>;

    /// Whether the folder was removed while it was open.
    fn is_removed(&self, folder: &Self::Folder) -> io::Result<bool>;

    /// When a name was made or removed in the folder last.
    fn modified(&self, folder: &Self::Folder) -> io::Result<Moment>;

    /// The time that [`Disk::modified`] would say for a change now.
    fn now(&self) -> Moment;

    /// Whether a folder has the mark.
    fn has_mark(&self, folder: &Self::Folder) -> io::Result<bool>;

    /// Gives a folder the mark.
    fn mark(&self, folder: &Self::Folder) -> io::Result<()>;

    /// All names in a folder as of one moment, in no order. Names that are not UTF-8 are left out.
    fn list(&self, folder: &Self::Folder) -> io::Result<Vec<(String, Kind)>>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Self::Folder, guard: Guard) -> io::Result<()>;

    /// Makes an empty file.
    fn create(&self, at: &Self::Folder, name: &str) -> io::Result<Self::File>;

    /// Opens a file to be read.
    fn open(&self, at: &Self::Folder, name: &str) -> io::Result<Self::File>;

    /// As [`Disk::open`] of a path from the root down, in one call. `None`: one call does not tell,
    /// and the caller opens the folders on the way.
    fn open_path(&self, _path: &str) -> io::Result<Option<Self::File>> {
        Ok(None)
    }

    /// Gives a file another name, in place of the file that had that name. `NotFound` also when the
    /// target folder was removed.
    fn rename(
        &self,
        from: &Self::Folder,
        name: &str,
        to: &Self::Folder,
        new_name: &str,
    ) -> io::Result<()>;

    /// Removes a file. `IsADirectory` when the name is a folder's.
    fn remove(&self, at: &Self::Folder, name: &str) -> io::Result<()>;

    /// What is known about a file.
    fn stat(&self, file: &Self::File) -> io::Result<Stat>;

    /// Writes octets from `offset` on.
    fn write(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Copies the content of a file into an empty one.
    fn copy(&self, from: &Self::File, to: &Self::File) -> io::Result<()>;

    /// Fills `buffer` from `offset` on. `UnexpectedEof` when the file ends before.
    fn read(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// A record kept with a file.
    fn record(&self, file: &Self::File, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Keeps a record with a file.
    fn set_record(&self, file: &Self::File, name: &str, value: &[u8]) -> io::Result<()>;

    /// Makes a file's content and records durable.
    fn sync_file(&self, file: &Self::File, guard: Guard) -> io::Result<()>;

    /// Waits for the lock of that name.
    fn lock(&self, at: &Self::Folder, name: &str, guard: Guard) -> io::Result<Self::Lock>;

    /// Locks a folder, unless another has locked it.
    fn try_lock(&self, folder: &Self::Folder, guard: Guard) -> io::Result<Option<Self::Lock>>;

    /// Lets other threads of this process go on; returns some time after one of them signalled, or
    /// before.
    fn wait<'a, T>(
        &self,
        signal: &Condvar,
        mutex: &'a Mutex<T>,
        held: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T>;

    /// Whether a guard that is neither a sync nor a lock stands.
    fn keeps(&self, _: Guard) -> bool {
        true
    }
}
