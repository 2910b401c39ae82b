//! A naive bucket, to which each committed entry is compared; and what must be so in the end.

use std::collections::BTreeSet;
use std::rc::Rc;

use fader_services::CollectionId;
use fader_services::blocks::{self, Content};
use fader_services::request::{self, Request};
use fader_services::s3::command::{CompleteUpload, List, PutObject};
use fader_services::s3::conditions::{Etags, WriteConditions};
use fader_services::s3::reply::{Entry as Listed, Piece};
use fader_services::s3::rows::VersionId;
use fader_services::s3::{Code, Command, Error, Reply};

use super::buckets::{Bucket, ByCollection};
use super::chain::{Deed, Entry, MEMBERS, rows_of};
use super::{CHAINS, READABLE, Rule, World};

pub(super) type Broken = (&'static str, String);

/// The buckets of a chain.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Those that are there.
    there: BTreeSet<CollectionId>,
    /// Those that keep versions.
    pub(super) versioned: BTreeSet<CollectionId>,
    /// ETags of the versions of each key, the newest first; delete markers have none.
    versions: ByCollection<Vec<Option<String>>>,
    attempts: BTreeSet<u128>,
    /// Current objects by key, after each commit; the first is before all. A bucket that is there
    /// has the empty key.
    pub(super) history: Vec<Rc<ByCollection<String>>>,
}

impl Model {
    /// A bucket is there.
    pub(super) fn begin(&mut self, collection: CollectionId) {
        self.there.insert(collection);
    }

    /// A bucket is gone: whether it had versions.
    pub(super) fn end(&mut self, collection: CollectionId) -> bool {
        self.there.remove(&collection);
        let mut has_any = false;
        self.versions.retain(|(of, _), versions| {
            has_any |= *of == collection && !versions.is_empty();
            *of != collection
        });
        has_any
    }

    /// The ETag of the current object.
    pub(super) fn current(&self, collection: CollectionId, key: &str) -> Option<String> {
        let versions = self.versions.get(&(collection, key.to_owned()));
        versions?.first()?.clone()
    }

    fn place(&mut self, collection: CollectionId, key: &str, etag: Option<String>) {
        let is_versioned = self.versioned.contains(&collection);
        let versions = self.versions.entry((collection, key.to_owned()));
        let versions = versions.or_default();
        if !is_versioned {
            versions.clear();
        }
        if is_versioned || etag.is_some() {
            versions.insert(0, etag);
        }
    }

    /// Notes what is shown after a commit.
    fn note(&mut self) {
        let current = self.versions.iter().filter_map(|(at, versions)| {
            let etag = versions.first()?.clone()?;
            Some((at.clone(), etag))
        });
        let there = self.there.iter();
        let there = there.map(|of| ((*of, String::new()), String::new()));
        let current: ByCollection<String> = current.chain(there).collect();
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
        if self.models[self.on].history.is_empty() {
            self.models[self.on].note();
        }
        // BGATE-1, of rows that are there still.
        let newest = &self.chains[self.on].newest;
        let is_there = |id: &u128| blocks::row(newest, *id).expect(READABLE).is_some();
        let rows: Vec<u128> = rows_of(entry).filter(is_there).collect();
        self.check_whole(&self.here(rows))?;
        self.watch_buckets(entry)?;
        if let Deed::Settle(operation, outcome) = &entry.deed {
            self.means_settled(*operation, outcome)?;
        }
        if let Deed::Call(call, outcome) = &entry.deed
            && let Some(of) = self.calls[*call].of
            && let Request::S3(request) = self.calls[*call].request.clone()
        {
            let told = match outcome {
                Ok(request::Reply::S3(reply)) => Ok(reply),
                Err(request::Refusal::S3(error)) => Err(error),
                _ => return Err(("winner", "a call is answered by another service".to_owned())),
            };
            let has_changes = !entry.changes.is_empty();
            self.means(of, &request.command, told, has_changes)?;
        }
        self.models[self.on].note();
        self.count("commits");
        Ok(())
    }

