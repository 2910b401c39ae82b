//! Reads and lists: an answer from one state, then the bytes, a block at a time.

use std::collections::{BTreeMap, VecDeque};

use fader_services::CollectionId;
use fader_services::blocks::Block;
use fader_services::s3;
use fader_services::s3::command::List;
use fader_services::s3::reply::{Entry, Piece};

use super::buckets::{Bucket, ByCollection};
use super::chain::MEMBERS;
use super::{Event, Rule, World};

/// How long a read may take: less than garbage waits, in microseconds.
const READ: u64 = 1_400_000;
/// How long a member may take to have what was committed before.
const PATIENCE: u64 = 1_000_000;
/// How often, of a thousand reads, a client takes its bytes slowly, and how long it then pauses
/// after each block.
const SLOW: u32 = 300;
const SLOW_PAUSE: (u64, u64) = (200_000, 600_000);

/// A read of an object, or of the list of all.
#[derive(Debug)]
pub(super) struct Read {
    bucket: Bucket,
    key: Option<&'static str>,
    member: usize,
    is_strong: bool,
    is_slow: bool,
    began: u64,
    /// What was committed then.
    commits: usize,
    /// When its answer was shown, its ETag, and what is still to be read.
    found: Option<(u64, String, VecDeque<Piece>)>,
    bytes: Vec<u8>,
}

impl World {
    /// Begins a read at a member that serves.
    pub(super) fn begin_read(&mut self, bucket: Bucket, key: Option<&'static str>) {
        let member = *self.random.pick(&self.chains[self.on].seats.clone());
        let read = self.reads.len();
        self.reads.push(Read {
            bucket,
            key,
            member,
            is_strong: key.is_none() || self.random.chance(600),
            is_slow: self.random.chance(SLOW),
            began: self.now,
            commits: self.chains[self.on].commits,
            found: None,
            bytes: Vec::new(),
        });
        self.plan(self.now + 500, Event::Read(read));
    }

    pub(super) fn read_on(&mut self, read: usize) {
        match self.reads[read].found.is_some() {
            true => self.read_bytes(read),
            false => self.answer_read(read),
        }
    }

    fn answer_read(&mut self, read: usize) {
        let Read {
            bucket,
            key,
            member,
            is_strong,
            began,
            commits,
            ..
        } = self.reads[read];
        let here = &self.chains[self.on].members[member];
        if !self.chains[self.on].serves(member) || began + PATIENCE < self.now {
            return;
        }
        if is_strong && here.applied < commits && self.has(Rule::Fresh) {
            return self.plan(self.now + 3_000, Event::Read(read));
        }
        let Some(key) = key else {
            return self.answer_list(bucket, member, commits);
        };
        let found = self.object(&here.state, bucket, key, None);
        let etag = found
            .as_ref()
            .and_then(|found| found.object().map(|object| object.etag.clone()));
        if is_strong {
            let at = (bucket.collection, key.to_owned());
            let is_shown = self
                .shown_since(commits)
                .any(|all| all.get(&at) == etag.as_ref());
            if !is_shown {
                return self.fail("linear", &format!("a read of {key} shows {etag:?}"));
            }
            self.count("linear");
        }
        if let (Some(found), Some(etag)) = (found, etag) {
            let pieces = found.extent.pieces.into();
            self.reads[read].found = Some((self.now, etag, pieces));
            self.plan(self.now + 100, Event::Read(read));
        }
    }

    /// What the buckets of a chain showed from this commit on.
    fn shown_since(&self, commits: usize) -> impl Iterator<Item = &ByCollection<String>> {
        let since = commits.min(self.chains[self.on].commits);
        self.models[self.on].history[since..].iter().map(|it| &**it)
    }

    fn answer_list(&mut self, bucket: Bucket, member: usize, commits: usize) {
        let list = s3::Command::ListObjects(List {
            bucket: bucket.name.to_owned(),
            ..List::default()
        });
        let state = &self.chains[self.on].members[member].state;
        let page = match self.show(state, bucket, list) {
            Some(s3::Reply::Page(page)) => Some(page.entries),
            _ => None,
        };
        let listed = page.map(|entries| {
            let all = entries.into_iter().filter_map(|entry| match entry {
                Entry::Version { key, version, .. } => {
                    let etag = version.object().map(|object| object.etag.clone());
                    etag.map(|etag| (key, etag))
                }
                _ => None,
            });
            all.collect::<BTreeMap<String, String>>()
        });
        if !self
            .shown_since(commits)
            .any(|all| listed_of(all, bucket.collection) == listed)
        {
            return self.fail("linear", "a list shows what the bucket never was");
        }
        self.count("lists");
    }

    fn read_bytes(&mut self, read: usize) {
        let Some((since, etag, mut pieces)) = self.reads[read].found.clone() else {
            return;
        };
        if since + READ < self.now {
            return self.count("slow reads");
        }
        match pieces.pop_front() {
            None => {
                if self
                    .bodies
                    .get(&etag)
                    .is_none_or(|body| **body != *self.reads[read].bytes)
                {
                    return self.fail("bytes", &format!("wrong bytes of {etag} are read"));
                }
                return self.count("reads");
            }
            Some(Piece::Inline(bytes)) => self.reads[read].bytes.extend_from_slice(&bytes),
            Some(Piece::Block(block)) => match self.bytes_of(block) {
                Ok(Some(bytes)) => self.reads[read].bytes.extend_from_slice(&bytes),
                Ok(None) => return self.plan(self.now + 20_000, Event::Read(read)),
                Err(()) => {
                    let text = format!("a block of {etag} is gone while it is read");
                    return self.fail("read", &text);
                }
            },
        }
        self.reads[read].found = Some((since, etag, pieces));
        let pause = match self.reads[read].is_slow {
            true => self.random.between(SLOW_PAUSE.0, SLOW_PAUSE.1),
            false => self.random.skewed(1_000, 500_000),
        };
        self.plan(self.now + pause, Event::Read(read));
    }

    /// The bytes of a block, at any member that has them; nothing where none answers now.
    fn bytes_of(&self, block: Block) -> Result<Option<bytes::Bytes>, ()> {
        let chain = &self.chains[block.chain.0 as usize];
        let all = (0..MEMBERS).map(|at| (at, chain.members[at].blocks.get(&block.id)));
        let holders: Vec<_> = all.filter_map(|(at, held)| Some((at, held?))).collect();
        if holders.is_empty() {
            return Err(());
        }
        let is_checked = self.has(Rule::CheckedRead);
        let mut answers = holders
            .into_iter()
            .filter(|(at, _)| chain.is_reached(*at, self.now));
        let found = answers.find(|(_, held)| held.is_sound() || !is_checked);
        Ok(found.map(|(_, held)| held.bytes.clone()))
    }
}

/// The objects of a bucket among those of all; nothing where it is not there.
fn listed_of(
    all: &ByCollection<String>,
    collection: CollectionId,
) -> Option<BTreeMap<String, String>> {
    let of =
        all.range((collection, String::new())..(CollectionId(collection.0 + 1), String::new()));
    let mut of = of.map(|((_, key), etag)| (key.clone(), etag.clone()));
    // Its own entry is first.
    of.next().map(|_| of.collect())
}
