//! The operating system's file system.

mod direct_io;

use std::fs;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use direct_io::{AlignedBuffer, set_through};
use rustix::fs::Advice;
use rustix::io::ReadWriteFlags;

use super::{Disk, File, SyncSite};

/// The operating system's file system.
#[derive(Clone, Copy, Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        Ok(RealFile::boxed(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).open(path)?;
        Ok(RealFile::boxed(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn bytes_free(&self, folder: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn sync_folder(&self, folder: &Path, _site: SyncSite) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }
}

struct RealFile {
    file: fs::File,
    through: Option<AlignedBuffer>,
}

impl RealFile {
    fn boxed(file: fs::File) -> Box<dyn File> {
        Box::new(RealFile {
            file,
            through: None,
        })
    }
}

impl File for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_size(&mut self, size: u64) -> io::Result<()> {
        if let Some(known) = &mut self.through {
            *known = AlignedBuffer::default();
        }
        self.file.set_len(size)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn read_cached_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = &mut [IoSliceMut::new(&mut buffer[filled..])];
            let flags = ReadWriteFlags::NOWAIT;
            match rustix::io::preadv2(&self.file, rest, offset + filled as u64, flags) {
                Ok(count @ 1..) => filled += count,
                Ok(0) | Err(_) => return false,
            }
        }
        true
    }

    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(through) = &mut self.through {
            match through.write_all_at(&self.file, offset, bytes) {
                // The file system, or its disk, takes no such writes.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    set_through(&self.file, false)?;
                    self.through = None;
                }
                written => return written,
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    fn write_through(&mut self) {
        if set_through(&self.file, true).is_ok() {
            self.through = Some(AlignedBuffer::default());
        }
    }

    fn forget(&self, offset: u64, size: u64) {
        if let Some(size) = NonZero::new(size) {
            // A file system that knows no advice keeps its copy.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(size), Advice::DontNeed);
        }
    }

    fn sync(&mut self, _site: SyncSite) -> io::Result<()> {
        self.file.sync_data()
    }
}
