//! Clients and their calls, and what the head decides of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_services::blocks::{self, Attempt, Block, Content, NewRow, Owner, Put as Rows};
use fader_services::request::{self, Outcome, Request, ServiceName};
use fader_services::s3::command::{DeleteObject, Deletion, OneUpload, PutObject, PutPart};
use fader_services::s3::conditions::{Etags, WriteConditions};
use fader_services::s3::rows::Metadata;
use fader_services::s3::{self, Command, Reply};
use fader_services::service::Trouble;
use fader_services::{CollectionId, Reason};

use super::bytes::{Copied, sum_of};
use super::chain::{Deed, MEMBERS};
use super::{BLOCK, BUCKET, CHAIN, Event, INLINE, KEYS, READABLE, Rule, World};

/// How long a client waits for an answer.
const PATIENCE: u64 = 500_000;
/// How often a client tries to have the rows of a body put.
const TRIES: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Rows,
    Commit,
    Create,
    Complete,
    Abort,
    Delete,
}

/// A call of a client.
#[derive(Debug)]
pub(super) struct Call {
    client: usize,
    pub(super) request: Request,
    purpose: Purpose,
    is_over: bool,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Putter,
    Uploader,
    Copier,
    Deleter,
    Reader,
    Lister,
}

/// A body on its way.
#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) key: String,
    pub(super) part: Option<(u128, u32)>,
    pub(super) bytes: Bytes,
    pub(super) blocks: Vec<(u128, Bytes)>,
    pub(super) owner: Owner,
    pub(super) conditions: WriteConditions,
    pub(super) is_spread: bool,
    pub(super) has_rows: bool,
    pub(super) tries: u32,
}

/// An upload of a client.
#[derive(Clone, Debug)]
pub(super) struct Upload {
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
    call: Option<usize>,
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
        ];
        let clients = roles.into_iter().map(|role| Client {
            role,
            put: None,
            upload: None,
            call: None,
        });
        clients.collect()
    }
}

/// The ETag of an attempt: as good as an MD5.
fn etag_of(attempt: u128) -> String {
    format!("{attempt:032x}")
}

impl World {
    /// The head decides on its newest state. A refusal that is no entry is told.
    pub(super) fn decide(
        &mut self,
        request: &Request,
        deed: impl FnOnce(Outcome) -> Deed,
    ) -> Option<Outcome> {
        let head = self.chain.head_member();
        let mut blocks = request.puts_blocks().iter();
        if self.has(Rule::OwnBytes) && !blocks.all(|row| self.is_held(head, row.id)) {
            let trouble = Trouble::from(Reason::BlocksMissing);
            return Some(Err(ServiceName::Block.word(trouble)));
        }
        let is_put =
            matches!(request, Request::S3(it) if matches!(it.command, Command::PutObject(_)));
        let view = match self.has(Rule::Newest) || !is_put {
            true => &self.chain.newest,
            false => &self.chain.committed,
        };
        let context = self.context(view, self.chain.wall_ms(self.now));
        let decision = request.decide(view, &context);
        let decision = decision.expect("nothing of S3 waits");
        let deed = deed(decision.outcome);
        self.chain.append(decision.changes, deed);
        None
    }

    pub(super) fn arrive(&mut self, call: usize) {
        if !self.chain.is_reached(self.chain.head(), self.now) {
            return;
        }
        let request = self.calls[call].request.clone();
        if let Some(refused) = self.decide(&request, |outcome| Deed::Call(call, outcome)) {
            self.tell(Event::Answer(call, refused));
        }
    }

    fn tell(&mut self, event: Event) {
        if let Some(time) = self.travel(50) {
            self.queue.plan(time, event);
        }
    }

