//! Domains in a bucket: the contract, the requests that they cost, and what faults do to them.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use crate::stage;
use fader_cloud::conformance::{SystemUnderTest, domains, judge};
use fader_cloud::{
    Attribute, AttributePut, Domains, ErrorKind, Expected, ItemDelete, ItemPut, ReadConsistency,
};
use futures_util::future::join_all;
use stage::domains::{create, get, new, of, put, start, value};
use stage::{Fault, Stage};

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn bucket_domains_keep_the_contract() {
    for seed in 0..10 {
        let mut stage = Stage::new(seed);
        stage.jitter = Duration::from_millis(seed);
        let verdicts = stage.run(async {
            let process = stage.process("one");
            let service = of(&stage, &process);
            let mut verdicts = Vec::new();
            let clock = process.clock();
            let subject = SystemUnderTest {
                service: &service as &dyn Domains,
                clock: &*clock,
                prefix: "t",
            };
            domains(&subject, &mut |verdict| verdicts.push(verdict)).await;
            verdicts
        });
        assert_eq!(judge(&verdicts, &[]).map(drop), Ok(()), "seed {seed}");
    }
}

#[test]
fn each_call_takes_one_request() {
    let stage = Stage::new(1);
    stage.run(async {
        let domains = start(&stage).await;
        let before = stage.count();
        put(&domains, "i", "a", "1").await.unwrap();
        assert_eq!(stage.kinds(before), ["PUT"]);
        create(&domains, "i", "me").await.unwrap();
        assert_eq!(stage.kinds(before), ["PUT"; 2]);
        // Within five seconds an eventual read costs nothing.
        assert_eq!(get(&domains, "i", ReadConsistency::Eventual).await.len(), 2);
        stage.sleep(Duration::from_secs(4)).await;
        assert_eq!(get(&domains, "i", ReadConsistency::Eventual).await.len(), 2);
        assert_eq!(stage.count(), before + 2);
        let before = stage.count();
        let refused = create(&domains, "i", "me").await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Precondition);
        assert_eq!(stage.kinds(before), ["GET"]);
        assert_eq!(get(&domains, "i", ReadConsistency::Strong).await.len(), 2);
        assert_eq!(stage.kinds(before), ["GET"; 2]);
        stage.sleep(Duration::from_secs(6)).await;
        assert_eq!(get(&domains, "i", ReadConsistency::Eventual).await.len(), 2);
        assert_eq!(stage.kinds(before), ["GET"; 3]);
        let before = stage.count();
        stage.sleep(DAY).await;
        assert_eq!(stage.count(), before);
    });
}

#[test]
fn writes_that_wait_share_a_slot() {
    let stage = Stage::new(1);
    stage.run(async {
        let domains = start(&stage).await;
        let before = stage.count();
        let began = stage.now();
        let writers = (0..64).map(|writer| {
            let domains = domains.clone();
            async move {
                for round in 0..10 {
                    let name = format!("{writer}");
                    put(&domains, &name, "a", &round.to_string()).await.unwrap();
                }
            }
        });
        join_all(writers).await;
        let took = (stage.now() - began).as_secs_f64();
        let one_by_one = 640.0 * 0.030;
        assert!(20.0 * took <= one_by_one, "{took} s of {one_by_one}");
        assert!(stage.count() - before <= 32, "{}", stage.count() - before);
        assert_eq!(value(&new(&stage, "two"), "63").await.as_deref(), Some("9"));
    });
}

/// It shows LOG-2.
#[test]
fn a_write_is_resolved_before_the_next() {
    for fault in [
        Fault::LoseAnswer,
        Fault::LoseRequest,
        Fault::Late(Duration::from_secs(3)),
    ] {
        let stage = Stage::new(1);
        stage.run(async {
            let domains = start(&stage).await;
            stage.once("PUT", "logs/", fault);
            create(&domains, "i", "me").await.unwrap();
            create(&domains, "j", "me").await.unwrap();
            stage.sleep(Duration::from_secs(10)).await;
            assert_eq!(stage.keys_with("logs/").len(), 3, "{fault:?}");
            let other = new(&stage, "two");
            assert_eq!(value(&other, "i").await.as_deref(), Some("me"));
            let refused = create(&other, "i", "other").await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Precondition);
        });
    }
}

