//! The search completes one run of each class of equal schedules, and misses none.

use std::collections::BTreeMap;

use fader_cloud::model::{Model, Profile, Skew};
use futures_util::stream::{self, StreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::*;

/// Processes that each put their name to some keys and then read one; how often each outcome was.
fn outcomes(budget: Budget, puts: &'static [&'static [&'static str]]) -> BTreeMap<String, u64> {
    let search = Search::new(budget);
    let mut outcomes = BTreeMap::new();
    loop {
        let mut profile = Profile::default();
        profile.objects.put.late_max = std::time::Duration::ZERO;
        let model = Model::new(profile);
        model.executor.set_scheduler(Box::new(search.clone()));
        let shown = model.executor.search(async {
            let processes = puts.iter().enumerate().map(|(at, keys)| {
                let process = model.executor.process(&format!("p{at}"), Skew::default());
                let objects = model.cloud(&process).objects;
                let done = process.runtime().spawn(async move {
                    for key in *keys {
                        let _ = objects.put(&Path::from(*key), format!("{at}").into()).await;
                    }
                });
                (process.id(), done)
            });
            let processes: Vec<_> = processes.collect();
            search.begin(processes.iter().map(|(id, _)| *id));
            futures_util::future::join_all(processes.into_iter().map(|(_, done)| done)).await;
            search.end();
            model.clock_wait().await;
            let mut shown = String::new();
            for key in ["x", "y"] {
                shown += &match model.objects.get(&Path::from(key)).await {
                    Ok(found) => String::from_utf8(found.bytes().await.unwrap().to_vec()).unwrap(),
                    Err(_) => "-".to_owned(),
                };
            }
            shown
        });
        model.executor.shut_down();
        match shown {
            Some(shown) => *outcomes.entry(shown).or_default() += 1,
            None => assert!(search.is_blocked()),
        }
        if !search.advance() {
            return outcomes;
        }
    }
}

trait Wait {
    /// Returns when all calls under way have landed.
    async fn clock_wait(&self);
}

impl Wait for Model {
    async fn clock_wait(&self) {
        use fader_cloud::Clock;
        self.clock.sleep(std::time::Duration::from_secs(1)).await;
    }
}

fn found(outcomes: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let found = outcomes.iter();
    found
        .map(|(shown, count)| (shown.as_str(), *count))
        .collect()
}

#[test]
fn puts_of_one_key_are_run_in_both_orders_and_puts_of_two_in_one() {
    let one_key = outcomes(Budget::default(), &[&["x"], &["x"]]);
    assert_eq!(found(&one_key), [("0-", 1), ("1-", 1)]);
    let two_keys = outcomes(Budget::default(), &[&["x"], &["y"]]);
    assert_eq!(found(&two_keys), [("01", 1)]);
}

#[test]
fn three_puts_of_one_key_have_six_orders() {
    let three = outcomes(Budget::default(), &[&["x"], &["x"], &["x"]]);
    assert_eq!(found(&three), [("0-", 2), ("1-", 2), ("2-", 2)]);
}

#[test]
fn opposite_orders_of_two_keys_show_all_outcomes() {
    let crossed = outcomes(Budget::default(), &[&["x", "y"], &["y", "x"]]);
    let shown: Vec<&str> = crossed.keys().map(String::as_str).collect();
    // x=0 and y=1 needs each first put before the other's second one; the opposite is a cycle.
    assert_eq!(shown, ["00", "10", "11"]);
}

#[test]
fn a_crash_leaves_out_what_was_not_sent_and_an_ambiguous_put_may_be_lost_or_late() {
    let crash = Budget {
        crashes: 1,
        ambiguous: 0,
    };
    let crashed = outcomes(crash, &[&["x", "y"]]);
    let shown: Vec<&str> = crashed.keys().map(String::as_str).collect();
    assert_eq!(shown, ["0-", "00"]);
    let ambiguous = Budget {
        crashes: 0,
        ambiguous: 1,
    };
    let lost = outcomes(ambiguous, &[&["x"], &["x"]]);
    let shown: Vec<&str> = lost.keys().map(String::as_str).collect();
    assert_eq!(shown, ["0-", "1-"]);
    let lost = outcomes(ambiguous, &[&["x"]]);
    let shown: Vec<&str> = lost.keys().map(String::as_str).collect();
    assert_eq!(shown, ["--", "0-"]);
}

#[test]
fn a_deletion_in_bulk_is_ordered_against_each_of_its_keys() {
    let search = Search::new(Budget::default());
    let (x, y) = (Path::from("folder/x"), Path::from("folder/y"));
    let mut shown = Vec::new();
    loop {
        let model = Model::new(Profile::default());
        model.executor.set_scheduler(Box::new(search.clone()));
        let found = model.executor.search(async {
            for key in [&x, &y] {
                model.objects.put(key, "".into()).await.unwrap();
            }
            let [one, other] = ["p0", "p1"].map(|name| {
                let process = model.executor.process(name, Skew::default());
                let objects = model.cloud(&process).objects;
                (process, objects)
            });
            let keys = stream::iter([Ok(x.clone()), Ok(y.clone())]).boxed();
            let deleted = async move {
                one.1.delete_stream(keys).count().await;
            };
            let deleted = one.0.runtime().spawn(deleted);
            let found = Arc::new(Mutex::new(None));
            let (key, sees) = (y.clone(), found.clone());
            let read = async move {
                let is_found = other.1.head(&key).await.is_ok();
                *sees.lock().unwrap() = Some(is_found);
            };
            let read = other.0.runtime().spawn(read);
            search.begin([one.0.id(), other.0.id()]);
            futures_util::future::join(deleted, read).await;
            search.end();
            found.lock().unwrap().expect("it was read")
        });
        model.executor.shut_down();
        match found {
            Some(found) => shown.push(found),
            None => assert!(search.is_blocked()),
        }
        if !search.advance() {
            break;
        }
    }
    shown.sort_unstable();
    assert_eq!(shown, [false, true], "one run for each order");
}
