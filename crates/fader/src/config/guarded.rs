//! Files that others may read or write though they should not: a warning for each, with the
//! command that mends it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Write, for the group and for others.
const WRITE: u32 = 0o022;
/// Read, for others. A group that may read a key is often made for that.
const READ: u32 = 0o004;

/// Of a file with a secret.
pub(super) fn secret(path: &Path, what: &str) -> Option<String> {
    let shown = path.display();
    is_world_readable(path).then(|| {
        format!(
            "{shown} holds {what}, and every user of this machine can read it: chmod 600 {shown}"
        )
    })
}

/// Whether every user of this machine can read it.
pub(super) fn is_world_readable(path: &Path) -> bool {
    mode(path).is_some_and(|mode| mode & READ != 0)
}

/// Of the data folder: who writes into it is the administrator.
pub(super) fn data(folder: &Path) -> Option<String> {
    let shown = folder.display();
    (mode(folder)? & WRITE != 0).then(|| {
        format!(
            "other users can write to the data folder {shown}, and so replace the data and its \
             keys: chmod go-w {shown}"
        )
    })
}

/// The mode of what is there.
fn mode(path: &Path) -> Option<u32> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(metadata.permissions().mode())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn permissions_of_others_are_reported_with_the_repair() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key.pem");
        fs::write(&key, "").expect("a file");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
        };
        for (mode, is_told) in [
            (0o600, false),
            (0o640, false),
            (0o604, true),
            (0o400, false),
        ] {
            set(&key, mode);
            assert_eq!(secret(&key, "a key").is_some(), is_told, "{mode:o}");
        }
        for (mode, is_told) in [(0o700, false), (0o755, false), (0o775, true), (0o702, true)] {
            set(folder.path(), mode);
            assert_eq!(data(folder.path()).is_some(), is_told, "{mode:o}");
        }
        assert_eq!(data(Path::new("/nowhere/at/all")), None);
    }
}
