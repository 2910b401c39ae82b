//! Power cuts under buckets. Every version that was committed is whole in the next incarnation,
//! with any part of bytes, records and index on the disk. Every block of no version goes in the
//! end.
//!
//! A *incarnation* is a start, calls of some clients, and a power cut or a killed process, as in
//! `power`. Each client has keys of its own. Meanwhile the node lets blocks go, whose leases are
//! short, and reclaims their space.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "buckets/mod.rs"]
mod asked;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use asked::{NotPut, ask, bytes_of, complete, create, delete, find, put, read, store, upload};
use bytes::Bytes;
use fader_node::disk::{Disk, SyncSite};
use fader_node::{BlockOptions, Node, Settings};
use fader_services::request::Limits;
use fader_services::s3::command::{Command, ListedPart, PutPart};
use fader_services::s3::reply::Piece;
use fader_services::s3::{Code, Error};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use support::{MemoryEngine, SimulatedDisk};

const CLIENTS: u64 = 3;
const CALLS_PER_LIFE: u64 = 8;
const LIVES: u64 = 3;
const KEYS: u64 = 3;
/// Above this size an object is in blocks.
const INLINE: u64 = 100;
const BLOCK: u32 = 300;
/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a client knows.
#[derive(Clone, Debug, Default)]
struct Client {
    number: u64,
    objects: BTreeMap<String, Bytes>,
    /// What it did not hear the end of: a key, and what it may be.
    maybe: Option<(String, Option<Bytes>)>,
}

/// How a call ended.
enum End {
    /// The client goes on.
    Done,
    /// Nothing was done.
    Refused,
    /// It is not known.
    Unknown,
}

fn end_of(error: &Error) -> End {
    match error.code {
        // Nothing of it was stored.
        Code::AttemptFenced | Code::NoSuchBucket => End::Refused,
        Code::ServiceUnavailable | Code::InternalError => End::Unknown,
        other => panic!("{other:?}: {error}"),
    }
}