/// Of the same conditional write by two processes one wins, though both answers are lost.
#[test]
fn two_processes_do_not_share_a_put() {
    let stage = Stage::new(1);
    stage.run(async {
        let one = start(&stage).await;
        let two = new(&stage, "two");
        value(&two, "i").await;
        stage.once("PUT", "logs/", Fault::LoseAnswer);
        stage.once("PUT", "logs/", Fault::LoseAnswer);
        let both = join_all([create(&one, "i", "same"), create(&two, "i", "same")]).await;
        assert_eq!(both.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    });
}

#[test]
fn an_outcome_that_cannot_be_found_out_is_ambiguous() {
    let stage = Stage::new(1);
    stage.run(async {
        let domains = start(&stage).await;
        stage.rule(|call| call.key.contains("logs/").then_some(Fault::LoseRequest));
        let error = put(&domains, "i", "a", "1").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Ambiguous);
        let error = put(&domains, "j", "a", "1").await.unwrap_err();
        assert_ne!(error.kind, ErrorKind::NotFound);
        stage.calm();
        // The unresolved slot comes first.
        put(&domains, "k", "a", "1").await.unwrap();
        let other = new(&stage, "two");
        assert_eq!(value(&other, "i").await.as_deref(), Some("1"));
        assert_eq!(value(&other, "j").await, None);
        assert_eq!(value(&other, "k").await.as_deref(), Some("1"));
    });
}

#[test]
fn a_deleted_domain_is_gone_for_all() {
    let stage = Stage::new(1);
    stage.run(async {
        let one = start(&stage).await;
        let two = new(&stage, "two");
        assert_eq!(value(&two, "first").await.as_deref(), Some("1"));
        one.delete("dom").await.unwrap();
        assert_eq!(one.list().await.unwrap(), [""; 0]);
        let error = put(&two, "i", "a", "1").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        two.create("dom").await.unwrap();
        assert_eq!(value(&one, "first").await, None);
        put(&one, "i", "a", "2").await.unwrap();
        assert_eq!(value(&two, "i").await.as_deref(), Some("2"));
        assert_eq!(two.list().await.unwrap(), ["dom"]);
        // The dead log stays for a day.
        assert_eq!(stage.keys_with("logs/").len(), 3);
        assert_eq!(two.sweep(false).await.unwrap(), [""; 0]);
        stage.sleep(DAY + HOUR).await;
        let swept = two.sweep(true).await.unwrap();
        assert_eq!((swept.len(), stage.keys_with("logs/").len()), (2, 3));
        assert_eq!(new(&stage, "three").sweep(false).await.unwrap(), swept);
        assert_eq!(stage.keys_with("logs/").len(), 1);
        assert_eq!(value(&two, "i").await.as_deref(), Some("2"));
    });
}

/// A deletion whose process died behind its seal is finished by the next process that meets it.
#[test]
fn a_process_that_meets_a_seal_marks_the_manifest() {
    let stage = Stage::new(1);
    stage.run(async {
        let process = stage.process("dying");
        let dying = of(&stage, &process);
        let one = start(&stage).await;
        let kill = process.clone();
        stage.rule(move |call| {
            // The seal has landed.
            if call.kind == "PUT" && call.key == "p/domains/dom" {
                kill.crash();
                return Some(Fault::LoseRequest);
            }
            None
        });
        let deletes = dying.clone();
        drop(
            process
                .runtime()
                .spawn(async move { deletes.delete("dom").await }),
        );
        process.crashed().await;
        stage.calm();
        let error = put(&one, "i", "a", "1").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        one.create("dom").await.unwrap();
        assert_eq!(value(&one, "first").await, None);
    });
}

/// A slot that lands in a log which was sealed and swept meanwhile is not acknowledged.
#[test]
fn a_write_that_lands_after_an_hour_is_unknown() {
    let stage = Stage::new(1);
    stage.run(async {
        let one = start(&stage).await;
        let two = new(&stage, "two");
        value(&two, "first").await;
        stage.once("PUT", "logs/", Fault::Slow(DAY * 2));
        let slow = put(&two, "i", "a", "1");
        let work = async {
            stage.sleep(Duration::from_secs(1)).await;
            one.delete("dom").await.unwrap();
            stage.sleep(DAY + HOUR).await;
            assert_eq!(one.sweep(false).await.unwrap().len(), 2);
        };
        let (slow, ()) = futures_util::future::join(slow, work).await;
        assert_eq!(slow.unwrap_err().kind, ErrorKind::Ambiguous);
        let error = put(&two, "i", "a", "1").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
    });
}

#[test]
fn an_old_view_reads_the_manifest_first() {
    let stage = Stage::new(1);
    stage.run(async {
        let one = start(&stage).await;
        let two = new(&stage, "two");
        value(&two, "first").await;
        one.delete("dom").await.unwrap();
        stage.sleep(DAY + HOUR).await;
        one.sweep(false).await.unwrap();
        let read = two.get("dom", "first", &[], ReadConsistency::Strong).await;
        assert_eq!(read.unwrap_err().kind, ErrorKind::NotFound);
    });
}

fn batch(round: usize) -> Vec<ItemPut> {
    (0..25)
        .map(|number| ItemPut {
            name: format!("big {number}"),
            attributes: (0..4)
                .map(|attribute| AttributePut {
                    name: format!("a{attribute}"),
                    value: format!("{round:>1000}"),
                    replace: true,
                })
                .collect(),
        })
        .collect()
}

