//! Each guard of the bucket services is removed once, and a scenario must fail; with all guards
//! each scenario holds. Traces are those of the exhaustive models behind
//! docs/explanation/bucket.md.
#![cfg(feature = "mutants")]
#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use crate::stage;
use fader_cloud::bucket::{BucketDomains, BucketQueues, Guard};
use fader_cloud::model::Skew;
use fader_cloud::{
    Attribute, AttributePut, Domains, Error, ErrorKind, Expected, ItemDelete, ItemPut,
    QueueSettings, Queues, ReadConsistency, Receipt, Receive, Received,
};
use futures_util::future::join;
use object_store::path::Path;
use stage::domains::{create, item};
use stage::{Fault, Stage};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

type Outcome = Result<(), String>;

/// A cloud in which one guard may be missing.
#[derive(Clone)]
struct World {
    stage: Stage,
    removed: Option<Guard>,
}

impl World {
    fn new(removed: Option<Guard>) -> Self {
        World {
            stage: Stage::new(7),
            removed,
        }
    }

    fn queues_of(&self, name: &str, offset_ms: i64) -> BucketQueues {
        let skew = Skew {
            offset_ms,
            ..Skew::default()
        };
        let runtime = self.stage.executor.process(name, skew).runtime();
        let (objects, prefix) = (self.stage.objects(), Path::from("p"));
        match self.removed {
            None => BucketQueues::new(objects, prefix, runtime),
            Some(guard) => BucketQueues::without(guard, objects, prefix, runtime),
        }
    }

    fn queues(&self, name: &str) -> BucketQueues {
        self.queues_of(name, 0)
    }

    fn domains(&self, name: &str) -> BucketDomains {
        let runtime = self.stage.process(name).runtime();
        let (objects, prefix) = (self.stage.objects(), Path::from("p"));
        match self.removed {
            None => BucketDomains::new(objects, prefix, runtime),
            Some(guard) => BucketDomains::without(guard, objects, prefix, runtime),
        }
    }

    async fn sleep(&self, time: Duration) {
        self.stage.sleep(time).await;
    }

    /// A process that created the queue.
    async fn queue(&self) -> BucketQueues {
        let queues = self.queues("creator");
        queues.create("q", &QueueSettings::default()).await.unwrap();
        queues
    }

    /// A process that wrote the first slot.
    async fn domain(&self) -> BucketDomains {
        let domains = self.domains("creator");
        domains.create("dom").await.unwrap();
        put(&domains, "first", "1").await.unwrap();
        domains
    }
}

fn ensure(holds: bool, otherwise: &str) -> Outcome {
    holds.then_some(()).ok_or_else(|| otherwise.to_owned())
}

async fn send(queues: &BucketQueues, count: usize) -> Result<Vec<String>, Error> {
    let bodies: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
    let sent = queues.send("q", &bodies).await?;
    sent.into_iter().collect()
}

async fn receive(queues: &BucketQueues, max: usize, visibility: u64) -> Vec<Received> {
    let how = Receive {
        max,
        visibility: Some(Duration::from_secs(visibility)),
        wait: Duration::ZERO,
    };
    queues.receive("q", &how).await.unwrap_or_default()
}

/// Lists as often as it takes until a process deletes what is left over.
async fn receive_often(queues: &BucketQueues) {
    for _ in 0..8 {
        receive(queues, 10, 30).await;
    }
}

/// Receives all that can be received, and keeps it.
async fn drain(queues: &BucketQueues) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let found = receive(queues, 10, 3000).await;
        if found.is_empty() {
            return all;
        }
        all.extend(ids(&found));
    }
}

fn ids(messages: &[Received]) -> Vec<String> {
    messages.iter().map(|message| message.id.clone()).collect()
}

async fn remove(queues: &BucketQueues, messages: &[Received]) -> Vec<Result<(), Error>> {
    let receipts: Vec<Receipt> = messages.iter().map(|one| one.receipt.clone()).collect();
    queues.remove("q", &receipts).await.unwrap()
}

fn all_ok(outcomes: &[Result<(), Error>]) -> bool {
    outcomes.iter().all(Result::is_ok)
}

fn apart(one: &[Received], other: &[Received]) -> Outcome {
    let (one, other) = (ids(one), ids(other));
    let both = one.iter().any(|id| other.contains(id));
    ensure(!both, "two holders within a visibility time")
}

// Queues.

async fn body_before_claim(world: World) -> Outcome {
    let b = world.queue().await;
    let a = world.queues("a");
    send(&b, 2).await.unwrap();
    world.stage.once("PUT", "0-state", Fault::Slow(SECOND * 2));
    let slow = receive(&a, 10, 30);
    let work = async {
        world.sleep(SECOND / 5).await;
        let found = receive(&b, 10, 30).await;
        assert!(all_ok(&remove(&b, &found).await));
    };
    let (found, ()) = join(slow, work).await;
    ensure(found.is_empty(), "received after its acknowledged remove")
}

