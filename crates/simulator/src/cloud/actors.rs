//! The work of a simulated process: each actor is a task that records its calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fader_cloud::bucket::Guard;
use fader_cloud::model::Executor;
use fader_cloud::{
    Attribute, AttributePut, Clock, Cloud, Domains, ErrorKind, Expected, ItemPut, Queues,
    ReadConsistency, Receive, Received, Result, object_error_kind,
};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};

use super::history::{
    Access, Append, Deed, Delivery, Follow, Hide, Record, Remove, Seen, Send, Span,
};
use super::slots::{ENTRY, entry};

/// Names that all processes use.
pub(super) const QUEUE: &str = "work";
pub(super) const DOMAIN: &str = "state";
/// Items of each batch.
const BATCH: usize = 5;

/// The handles that a process has on the cloud.
#[derive(Clone)]
pub(super) struct Actor {
    pub(super) process: usize,
    pub(super) cloud: Cloud,
    pub(super) queues: Arc<dyn Queues>,
    pub(super) domains: Arc<dyn Domains>,
    /// A guard that is missing, in builds for mutants.
    pub(super) removed: Option<Guard>,
    pub(super) record: Record,
    pub(super) executor: Executor,
    /// True time, for the history alone.
    pub(super) truth: Arc<dyn Clock>,
    /// When work ends.
    pub(super) until: Duration,
    pub(super) visibilities: Vec<Duration>,
    /// Whether batches go item by item, as to a cloud that does not write them whole.
    pub(super) splits_batches: bool,
}

impl Actor {
    /// Starts all its tasks.
    pub(super) fn start(&self) {
        let runtime = &self.cloud.runtime;
        drop(runtime.spawn(self.clone().produce()));
        drop(runtime.spawn(self.clone().consume(0)));
        drop(runtime.spawn(self.clone().consume(1)));
        drop(runtime.spawn(self.clone().count()));
        drop(runtime.spawn(self.clone().count_object()));
        drop(runtime.spawn(self.clone().batch()));
        drop(runtime.spawn(self.clone().append_often()));
        drop(runtime.spawn(self.clone().follow_often()));
    }

    /// True time, and a nanosecond for each step: no two moments of a history are the same.
    fn now(&self) -> Duration {
        self.truth.monotonic() + Duration::from_nanos(self.executor.steps())
    }

    fn is_over(&self) -> bool {
        self.until <= self.now()
    }

    fn draw(&self, below: u64) -> u64 {
        self.cloud.runtime.random() % below
    }

    async fn sleep(&self, max_ms: u64) {
        let time = Duration::from_millis(self.draw(max_ms));
        self.cloud.runtime.clock.sleep(time).await;
    }

    /// A name that no other call uses.
    fn unique(&self) -> String {
        let mut history = self.record.open();
        history.calls += 1;
        format!("{}.{}", self.process, history.calls)
    }

    fn note(&self, line: impl FnOnce() -> String) {
        self.executor
            .note(|| format!("p{}: {}", self.process, line()));
    }

    fn span(&self) -> Span {
        Span {
            invoked: self.now(),
            ended: None,
        }
    }

    async fn produce(self) {
        while !self.is_over() {
            let count = 1 + self.draw(4) as usize * self.draw(3) as usize;
            self.send(count).await;
            self.sleep(4_000).await;
        }
    }

    /// Sends messages together.
    pub(super) async fn send(&self, count: usize) {
        let bodies: Vec<String> = (0..count).map(|_| self.unique()).collect();
        let at = {
            let mut history = self.record.open();
            history.sends.push(Send {
                span: self.span(),
                bodies: bodies.clone(),
                outcome: None,
            });
            history.sends.len() - 1
        };
        let sent = self.queues.send(QUEUE, &bodies).await;
        self.note(|| format!("sent {bodies:?}: {sent:?}"));
        let outcome = sent.map_err(|error| error.kind).map(|each| {
            let each = each.into_iter();
            each.map(|one| one.map_err(|error| error.kind)).collect()
        });
        let mut history = self.record.open();
        history.sends[at].span.ended = Some(self.now());
        history.sends[at].outcome = Some(outcome);
    }

