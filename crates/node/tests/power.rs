//! Power cuts: a node on a disk that keeps what was synced and any part of the rest. Between them
//! processes are killed, whose files are as they wrote them, synced or not.
//!
//! A *incarnation* is a start, writes of some clients, and a power cut. What every client was told
//! must be there in the next incarnation; what it was not told may be there once, or not at all.
//! The power is cut at every numbered operation of a run, and at random ones in `FADER_POWER_SEEDS`
//! seeds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fader_node::disk::{Disk, SyncSite};
use fader_node::{Call, Durability, Node, Secret, Settings};
use fader_services::catalog::{AccountId, KeyNature};
use fader_services::level::ConsistencyOptions;
use fader_services::simpledb::{
    AttributePut, Code, Error, Expected, ItemDelete, ItemPut, Reply, Request,
};

use asking::Ask as _;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use support::{MemoryEngine, SimulatedDisk};

const CLIENTS: u64 = 3;
const WRITES_PER_LIFE: u64 = 10;
const LIVES: u64 = 3;
const ITEMS: u8 = 3;
const DOMAIN: &str = "domain";
const SECRET: &str = "correct horse battery staple";

type Item = BTreeMap<String, BTreeSet<String>>;
type Items = BTreeMap<String, Item>;

#[derive(Clone, Debug)]
enum Write {
    Add {
        item: String,
        value: String,
    },
    Replace {
        item: String,
        value: String,
    },
    Delete {
        item: String,
    },
    /// Counts one up if no other write did.
    Count {
        from: u64,
    },
}

impl Write {
    fn apply(&self, items: &mut Items) {
        match self {
            Write::Add { item, value } => {
                attribute(items, item, "a").insert(value.clone());
            }
            Write::Replace { item, value } => {
                *attribute(items, item, "a") = [value.clone()].into();
            }
            Write::Delete { item } => {
                items.remove(item);
            }
            Write::Count { from } => {
                *attribute(items, "counter", "n") = [(from + 1).to_string()].into();
            }
        }
    }

    fn request(&self, client: u64) -> Request {
        let name = |item: &str| Some(format!("{client}-{item}"));
        let put = |item: &str, attribute: &str, value: &str, replace| ItemPut {
            item: name(item),
            attributes: vec![AttributePut {
                name: Some(attribute.to_owned()),
                value: Some(value.to_owned()),
                replace,
            }],
        };
        let (put, expected) = match self {
            Write::Add { item, value } => (put(item, "a", value, false), Vec::new()),
            Write::Replace { item, value } => (put(item, "a", value, true), Vec::new()),
            Write::Count { from } => {
                let value = (0 < *from).then(|| from.to_string());
                let exists = (*from == 0).then_some(false);
                let expected = Expected {
                    name: Some("n".to_owned()),
                    value,
                    exists,
                };
                (
                    put("counter", "n", &(from + 1).to_string(), true),
                    vec![expected],
                )
            }
            Write::Delete { item } => {
                let delete = ItemDelete {
                    item: name(item),
                    attributes: Vec::new(),
                };
                let domain = DOMAIN.to_owned();
                return Request::DeleteAttributes {
                    domain,
                    delete,
                    expected: Vec::new(),
                };
            }
        };
        Request::PutAttributes {
            domain: DOMAIN.to_owned(),
            put,
            expected,
        }
    }
}

fn attribute<'a>(items: &'a mut Items, item: &str, name: &str) -> &'a mut BTreeSet<String> {
    items
        .entry(item.to_owned())
        .or_default()
        .entry(name.to_owned())
        .or_default()
}

/// What a client knows.
#[derive(Clone, Debug, Default)]
struct Client {
    number: u64,
    /// What it was told.
    items: Items,
    /// The write it was told nothing of.
    maybe: Option<Write>,
}

