//! Sends of a process that go together: what waits while calls to a queue are under way shares the
//! next call. Queues in a bucket do so themselves.
//!
//! Invariants:
//! - GROUP-1 a send waits for other calls of its queue only while eight are under way.
//! - GROUP-2 a caller that ends early takes no other send with it: a task of its own makes calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_channel::oneshot;

use crate::cloud::{Metered, Services};
use crate::error::{Result, like, process_over};
use crate::group::{Bounds, Group, Waits};
use crate::meter::Meter;
use crate::queues::{
    MESSAGE_BYTES_MAX, MESSAGES_MAX, Peeked, QueueCounts, QueueSettings, Queues, Receipt, Receive,
    Received, check_count, check_texts,
};
use crate::runtime::Runtime;

/// What one call takes, and how many calls to a queue are under way at once.
const BOUNDS: Bounds = Bounds {
    in_flight: 8,
    messages: MESSAGES_MAX,
    bytes: MESSAGE_BYTES_MAX,
};

/// What became of each message of a send.
type Sent = Result<Vec<Result<String>>>;

/// The sends of a process that wait, by queue.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<HashMap<String, Group<Waiting>>>);

#[derive(Debug)]
struct Waiting {
    /// The handle that counts a call of which this send is the first.
    queues: Arc<dyn Queues>,
    bodies: Vec<String>,
    reply: oneshot::Sender<Sent>,
}

impl Waits for Waiting {
    fn bodies(&self) -> &[String] {
        &self.bodies
    }
}

impl Groups {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Group<Waiting>>> {
        self.0.lock().expect("nothing panics while it is locked")
    }

    /// Lets a send wait; whether the caller has to start a worker.
    fn push(&self, queue: &str, waiting: Waiting) -> bool {
        let mut all = self.all();
        let group = all.entry(queue.to_owned());
        group.or_insert_with(|| Group::new(BOUNDS)).push(waiting)
    }

    /// The next sends that share a call; none ends one of the workers.
    fn next(&self, queue: &str) -> Vec<Waiting> {
        let mut all = self.all();
        let Some(group) = all.get_mut(queue) else {
            return Vec::new();
        };
        let sends = group.next();
        if group.is_idle() {
            all.remove(queue);
        }
        sends
    }
}

/// A service whose handles share groups.
#[derive(Debug)]
pub(crate) struct GroupedServices {
    pub(crate) inner: Arc<dyn Metered>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) runtime: Runtime,
}

impl Metered for GroupedServices {
    fn services(&self, meter: &Meter) -> Services {
        let services = self.inner.services(meter);
        Services {
            queues: Arc::new(GroupedQueues {
                queues: services.queues,
                groups: self.groups.clone(),
                runtime: self.runtime.clone(),
            }),
            ..services
        }
    }
}

/// Queues whose sends go together. A call counts for the scope of its first send.
#[derive(Debug)]
struct GroupedQueues {
    queues: Arc<dyn Queues>,
    groups: Arc<Groups>,
    runtime: Runtime,
}

/// Makes calls until no send waits.
async fn work(groups: Arc<Groups>, queue: String) {
    loop {
        let mut sends = groups.next(&queue);
        let Some(first) = sends.first() else {
            return;
        };
        let queues = first.queues.clone();
        let counts: Vec<usize> = sends.iter().map(|send| send.bodies.len()).collect();
        let bodies = sends
            .iter_mut()
            .flat_map(|send| std::mem::take(&mut send.bodies));
        let bodies: Vec<String> = bodies.collect();
        let mut sent = queues.send(&queue, &bodies).await;
        for (send, count) in sends.into_iter().zip(counts) {
            let own = match &mut sent {
                Ok(all) => Ok(all.drain(..count.min(all.len())).collect()),
                Err(error) => Err(like(error)),
            };
            // The caller may have gone.
            let _ = send.reply.send(own);
        }
    }
}

#[async_trait]
impl Queues for GroupedQueues {
    async fn create(&self, queue: &str, settings: &QueueSettings) -> Result<()> {
        self.queues.create(queue, settings).await
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        self.queues.delete(queue).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.queues.list(prefix).await
    }

    async fn send(&self, queue: &str, bodies: &[String]) -> Sent {
        check_count(bodies.len())?;
        check_texts(bodies)?;
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting {
            queues: self.queues.clone(),
            bodies: bodies.to_vec(),
            reply,
        };
        if self.groups.push(queue, waiting) {
            let work = work(self.groups.clone(), queue.to_owned());
            drop(self.runtime.spawn(work));
        }
        answer.await.map_err(|_| process_over())?
    }

    fn groups_sends(&self) -> bool {
        true
    }

    fn forgets(&self) -> bool {
        self.queues.forgets()
    }

    async fn receive(&self, queue: &str, how: &Receive) -> Result<Vec<Received>> {
        self.queues.receive(queue, how).await
    }

    async fn peek(&self, queue: &str, max: usize) -> Result<Option<Peeked>> {
        self.queues.peek(queue, max).await
    }

    async fn remove(&self, queue: &str, receipts: &[Receipt]) -> Result<Vec<Result<()>>> {
        self.queues.remove(queue, receipts).await
    }

    async fn hide(&self, queue: &str, receipt: &Receipt, time: Duration) -> Result<()> {
        self.queues.hide(queue, receipt, time).await
    }

    async fn counts(&self, queue: &str) -> Result<QueueCounts> {
        self.queues.counts(queue).await
    }
}
