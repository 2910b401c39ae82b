//! Write sets of many times the pool's bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fader_cloud::model::{Model, Profile, Skew};
use fader_cloud::{Clock, Cloud};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::super::{KeyValue, Transaction, Write};
use super::*;
use crate::catalogue::CollectionSettings;
use crate::disk::tests::Files;
use crate::disk::{DiskTier, PageFiles};
use crate::index::{IndexRange, IndexValue};
use crate::level::Level;
use crate::options::Options;
use crate::sealing::Identity;

const POOL_BYTES: usize = 64 << 10;
const RECORDS: u32 = 1_000;
const VALUE_BYTES: usize = 1_000;
/// What each value has.
const WORD: &str = "xyzzy";
const COLLECTION: &str = "books";

fn key(number: u32) -> Bytes {
    format!("{number:05}").into()
}

fn value(number: u32, bytes: usize) -> Bytes {
    let text = format!(r#"{{"word": "{WORD}", "number": {number}, "more": ""#);
    let more = "-".repeat(bytes.saturating_sub(text.len()));
    format!("{text}{more}\"}}").into()
}

/// A database on a modelled cloud, whose clients have a small pool.
struct Stage {
    model: Model,
    files: Option<Arc<Files>>,
    identity: Option<Identity>,
}

impl Stage {
    fn cloud(&self, name: &str) -> Cloud {
        let process = self.model.executor.process(name, Skew::default());
        self.model.cloud(&process).in_bucket(&Path::from("queues"))
    }

    fn options(&self) -> Options {
        let tier = self.files.clone().map(|files| DiskTier {
            files,
            bytes_max: 100 << 20,
        });
        Options {
            pool_bytes: POOL_BYTES,
            disk: tier,
            identity: self.identity.clone(),
            ..Options::default()
        }
    }

    async fn create(&self) -> Database {
        let created = Database::create(self.cloud("writer"), self.options()).await;
        let database = created.expect("a new database");
        let settings = CollectionSettings {
            minimum: Level::Naive,
            is_encrypted: self.identity.is_some(),
            indexes: [("word".to_owned(), "word".to_owned())].into(),
            ..CollectionSettings::default()
        };
        let created = database.create_collection(COLLECTION, &settings).await;
        created.expect("a new collection");
        database
    }

    /// What another client reads, once all is in pages.
    async fn records(&self) -> Vec<KeyValue> {
        let options = Options {
            identity: self.identity.clone(),
            ..Options::default()
        };
        let opened = Database::open(self.cloud("reader"), options).await;
        let reader = opened.expect("the database");
        reader.settle().await.expect("a cloud without faults");
        let mut transaction = reader.begin(Level::Basic);
        let all = transaction.range(COLLECTION, b"", None, usize::MAX).await;
        all.expect("readable pages")
    }

    /// Objects of values and chunks.
    async fn objects(&self) -> Vec<Bytes> {
        let objects = self.cloud("looker").objects;
        let listed = objects.list(Some(&Path::from("db/values")));
        let listed: Vec<_> = listed.try_collect().await.expect("a list");
        let mut contents = Vec::new();
        for meta in listed {
            let found = objects.get(&meta.location).await.expect("an object");
            contents.push(found.bytes().await.expect("its bytes"));
        }
        contents
    }

    /// Chunks in files.
    fn chunks(&self) -> Vec<Bytes> {
        let files = self.files.iter().flat_map(|files| files.list());
        let chunks = files.filter(|(name, _)| name.starts_with("spill-"));
        chunks
            .filter_map(|(name, _)| self.files.as_ref()?.read(&name))
            .collect()
    }

    async fn sleep(&self, seconds: u64) {
        self.model.clock.sleep(Duration::from_secs(seconds)).await;
    }
}

/// Runs a test with chunks in objects and with chunks in files.
fn on_all<F: Future<Output = ()> + Send + 'static>(test: fn(Stage) -> F) {
    for has_files in [false, true] {
        run(has_files, false, test);
    }
}

