//! Random scripts against a naive versioned bucket, with the blocks of all attempts.

mod check;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use fader_chain::Guards;
use proptest::prelude::*;

use super::fixture::*;
use crate::CollectionId;
use crate::s3::command::*;
use crate::s3::reply::Reply;
use crate::s3::rows::*;
use crate::s3::settings::Versioning;

const KEYS: [&str; 5] = ["a", "a/1", "a/2", "b", "b/x/1"];

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// An attempt of a put begins, and its block is stored.
    BeginPut(usize, bool),
    /// An attempt of a part of the upload begins.
    BeginPart(usize, u32),
    /// One of the attempts is committed, under a condition.
    Commit(usize, u8),
    Delete(usize),
    /// Of all versions that one.
    DeleteVersion(usize),
    Versioning(bool),
    Upload(usize),
    /// Of the upload, with the part that is left out.
    Complete(usize, Option<u32>),
    Abort(usize),
    DeleteBucket,
    CreateBucket,
    /// The lease of that block is over.
    Fence(usize),
    /// All garbage that has waited goes.
    Collect,
    Note,
    Upkeep,
}

pub(super) fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..KEYS.len(), any::<bool>()).prop_map(|(key, inline)| Act::BeginPut(key, inline)),
        5 => (0..3_usize, 1..4_u32).prop_map(|(upload, number)| Act::BeginPart(upload, number)),
        12 => (0..6_usize, 0..8_u8).prop_map(|(which, condition)| Act::Commit(which, condition)),
        3 => (0..KEYS.len()).prop_map(Act::Delete),
        3 => (0..8_usize).prop_map(Act::DeleteVersion),
        2 => any::<bool>().prop_map(Act::Versioning),
        3 => (0..KEYS.len()).prop_map(Act::Upload),
        4 => (0..3_usize, prop::option::of(1..4_u32))
            .prop_map(|(upload, out)| Act::Complete(upload, out)),
        2 => (0..3_usize).prop_map(Act::Abort),
        1 => Just(Act::DeleteBucket),
        2 => Just(Act::CreateBucket),
        5 => (0..8_usize).prop_map(Act::Fence),
        3 => Just(Act::Collect),
        1 => Just(Act::Note),
        2 => Just(Act::Upkeep),
    ]
}

/// An attempt that is under way.
#[derive(Clone, Debug)]
struct Pending {
    key: &'static str,
    attempt: Attempt,
    block: Option<u128>,
    part: Option<(OneUpload, u32)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Version {
    is_null: bool,
    /// Of an object: its ETag, and its blocks.
    object: Option<(String, Vec<u128>)>,
}

#[derive(Clone, Debug, Default)]
struct Upload {
    of: Option<OneUpload>,
    parts: BTreeMap<u32, (String, Option<u128>)>,
    /// What it came to, while its version is there.
    done: Option<String>,
}

/// A bucket as the documentation has it, and the blocks of the world.
struct Model {
    world: World,
    bucket: Option<(BucketId, CollectionId)>,
    versioning: Versioning,
    /// Of each key, the oldest first.
    keys: BTreeMap<&'static str, Vec<Version>>,
    uploads: Vec<Upload>,
    pending: Vec<Pending>,
    /// Blocks whose rows are there.
    rows: BTreeMap<u128, Owner>,
    /// Blocks that were of a version or a part, and have not waited yet.
    garbage: BTreeSet<u128>,
    fenced: BTreeSet<u128>,
    note: u64,
    collections: BTreeSet<CollectionId>,
}

type Told = Result<(), String>;

impl Model {
    fn new(guards: Guards) -> Self {
        let mut world = World::empty();
        world.guards = guards;
        let mut model = Model {
            world,
            bucket: None,
            versioning: Versioning::Off,
            keys: BTreeMap::new(),
            uploads: Vec::new(),
            pending: Vec::new(),
            rows: BTreeMap::new(),
            garbage: BTreeSet::new(),
            fenced: BTreeSet::new(),
            note: 0,
            collections: BTreeSet::new(),
        };
        model.create().unwrap();
        model
    }

    fn create(&mut self) -> Told {
        let Ok(Reply::Bucket(settings)) = self.world.create(B) else {
            return Err("the bucket is not created".to_owned());
        };
        if self.bucket.is_none() {
            let collection = self.world.collection(B).unwrap();
            self.bucket = Some((settings.id, collection));
            self.collections.insert(collection);
            self.versioning = Versioning::Off;
        }
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Told {
        match act {
            Act::BeginPut(key, inline) => self.begin(KEYS[*key], *inline, None),
            Act::BeginPart(which, number) => {
                let upload = self.uploads.get(*which).and_then(|it| it.of.clone());
                if let Some(of) = upload {
                    let key = KEYS.iter().find(|key| **key == of.key).unwrap();
                    self.begin(key, false, Some((of, *number)));
                }
            }
            Act::Commit(which, condition) => return self.commit(*which, *condition),
            Act::Delete(key) => return self.delete(KEYS[*key]),
            Act::DeleteVersion(which) => return self.delete_version(*which),
            Act::Versioning(is_enabled) if self.bucket.is_some() => {
                self.versioning = match is_enabled {
                    true => Versioning::Enabled,
                    false => Versioning::Suspended,
                };
                self.world.versioning(self.versioning);
            }
            Act::Upload(key) if self.bucket.is_some() => {
                let of = Some(self.world.upload(KEYS[*key]));
                self.uploads.push(Upload {
                    of,
                    ..Upload::default()
                });
            }
            Act::Versioning(_) | Act::Upload(_) => {}
            Act::Complete(which, out) => return self.complete(*which, *out),
            Act::Abort(which) => return self.abort(*which),
            Act::DeleteBucket => return self.delete_bucket(),
            Act::CreateBucket => return self.create(),
            Act::Fence(which) => {
                let block = self.rows.keys().nth(*which).copied();
                return block.map_or(Ok(()), |block| self.fence(block));
            }
            Act::Collect => self.collect(),
            Act::Note => {
                let note = self.world.entry();
                if let Some((_, collection)) = self.bucket {
                    let command = MoveNote { collection, note };
                    self.world.run(Command::MoveNote(command)).unwrap();
                    self.note = note.index;
                }
            }
            Act::Upkeep => self.world.upkeep(2),
        }
        Ok(())
    }
}

/// Runs a script on both; says where they differ.
pub(super) fn compare(script: &[Act], guards: Guards) -> Told {
    let mut model = Model::new(guards);
    for (at, act) in script.iter().enumerate() {
        let told = model.act(act).and_then(|()| model.check());
        told.map_err(|difference| format!("step {at}, {act:?}: {difference}"))?;
    }
    model.drain()?;
    model.check()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// It shows BLAYOUT-2 and BLAYOUT-3.
    #[test]
    fn a_bucket_is_its_model(script in prop::collection::vec(acts(), 1..60)) {
        prop_assert_eq!(compare(&script, Guards::default()), Ok(()));
    }
}
