//! A database on a modelled cloud in virtual time.

#![allow(dead_code, reason = "each test uses a part of it")]

use fader_cloud::Cloud;
use fader_cloud::model::{Model, Process, Profile, Skew};
use fader_database::{CollectionSettings, Database, Level, Options};
use object_store::path::Path;

/// What implements queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A service of queues.
    Service,
    /// Queues in the bucket of the database.
    Bucket,
}

impl Backend {
    pub(crate) const ALL: [Backend; 2] = [Backend::Service, Backend::Bucket];
}

/// The cloud of a process.
pub(crate) fn cloud(model: &Model, process: &Process, backend: Backend) -> Cloud {
    let cloud = model.cloud(process);
    match backend {
        Backend::Service => cloud,
        Backend::Bucket => cloud.in_bucket(&Path::from("queues")),
    }
}

pub(crate) fn model(seed: u64) -> Model {
    Model::new(Profile {
        seed,
        ..Profile::default()
    })
}

/// Runs a test on a model until it ends.
pub(crate) fn run<F: Future<Output = ()> + Send + 'static>(
    model: Model,
    test: impl FnOnce(Model) -> F,
) {
    let executor = model.executor.clone();
    executor.run(test(model));
    executor.shut_down();
}

/// A test on both kinds of queues.
pub(crate) fn on_all<F: Future<Output = ()> + Send + 'static>(test: fn(Model, Backend) -> F) {
    for backend in Backend::ALL {
        run(model(1), |model| test(model, backend));
    }
}

/// A new process with a clock that is right.
pub(crate) fn process(model: &Model, name: &str) -> Process {
    model.executor.process(name, Skew::default())
}

/// Small pages, so that few records split them.
pub(crate) fn small() -> CollectionSettings {
    CollectionSettings {
        minimum: Level::Naive,
        leaf_bytes: 400,
        node_bytes: 400,
        ..CollectionSettings::default()
    }
}

/// A database with the collection `books`, and its client.
pub(crate) async fn database(model: &Model, name: &str, backend: Backend) -> Database {
    let cloud = cloud(model, &process(model, name), backend);
    let database = Database::create(cloud, Options::default())
        .await
        .expect("a new database");
    let created = database.create_collection("books", &small()).await;
    created.expect("a new collection");
    database
}

/// Another client of the database.
pub(crate) async fn client(model: &Model, name: &str, backend: Backend) -> Database {
    let cloud = cloud(model, &process(model, name), backend);
    Database::open(cloud, Options::default())
        .await
        .expect("the database")
}
