//! A database on a modelled cloud in virtual time.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use fader_cloud::bucket::BucketQueues;
use fader_cloud::model::{Model, Process, Profile, Skew};
use fader_cloud::{Cloud, Meter, Metered, Queues, Services};
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

/// A cloud whose queues are in its bucket.
#[derive(Debug)]
struct InBucket {
    cloud: Cloud,
    queues: Arc<dyn Queues>,
}

impl Metered for InBucket {
    fn services(&self, _meter: &Meter) -> Services {
        Services {
            objects: self.cloud.objects.clone(),
            queues: self.queues.clone(),
            domains: self.cloud.domains.clone(),
        }
    }
}

/// The cloud of a process.
pub(crate) fn cloud(model: &Model, process: &Process, backend: Backend) -> Cloud {
    let cloud = model.cloud(process);
    if backend == Backend::Service {
        return cloud;
    }
    let prefix = Path::from("queues");
    let queues = BucketQueues::new(cloud.objects.clone(), prefix, cloud.runtime.clone());
    let (runtime, meter) = (cloud.runtime.clone(), cloud.meter.clone());
    let queues = Arc::new(queues);
    Cloud::new(Arc::new(InBucket { cloud, queues }), runtime, meter)
}

pub(crate) fn model(seed: u64) -> Model {
    Model::new(Profile {
        seed,
        ..Profile::default()
    })
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
