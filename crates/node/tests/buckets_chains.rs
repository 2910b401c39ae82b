//! Buckets on two chains of data of three processes, each chain with members in two of them. Every
//! process takes and reads every object, also without a member of the bucket's chain.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "buckets/mod.rs"]
mod asked;
mod processes;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use asked::{
    BLOCK, account, ask, bytes_of, complete, create_one, delete_in, delete_one, get_in, keys_in,
    part, put_of, put_within, store_in, upload_in,
};
use fader_node::coordinator::ZooKeeperSettings;
use fader_node::{ChainId, Node, Settings, Version};
use fader_services::catalog::{AccountId, Name};
use fader_services::s3::command::{Command, HeadBucket, ListBuckets, PutObject, PutSetting};
use fader_services::s3::settings::{Expiration, LifecycleRule, Setting};
use fader_services::s3::{Action, Code, Error, Reply};
use fader_services::service::Trouble;
use fader_services::{Kind, Reason};

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(240);
/// A busy machine is not to end a session.
const SESSION: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);
const NAMES: [&str; 3] = ["n1", "n2", "n3"];
/// A day of a lifecycle.
const DAY_MS: u64 = 500;

struct World {
    nodes: Vec<Node>,
    place: ZooKeeperSettings,
    folder: tempfile::TempDir,
    /// What the processes speak that join.
    speaks: Version,
    /// The node that is to leave so many bytes free when it joins.
    full: Option<(&'static str, u64)>,
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(LOOK).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "{what}");
}

/// The bucket's chain.
async fn chain_of(node: &Node, bucket: &str) -> ChainId {
    let owner = account();
    let name = Name::new(Kind::Bucket, &owner, bucket);
    node.chain_with(name).await.unwrap()
}

async fn buckets(node: &Node) -> Vec<String> {
    let list = Command::ListBuckets(ListBuckets::default());
    match ask(node, list).await {
        Ok(Reply::Buckets(page)) => page.buckets.into_iter().map(|(name, _)| name).collect(),
        other => panic!("{other:?}"),
    }
}

async fn head(node: &Node, bucket: &str) -> Result<Reply, Code> {
    let head = Command::HeadBucket(HeadBucket {
        bucket: bucket.to_owned(),
        action: Action::ListBucket,
        key: None,
    });
    ask(node, head).await.map_err(|error| error.code)
}

/// Again while members come and go.
async fn patiently<T>(work: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let end = Instant::now() + PATIENCE;
    loop {
        match work().await {
            Err(error) if error.reason.is_some() && Instant::now() < end => {
                tokio::time::sleep(LOOK).await;
            }
            done => return done,
        }
    }
}

async fn put(node: &Node, bucket: &str, key: &str, bytes: &bytes::Bytes) {
    put_within(PATIENCE, node, bucket, key, bytes).await;
}

impl World {
    /// Two chains of data, each with members on two of the nodes.
    async fn start() -> World {
        World::start_as(Version::NEWEST).await
    }

    async fn start_as(version: Version) -> World {
        let folder = tempfile::tempdir().unwrap();
        let place = processes::found(folder.path(), version, &NAMES, 2, SESSION);
        let mut world = World {
            nodes: Vec::new(),
            place,
            folder,
            speaks: version,
            full: None,
        };
        for name in NAMES {
            let node = world.join(name).await;
            world.nodes.push(node);
        }
        for node in &world.nodes {
            node.ready().await.unwrap();
        }
        let nodes = &world.nodes;
        let members = |chain| {
            let here = nodes.iter().filter(|it| it.chains_here().contains(&chain));
            here.count()
        };
        until("the chains of data serve", async || {
            [1, 2].map(|chain| members(ChainId(chain))) == [2, 2]
        })
        .await;
        world
    }

    async fn join(&self, name: &str) -> Node {
        let mut member = Settings {
            safe_point_interval: Duration::from_millis(200),
            slow_after: SESSION,
            ..asked::settings(&self.folder)
        };
        member.limits.s3.day_ms = DAY_MS;
        member.blocks.scrub_bytes_per_second = 1 << 30;
        if let Some((_, reserve)) = self.full.filter(|(full, _)| *full == name) {
            member.blocks.reserve_bytes = reserve;
        }
        let (place, folder) = (&self.place, self.folder.path());
        processes::join(place, folder, name, self.speaks, member, |_, _| {}).await
    }