    /// What is committed is watched, and told.
    pub(super) fn commit_all(&mut self) {
        while self.failure.is_none()
            && let Some(entry) = self.chain.commit()
        {
            if let Err((guarantee, text)) = self.watch_commit(&entry) {
                self.fail(guarantee, &text);
            }
            match &entry.deed {
                Deed::Call(call, outcome) => self.tell(Event::Answer(*call, outcome.clone())),
                Deed::Node(ask, outcome) => self.tell(Event::Told(*ask, outcome.clone())),
                Deed::Upkeep => {}
            }
        }
        let (commits, head) = (self.chain.commits, self.chain.head());
        self.chain.members[head].apply_to(commits);
    }

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
            Role::Reader => {
                self.begin_read(Some(key));
                self.pause(at, 5_000, 60_000);
            }
            Role::Lister => {
                self.begin_read(None);
                self.pause(at, 5_000, 60_000);
            }
            Role::Putter => {
                let bytes = self.body();
                let conditions = self.conditions(key);
                self.begin_put(at, key, None, bytes, conditions);
            }
            Role::Copier => self.copy(at, key),
            Role::Deleter => {
                let delete = Command::DeleteObject(DeleteObject {
                    bucket: BUCKET.to_owned(),
                    object: Deletion {
                        key: key.to_owned(),
                        ..Deletion::default()
                    },
                });
                self.call_s3(at, delete, Purpose::Delete);
            }
            Role::Uploader => self.go_on_with_upload(at, key),
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