fn run<F: Future<Output = ()>>(has_files: bool, is_encrypted: bool, test: impl Fn(Stage) -> F) {
    let mut stage = Stage {
        model: Model::new(Profile::default()),
        files: has_files.then(Arc::default),
        identity: None,
    };
    if is_encrypted {
        let runtime = stage.cloud("owner").runtime;
        stage.identity = Some(Identity::new(&*runtime.entropy));
    }
    let executor = stage.model.executor.clone();
    executor.run(test(stage));
    executor.shut_down();
}

/// All numbers, far apart from one to the next.
fn shuffled() -> impl Iterator<Item = u32> {
    (0..RECORDS).map(|number| number * 377 % RECORDS)
}

async fn put(transaction: &mut Transaction, number: u32, bytes: usize) {
    let (key, value) = (key(number), value(number, bytes));
    let put = transaction.put(COLLECTION, &key, &value);
    put.await.expect("a cloud without faults");
}

/// A transaction whose values are mostly out of memory.
async fn written(database: &Database, level: Level) -> Transaction {
    let mut transaction = database.begin(level);
    for number in shuffled() {
        put(&mut transaction, number, VALUE_BYTES).await;
    }
    transaction
}

/// Bytes of values in memory: as it counts them, which is what its values say.
fn in_memory(transaction: &Transaction) -> usize {
    let writes = transaction.writes.values();
    let held: usize = writes
        .flat_map(|writes| writes.by_key.values())
        .map(Write::held)
        .sum();
    assert_eq!(held, transaction.held);
    held + transaction.spill.read_bytes()
}

/// It shows SPILL-1.
#[test]
fn values_in_memory_have_at_most_the_pools_bytes() {
    on_all(|stage| async move {
        let database = stage.create().await;
        let mut transaction = database.begin(Level::Basic);
        for number in shuffled() {
            put(&mut transaction, number, VALUE_BYTES).await;
            assert!(in_memory(&transaction) <= POOL_BYTES, "{number}");
        }
        for number in shuffled() {
            let read = transaction.get(COLLECTION, &key(number)).await;
            let read = read.expect("what was written");
            assert_eq!(read, Some(value(number, VALUE_BYTES)));
            assert!(in_memory(&transaction) <= POOL_BYTES, "{number}");
        }
        let (from, until) = (key(100), key(200));
        let read = transaction
            .range(COLLECTION, &from, Some(&until), usize::MAX)
            .await;
        let read = read.expect("what was written");
        assert_eq!(read.len(), 100);
        for ((key_read, record), number) in read.iter().zip(100..) {
            assert_eq!(
                (key_read, record),
                (&key(number), &value(number, VALUE_BYTES))
            );
        }
        let mut rest = std::mem::take(&mut transaction.writes);
        let (mut taken, mut parts) = (0, 0);
        while !rest.is_empty() {
            let part = transaction.take_part(&mut rest).await;
            let part = part.expect("what was written");
            let writes = part.values().flat_map(|writes| writes.by_key.values());
            taken += writes.clone().count();
            parts += 1;
            let bytes: usize = writes.map(Write::held).sum();
            assert!(bytes <= POOL_BYTES / 8 + 2 * VALUE_BYTES, "{bytes}");
            assert!(transaction.spill.read_bytes() <= POOL_BYTES / 4);
        }
        assert_eq!(taken, RECORDS as usize);
        assert!(100 < parts, "{parts}");
    });
}

#[test]
fn a_session_that_reads_nothing_forgets_records_that_are_in_pages() {
    on_all(|stage| async move {
        let database = stage.create().await;
        let bytes = 60_000;
        let written = 24 << 20;
        let mut transaction = database.begin(Level::Basic);
        for number in 0..written / bytes as u32 {
            put(&mut transaction, number, bytes).await;
        }
        transaction.commit().await.expect("a cloud without faults");
        // The first commit that finds more settles.
        let own_bytes = database.0.session().own_bytes();
        assert!(own_bytes <= 17 << 20, "{own_bytes}");
    });
}

