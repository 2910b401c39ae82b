//! Where objects come from beside puts: copies and uploads in parts; and the bucket itself.

use bytes::Bytes;
use fader_services::catalog::{self, Name};
use fader_services::request::{self, Request};
use fader_services::s3::command::{
    CompleteUpload, CreateBucket, CreateUpload, ListedPart, PutSetting,
};
use fader_services::s3::conditions::WriteConditions;
use fader_services::s3::rows::Metadata;
use fader_services::s3::settings::{Setting, Versioning};
use fader_services::s3::{self, Command};
use fader_services::service::Context;
use fader_services::{Kind, MapView};

use super::chain::Deed;
use super::clients::{Purpose, upload_of};
use super::{BUCKET, CHAIN, KEYS, READABLE, Rule, World};

impl World {
    pub(super) fn context(&self, view: &MapView, now_ms: u64) -> Context<'_, request::Limits> {
        let name = Name::new(Kind::Bucket, &self.account, BUCKET);
        let entry = catalog::collection(view, name).expect(READABLE);
        Context {
            collection: entry.map(|entry| entry.collection),
            now_ms,
            chain: CHAIN,
            guards: &self.guards,
            ..Context::new(&self.account, &self.limits)
        }
    }

    /// Makes the bucket, at all members.
    pub(super) fn create_bucket(&mut self) {
        let create = Command::CreateBucket(CreateBucket {
            bucket: BUCKET.to_owned(),
            region: "us-east-1".to_owned(),
            ..CreateBucket::default()
        });
        let mut commands = vec![create];
        if self.is_versioned {
            commands.push(Command::PutSetting(PutSetting {
                bucket: BUCKET.to_owned(),
                setting: Setting::Versioning(Versioning::Enabled),
            }));
        }
        for (at, command) in commands.into_iter().enumerate() {
            let request = Request::S3(s3::Request::of(&self.account, 7, command));
            let refused = self.decide(&request, |_| Deed::Upkeep);
            assert!(refused.is_none(), "it puts no blocks");
            let entry = self.chain.members[0].log[at].clone();
            for (member, here) in self.chain.members.iter_mut().enumerate() {
                if member != 0 {
                    here.log.push(entry.clone());
                }
                here.synced = at + 1;
                here.acknowledged = at + 1;
            }
            self.commit_all();
            for here in &mut self.chain.members {
                here.apply_to(at + 1);
            }
        }
    }

    /// Bytes are read from one object and put as another.
    pub(super) fn copy(&mut self, at: usize, key: &str) {
        let from = *self.random.pick(&KEYS);
        let Some(found) = self.object(&self.chain.committed, from, None) else {
            return self.pause(at, 5_000, 50_000);
        };
        let etag = found.object().map(|it| it.etag.clone()).unwrap_or_default();
        let bytes = self.bodies.get(&etag).cloned().unwrap_or_default();
        self.begin_put(at, key, None, bytes, WriteConditions::default());
        self.count("copies");
        if self.has(Rule::CopyBytes) {
            return;
        }
        // It names the blocks of its source.
        let pieces = found.extent.pieces.iter().filter_map(|piece| match piece {
            s3::reply::Piece::Block(block) => Some(block.id),
            s3::reply::Piece::Inline(_) => None,
        });
        let shared: Vec<(u128, Bytes)> = pieces.map(|id| (id, self.blocks[&id].clone())).collect();
        if let Some(put) = &mut self.clients[at].put {
            put.has_rows = !shared.is_empty();
            put.blocks = shared;
        }
    }

    pub(super) fn go_on_with_upload(&mut self, at: usize, key: &str) {
        let Some(upload) = self.clients[at].upload.clone() else {
            let create = Command::CreateUpload(CreateUpload {
                bucket: BUCKET.to_owned(),
                key: key.to_owned(),
                metadata: Metadata::default(),
                acl: None,
                algorithm: None,
            });
            return self.call_s3(at, create, Purpose::Create);
        };
        if let Some(number) = upload.left.last() {
            let bytes = self.body();
            let part = Some((upload.id, *number));
            return self.begin_put(at, &upload.key, part, bytes, WriteConditions::default());
        }
        let of = upload_of(&upload.key, upload.id);
        if self.random.chance(200) {
            return self.call_s3(at, Command::AbortUpload(of), Purpose::Abort);
        }
        // One is left out, now and then.
        let is_left_out = self.random.chance(300) && 1 < upload.done.len();
        let parts = upload.done.iter().skip(usize::from(is_left_out));
        let parts = parts.map(|(number, etag)| ListedPart {
            number: *number,
            etag: etag.clone(),
            checksum: None,
        });
        let complete = Command::CompleteUpload(CompleteUpload {
            of,
            parts: parts.collect(),
            checksum: None,
            size: None,
            conditions: WriteConditions::default(),
        });
        self.call_s3(at, complete, Purpose::Complete);
    }
}