impl Client {
    async fn live(mut self, node: Node, seed: u64) -> Client {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ (self.number << 32));
        for serial in 0..WRITES_PER_LIFE {
            let item = format!("item{}", random.random_range(0..ITEMS));
            let value = format!(
                "{seed}-{serial}-{}",
                "x".repeat(random.random_range(0..200))
            );
            let write = match random.random_range(0..8_u8) {
                0..3 => Write::Add { item, value },
                3 => Write::Replace { item, value },
                4 => Write::Delete { item },
                _ => Write::Count { from: self.count() },
            };
            match node
                .ask(Call::new(
                    &account(),
                    write.request(self.number),
                    ConsistencyOptions::default(),
                ))
                .await
                .0
            {
                Ok(_) => write.apply(&mut self.items),
                Err(error) => {
                    assert_eq!(error.code, Code::ServiceUnavailable, "{error}");
                    self.maybe = Some(write);
                    break;
                }
            }
        }
        self
    }

    fn count(&self) -> u64 {
        let count = self.items.get("counter").and_then(|item| item["n"].first());
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// Compares what is there with what the client knows, and then knows it.
    async fn check(&mut self, node: &Node) -> Result<(), String> {
        let mut found = Items::new();
        let names = (0..ITEMS)
            .map(|item| format!("item{item}"))
            .chain(["counter".to_owned()]);
        for name in names {
            let item = read(node, &format!("{}-{name}", self.number)).await?;
            if !item.is_empty() {
                found.insert(name, item);
            }
        }
        let mut other = self.items.clone();
        if let Some(write) = self.maybe.take() {
            write.apply(&mut other);
        }
        if found != self.items && found != other {
            let Client { number, items, .. } = self;
            return Err(format!(
                "client {number} was told {items:?} and finds {found:?}"
            ));
        }
        self.items = found;
        Ok(())
    }
}

async fn read(node: &Node, item: &str) -> Result<Item, String> {
    let (domain, item) = (DOMAIN.to_owned(), item.to_owned());
    let request = Request::GetAttributes {
        domain,
        item,
        names: Vec::new(),
        consistent: true,
    };
    match node
        .ask(Call::new(
            &account(),
            request,
            ConsistencyOptions::default(),
        ))
        .await
        .0
    {
        Ok(answered) => {
            let Reply::Attributes(pairs) = answered.reply else {
                panic!("attributes are asked")
            };
            let mut found = Item::new();
            for pair in pairs {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                found
                    .entry(text(&pair.name))
                    .or_default()
                    .insert(text(&pair.value));
            }
            Ok(found)
        }
        Err(Error {
            code: Code::NoSuchDomain,
            ..
        }) => Ok(Item::new()),
        Err(error) => Err(error.to_string()),
    }
}

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

/// The machine, from incarnation to incarnation.
struct World {
    disk: SimulatedDisk,
    engine: Arc<MemoryEngine>,
    clients: Vec<Client>,
    epoch: u64,
    /// The access key that was acknowledged.
    key: Option<String>,
    durability: Durability,
}

impl World {
    fn new(ignored: Option<SyncSite>) -> Self {
        let disk = SimulatedDisk::new();
        disk.ignore_sync(ignored);
        let clients = (0..CLIENTS)
            .map(|number| Client {
                number,
                ..Client::default()
            })
            .collect();
        let engine = Arc::new(MemoryEngine::new(disk.clone()));
        World {
            disk,
            engine,
            clients,
            epoch: 0,
            key: None,
            durability: Durability::Disk,
        }
    }