async fn body_before_update(world: World) -> Outcome {
    let b = world.queue().await;
    let a = world.queues("a");
    send(&b, 2).await.unwrap();
    let held = receive(&b, 10, 2).await;
    world.sleep(SECOND * 4).await;
    world.stage.once("PUT", "0-state", Fault::Slow(SECOND));
    world
        .stage
        .once("DELETE", "0-state", Fault::Slow(SECOND * 5));
    let slow = receive(&a, 10, 30);
    let work = async {
        world.sleep(SECOND / 2).await;
        assert!(all_ok(&remove(&b, &held).await));
    };
    let (found, ()) = join(slow, work).await;
    ensure(found.is_empty(), "received after its acknowledged remove")
}

async fn slow_receive(world: World) -> Outcome {
    let b = world.queue().await;
    let a = world.queues("a");
    send(&b, 2).await.unwrap();
    world
        .stage
        .once("GET", "1-segment", Fault::SlowAnswer(SECOND * 6));
    let work = async {
        world.sleep(SECOND * 4).await;
        receive(&b, 10, 600).await
    };
    let (one, other) = join(receive(&a, 10, 2), work).await;
    assert_eq!(other.len(), 2);
    apart(&one, &other)
}

async fn repeated_send(world: World) -> Outcome {
    let b = world.queue().await;
    let a = world.queues("a");
    world
        .stage
        .once("PUT", "1-segment", Fault::Late(Duration::from_millis(40)));
    let mut is_second = false;
    world.stage.rule(move |call| {
        let meets = !is_second && call.kind == "PUT" && call.key.contains("1-segment");
        is_second |= meets;
        meets.then_some(Fault::Slow(SECOND * 3))
    });
    let work = async {
        world.sleep(SECOND / 2).await;
        let found = receive(&b, 10, 30).await;
        assert_eq!(found.len(), 1);
        assert!(all_ok(&remove(&b, &found).await));
        world.sleep(SECOND * 5).await;
        (ids(&found), ids(&receive(&b, 10, 30).await))
    };
    let (sent, (removed, again)) = join(send(&a, 1), work).await;
    sent.unwrap();
    let is_same = again.iter().any(|id| removed.contains(id));
    ensure(
        !is_same && again.len() == 1,
        "a removed id is received again",
    )
}

/// A process deletes a leftover at one of eight lists: one of these is among them.
async fn segments_listed_first(world: World) -> Outcome {
    for seed in 0..40 {
        let mut stage = Stage::new(seed);
        stage.page = 2;
        let removed = world.removed;
        stage
            .clone()
            .run(list_while_sent(World { stage, removed }))?;
    }
    Ok(())
}

async fn list_while_sent(world: World) -> Outcome {
    let x = world.queue().await;
    let (h, y) = (world.queues("h"), world.queues("y"));
    send(&x, 1).await.unwrap();
    receive(&x, 1, 3000).await;
    world.sleep(SECOND * 2).await;
    let mut lists = 0;
    world.stage.rule(move |call| {
        lists += usize::from(call.kind == "LIST");
        (call.kind == "LIST" && lists == 2).then_some(Fault::Slow(SECOND * 2))
    });
    let work = async {
        world.sleep(SECOND / 5).await;
        send(&x, 1).await.unwrap();
        receive(&h, 1, 3000).await
    };
    let (_, held) = join(receive(&x, 10, 3000), work).await;
    assert_eq!(held.len(), 1);
    world.sleep(SECOND * 3).await;
    apart(&held, &receive(&y, 10, 30).await)
}

async fn racing_claims(world: &World) -> Outcome {
    let (a, b) = (world.queues("a"), world.queues("b"));
    let (one, other) = join(receive(&a, 10, 30), receive(&b, 10, 30)).await;
    assert!(!one.is_empty() || !other.is_empty());
    apart(&one, &other)
}

async fn claims_update(world: World) -> Outcome {
    let c = world.queue().await;
    send(&c, 2).await.unwrap();
    receive(&c, 10, 1).await;
    world.sleep(SECOND * 4).await;
    racing_claims(&world).await
}

async fn claims_create(world: World) -> Outcome {
    let c = world.queue().await;
    send(&c, 2).await.unwrap();
    racing_claims(&world).await
}

