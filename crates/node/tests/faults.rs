//! A disk that is full, or fails: writes are refused in words, reads go on, nothing told is lost.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod support;

use std::sync::Arc;
use std::time::Duration;

use fader_node::disk::Disk;
use fader_node::{Call, Durability, Health, Node, OpenError, Recovery, Settings};
use fader_services::catalog::AccountId;
use fader_services::level::ConsistencyOptions;
use fader_services::simpledb::{AttributePut, Code, Error, ItemPut, Reply, Request};
use fader_services::{ErrorCode, Reason};

use asking::Ask as _;
use support::{MemoryEngine, SimulatedDisk};

struct Machine {
    disk: SimulatedDisk,
    engine: Arc<MemoryEngine>,
    durability: Durability,
}

impl Machine {
    fn new() -> Self {
        let disk = SimulatedDisk::new();
        let engine = Arc::new(MemoryEngine::new(disk.clone()));
        Machine {
            disk,
            engine,
            durability: Durability::Disk,
        }
    }

    fn open(&self) -> Result<(Node, Recovery), OpenError> {
        self.open_with_queue(Settings::new("/data".into()).queue_depth_max)
    }

    /// With so many places for requests that wait.
    fn open_with_queue(&self, queue_depth_max: usize) -> Result<(Node, Recovery), OpenError> {
        let settings = Settings {
            segment_bytes: 4096,
            durability: self.durability,
            queue_depth_max,
            ..Settings::new("/data".into())
        };
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        Node::open_with(settings, &disk, self.engine.clone())
    }

    /// The machine after a power cut.
    fn crash(&self, seed: u64) -> Machine {
        let disk = self.disk.crash(seed);
        let engine = Arc::new(self.engine.crash(disk.clone(), seed));
        Machine {
            disk,
            engine,
            durability: self.durability,
        }
    }
}

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

async fn create_domain(node: &Node) {
    let request = Request::CreateDomain {
        domain: "domain".to_owned(),
        mode: None,
        preference: None,
    };
    node.ask(Call::new(
        &account(),
        request,
        ConsistencyOptions::default(),
    ))
    .await
    .0
    .unwrap();
}

async fn put(node: &Node, item: u32) -> Result<(), Error> {
    let attribute = AttributePut {
        name: Some("a".to_owned()),
        value: Some(item.to_string()),
        replace: false,
    };
    let put = ItemPut {
        item: Some(format!("item{item}")),
        attributes: vec![attribute],
    };
    let domain = "domain".to_owned();
    let request = Request::PutAttributes {
        domain,
        put,
        expected: Vec::new(),
    };
    node.ask(Call::new(
        &account(),
        request,
        ConsistencyOptions::default(),
    ))
    .await
    .0
    .map(drop)
}

async fn has(node: &Node, item: u32) -> bool {
    let request = Request::GetAttributes {
        domain: "domain".to_owned(),
        item: format!("item{item}"),
        names: Vec::new(),
        consistent: true,
    };
    let Reply::Attributes(pairs) = node
        .ask(Call::new(
            &account(),
            request,
            ConsistencyOptions::default(),
        ))
        .await
        .0
        .unwrap()
        .reply
    else {
        panic!("attributes are asked");
    };
    pairs.iter().any(|pair| pair.value == item.to_string())
}

/// Waits until the domains have no more keys than that.
async fn is_swept(machine: &Machine, keys_max: usize) {
    let keys = || {
        let view = fader_node::engine::Engine::snapshot(&*machine.engine);
        view.scan(
            &1_u64.to_be_bytes(),
            &[0xfe],
            fader_services::Direction::Forward,
        )
        .count()
    };
    let swept = async {
        while keys_max < keys() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), swept)
        .await
        .expect("the domain is swept");
}

/// Looks without a rest, so that what is seen next is of the moment it began to serve.
async fn is_serving(node: &Node) {
    let serving = async {
        while node.health() != Health::Serving {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), serving)
        .await
        .expect("it serves again");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    for durability in [Durability::Disk, Durability::Os] {
        let machine = Machine {
            durability,
            ..Machine::new()
        };
        let (node, _) = machine.open().unwrap();
        create_domain(&node).await;
        put(&node, 1).await.unwrap();
        machine.disk.set_bytes_free(Some(50));
        let mut told = vec![1];
        let mut refused = Vec::new();
        for item in 2..12 {
            match put(&node, item).await {
                Ok(()) => told.push(item),
                Err(error) => {
                    assert_eq!(error.code, Code::ServiceUnavailable);
                    refused.push(item);
                }
            }
        }
        assert!(9 <= refused.len(), "there was room for {told:?}");
        let Health::ReadOnly(cause) = node.health() else {
            panic!("{:?}", node.health())
        };
        assert!(cause.to_string().contains(".log"), "{cause}");
        assert_eq!(cause.code(), ErrorCode::Refused(Reason::Store));
        assert!(has(&node, 1).await, "reads go on");
        let epoch = node.counters().epoch;

        machine.disk.set_bytes_free(None);
        is_serving(&node).await;
        assert!(epoch < node.counters().epoch);
        put(&node, 20).await.unwrap();
        told.push(20);
        node.close().await;

        for seed in 0..20 {
            let (node, _) = machine.crash(seed).open().unwrap();
            for item in &told {
                assert!(has(&node, *item).await, "item{item} is lost, seed {seed}");
            }
            for item in &refused {
                assert!(
                    !has(&node, *item).await,
                    "item{item} came back, seed {seed}"
                );
            }
        }
    }
}

