//! Calls of clients: they are late, lost and repeated, the head decides them, and clients are told.

use std::collections::BTreeMap;

use fader_services::request::{self, Outcome, Request, ServiceName};
use fader_services::s3::{self, Command, Reply};
use fader_services::service::{Target, Trouble};
use fader_services::{Decision, MapView, Reason};

use super::buckets::{Bucket, DATA, Waiting};
use super::chain::{Deed, MEMBERS};
use super::clients::{Upload, etag_of};
use super::{Event, Rule, SYSTEM, World};

/// How long a client waits for an answer.
const PATIENCE: u64 = 500_000;
/// How often a client tries to have the rows of a body put.
const TRIES: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Rows,
    Commit,
    /// An eventual put, at any member.
    Eventual,
    Create(Bucket),
    Complete,
    Abort,
    Delete,
    /// A name is entered, then its bucket is made.
    Enter(&'static str),
    Make(Bucket),
    /// A bucket is deleted.
    Unmake(Bucket),
}

/// A call of a client.
#[derive(Debug)]
pub(super) struct Call {
    client: usize,
    /// The bucket that it is about: its chain checks it.
    pub(super) of: Option<Bucket>,
    pub(super) request: Request,
    pub(super) purpose: Purpose,
    is_over: bool,
}

impl World {
    /// The head decides on its newest state. A refusal that is no entry is told.
    pub(super) fn decide(
        &mut self,
        request: &Request,
        of: Option<Bucket>,
        deed: impl FnOnce(Outcome) -> Deed,
    ) -> Option<Outcome> {
        let head = self.chains[self.on].head_member();
        let mut blocks = request.puts_blocks().iter();
        if self.has(Rule::OwnBytes) && !blocks.all(|row| self.is_held(head, row.id)) {
            let trouble = Trouble::from(Reason::BlocksMissing);
            return Some(Err(ServiceName::Block.word(trouble)));
        }
        let is_stale = match request {
            Request::S3(it) => match it.command {
                Command::PutObject(_) => !self.has(Rule::Newest),
                Command::DeleteBucket(_) => !self.has(Rule::NewestEmpty),
                _ => false,
            },
            _ => false,
        };
        let chain = &self.chains[self.on];
        let view = match is_stale {
            false => &chain.newest,
            true => &chain.committed,
        };
        let decision = self.decision(view, request, of);
        if !self.has(Rule::EndCommitted)
            && let Ok(reply) = &decision.outcome
            && let Some(step) = reply.begun().cloned()
        {
            let on = self.on;
            self.finish(on, step, Waiting::NoClient);
            self.on = on;
        }
        let deed = deed(decision.outcome);
        self.chains[self.on].append(decision.changes, deed);
        None
    }

    /// As a member decides it: names on the first chain, all else by the id of its bucket.
    fn decision(&self, view: &MapView, request: &Request, of: Option<Bucket>) -> Decision<Outcome> {
        let context = self.context(view, self.chains[self.on].wall_ms(self.now), of);
        if self.on == SYSTEM
            && let Some(decision) = request.decide_names(view, &context, DATA)
        {
            return decision;
        }
        let is_create = matches!(request.target(), Target::Create { .. });
        if is_create && context.collection.is_none() {
            return Decision {
                outcome: Err(ServiceName::S3.word(Trouble::NoCollection)),
                changes: Vec::new(),
            };
        }
        let decision = request.decide(view, &context);
        decision.expect("nothing of S3 waits")
    }

