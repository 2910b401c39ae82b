//! Whether a bucket is its model, and whether all blocks that it names are there and no other.

use std::collections::BTreeSet;

use super::{KEYS, Model, Told};
use crate::s3::command::*;
use crate::s3::reply::Entry;
use crate::s3::rows::*;
use crate::s3::tests::fixture::*;

impl Model {
    /// Blocks that a version or a part names.
    pub(super) fn named(&self) -> BTreeSet<u128> {
        let versions = self.keys.values().flatten();
        let objects = versions.filter_map(|version| version.object.as_ref());
        let mut named: BTreeSet<u128> = objects.flat_map(|(_, blocks)| blocks.clone()).collect();
        let open = self.uploads.iter().filter(|it| it.done.is_none());
        named.extend(open.flat_map(|it| it.parts.values().filter_map(|(_, block)| *block)));
        named
    }

    /// What a list of versions shows, in order: of each its key, id, whether that is null, ETag.
    #[allow(clippy::type_complexity, reason = "one row of a list")]
    pub(super) fn versions(
        &mut self,
    ) -> Result<Vec<(String, VersionId, bool, Option<String>)>, String> {
        if self.bucket.is_none() {
            return Ok(Vec::new());
        }
        let page = self.world.page(Command::ListVersions(list_of("", "")));
        let mut seen = BTreeSet::new();
        let mut shown = Vec::new();
        for entry in page.entries {
            let Entry::Version {
                key,
                version,
                is_latest,
            } = entry
            else {
                return Err("a prefix".to_owned());
            };
            if seen.insert(key.clone()) != is_latest {
                return Err(format!("{key}: latest {is_latest}"));
            }
            let etag = version.object().map(|object| object.etag.clone());
            shown.push((key, version.id, version.id == VersionId::Null, etag));
        }
        Ok(shown)
    }

    /// Whether the bucket is its model, and all that it names is there.
    pub(super) fn check(&mut self) -> Told {
        let shown = self.versions()?;
        let expected = self.keys.iter().flat_map(|(key, versions)| {
            let versions = versions.iter().rev();
            versions.map(|it| (*key, it.is_null, it.object.as_ref().map(|it| it.0.clone())))
        });
        let expected: Vec<_> = expected.collect();
        let mine: Vec<_> = shown
            .iter()
            .map(|(key, _, is_null, etag)| (&**key, *is_null, etag.clone()))
            .collect();
        if mine != expected {
            return Err(format!("versions {mine:?}, not {expected:?}"));
        }
        for (key, id, _, etag) in shown.iter().filter(|it| it.3.is_some()) {
            let found = self.world.get_with(key, Some(*id), Extent::From(0));
            let found = found.map_err(|error| error.to_string())?;
            let object = found.object().unwrap();
            let size: u64 = found.extent.pieces.iter().map(|it| it.size()).sum();
            if Some(&object.etag) != etag.as_ref() || size != object.size {
                return Err(format!("{key} has {size} bytes"));
            }
        }
        let named = self.named();
        let lost = named.iter().find(|block| !self.rows.contains_key(block));
        match lost {
            Some(block) => Err(format!("the block {block} is lost")),
            None if self.bucket.is_some() => self.check_lists(),
            None => Ok(()),
        }
    }

    /// Lists of objects, in pages of two, against a naive one.
    pub(super) fn check_lists(&mut self) -> Told {
        let objects: Vec<&str> = KEYS
            .into_iter()
            .filter(|key| self.current(key).is_some())
            .collect();
        for (prefix, delimiter) in [("", ""), ("", "/"), ("a", "/"), ("b/", "/")] {
            let mut expected: Vec<&str> = Vec::new();
            for key in objects.iter().filter(|key| key.starts_with(prefix)) {
                let rest = &key[prefix.len()..];
                let at = rest.find(delimiter).filter(|_| !delimiter.is_empty());
                let name = at.map_or(*key, |at| &key[..prefix.len() + at + 1]);
                if expected.last() != Some(&name) {
                    expected.push(name);
                }
            }
            let mut list = list_of(prefix, delimiter);
            list.count = Some(2);
            let mut found = Vec::new();
            loop {
                let page = self.world.page(Command::ListObjects(list.clone()));
                found.extend(page.entries.iter().map(|entry| entry.name().to_owned()));
                let Some((after, _)) = page.next else {
                    break;
                };
                list.after = Some(after);
            }
            if found != expected {
                return Err(format!("list {found:?}, not {expected:?}"));
            }
        }
        Ok(())
    }

    /// All leases are over, all garbage has waited: every block of no version is gone.
    pub(super) fn drain(&mut self) -> Told {
        self.pending.clear();
        for _ in 0..4 {
            self.collect();
            self.world.now_ms += self.world.limits.garbage_look_ms;
            self.world.upkeep(2);
        }
        for block in self.rows.keys().copied().collect::<Vec<_>>() {
            self.fence(block)?;
        }
        let (named, rows) = (self.named(), self.rows.keys().copied().collect());
        if named != rows {
            return Err(format!("blocks {rows:?} are there, {named:?} are named"));
        }
        for collection in &self.collections {
            let is_left = crate::s3::bucket::settings(&self.world.rows, *collection).unwrap();
            let is_mine = self.bucket.is_some_and(|(_, mine)| mine == *collection);
            if is_left.is_some() != is_mine {
                return Err("a deleted bucket stays".to_owned());
            }
        }
        Ok(())
    }
}