    /// Blocks of this chain.
    fn here(&self, ids: Vec<u128>) -> Vec<(usize, u128)> {
        ids.into_iter().map(|id| (self.on, id)).collect()
    }

    fn means(
        &mut self,
        of: Bucket,
        command: &Command,
        told: Result<&Reply, &Error>,
        has_changes: bool,
    ) -> Result<(), Broken> {
        match (command, told) {
            (Command::PutObject(put), told) => self.means_put(of, put, told, has_changes),
            (Command::PutPart(put), Ok(_)) if has_changes => {
                self.count("parts");
                self.check_whole(&blocks_of(&put.content))
            }
            (Command::CompleteUpload(it), Ok(Reply::Put(put))) if has_changes => {
                self.means_complete(of, it, &put.etag)
            }
            (Command::CompleteUpload(_), Ok(_)) => {
                self.count("completed again");
                Ok(())
            }
            (Command::DeleteObject(it), Ok(_)) => {
                self.models[self.on].place(of.collection, &it.object.key, None);
                self.count("deletes");
                Ok(())
            }
            (Command::CreateBucket(_), Ok(_)) if has_changes => {
                self.models[self.on].begin(of.collection);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn means_put(
        &mut self,
        of: Bucket,
        put: &PutObject,
        told: Result<&Reply, &Error>,
        has_changes: bool,
    ) -> Result<(), Broken> {
        let current = self.models[self.on].current(of.collection, &put.key);
        let is_met = hold(&put.conditions, current.as_ref());
        let is_known = self.models[self.on].attempts.contains(&put.attempt.id);
        match told {
            Ok(_) if has_changes => {
                if is_known {
                    return Err(("twice", format!("{} is committed twice", put.etag)));
                }
                if !is_met {
                    let text = format!("{} wins against its condition", put.etag);
                    return Err(("winner", text));
                }
                self.models[self.on].attempts.insert(put.attempt.id);
                let etag = Some(put.etag.clone());
                self.models[self.on].place(of.collection, &put.key, etag);
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

    /// An eventual put is placed.
    pub(super) fn means_eventual(&mut self, of: Bucket, put: &PutObject) -> Result<(), Broken> {
        let model = &mut self.models[self.on];
        if !model.attempts.insert(put.attempt.id) {
            return Err(("twice", format!("{} is placed twice", put.etag)));
        }
        model.place(of.collection, &put.key, Some(put.etag.clone()));
        self.check_whole(&blocks_of(&put.content))
    }

    fn means_complete(
        &mut self,
        of: Bucket,
        complete: &CompleteUpload,
        etag: &str,
    ) -> Result<(), Broken> {
        let parts = complete.parts.iter().map(|part| &self.bodies[&part.etag]);
        let body: Vec<u8> = parts.flat_map(|bytes| bytes.to_vec()).collect();
        // Two uploads of the same parts have one ETag, and one body.
        self.bodies.insert(etag.to_owned(), body.into());
        let key = &complete.of.key;
        self.models[self.on].place(of.collection, key, Some(etag.to_owned()));
        self.count("completed");
        let ids = self.blocks_of_version(of, key, None);
        if !self.has(Rule::PartRows) {
            let rows = blocks::Command::Remove(ids.clone());
            self.remove_rows(rows);
        }
        self.check_whole(&self.here(ids))
    }

    /// The blocks that a version names, by what is committed.
    fn blocks_of_version(&self, of: Bucket, key: &str, version: Option<VersionId>) -> Vec<u128> {
        let found = self.object(&self.chains[of.chain].committed, of, key, version);
        let pieces = found.map(|found| found.extent.pieces).unwrap_or_default();
        let blocks = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Block(block) => Some(block.id),
            Piece::Inline(_) => None,
        });
        blocks.collect()
    }

    /// What an entry names is there, durable, at the members of the configuration of its chain.
    fn check_whole(&self, blocks: &[(usize, u128)]) -> Result<(), Broken> {
        for (on, id) in blocks {
            let chain = &self.chains[*on];
            for at in &chain.seats {
                let here = &chain.members[*at];
                let held = here.blocks.get(id);
                // One whose disk was lost a moment ago is left out soon.
                if !here.is_empty && !held.is_some_and(|held| held.is_durable) {
                    let text = format!("m{at} of c{on} lacks {id:x}, which an entry names");
                    return Err(("whole", text));
                }
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

    fn judge_end(&mut self) -> Result<(), Broken> {
        self.judge_buckets()?;
        self.judge_held_at_end()?;
        for on in 0..CHAINS {
            self.on = on;
            if self.chains[on].seats.len() < MEMBERS || !self.is_calm() {
                return Err(("rest", "not all members are back".to_owned()));
            }
            let mut named = BTreeSet::new();
            let mut versions = ByCollection::new();
            for bucket in self.ledger.on(on) {
                self.named_by(bucket, &mut named, &mut versions)?;
            }
            self.judge_chain(&named, &versions)?;
        }
        Ok(())
    }

    /// The versions of a bucket, and the blocks that they name.
    fn named_by(
        &self,
        of: Bucket,
        named: &mut BTreeSet<u128>,
        versions: &mut ByCollection<Vec<Option<String>>>,
    ) -> Result<(), Broken> {
        let list = Command::ListVersions(List {
            bucket: of.name.to_owned(),
            ..List::default()
        });
        let Some(Reply::Page(page)) = self.show(&self.chains[of.chain].committed, of, list) else {
            // It may be founded, and not made.
            return match self.models[of.chain].there.contains(&of.collection) {
                true => Err(("versions", format!("those of {of:?} are not listed"))),
                false => Ok(()),
            };
        };
        for entry in page.entries {
            let Listed::Version { key, version, .. } = entry else {
                continue;
            };
            let etag = version.object().map(|object| object.etag.clone());
            if etag.is_some() {
                named.extend(self.blocks_of_version(of, &key, Some(version.id)));
            }
            let all = versions.entry((of.collection, key)).or_default();
            all.push(etag);
        }
        Ok(())
    }

    fn judge_chain(
        &self,
        named: &BTreeSet<u128>,
        versions: &ByCollection<Vec<Option<String>>>,
    ) -> Result<(), Broken> {
        let mut expected = self.models[self.on].versions.clone();
        expected.retain(|_, versions| !versions.is_empty());
        if *versions != expected {
            return Err(("versions", format!("{versions:?} instead of {expected:?}")));
        }
        let committed = &self.chains[self.on].committed;
        let garbage = blocks::garbage(committed, None, 1).expect(READABLE);
        if !garbage.is_empty() {
            return Err(("gone", format!("{garbage:?} is left")));
        }
        let rows = World::rows(committed);
        if let Some(id) = rows.difference(named).next() {
            let text = format!("the row of {id:x} is left, which nothing names");
            return Err(("gone", text));
        }
        if let Some(id) = named.difference(&rows).next() {
            let text = format!("the row of {id:x} is gone, which a version names");
            return Err(("whole", text));
        }
        for (at, here) in self.chains[self.on].members.iter().enumerate() {
            let held: BTreeSet<u128> = here.blocks.keys().copied().collect();
            if let Some(id) = held.difference(named).next() {
                let text = format!("m{at} has {id:x} still, which nothing names");
                return Err(("gone", text));
            }
            for id in named {
                let held = here.blocks.get(id).filter(|held| held.is_durable);
                if held.is_none_or(|held| held.bytes != self.blocks[id]) {
                    return Err(("whole", format!("m{at} has not the bytes of {id:x}")));
                }
            }
        }
        Ok(())
    }
}

/// The blocks that content names, each with its chain.
fn blocks_of(content: &Content) -> Vec<(usize, u128)> {
    match content {
        Content::Inline(_) => Vec::new(),
        Content::Blocks(blocks) => {
            let named = blocks.iter();
            named
                .map(|block| (block.chain.0 as usize, block.id))
                .collect()
        }
    }
}