async fn unknown_claim(world: World) -> Outcome {
    let b = world.queue().await;
    let a = world.queues("a");
    send(&b, 2).await.unwrap();
    world.stage.once("PUT", "0-state", Fault::LoseRequest);
    world.stage.once("GET", "0-state", Fault::Slow(SECOND));
    let work = async {
        world.sleep(SECOND / 5).await;
        receive(&b, 10, 30).await
    };
    let (one, other) = join(receive(&a, 10, 30), work).await;
    assert_eq!(other.len(), 2);
    apart(&one, &other)
}

/// `a` held two messages, which `b` holds now.
async fn two_lives(world: &World) -> (BucketQueues, Vec<Received>) {
    let b = world.queue().await;
    let a = world.queues("a");
    send(&b, 2).await.unwrap();
    let old = receive(&a, 10, 2).await;
    world.sleep(SECOND * 4).await;
    assert_eq!(receive(&b, 10, 600).await.len(), 2);
    (a, old)
}

async fn old_receipt(world: World) -> Outcome {
    let (a, old) = two_lives(&world).await;
    let removed = remove(&a, &old[..1]).await;
    ensure(removed[0].is_err(), "an old receipt removed a message")
}

async fn old_receipt_on_a_new_view(world: World) -> Outcome {
    let (a, old) = two_lives(&world).await;
    assert!(receive(&a, 10, 30).await.is_empty());
    let removed = remove(&a, &old[..1]).await;
    ensure(removed[0].is_err(), "an old receipt removed a message")
}

async fn old_receipt_hides(world: World) -> Outcome {
    let (a, old) = two_lives(&world).await;
    assert!(receive(&a, 10, 30).await.is_empty());
    let hidden = a.hide("q", &old[0].receipt, Duration::ZERO).await;
    ensure(hidden.is_err(), "an old receipt showed a message")
}

async fn some_left(world: World) -> Outcome {
    let a = world.queue().await;
    send(&a, 3).await.unwrap();
    let found = receive(&a, 2, 30).await;
    assert!(all_ok(&remove(&a, &found).await));
    ensure(drain(&a).await.len() == 1, "acknowledged message lost")
}

async fn state_deleted_first(world: World) -> Outcome {
    let a = world.queue().await;
    let b = world.queues("b");
    send(&a, 2).await.unwrap();
    let found = receive(&a, 10, 600).await;
    world
        .stage
        .once("DELETE", "1-segment", Fault::Slow(SECOND * 3));
    assert!(all_ok(&remove(&a, &found).await));
    let again = receive(&b, 10, 30).await;
    ensure(again.is_empty(), "received after its acknowledged remove")
}

async fn state_retired_first(world: World) -> Outcome {
    let x = world.queues("x");
    let settings = QueueSettings {
        retention: MINUTE,
        ..QueueSettings::default()
    };
    x.create("q", &settings).await.unwrap();
    let a = world.queues("a");
    send(&a, 2).await.unwrap();
    let held = receive(&a, 10, 600).await;
    world.sleep(MINUTE * 2).await;
    world
        .stage
        .once("DELETE", "1-segment", Fault::Slow(SECOND * 5));
    receive_often(&a).await;
    world.sleep(SECOND).await;
    let fresh = world.queues("fresh");
    apart(&held, &receive(&fresh, 10, 30).await)
}

async fn lost_sends(world: World) -> Outcome {
    let a = world.queue().await;
    world.stage.rule(|call| {
        let meets = call.kind == "PUT" && call.key.contains("1-segment");
        meets.then_some(Fault::LoseRequest)
    });
    let sent = send(&a, 1).await;
    world.sleep(MINUTE).await;
    world.stage.calm();
    let found = drain(&a).await;
    ensure(
        sent.is_err() || !found.is_empty(),
        "acknowledged message lost",
    )
}

async fn unknown_send(world: World) -> Outcome {
    let a = world.queue().await;
    world.stage.once("PUT", "1-segment", Fault::LoseRequest);
    let sent = send(&a, 1).await;
    world.sleep(MINUTE).await;
    let found = drain(&a).await;
    ensure(
        sent.is_err() || !found.is_empty(),
        "acknowledged message lost",
    )
}

async fn remove_before_its_answer(world: World) -> Outcome {
    let a = world.queue().await;
    let b = world.queues("b");
    send(&a, 2).await.unwrap();
    let held = receive(&a, 10, 2).await;
    world.stage.once("PUT", "0-state", Fault::Slow(SECOND * 10));
    let removes = async {
        let removed = remove(&a, &held[..1]).await;
        (all_ok(&removed), world.stage.now())
    };
    let work = async {
        world.sleep(SECOND * 5).await;
        let began = world.stage.now();
        (began, receive(&b, 10, 600).await)
    };
    let ((removed, at), (began, found)) = join(removes, work).await;
    let again = removed && at < began && ids(&found).contains(&held[0].id);
    ensure(!again, "received after its acknowledged remove")
}