impl Client {
    /// An incarnation of calls; ends at the first that is not answered.
    async fn live(mut self, node: Node, seed: u64) -> Client {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ (self.number << 32));
        for _ in 0..CALLS_PER_LIFE {
            let key = format!("{}/{}", self.number, random.random_range(0..KEYS));
            let bytes = bytes_of(random.random(), random.random_range(0..1000));
            let kind = random.random_range(0..8_u8);
            let becomes = (kind < 6).then(|| bytes.clone());
            self.maybe = Some((key.clone(), becomes.clone()));
            let end = match kind {
                0..5 => Self::put(&node, &key, &bytes).await,
                5 => Self::in_parts(&node, &key, &bytes).await,
                _ => match delete(&node, &key).await {
                    Ok(_) => End::Done,
                    Err(error) => end_of(&error),
                },
            };
            match end {
                End::Done => self.is_now(key, becomes),
                End::Refused => {}
                End::Unknown => return self,
            }
            self.maybe = None;
        }
        self
    }

    fn is_now(&mut self, key: String, bytes: Option<Bytes>) {
        match bytes {
            Some(bytes) => self.objects.insert(key, bytes),
            None => self.objects.remove(&key),
        };
    }

    async fn put(node: &Node, key: &str, bytes: &Bytes) -> End {
        match put(node, key, bytes).await {
            Ok(_) => End::Done,
            Err(NotPut::Command(error)) => end_of(&error),
            // The disk failed, or the incarnation is over: the command was never asked.
            Err(NotPut::Body(_)) => End::Unknown,
        }
    }

    /// In two parts, of which the first is put again.
    async fn in_parts(node: &Node, key: &str, bytes: &Bytes) -> End {
        let Ok(of) = upload(node, key).await else {
            return End::Unknown;
        };
        let middle = bytes.len() / 2;
        let mut parts = Vec::new();
        for (number, bytes) in [
            (1, bytes.slice(middle..)),
            (1, bytes.slice(..middle)),
            (2, bytes.slice(middle..)),
        ] {
            let Ok(stored) = store(node, Some(of.upload), &bytes).await else {
                return End::Unknown;
            };
            let etag = format!("{number:032x}");
            let put = Command::PutPart(PutPart {
                of: of.clone(),
                number,
                attempt: stored.owner.attempt,
                content: stored.content,
                etag: etag.clone(),
                checksum: None,
            });
            if let Err(error) = ask(node, put).await {
                return end_of(&error);
            }
            parts.retain(|part: &ListedPart| part.number != number);
            parts.push(ListedPart {
                number,
                etag,
                checksum: None,
            });
        }
        match complete(node, &of, parts).await {
            Ok(_) => End::Done,
            Err(error) => end_of(&error),
        }
    }

    /// Compares what is there with what the client knows, and then knows it. Says how many blocks
    /// its objects have.
    async fn check(&mut self, node: &Node) -> Result<u64, String> {
        let mut count = 0;
        for key in 0..KEYS {
            let key = format!("{}/{key}", self.number);
            let found = match find(node, &key, 0).await {
                Ok(found) => {
                    let pieces = found.extent.pieces.iter();
                    count += pieces.filter(|it| matches!(it, Piece::Block(_))).count() as u64;
                    let read = read(node, &key, found).await;
                    Some(read.map_err(|error| format!("{key}: {error:?}"))?)
                }
                Err(error) if error.code == Code::NoSuchKey => None,
                Err(error) => return Err(format!("{key}: {error}")),
            };
            let known = self.objects.get(&key).map(|bytes| bytes.to_vec());
            let maybe = self.maybe.as_ref().filter(|(of, _)| *of == key);
            let maybe = maybe.map(|(_, bytes)| bytes.as_ref().map(|bytes| bytes.to_vec()));
            if found != known && Some(&found) != maybe.as_ref() {
                let size = |it: &Option<Vec<u8>>| it.as_ref().map(Vec::len);
                let (found, known) = (size(&found), size(&known));
                return Err(format!("{key} has {found:?} bytes, and was told {known:?}"));
            }
            self.is_now(key, found.map(Bytes::from));
        }
        self.maybe = None;
        Ok(count)
    }
}

/// The machine, from incarnation to incarnation.
struct World {
    disk: SimulatedDisk,
    engine: Arc<MemoryEngine>,
    clients: Vec<Client>,
}

fn settings() -> Settings {
    let mut limits = Limits::default();
    limits.s3.inline_bytes = INLINE;
    limits.s3.block_bytes = BLOCK;
    limits.s3.part_bytes_min = 0;
    // Short, so that fences race commits.
    limits.blocks.lease_ms = 20;
    Settings {
        segment_bytes: 4000,
        log_retain_bytes: 0,
        blocks: BlockOptions {
            reserve_bytes: 0,
            segment_bytes: 3000,
            garbage_wait: Duration::ZERO,
            look: Duration::from_millis(1),
            ..BlockOptions::default()
        },
        limits,
        ..Settings::new("/data".into())
    }
}

impl World {
    fn new(ignored: Option<SyncSite>) -> Self {
        let disk = SimulatedDisk::new();
        disk.ignore_sync(ignored);
        let clients = (0..CLIENTS).map(|number| Client {
            number,
            ..Client::default()
        });
        World {
            engine: Arc::new(MemoryEngine::new(disk.clone())),
            disk,
            clients: clients.collect(),
        }
    }

    /// One incarnation; the error says what was lost or served wrongly. Ends early without power.
    async fn live(&mut self, seed: u64, is_last: bool) -> Result<(), String> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let node = match Node::open_with(settings(), &disk, self.engine.clone()) {
            Ok((node, _)) => node,
            Err(_) if !self.disk.has_power() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let lived = self.live_with(&node, seed, is_last).await;
        node.close().await;
        // What was asked for a check may have met the cut.
        match lived {
            Err(_) if !self.disk.has_power() => Ok(()),
            lived => lived,
        }
    }

