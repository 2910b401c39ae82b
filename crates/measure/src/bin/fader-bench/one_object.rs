//! A peer: a queue in one object, changed by compare-and-swap, with group commit.
//!
//! It does what a send, a receive and a remove of the contract do, and no more. A send is also what
//! a commit does to the manifest of a table: it names one more object.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use fader_cloud::{
    Error, ErrorKind, QueueCounts, QueueSettings, Queues, Receipt, Receive, Received, Runtime,
};
use futures_channel::oneshot;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};

/// A queue in one object, as one process uses it.
#[derive(Clone, Debug)]
pub(crate) struct OneObject(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    objects: Arc<dyn ObjectStore>,
    runtime: Runtime,
    waiting: Mutex<(Vec<Waiting>, bool)>,
}

/// A change, and where its answer goes.
type Waiting = (Change, oneshot::Sender<Vec<u64>>);

#[derive(Clone, Debug)]
enum Change {
    Send(Vec<u64>),
    Receive(usize, Duration),
    Remove(Vec<u64>),
}

/// Each message's id, and until when it is hidden.
#[derive(Clone, Debug, Default)]
struct Messages(Vec<(u64, u64)>);

impl Messages {
    fn decode(bytes: &[u8]) -> Self {
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let pairs = bytes.chunks_exact(16);
        Messages(
            pairs
                .map(|pair| (number(&pair[..8]), number(&pair[8..])))
                .collect(),
        )
    }

    fn encode(&self) -> Vec<u8> {
        let pairs = self.0.iter();
        pairs
            .flat_map(|(id, until)| [id.to_be_bytes(), until.to_be_bytes()].concat())
            .collect()
    }

    fn change(&mut self, change: &Change, now: u64) -> Vec<u64> {
        match change {
            Change::Send(ids) => {
                self.0.extend(ids.iter().map(|id| (*id, 0)));
                ids.clone()
            }
            Change::Receive(max, visibility) => {
                let visible = self.0.iter_mut().filter(|(_, until)| *until <= now);
                let taken = visible.take(*max).map(|(id, until)| {
                    *until = now + visibility.as_millis() as u64;
                    *id
                });
                taken.collect()
            }
            Change::Remove(ids) => {
                self.0.retain(|(id, _)| !ids.contains(id));
                ids.clone()
            }
        }
    }
}

impl OneObject {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>, runtime: Runtime) -> Self {
        OneObject(Arc::new(Inner {
            objects,
            runtime,
            waiting: Mutex::default(),
        }))
    }

    async fn change(&self, change: Change) -> Result<Vec<u64>, Error> {
        let (reply, answer) = oneshot::channel();
        if self.0.push((change, reply)) {
            let inner = self.0.clone();
            drop(self.0.runtime.spawn(async move { inner.work().await }));
        }
        let over = |_| Error::new(ErrorKind::Ambiguous, "the process ends");
        answer.await.map_err(over)
    }
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, (Vec<Waiting>, bool)> {
        self.waiting
            .lock()
            .expect("nothing panics while it is locked")
    }

    /// Lets a change wait; whether the caller has to start the work.
    fn push(&self, one: Waiting) -> bool {
        let mut waiting = self.waiting();
        waiting.0.push(one);
        !std::mem::replace(&mut waiting.1, true)
    }

    fn next(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting();
        waiting.1 = !waiting.0.is_empty();
        std::mem::take(&mut waiting.0)
    }

    async fn work(&self) {
        loop {
            let batch = self.next();
            if batch.is_empty() {
                return;
            }
            let answers = self.commit(&batch).await;
            for ((_, reply), answer) in batch.into_iter().zip(answers) {
                // The caller may have gone.
                let _ = reply.send(answer);
            }
        }
    }

    /// Reads the object, changes it, and puts it by If-Match until that succeeds.
    async fn commit(&self, batch: &[Waiting]) -> Vec<Vec<u64>> {
        let key = Path::from("one");
        loop {
            let (mut messages, mode) = match self.objects.get(&key).await {
                Ok(found) => {
                    let version = UpdateVersion {
                        e_tag: found.meta.e_tag.clone(),
                        version: found.meta.version.clone(),
                    };
                    let Ok(bytes) = found.bytes().await else {
                        continue;
                    };
                    (Messages::decode(&bytes), PutMode::Update(version))
                }
                Err(_) => (Messages::default(), PutMode::Create),
            };
            let now = self.runtime.clock.wall().as_millis() as u64;
            let answers = batch
                .iter()
                .map(|(change, _)| messages.change(change, now))
                .collect();
            let options = PutOptions::from(mode);
            let put = self
                .objects
                .put_opts(&key, messages.encode().into(), options);
            if put.await.is_ok() {
                return answers;
            }
        }
    }
}

fn left_out<T>() -> Result<T, Error> {
    Err(Error::new(ErrorKind::Invalid, "the peer does not do that"))
}

#[async_trait]
impl Queues for OneObject {
    async fn create(&self, _queue: &str, _settings: &QueueSettings) -> Result<(), Error> {
        Ok(())
    }

    async fn delete(&self, _queue: &str) -> Result<(), Error> {
        left_out()
    }

    async fn list(&self, _prefix: &str) -> Result<Vec<String>, Error> {
        left_out()
    }

    async fn send(
        &self,
        _queue: &str,
        bodies: &[String],
    ) -> Result<Vec<Result<String, Error>>, Error> {
        let ids = bodies.iter().map(|_| self.0.runtime.random()).collect();
        let sent = self.change(Change::Send(ids)).await?;
        Ok(sent.into_iter().map(|id| Ok(id.to_string())).collect())
    }

    async fn receive(&self, _queue: &str, how: &Receive) -> Result<Vec<Received>, Error> {
        let visibility = how.visibility.unwrap_or_default();
        let taken = self.change(Change::Receive(how.max, visibility)).await?;
        let messages = taken.into_iter().map(|id| Received {
            id: id.to_string(),
            body: String::new(),
            receipt: Receipt(id.to_string()),
            receives: 1,
        });
        Ok(messages.collect())
    }

    async fn remove(
        &self,
        _queue: &str,
        receipts: &[Receipt],
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let ids = receipts.iter().filter_map(|one| one.0.parse().ok());
        let removed = self.change(Change::Remove(ids.collect())).await?;
        Ok(removed.into_iter().map(|_| Ok(())).collect())
    }

    async fn hide(&self, _queue: &str, _receipt: &Receipt, _time: Duration) -> Result<(), Error> {
        left_out()
    }

    async fn counts(&self, _queue: &str) -> Result<QueueCounts, Error> {
        left_out()
    }
}
