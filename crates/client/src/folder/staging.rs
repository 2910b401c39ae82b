//! The store's own folder: the format, the locks, and the bodies that have no name yet.
//!
//! Invariants:
//! - FOLDER-1 a staging folder belongs to one opened store, which holds its lock. The lock ends
//!   with the process: what then lies there is removed when the next store opens for writing.

use std::io::{self, ErrorKind as IoKind};

use object_store::Result;
use rand::TryRng;
use rand::rngs::SysRng;

use super::disk::{Disk, Guard, Kind};
use super::failure::{Effect, failed, refused};
use super::key::CONTROL;

/// The file in the control folder that names the format.
const FORMAT: &str = "format";
/// What it says.
const FORMAT_LINE: &str = "fader folder 1\n";
/// The longest file that is read to learn the format, in octets.
const FORMAT_BYTES_MAX: u64 = 64;
/// The folder of the locks, in the control folder.
const LOCKS: &str = "locks";
/// The folder of all staging folders, in the control folder.
const STAGED: &str = "staged";

/// What a store needs to write.
#[derive(Debug)]
pub(super) struct Staging<D: Disk> {
    /// The folder of the locks.
    pub(super) locks: D::Folder,
    /// The folder of this store's bodies without a name.
    pub(super) own: D::Folder,
    staged: D::Folder,
    name: String,
    _owner: D::Lock,
}

/// 128 random bits of the operating system: a forked process draws others.
pub(super) fn random() -> io::Result<u128> {
    let mut bytes = [0; 16];
    let filled = SysRng.try_fill_bytes(&mut bytes);
    filled.map_err(io::Error::other)?;
    Ok(u128::from_be_bytes(bytes))
}

/// A name that no other file has.
pub(super) fn random_name() -> io::Result<String> {
    Ok(format!("{:032x}", random()?))
}

/// Refuses a folder of another format; one without a format is fine.
pub(super) fn check_format<D: Disk>(disk: &D) -> Result<()> {
    let fail = |error| failed(format!("{CONTROL}/{FORMAT}"), Effect::None, error);
    let root = disk.root().map_err(fail)?;
    match disk.folder(&root, CONTROL) {
        Ok(control) => read_format(disk, &control).map(|_| ()),
        Err(error) if error.kind() == IoKind::NotFound => Ok(()),
        Err(error) => Err(fail(error)),
    }
}

/// Whether the format is there.
fn read_format<D: Disk>(disk: &D, control: &D::Folder) -> Result<bool> {
    let what = format!("{CONTROL}/{FORMAT}");
    let read = || {
        let file = disk.open(control, FORMAT)?;
        let size = disk.stat(&file)?.size.min(FORMAT_BYTES_MAX);
        let mut bytes = vec![0; size as usize];
        disk.read(&file, 0, &mut bytes)?;
        io::Result::Ok(bytes)
    };
    match read() {
        Ok(bytes) if bytes == FORMAT_LINE.as_bytes() => Ok(true),
        Ok(bytes) if bytes.starts_with(b"fader folder ") => {
            let format = String::from_utf8_lossy(&bytes);
            let text = format!(
                "the folder has the format {:?}, which this version does not know; use a newer one",
                format.trim_end()
            );
            Err(refused(what, text))
        }
        Ok(_) => Err(refused(what, "it is damaged, or not Fader's")),
        Err(error) if error.kind() == IoKind::NotFound => Ok(false),
        Err(error) => Err(failed(what, Effect::None, error)),
    }
}

fn ensure_folder<D: Disk>(disk: &D, at: &D::Folder, name: &str) -> io::Result<D::Folder> {
    match disk.create_folder(at, name) {
        Ok(()) => {}
        Err(error) if error.kind() == IoKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    disk.folder(at, name)
}

impl<D: Disk> Staging<D> {
    /// Prepares the folder for writes of this store, and removes what dead processes left.
    ///
    /// # Errors
    /// `NotSupported` when the file system lacks what a store needs.
    pub(super) fn open(disk: &D) -> Result<Staging<D>> {
        let fail = |error| failed(CONTROL, Effect::None, error);
        let folders = || {
            let root = disk.root()?;
            let control = ensure_folder(disk, &root, CONTROL)?;
            let locks = ensure_folder(disk, &control, LOCKS)?;
            let staged = ensure_folder(disk, &control, STAGED)?;
            io::Result::Ok((control, locks, staged))
        };
        let (control, locks, staged) = folders().map_err(fail)?;
        let has_format = read_format(disk, &control)?;
        let (name, own, owner) = Staging::own(disk, &staged).map_err(fail)?;
        let staging = Staging {
            locks,
            own,
            staged,
            name,
            _owner: owner,
        };
        staging.probe(disk)?;
        if !has_format {
            staging.write_format(disk, &control).map_err(fail)?;
        }
        staging.sweep(disk).map_err(fail)?;
        Ok(staging)
    }

    fn own(disk: &D, staged: &D::Folder) -> io::Result<(String, D::Folder, D::Lock)> {
        loop {
            let name = random_name()?;
            disk.create_folder(staged, &name)?;
            // Another store's sweep may take it for a leftover until it is locked.
            let own = match disk.folder(staged, &name) {
                Err(error) if error.kind() == IoKind::NotFound => continue,
                own => own?,
            };
            if let Some(lock) = disk.try_lock(&own, Guard::Owner)?
                && !disk.is_removed(&own)?
            {
                return Ok((name, own, lock));
            }
        }
    }

    fn probe(&self, disk: &D) -> Result<()> {
        let fail = |error| failed(CONTROL, Effect::None, error);
        disk.mark(&self.own).map_err(|error| match error.kind() {
            IoKind::Unsupported => {
                let text = "the file system keeps no extended attributes (user.*); use ext4, XFS, \
                            Btrfs, or tmpfs of Linux 6.6 or later";
                refused(CONTROL, text)
            }
            _ => fail(error),
        })?;
        drop(disk.create(&self.own, "Case").map_err(fail)?);
        let found = disk.open(&self.own, "case");
        disk.remove(&self.own, "Case").map_err(fail)?;
        match found {
            Ok(_) => {
                let text = "the file system takes names that differ in case for one; use a folder \
                            that does not";
                Err(refused(CONTROL, text))
            }
            Err(_) => Ok(()),
        }
    }

    fn write_format(&self, disk: &D, control: &D::Folder) -> io::Result<()> {
        let file = disk.create(&self.own, FORMAT)?;
        disk.write(&file, 0, FORMAT_LINE.as_bytes())?;
        disk.sync_file(&file, Guard::Format)?;
        disk.rename(&self.own, FORMAT, control, FORMAT)
    }

    /// Removes the staging folders of dead processes. One that cannot be removed, such as another
    /// user's, stays and stands in no way.
    fn sweep(&self, disk: &D) -> io::Result<()> {
        for (name, kind) in disk.list(&self.staged)? {
            if kind == Kind::Folder && name != self.name {
                let _ = self.sweep_one(disk, &name);
            }
        }
        Ok(())
    }

    fn sweep_one(&self, disk: &D, name: &str) -> io::Result<()> {
        let folder = disk.folder(&self.staged, name)?;
        let Some(_lock) = disk.try_lock(&folder, Guard::Owner)? else {
            return Ok(());
        };
        for (left, _) in disk.list(&folder)? {
            disk.remove(&folder, &left)?;
        }
        disk.remove_folder(&self.staged, name)
    }

    /// Removes its own folder, when all in it has a name or is gone.
    pub(super) fn close(&self, disk: &D) {
        // What remains, the next store removes.
        let _ = disk.remove_folder(&self.staged, &self.name);
    }
}