#[test]
fn a_commit_whose_checkpoint_fails_was_made() {
    on_all(|stage| async move {
        // Sends go to a service, which answers when the bucket does not.
        let process = stage.model.executor.process("writer", Skew::default());
        let created = Database::create(stage.model.cloud(&process), Options::default());
        let database = created.await.expect("a new database");
        let settings = CollectionSettings::default();
        let created = database.create_collection(COLLECTION, &settings);
        created.await.expect("a new collection");
        let mut first = database.begin(Level::Basic);
        put(&mut first, 0, 10).await;
        first.commit().await.expect("a cloud without faults");
        let mut transaction = database.begin(Level::Basic);
        for number in 0..300 {
            put(&mut transaction, number, 60_000).await;
        }
        let mut down = Profile::default();
        for call in [
            &mut down.objects.get,
            &mut down.objects.put,
            &mut down.objects.list,
        ] {
            call.faults.unavailable = 1_000;
        }
        stage.model.set_profile(down);
        transaction.commit().await.expect("the queue took all");
        assert!(16 << 20 < database.0.session().own_bytes());
        stage.model.set_profile(Profile::default());
        let mut last = database.begin(Level::Basic);
        put(&mut last, 1, 10).await;
        last.commit().await.expect("a cloud without faults");
        assert!(database.0.session().own_bytes() < 1 << 20);
    });
}

/// It shows SPILL-3 of commits.
#[test]
fn a_commit_sends_all_and_leaves_no_chunk() {
    on_all(|stage| async move {
        let database = stage.create().await;
        let mut expected = BTreeMap::new();
        for (level, first) in Level::ALL.into_iter().zip([0, 10, 20, 30]) {
            let mut transaction = written(&database, level).await;
            expected.extend((0..RECORDS).map(|number| (key(number), value(number, VALUE_BYTES))));
            assert!(!stage.objects().await.is_empty() || !stage.chunks().is_empty());
            // Writes over what is out of memory, once to an object and back.
            let large = 100_000;
            put(&mut transaction, first, large).await;
            put(&mut transaction, first, 10).await;
            put(&mut transaction, first + 1, large).await;
            put(&mut transaction, first + 2, 0).await;
            expected.insert(key(first), value(first, 10));
            expected.insert(key(first + 1), value(first + 1, large));
            expected.insert(key(first + 2), value(first + 2, 0));
            let gone = key(first + 3);
            let deleted = transaction.delete(COLLECTION, &gone).await;
            deleted.expect("a valid key");
            // Deleted already: it stays away.
            let updated = transaction.update(COLLECTION, &gone, b"{}").await;
            updated.expect("a valid record");
            expected.remove(&gone);
            let missing = transaction.get(COLLECTION, &gone).await;
            assert_eq!(missing.expect("own writes"), None);
            let read = transaction.get(COLLECTION, &key(first + 1)).await;
            assert_eq!(read.expect("own writes"), Some(value(first + 1, large)));
            transaction.commit().await.expect("a cloud without faults");
            let records = stage.records().await;
            assert_eq!(records.len(), expected.len(), "{level}");
            let differs = records
                .iter()
                .find(|(key, value)| expected.get(key) != Some(value));
            assert_eq!(differs.map(|(key, _)| key), None, "{level}");
            assert!(stage.chunks().is_empty());
            // One large value of each level; what later levels replaced is a vacuum's.
            let objects = stage.objects().await;
            assert!(objects.iter().all(|object| large <= object.len()));
            assert_eq!(objects.len(), first as usize / 10 + 1, "{level}");
            expected.insert(key(first + 1), value(first + 1, VALUE_BYTES));
        }
    });
}

/// It shows SPILL-3 of transactions that are not committed.
#[test]
fn a_transaction_that_ends_otherwise_leaves_nothing() {
    on_all(|stage| async move {
        let database = stage.create().await;
        for is_told in [true, false] {
            let mut transaction = written(&database, Level::Basic).await;
            put(&mut transaction, 0, 100_000).await;
            assert!(!stage.objects().await.is_empty());
            assert_eq!(stage.chunks().is_empty(), stage.files.is_none());
            match is_told {
                true => transaction.abort(),
                false => drop(transaction),
            }
            assert!(stage.chunks().is_empty());
            stage.sleep(1).await;
            assert!(stage.objects().await.is_empty());
        }
        assert!(stage.records().await.is_empty());
    });
}

