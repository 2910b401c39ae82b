//! Queues in a bucket: the contract, the requests that they cost, and what faults do to them.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::time::Duration;

use crate::stage;
use fader_cloud::bucket::BucketQueues;
use fader_cloud::conformance::{SystemUnderTest, judge, queues};
use fader_cloud::{ErrorKind, QueueSettings, Queues, Received};
use futures_util::future::{join, join_all};
use stage::queues::{MINUTE, list_in_vain, new, now, of, receipts, remove, send, start, waiting};
use stage::{Fault, Stage};

#[test]
fn bucket_queues_keep_the_contract() {
    for seed in 0..20 {
        let mut stage = Stage::new(seed);
        stage.jitter = Duration::from_millis(seed);
        let verdicts = stage.run(async {
            let process = stage.process("one");
            let queues_of = of(&stage, &process);
            let mut verdicts = Vec::new();
            let clock = process.clock();
            let subject = SystemUnderTest {
                service: &queues_of as &dyn Queues,
                clock: &*clock,
                prefix: "t",
            };
            queues(&subject, &mut |verdict| verdicts.push(verdict)).await;
            verdicts
        });
        assert_eq!(judge(&verdicts, &[]).map(drop), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_batch_takes_six_requests() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        let before = stage.count();
        send(&queues, 10).await;
        let found = queues.receive("q", &now(10, 30)).await.unwrap();
        assert_eq!(found.len(), 10);
        remove(&queues, &found).await;
        stage.sleep(MINUTE).await;
        assert_eq!(
            stage.kinds(before),
            ["PUT", "LIST", "PUT", "GET", "DELETE", "DELETE"]
        );
        assert_eq!(stage.keys(), ["p/queues/q"]);
    });
}

#[test]
fn a_batch_that_is_peeked_at_takes_four_requests() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        let before = stage.count();
        send(&queues, 10).await;
        let found = queues.receive("q", &now(10, 0)).await.unwrap();
        assert_eq!(found.len(), 10);
        remove(&queues, &found).await;
        stage.sleep(MINUTE).await;
        assert_eq!(stage.kinds(before), ["PUT", "LIST", "GET", "DELETE"]);
        assert_eq!(stage.keys(), ["p/queues/q"]);
    });
}

#[test]
fn all_messages_are_shown_hidden_or_not_and_none_that_was_removed() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        for _ in 0..3 {
            send(&queues, 10).await;
        }
        let hidden = queues.receive("q", &now(10, 30)).await.unwrap();
        remove(&queues, &hidden[..4]).await;
        let before = stage.count();
        let all = queues.peek("q", 100).await.unwrap().unwrap();
        assert_eq!((all.messages.len(), all.is_all), (26, true));
        let kinds = stage.kinds(before);
        assert!(
            kinds.iter().all(|kind| matches!(*kind, "LIST" | "GET")),
            "{kinds:?}"
        );
        let some = queues.peek("q", 25).await.unwrap().unwrap();
        assert_eq!((some.messages.len(), some.is_all), (25, false));
        remove(&queues, &all.messages[..10]).await;
        remove(&queues, &all.messages[10..20]).await;
        remove(&queues, &all.messages[20..]).await;
        assert_eq!(queues.counts("q").await.unwrap().total(), 0);
    });
}

#[test]
fn ten_waiting_receives_share_their_requests() {
    for seed in 0..20 {
        let stage = Stage::new(seed);
        stage.run(async {
            let queues = start(&stage).await;
            let how = waiting(10, 30, 20);
            let receives = (0..10).map(|_| queues.receive("q", &how));
            let work = async {
                stage.sleep(Duration::from_millis(2600)).await;
                let before = stage.count();
                join_all((0..10).map(|_| send(&queues, 10))).await;
                before
            };
            let (found, before) = join(join_all(receives), work).await;
            let found: Vec<Received> = found.into_iter().flat_map(Result::unwrap).collect();
            assert_eq!(found.len(), 100);
            let removes = found.chunks(10).map(|messages| remove(&queues, messages));
            join_all(removes).await;
            stage.sleep(MINUTE).await;
            let kinds = stage.kinds(before);
            assert!(kinds.len() <= 8, "seed {seed}: {kinds:?}");
            assert_eq!(stage.keys(), ["p/queues/q"]);
        });
    }
}