async fn orphan(world: World) -> Outcome {
    let a = world.queue().await;
    send(&a, 3).await.unwrap();
    world.stage.once("PUT", "0-state", Fault::Late(SECOND * 3));
    receive(&a, 10, 30).await;
    let found = receive(&a, 10, 30).await;
    assert!(all_ok(&remove(&a, &found).await));
    world.sleep(MINUTE).await;
    receive_often(&a).await;
    world.sleep(SECOND).await;
    ensure(
        world.stage.keys() == ["p/queues/q"],
        "left over: a state without a segment",
    )
}

async fn repeated_names(world: World) -> Outcome {
    let a = world.queue().await;
    let b = world.queues("b");
    send(&a, 1).await.unwrap();
    send(&b, 1).await.unwrap();
    ensure(drain(&a).await.len() == 2, "acknowledged message lost")
}

async fn names_of_two_lives(world: World) -> Outcome {
    let a = world.queue().await;
    let b = world.queues("b");
    send(&a, 2).await.unwrap();
    world.stage.rule(|call| {
        let meets = call.kind == "DELETE" && call.key.contains("0-state");
        meets.then_some(Fault::LoseRequest)
    });
    let found = receive(&a, 10, 2).await;
    assert!(all_ok(&remove(&a, &found[..1]).await));
    assert!(all_ok(&remove(&a, &found[1..]).await));
    world.sleep(MINUTE).await;
    send(&b, 2).await.unwrap();
    world.stage.calm();
    world.sleep(SECOND * 5).await;
    let fresh = world.queues("fresh");
    ensure(drain(&fresh).await.len() == 2, "acknowledged message lost")
}

async fn peek_reads_state(world: World) -> Outcome {
    let a = world.queue().await;
    let b = world.queues("b");
    send(&a, 2).await.unwrap();
    let found = receive(&a, 10, 1).await;
    assert!(all_ok(&remove(&a, &found[..1]).await));
    let peeked = ids(&receive(&b, 10, 0).await);
    ensure(!peeked.contains(&found[0].id), "received after its remove")
}

async fn peek_removes(world: World) -> Outcome {
    let a = world.queue().await;
    let p = world.queues("p");
    send(&a, 3).await.unwrap();
    let peeked = receive(&p, 10, 0).await;
    assert_eq!(peeked.len(), 3);
    let found = receive(&a, 1, 600).await;
    assert!(all_ok(&remove(&a, &found).await));
    let other = peeked.iter().find(|one| one.id != found[0].id).unwrap();
    assert!(all_ok(&remove(&p, std::slice::from_ref(other)).await));
    let fresh = world.queues("fresh");
    let again = drain(&fresh).await;
    ensure(!again.contains(&found[0].id), "received after its remove")
}

// Times.

async fn fresh_writer(world: World) -> Outcome {
    let b = world.queue().await;
    send(&b, 2).await.unwrap();
    receive(&b, 1, 0).await;
    world.sleep(SECOND * 100).await;
    let a = world.queues("a");
    let held = receive(&a, 10, 30).await;
    assert_eq!(held.len(), 2);
    apart(&held, &receive(&b, 10, 30).await)
}

async fn slow_wall_clock(world: World) -> Outcome {
    let b = world.queue().await;
    send(&b, 2).await.unwrap();
    let a = world.queues_of("a", -100_000);
    let held = receive(&a, 10, 30).await;
    assert_eq!(held.len(), 2);
    apart(&held, &receive(&b, 10, 30).await)
}

async fn fast_wall_clock(world: World) -> Outcome {
    let a = world.queue().await;
    send(&a, 2).await.unwrap();
    let b = world.queues_of("b", 100_000);
    let held = receive(&a, 10, 30).await;
    assert_eq!(held.len(), 2);
    apart(&held, &receive(&b, 10, 30).await)
}

async fn late_answer(world: World) -> Outcome {
    let b = world.queue().await;
    send(&b, 2).await.unwrap();
    let a = world.queues("a");
    world
        .stage
        .once("PUT", "0-state", Fault::SlowAnswer(SECOND * 10));
    let work = async {
        world.sleep(SECOND * 8).await;
        receive(&b, 10, 600).await
    };
    let (one, other) = join(receive(&a, 10, 5), work).await;
    assert_eq!(other.len(), 2);
    apart(&one, &other)
}