    async fn consume(self, lane: u64) {
        while !self.is_over() {
            let visibility = self.visibilities[self.draw(self.visibilities.len() as u64) as usize];
            let how = Receive {
                max: 1 + self.draw(10) as usize,
                visibility: Some(visibility),
                wait: Duration::from_secs(self.draw(4)),
            };
            // While there are faults a receive may fail.
            let (found, by) = self.receive(&how).await.unwrap_or_default();
            if found.is_empty() {
                self.sleep(1_000).await;
                continue;
            }
            for message in &found {
                match self.draw(10) {
                    0 => continue,
                    1 => self.hide(message, by, self.draw(3) * 2).await,
                    2 => self.sleep(visibility.as_millis() as u64 + lane).await,
                    _ => {}
                }
                self.remove(message).await;
            }
        }
    }

    /// Receives, and records the messages under the receive's own name.
    ///
    /// # Errors
    /// Those of the queue.
    pub(super) async fn receive(&self, how: &Receive) -> Result<(Vec<Received>, (usize, u64))> {
        let invoked = self.now();
        let found = self.queues.receive(QUEUE, how).await;
        if let Err(error) = &found {
            self.note(|| format!("received nothing: {error}"));
        }
        let found = found?;
        let answered = self.now();
        let mut history = self.record.open();
        history.calls += 1;
        let by = (self.process, history.calls);
        let delivered = found.iter().map(|message| Delivery {
            invoked,
            answered,
            visibility: how.visibility.unwrap_or_default(),
            id: message.id.clone(),
            body: message.body.clone(),
            by,
        });
        history.deliveries.extend(delivered);
        drop(history);
        for message in &found {
            self.note(|| format!("received {} ({:?})", message.id, message.body));
        }
        Ok((found, by))
    }

    /// Removes a message; whether it is gone.
    pub(super) async fn remove(&self, message: &Received) -> bool {
        let at = {
            let mut history = self.record.open();
            history.calls += 1;
            history.removes.push(Remove {
                span: self.span(),
                id: message.id.clone(),
                body: message.body.clone(),
                succeeded: false,
            });
            history.removes.len() - 1
        };
        let receipts = [message.receipt.clone()];
        let removed = self.queues.remove(QUEUE, &receipts).await;
        let succeeded = removed.is_ok_and(|each| each.iter().all(Result::is_ok));
        self.note(|| format!("removed {}: {succeeded}", message.id));
        let mut history = self.record.open();
        history.removes[at].span.ended = Some(self.now());
        history.removes[at].succeeded = succeeded;
        succeeded
    }

    pub(super) async fn hide(&self, message: &Received, by: (usize, u64), seconds: u64) {
        let time = Duration::from_secs(seconds);
        let at = {
            let mut history = self.record.open();
            history.calls += 1;
            history.hides.push(Hide {
                span: self.span(),
                id: message.id.clone(),
                by,
                time,
                succeeded: false,
            });
            history.hides.len() - 1
        };
        let hidden = self.queues.hide(QUEUE, &message.receipt, time).await;
        let mut history = self.record.open();
        history.hides[at].span.ended = Some(self.now());
        history.hides[at].succeeded = hidden.is_ok();
    }

    fn begin(&self, register: &str, deed: Deed) -> usize {
        let mut history = self.record.open();
        history.calls += 1;
        history.accesses.push(Access {
            span: self.span(),
            register: register.to_owned(),
            deed,
        });
        history.accesses.len() - 1
    }

    fn end(&self, at: usize, deed: Option<Deed>) {
        let mut history = self.record.open();
        history.accesses[at].span.ended = Some(self.now());
        if let Some(deed) = deed {
            history.accesses[at].deed = deed;
        }
    }