    /// One incarnation; the error says what was lost or served wrongly. Ends early without power.
    async fn live(&mut self, seed: u64) -> Result<(), String> {
        let settings = Settings {
            segment_bytes: 1500,
            log_retain_bytes: 0,
            durability: self.durability,
            ..Settings::new("/data".into())
        };
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let node = match Node::open_with(settings, &disk, self.engine.clone()) {
            Ok((node, _)) => node,
            Err(_) if !self.disk.has_power() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let lived = self.live_with(&node, seed).await;
        node.close().await;
        lived
    }

    async fn live_with(&mut self, node: &Node, seed: u64) -> Result<(), String> {
        if node.health() != fader_node::Health::Serving {
            return Ok(());
        }
        let epoch = node.counters().epoch;
        if epoch <= self.epoch {
            return Err(format!(
                "epoch {epoch} was adopted before, up to {}",
                self.epoch
            ));
        }
        self.epoch = epoch;
        for client in &mut self.clients {
            client.check(node).await?;
        }
        if let Some(id) = &self.key {
            let key = node.open_key(id).await;
            let key = key.map_err(|error| error.to_string())?;
            let secret = key.as_ref().map(|key| key.secret.reveal());
            if secret != Some(SECRET) {
                return Err(format!("the secret of {id} is lost"));
            }
        } else {
            let id = format!("AKIA{seed:016}");
            let pair = (id.clone(), Secret::new(SECRET.to_owned()));
            if node
                .create_key(&account(), Some(pair), "", KeyNature::default())
                .await
                .is_ok()
            {
                self.key = Some(id);
            }
        }
        let create = Request::CreateDomain {
            domain: DOMAIN.to_owned(),
            mode: None,
            preference: None,
        };
        if node
            .ask(Call::new(&account(), create, ConsistencyOptions::default()))
            .await
            .0
            .is_err()
        {
            return Ok(());
        }
        let mut living = tokio::task::JoinSet::new();
        for client in self.clients.drain(..) {
            living.spawn(client.live(node.clone(), seed));
        }
        self.clients = living.join_all().await;
        Ok(())
    }

    /// The process is gone, and perhaps the machine had no power either.
    fn crash(&mut self, seed: u64, ignored: Option<SyncSite>) {
        if seed.is_multiple_of(3) || self.durability == Durability::Os {
            self.disk.restore_power();
        } else {
            self.disk = self.disk.crash(seed);
            self.disk.ignore_sync(ignored);
        }
        self.engine = Arc::new(self.engine.crash(self.disk.clone(), seed));
    }
}

/// Lives in a row, each cut at a random operation, the last one not cut.
fn run_seed(seed: u64, ignored: Option<SyncSite>) -> Result<(), String> {
    run_world(World::new(ignored), seed, ignored)
}

fn run_world(mut world: World, seed: u64, ignored: Option<SyncSite>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    runtime.block_on(async {
        for incarnation in 0..LIVES {
            // Half of the cuts while it starts, where there is most to get wrong.
            let cut = match random.random_bool(0.5) {
                true => random.random_range(0..16),
                false => random.random_range(0..80),
            };
            world.disk.cut_power_at(world.disk.operations() + cut);
            world.live(seed * LIVES + incarnation).await?;
            world.crash(random.random(), ignored);
        }
        world.live(seed).await
    })
}

/// One incarnation cut at an operation, and one that is not. Says how many operations the first
/// had.
fn run_cut_at(cut: u64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new(None);
        world.disk.cut_power_at(cut);
        world.live(1).await.unwrap();
        let operations = world.disk.operations();
        for seed in [cut, cut + 1000] {
            let mut next = World {
                disk: world.disk.crash(seed),
                engine: world.engine.clone(),
                clients: world.clients.clone(),
                key: world.key.clone(),
                epoch: world.epoch,
                durability: world.durability,
            };
            next.engine = Arc::new(world.engine.crash(next.disk.clone(), seed));
            next.live(2)
                .await
                .unwrap_or_else(|error| panic!("cut at {cut}, seed {seed}: {error}"));
        }
        operations
    })
}

fn seeds(default: u64) -> u64 {
    std::env::var("FADER_POWER_SEEDS").map_or(default, |seeds| seeds.parse().unwrap())
}

/// It shows I22, ENGINE-1, RECORD-1 and RECORD-2.
#[test]
fn a_cut_at_every_operation_loses_nothing() {
    let mut cut = 0;
    while cut <= run_cut_at(cut) {
        cut += 1;
    }
    // How many there are depends on how many writes the chain's thread found waiting at once. The
    // start and the end alone, with every write in one group, are more than thirty.
    assert!(30 < cut, "only {cut} operations were cut");
}

/// It shows THREAD-3.
#[test]
fn a_cut_at_random_operations_loses_nothing() {
    for seed in 0..seeds(200) {
        run_seed(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn relaxed_durability_survives_a_killed_process() {
    for seed in 0..seeds(200) {
        let world = World {
            durability: Durability::Os,
            ..World::new(None)
        };
        run_world(world, seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn any_one_sync_left_out_is_noticed() {
    for site in SyncSite::ALL {
        let noticed = (0..5000).find(|seed| run_seed(*seed, Some(site)).is_err());
        let Some(seed) = noticed else {
            panic!("{site:?} may be left out: no seed notices");
        };
        assert_eq!(run_seed(seed, None), Ok(()), "seed {seed} fails anyway");
    }
}
