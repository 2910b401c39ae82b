//! The file system of Linux, by calls on open folders: no link is followed.
//!
//! Permissions of new files and folders are the process's umask's.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, XattrFlags,
    fgetxattr, flock, fsetxattr, fstat, fstatfs, fsync, mkdirat, open, openat, openat2, renameat,
    seek, statat, unlinkat,
};
use rustix::io::Errno;

use super::disk::{Disk, Guard, Kind, Moment, Stat};

/// The mark of a folder: it outlives a power cut.
const MARK: &str = "user.fader.durable";
/// Octets of the first try to list a folder at once.
const LIST_BYTES: usize = 64 << 10;
/// Octets of the last try. A name takes about 24 octets more than it has.
const LIST_BYTES_MAX: usize = 1 << 30;
/// The longest extended attribute of Linux, in octets.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// File systems whose locks or syncs another machine decides, by the number that statfs(2) gives.
const REMOTE: [(u64, &str); 17] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x1983_0326, "BeeGFS"),
    (0x786f_4256, "VirtualBox's shared folder"),
    (0xbacb_acbc, "VMware's shared folder"),
];

/// A folder of a local file system.
#[derive(Debug)]
pub(super) struct Linux {
    root: OwnedFd,
    device: u64,
    path: PathBuf,
}

/// A lock, held while its file is open.
#[derive(Debug)]
pub(super) struct Lock {
    _file: OwnedFd,
}

impl Linux {
    /// Opens a folder. `Unsupported` when it is on another machine's disk.
    pub(super) fn open(path: &Path) -> io::Result<Linux> {
        let path = path.canonicalize()?;
        let root = open(&path, FOLDER, Mode::empty())?;
        // The number's type differs between machines; the list above has its low 32 bits.
        let number = fstatfs(&root)?.f_type as u64 & 0xffff_ffff;
        if let Some((_, name)) = REMOTE.iter().find(|(remote, _)| *remote == number) {
            let text = format!(
                "it is on a network file system ({name}), whose locks and syncs this machine does \
                 not decide; use a folder on a local disk"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let device = fstat(&root)?.st_dev;
        Ok(Linux { root, device, path })
    }

    /// Where the folder is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A pipe would keep the caller waiting without NONBLOCK.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

fn link_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link")
}

fn kind(file_type: FileType) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        _ => Kind::Other,
    }
}

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

