//! A naive bucket, to which each committed entry is compared; and what must be so in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fader_services::blocks::{self, Content};
use fader_services::request::{self, Request};
use fader_services::s3::command::{CompleteUpload, List, PutObject};
use fader_services::s3::conditions::{Etags, WriteConditions};
use fader_services::s3::reply::{Entry as Listed, Piece};
use fader_services::s3::rows::VersionId;
use fader_services::s3::{Code, Command, Error, Reply};

use super::chain::{Deed, Entry, MEMBERS, rows_of};
use super::{BUCKET, READABLE, Rule, World};

pub(super) type Broken = (&'static str, String);

#[derive(Debug, Default)]
pub(super) struct Model {
    /// ETags of the versions of each key, the newest first; delete markers have none.
    versions: BTreeMap<String, Vec<Option<String>>>,
    attempts: BTreeSet<u128>,
    /// Current objects by key, after each commit; the first is before all.
    pub(super) history: Vec<Rc<BTreeMap<String, String>>>,
}

impl Model {
    /// The ETag of the current object.
    pub(super) fn current(&self, key: &str) -> Option<String> {
        self.versions.get(key)?.first()?.clone()
    }

    fn place(&mut self, key: &str, etag: Option<String>, is_versioned: bool) {
        let versions = self.versions.entry(key.to_owned()).or_default();
        if !is_versioned {
            versions.clear();
        }
        if is_versioned || etag.is_some() {
            versions.insert(0, etag);
        }
    }

    /// Notes what is shown after a commit.
    fn note(&mut self) {
        let current = self.versions.iter().filter_map(|(key, versions)| {
            let etag = versions.first()?.clone()?;
            Some((key.clone(), etag))
        });
        let current: BTreeMap<_, _> = current.collect();
        let same = self.history.last().filter(|last| ***last == current);
        let next = same.cloned().unwrap_or_else(|| Rc::new(current));
        self.history.push(next);
    }
}

fn hold(conditions: &WriteConditions, current: Option<&String>) -> bool {
    let matches = match (&conditions.if_match, current) {
        (None, _) | (Some(Etags::Any), Some(_)) => true,
        (Some(Etags::Of(etags)), Some(current)) => etags.contains(current),
        (Some(_), None) => false,
    };
    matches && !(conditions.if_none_match && current.is_some())
}

impl World {
    /// An entry is committed, and applied.
    pub(super) fn watch_commit(&mut self, entry: &Entry) -> Result<(), Broken> {
        if self.model.history.is_empty() {
            self.model.note();
        }
        // BGATE-1, of rows that are there still.
        let newest = &self.chain.newest;
        let is_there = |id: &u128| blocks::row(newest, *id).expect(READABLE).is_some();
        let rows: Vec<u128> = rows_of(entry).filter(is_there).collect();
        self.check_whole(&rows)?;
        if let Deed::Call(call, outcome) = &entry.deed
            && let Request::S3(request) = self.calls[*call].request.clone()
        {
            let told = match outcome {
                Ok(request::Reply::S3(reply)) => Ok(reply),
                Err(request::Refusal::S3(error)) => Err(error),
                _ => return Err(("winner", "a call is answered by another service".to_owned())),
            };
            let has_changes = !entry.changes.is_empty();
            self.means(&request.command, told, has_changes)?;
        }
        self.model.note();
        self.count("commits");
        Ok(())
    }

    fn means(
        &mut self,
        command: &Command,
        told: Result<&Reply, &Error>,
        has_changes: bool,
    ) -> Result<(), Broken> {
        match (command, told) {
            (Command::PutObject(put), told) => self.means_put(put, told, has_changes),
            (Command::PutPart(put), Ok(_)) if has_changes => {
                self.count("parts");
                self.check_whole(&blocks_of(&put.content))
            }
            (Command::CompleteUpload(it), Ok(Reply::Put(put))) if has_changes => {
                self.means_complete(it, &put.etag)
            }
            (Command::CompleteUpload(_), Ok(_)) => {
                self.count("completed again");
                Ok(())
            }
            (Command::DeleteObject(it), Ok(_)) => {
                self.model.place(&it.object.key, None, self.is_versioned);
                self.count("deletes");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn means_put(
        &mut self,
        put: &PutObject,
        told: Result<&Reply, &Error>,
        has_changes: bool,
    ) -> Result<(), Broken> {
        let current = self.model.current(&put.key);
        let is_met = hold(&put.conditions, current.as_ref());
        let is_known = self.model.attempts.contains(&put.attempt.id);
        match told {
            Ok(_) if has_changes => {
                if is_known {
                    return Err(("twice", format!("{} is committed twice", put.etag)));
                }
                if !is_met {
                    let text = format!("{} wins against its condition", put.etag);
                    return Err(("winner", text));
                }
                self.model.attempts.insert(put.attempt.id);
                let etag = Some(put.etag.clone());
                self.model.place(&put.key, etag, self.is_versioned);
                if put.conditions != WriteConditions::default() {
                    self.count("winners");
                }
                self.check_whole(&blocks_of(&put.content))
            }
            Ok(_) if !is_known => Err(("twice", format!("{} is told and nowhere", put.etag))),
            Ok(_) => {
                self.count("repeated");
                Ok(())
            }
            Err(error) => {
                let is_condition =
                    error.code == Code::PreconditionFailed || error.code == Code::NoSuchKey;
                if is_condition && is_met {
                    let text = format!("{} is refused though its condition holds", put.etag);
                    return Err(("winner", text));
                }
                self.count(match error.code {
                    Code::AttemptFenced => "commits of the fenced",
                    _ => "conditions refused",
                });
                Ok(())
            }
        }
    }

    fn means_complete(&mut self, complete: &CompleteUpload, etag: &str) -> Result<(), Broken> {
        let parts = complete.parts.iter().map(|part| &self.bodies[&part.etag]);
        let body: Vec<u8> = parts.flat_map(|bytes| bytes.to_vec()).collect();
        // Two uploads of the same parts have one ETag, and one body.
        self.bodies.insert(etag.to_owned(), body.into());
        let key = &complete.of.key;
        self.model
            .place(key, Some(etag.to_owned()), self.is_versioned);
        self.count("completed");
        let ids = self.blocks_of_version(key, None);
        if !self.has(Rule::PartRows) {
            let rows = blocks::Command::Remove(ids.clone());
            self.remove_rows(rows);
        }
        self.check_whole(&ids)
    }

    /// The blocks that a version names, by what is committed.
    fn blocks_of_version(&self, key: &str, version: Option<VersionId>) -> Vec<u128> {
        let found = self.object(&self.chain.committed, key, version);
        let pieces = found.map(|found| found.extent.pieces).unwrap_or_default();
        let blocks = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Block(block) => Some(block.id),
            Piece::Inline(_) => None,
        });
        blocks.collect()
    }

    /// What an entry names is there, durable, at the members of the configuration.
    fn check_whole(&self, ids: &[u128]) -> Result<(), Broken> {
        for at in &self.chain.seats {
            let here = &self.chain.members[*at];
            // One whose disk was lost a moment ago is left out soon.
            let lacking = ids.iter().filter(|_| !here.is_empty).find(|id| {
                let held = here.blocks.get(id);
                !held.is_some_and(|held| held.is_durable)
            });
            if let Some(id) = lacking {
                let text = format!("m{at} lacks {id:x}, which an entry names");
                return Err(("whole", text));
            }
        }
        Ok(())
    }

    /// The end: every version is there, and nothing else.
    pub(super) fn check_end(&mut self) {
        if self.failure.is_some() {
            return;
        }
        match self.judge_end() {
            Ok(()) => self.count("ends"),
            Err((guarantee, text)) => self.fail(guarantee, &text),
        }
    }

    fn judge_end(&self) -> Result<(), Broken> {
        if self.chain.seats.len() < MEMBERS || !self.is_calm() {
            return Err(("rest", "not all members are back".to_owned()));
        }
        let list = Command::ListVersions(List {
            bucket: BUCKET.to_owned(),
            ..List::default()
        });
        let committed = &self.chain.committed;
        let Some(Reply::Page(page)) = self.show(committed, list) else {
            return Err(("versions", "they are not listed".to_owned()));
        };
        let (mut named, mut versions) = (BTreeSet::new(), BTreeMap::new());
        for entry in page.entries {
            let Listed::Version { key, version, .. } = entry else {
                continue;
            };
            let etag = version.object().map(|object| object.etag.clone());
            if etag.is_some() {
                named.extend(self.blocks_of_version(&key, Some(version.id)));
            }
            let all: &mut Vec<Option<String>> = versions.entry(key).or_default();
            all.push(etag);
        }
        let mut expected = self.model.versions.clone();
        expected.retain(|_, versions| !versions.is_empty());
        if page.next.is_none() && versions != expected {
            return Err(("versions", format!("{versions:?} instead of {expected:?}")));
        }
        if !blocks::garbage(committed, None, 1)
            .expect(READABLE)
            .is_empty()
        {
            return Err(("gone", "garbage is left".to_owned()));
        }
        let rows = World::rows(committed);
        if let Some(id) = rows.difference(&named).next() {
            return Err((
                "gone",
                format!("the row of {id:x} is left, which nothing names"),
            ));
        }
        if let Some(id) = named.difference(&rows).next() {
            return Err((
                "whole",
                format!("the row of {id:x} is gone, which a version names"),
            ));
        }
        for (at, here) in self.chain.members.iter().enumerate() {
            let held: BTreeSet<u128> = here.blocks.keys().copied().collect();
            if let Some(id) = held.difference(&named).next() {
                return Err((
                    "gone",
                    format!("m{at} has {id:x} still, which nothing names"),
                ));
            }
            for id in &named {
                let held = here.blocks.get(id).filter(|held| held.is_durable);
                if held.is_none_or(|held| held.bytes != self.blocks[id]) {
                    return Err(("whole", format!("m{at} has not the bytes of {id:x}")));
                }
            }
        }
        Ok(())
    }
}

fn blocks_of(content: &Content) -> Vec<u128> {
    match content {
        Content::Inline(_) => Vec::new(),
        Content::Blocks(blocks) => blocks.iter().map(|block| block.id).collect(),
    }
}