    /// The value of an item; `None` without an answer.
    pub(super) async fn read(
        &self,
        item: &str,
        reading: ReadConsistency,
    ) -> Option<Option<String>> {
        let shown = |value| match reading {
            ReadConsistency::Strong => Deed::Read(value),
            ReadConsistency::Eventual => Deed::Eventual(value),
        };
        let at = self.begin(item, shown(None));
        let names = ["n".to_owned()];
        let found = self.domains.get(DOMAIN, item, &names, reading).await;
        let Ok(found) = found else {
            // Without an answer it shows nothing.
            return None;
        };
        let value = found.into_iter().next().map(|found| found.value);
        self.note(|| format!("read {value:?}, {reading:?}"));
        self.end(at, Some(shown(value.clone())));
        Some(value)
    }

    /// Counts in items of the domain, each step on the condition of the value before.
    async fn count(self) {
        while !self.is_over() {
            let item = format!("counter{}", self.draw(2));
            if self.draw(3) == 0 {
                self.read(&item, ReadConsistency::Eventual).await;
            }
            let Some(expected) = self.read(&item, ReadConsistency::Strong).await else {
                self.sleep(1_000).await;
                continue;
            };
            self.sleep(300).await;
            self.write(&item, expected).await;
            self.sleep(3_000).await;
        }
    }

    /// Writes the next value, on the condition of this one.
    pub(super) async fn write(&self, item: &str, expected: Option<String>) {
        let value = format!("{}:{}", next(expected.as_deref()), self.unique());
        let put = ItemPut {
            name: item.to_owned(),
            attributes: vec![AttributePut {
                name: "n".to_owned(),
                value: value.clone(),
                replace: true,
            }],
        };
        let condition = match &expected {
            Some(value) => Expected::Value(Attribute {
                name: "n".to_owned(),
                value: value.clone(),
            }),
            None => Expected::Absent("n".to_owned()),
        };
        let write = |held| Deed::Write {
            expected: expected.clone(),
            value: value.clone(),
            held,
        };
        let at = self.begin(item, write(None));
        let written = self.domains.put(DOMAIN, &put, Some(&condition)).await;
        self.note(|| format!("wrote {value} over {expected:?}: {written:?}"));
        let held = outcome(written.map_err(|error| error.kind));
        self.end(at, held.map(|held| write(Some(held))));
    }

    /// Counts in an object, each step on the condition of the version before.
    async fn count_object(self) {
        let objects = self.cloud.objects.clone();
        let key = Path::from("counters/object");
        while !self.is_over() {
            let at = self.begin("object", Deed::Read(None));
            let (value, mode) = match read_object(&*objects, &key).await {
                Ok(Some((value, version))) => (Some(value), PutMode::Update(version)),
                Ok(None) => (None, PutMode::Create),
                Err(_) => {
                    self.sleep(1_000).await;
                    continue;
                }
            };
            self.end(at, Some(Deed::Read(value.clone())));
            self.sleep(300).await;
            let next = format!("{}:{}", next(value.as_deref()), self.unique());
            let write = |held| Deed::Write {
                expected: value.clone(),
                value: next.clone(),
                held,
            };
            let at = self.begin("object", write(None));
            let options = PutOptions {
                mode,
                ..PutOptions::default()
            };
            let put = objects.put_opts(&key, next.clone().into(), options).await;
            let put = put
                .map(drop)
                .map_err(|error| object_error_kind(&error, true));
            self.end(at, outcome(put).map(|held| write(Some(held))));
            self.sleep(4_000).await;
        }
    }

    /// Writes one tag into all items of a batch, and reads them all.
    async fn batch(self) {
        while !self.is_over() {
            let tag = self.unique();
            let put = |at: usize| ItemPut {
                name: format!("batch{at}"),
                attributes: vec![AttributePut {
                    name: "tag".to_owned(),
                    value: tag.clone(),
                    replace: true,
                }],
            };
            let puts: Vec<ItemPut> = (0..BATCH).map(put).collect();
            // Done, refused or unknown: it is whole in any case.
            for puts in puts.chunks(if self.splits_batches { 1 } else { BATCH }) {
                let _ = self.domains.put_batch(DOMAIN, puts).await;
            }
            self.sleep(1_000).await;
            let reading = match self.draw(2) {
                0 => ReadConsistency::Strong,
                _ => ReadConsistency::Eventual,
            };
            let select = format!("select tag from `{DOMAIN}` where itemName() like 'batch%'");
            if let Ok(page) = self.domains.select(&select, None, reading).await {
                let tags = (0..BATCH).map(|at| {
                    let name = format!("batch{at}");
                    let item = page.items.iter().find(|item| item.name == name)?;
                    item.attributes.first().map(|found| found.value.clone())
                });
                let tags = tags.collect();
                let answered = self.now();
                let mut history = self.record.open();
                history.calls += 2;
                history.batches.push(Seen { answered, tags });
            }
            self.sleep(5_000).await;
        }
    }
}