/// It shows RECEIVER-2.
#[test]
fn a_list_of_many_seconds_serves_its_receive() {
    let mut stage = Stage::new(1);
    stage.page = 2;
    stage.list = Duration::from_millis(500);
    // A claim may take longer than a list is kept, too.
    stage.get = Duration::from_millis(700);
    stage.run(async {
        let queues = start(&stage).await;
        for _ in 0..8 {
            send(&queues, 1).await;
        }
        // The first process hides all but one of the segments, in an order of its own.
        let holder = new(&stage, "holder");
        for _ in 0..7 {
            let found = holder.receive("q", &now(1, 3600)).await.unwrap();
            assert_eq!(found.len(), 1);
        }
        // A fresh process does not know which they are: it looks at each that its list showed.
        let fresh = new(&stage, "fresh");
        let before = stage.count();
        let found = fresh.receive("q", &now(10, 30)).await.unwrap();
        assert_eq!(found.len(), 1);
        let kinds = stage.kinds(before);
        let lists = kinds.iter().filter(|kind| **kind == "LIST").count();
        assert_eq!(lists, 8, "one list of 15 keys: {kinds:?}");
    });
}

#[test]
fn receives_that_share_a_list_share_its_failure() {
    let mut stage = Stage::new(1);
    stage.list = Duration::from_millis(100);
    stage.run(async {
        let queues = start(&stage).await;
        let mut lists = 0;
        stage.rule(move |call| {
            lists += usize::from(call.kind == "LIST");
            (call.kind == "LIST" && lists == 2).then_some(Fault::LoseAnswer)
        });
        let how = now(10, 30);
        let receive = || queues.receive("q", &how);
        // The first list began before the later receives did, so these share the second.
        let later = async {
            stage.sleep(Duration::from_millis(1)).await;
            join(receive(), receive()).await
        };
        let (first, (one, other)) = join(receive(), later).await;
        assert_eq!(first.unwrap(), []);
        // Neither knows that the queue is empty.
        assert!(one.is_err() && other.is_err(), "{one:?}, {other:?}");
        send(&queues, 1).await;
        assert_eq!(queues.receive("q", &how).await.unwrap().len(), 1);
    });
}

#[test]
fn a_receive_goes_on_with_the_next_life_of_its_queue() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        for _ in 0..40 {
            assert_eq!(queues.receive("q", &now(10, 30)).await.unwrap(), []);
        }
        let other = new(&stage, "other");
        other.delete("q").await.unwrap();
        // A list that begins before settings are read again, and ends in the queue's next life.
        stage.sleep(Duration::from_secs(55)).await;
        stage.once("LIST", "messages", Fault::Slow(Duration::from_secs(12)));
        let again = async {
            stage.sleep(Duration::from_secs(8)).await;
            let created = other.create("q", &QueueSettings::default()).await;
            created.unwrap();
        };
        let before = stage.count();
        let how = waiting(10, 30, 15);
        let (found, ()) = join(queues.receive("q", &how), again).await;
        assert_eq!(found.unwrap(), []);
        let kinds = stage.kinds(before);
        let lists = kinds.iter().filter(|kind| **kind == "LIST").count();
        assert!(lists <= 12, "{kinds:?}");
    });
}

/// It shows QUEUES-1.
#[test]
fn an_idle_day_makes_no_request() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        send(&queues, 10).await;
        queues.receive("q", &now(3, 30)).await.unwrap();
        queues.receive("q", &waiting(10, 30, 2)).await.unwrap();
        stage.sleep(MINUTE).await;
        let before = stage.count();
        stage.sleep(Duration::from_secs(86_400)).await;
        assert_eq!(stage.kinds(before), [""; 0]);
    });
}

