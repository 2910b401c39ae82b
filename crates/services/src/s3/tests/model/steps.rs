//! What each act does to the bucket and to its model.

use super::{KEYS, Model, Pending, Told, Upload, Version};
use crate::s3::Code;
use crate::s3::command::*;
use crate::s3::conditions::{Etags, WriteConditions};
use crate::s3::reply::Fenced;
use crate::s3::settings::Versioning;
use crate::s3::tests::fixture::*;

impl Model {
    pub(super) fn begin(
        &mut self,
        key: &'static str,
        inline: bool,
        part: Option<(OneUpload, u32)>,
    ) {
        let Some((_, collection)) = self.bucket else {
            return;
        };
        let attempt = self.world.attempt();
        let block = (!inline).then_some(attempt.id + (1 << 100));
        let owner = Owner {
            collection,
            attempt,
            upload: part.as_ref().map(|(of, _)| of.upload),
        };
        self.rows.extend(block.map(|block| (block, owner)));
        self.pending.push(Pending {
            key,
            attempt,
            block,
            part,
        });
    }

    /// Whether an attempt may be committed.
    pub(super) fn may_commit(&self, pending: &Pending) -> bool {
        let Some((id, _)) = self.bucket else {
            return false;
        };
        let is_known = !self.fenced.contains(&pending.attempt.id)
            && self.note < pending.attempt.begun.index
            && pending.attempt.bucket == id;
        let upload = pending.part.as_ref();
        let is_open = upload.is_none_or(|(of, _)| {
            let mut uploads = self.uploads.iter();
            uploads.any(|it| it.of.as_ref() == Some(of) && it.done.is_none())
        });
        (is_known || pending.block.is_none()) && is_open
    }

    pub(super) fn current(&self, key: &str) -> Option<&String> {
        let newest = self.keys.get(key)?.last()?;
        newest.object.as_ref().map(|(etag, _)| etag)
    }

    pub(super) fn commit(&mut self, which: usize, condition: u8) -> Told {
        if self.pending.len() <= which {
            return Ok(());
        }
        let pending = self.pending.remove(which);
        let may = self.may_commit(&pending);
        let content = match pending.block {
            Some(block) => blocks(&[block]),
            None => inline("x"),
        };
        if let Some((of, number)) = &pending.part {
            let part = part_of(of, *number, pending.attempt, content);
            let etag = part.etag.clone();
            let done = self.world.run(Command::PutPart(part)).is_ok();
            if done != may {
                return Err(format!("part committed: {done}"));
            }
            if done {
                let mut uploads = self.uploads.iter_mut();
                let upload = uploads.find(|it| it.of.as_ref() == Some(of)).unwrap();
                let old = upload.parts.insert(*number, (etag, pending.block));
                self.garbage.extend(old.and_then(|(_, block)| block));
            }
            return Ok(());
        }
        let mut put = put_of(pending.key, pending.attempt, content);
        let current = self.current(pending.key).cloned();
        let (conditions, expected) = match condition {
            0 => (if_none(), current.is_none()),
            1 => (if_match("other"), false),
            2 => (
                if_match(current.as_deref().unwrap_or("none")),
                current.is_some(),
            ),
            _ => (WriteConditions::default(), true),
        };
        put.conditions = conditions;
        let etag = put.etag.clone();
        let told = self.world.run(Command::PutObject(Box::new(put)));
        let done = told.is_ok();
        if done != (may && expected) {
            return Err(format!("put committed: {done}, {told:?}"));
        }
        if done {
            self.place(
                pending.key,
                Some((etag, pending.block.into_iter().collect())),
            );
        }
        Ok(())
    }

    pub(super) fn place(&mut self, key: &'static str, object: Option<(String, Vec<u128>)>) {
        let is_null = self.versioning != Versioning::Enabled;
        if is_null {
            self.remove(key, |version| version.is_null);
        }
        let versions = self.keys.entry(key).or_default();
        versions.push(Version { is_null, object });
    }

    /// Takes versions away: their blocks are garbage, and an upload is not known any more.
    pub(super) fn remove(&mut self, key: &str, is_meant: impl Fn(&Version) -> bool) {
        let Some(versions) = self.keys.get_mut(key) else {
            return;
        };
        let gone = versions.extract_if(.., |version| is_meant(version));
        for (etag, blocks) in gone.filter_map(|version| version.object) {
            self.garbage.extend(blocks);
            let is_of = |it: &Upload| it.done.as_ref() == Some(&etag);
            self.uploads.retain(|it| !is_of(it));
        }
        if versions.is_empty() {
            self.keys.remove(key);
        }
    }

    pub(super) fn delete(&mut self, key: &'static str) -> Told {
        let done = self.world.delete(key, None).is_ok();
        if done != self.bucket.is_some() {
            return Err(format!("deleted: {done}"));
        }
        match self.versioning {
            _ if !done => {}
            Versioning::Off => self.remove(key, |_| true),
            _ => self.place(key, None),
        }
        Ok(())
    }