impl Actor {
    async fn append_often(self) {
        while !self.is_over() {
            self.append().await;
            self.sleep(3_000).await;
        }
    }

    /// Writes an item that no other call writes.
    pub(super) async fn append(&self) {
        let (at, name) = {
            let mut history = self.record.open();
            history.calls += 1;
            let name = entry(self.process, history.calls);
            history.appends.push(Append {
                span: self.span(),
                name: name.clone(),
                outcome: None,
            });
            (history.appends.len() - 1, name)
        };
        let put = ItemPut {
            name: name.clone(),
            attributes: vec![AttributePut {
                name: "by".to_owned(),
                value: self.process.to_string(),
                replace: true,
            }],
        };
        let written = self.domains.put(DOMAIN, &put, None).await;
        self.note(|| format!("appended {name}: {written:?}"));
        let mut history = self.record.open();
        history.appends[at].span.ended = Some(self.now());
        history.appends[at].outcome = Some(written.map_err(|error| error.kind));
    }

    async fn follow_often(self) {
        let follower = self.follower();
        while !self.is_over() {
            let reading = match self.draw(3) {
                0 => ReadConsistency::Strong,
                _ => ReadConsistency::Eventual,
            };
            self.follow(follower, reading).await;
            self.sleep(3_000).await;
        }
    }

    /// A number that no other follower has.
    pub(super) fn follower(&self) -> u64 {
        let mut history = self.record.open();
        history.calls += 1;
        history.calls
    }

    /// Reads which items were appended.
    pub(super) async fn follow(&self, follower: u64, reading: ReadConsistency) {
        let invoked = self.now();
        let select = format!(
            "select itemName() from `{DOMAIN}` where itemName() like '{ENTRY}%' limit 2500"
        );
        let page = self.domains.select(&select, None, reading).await;
        // Pages are of different states; without an answer it shows nothing.
        let Some(page) = page.ok().filter(|page| page.next_token.is_none()) else {
            return;
        };
        let names: BTreeSet<String> = page.items.into_iter().map(|item| item.name).collect();
        self.note(|| format!("followed {} items, {reading:?}", names.len()));
        let answered = self.now();
        self.record.open().follows.push(Follow {
            invoked,
            answered,
            is_strong: reading == ReadConsistency::Strong,
            by: (self.process, follower),
            names,
        });
    }
}

/// The number after that of a value.
fn next(value: Option<&str>) -> u64 {
    let number = value.and_then(|value| value.split_once(':')?.0.parse::<u64>().ok());
    number.map_or(0, |number| number + 1)
}

/// Whether the condition held; `None` if that is unknown. A refusal that changed nothing tells
/// nothing about the condition either.
fn outcome(written: std::result::Result<(), ErrorKind>) -> Option<bool> {
    match written {
        Ok(()) => Some(true),
        Err(ErrorKind::Precondition) => Some(false),
        Err(_) => None,
    }
}

async fn read_object(
    objects: &dyn ObjectStore,
    key: &Path,
) -> object_store::Result<Option<(String, UpdateVersion)>> {
    let found = match objects.get(key).await {
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        found => found?,
    };
    let version = UpdateVersion {
        e_tag: found.meta.e_tag.clone(),
        version: found.meta.version.clone(),
    };
    let body = found.bytes().await?;
    Ok(Some((String::from_utf8_lossy(&body).into_owned(), version)))
}
