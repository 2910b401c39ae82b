//! Objects on a chain of three members. Every member that serves has every byte, with any members
//! absent when it came. What no version names goes at all of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "buckets/mod.rs"]
mod asked;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use asked::*;
use fader_node::{ClusterSettings, Node, Wiring};
use fader_services::s3::Code;

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than a test: members are given up when it says so, and not when the machine is slow.
const SESSION: Duration = Duration::from_secs(600);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);
const NAMES: [&str; 3] = ["n1", "n2", "n3"];

struct World {
    folder: tempfile::TempDir,
    node: Node,
    /// Keys and the seeds of their bytes.
    objects: Vec<(String, u64)>,
}

fn bytes(seed: u64) -> bytes::Bytes {
    bytes_of(seed, BLOCK + 1 + (seed as usize * 7919) % BLOCK)
}

impl World {
    async fn start(wiring: Wiring) -> World {
        let folder = tempfile::tempdir().unwrap();
        let mut member = settings(&folder);
        member.limits.blocks.lease_ms = 12_000;
        member.safe_point_interval = Duration::from_millis(200);
        member.slow_after = SESSION;
        let settings = ClusterSettings {
            size: 3,
            wiring,
            session: SESSION,
            delay: Duration::ZERO,
            member,
        };
        let node = Node::open_cluster(settings, drop).unwrap();
        node.ready().await.unwrap();
        create(&node).await.unwrap();
        World {
            folder,
            node,
            objects: Vec::new(),
        }
    }