    async fn live_with(&mut self, node: &Node, seed: u64, is_last: bool) -> Result<(), String> {
        if node.health() != fader_node::Health::Serving {
            return Ok(());
        }
        let created = create(node).await;
        created.map_err(|error| format!("the bucket: {error}"))?;
        let mut blocks = 0;
        for client in &mut self.clients {
            let before = client.clone();
            match client.check(node).await {
                Ok(count) => blocks += count,
                Err(error) => {
                    *client = before;
                    return Err(error);
                }
            }
        }
        if is_last {
            return all_others_go(node, blocks).await;
        }
        let mut living = tokio::task::JoinSet::new();
        for client in self.clients.drain(..) {
            living.spawn(client.live(node.clone(), seed));
        }
        let mut ended = Vec::new();
        while let Some(client) = living.join_next().await {
            ended.push(client.map_err(|panic| panic.to_string()));
        }
        for client in ended {
            self.clients.push(client?);
        }
        self.clients.sort_by_key(|client| client.number);
        Ok(())
    }

    /// The process is gone, and perhaps the machine had no power either.
    fn crash(&mut self, seed: u64, ignored: Option<SyncSite>) {
        if seed.is_multiple_of(3) {
            self.disk.restore_power();
        } else {
            self.disk = self.disk.crash(seed);
            self.disk.ignore_sync(ignored);
        }
        self.engine = Arc::new(self.engine.crash(self.disk.clone(), seed));
    }
}

/// Every block of no version is gone in the end. Parts of uploads that no client completed are
/// named, so there may be more.
async fn all_others_go(node: &Node, named: u64) -> Result<(), String> {
    let open = asked::uploads(node).await;
    for of in open {
        let aborted = ask(node, Command::AbortUpload(of)).await;
        aborted.map_err(|error| error.to_string())?;
    }
    let going = async {
        loop {
            let it = node.counters().blocks;
            if it.blocks == named && it.garbage_waiting == 0 {
                return it;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, going).await;
    let ended =
        ended.map_err(|_| format!("{named} blocks are named: {:?}", node.counters().blocks))?;
    match ended.missing + ended.bad {
        0 => Ok(()),
        _ => Err(format!("blocks are damaged: {ended:?}")),
    }
}

/// Lives in a row, each cut at a random operation, the last one not cut.
fn run_seed(seed: u64, ignored: Option<SyncSite>) -> Result<(), String> {
    let mut world = World::new(ignored);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    runtime.block_on(async {
        for incarnation in 0..LIVES {
            let cut = match random.random_bool(0.5) {
                true => random.random_range(0..30),
                false => random.random_range(0..200),
            };
            world.disk.cut_power_at(world.disk.operations() + cut);
            world.live(seed * LIVES + incarnation, false).await?;
            world.crash(random.random(), ignored);
        }
        world.live(seed, true).await
    })
}

fn seeds(default: u64) -> u64 {
    std::env::var("FADER_POWER_SEEDS").map_or(default, |seeds| seeds.parse().unwrap())
}

/// It shows COLLECT-3.
#[test]
fn a_cut_at_random_operations_leaves_every_object_whole() {
    for seed in 0..seeds(60) {
        run_seed(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// That of each of the store's own syncs is shown by `power_blocks`. It shows BW-1.
#[test]
fn a_sync_of_bytes_or_records_that_is_left_out_is_noticed_by_objects() {
    let sites = [
        SyncSite::Blocks,
        SyncSite::BlockSegment,
        SyncSite::BlocksFolder,
        SyncSite::Entries,
    ];
    for site in sites {
        let noticed = (0..5000).find(|seed| run_seed(*seed, Some(site)).is_err());
        let Some(seed) = noticed else {
            panic!("{site:?} may be left out: no seed notices");
        };
        assert_eq!(run_seed(seed, None), Ok(()), "seed {seed} fails anyway");
        println!("noticed: {site:?}, seed {seed}");
    }
}
