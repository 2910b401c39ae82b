//! What must hold in every state, and when nothing is left to go.

use fader_services::MapView;
use fader_services::blocks;
use fader_services::s3::command::{Extent, GetObject, List, ListParts};
use fader_services::s3::conditions::ReadConditions;
use fader_services::s3::reply::{Entry, Piece};
use fader_services::s3::rows::VersionId;
use fader_services::s3::{self, Action, Reply};

use super::{BUCKET, Model, READABLE, State, block_of, upload_of};

/// A version of a key.
pub(super) struct Listed {
    pub(super) key: String,
    pub(super) id: VersionId,
    pub(super) is_latest: bool,
}

impl Model {
    /// All versions of all keys.
    pub(super) fn versions(&self, rows: &MapView) -> Vec<Listed> {
        let list = s3::Command::ListVersions(List {
            bucket: BUCKET.to_owned(),
            prefix: String::new(),
            delimiter: String::new(),
            after: None,
            after_id: None,
            count: None,
        });
        let Some(Reply::Page(page)) = self.services.decide(rows, 0, list).1 else {
            return Vec::new();
        };
        let versions = page.entries.into_iter().filter_map(|entry| match entry {
            Entry::Version {
                key,
                version,
                is_latest,
            } => Some(Listed {
                key,
                id: version.id,
                is_latest,
            }),
            _ => None,
        });
        versions.collect()
    }

    /// The blocks that versions name.
    fn named(&self, rows: &MapView) -> Vec<u128> {
        let get = |listed: Listed| {
            s3::Command::GetObject(GetObject {
                bucket: BUCKET.to_owned(),
                key: listed.key,
                version: (!listed.is_latest).then_some(listed.id),
                conditions: ReadConditions::default(),
                extent: Extent::From(0),
                action: Action::GetObject,
            })
        };
        let versions = self.versions(rows).into_iter();
        let objects = versions.filter_map(|it| match self.services.decide(rows, 0, get(it)).1 {
            Some(Reply::Object(found)) => Some(found.extent.pieces),
            _ => None,
        });
        let blocks = objects.flatten().filter_map(|piece| match piece {
            Piece::Block(block) => Some(block.id),
            Piece::Inline(_) => None,
        });
        blocks.collect()
    }

    /// What is wrong with a state.
    pub(super) fn judge(&self, state: &State) -> Result<(), String> {
        let committed = state.committed();
        for id in self.named(committed) {
            let at = (id - block_of(0)) as usize;
            let has_row = blocks::row(committed, id).expect(READABLE).is_some();
            if !has_row || !state.uploads[at].has_bytes {
                return Err(format!("block {id:x} of a version is gone"));
            }
        }
        for at in blocks::garbage(committed, None, 9).expect(READABLE) {
            let has_waited = state.dropping.iter().any(|(of, _)| *of == at)
                || state.pending.iter().any(|it| it.is_of_garbage(at));
            let removal = blocks::removal(committed, at).expect(READABLE);
            let waiting = removal.filter(|_| !has_waited).into_iter();
            for id in waiting.flat_map(|it| it.blocks.into_values().flatten()) {
                if blocks::row(committed, id).expect(READABLE).is_none() {
                    return Err(format!("block {id:x} is gone before its wait is over"));
                }
            }
        }
        Ok(())
    }

    /// Whether there is nothing that is to go.
    pub(super) fn is_clean(&self, state: &State) -> bool {
        if !state.pending.is_empty() {
            return false;
        }
        let named = self.named(&state.rows);
        let rows = blocks::rows_from(&state.rows, None, 9).expect(READABLE);
        let is_part = |id: &u128| {
            let at = (*id - block_of(0)) as usize;
            let is_part = self.scope.attempts[at].part().is_some();
            is_part && state.uploads[at].is_committed && self.is_open(&state.rows)
        };
        rows.iter().all(|(id, _)| named.contains(id) || is_part(id))
            && blocks::garbage(&state.rows, None, 9)
                .expect(READABLE)
                .is_empty()
    }

    /// Whether the upload is open: its parts are named.
    fn is_open(&self, rows: &MapView) -> bool {
        let parts = s3::Command::ListParts(ListParts {
            of: upload_of(),
            after: 0,
            count: None,
        });
        self.services.decide(rows, 0, parts).1.is_some()
    }
}