async fn grain(world: World) -> Outcome {
    let until = |millis: u64| {
        let at = Duration::from_millis(millis);
        world.sleep(at - world.stage.now())
    };
    let a = world.queue().await;
    let b = world.queues("b");
    send(&a, 2).await.unwrap();
    // It lands at a whole second, so that what `b` knows of the time is nearly exact.
    until(10_985).await;
    a.create("z", &QueueSettings::default()).await.unwrap();
    b.list("").await.unwrap();
    // The list takes 25 ms, and the claim lands at 12.9 s: Last-Modified says 12.
    until(12_860).await;
    let held = receive(&a, 10, 2).await;
    assert_eq!(held.len(), 2);
    until(14_300).await;
    apart(&held, &receive(&b, 10, 30).await)
}

// Names of queues.

async fn create_again(queues: &BucketQueues, world: &World) {
    while queues.create("q", &QueueSettings::default()).await.is_err() {
        world.sleep(SECOND * 5).await;
    }
}

async fn name_used_again(world: World) -> Outcome {
    let d = world.queue().await;
    let a = world.queues("a");
    send(&a, 1).await.unwrap();
    world.sleep(SECOND).await;
    d.delete("q").await.unwrap();
    create_again(&d, &world).await;
    let sent = send(&a, 1).await;
    let found = drain(&d).await;
    ensure(
        sent.is_err() || found.len() == 1,
        "acknowledged message of the living queue lost",
    )
}

async fn late_delete_of_settings(world: World) -> Outcome {
    let d = world.queue().await;
    world
        .stage
        .once("DELETE", "queues/", Fault::Late(SECOND * 100));
    d.delete("q").await.unwrap();
    create_again(&d, &world).await;
    world.sleep(SECOND * 200).await;
    let sent = send(&world.queues("fresh"), 1).await;
    ensure(sent.is_ok(), "a living queue vanished")
}

async fn sweep_meets_a_new_queue(world: World) -> Outcome {
    let d = world.queue().await;
    d.delete("q").await.unwrap();
    world.sleep(SECOND * 65).await;
    let x = world.queues("x");
    world
        .stage
        .once("LIST", "messages/q", Fault::Slow(SECOND * 3));
    let work = async {
        world.sleep(SECOND / 2).await;
        create_again(&d, &world).await;
        send(&d, 1).await.unwrap();
    };
    let (swept, ()) = join(x.sweep(false), work).await;
    swept.unwrap();
    ensure(drain(&d).await.len() == 1, "acknowledged message lost")
}

async fn old_message_in_a_new_queue(world: World) -> Outcome {
    let d = world.queue().await;
    let a = world.queues("a");
    send(&a, 1).await.unwrap();
    d.delete("q").await.unwrap();
    // Settings are cached: the send goes to the dead queue.
    send(&a, 1).await.unwrap();
    create_again(&d, &world).await;
    let found = drain(&d).await;
    ensure(
        found.is_empty(),
        "the new queue shows a message of the old one",
    )
}

// Logs.

async fn put(domains: &BucketDomains, name: &str, value: &str) -> Result<(), Error> {
    domains.put("dom", &item(name, "a", value), None).await
}

async fn value(domains: &BucketDomains, name: &str) -> Result<Option<String>, Error> {
    let found: Vec<Attribute> = domains
        .get("dom", name, &[], ReadConsistency::Strong)
        .await?;
    Ok(found.into_iter().next().map(|attribute| attribute.value))
}

async fn fresh_value(world: &World, name: &str) -> Option<String> {
    value(&world.domains("fresh"), name).await.ok().flatten()
}

async fn racing_writes(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    let both = join(put(&a, "i", "1"), put(&b, "j", "1")).await;
    assert!(both.0.is_ok() && both.1.is_ok());
    let kept = fresh_value(&world, "i").await.is_some() && fresh_value(&world, "j").await.is_some();
    ensure(kept, "acknowledged write is not in the log")
}

async fn unresolved_slot(world: World) -> Outcome {
    let a = world.domain().await;
    world.stage.once("PUT", "logs/", Fault::LoseRequest);
    put(&a, "i", "1").await.unwrap();
    let kept = fresh_value(&world, "i").await.is_some();
    ensure(kept, "hole in the log")
}

async fn same_content(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    world.stage.once("PUT", "logs/", Fault::LoseAnswer);
    world.stage.once("PUT", "logs/", Fault::LoseAnswer);
    let both = join(create(&a, "i", "same"), create(&b, "i", "same")).await;
    ensure(
        both.0.is_err() || both.1.is_err(),
        "two winners of one condition",
    )
}

