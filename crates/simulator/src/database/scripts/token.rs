//! A script of a store that keeps no conditions of PUTs.

use std::time::Duration;

use fader_cloud::Clock as _;
use fader_cloud::model::{Call, Conditions, Latency, Model, Profile};
use fader_database::{CollectionSettings, Database, Guards, Level, Options};
use futures_util::future::join;

use super::{COLLECTION, DAY, WORKS, open_with};
use crate::cloud::Failure;

fn profile(read: Duration) -> Profile {
    let mut profile = Profile::default();
    profile.objects.conditions = Conditions::Ignored;
    profile.objects.get = Call {
        latency: Latency::Constant(read),
        timeout: DAY,
        ..Call::default()
    };
    profile
}

async fn open(model: &Model, name: &str, guards: Guards) -> Database {
    let options = Options {
        catalogue_ttl: DAY,
        ttl: DAY,
        ..super::options(guards)
    };
    open_with(model, name, options).await
}

async fn put(database: &Database, key: &[u8]) {
    let mut transaction = database.begin(Level::Basic);
    transaction.get(COLLECTION, key).await.expect(WORKS);
    let put = transaction.put(COLLECTION, key, b"1").await;
    put.expect("a valid record");
    transaction.commit().await.expect(WORKS);
}

/// A client compares a page for longer than it has the token. Another writes the page meanwhile.
pub(super) fn comparison_beyond_the_time_of_the_token(guards: Guards) -> Option<Failure> {
    let model = Model::new(profile(Duration::ZERO));
    let executor = model.executor.clone();
    let found = executor.run(async {
        let slow = open(&model, "slow", guards).await;
        let settings = CollectionSettings::default();
        let created = slow.create_collection(COLLECTION, &settings).await;
        created.expect("a new collection");
        let quick = open(&model, "quick", guards).await;
        put(&slow, b"a").await;
        // Reads of 32 s: of the catalogue, of the page, and the comparison, from 64 s on.
        model.set_profile(profile(Duration::from_secs(32)));
        let others = async {
            model.clock.sleep(Duration::from_secs(70)).await;
            model.set_profile(profile(Duration::ZERO));
            put(&quick, b"b").await;
            quick.settle().await.expect(WORKS);
        };
        let (settled, ()) = join(slow.settle(), others).await;
        settled.expect(WORKS);
        let judge = open(&model, "judge", guards).await;
        judge.settle().await.expect(WORKS);
        let mut reader = judge.begin(Level::Basic);
        let all = reader.range(COLLECTION, b"", None, 10).await.expect(WORKS);
        (all.len() < 2).then(|| Failure {
            guarantee: "kept",
            text: format!("of two acknowledged records these are there: {all:?}"),
        })
    });
    executor.shut_down();
    found
}
