//! Jobs on a modelled cloud in virtual time.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fader_cloud::Cloud;
use fader_cloud::model::{Latency, Model, Process, Profile, Skew};
use fader_mapreduce::{
    BuiltIn, Definition, Inline, Inputs, Output, Program, Register, Settings, State, Tools, Worker,
};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt};

/// Opens folders of the model: `mem://NAME`.
#[derive(Debug)]
pub(crate) struct Folders(pub(crate) Arc<dyn ObjectStore>);

#[async_trait]
impl Inputs for Folders {
    async fn open(&self, base: &str) -> fader_cloud::Result<Arc<dyn ObjectStore>> {
        let prefix = Path::from(base.trim_start_matches("mem://"));
        Ok(Arc::new(PrefixStore::new(self.0.clone(), prefix)))
    }
}

/// A model whose calls take 20 ms each.
pub(crate) fn slow(mut profile: Profile) -> Model {
    for call in profile.calls_mut() {
        call.latency = Latency::Constant(Duration::from_millis(20));
    }
    Model::new(profile)
}

pub(crate) fn model(seed: u64) -> Model {
    Model::new(Profile {
        seed,
        ..Profile::default()
    })
}

/// Runs a test on a model.
pub(crate) fn on_model<F: Future<Output = ()> + Send + 'static>(test: fn(Model) -> F) {
    let model = model(1);
    let executor = model.executor.clone();
    executor.run(test(model));
    executor.shut_down();
}

/// The output's cloud, as a process sees it: all else is outside.
pub(crate) fn cloud(model: &Model, process: &Process) -> Cloud {
    model.cloud(process)
}

pub(crate) fn process(model: &Model, name: &str) -> Process {
    model.executor.process(name, Skew::default())
}

pub(crate) async fn put(model: &Model, key: &str, text: impl Into<Vec<u8>>) {
    let payload = text.into().into();
    let put = model.objects.put(&Path::from(key), payload).await;
    put.expect("a cloud without faults");
}

/// A definition with small splits.
pub(crate) fn definition(program: &str, arguments: &[&str]) -> Definition {
    let program = Program {
        name: program.to_owned(),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
    };
    Definition {
        reduces: 3,
        split_bytes: 40,
        ..Definition::new(program, vec!["mem://in/**".to_owned()])
    }
}

pub(crate) fn tools(cloud: &Cloud) -> Tools {
    Tools {
        inputs: Arc::new(Folders(cloud.objects.clone())),
        library: Arc::new(BuiltIn),
        compute: Arc::new(Inline),
    }
}

/// A worker of a register's job.
pub(crate) fn worker(cloud: &Cloud, register: &Register) -> Worker {
    let settings = Settings::default();
    let output = Output::new(cloud.clone(), Default::default());
    let made = Worker::new(output, register.clone(), tools(cloud), settings);
    made.expect("a known program")
}

/// Runs a job with so many workers; what the register says then.
pub(crate) async fn run(model: &Model, definition: &Definition, workers: usize) -> Register {
    let first = cloud(model, &process(model, "run"));
    let output = Output::new(first.clone(), Default::default());
    let register = output.begin(definition).await.expect("a free output");
    let mut others = Vec::new();
    for number in 1..workers {
        let cloud = cloud(model, &process(model, &format!("w{number}")));
        let worker = worker(&cloud, &register);
        others.push(cloud.runtime.spawn(async move { worker.run().await }));
    }
    let own = worker(&first, &register);
    own.submit().await.expect("a cloud without faults");
    let ended = own.run().await;
    for other in others {
        let other = other.await.expect("it lives");
        other.expect("a cloud without faults");
    }
    ended.expect("a cloud without faults")
}

/// The parts of the output, in order, one behind the other.
pub(crate) fn text(model: &Model) -> String {
    let parts = parts(model);
    String::from_utf8(parts.into_values().flatten().collect()).expect("text")
}

/// The parts of the output.
pub(crate) fn parts(model: &Model) -> BTreeMap<String, Vec<u8>> {
    let keys = model.object_keys().into_iter();
    let parts = keys.filter(|key| key.starts_with("part-"));
    parts
        .map(|key| {
            let body = model.object(&key).expect("it was listed");
            (key, body.to_vec())
        })
        .collect()
}

/// The lines of the output, sorted.
pub(crate) fn lines(model: &Model) -> Vec<String> {
    let mut lines: Vec<String> = text(model).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Nothing is left but input, register and output.
pub(crate) fn assert_clean(model: &Model) {
    let is_left = |key: &String| {
        let stays = ["in/", "part-", "_SUCCESS", "_fader/job"];
        !stays.iter().any(|prefix| key.starts_with(prefix))
    };
    let left: Vec<String> = model.object_keys().into_iter().filter(is_left).collect();
    assert_eq!(left, Vec::<String>::new());
}

pub(crate) fn succeeded(register: &Register) {
    assert_eq!(register.state, State::Publishing, "{}", register.reason);
}