/// A PUT whose outcome stays unknown is followed by a larger batch for the same slot.
async fn larger_batch(world: World) -> Outcome {
    let a = world.domain().await;
    world.stage.once("PUT", "logs/", Fault::LoseAnswer);
    world.stage.rule(|call| {
        let meets = call.kind == "GET" && call.key.contains("logs/");
        meets.then_some(Fault::LoseRequest)
    });
    let first = put(&a, "i", "1").await;
    let kind = first.map_err(|error| error.kind);
    assert_eq!(kind, Err(ErrorKind::Ambiguous));
    world.stage.calm();
    let both = join(put(&a, "i", "1"), put(&a, "j", "1")).await;
    assert!(both.0.is_ok() && both.1.is_ok());
    let kept = fresh_value(&world, "j").await.is_some();
    ensure(kept, "acknowledged write is not in the log")
}

async fn slow_look(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    world
        .stage
        .once("GET", "logs/", Fault::SlowAnswer(SECOND * 11));
    let work = async {
        world.sleep(SECOND).await;
        put(&a, "i", "1").await.unwrap();
    };
    join(value(&b, "first"), work).await.0.unwrap();
    let found = b
        .get("dom", "i", &[], ReadConsistency::Eventual)
        .await
        .unwrap();
    ensure(!found.is_empty(), "an eventual read is older than 5 s")
}

async fn racing_conditions(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    let both = join(create(&a, "i", "a"), create(&b, "i", "b")).await;
    ensure(
        both.0.is_err() || both.1.is_err(),
        "two winners of one condition",
    )
}

async fn refusal_on_an_old_view(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    create(&a, "i", "a").await.unwrap();
    value(&b, "i").await.unwrap();
    let whole = ItemDelete {
        name: "i".to_owned(),
        attributes: Vec::new(),
    };
    a.remove("dom", &whole, None).await.unwrap();
    let created = create(&b, "i", "b").await;
    ensure(created.is_ok(), "refused by a state of before the call")
}

async fn joined_read(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    world
        .stage
        .once("GET", "logs/", Fault::SlowAnswer(SECOND * 2));
    let work = async {
        world.sleep(SECOND / 2).await;
        put(&a, "i", "1").await.unwrap();
        value(&b, "i").await.unwrap()
    };
    let (_, found) = join(value(&b, "first"), work).await;
    ensure(
        found.is_some(),
        "a strong read missed an acknowledged write",
    )
}

async fn reader_without_contact(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    a.delete("dom").await.unwrap();
    world.sleep(DAY + HOUR).await;
    a.sweep(false).await.unwrap();
    let found = value(&b, "first").await;
    ensure(found.is_err(), "a dead domain is taken for the present one")
}

async fn writer_without_contact(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    world.stage.once("PUT", "logs/", Fault::Slow(DAY * 2));
    let work = async {
        world.sleep(SECOND).await;
        a.delete("dom").await.unwrap();
        world.sleep(DAY + HOUR).await;
        a.sweep(false).await.unwrap();
    };
    let (slow, ()) = join(put(&b, "i", "1"), work).await;
    ensure(slow.is_err(), "acknowledged write is lost")
}

async fn unresolved_without_contact(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    world.stage.once("PUT", "logs/", Fault::LoseAnswer);
    world
        .stage
        .once("GET", "logs/", Fault::SlowAnswer(HOUR * 2));
    let work = async {
        world.sleep(SECOND).await;
        a.delete("dom").await.unwrap();
    };
    let (slow, ()) = join(put(&b, "i", "1"), work).await;
    let kind = slow.map_err(|error| error.kind);
    ensure(kind == Err(ErrorKind::Ambiguous), "refused, but in the log")
}

async fn write_after_deletion(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    a.delete("dom").await.unwrap();
    let written = put(&b, "i", "1").await;
    ensure(written.is_err(), "acknowledged after the deletion")
}

async fn write_between(world: World) -> Outcome {
    let a = world.domain().await;
    let (b, f) = (world.domains("b"), world.domains("f"));
    value(&b, "first").await.unwrap();
    world.stage.once("PUT", "logs/", Fault::Slow(SECOND * 3));
    let work = async {
        world.sleep(SECOND / 2).await;
        let is_gone = value(&f, "first").await.is_err();
        (is_gone, put(&b, "i", "1").await)
    };
    let (deleted, (is_gone, written)) = join(a.delete("dom"), work).await;
    deleted.unwrap();
    ensure(
        !is_gone || written.is_err(),
        "acknowledged after the deletion",
    )
}

async fn seal_met(world: World) -> Outcome {
    let a = world.domain().await;
    let process = world.stage.process("dying");
    let dying = BucketDomains::new(world.stage.objects(), Path::from("p"), process.runtime());
    let kill = process.clone();
    world.stage.rule(move |call| {
        let meets = call.kind == "PUT" && call.key == "p/domains/dom";
        meets.then(|| {
            kill.crash();
            Fault::LoseRequest
        })
    });
    let deletes = async move { dying.delete("dom").await };
    drop(process.runtime().spawn(deletes));
    process.crashed().await;
    world.stage.calm();
    assert!(put(&a, "i", "1").await.is_err());
    a.create("dom").await.unwrap();
    let written = put(&a, "i", "1").await;
    ensure(written.is_ok(), "gone is answered, and then that it exists")
}