/// After a claim of a segment that is gone, the rest of an old list is not tried.
#[test]
fn a_receive_lists_again_after_a_lost_race() {
    for seed in 0..10 {
        let stage = Stage::new(seed);
        stage.run(async {
            let first = start(&stage).await;
            let (one, two) = (stage.process("one"), stage.process("two"));
            let (one, two) = (of(&stage, &one), of(&stage, &two));
            for _ in 0..4 {
                send(&first, 10).await;
            }
            one.counts("q").await.unwrap();
            assert_eq!(one.receive("q", &now(10, 30)).await.unwrap().len(), 10);
            for _ in 0..3 {
                let found = two.receive("q", &now(10, 30)).await.unwrap();
                assert_eq!(found.len(), 10, "seed {seed}");
                remove(&two, &found).await;
            }
            let sent = send(&first, 1).await;
            let before = stage.count();
            let found = one.receive("q", &now(10, 30)).await.unwrap();
            assert_eq!(found[0].id, sent[0], "seed {seed}");
            let kinds = stage.kinds(before);
            let puts = kinds.iter().filter(|kind| **kind == "PUT").count();
            assert!(puts <= 2, "seed {seed}: {kinds:?}");
        });
    }
}

#[test]
fn an_empty_wait_lists_at_most_24_times() {
    let mut stage = Stage::new(1);
    for latency in [0, 25] {
        stage.list = Duration::from_millis(latency);
        stage.run(async {
            let queues = start(&stage).await;
            let before = stage.count();
            let found = queues.receive("q", &waiting(10, 30, 20)).await.unwrap();
            assert_eq!(found.len(), 0);
            let kinds = stage.kinds(before);
            let lists = kinds.iter().filter(|kind| **kind == "LIST").count();
            assert!(lists <= 24 && lists == kinds.len(), "{kinds:?}");
        });
    }
}

#[test]
fn an_unknown_send_is_looked_for() {
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let stage = Stage::new(1);
        stage.run(async {
            let queues = start(&stage).await;
            stage.once("PUT", "messages", fault);
            let before = stage.count();
            send(&queues, 10).await;
            match fault {
                Fault::LoseAnswer => assert_eq!(stage.kinds(before), ["PUT", "HEAD"]),
                _ => assert_eq!(stage.kinds(before), ["PUT", "HEAD", "PUT"]),
            }
            assert_eq!(stage.keys_with("1-segment").len(), 1);
        });
    }
}

/// A send that lands late leaves a second message, under its own id.
#[test]
fn a_send_that_lands_late_has_another_id() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        stage.once("PUT", "messages", Fault::Late(Duration::from_secs(5)));
        let ids = send(&queues, 1).await;
        stage.sleep(Duration::from_secs(10)).await;
        assert_eq!(stage.keys_with("1-segment").len(), 2);
        let found = queues.receive("q", &waiting(10, 30, 20)).await.unwrap();
        let more = queues.receive("q", &waiting(10, 30, 20)).await.unwrap();
        let found: Vec<String> = [found, more]
            .concat()
            .into_iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(found.len(), 2);
        assert!(found.contains(&ids[0]) && found[0] != found[1]);
    });
}

#[test]
fn an_unknown_claim_is_recognized() {
    for fault in [
        Fault::LoseAnswer,
        Fault::LoseRequest,
        Fault::Late(Duration::from_secs(3)),
    ] {
        let stage = Stage::new(1);
        stage.run(async {
            let queues = start(&stage).await;
            send(&queues, 3).await;
            stage.once("PUT", "0-state", fault);
            let found = queues.receive("q", &waiting(10, 5, 20)).await.unwrap();
            assert_eq!(found.len(), 3);
            remove(&queues, &found).await;
            stage.sleep(MINUTE).await;
            // A list deletes the state that landed late.
            list_in_vain(&queues).await;
            stage.sleep(MINUTE).await;
            assert_eq!(stage.keys(), ["p/queues/q"], "{fault:?}");
        });
    }
}