/// Clients that retry leave the chain's thread no idle moment, and it looks for room all the same.
#[tokio::test]
async fn writes_come_back_however_many_clients_retry() {
    let machine = Machine::new();
    let (node, _) = machine.open().unwrap();
    create_domain(&node).await;
    machine.disk.set_bytes_free(Some(50));
    while put(&node, 1).await.is_ok() {}
    machine.disk.set_bytes_free(None);
    // As many as there are places in the queue: one is always waiting.
    let clients = (0..64).map(|item| {
        let node = node.clone();
        async move { while put(&node, item).await.is_err() {} }
    });
    let all: Vec<_> = clients.map(tokio::spawn).collect();
    let back = async {
        for client in all {
            client.await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), back)
        .await
        .expect("writes are taken again");
    node.close().await;
}

/// A queue without places: each write waits for one until its time is over.
#[tokio::test]
async fn a_write_that_finds_no_place_in_the_queue_is_refused() {
    let machine = Machine::new();
    let (node, _) = machine.open().unwrap();
    create_domain(&node).await;
    node.close().await;
    let (node, _) = machine.open_with_queue(0).unwrap();
    let refused = put(&node, 1).await.unwrap_err();
    assert_eq!(refused.reason, Some(Reason::QueueFull), "{refused}");
    node.close().await;
}

/// It shows I23.
#[tokio::test]
async fn a_failing_disk_fails_the_node_and_loses_nothing() {
    for fault in [SimulatedDisk::fail_writes, SimulatedDisk::fail_syncs] {
        let machine = Machine::new();
        let (node, _) = machine.open().unwrap();
        create_domain(&node).await;
        put(&node, 1).await.unwrap();
        fault(&machine.disk, true);
        let unknown = put(&node, 2).await.unwrap_err();
        assert_eq!(unknown.code, Code::ServiceUnavailable);
        assert!(
            unknown.message.contains("it is not known whether"),
            "{}",
            unknown.message
        );
        fault(&machine.disk, false);
        let refused = put(&node, 3).await.unwrap_err();
        assert_eq!(refused.code, Code::ServiceUnavailable);
        let Health::Failed(cause) = node.health() else {
            panic!("a failed node stays failed: {:?}", node.health())
        };
        assert_eq!(cause.code(), ErrorCode::StoreFailed);
        assert!(has(&node, 1).await, "reads go on");
        assert!(
            !has(&node, 2).await,
            "what is not known to be durable is not shown"
        );
        node.close().await;

        for seed in 0..20 {
            let (node, _) = machine.crash(seed).open().unwrap();
            assert!(has(&node, 1).await, "seed {seed}");
            assert!(!has(&node, 3).await, "seed {seed}");
        }
    }
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_is_not_an_empty_one() {
    let machine = Machine::new();
    let (node, _) = machine.open().unwrap();
    create_domain(&node).await;
    node.close().await;
    machine.disk.fail_reads(true);
    assert_eq!(
        machine.open().err().map(|error| error.code),
        Some(ErrorCode::IoFailed)
    );
    machine.disk.fail_reads(false);
    machine.open().unwrap();
}

#[tokio::test]
async fn a_log_or_a_key_that_vanished_is_missed() {
    let machine = Machine::new();
    let (node, _) = machine.open().unwrap();
    create_domain(&node).await;
    node.close().await;
    let gone = |is_gone: fn(&str) -> bool| {
        let machine = Machine {
            disk: machine.disk.copy(),
            engine: Arc::new(machine.engine.copy(machine.disk.copy())),
            durability: Durability::Disk,
        };
        for path in machine.disk.files() {
            if is_gone(path.to_str().unwrap()) {
                machine.disk.remove(&path).unwrap();
            }
        }
        machine.open().map(drop)
    };
    assert!(gone(|_| false).is_ok());
    for is_gone in [
        |path: &str| path.ends_with(".log"),
        |path: &str| path.ends_with(".key"),
    ] {
        let Err(error) = gone(is_gone) else {
            panic!("it is not missed")
        };
        let message = error.to_string();
        assert_eq!(error.code, ErrorCode::DataDamaged, "{message}");
        assert!(message.contains("missing"), "{message}");
    }
}

#[tokio::test]
async fn deleted_domains_are_swept_while_others_are_served() {
    let machine = Machine::new();
    let (node, _) = machine.open().unwrap();
    create_domain(&node).await;
    for item in 0..400 {
        put(&node, item).await.unwrap();
    }
    let delete = Request::DeleteDomain {
        domain: "domain".to_owned(),
    };
    node.ask(Call::new(&account(), delete, ConsistencyOptions::default()))
        .await
        .0
        .unwrap();
    create_domain(&node).await;
    put(&node, 1).await.unwrap();
    is_swept(&machine, 10).await;
    assert!(has(&node, 1).await);
    assert!(!has(&node, 2).await);
}

#[tokio::test]
async fn a_sweep_that_met_a_full_disk_leaves_nothing_behind() {
    let machine = Machine::new();
    let (node, _) = machine.open().unwrap();
    create_domain(&node).await;
    for item in 0..400 {
        put(&node, item).await.unwrap();
    }
    // Room for the deletion, and not for a step of the sweep.
    machine.disk.set_bytes_free(Some(2000));
    let delete = Request::DeleteDomain {
        domain: "domain".to_owned(),
    };
    node.ask(Call::new(&account(), delete, ConsistencyOptions::default()))
        .await
        .0
        .unwrap();
    let is_full = async {
        while node.health() == Health::Serving {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_full)
        .await
        .expect("the sweep meets the full disk");
    machine.disk.set_bytes_free(None);
    is_serving(&node).await;
    is_swept(&machine, 0).await;
}