fn record(of: impl AsFd, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = [MaybeUninit::uninit(); 256];
    match fgetxattr(&of, name, &mut bytes[..]) {
        Ok((value, _)) => Ok(Some(value.to_vec())),
        Err(Errno::NODATA) => Ok(None),
        Err(Errno::RANGE) => {
            let mut bytes = vec![0; RECORD_BYTES_MAX];
            let length = fgetxattr(&of, name, &mut bytes[..])?;
            bytes.truncate(length);
            Ok(Some(bytes))
        }
        // A file that another system put there: it has none.
        Err(Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The names that one call of the operating system gives, which holds the folder meanwhile; `None`
/// when they do not fit.
fn list_at_once(
    folder: &OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
) -> io::Result<Option<Vec<(String, FileType)>>> {
    seek(folder, SeekFrom::Start(0))?;
    let (mut names, mut calls) = (Vec::new(), 0);
    let mut entries = RawDir::new(folder, buffer);
    loop {
        calls += u32::from(entries.is_buffer_empty());
        let Some(entry) = entries.next() else {
            return Ok(Some(names));
        };
        let entry = entry?;
        if 1 < calls {
            return Ok(None);
        }
        let name = entry.file_name().to_bytes();
        if let (Ok(name), false) = (std::str::from_utf8(name), matches!(name, b"." | b"..")) {
            names.push((name.to_owned(), entry.file_type()));
        }
    }
}

impl Disk for Linux {
    type Folder = OwnedFd;
    type File = fs::File;
    type Lock = Lock;

    fn root(&self) -> io::Result<OwnedFd> {
        self.root.try_clone()
    }

    fn folder(&self, at: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
        let folder = match openat(at, name, FOLDER, Mode::empty()) {
            Err(error @ (Errno::NOTDIR | Errno::LOOP)) => {
                let found = statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
                return match FileType::from_raw_mode(found.st_mode) {
                    FileType::Symlink => Err(link_error()),
                    _ => Err(error.into()),
                };
            }
            folder => folder?,
        };
        if fstat(&folder)?.st_dev != self.device {
            let text = "another file system is mounted there";
            return Err(io::Error::new(io::ErrorKind::CrossesDevices, text));
        }
        Ok(folder)
    }

    fn create_folder(&self, at: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(mkdirat(at, name, mode(0o777))?)
    }

    fn remove_folder(&self, at: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(unlinkat(at, name, AtFlags::REMOVEDIR)?)
    }

    fn number(&self, folder: &OwnedFd) -> io::Result<u64> {
        Ok(fstat(folder)?.st_ino)
    }

    fn is_removed(&self, folder: &OwnedFd) -> io::Result<bool> {
        Ok(fstat(folder)?.st_nlink == 0)
    }

    fn modified(&self, folder: &OwnedFd) -> io::Result<Moment> {
        let stat = fstat(folder)?;
        Ok((stat.st_mtime, stat.st_mtime_nsec as u32))
    }

    fn now(&self) -> Moment {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or((0, 0), |now| {
            let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            (seconds, now.subsec_nanos())
        })
    }

    fn has_mark(&self, folder: &OwnedFd) -> io::Result<bool> {
        Ok(record(folder, MARK)?.is_some())
    }

    fn mark(&self, folder: &OwnedFd) -> io::Result<()> {
        Ok(fsetxattr(folder, MARK, b"1", XattrFlags::empty())?)
    }

    fn list(&self, folder: &OwnedFd) -> io::Result<Vec<(String, Kind)>> {
        // An own position in the folder: others may be reading it by the same handle.
        let own = openat(folder, ".", FOLDER, Mode::empty())?;
        let mut bytes = LIST_BYTES;
        let names = loop {
            let mut buffer = Vec::with_capacity(bytes);
            if let Some(names) = list_at_once(&own, buffer.spare_capacity_mut())? {
                break names;
            }
            if LIST_BYTES_MAX <= bytes {
                let text = "too many names in one folder; spread them over several";
                return Err(io::Error::other(text));
            }
            bytes *= 2;
        };
        let known = names.into_iter().filter_map(|(name, file_type)| {
            if file_type != FileType::Unknown {
                return Some(Ok((name, kind(file_type))));
            }
            match statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Some(Ok((name, kind(FileType::from_raw_mode(stat.st_mode))))),
                Err(Errno::NOENT) => None,
                Err(error) => Some(Err(error.into())),
            }
        });
        known.collect()
    }

    fn sync_folder(&self, folder: &OwnedFd, _: Guard) -> io::Result<()> {
        Ok(fsync(folder)?)
    }

    fn create(&self, at: &OwnedFd, name: &str) -> io::Result<fs::File> {
        let how = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(at, name, how, mode(0o666))?.into())
    }

    fn open(&self, at: &OwnedFd, name: &str) -> io::Result<fs::File> {
        match openat(at, name, FILE, Mode::empty()) {
            Err(Errno::LOOP) => Err(link_error()),
            file => Ok(file?.into()),
        }
    }

    fn open_path(&self, path: &str) -> io::Result<Option<fs::File>> {
        let own = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match openat2(&self.root, path, FILE, Mode::empty(), own) {
            Err(Errno::NOENT) => Err(io::ErrorKind::NotFound.into()),
            // A link, another file system, a long path, or an old kernel.
            Err(_) => Ok(None),
            // A volume within a file system is another one, too.
            Ok(file) => Ok((fstat(&file)?.st_dev == self.device).then(|| file.into())),
        }
    }

    fn rename(&self, from: &OwnedFd, name: &str, to: &OwnedFd, new_name: &str) -> io::Result<()> {
        Ok(renameat(from, name, to, new_name)?)
    }

    fn remove(&self, at: &OwnedFd, name: &str) -> io::Result<()> {
        Ok(unlinkat(at, name, AtFlags::empty())?)
    }

    fn stat(&self, file: &fs::File) -> io::Result<Stat> {
        let stat = fstat(file)?;
        Ok(Stat {
            kind: kind(FileType::from_raw_mode(stat.st_mode)),
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).map_err(io::Error::other)?,
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
        })
    }

    fn write(&self, file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn copy(&self, mut from: &fs::File, mut to: &fs::File) -> io::Result<()> {
        // Lets the file system share the blocks where it can.
        io::copy(&mut from, &mut to).map(|_| ())
    }

    fn read(&self, file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(buffer, offset)
    }

    fn record(&self, file: &fs::File, name: &str) -> io::Result<Option<Vec<u8>>> {
        record(file, name)
    }

    fn set_record(&self, file: &fs::File, name: &str, value: &[u8]) -> io::Result<()> {
        Ok(fsetxattr(file, name, value, XattrFlags::empty())?)
    }

    fn sync_file(&self, file: &fs::File, _: Guard) -> io::Result<()> {
        // All of the file: its records are no data to fdatasync.
        Ok(fsync(file)?)
    }

    fn lock(&self, at: &OwnedFd, name: &str, _: Guard) -> io::Result<Lock> {
        let how = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let file = openat(at, name, how, mode(0o666))?;
            rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
            // A lock on a file that was deleted meanwhile excludes no process.
            if fstat(&file)?.st_nlink != 0 {
                return Ok(Lock { _file: file });
            }
        }
    }

    fn try_lock(&self, folder: &OwnedFd, _: Guard) -> io::Result<Option<Lock>> {
        // A handle of its own: the lock ends when this is closed, and with the process.
        let own = openat(folder, ".", FOLDER, Mode::empty())?;
        match flock(&own, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: own })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn wait<'a, T>(
        &self,
        signal: &Condvar,
        _: &'a Mutex<T>,
        held: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        signal.wait(held).expect("nothing panics under this lock")
    }
}