#[test]
fn an_unknown_remove_is_found_out() {
    for fault in [
        Fault::LoseAnswer,
        Fault::LoseRequest,
        Fault::Late(Duration::from_secs(3)),
    ] {
        let stage = Stage::new(1);
        stage.run(async {
            let queues = start(&stage).await;
            send(&queues, 3).await;
            let found = queues.receive("q", &now(10, 5)).await.unwrap();
            stage.once("PUT", "0-state", fault);
            remove(&queues, &found[..1]).await;
            stage.sleep(MINUTE).await;
            let again = queues.receive("q", &waiting(10, 5, 20)).await.unwrap();
            let ids = |messages: &[Received]| -> Vec<String> {
                messages.iter().map(|message| message.id.clone()).collect()
            };
            assert_eq!(ids(&again), ids(&found[1..]), "{fault:?}");
        });
    }
}

/// It shows STATE-2.
#[test]
fn an_old_receipt_removes_and_hides_nothing() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        send(&queues, 2).await;
        let first = queues.receive("q", &now(2, 2)).await.unwrap();
        let second = queues.receive("q", &waiting(2, 600, 20)).await.unwrap();
        assert_eq!(second.len(), 2);
        let removed = queues.remove("q", &receipts(&first)).await.unwrap();
        for outcome in removed {
            assert_eq!(outcome.unwrap_err().kind, ErrorKind::Invalid);
        }
        let hidden = queues.hide("q", &first[0].receipt, Duration::ZERO).await;
        assert_eq!(hidden.unwrap_err().kind, ErrorKind::Invalid);
        remove(&queues, &second).await;
    });
}

#[test]
fn messages_past_retention_go() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = new(&stage, "one");
        let settings = QueueSettings {
            retention: MINUTE,
            ..QueueSettings::default()
        };
        queues.create("q", &settings).await.unwrap();
        send(&queues, 3).await;
        queues.receive("q", &now(1, 1)).await.unwrap();
        stage.sleep(MINUTE * 2).await;
        list_in_vain(&queues).await;
        stage.sleep(MINUTE).await;
        assert_eq!(stage.keys(), ["p/queues/q"]);
    });
}

/// Each of 16 processes lists what is left over many times; they do not all delete it.
#[test]
fn few_processes_delete_the_same_leftover() {
    let mut deletes = 0;
    for seed in 0..10 {
        let stage = Stage::new(seed);
        stage.run(async {
            let queues = start(&stage).await;
            send(&queues, 3).await;
            // The process that removes dies before it deletes the state.
            stage.rule(|call| {
                let meets = call.kind == "DELETE" && call.key.contains("0-state");
                meets.then_some(Fault::LoseRequest)
            });
            let found = queues.receive("q", &now(10, 5)).await.unwrap();
            remove(&queues, &found).await;
            stage.sleep(MINUTE).await;
            stage.calm();
            let before = stage.count();
            let lists = (0..16).map(|number| {
                let (stage, queues) = (&stage, new(&stage, &format!("p{number}")));
                async move {
                    stage.sleep(Duration::from_millis(number * 40)).await;
                    queues.receive("q", &waiting(10, 5, 10)).await.unwrap()
                }
            });
            join_all(lists).await;
            assert_eq!(stage.keys(), ["p/queues/q"], "seed {seed}");
            let kinds = stage.kinds(before);
            deletes += kinds.iter().filter(|kind| **kind == "DELETE").count();
        });
    }
    assert!(deletes <= 25, "{deletes} deletes of ten leftovers");
}

#[test]
fn a_deleted_name_rests_a_minute() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        send(&queues, 3).await;
        queues.delete("q").await.unwrap();
        assert_eq!(stage.keys(), ["p/queues/q"]);
        assert_eq!(queues.list("").await.unwrap(), [""; 0]);
        // Another process, which knows nothing of the store's time.
        let other = new(&stage, "two");
        let settings = QueueSettings::default();
        let early = other.create("q", &settings).await.unwrap_err();
        assert!(matches!(early.kind, ErrorKind::Unavailable { .. }));
        stage.sleep(Duration::from_secs(63)).await;
        let third = new(&stage, "three");
        third.create("q", &settings).await.unwrap();
        assert!(third.receive("q", &now(10, 5)).await.unwrap().is_empty());
        assert_eq!(third.list("").await.unwrap(), ["q"]);
        assert_eq!(stage.keys(), ["p/queues/q"]);
    });
}