    /// Two buckets on different chains.
    async fn two_buckets(&self) -> [(&'static str, ChainId); 2] {
        let mut made = [("first", ChainId(0)), ("second", ChainId(0))];
        for (at, (bucket, chain)) in made.iter_mut().enumerate() {
            let node = &self.nodes[at];
            patiently(async || create_one(node, bucket).await)
                .await
                .unwrap();
            *chain = chain_of(&self.nodes[2], bucket).await;
        }
        let mut chains = made.map(|(_, chain)| chain);
        chains.sort_unstable();
        assert_eq!(chains, [ChainId(1), ChainId(2)]);
        made
    }

    /// A node that serves the chain, or one that does not.
    fn node_of(&self, chain: ChainId, serves: bool) -> usize {
        let mut nodes = self.nodes.iter();
        let at = nodes.position(|node| node.chains_here().contains(&chain) == serves);
        at.unwrap_or_else(|| panic!("no node where {chain} serves: {serves}"))
    }

    /// Waits until no node holds a block.
    async fn empty(&self) {
        until("all blocks go", async || {
            let held = self.nodes.iter().map(|node| node.counters().blocks.blocks);
            held.sum::<u64>() == 0
        })
        .await;
    }

    /// Does something while a node is away.
    async fn without(&mut self, away: usize, work: impl AsyncFnOnce(&[Node])) {
        self.away(away, work, || ()).await;
    }

    /// The same, and changes what the node has on its disk.
    async fn away(&mut self, away: usize, work: impl AsyncFnOnce(&[Node]), change: impl FnOnce()) {
        let node = self.nodes.remove(away);
        let chains = node.chains_here();
        node.close().await;
        drop(node);
        work(&self.nodes).await;
        change();
        let node = self.join(NAMES[away]).await;
        until("the node serves its chains again", async || {
            node.chains_here() == chains
        })
        .await;
        self.nodes.insert(away, node);
    }

    /// The nodes that have a member of the chain.
    fn members(&self, chain: ChainId) -> [usize; 2] {
        let all = 0..self.nodes.len();
        let members = all.filter(|at| self.nodes[*at].chains_here().contains(&chain));
        members.collect::<Vec<_>>().try_into().unwrap()
    }

    /// The folder of a member's chain.
    fn folder_of(&self, at: usize, chain: ChainId) -> PathBuf {
        let chains = self.folder.path().join(NAMES[at]).join("chains");
        chains.join(chain.0.to_string())
    }

    /// Puts so many objects of two blocks into a bucket.
    async fn fill(&self, bucket: &str, count: u64) {
        for number in 0..count {
            let (key, bytes) = (format!("k{number}"), bytes_of(number, 2 * BLOCK));
            put(&self.nodes[0], bucket, &key, &bytes).await;
        }
    }

    /// Reads objects where only one of the two members of the chain is there.
    async fn check_alone(&mut self, chain: ChainId, at: usize, bucket: &str, count: u64) {
        let members = self.members(chain);
        let other = members.into_iter().find(|it| *it != at).unwrap();
        let work = async |others: &[Node]| {
            for number in 0..count {
                let key = format!("k{number}");
                let found = patiently(async || get_in(&others[0], bucket, &key).await).await;
                assert!(found.unwrap() == bytes_of(number, 2 * BLOCK), "{key}");
            }
        };
        self.without(other, work).await;
    }

    async fn close(self) {
        for node in &self.nodes {
            node.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_process_takes_and_reads_the_objects_of_all_chains() {
    let world = World::start().await;
    let made = world.two_buckets().await;
    let sizes = [5, BLOCK, 3 * BLOCK + 5];
    for (bucket, _) in made {
        for (at, node) in world.nodes.iter().enumerate() {
            for (number, size) in sizes.iter().enumerate() {
                let bytes = bytes_of((10 * at + number) as u64, *size);
                put(node, bucket, &format!("k{at}{number}"), &bytes).await;
            }
            let of = upload_in(node, bucket, &format!("parts{at}"))
                .await
                .unwrap();
            let mut listed = Vec::new();
            for number in [1, 2] {
                let bytes = bytes_of(number, BLOCK + 1);
                listed.push(part(node, &of, number as u32, &bytes).await);
            }
            complete(node, &of, listed).await.unwrap();
        }
    }
    for node in &world.nodes {
        for (chain, counters) in node.chains() {
            assert_eq!(0 < counters.blocks.blocks, chain != ChainId::SYSTEM);
        }
        assert_eq!(buckets(node).await, ["first", "second"]);
        for (bucket, _) in made {
            assert_eq!(keys_in(node, bucket).await.len(), 3 * sizes.len() + 3);
            for at in 0..3 {
                for (number, size) in sizes.iter().enumerate() {
                    let found = get_in(node, bucket, &format!("k{at}{number}")).await;
                    assert!(found.unwrap() == bytes_of((10 * at + number) as u64, *size));
                }
                let parts = [1, 2].map(|number| bytes_of(number, BLOCK + 1));
                let found = get_in(node, bucket, &format!("parts{at}")).await;
                assert!(found.unwrap() == parts.concat());
            }
        }
    }
    // Bytes of a bucket are copied to one of the other chain.
    let bytes = get_in(&world.nodes[0], "first", "k12").await.unwrap();
    put(&world.nodes[1], "second", "copy", &bytes.clone().into()).await;
    for bucket in ["first", "second"] {
        for key in keys_in(&world.nodes[2], bucket).await {
            if key != "copy" {
                delete_in(&world.nodes[2], bucket, &key).await.unwrap();
            }
        }
    }
    assert!(get_in(&world.nodes[2], "second", "copy").await.unwrap() == bytes);
    delete_in(&world.nodes[0], "second", "copy").await.unwrap();
    world.empty().await;
    world.close().await;
}

/// It shows SB-7 and COLLECT-4.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_goes_with_its_blocks_and_its_name_is_free_everywhere() {
    let world = World::start().await;
    let (bucket, chain) = world.two_buckets().await[0];
    let without = &world.nodes[world.node_of(chain, false)];
    let with = &world.nodes[world.node_of(chain, true)];
    put(without, bucket, "k", &bytes_of(1, 2 * BLOCK)).await;
    let full = delete_one(without, bucket).await.unwrap_err();
    assert_eq!(full.code, Code::BucketNotEmpty);
    delete_in(with, bucket, "k").await.unwrap();
    // What was never committed goes: an open upload with its bucket, the other when it is given up.
    let of = upload_in(without, bucket, "open").await.unwrap();
    part(without, &of, 1, &bytes_of(2, 2 * BLOCK)).await;
    for node in [with, without] {
        let stored = store_in(node, bucket, None, &bytes_of(3, 2 * BLOCK)).await;
        node.give_up(&stored.unwrap());
    }
    assert_eq!(delete_one(without, bucket).await, Ok(Reply::Done));
    for node in &world.nodes {
        assert_eq!(head(node, bucket).await, Err(Code::NoSuchBucket));
        assert_eq!(buckets(node).await, ["second"]);
        let gone = store_in(node, bucket, None, &bytes_of(4, 9)).await;
        assert_eq!(gone.unwrap_err(), Trouble::NoCollection);
    }
    world.empty().await;
    // The name is anyone's, on the chain whose turn it is.
    let mut chains = Vec::new();
    for round in 0..3 {
        let node = &world.nodes[round];
        create_one(node, bucket).await.unwrap();
        chains.push(chain_of(node, bucket).await);
        for node in &world.nodes {
            assert!(keys_in(node, bucket).await.is_empty());
        }
        for (at, node) in world.nodes.iter().enumerate() {
            let bytes = bytes_of((round * 3 + at) as u64, 2 * BLOCK);
            put(node, bucket, "k", &bytes).await;
            assert!(get_in(without, bucket, "k").await.unwrap() == bytes);
        }
        let owner = node.bucket_owner(bucket).await.unwrap();
        assert_eq!(owner, Some(AccountId(account().0)));
        delete_in(node, bucket, "k").await.unwrap();
        delete_one(node, bucket).await.unwrap();
    }
    chains.sort_unstable();
    chains.dedup();
    assert_eq!(chains, [ChainId(1), ChainId(2)]);
    world.empty().await;
    world.close().await;
}

/// Its answer is final: no other chain is asked for a bucket that the first one has.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_put_whose_bucket_is_made_again_meanwhile_is_refused() {
    let world = World::start().await;
    let (bucket, _) = world.two_buckets().await[0];
    for has_member in [true, false] {
        let chain = chain_of(&world.nodes[0], bucket).await;
        let node = &world.nodes[world.node_of(chain, has_member)];
        let stored = store_in(node, bucket, None, &bytes_of(1, 2 * BLOCK)).await;
        let stored = stored.unwrap();
        delete_one(node, bucket).await.unwrap();
        let made = patiently(async || create_one(node, bucket).await).await;
        made.unwrap();
        let late = PutObject {
            bucket: bucket.to_owned(),
            ..put_of("k", stored.clone())
        };
        let late = Command::PutObject(Box::new(late));
        let refused = ask(node, late).await.unwrap_err();
        assert_eq!((refused.code, refused.reason), (Code::NoSuchBucket, None));
        assert!(keys_in(node, bucket).await.is_empty());
        node.give_up(&stored);
    }
    world.empty().await;
    world.close().await;
}

/// What came while a process was away is there when only that process is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_of_a_chain_of_data_has_every_byte_though_it_was_away() {
    let mut world = World::start().await;
    let made = world.two_buckets().await;
    let bytes = |at: usize| bytes_of(at as u64, BLOCK + 77 * at);
    for (at, (bucket, _)) in made.iter().enumerate() {
        put(&world.nodes[0], bucket, "before", &bytes(at)).await;
    }
    for away in 0..NAMES.len() {
        let work = async |others: &[Node]| {
            for (bucket, _) in made {
                put(&others[away % 2], bucket, &format!("k{away}"), &bytes(away)).await;
            }
        };
        world.without(away, work).await;
    }
    for away in 0..NAMES.len() {
        let work = async |others: &[Node]| {
            for (at, (bucket, _)) in made.iter().enumerate() {
                let keys = (0..NAMES.len()).map(|number| (format!("k{number}"), number));
                for (key, number) in keys.chain([("before".to_owned(), at)]) {
                    for node in others {
                        let found = patiently(async || get_in(node, bucket, &key).await).await;
                        assert!(found.unwrap() == bytes(number), "{key}");
                    }
                }
            }
        };
        world.without(away, work).await;
    }
    for (bucket, _) in made {
        for key in keys_in(&world.nodes[0], bucket).await {
            let deleted = patiently(async || delete_in(&world.nodes[0], bucket, &key).await).await;
            deleted.unwrap();
        }
    }
    world.empty().await;
    world.close().await;
}

/// What is there when the cluster's version rises stays where it is, and what comes then is placed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_of_an_older_version_stays_on_the_system_chain() {
    let mut world = World::start_as(Version::SEVENTH).await;
    let bytes = bytes_of(1, 2 * BLOCK);
    create_one(&world.nodes[0], "old").await.unwrap();
    assert_eq!(chain_of(&world.nodes[1], "old").await, ChainId::SYSTEM);
    put(&world.nodes[1], "old", "k", &bytes).await;
    world.speaks = Version::NEWEST;
    for away in 0..NAMES.len() {
        world.without(away, async |_| ()).await;
    }
    until("a new bucket is on a chain of data", async || {
        let node = &world.nodes[2];
        patiently(async || create_one(node, "new").await)
            .await
            .unwrap();
        let is_placed = chain_of(node, "new").await != ChainId::SYSTEM;
        if !is_placed {
            patiently(async || delete_one(node, "new").await)
                .await
                .unwrap();
        }
        is_placed
    })
    .await;
    assert_eq!(chain_of(&world.nodes[1], "old").await, ChainId::SYSTEM);
    for node in &world.nodes {
        assert_eq!(buckets(node).await, ["new", "old"]);
        assert!(get_in(node, "old", "k").await.unwrap() == bytes);
        put(node, "old", "more", &bytes).await;
        put(node, "new", "k", &bytes).await;
    }
    for (bucket, key) in [("old", "k"), ("old", "more"), ("new", "k")] {
        delete_in(&world.nodes[0], bucket, key).await.unwrap();
    }
    for bucket in ["old", "new"] {
        assert_eq!(delete_one(&world.nodes[1], bucket).await, Ok(Reply::Done));
    }
    world.empty().await;
    // Made again it is placed.
    create_one(&world.nodes[2], "old").await.unwrap();
    assert_ne!(chain_of(&world.nodes[0], "old").await, ChainId::SYSTEM);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn objects_of_a_chain_of_data_expire_by_the_lifecycle_of_their_bucket() {
    let world = World::start().await;
    let [(bucket, chain), (other, _)] = world.two_buckets().await;
    let node = &world.nodes[world.node_of(chain, false)];
    for (bucket, key) in [(bucket, "logs/1"), (bucket, "photos/1"), (other, "logs/1")] {
        put(node, bucket, key, &bytes_of(1, 2 * BLOCK)).await;
    }
    let of = upload_in(node, bucket, "logs/open").await.unwrap();
    part(node, &of, 1, &bytes_of(2, 2 * BLOCK)).await;
    let mut rule = LifecycleRule {
        is_enabled: true,
        expiration: Some(Expiration::Days(1)),
        abort_days: Some(1),
        ..LifecycleRule::default()
    };
    rule.filter.prefix = "logs/".to_owned();
    let put = Command::PutSetting(PutSetting {
        bucket: bucket.to_owned(),
        setting: Setting::Lifecycle(vec![rule]),
    });
    ask(node, put).await.unwrap();
    until("what is of the rule expires", async || {
        keys_in(node, bucket).await == ["photos/1"]
    })
    .await;
    // Two objects of two blocks are left, each at two members.
    until("the blocks of what expired go", async || {
        let held = world.nodes.iter().map(|node| node.counters().blocks.blocks);
        held.sum::<u64>() == 8
    })
    .await;
    for (bucket, key) in [(bucket, "photos/1"), (other, "logs/1")] {
        assert!(get_in(node, bucket, key).await.unwrap() == bytes_of(1, 2 * BLOCK));
    }
    world.close().await;
}

/// Damages the middle of the largest file of a folder.
fn damage(folder: &Path) {
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let largest = files.max_by_key(|path| std::fs::metadata(path).unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    bytes[BLOCK / 2] ^= 1;
    std::fs::write(largest, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_scrub_repairs_damage_of_a_chain_of_data_from_its_other_member() {
    let mut world = World::start().await;
    let (bucket, chain) = world.two_buckets().await[0];
    world.fill(bucket, 3).await;
    for at in world.members(chain) {
        let blocks = world.folder_of(at, chain).join("blocks");
        world.away(at, async |_| (), || damage(&blocks)).await;
        until("a scrub repairs it", async || {
            let chains = world.nodes[at].chains();
            let of = chains.into_iter().find(|(number, _)| *number == chain);
            let blocks = of.unwrap().1.blocks;
            blocks.blocks == 6 && blocks.alive_bytes <= blocks.scrubbed_bytes && blocks.bad == 0
        })
        .await;
        world.check_alone(chain, at, bucket, 3).await;
    }
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_of_a_chain_of_data_with_an_empty_folder_is_filled_with_bytes() {
    let mut world = World::start().await;
    let (bucket, chain) = world.two_buckets().await[0];
    world.fill(bucket, 10).await;
    for at in world.members(chain) {
        let more = async |others: &[Node]| {
            put(&others[0], bucket, "k10", &bytes_of(10, 2 * BLOCK)).await;
        };
        let folder = world.folder.path().join(NAMES[at]);
        let empty = || std::fs::remove_dir_all(folder).unwrap();
        world.away(at, more, empty).await;
        world.check_alone(chain, at, bucket, 11).await;
    }
    world.close().await;
}

/// It shows CB-3 and CB-4.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_full_member_refuses_does_not_fill_the_other() {
    let mut world = World::start().await;
    let (bucket, chain) = world.two_buckets().await[0];
    let [full, other] = world.members(chain);
    world.full = Some((NAMES[full], u64::MAX));
    // Who goes away last is no head.
    for last in [other, full] {
        for at in [full + other - last, last] {
            world.without(at, async |_| ()).await;
        }
        let node = &world.nodes[other];
        let refused = async |number: u64| {
            let stored = store_in(node, bucket, None, &bytes_of(number, BLOCK)).await;
            matches!(stored, Err(Trouble::Unavailable(why)) if why.reason == Reason::BlocksFull)
        };
        until("the member is full", async || refused(0).await).await;
        for number in 1..20 {
            assert!(refused(number).await, "{number}");
        }
        // It may hold what was refused first, each time.
        let held = node.counters().blocks.blocks;
        assert!(held <= 2, "{held}");
    }
    world.close().await;
}

/// It shows BSTORE-7.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_without_room_for_new_blocks_comes_back_with_all_that_it_missed() {
    let mut world = World::start().await;
    let (bucket, chain) = world.two_buckets().await[0];
    world.fill(bucket, 3).await;
    let [at, _] = world.members(chain);
    // What is free is less than the reserve, and more than three quarters of it.
    let disk = rustix::fs::statvfs(world.folder.path()).unwrap();
    let free = disk.f_bavail * disk.f_frsize;
    world.full = Some((NAMES[at], free / 7 * 8));
    let missed = async |others: &[Node]| {
        for number in 3..10 {
            let (key, bytes) = (format!("k{number}"), bytes_of(number, 2 * BLOCK));
            put(&others[0], bucket, &key, &bytes).await;
        }
    };
    world.without(at, missed).await;
    let refused = async || {
        let stored = store_in(&world.nodes[at], bucket, None, &bytes_of(0, BLOCK)).await;
        matches!(stored, Err(Trouble::Unavailable(why)) if why.reason == Reason::BlocksFull)
    };
    until("the member serves, and is full", refused).await;
    world.check_alone(chain, at, bucket, 10).await;
    world.close().await;
}