    pub(super) fn delete_version(&mut self, which: usize) -> Told {
        let Some((key, id, is_null, etag)) = self.versions()?.into_iter().nth(which) else {
            return Ok(());
        };
        self.world.delete(&key, Some(id)).unwrap();
        let at = KEYS.iter().position(|it| *it == key).unwrap();
        // A delete marker is known by its place alone.
        let mine = self.versions()?;
        let left: Vec<_> = mine.iter().filter(|it| it.0 == key).collect();
        let versions = self.keys.get(KEYS[at]).cloned().unwrap_or_default();
        if left.len() + 1 != versions.len() {
            return Err("one version is deleted".to_owned());
        }
        let gone = (0..versions.len()).find(|gone| {
            let rest = versions.iter().enumerate().filter(|(at, _)| at != gone);
            let mut rest = rest.rev().map(|(_, it)| it).zip(&left);
            let same = rest.all(|(it, shown)| {
                it.is_null == shown.2 && it.object.as_ref().map(|it| &it.0) == shown.3.as_ref()
            });
            same && versions[*gone].is_null == is_null
                && versions[*gone].object.as_ref().map(|it| &it.0) == etag.as_ref()
        });
        let Some(gone) = gone else {
            return Err("another version is deleted".to_owned());
        };
        let target = versions[gone].clone();
        match target.object {
            Some(_) => self.remove(KEYS[at], |version| *version == target),
            None => {
                let versions = self.keys.get_mut(KEYS[at]).unwrap();
                versions.remove(gone);
                if versions.is_empty() {
                    self.keys.remove(KEYS[at]);
                }
            }
        }
        Ok(())
    }

    pub(super) fn complete(&mut self, which: usize, out: Option<u32>) -> Told {
        let Some(upload) = self.uploads.get(which).cloned() else {
            return Ok(());
        };
        let of = upload.of.clone().unwrap();
        let listed = upload
            .parts
            .iter()
            .filter(|(number, _)| Some(**number) != out);
        let parts: Vec<ListedPart> = listed
            .clone()
            .map(|(number, (etag, _))| ListedPart {
                number: *number,
                etag: etag.clone(),
                checksum: None,
            })
            .collect();
        let told = self.world.complete(&of, &parts);
        if let Some(done) = &upload.done {
            let is_same = told.as_ref().is_ok_and(|put| put.etag == *done);
            return is_same.then_some(()).ok_or("not answered again".to_owned());
        }
        if told.is_ok() == parts.is_empty() {
            return Err(format!("completed: {told:?}"));
        }
        let Ok(put) = told else {
            return Ok(());
        };
        let blocks = listed.filter_map(|(_, (_, block))| *block).collect();
        let unlisted = out.and_then(|out| upload.parts.get(&out));
        self.garbage.extend(unlisted.and_then(|(_, block)| *block));
        let key = KEYS.iter().find(|key| **key == of.key).unwrap();
        self.uploads[which].done = Some(put.etag.clone());
        self.place(key, Some((put.etag, blocks)));
        Ok(())
    }

    pub(super) fn abort(&mut self, which: usize) -> Told {
        let Some(upload) = self.uploads.get(which).cloned() else {
            return Ok(());
        };
        let of = upload.of.clone().unwrap();
        let told = self.world.run(Command::AbortUpload(of));
        if upload.done.is_some() {
            return match told {
                Err(error) if error.code == Code::NoSuchUpload => Ok(()),
                other => Err(format!("aborted after it was completed: {other:?}")),
            };
        }
        told.map_err(|error| error.to_string())?;
        self.uploads.remove(which);
        let blocks = upload.parts.into_values().filter_map(|(_, block)| block);
        self.garbage.extend(blocks);
        Ok(())
    }

    pub(super) fn delete_bucket(&mut self) -> Told {
        let done = self.world.run(Command::DeleteBucket(named(B))).is_ok();
        if done != (self.bucket.is_some() && self.keys.is_empty()) {
            return Err(format!("the bucket is deleted: {done}"));
        }
        if done {
            self.bucket = None;
            for upload in std::mem::take(&mut self.uploads) {
                let blocks = upload.parts.into_values().filter_map(|(_, block)| block);
                self.garbage.extend(blocks);
            }
        }
        Ok(())
    }

    pub(super) fn fence(&mut self, block: u128) -> Told {
        let owner = self.rows[&block];
        let told = self.world.fence(owner, block);
        let named = self.named();
        match told {
            Fenced::NoAnswer if self.garbage.contains(&block) => {}
            Fenced::Kept if named.contains(&block) => {}
            Fenced::Fenced if self.garbage.contains(&block) => {
                return Err("a block goes before its garbage has waited".to_owned());
            }
            Fenced::Fenced if !named.contains(&block) => {
                self.fenced.insert(owner.attempt.id);
                self.rows.remove(&block);
            }
            other => return Err(format!("{other:?} of {block}")),
        }
        Ok(())
    }

    /// All garbage has waited: its blocks go, then its rows.
    pub(super) fn collect(&mut self) {
        for collection in self.collections.clone() {
            for garbage in self.world.garbage(collection) {
                let mut parts = Vec::new();
                let mut bucket = None;
                for (number, blocks) in garbage.blocks {
                    parts.extend(number);
                    for block in blocks {
                        bucket = self
                            .rows
                            .remove(&block.id)
                            .map(|it| it.attempt.bucket)
                            .or(bucket);
                        self.garbage.remove(&block.id);
                    }
                }
                let settings = crate::s3::bucket::settings(&self.world.rows, collection).unwrap();
                let drop = DropGarbage {
                    collection,
                    bucket: settings.unwrap().id,
                    garbage: garbage.id,
                    parts,
                };
                assert!(bucket.is_none_or(|bucket| bucket == drop.bucket));
                self.world.run(Command::DropGarbage(drop)).unwrap();
            }
        }
    }
}

fn if_none() -> WriteConditions {
    WriteConditions {
        if_none_match: true,
        ..WriteConditions::default()
    }
}

fn if_match(etag: &str) -> WriteConditions {
    WriteConditions {
        if_match: Some(Etags::Of(vec![etag.to_owned()])),
        ..WriteConditions::default()
    }
}