/// A process that starts long after a claim does not wait for the claim's whole time once more.
/// It shows STORE-2.
#[test]
fn a_fresh_process_learns_the_time() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        send(&queues, 3).await;
        queues.receive("q", &now(3, 3600)).await.unwrap();
        stage.sleep(Duration::from_secs(3602)).await;
        let other = new(&stage, "two");
        let found = other.receive("q", &now(10, 5)).await.unwrap();
        assert_eq!(found.len(), 3);
        assert!(stage.keys_with("clock").is_empty());
    });
}

/// It shows FRAME-1.
#[test]
fn damage_and_foreign_objects_are_named_and_stay() {
    let stage = Stage::new(1);
    stage.run(async {
        let queues = start(&stage).await;
        send(&queues, 3).await;
        let segment = stage.keys_with("1-segment").remove(0);
        let whole = stage.bytes(&segment).unwrap();
        let mut flipped = whole.to_vec();
        flipped[12] ^= 1;
        let mut newer = whole.to_vec();
        newer[6] = 9;
        let cases = [
            (flipped, "damaged"),
            (newer, "newer"),
            (whole[..4].to_vec(), "not Fader's"),
            (whole[..9].to_vec(), "cut short"),
        ];
        for (bytes, what) in cases {
            stage.set(&segment, bytes);
            let error = queues.receive("q", &now(1, 1)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Malformed);
            assert!(error.context.contains(&segment), "{}", error.context);
            assert!(error.context.contains(what), "{}", error.context);
            stage.sleep(Duration::from_secs(5)).await;
        }
        stage.set(&segment, whole);
        let state = stage.keys_with("0-state").remove(0);
        let before = stage.bytes(&state).unwrap();
        stage.set(&state, &b"FADERS\x01 no state"[..]);
        let error = queues.receive("q", &now(1, 1)).await.unwrap_err();
        assert!(error.context.contains(&state), "{}", error.context);
        stage.set(&state, before);
        stage.sleep(Duration::from_secs(5)).await;
        assert_eq!(queues.receive("q", &now(9, 9)).await.unwrap().len(), 3);

        let folder = segment.rsplit_once('/').unwrap().0;
        let foreign = format!("{folder}/notes.txt");
        stage.set(&foreign, "mine");
        stage.sleep(Duration::from_secs(20)).await;
        let error = queues.receive("q", &now(1, 1)).await.unwrap_err();
        assert!(error.context.contains(&foreign), "{}", error.context);
        assert_eq!(stage.keys_with("q").len(), 4);

        stage.set("p/queues/other", "mine");
        let error = queues.list("").await.unwrap_err();
        assert!(
            error.context.contains("p/queues/other"),
            "{}",
            error.context
        );
    });
}

#[test]
fn the_last_receive_of_many_processes_leaves_nothing() {
    for seed in 0..30 {
        let mut stage = Stage::new(seed);
        stage.jitter = Duration::from_millis(20);
        stage.run(async {
            let first = start(&stage).await;
            let processes: Vec<BucketQueues> = (0..4)
                .map(|number| new(&stage, &format!("p{number}")))
                .collect();
            for _ in 0..5 {
                send(&first, 10).await;
            }
            let drains = processes.iter().map(|queues| async {
                let mut got = Vec::new();
                loop {
                    let found = queues.receive("q", &waiting(7, 30, 3)).await.unwrap();
                    if found.is_empty() {
                        return got;
                    }
                    remove(queues, &found).await;
                    got.extend(found.into_iter().map(|message| message.id));
                }
            });
            let mut got: Vec<String> = join_all(drains).await.concat();
            got.sort();
            let count = got.len();
            got.dedup();
            assert_eq!((got.len(), count), (50, 50), "seed {seed}");
            stage.sleep(MINUTE).await;
            assert_eq!(stage.keys(), ["p/queues/q"], "seed {seed}");
        });
    }
}
