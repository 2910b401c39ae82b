//! Clears away what deleted collections left behind, in bounded steps.
//!
//! A marker goes last, in the step that finds nothing more of its collection: a crash between two
//! steps loses nothing.

use fader_chain::Change;

use crate::catalog::garbage;
use crate::{Direction, View, ViewError};

/// Changes that remove up to `batch` keys of deleted collections; none when nothing is left to
/// sweep.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn purge(view: &dyn View, batch: usize) -> Result<Vec<Change>, ViewError> {
    let mut changes = Vec::new();
    for marker in garbage(view) {
        let (marker, collection) = marker?;
        let (start, end) = (collection.0.to_be_bytes(), (collection.0 + 1).to_be_bytes());
        for pair in view
            .scan(&start, &end, Direction::Forward)
            .take(batch - changes.len())
        {
            changes.push(Change::Remove { key: pair?.0 });
        }
        if batch <= changes.len() {
            break;
        }
        changes.push(Change::Remove { key: marker });
    }
    Ok(changes)
}
