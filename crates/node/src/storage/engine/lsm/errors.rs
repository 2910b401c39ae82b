//! What an error of a tree is to the engine.

use std::io;
use std::path::Path;

use fader_services::ViewError;

use crate::status::OpenError;
use crate::storage::disk::is_full;
use crate::storage::engine::EngineError;

pub(super) fn view_error(error: &lsm_tree::Error) -> ViewError {
    ViewError::Engine {
        context: error.to_string(),
    }
}

pub(super) fn engine_error(error: &lsm_tree::Error) -> EngineError {
    EngineError {
        message: error.to_string(),
        is_full: finds_no_room(error),
    }
}

pub(super) fn finds_no_room(error: &lsm_tree::Error) -> bool {
    matches!(error, lsm_tree::Error::Io(error) if is_full(error.kind()))
}

/// Whether what is read is not what was written.
pub(super) fn is_damage(error: &lsm_tree::Error) -> bool {
    match error {
        lsm_tree::Error::Io(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        _ => true,
    }
}

pub(super) fn open_failed(folder: &Path, error: lsm_tree::Error) -> OpenError {
    match error {
        lsm_tree::Error::Io(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            OpenError::io(
                format!("opening the engine in {}", folder.display()),
                source,
            )
        }
        error => damaged(folder, &error.to_string()),
    }
}

pub(super) fn damaged(folder: &Path, reason: &str) -> OpenError {
    OpenError::damaged(format!("{}: {reason}", folder.display()))
}