async fn late_delete_of_a_manifest(world: World) -> Outcome {
    let a = world.domain().await;
    world
        .stage
        .once("DELETE", "domains/", Fault::Late(SECOND * 100));
    a.delete("dom").await.unwrap();
    a.create("dom").await.unwrap();
    put(&a, "i", "1").await.unwrap();
    world.sleep(SECOND * 200).await;
    let kept = fresh_value(&world, "i").await.is_some();
    ensure(kept, "a living domain vanished")
}

async fn log_of_two_lives(world: World) -> Outcome {
    let a = world.domain().await;
    a.delete("dom").await.unwrap();
    a.create("dom").await.unwrap();
    let written = join_in_time(&world, put(&a, "i", "1")).await;
    ensure(
        matches!(written, Some(Ok(()))),
        "a new domain shows the old one's end",
    )
}

async fn join_in_time<T>(world: &World, future: impl Future<Output = T>) -> Option<T> {
    let runtime = world.stage.executor.harness().runtime();
    runtime.timeout(MINUTE, future).await
}

async fn sweep_meets_a_new_domain(world: World) -> Outcome {
    let a = world.domain().await;
    a.delete("dom").await.unwrap();
    let x = world.domains("x");
    world
        .stage
        .once("GET", "domains/dom", Fault::SlowAnswer(SECOND * 2));
    let (stage, began) = (world.stage.clone(), world.stage.now());
    world.stage.rule(move |call| {
        // The list of the sweep, not that of the creation a second later.
        let after = (stage.now() - began).as_millis();
        let meets = call.kind == "LIST" && call.key.contains("logs/dom");
        (meets && !(900..1900).contains(&after)).then_some(Fault::SlowAnswer(DAY * 2))
    });
    let work = async {
        world.sleep(SECOND).await;
        a.create("dom").await.unwrap();
        put(&a, "i", "1").await.unwrap();
    };
    let (swept, ()) = join(x.sweep(false), work).await;
    swept.unwrap();
    let kept = fresh_value(&world, "i").await.is_some();
    ensure(kept, "a slot of a living log is lost")
}

/// Writes slots up to this number.
async fn write_to(domains: &BucketDomains, from: usize, to: usize) {
    for number in from..=to {
        put(domains, "n", &number.to_string()).await.unwrap();
    }
}

fn large() -> ItemPut {
    let attributes = (0..80).map(|number| AttributePut {
        name: format!("a{number}"),
        value: "x".repeat(1000),
        replace: true,
    });
    ItemPut {
        name: "large".to_owned(),
        attributes: attributes.collect(),
    }
}

async fn manifest_overwritten(world: World) -> Outcome {
    let a = world.domain().await;
    let d = world.domains("d");
    write_to(&a, 2, 255).await;
    value(&d, "first").await.unwrap();
    world
        .stage
        .once("GET", "domains/dom", Fault::SlowAnswer(SECOND * 5));
    write_to(&a, 256, 256).await;
    world.sleep(SECOND).await;
    d.delete("dom").await.unwrap();
    world.sleep(MINUTE).await;
    let living = world.domains("fresh").list().await.unwrap();
    ensure(living.is_empty(), "a deleted domain lives again")
}

async fn snapshot_lost(world: World) -> Outcome {
    let a = world.domain().await;
    world.stage.rule(|call| {
        let meets = call.kind == "PUT" && call.key.contains("snapshots/");
        meets.then_some(Fault::LoseRequest)
    });
    write_to(&a, 2, 256).await;
    world.sleep(MINUTE).await;
    let kept = fresh_value(&world, "first").await.is_some();
    ensure(kept, "the manifest names a snapshot that is not there")
}

async fn stubs_without_snapshot(world: World) -> Outcome {
    let a = world.domain().await;
    a.put("dom", &large(), None).await.unwrap();
    world.stage.rule(|call| {
        let meets = call.kind == "PUT" && call.key.contains("domains/");
        meets.then_some(Fault::LoseRequest)
    });
    write_to(&a, 3, 256).await;
    world.sleep(MINUTE * 5).await;
    let read = join_in_time(&world, fresh_value(&world, "large")).await;
    ensure(matches!(read, Some(Some(_))), "a slot is lost")
}