/// It shows SPILL-2.
#[test]
fn no_chunk_of_an_encrypted_collection_is_in_clear() {
    for (has_files, is_encrypted) in [(false, false), (false, true), (true, false), (true, true)] {
        run(has_files, is_encrypted, |stage| async move {
            let database = stage.create().await;
            let mut transaction = written(&database, Level::Basic).await;
            put(&mut transaction, 0, 100_000).await;
            let out = [stage.objects().await, stage.chunks()].concat();
            let is_clear = |content: &Bytes| content.windows(5).any(|five| five == WORD.as_bytes());
            assert_eq!(out.iter().any(is_clear), !is_encrypted);
            let read = transaction.get(COLLECTION, &key(1)).await;
            assert_eq!(read.expect("own writes"), Some(value(1, VALUE_BYTES)));
            transaction.commit().await.expect("a cloud without faults");
            assert_eq!(stage.records().await.len(), RECORDS as usize);
        });
    }
}

#[test]
fn a_lookup_sees_records_that_are_out_of_memory() {
    on_all(|stage| async move {
        let database = stage.create().await;
        let mut transaction = written(&database, Level::Basic).await;
        put(&mut transaction, 7, 100_000).await;
        let is_word = IndexRange::Is(IndexValue::Text(WORD.to_owned()));
        let found = transaction
            .lookup(COLLECTION, "word", &is_word, None, usize::MAX)
            .await;
        assert_eq!(found.expect("an index").len(), RECORDS as usize);
        transaction.commit().await.expect("a cloud without faults");
        database.settle().await.expect("a cloud without faults");
        let mut reader = database.begin(Level::Basic);
        let found = reader.lookup(COLLECTION, "word", &is_word, None, usize::MAX);
        let found = found.await.expect("an index");
        assert_eq!(found.len(), RECORDS as usize);
        assert_eq!(found[7].record, value(7, 100_000));
    });
}

#[test]
fn a_lost_chunk_fails_its_transaction_and_commits_nothing() {
    on_all(|stage| async move {
        let Some(files) = stage.files.clone() else {
            return;
        };
        let database = stage.create().await;
        for level in [Level::Basic, Level::Atomic] {
            let mut transaction = written(&database, level).await;
            for (name, bytes) in files.list() {
                let damaged = vec![b'?'; bytes as usize];
                assert!(files.write(&name, &damaged));
            }
            let read = transaction.get(COLLECTION, &key(0)).await;
            let is_lost = |error: Error| error.kind == ErrorKind::Malformed;
            assert!(read.is_err_and(is_lost));
            assert!(transaction.commit().await.is_err_and(is_lost));
            assert!(stage.chunks().is_empty());
        }
        assert!(stage.records().await.is_empty());
    });
}

#[test]
fn what_no_claim_object_holds_is_refused_before_it_is_read_back() {
    on_all(|stage| async move {
        let database = stage.create().await;
        let mut transaction = database.begin(Level::Atomic);
        for number in 0..1_100 {
            put(&mut transaction, number, INLINE_BYTES - 2).await;
        }
        let refused = transaction.commit().await;
        assert!(refused.is_err_and(|error| error.kind == ErrorKind::Invalid));
    });
}

#[test]
fn large_values_are_alone_and_chunks_are_full() {
    let sizes = [10, 10, INLINE_BYTES + 1, 10, 0, 500, INLINE_BYTES, 3];
    let values = sizes.map(|size| (Bytes::new(), Bytes::from(vec![0; size])));
    let mut ids = 0..;
    let planned = plan(values.into(), 30, || ids.next().expect("numbers"));
    let of = |one: &Planned| {
        let sizes: Vec<usize> = one.values.iter().map(|(_, value)| value.len()).collect();
        (one.id, one.is_large, sizes)
    };
    let planned: Vec<_> = planned.iter().map(of).collect();
    let expected = [
        (0, true, vec![INLINE_BYTES + 1]),
        (1, false, vec![10, 10, 10]),
        (2, false, vec![0, 500]),
        (3, false, vec![INLINE_BYTES]),
        (4, false, vec![3]),
    ];
    assert_eq!(planned, expected);
}