#[test]
fn a_snapshot_covers_256_slots_and_large_ones_become_stubs() {
    let stage = Stage::new(1);
    stage.run(async {
        let one = start(&stage).await;
        let early = new(&stage, "early");
        value(&early, "first").await;
        one.put_batch("dom", &batch(1)).await.unwrap();
        let large = stage.keys_with("logs/").remove(1);
        assert!(64 * 1024 < stage.bytes(&large).unwrap().len());
        for round in 3..=600 {
            put(&one, "i", "a", &round.to_string()).await.unwrap();
        }
        stage.sleep(HOUR / 4).await;
        assert!(stage.bytes(&large).unwrap().len() < 100);
        assert_eq!(stage.keys_with("logs/").len(), 600);
        // Of the snapshots at 256 and 512 the older one is gone.
        let snapshots = stage.keys_with("snapshots/");
        assert!(matches!(&snapshots[..], [key] if key.contains("0000000000000200-")));
        let late = new(&stage, "late");
        let before = stage.count();
        assert_eq!(value(&late, "i").await.as_deref(), Some("600"));
        assert!(stage.count() - before < 120);
        assert_eq!(value(&late, "first").await.as_deref(), Some("1"));
        // One that stands before the stub goes on from the snapshot.
        assert_eq!(value(&early, "i").await.as_deref(), Some("600"));
        assert_eq!(
            get(&early, "big 24", ReadConsistency::Strong).await.len(),
            4
        );
        put(&early, "i", "a", "601").await.unwrap();
        assert_eq!(value(&one, "i").await.as_deref(), Some("601"));
    });
}

#[test]
fn writers_of_many_processes_all_come_to_write() {
    for seed in 0..3 {
        let mut stage = Stage::new(seed);
        stage.jitter = Duration::from_millis(3);
        stage.run(async {
            start(&stage).await;
            let writers = (0..16).map(|number| {
                let domains = new(&stage, &format!("w{number}"));
                let stage = &stage;
                async move {
                    let mut waits = Vec::new();
                    while stage.now() < Duration::from_secs(20) {
                        let began = stage.now();
                        put(&domains, &number.to_string(), "a", "1").await.unwrap();
                        waits.push(stage.now() - began);
                    }
                    waits
                }
            });
            let mut waits = join_all(writers).await.concat();
            waits.sort_unstable();
            let (median, most) = (waits[waits.len() / 2], waits[waits.len() - 1]);
            assert!(most <= median * 20, "seed {seed}: {median:?}, {most:?}");
            assert!(200 < waits.len(), "seed {seed}: {}", waits.len());
        });
    }
}

#[test]
fn damage_is_named_and_stays() {
    let stage = Stage::new(1);
    stage.run(async {
        let one = start(&stage).await;
        put(&one, "i", "a", "1").await.unwrap();
        let slot = stage.keys_with("logs/").remove(1);
        let whole = stage.bytes(&slot).unwrap();
        let mut flipped = whole.to_vec();
        flipped[30] ^= 1;
        let mut newer = whole.to_vec();
        newer[6] = 2;
        for bytes in [flipped, newer, b"mine".to_vec(), whole[..20].to_vec()] {
            stage.set(&slot, bytes);
            let two = new(&stage, "two");
            let read = two
                .get("dom", "i", &[], ReadConsistency::Strong)
                .await
                .unwrap_err();
            assert_eq!(read.kind, ErrorKind::Malformed);
            assert!(read.context.contains(&slot), "{}", read.context);
            let write = put(&two, "j", "a", "1").await.unwrap_err();
            assert!(write.context.contains(&slot), "{}", write.context);
        }
        stage.set(&slot, whole);
        let manifest = stage.bytes("p/domains/dom").unwrap();
        stage.set("p/domains/dom", "mine");
        let two = new(&stage, "two");
        let error = put(&two, "j", "a", "1").await.unwrap_err();
        assert!(error.context.contains("p/domains/dom"), "{}", error.context);
        stage.set("p/domains/dom", manifest);
        put(&two, "j", "a", "1").await.unwrap();
        stage.set("p/logs/dom/notes.txt", "mine");
        let error = two.sweep(false).await.unwrap_err();
        assert!(error.context.contains("notes.txt"), "{}", error.context);
        assert_eq!(stage.keys_with("dom").len(), 5);
    });
}

#[test]
fn deletions_have_conditions_too() {
    let stage = Stage::new(1);
    stage.run(async {
        let one = start(&stage).await;
        let two = new(&stage, "two");
        create(&one, "i", "one").await.unwrap();
        let whole = ItemDelete {
            name: "i".to_owned(),
            attributes: Vec::new(),
        };
        let by = |value: &str| {
            Expected::Value(Attribute {
                name: "by".to_owned(),
                value: value.to_owned(),
            })
        };
        let refused = two.remove("dom", &whole, Some(&by("two"))).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Precondition);
        two.remove("dom", &whole, Some(&by("one"))).await.unwrap();
        assert_eq!(value(&one, "i").await, None);
    });
}
