//! Power cuts under queues: what a producer and a consumer were told must be so in the next
//! incarnation.
//!
//! A *incarnation* is a start, calls of some clients, and a power cut or a killed process, as in
//! `power`. Each client has a FIFO queue of its own. What was sent and acknowledged is there once,
//! what was deleted and acknowledged is not there, a deduplication id is known again, and numbers
//! rise.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use fader_node::disk::{Disk, SyncSite};
use fader_node::{Call, Node, Settings};
use fader_services::catalog::AccountId;
use fader_services::level::ConsistencyOptions;
use fader_services::policy::Principal;
use fader_services::request::own;
use fader_services::sqs::command::{
    CreateQueue, DeleteEntry, DeleteMessage, PeekMessages, ReceiveMessage, SendEntry, SendMessage,
};
use fader_services::sqs::{Caller, Code, Command, Error, Reply, Request, Sqs};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use support::{MemoryEngine, SimulatedDisk};

const CLIENTS: u64 = 3;
const CALLS_PER_LIFE: u64 = 10;
const LIVES: u64 = 3;
const ACCOUNT: &str = "000000000001";

/// What a client did not hear the end of.
#[derive(Clone, Debug)]
enum Maybe {
    Sent(String),
    Deleted(String),
}

/// What a client knows.
#[derive(Clone, Debug, Default)]
struct Client {
    number: u64,
    has_queue: bool,
    /// Its messages by their bodies: their ids.
    messages: BTreeMap<String, u128>,
    /// Receipt handles of some of them.
    handles: BTreeMap<String, String>,
    maybe: Option<Maybe>,
    sent: u64,
}

impl Client {
    fn queue(&self) -> String {
        format!("jobs-{}.fifo", self.number)
    }

    async fn ask(&self, node: &Node, seed: u128, command: Command) -> Result<Reply, Error> {
        let account = AccountId(ACCOUNT.to_owned());
        let principal = Principal::Key((ACCOUNT.to_owned(), "AK".to_owned()));
        let request = Request {
            caller: Caller::of(principal),
            region: "us-east-1".to_owned(),
            seed,
            command,
        };
        let call = Call::new(&account, request, ConsistencyOptions::default());
        own::<Sqs>(node.call(call).await.0)
    }

    fn send(&self, body: &str) -> Command {
        Command::SendMessage(SendMessage {
            queue: self.queue(),
            is_batch: false,
            entries: vec![SendEntry {
                body: Some(body.to_owned()),
                group_id: Some("g".to_owned()),
                deduplication_id: Some(body.split('-').next().unwrap().to_owned()),
                ..SendEntry::default()
            }],
        })
    }

