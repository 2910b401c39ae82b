//! Eight processes with queues and domains in one bucket, killed (kill -9) at random moments.
//! Counters are exact, no acknowledged message is lost, and none comes back after its acknowledged
//! removal.
//!
//! The bucket is a folder. Where `FADER_S3` names an S3 server with a bucket `crash`, it is also
//! that one. A proxy before it closes some connections instead of passing on a reply.
//! `cargo xtask crash cloud` starts one and plays all rounds.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fader_client::{Access, Options, open, system_runtime};
use fader_cloud::bucket::{BucketDomains, BucketQueues};
use fader_cloud::{
    Attribute, AttributePut, Domains, ErrorKind, Expected, ItemPut, QueueSettings, Queues,
    ReadConsistency, Receive,
};
use object_store::path::Path;
use rand::RngExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

mod crash;

use self::crash::{Journal, Order, PROCESSES};

/// Rounds of a sample.
const SAMPLE: u64 = 4;
const QUEUE: &str = "work";
const DOMAIN: &str = "counters";
const ITEM: &str = "counter";
const TOTAL: &str = "total";
/// How long a message is hidden whose receiver was killed.
const HIDDEN: Duration = Duration::from_secs(3);
/// How long all messages together may take to be received in the end.
const DRAIN: Duration = Duration::from_secs(120);
/// The share of replies that the proxy cuts.
const CUTS: f64 = 0.01;

struct Services {
    queues: BucketQueues,
    domains: BucketDomains,
}

async fn services(url: &str) -> Services {
    // The probe takes no part: it would judge the proxy.
    let options = Options {
        access: Access::Read,
        ..Options::default()
    };
    let cloud = open(url, &options).await.unwrap();
    let (prefix, runtime) = (Path::from("crash"), system_runtime());
    Services {
        queues: BucketQueues::new(Arc::clone(&cloud.objects), prefix.clone(), runtime.clone()),
        domains: BucketDomains::new(cloud.objects, prefix, runtime),
    }
}

/// Whether a call may simply be made again.
fn may_pass(error: &fader_cloud::Error) -> bool {
    matches!(
        error.kind,
        ErrorKind::Ambiguous | ErrorKind::Unavailable { .. }
    )
}

/// The call's outcome, once it has one; what it does may happen twice.
async fn insist<T, F: Future<Output = fader_cloud::Result<T>>>(mut call: impl FnMut() -> F) -> T {
    loop {
        match call().await {
            Ok(outcome) => return outcome,
            Err(error) => assert!(may_pass(&error), "{error}"),
        }
    }
}

fn attribute(name: &str, value: u64) -> Attribute {
    Attribute {
        name: name.to_owned(),
        value: value.to_string(),
    }
}

async fn counts(domains: &BucketDomains) -> BTreeMap<String, u64> {
    let found = insist(|| domains.get(DOMAIN, ITEM, &[], ReadConsistency::Strong)).await;
    let pairs = found.into_iter();
    pairs
        .map(|it| (it.name, it.value.parse().unwrap()))
        .collect()
}

/// Counts itself and the total up once, both in one write on a condition.
async fn count(domains: &BucketDomains, journal: &mut Journal, worker: u64) {
    let name = format!("worker{worker}");
    let begin = counts(domains).await.get(&name).copied();
    journal.say("tries");
    loop {
        let known = counts(domains).await;
        // After an unknown outcome: only this process counts its name.
        if known.get(&name).copied() != begin {
            break;
        }
        let put = |name: &str| AttributePut {
            name: name.to_owned(),
            value: (known.get(name).copied().unwrap_or_default() + 1).to_string(),
            replace: true,
        };
        let put = ItemPut {
            name: ITEM.to_owned(),
            attributes: vec![put(TOTAL), put(&name)],
        };
        let condition = match known.get(TOTAL) {
            Some(total) => Expected::Value(attribute(TOTAL, *total)),
            None => Expected::Absent(TOTAL.to_owned()),
        };
        match domains.put(DOMAIN, &put, Some(&condition)).await {
            Ok(()) => break,
            Err(error) if error.kind == ErrorKind::Precondition => {}
            Err(error) => assert!(may_pass(&error), "{error}"),
        }
    }
    journal.say("counted");
}

/// Receives, and removes what it received.
async fn receive(queues: &BucketQueues, journal: &mut Journal, hidden: Duration) -> usize {
    let how = Receive {
        max: 10,
        visibility: Some(hidden),
        wait: Duration::ZERO,
    };
    let received = match queues.receive(QUEUE, &how).await {
        Ok(received) => received,
        Err(error) if may_pass(&error) => return 0,
        Err(error) => panic!("{error}"),
    };
    for message in &received {
        journal.say(&format!("received {} {}", message.id, message.body));
    }
    let receipts: Vec<_> = received.iter().map(|it| it.receipt.clone()).collect();
    if receipts.is_empty() {
        return 0;
    }
    match queues.remove(QUEUE, &receipts).await {
        Ok(removed) => {
            for (message, removed) in received.iter().zip(removed) {
                // A refused one was hidden for too short a time: it is received again.
                if removed.is_ok() {
                    journal.say(&format!("removed {}", message.id));
                }
            }
        }
        Err(error) => assert!(may_pass(&error), "{error}"),
    }
    received.len()
}