async fn stub_of_an_unknown_write(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    world.stage.once("PUT", "logs/", Fault::LoseAnswer);
    world.stage.once("GET", "logs/", Fault::Slow(MINUTE));
    let absent = Expected::Absent("a0".to_owned());
    let put = large();
    let slow = b.put("dom", &put, Some(&absent));
    let work = async {
        world.sleep(SECOND).await;
        write_to(&a, 3, 257).await;
    };
    let (slow, ()) = join(slow, work).await;
    ensure(slow.is_ok(), "refused, but in the log")
}

async fn freed_slot(world: World) -> Outcome {
    let a = world.domain().await;
    let b = world.domains("b");
    value(&b, "first").await.unwrap();
    a.put("dom", &large(), None).await.unwrap();
    write_to(&a, 3, 256).await;
    world.sleep(MINUTE).await;
    put(&b, "i", "1").await.unwrap();
    let kept = fresh_value(&world, "i").await.is_some();
    ensure(kept, "acknowledged write is not in the log")
}

async fn newer_snapshot_swept(world: World) -> Outcome {
    let a = world.domain().await;
    write_to(&a, 2, 255).await;
    world
        .stage
        .once("LIST", "snapshots/dom", Fault::Slow(MINUTE));
    write_to(&a, 256, 512).await;
    world.sleep(MINUTE * 2).await;
    let read = join_in_time(&world, fresh_value(&world, "first")).await;
    ensure(
        matches!(read, Some(Some(_))),
        "the manifest's snapshot is swept",
    )
}

macro_rules! mutants {
    ($($guard:ident: $scenario:ident,)*) => {
        const MUTANTS: &[(Guard, fn(Option<Guard>) -> Outcome)] = &[
            $((Guard::$guard, |removed| {
                let world = World::new(removed);
                world.stage.clone().run($scenario(world))
            }),)*
        ];
    };
}

mutants! {
    BodyAfterClaim: body_before_claim,
    BodyAfterUpdate: body_before_update,
    InTime: slow_receive,
    NewName: repeated_send,
    NewNameIfAbsent: repeated_send,
    StatesFirst: segments_listed_first,
    UpdateIfMatch: claims_update,
    CreateIfAbsent: claims_create,
    ClaimIds: unknown_claim,
    NewestClaim: old_receipt,
    NewestAtEveryWrite: old_receipt_on_a_new_view,
    HideNewest: old_receipt_hides,
    LastOfAll: some_left,
    SegmentBeforeState: state_deleted_first,
    SegmentBeforeStateRetention: state_retired_first,
    SendAfterPut: lost_sends,
    SendUnknown: unknown_send,
    RemoveAfterPut: remove_before_its_answer,
    Orphans: orphan,
    RandomNames: repeated_names,
    RandomNamesIfAbsent: names_of_two_lives,
    PeekState: peek_reads_state,
    PeekIfMatch: peek_removes,
    ClaimByModified: fresh_writer,
    ClaimByStoreClock: slow_wall_clock,
    HolderFromSending: late_answer,
    Grain: grain,
    TakerByStoreClock: fast_wall_clock,
    NameRests: name_used_again,
    SettingsStay: late_delete_of_settings,
    ListBeforeSettings: sweep_meets_a_new_queue,
    QueueIncarnation: old_message_in_a_new_queue,
    SlotIfAbsent: racing_writes,
    ResolveFirst: unresolved_slot,
    PutIdOfProcess: same_content,
    PutIdOfContent: larger_batch,
    DecideAgain: racing_conditions,
    RefuseAtTail: refusal_on_an_old_view,
    OwnGet: joined_read,
    YoungFromSending: slow_look,
    ReaderContact: reader_without_contact,
    WriterContact: writer_without_contact,
    UnresolvedUnknown: unresolved_without_contact,
    Seal: write_after_deletion,
    SealFirst: write_between,
    SealHelp: seal_met,
    ManifestStays: late_delete_of_a_manifest,
    LogIncarnation: log_of_two_lives,
    ListBeforeManifest: sweep_meets_a_new_domain,
    ManifestIfMatch: manifest_overwritten,
    SnapshotFirst: snapshot_lost,
    ManifestBeforeStubs: stubs_without_snapshot,
    StubPutId: stub_of_an_unknown_write,
    SlotsStay: freed_slot,
    SnapshotsBelow: newer_snapshot_swept,
}

#[test]
fn every_scenario_holds_with_all_guards() {
    let mut broken = Vec::new();
    for (guard, scenario) in MUTANTS {
        if let Err(what) = scenario(None) {
            broken.push(format!("{guard:?}: {what}"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_mutant_is_caught() {
    let mut missed = Vec::new();
    for (guard, scenario) in MUTANTS {
        match scenario(Some(*guard)) {
            Ok(()) => missed.push(guard),
            Err(what) => println!("caught: {guard:?}: {what}"),
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