    /// An incarnation of calls; ends at the first that is not answered.
    async fn live(mut self, node: Node, seed: u64) -> Client {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ (self.number << 32));
        for _ in 0..CALLS_PER_LIFE {
            let id = random.random();
            let lived = match random.random_range(0..8_u8) {
                _ if !self.has_queue => self.create(&node, id).await,
                0..4 => {
                    self.sent += 1;
                    let filler = "x".repeat(random.random_range(0..200));
                    let body = format!("{}-{filler}", self.sent);
                    self.send_one(&node, id, body).await
                }
                4..6 => self.receive(&node, id).await,
                _ => self.delete(&node, id).await,
            };
            if let Err(error) = lived {
                assert_eq!(error.code, Code::ServiceUnavailable, "{error}");
                return self;
            }
            self.maybe = None;
        }
        self
    }

    async fn create(&mut self, node: &Node, id: u128) -> Result<(), Error> {
        let create = Command::CreateQueue(CreateQueue {
            queue: self.queue(),
            attributes: vec![("FifoQueue".to_owned(), "true".to_owned())],
            tags: Vec::new(),
            mode: None,
        });
        self.ask(node, id, create).await?;
        self.has_queue = true;
        Ok(())
    }

    async fn send_one(&mut self, node: &Node, id: u128, body: String) -> Result<(), Error> {
        self.maybe = Some(Maybe::Sent(body.clone()));
        let Reply::Sent(mut sent) = self.ask(node, id, self.send(&body)).await? else {
            panic!("it was sent");
        };
        let id = sent.remove(0).outcome?.id;
        self.messages.insert(body, id);
        Ok(())
    }

    async fn receive(&mut self, node: &Node, id: u128) -> Result<(), Error> {
        let receive = Command::ReceiveMessage(ReceiveMessage {
            queue: self.queue(),
            max_messages: Some(2),
            // A minute: no incarnation is so long, and a handle stays good from incarnation to
            // incarnation.
            visibility_timeout: Some(60),
            ..ReceiveMessage::default()
        });
        let Reply::Messages(messages) = self.ask(node, id, receive).await? else {
            panic!("messages");
        };
        for message in messages {
            assert_eq!(
                self.messages.get(&message.body),
                Some(&message.id),
                "client {} receives {}",
                self.number,
                message.body
            );
            self.handles.insert(message.body, message.handle);
        }
        Ok(())
    }

    async fn delete(&mut self, node: &Node, id: u128) -> Result<(), Error> {
        let Some((body, handle)) = self.handles.pop_first() else {
            return Ok(());
        };
        self.maybe = Some(Maybe::Deleted(body.clone()));
        let delete = Command::DeleteMessage(DeleteMessage {
            queue: self.queue(),
            is_batch: false,
            entries: vec![DeleteEntry {
                id: String::new(),
                receipt_handle: Some(handle),
            }],
        });
        self.ask(node, id, delete).await?;
        self.messages.remove(&body);
        Ok(())
    }

    /// Compares what is there with what the client knows, and then knows it.
    async fn check(&mut self, node: &Node) -> Result<(), String> {
        if !self.has_queue {
            return Ok(());
        }
        let found = self.peek(node).await?;
        let mut other = self.messages.clone();
        match self.maybe.take() {
            Some(Maybe::Sent(body)) => drop(found.get(&body).map(|id| other.insert(body, *id))),
            Some(Maybe::Deleted(body)) => drop(other.remove(&body)),
            None => {}
        }
        if found != self.messages && found != other {
            let Client {
                number, messages, ..
            } = self;
            return Err(format!(
                "client {number} was told {:?} and finds {:?}",
                messages.keys(),
                found.keys()
            ));
        }
        self.messages = found;
        // The last message that is there is known by its deduplication id.
        let last = self.messages.last_key_value();
        if let Some((body, id)) = last.map(|(body, id)| (body.clone(), *id)) {
            let again = self.ask(node, 1, self.send(&body)).await;
            let again = again.map_err(|error| error.to_string())?;
            let Reply::Sent(sent) = again else {
                panic!("it was sent");
            };
            let answered = sent[0].outcome.as_ref().map(|sent| sent.id);
            if answered != Ok(id) {
                return Err(format!("{body} is sent twice: {answered:?}"));
            }
        }
        Ok(())
    }

    async fn peek(&self, node: &Node) -> Result<BTreeMap<String, u128>, String> {
        let mut found = BTreeMap::new();
        let mut after = 0;
        loop {
            let peek = Command::PeekMessages(PeekMessages {
                queue: self.queue(),
                after,
                max_messages: None,
            });
            let reply = self.ask(node, 0, peek).await;
            let Reply::Peeked(peeked) = reply.map_err(|error| error.to_string())? else {
                panic!("messages");
            };
            if peeked.after == after {
                return Ok(found);
            }
            for message in peeked.messages {
                let mut system = message.system.iter();
                let number = system.find(|(name, _)| name == "SequenceNumber");
                let number: u64 = number.unwrap().1.parse().unwrap();
                if number <= after || found.insert(message.body, message.id).is_some() {
                    return Err(format!("client {} has a message twice", self.number));
                }
                after = number;
            }
            after = peeked.after;
        }
    }
}

/// The machine, from incarnation to incarnation.
struct World {
    disk: SimulatedDisk,
    engine: Arc<MemoryEngine>,
    clients: Vec<Client>,
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
    async fn live(&mut self, seed: u64) -> Result<(), String> {
        let settings = Settings {
            segment_bytes: 2500,
            log_retain_bytes: 0,
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
        // What was asked for a check may have met the cut.
        match lived {
            Err(_) if !self.disk.has_power() => Ok(()),
            lived => lived,
        }
    }

    async fn live_with(&mut self, node: &Node, seed: u64) -> Result<(), String> {
        if node.health() != fader_node::Health::Serving {
            return Ok(());
        }
        for client in &mut self.clients {
            let before = client.clone();
            if let Err(error) = client.check(node).await {
                *client = before;
                return Err(error);
            }
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

/// Lives in a row, each cut at a random operation, the last one not cut.
fn run_seed(seed: u64, ignored: Option<SyncSite>) -> Result<(), String> {
    let mut world = World::new(ignored);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    runtime.block_on(async {
        for incarnation in 0..LIVES {
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

fn seeds(default: u64) -> u64 {
    std::env::var("FADER_POWER_SEEDS").map_or(default, |seeds| seeds.parse().unwrap())
}

#[test]
fn a_cut_at_random_operations_loses_no_message() {
    for seed in 0..seeds(100) {
        run_seed(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn any_one_sync_left_out_is_noticed_by_queues() {
    for site in SyncSite::ALL {
        let noticed = (0..5000).find(|seed| run_seed(*seed, Some(site)).is_err());
        let Some(seed) = noticed else {
            panic!("{site:?} may be left out: no seed notices");
        };
        assert_eq!(run_seed(seed, None), Ok(()), "seed {seed} fails anyway");
        println!("noticed: {site:?}, seed {seed}");
    }
}