/// One process, until it is killed.
async fn work(order: &Order) {
    let Services { queues, domains } = services(&order.on).await;
    let mut journal = order.journal();
    for serial in 0_u64.. {
        let body = |number| format!("{}-{}-{serial}-{number}", order.worker, order.life);
        let bodies: Vec<String> = (0..3).map(body).collect();
        match queues.send(QUEUE, &bodies).await {
            Ok(sent) => {
                for (body, sent) in bodies.iter().zip(sent) {
                    if sent.is_ok() {
                        journal.say(&format!("sent {body}"));
                    }
                }
            }
            Err(error) => assert!(may_pass(&error), "{error}"),
        }
        receive(&queues, &mut journal, HIDDEN).await;
        count(&domains, &mut journal, order.worker).await;
    }
}

#[test]
#[ignore = "the processes that the other tests kill"]
fn worker() {
    if let Some(order) = Order::given() {
        runtime().block_on(work(&order));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// The counters against what the dead were told.
async fn check_counts(domains: &BucketDomains, journals: &FilePath) -> u64 {
    let known = counts(domains).await;
    let mut total = 0;
    for worker in 0..PROCESSES {
        let count = known.get(&format!("worker{worker}")).copied();
        let count = count.unwrap_or_default();
        let told = crash::count(journals, worker, "counted");
        let tries = crash::count(journals, worker, "tries");
        assert!(
            (told..=tries).contains(&count),
            "{worker} counted {told} times of {tries} tries; the counter has {count}"
        );
        total += count;
    }
    assert_eq!(known.get(TOTAL).copied().unwrap_or_default(), total);
    total
}

/// Receives all that is left, and compares it with what the dead were told.
async fn check_messages(queues: &BucketQueues, journals: &FilePath) -> usize {
    let mut drained = crash::Order::of(journals, PROCESSES).journal();
    let begin = Instant::now();
    let mut quiet = Instant::now();
    // Until nothing comes for longer than anything is hidden.
    while quiet.elapsed() < 3 * HIDDEN {
        assert!(begin.elapsed() < DRAIN, "the queue is not drained");
        match receive(queues, &mut drained, 4 * HIDDEN).await {
            0 => tokio::time::sleep(Duration::from_millis(200)).await,
            _ => quiet = Instant::now(),
        }
    }
    let (mut sent, mut received) = (BTreeSet::new(), BTreeSet::new());
    let mut removed = BTreeSet::new();
    for worker in 0..PROCESSES {
        for (what, of) in crash::lines(journals, worker) {
            match what.as_str() {
                "sent" => {
                    sent.insert(of);
                }
                "received" => {
                    received.insert(of.split_once(' ').unwrap().1.to_owned());
                }
                "removed" => {
                    removed.insert(of);
                }
                _ => {}
            }
        }
    }
    for (what, of) in crash::lines(journals, PROCESSES) {
        if let ("received", Some((id, body))) = (what.as_str(), of.split_once(' ')) {
            assert!(!removed.contains(id), "{body} came back after its removal");
            received.insert(body.to_owned());
        }
    }
    let lost: Vec<_> = sent.difference(&received).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    sent.len()
}

fn play(name: &str, url: &str, behind: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let journals = scratch.path();
    let (runtime, rounds) = (runtime(), crash::rounds(SAMPLE));
    runtime.block_on(async {
        let services = services(url).await;
        let settings = QueueSettings::default();
        insist(|| services.queues.create(QUEUE, &settings)).await;
        insist(|| services.domains.create(DOMAIN)).await;
    });
    crash::play(journals, behind, rounds, || {
        runtime.block_on(async {
            check_counts(&services(url).await.domains, journals).await;
        });
    });
    let (counted, sent) = runtime.block_on(async {
        let services = services(url).await;
        let counted = check_counts(&services.domains, journals).await;
        (counted, check_messages(&services.queues, journals).await)
    });
    assert!(0 < sent && 0 < counted, "{sent} sent, {counted} counted");
    println!("{name}: {rounds} rounds, {sent} messages sent, {counted} counted");
}

#[test]
fn a_folder_loses_no_message_of_processes_that_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!(
        "file://{}",
        fs::canonicalize(folder.path()).unwrap().display()
    );
    play("queues and domains in a folder", &url, &url);
}

#[test]
fn a_server_loses_no_message_of_processes_that_are_killed() {
    let Ok(address) = std::env::var("FADER_S3") else {
        println!("left out: FADER_S3 names no server");
        return;
    };
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = |host: &str| format!("s3://crash/{}?endpoint=http://{host}", std::process::id());
    let behind = url(&listener.local_addr().unwrap().to_string());
    runtime.spawn(cut_replies(listener, address.clone()));
    play("queues and domains on S3", &url(&address), &behind);
}

/// Passes connections on to a server, and closes some of them when a reply comes.
async fn cut_replies(listener: TcpListener, server: String) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let server = server.clone();
        tokio::spawn(async move {
            if let Ok(server) = TcpStream::connect(server).await {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let requests = tokio::io::copy(&mut from_client, &mut to_server);
                let replies = async {
                    let mut bytes = vec![0; 64 << 10];
                    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                        if rand::rng().random_bool(CUTS) {
                            break;
                        }
                        if to_client.write_all(&bytes[..count]).await.is_err() {
                            break;
                        }
                    }
                };
                // When one side ends, both connections are closed.
                tokio::select! {
                    _ = requests => {}
                    () = replies => {}
                }
            }
        });
    }
}