    pub(super) fn arrive(&mut self, call: usize) {
        let chain = &self.chains[self.on];
        if !chain.is_reached(chain.head(), self.now) {
            return;
        }
        let (request, of) = (self.calls[call].request.clone(), self.calls[call].of);
        if let Some(refused) = self.decide(&request, of, |outcome| Deed::Call(call, outcome)) {
            self.tell(Event::Answer(call, refused));
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        if let Some(time) = self.travel(50) {
            self.plan(time, event);
        }
    }

    /// What is committed is watched, and told.
    pub(super) fn commit_all(&mut self) {
        while self.failure.is_none()
            && let Some(entry) = self.chains[self.on].commit()
        {
            if let Err((guarantee, text)) = self.watch_commit(&entry) {
                self.fail(guarantee, &text);
            }
            match &entry.deed {
                Deed::Call(call, outcome) => self.tell(Event::Answer(*call, outcome.clone())),
                Deed::Node(ask, outcome) => self.tell(Event::Told(*ask, outcome.clone())),
                Deed::Settle(..) | Deed::Upkeep => {}
            }
        }
        let (commits, head) = (self.chains[self.on].commits, self.chains[self.on].head());
        self.chains[self.on].members[head].apply_to(commits);
    }

    pub(super) fn call_s3(
        &mut self,
        at: usize,
        bucket: Bucket,
        command: Command,
        purpose: Purpose,
    ) {
        self.on = bucket.chain;
        let seed = self.random.name();
        let request = s3::Request::of(&self.account, seed, command);
        self.call(at, Some(bucket), request.into(), purpose);
    }

    /// Calls the chain at which the world is.
    pub(super) fn call(
        &mut self,
        at: usize,
        of: Option<Bucket>,
        request: Request,
        purpose: Purpose,
    ) {
        let call = self.calls.len();
        // A node sends a commit once: it is late, or lost. Rows, and what ends an upload, are
        // asked again.
        let may_repeat = match purpose {
            Purpose::Rows | Purpose::Complete | Purpose::Abort => true,
            Purpose::Enter(_) | Purpose::Make(_) | Purpose::Unmake(_) => true,
            Purpose::Commit | Purpose::Eventual => false,
            Purpose::Create(_) | Purpose::Delete => false,
        };
        self.calls.push(Call {
            client: at,
            of,
            request,
            purpose,
            is_over: false,
        });
        self.count("calls");
        self.clients[at].call = Some(call);
        let mut arrivals = self.arrivals(may_repeat);
        if purpose == Purpose::Eventual && !self.is_calm() && self.random.chance(150) {
            // It comes when it is given up.
            let late = self.random.between(PATIENCE, PATIENCE + 50_000);
            arrivals = vec![self.now + late];
        }
        for time in arrivals {
            let event = match purpose {
                Purpose::Eventual => Event::Take(call, self.random.below(MEMBERS)),
                _ => Event::Call(call),
            };
            self.plan(time, event);
        }
        self.plan(self.now + PATIENCE, Event::Deadline(call));
    }

    pub(super) fn pause(&mut self, at: usize, least: u64, most: u64) {
        let pause = self.random.skewed(least, most);
        self.plan(self.now + pause, Event::Client(at));
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
            self.on = put.bucket.chain;
            self.tell(Event::GiveUp(ids));
        }
    }

    pub(super) fn answer(&mut self, call: usize, outcome: Outcome) {
        let Some(at) = self.ends(call) else {
            return;
        };
        let purpose = self.calls[call].purpose;
        match (purpose, outcome) {
            (Purpose::Enter(name), Ok(_)) => return self.entered(at, name),
            (Purpose::Make(bucket), outcome) => return self.made(at, bucket, &outcome),
            (Purpose::Unmake(bucket), outcome) => return self.unmade(at, bucket, outcome),
            (Purpose::Rows, Ok(_)) => {
                if let Some(put) = &mut self.clients[at].put {
                    put.has_rows = true;
                }
            }
            (Purpose::Rows, Err(_)) => self.try_rows_again(at),
            (Purpose::Commit | Purpose::Eventual, Ok(request::Reply::S3(_))) => {
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
            (Purpose::Commit | Purpose::Eventual, _) => {
                self.count("refused");
                self.give_up_put(at);
                self.clients[at].upload = None;
            }
            (Purpose::Create(bucket), Ok(request::Reply::S3(Reply::Upload(id)))) => {
                let Request::S3(request) = &self.calls[call].request else {
                    return;
                };
                if let Command::CreateUpload(create) = &request.command {
                    let key = create.key.clone();
                    self.begin_parts(at, bucket, id, key);
                }
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

    /// Rows were refused: they are asked for again, with their bytes.
    fn try_rows_again(&mut self, at: usize) {
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

    /// An upload is open: its parts are to come.
    fn begin_parts(&mut self, at: usize, bucket: Bucket, id: u128, key: String) {
        let left = (1..=1 + self.random.below(3) as u32).rev().collect();
        self.clients[at].upload = Some(Upload {
            bucket,
            id,
            key,
            left,
            done: BTreeMap::new(),
            completions: 0,
        });
    }
}
