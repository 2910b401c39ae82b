//! Clients: what each does next, and the bodies that they put.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::ChainId;
use fader_services::CollectionId;
use fader_services::blocks::{self, Attempt, Block, Content, NewRow, Owner, Put as Rows};
use fader_services::s3::Command;
use fader_services::s3::command::{DeleteObject, Deletion, OneUpload, PutObject, PutPart};
use fader_services::s3::conditions::{Etags, WriteConditions};
use fader_services::s3::rows::Metadata;

use super::buckets::Bucket;
use super::bytes::{Copied, sum_of};
use super::calls::Purpose;
use super::chain::MEMBERS;
use super::{BLOCK, Event, INLINE, KEYS, READABLE, World};

/// How often, of a thousand bodies, a client is silent before it commits. Its bucket may be another
/// one then.
const SILENT: u32 = 150;

#[derive(Clone, Copy, Debug)]
enum Role {
    Putter,
    Uploader,
    Copier,
    Deleter,
    Reader,
    Lister,
    Manager,
}

/// A body on its way.
#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) bucket: Bucket,
    pub(super) key: String,
    pub(super) part: Option<(u128, u32)>,
    pub(super) bytes: Bytes,
    pub(super) blocks: Vec<(u128, Bytes)>,
    /// The chain of its blocks.
    pub(super) chain: usize,
    pub(super) owner: Owner,
    pub(super) conditions: WriteConditions,
    /// How long its client is silent before it commits.
    silence: u64,
    pub(super) is_spread: bool,
    pub(super) has_rows: bool,
    pub(super) tries: u32,
}

/// An upload of a client.
#[derive(Clone, Debug)]
pub(super) struct Upload {
    pub(super) bucket: Bucket,
    pub(super) id: u128,
    pub(super) key: String,
    pub(super) left: Vec<u32>,
    pub(super) done: BTreeMap<u32, String>,
    pub(super) completions: u32,
}

#[derive(Debug)]
pub(super) struct Client {
    role: Role,
    pub(super) put: Option<Put>,
    pub(super) upload: Option<Upload>,
    /// The bucket that it empties, and how many requests more it takes for that.
    pub(super) emptied: Option<(Bucket, u32)>,
    pub(super) call: Option<usize>,
}

impl Client {
    pub(super) fn all() -> Vec<Client> {
        let roles = [
            Role::Putter,
            Role::Putter,
            Role::Putter,
            Role::Uploader,
            Role::Uploader,
            Role::Copier,
            Role::Deleter,
            Role::Reader,
            Role::Reader,
            Role::Reader,
            Role::Lister,
            Role::Manager,
            Role::Manager,
        ];
        let clients = roles.into_iter().map(|role| Client {
            role,
            put: None,
            upload: None,
            emptied: None,
            call: None,
        });
        clients.collect()
    }
}

/// The ETag of an attempt: as good as an MD5.
pub(super) fn etag_of(attempt: u128) -> String {
    format!("{attempt:032x}")
}

impl World {
    pub(super) fn client_goes_on(&mut self, at: usize) {
        if self.clients[at].call.is_some() {
            return;
        }
        if self.clients[at].put.is_some() {
            return self.go_on_with_put(at);
        }
        if self.is_calm() {
            return;
        }
        let key = *self.random.pick(&KEYS);
        match self.clients[at].role {
            Role::Uploader => return self.go_on_with_upload(at, key),
            Role::Manager => return self.manage(at),
            _ => {}
        }
        match self.some_bucket() {
            Some(bucket) => self.use_bucket(at, bucket, key),
            None => self.pause(at, 5_000, 50_000),
        }
    }

    fn use_bucket(&mut self, at: usize, bucket: Bucket, key: &'static str) {
        self.on = bucket.chain;
        match self.clients[at].role {
            Role::Reader => {
                self.begin_read(bucket, Some(key));
                self.pause(at, 5_000, 60_000);
            }
            Role::Lister => {
                self.begin_read(bucket, None);
                self.pause(at, 5_000, 60_000);
            }
            Role::Putter => {
                let bytes = self.body();
                let conditions = self.conditions(bucket, key);
                self.begin_put(at, bucket, key, None, bytes, conditions);
            }
            Role::Copier => self.copy(at, bucket, key),
            Role::Deleter => {
                let delete = Command::DeleteObject(DeleteObject {
                    bucket: bucket.name.to_owned(),
                    object: Deletion {
                        key: key.to_owned(),
                        ..Deletion::default()
                    },
                });
                self.call_s3(at, bucket, delete, Purpose::Delete);
            }
            Role::Uploader | Role::Manager => {}
        }
    }

    pub(super) fn body(&mut self) -> Bytes {
        let size = match self.random.chance(200) {
            true => self.random.between(0, INLINE),
            false => self.random.between(INLINE + 1, 3 * u64::from(BLOCK)),
        };
        let bytes = (0..size).map(|_| self.random.number() as u8);
        bytes.collect::<Vec<_>>().into()
    }

    fn conditions(&mut self, bucket: Bucket, key: &str) -> WriteConditions {
        let seen = self.models[self.on].current(bucket.collection, key);
        match self.random.below(4) {
            0 => WriteConditions {
                if_match: None,
                if_none_match: true,
            },
            1 => WriteConditions {
                if_match: Some(seen.map_or(Etags::Any, |etag| Etags::Of(vec![etag]))),
                if_none_match: false,
            },
            _ => WriteConditions::default(),
        }
    }

