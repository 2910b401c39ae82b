//! The administrator's socket: a file in the data folder that only its owner may open.

use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use tokio::net::UnixListener;
use tracing::warn;

use crate::keys::SOCKET;

/// Bytes that the kernel keeps for a socket's path, the final zero excluded.
const PATH_BYTES_MAX: usize = 107;

/// Listens on the control socket; `None`, with a warning, when the path is too long for one.
///
/// The caller has the data folder to itself, so a socket that is there was left behind. The socket
/// is born in a folder of mode 0700 and moved when its own mode is right. So at no moment can
/// another user open it.
pub(super) fn listen(data: &Path) -> Result<Option<UnixListener>> {
    let nursery = data.join("control.new");
    let (born, path) = (nursery.join("s"), data.join(SOCKET));
    if born.as_os_str().len().max(path.as_os_str().len()) > PATH_BYTES_MAX {
        warn!(
            "the path {} is too long for a socket: `fader keys` needs the server stopped",
            path.display()
        );
        return Ok(None);
    }
    let context = || format!("cannot make the control socket {}", path.display());
    clear(&nursery).with_context(context)?;
    DirBuilder::new()
        .mode(0o700)
        .create(&nursery)
        .with_context(context)?;
    let listener = UnixListener::bind(&born).with_context(context)?;
    fs::set_permissions(&born, Permissions::from_mode(0o600)).with_context(context)?;
    fs::rename(&born, &path).with_context(context)?;
    clear(&nursery).with_context(context)?;
    Ok(Some(listener))
}

/// Removes the socket at the end; that it stays behind would do no harm.
pub(super) fn remove(data: &Path) {
    let _ = fs::remove_file(data.join(SOCKET));
}

fn clear(nursery: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(nursery) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