    fn blocks(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name).join("blocks")
    }

    /// How many blocks a member holds.
    fn held(&self, name: &str) -> u64 {
        let (_, members) = self.node.cluster().unwrap().status();
        let mut named = members.iter().filter(|it| it.name == name);
        named.next().unwrap().blocks
    }

    async fn put(&mut self, count: u64) {
        for _ in 0..count {
            let seed = self.objects.len() as u64 + 1;
            let key = format!("k{seed}");
            self.put_one(&key, seed).await;
            self.objects.push((key, seed));
        }
    }

    async fn put_one(&self, key: &str, seed: u64) {
        put_within(PATIENCE, &self.node, B, key, &bytes(seed)).await;
    }

    /// Kills a member, whose session is over at once.
    fn kill(&self, name: &str) {
        let cluster = self.node.cluster().unwrap();
        cluster.kill(name).unwrap();
        cluster.end_session(name).unwrap();
    }

    fn restart(&self, name: &str) {
        self.node.cluster().unwrap().restart(name).unwrap();
    }

    /// Waits until a member serves.
    async fn serves(&self, name: &str) {
        let is_so = || {
            let (newest, members) = self.node.cluster().unwrap().status();
            let epoch = newest.map(|newest| newest.epoch);
            members.iter().any(|it| {
                let serves = matches!(it.role, Some("serving" | "head"));
                it.name == name && it.state == "running" && serves && Some(it.epoch) == epoch
            })
        };
        let waiting = async {
            while !is_so() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        let status = || self.node.cluster().unwrap().status();
        waited.unwrap_or_else(|_| panic!("{name} does not serve: {:?}", status()));
    }

    /// Reads every object, of members that serve.
    async fn check(&self) {
        let end = Instant::now() + PATIENCE;
        for (key, seed) in &self.objects {
            loop {
                let found = match find(&self.node, key, 0).await {
                    Ok(found) => read(&self.node, key, found).await.ok(),
                    // Members come and go.
                    Err(error) if error.reason.is_some() => None,
                    Err(error) => panic!("{key}: {error:?}"),
                };
                match found {
                    Some(found) => {
                        assert!(found == bytes(*seed), "{key}");
                        break;
                    }
                    None => assert!(Instant::now() < end, "{key} is not read"),
                }
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Kills all but this member, does something, and starts them again.
    async fn alone(&self, name: &str, work: impl AsyncFnOnce()) {
        self.serves(name).await;
        let others: Vec<&str> = NAMES.into_iter().filter(|it| *it != name).collect();
        others.iter().for_each(|other| self.kill(other));
        work().await;
        others.iter().for_each(|other| self.restart(other));
        self.all_serve().await;
    }

    async fn all_serve(&self) {
        for name in NAMES {
            self.serves(name).await;
        }
    }

    /// Reads every object where only this member is left.
    async fn check_alone(&self, name: &str) {
        self.alone(name, async || self.check().await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_member_has_every_byte_though_any_was_away() {
    for wiring in [Wiring::Star, Wiring::Chain] {
        let mut world = World::start(wiring).await;
        world.all_serve().await;
        world.put(3).await;
        for name in NAMES {
            world.kill(name);
            world.put(3).await;
            world.restart(name);
            world.put(3).await;
            world.serves(name).await;
            world.check_alone(name).await;
        }
        world.node.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_an_empty_folder_is_filled_with_bytes() {
    let mut world = World::start(Wiring::Star).await;
    world.all_serve().await;
    world.put(10).await;
    world.kill("n2");
    world.put(1).await;
    std::fs::remove_dir_all(world.folder.path().join("data/n2")).unwrap();
    world.restart("n2");
    world.serves("n2").await;
    world.check_alone("n2").await;
    world.node.close().await;
}

/// It shows CB-2.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_a_member_lost_come_from_another() {
    let mut world = World::start(Wiring::Star).await;
    world.all_serve().await;
    world.put(6).await;
    world.kill("n3");
    std::fs::remove_dir_all(world.blocks("n3")).unwrap();
    world.restart("n3");
    world.serves("n3").await;
    // Read at any of them, also where they are missing.
    world.check().await;
    let is_mended = async {
        // Each object has two.
        while world.held("n3") < 12 || world.held("n3") != world.held("n1") {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, is_mended).await.unwrap();
    world.check_alone("n3").await;
    world.node.close().await;
}

/// It shows COLLECT-4.
#[tokio::test(flavor = "multi_thread")]
async fn replaced_deleted_and_abandoned_blocks_go_at_every_member() {
    let mut world = World::start(Wiring::Star).await;
    world.all_serve().await;
    world.put(5).await;
    world.put_one("k1", 77).await;
    let of = upload(&world.node, "parts").await.unwrap();
    part(&world.node, &of, 1, &bytes(78)).await;
    let listed = part(&world.node, &of, 2, &bytes(79)).await;
    complete(&world.node, &of, vec![listed]).await.unwrap();
    let stored = store(&world.node, None, &bytes(80)).await.unwrap();
    world.node.give_up(&stored);
    for key in keys(&world.node).await {
        delete(&world.node, &key).await.unwrap();
    }
    for name in NAMES {
        let is_empty = async {
            while 0 < world.node.counters().blocks.blocks {
                tokio::time::sleep(LOOK).await;
            }
        };
        let is_emptied = async || tokio::time::timeout(PATIENCE, is_empty).await.unwrap();
        world.alone(name, is_emptied).await;
    }
    world.node.close().await;
}

/// It shows COLLECT-5.
#[tokio::test(flavor = "multi_thread")]
async fn eventual_puts_of_blocks_are_whole_at_every_member() {
    for wiring in [Wiring::Star, Wiring::Chain] {
        let world = World::start(wiring).await;
        world.all_serve().await;
        let bucket = "mixed";
        create_mixed(&world.node, bucket).await;
        let put = async |key: &str, seed: u64, w: u8| {
            put_eventually(&world.node, bucket, key, &bytes(seed), w).await;
        };
        for seed in 1..=6 {
            put(&format!("k{seed}"), seed, 1 + seed as u8 % 3).await;
        }
        // Some are replaced, and one is put while a member is away. Who has not heard of an
        // eventual put may stamp below it.
        for seed in 10..16 {
            put("k1", seed, 1).await;
            let body = bytes(seed);
            let shown = shows(&world.node, bucket, "k1", &body);
            tokio::time::timeout(PATIENCE, shown).await.unwrap();
            put_within(PATIENCE, &world.node, bucket, "k2", &bytes(seed)).await;
        }
        world.kill("n2");
        put("k3", 20, 1).await;
        let lost = store_in(&world.node, bucket, None, &bytes(21)).await;
        let lost = lost.unwrap();
        world.restart("n2");
        world.serves("n2").await;
        world.node.give_up(&lost);
        let objects = [(1, 15), (2, 15), (3, 20), (4, 4), (5, 5), (6, 6)];
        let all_show = async {
            for (key, seed) in objects {
                shows(&world.node, bucket, &format!("k{key}"), &bytes(seed)).await;
            }
        };
        tokio::time::timeout(PATIENCE, all_show).await.unwrap();
        for name in NAMES {
            let is_whole = async {
                // Each object has two blocks, and nothing else is left.
                while world.held(name) != 2 * objects.len() as u64 {
                    tokio::time::sleep(LOOK).await;
                }
            };
            let held = || world.held(name);
            let waited = tokio::time::timeout(PATIENCE, is_whole).await;
            waited.unwrap_or_else(|_| panic!("{name} holds {}", held()));
            let reads = async || {
                for (key, seed) in objects {
                    shows(&world.node, bucket, &format!("k{key}"), &bytes(seed)).await;
                }
            };
            world.alone(name, reads).await;
        }
        let refused = name_eventually(&world.node, bucket, "k1", lost, 1).await;
        assert_eq!(refused.unwrap_err().code, Code::AttemptFenced);
        world.node.close().await;
    }
}