    /// A new attempt, at a member that may be behind.
    pub(super) fn begin_put(
        &mut self,
        at: usize,
        bucket: Bucket,
        key: &str,
        part: Option<(u128, u32)>,
        bytes: Bytes,
        conditions: WriteConditions,
    ) {
        self.on = bucket.chain;
        let Some((collection, attempt)) = self.attempt(bucket) else {
            return self.pause(at, 5_000, 50_000);
        };
        let mut blocks = Vec::new();
        if INLINE < bytes.len() as u64 {
            for piece in bytes.chunks(BLOCK as usize) {
                let piece = Bytes::copy_from_slice(piece);
                let id = self.random.name();
                self.blocks.insert(id, piece.clone());
                blocks.push((id, piece));
            }
        }
        self.bodies.insert(etag_of(attempt.id), bytes.clone());
        let silence = match self.random.chance(SILENT) {
            true => self.random.between(100_000, 1_500_000),
            false => 0,
        };
        self.clients[at].put = Some(Put {
            bucket,
            chain: bucket.chain,
            key: key.to_owned(),
            part,
            bytes,
            blocks,
            owner: Owner {
                collection,
                attempt,
                upload: part.map(|(upload, _)| upload),
            },
            conditions,
            silence,
            is_spread: false,
            has_rows: false,
            tries: 0,
        });
        self.go_on_with_put(at);
    }

    fn attempt(&mut self, bucket: Bucket) -> Option<(CollectionId, Attempt)> {
        let member = self.random.below(MEMBERS);
        if !self.chains[self.on].is_reached(member, self.now) {
            return None;
        }
        let id = self.random.name();
        let here = &self.chains[self.on].members[member];
        let collection = self.context(&here.state, 0, Some(bucket)).collection?;
        let begun = here.log[..here.applied].last().map(|entry| entry.id)?;
        let attempt = blocks::attempt(&here.state, collection, id, begun);
        Some((collection, attempt.expect(READABLE)?))
    }

    fn go_on_with_put(&mut self, at: usize) {
        let Some(put) = self.clients[at].put.clone() else {
            return;
        };
        if put.blocks.is_empty() || put.has_rows {
            if let Some(now) = &mut self.clients[at].put
                && 0 < now.silence
            {
                now.silence = 0;
                return self.plan(self.now + put.silence, Event::Client(at));
            }
            return self.commit_put(at, &put);
        }
        self.on = put.bucket.chain;
        if !put.is_spread {
            for (id, bytes) in &put.blocks {
                self.spread(*id, bytes);
            }
            if let Some(put) = &mut self.clients[at].put {
                put.is_spread = true;
            }
            return self.pause(at, 6_000, 15_000);
        }
        let rows = put.blocks.iter().map(|(id, bytes)| NewRow {
            id: *id,
            size: bytes.len() as u32,
            sum: sum_of(bytes),
        });
        let command = blocks::Command::Put(Rows {
            owner: put.owner,
            chain: chain_id(put.bucket.chain),
            number: self.random.number(),
            blocks: rows.collect(),
        });
        self.call(at, None, command.into(), Purpose::Rows);
    }

    /// Bytes go to all members.
    fn spread(&mut self, id: u128, bytes: &Bytes) {
        for member in 0..MEMBERS {
            let copied = Copied {
                bytes: bytes.clone(),
                sum: sum_of(bytes),
            };
            for time in self.arrivals(true) {
                let event = Event::Bytes(member, id, copied.clone(), false);
                self.plan(time, event);
            }
        }
    }

    /// The request names the bucket, which may be another one of that name by now.
    fn commit_put(&mut self, at: usize, put: &Put) {
        let bucket = self.look_up(put.bucket.name).unwrap_or(put.bucket);
        let blocks = put.blocks.iter().map(|(id, bytes)| Block {
            id: *id,
            chain: chain_id(put.chain),
            size: bytes.len() as u32,
        });
        let content = match put.blocks.is_empty() {
            true => Content::Inline(put.bytes.clone()),
            false => Content::Blocks(blocks.collect()),
        };
        let (attempt, etag) = (put.owner.attempt, etag_of(put.owner.attempt.id));
        let command = match put.part {
            None => Command::PutObject(Box::new(PutObject {
                bucket: bucket.name.to_owned(),
                key: put.key.clone(),
                attempt,
                content,
                etag,
                checksum: None,
                metadata: Metadata::default(),
                acl: None,
                conditions: put.conditions.clone(),
            })),
            Some((upload, number)) => Command::PutPart(PutPart {
                of: upload_of(bucket, &put.key, upload),
                number,
                attempt,
                content,
                etag,
                checksum: None,
            }),
        };
        let is_plain = put.part.is_none() && put.conditions == WriteConditions::default();
        let is_eventual = self.is_mixed && is_plain && self.random.chance(700);
        let purpose = match is_eventual {
            true => Purpose::Eventual,
            false => Purpose::Commit,
        };
        self.call_s3(at, bucket, command, purpose);
    }
}

fn chain_id(on: usize) -> ChainId {
    ChainId(u32::try_from(on).expect("there are few chains"))
}

pub(super) fn upload_of(bucket: Bucket, key: &str, upload: u128) -> OneUpload {
    OneUpload {
        bucket: bucket.name.to_owned(),
        key: key.to_owned(),
        upload,
    }
}
