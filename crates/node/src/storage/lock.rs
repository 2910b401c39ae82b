//! One process per data folder.
//!
//! The lock is on the folder itself. A file in it can be deleted while it is held, and another
//! process would then lock another file of that name. The file `lock` says who has the folder, and
//! is locked as well, for processes of earlier versions.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fader_services::ErrorCode;

use crate::status::OpenError;

const LOCK_FILE: &str = "lock";

/// Holds the folder for as long as it lives; the operating system lets go of it with the process.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _folder: File,
    _file: File,
}

impl FolderLock {
    /// Takes the folder.
    pub(crate) fn take(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join(LOCK_FILE);
        let failed =
            |source: io::Error| OpenError::io(format!("locking {}", folder.display()), source);
        let held = File::open(folder).map_err(failed)?;
        let mut options = File::options();
        let options = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let mut file = options.open(&path).map_err(failed)?;
        for locked in [held.try_lock(), file.try_lock()] {
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let context = format!("{} holds its lock", holder(&mut file));
                    return Err(OpenError::new(ErrorCode::DataLocked, context));
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        file.set_len(0).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(FolderLock {
            _folder: held,
            _file: file,
        })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}
