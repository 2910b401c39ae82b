//! Where objects come from beside puts: copies and uploads in parts.

use bytes::Bytes;
use fader_chain::ChainId;
use fader_services::catalog::Name;
use fader_services::request::{self, Request};
use fader_services::s3::command::{CompleteUpload, CreateUpload, ListedPart, PutSetting};
use fader_services::s3::conditions::WriteConditions;
use fader_services::s3::rows::Metadata;
use fader_services::s3::settings::{Setting, Versioning};
use fader_services::s3::{self, Command};
use fader_services::service::Context;
use fader_services::{CollectionId, Kind, MapView, Mode};

use super::buckets::{Bucket, meant};
use super::calls::Purpose;
use super::clients::upload_of;
use super::{KEYS, Rule, World};

impl World {
    /// What the chain knows of a request about a bucket; of its nodes' own it knows no bucket.
    pub(super) fn context(
        &self,
        view: &MapView,
        now_ms: u64,
        of: Option<Bucket>,
    ) -> Context<'_, request::Limits> {
        let found = of.and_then(|bucket| {
            let name = Name::new(Kind::Bucket, &self.account, bucket.name);
            let found = meant(view, name);
            let is_meant = |it: &(CollectionId, Mode)| it.0 == bucket.collection;
            found.filter(|it| is_meant(it) || !self.has(Rule::Collection))
        });
        Context {
            collection: found.map(|it| it.0),
            mode: found.map_or(Mode::Strong, |it| it.1),
            now_ms,
            chain: ChainId(u32::try_from(self.on).expect("there are few chains")),
            guards: &self.guards,
            ..Context::new(&self.account, &self.limits)
        }
    }

    /// The bucket keeps versions from now on.
    pub(super) fn set_versions(&mut self, bucket: Bucket) {
        let set = Command::PutSetting(PutSetting {
            bucket: bucket.name.to_owned(),
            setting: Setting::Versioning(Versioning::Enabled),
        });
        let request = Request::S3(s3::Request::of(&self.account, 7, set));
        self.do_everywhere(Some(bucket), &request);
        self.models[self.on].versioned.insert(bucket.collection);
    }

    /// Bytes are read from one object and put as another.
    pub(super) fn copy(&mut self, at: usize, bucket: Bucket, key: &str) {
        let key_there = *self.random.pick(&KEYS);
        let from = self.some_bucket();
        let found = from.and_then(|from| {
            let there = &self.chains[from.chain].committed;
            self.object(there, from, key_there, None)
        });
        let (Some(from), Some(found)) = (from, found) else {
            return self.pause(at, 5_000, 50_000);
        };
        let etag = found.object().map(|it| it.etag.clone()).unwrap_or_default();
        let bytes = self.bodies.get(&etag).cloned().unwrap_or_default();
        self.begin_put(at, bucket, key, None, bytes, WriteConditions::default());
        self.count(match from.chain == bucket.chain {
            true => "copies",
            false => "copies between chains",
        });
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
            put.chain = from.chain;
        }
    }

    pub(super) fn go_on_with_upload(&mut self, at: usize, key: &str) {
        let Some(upload) = self.clients[at].upload.clone() else {
            let Some(bucket) = self.some_bucket() else {
                return self.pause(at, 5_000, 50_000);
            };
            let create = Command::CreateUpload(CreateUpload {
                bucket: bucket.name.to_owned(),
                key: key.to_owned(),
                metadata: Metadata::default(),
                acl: None,
                algorithm: None,
            });
            return self.call_s3(at, bucket, create, Purpose::Create(bucket));
        };
        let bucket = upload.bucket;
        if let Some(number) = upload.left.last() {
            let bytes = self.body();
            let part = Some((upload.id, *number));
            return self.begin_put(
                at,
                bucket,
                &upload.key,
                part,
                bytes,
                WriteConditions::default(),
            );
        }
        let of = upload_of(bucket, &upload.key, upload.id);
        if self.random.chance(200) {
            return self.call_s3(at, bucket, Command::AbortUpload(of), Purpose::Abort);
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
        self.call_s3(at, bucket, complete, Purpose::Complete);
    }
}