    fn conditions(&mut self, key: &str) -> WriteConditions {
        let seen = self.model.current(key);
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
        key: &str,
        part: Option<(u128, u32)>,
        bytes: Bytes,
        conditions: WriteConditions,
    ) {
        let Some((collection, attempt)) = self.attempt() else {
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
        self.clients[at].put = Some(Put {
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
            is_spread: false,
            has_rows: false,
            tries: 0,
        });
        self.go_on_with_put(at);
    }

    fn attempt(&mut self) -> Option<(CollectionId, Attempt)> {
        let member = self.random.below(MEMBERS);
        if !self.chain.is_reached(member, self.now) {
            return None;
        }
        let id = self.random.name();
        let here = &self.chain.members[member];
        let collection = self.context(&here.state, 0).collection?;
        let begun = here.log[..here.applied].last().map(|entry| entry.id)?;
        let attempt = blocks::attempt(&here.state, collection, id, begun);
        Some((collection, attempt.expect(READABLE)?))
    }

    fn go_on_with_put(&mut self, at: usize) {
        let Some(put) = self.clients[at].put.clone() else {
            return;
        };
        if put.blocks.is_empty() || put.has_rows {
            return self.commit_put(at, &put);
        }
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
            chain: CHAIN,
            number: self.random.number(),
            blocks: rows.collect(),
        });
        self.call(at, command.into(), Purpose::Rows);
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
                self.queue.plan(time, event);
            }
        }
    }

    fn commit_put(&mut self, at: usize, put: &Put) {
        let blocks = put.blocks.iter().map(|(id, bytes)| Block {
            id: *id,
            chain: CHAIN,
            size: bytes.len() as u32,
        });
        let content = match put.blocks.is_empty() {
            true => Content::Inline(put.bytes.clone()),
            false => Content::Blocks(blocks.collect()),
        };
        let (attempt, etag) = (put.owner.attempt, etag_of(put.owner.attempt.id));
        let command = match put.part {
            None => Command::PutObject(Box::new(PutObject {
                bucket: BUCKET.to_owned(),
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
                of: upload_of(&put.key, upload),
                number,
                attempt,
                content,
                etag,
                checksum: None,
            }),
        };
        self.call_s3(at, command, Purpose::Commit);
    }

    pub(super) fn call_s3(&mut self, at: usize, command: Command, purpose: Purpose) {
        let seed = self.random.name();
        let request = s3::Request::of(&self.account, seed, command);
        self.call(at, request.into(), purpose);
    }

    fn call(&mut self, at: usize, request: Request, purpose: Purpose) {
        let call = self.calls.len();
        // A node sends a commit once: it is late, or lost. Rows, and what ends an upload, are
        // asked again.
        let may_repeat = match purpose {
            Purpose::Rows | Purpose::Complete | Purpose::Abort => true,
            Purpose::Commit | Purpose::Create | Purpose::Delete => false,
        };
        self.calls.push(Call {
            client: at,
            request,
            purpose,
            is_over: false,
        });
        self.count("calls");
        self.clients[at].call = Some(call);
        for time in self.arrivals(may_repeat) {
            self.queue.plan(time, Event::Call(call));
        }
        self.queue.plan(self.now + PATIENCE, Event::Deadline(call));
    }

    pub(super) fn pause(&mut self, at: usize, least: u64, most: u64) {
        let pause = self.random.skewed(least, most);
        self.queue.plan(self.now + pause, Event::Client(at));
    }

    /// Whether a call is still waited for; then it is not any more.
    fn ends(&mut self, call: usize) -> Option<usize> {
        let is_over = std::mem::replace(&mut self.calls[call].is_over, true);
        let at = self.calls[call].client;
        (!is_over).then(|| {
            self.clients[at].call = None;
            at
        })
    }

    /// A client waits no longer: it does not know what came of its call.
    pub(super) fn give_up(&mut self, call: usize) {
        let Some(at) = self.ends(call) else {
            return;
        };
        self.count("unknown");
        self.give_up_put(at);
        match self.calls[call].purpose {
            // It is asked again.
            Purpose::Complete if self.random.chance(700) => {}
            Purpose::Complete | Purpose::Abort => self.clients[at].upload = None,
            _ => {}
        }
        self.pause(at, 1_000, 40_000);
    }

    /// The body of a client will not be committed: its rows go soon, or with their leases.
    fn give_up_put(&mut self, at: usize) {
        let Some(put) = self.clients[at].put.take() else {
            return;
        };
        if self.random.chance(600) {
            let ids = put.blocks.iter().map(|(id, _)| *id).collect();
            self.tell(Event::GiveUp(ids));
        }
    }

    pub(super) fn answer(&mut self, call: usize, outcome: Outcome) {
        let Some(at) = self.ends(call) else {
            return;
        };
        let purpose = self.calls[call].purpose;
        match (purpose, outcome) {
            (Purpose::Rows, Ok(_)) => {
                if let Some(put) = &mut self.clients[at].put {
                    put.has_rows = true;
                }
            }
            (Purpose::Rows, Err(_)) => {
                let put = self.clients[at].put.as_mut();
                let tries = put.map_or(TRIES, |put| {
                    put.tries += 1;
                    put.is_spread = false;
                    put.tries
                });
                if TRIES <= tries {
                    self.give_up_put(at);
                }
            }
            (Purpose::Commit, Ok(request::Reply::S3(_))) => {
                self.count("acknowledged");
                let client = &mut self.clients[at];
                let put = client.put.take();
                if let Some((put, (_, number))) = put.and_then(|it| it.part.map(|part| (it, part)))
                    && let Some(upload) = &mut client.upload
                {
                    upload.left.retain(|it| *it != number);
                    upload.done.insert(number, etag_of(put.owner.attempt.id));
                }
            }
            (Purpose::Commit, _) => {
                self.count("refused");
                self.give_up_put(at);
                self.clients[at].upload = None;
            }
            (Purpose::Create, Ok(request::Reply::S3(Reply::Upload(id)))) => {
                let Request::S3(request) = &self.calls[call].request else {
                    return;
                };
                let Command::CreateUpload(create) = &request.command else {
                    return;
                };
                let key = create.key.clone();
                let left = (1..=1 + self.random.below(3) as u32).rev().collect();
                self.clients[at].upload = Some(Upload {
                    id,
                    key,
                    left,
                    done: BTreeMap::new(),
                    completions: 0,
                });
            }
            (Purpose::Complete | Purpose::Abort, _) => {
                // A part is put once more, though nothing is open any more, now and then.
                let upload = self.clients[at].upload.take();
                if let Some(upload) = upload.filter(|it| it.completions == 0)
                    && self.random.chance(300)
                {
                    self.clients[at].upload = Some(Upload {
                        left: vec![1],
                        completions: 1,
                        ..upload
                    });
                }
            }
            _ => {}
        }
        self.pause(at, 1_000, 60_000);
    }
}

pub(super) fn upload_of(key: &str, upload: u128) -> OneUpload {
    OneUpload {
        bucket: BUCKET.to_owned(),
        key: key.to_owned(),
        upload,
    }
}
