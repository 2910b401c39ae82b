//! Queues in memory.
//!
//! Invariants:
//! - MQUEUE-1 a message that was not removed, and whose retention is not over, is there.
//! - MQUEUE-2 a hidden message is given to no receiver until its time is over.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;

use super::link::{Ask, Link, Reply, Shared};
use super::profile::QueueProfile;
use super::schedule::Access;
use crate::error::{Error, ErrorKind, Result};
use crate::meter::RequestKind;
use crate::queues::{
    QueueCounts, QueueSettings, Queues, Receipt, Receive, Received, WAIT_MAX, check_count,
    check_name, check_texts, check_visibility,
};

/// Queues of a model, as one process sees them.
#[derive(Clone, Debug)]
pub struct ModelQueues {
    link: Link,
    service: Arc<QueueService>,
}

/// What all processes share.
#[derive(Debug)]
pub(super) struct QueueService {
    pub(super) profile: Shared<QueueProfile>,
    queues: Mutex<BTreeMap<String, Queue>>,
}

impl QueueService {
    pub(super) fn new(profile: QueueProfile) -> Self {
        QueueService {
            profile: Shared::new(profile),
            queues: Mutex::default(),
        }
    }
}

#[derive(Debug)]
struct Queue {
    settings: QueueSettings,
    /// In the order in which they were sent.
    messages: BTreeMap<u64, Message>,
    sent: u64,
    /// Who waits for a message to come.
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct Message {
    body: String,
    sent_at: Duration,
    /// Hidden until then.
    visible_at: Duration,
    receives: u64,
    /// Removed, and to be received once more.
    is_ghost: bool,
}

impl ModelQueues {
    pub(super) fn new(link: Link, service: Arc<QueueService>) -> Self {
        ModelQueues { link, service }
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<String, Queue>> {
        let queues = self.service.queues.lock();
        queues.expect("nothing panics while it is locked")
    }

    fn ask(&self, kind: RequestKind, call: &'static str, queue: &str, sent_bytes: usize) -> Ask {
        let profile = self.service.profile.get();
        let behaviour = match kind {
            RequestKind::QueueSend => &profile.send,
            RequestKind::QueueReceive => &profile.receive,
            RequestKind::QueueRemove => &profile.remove,
            _ => &profile.other,
        };
        Ask {
            call: behaviour.clone(),
            kind,
            access: Access {
                call,
                name: queue.to_owned(),
                is_prefix: false,
                is_write: !matches!(call, "list" | "counts"),
            },
            is_conditional: false,
            sent_bytes: sent_bytes as u64,
            box_usage: 0,
        }
    }

    /// Calls; an answer has as many bytes as `bytes` says.
    async fn call<T: Send + 'static>(
        &self,
        ask: Ask,
        bytes: fn(&T) -> usize,
        act: impl FnOnce(&ModelQueues) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let queues = self.clone();
        let effect = move || {
            let value = act(&queues);
            let status = if value.is_ok() { 200 } else { 400 };
            let bytes = value.as_ref().map_or(0, bytes) as u64;
            Ok(Reply {
                value,
                status,
                bytes,
            })
        };
        self.link.call(ask, effect).await?
    }

    /// Does something with a queue, after what its age has done to it.
    fn with<T>(&self, name: &str, act: impl FnOnce(&mut Queue, Duration) -> T) -> Result<T> {
        let now = self.link.executor.now();
        let mut queues = self.queues();
        let queue = queues.get_mut(name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no queue {name:?}"))
        })?;
        let retention = queue.settings.retention;
        queue
            .messages
            .retain(|_, message| now < message.sent_at + retention);
        Ok(act(queue, now))
    }

    /// What a receive finds now, and otherwise when to look again.
    fn take(&self, queue: &mut Queue, now: Duration, how: &Receive) -> Vec<Received> {
        let is_visible = |(_, message): &(&u64, &Message)| message.visible_at <= now;
        let visible = queue.messages.iter().filter(is_visible);
        let mut numbers: Vec<u64> = visible.map(|(number, _)| *number).collect();
        let (profile, faults) = (self.service.profile.get(), &self.link.faults);
        if faults.happens(profile.reordered) {
            for at in (1..numbers.len()).rev() {
                numbers.swap(at, faults.below(at + 1));
            }
        }
        numbers.truncate(how.max);
        if 1 < numbers.len() && faults.happens(profile.partial_receives) {
            numbers.truncate(1 + faults.below(numbers.len() - 1));
        }
        let hidden = how.visibility.unwrap_or(queue.settings.visibility);
        let mut received = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(message) = queue.messages.get_mut(&number) else {
                continue;
            };
            if !faults.happens(profile.duplicates) {
                message.visible_at = now + hidden;
            }
            message.receives += 1;
            received.push(Received {
                id: number.to_string(),
                body: message.body.clone(),
                receipt: Receipt(format!("{number}.{}", message.receives)),
                receives: message.receives,
            });
            if message.is_ghost {
                queue.messages.remove(&number);
            }
        }
        received
    }

    fn remove_one(&self, queue: &mut Queue, now: Duration, receipt: &Receipt) -> Result<()> {
        let (number, receive) = parse(receipt)?;
        let (profile, faults) = (self.service.profile.get(), &self.link.faults);
        let Some(message) = queue.messages.get_mut(&number) else {
            return Ok(());
        };
        if message.receives != receive && faults.happens(profile.stale_receipts) {
            return Ok(());
        }
        if !message.is_ghost && faults.happens(profile.resurrections) {
            message.is_ghost = true;
            message.visible_at = now;
            return Ok(());
        }
        queue.messages.remove(&number);
        Ok(())
    }
}

#[async_trait]
impl Queues for ModelQueues {
    async fn create(&self, queue: &str, settings: &QueueSettings) -> Result<()> {
        let ask = self.ask(RequestKind::QueueOther, "create", queue, 0);
        let (name, settings) = (queue.to_owned(), *settings);
        let create = move |queues: &ModelQueues| {
            check_name(&name)?;
            check_visibility(settings.visibility)?;
            let mut queues = queues.queues();
            match queues.get(&name).map(|known| known.settings) {
                Some(known) if known != settings => {
                    let context = format!("queue {name:?} exists with other settings");
                    return Err(Error::new(ErrorKind::Precondition, context));
                }
                Some(_) => {}
                None => {
                    queues.insert(name, Queue::new(settings));
                }
            }
            Ok(())
        };
        self.call(ask, |()| 0, create).await
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        let ask = self.ask(RequestKind::QueueOther, "delete", queue, 0);
        let name = queue.to_owned();
        let delete = move |queues: &ModelQueues| {
            queues.with(&name, |queue, _| queue.wake())?;
            queues.queues().remove(&name);
            Ok(())
        };
        self.call(ask, |()| 0, delete).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let ask = self.ask(RequestKind::QueueOther, "list", prefix, 0);
        let prefix = prefix.to_owned();
        let list = move |queues: &ModelQueues| {
            let queues = queues.queues();
            let names = queues.keys().filter(|name| name.starts_with(&prefix));
            Ok(names.cloned().collect())
        };
        self.call(ask, |names: &Vec<String>| bytes(names), list)
            .await
    }

    async fn send(&self, queue: &str, bodies: &[String]) -> Result<Vec<Result<String>>> {
        let ask = self.ask(RequestKind::QueueSend, "send", queue, bytes(bodies));
        let (name, bodies) = (queue.to_owned(), bodies.to_vec());
        let send = move |queues: &ModelQueues| {
            check_count(bodies.len())?;
            check_texts(&bodies)?;
            queues.with(&name, |queue, now| {
                let ids = bodies.iter().map(|body| Ok(queue.send(body, now)));
                let ids = ids.collect();
                queue.wake();
                ids
            })
        };
        self.call(ask, Vec::len, send).await
    }

    async fn receive(&self, queue: &str, how: &Receive) -> Result<Vec<Received>> {
        let ask = self.ask(RequestKind::QueueReceive, "receive", queue, 0);
        let until = self.link.executor.now() + how.wait;
        let (name, asked) = (queue.to_owned(), *how);
        let receive = move |queues: &ModelQueues| {
            check_count(asked.max)?;
            check_visibility(asked.visibility.unwrap_or_default())?;
            if WAIT_MAX < asked.wait {
                let context = format!("a receive waits at most {WAIT_MAX:?}");
                return Err(Error::new(ErrorKind::Invalid, context));
            }
            let empty_receives = queues.service.profile.get().empty_receives;
            let is_empty = asked.wait.is_zero() && queues.link.faults.happens(empty_receives);
            queues.with(&name, |queue, now| match is_empty {
                true => Vec::new(),
                false => queues.take(queue, now, &asked),
            })
        };
        let bodies = |found: &Vec<Received>| found.iter().map(|one| one.body.len()).sum();
        let received = self.call(ask, bodies, receive).await?;
        if !received.is_empty() || how.wait.is_zero() {
            return Ok(received);
        }
        self.wait(queue, how, until).await
    }

    async fn remove(&self, queue: &str, receipts: &[Receipt]) -> Result<Vec<Result<()>>> {
        let ask = self.ask(RequestKind::QueueRemove, "remove", queue, 0);
        let (name, receipts) = (queue.to_owned(), receipts.to_vec());
        let remove = move |queues: &ModelQueues| {
            check_count(receipts.len())?;
            queues.with(&name, |queue, now| {
                let removed = receipts.iter();
                let removed = removed.map(|receipt| queues.remove_one(queue, now, receipt));
                removed.collect()
            })
        };
        self.call(ask, Vec::len, remove).await
    }

    async fn hide(&self, queue: &str, receipt: &Receipt, time: Duration) -> Result<()> {
        let ask = self.ask(RequestKind::QueueOther, "hide", queue, 0);
        let (name, receipt) = (queue.to_owned(), receipt.clone());
        let hide = move |queues: &ModelQueues| {
            check_visibility(time)?;
            let (number, receive) = parse(&receipt)?;
            queues.with(&name, |queue, now| {
                let message = queue.messages.get_mut(&number).filter(|message| {
                    let is_newest = message.receives == receive;
                    is_newest && now < message.visible_at
                });
                let Some(message) = message else {
                    let context = "the message is not in flight with this receipt";
                    return Err(Error::new(ErrorKind::Invalid, context));
                };
                message.visible_at = now + time;
                queue.wake();
                Ok(())
            })?
        };
        self.call(ask, |()| 0, hide).await
    }

    async fn counts(&self, queue: &str) -> Result<QueueCounts> {
        let ask = self.ask(RequestKind::QueueOther, "counts", queue, 0);
        let name = queue.to_owned();
        let count = move |queues: &ModelQueues| {
            queues.with(&name, |queue, now| {
                let is_visible = |message: &&Message| message.visible_at <= now;
                let visible = queue.messages.values().filter(is_visible).count() as u64;
                QueueCounts {
                    visible,
                    in_flight: queue.messages.len() as u64 - visible,
                }
            })
        };
        self.call(ask, |_| 0, count).await
    }
}

impl ModelQueues {
    /// The rest of a receive that waits, which is part of the same wire request.
    async fn wait(&self, name: &str, how: &Receive, until: Duration) -> Result<Vec<Received>> {
        let executor = &self.link.executor;
        let mut timer = None;
        let received = poll_fn(|context| {
            let found = self.with(name, |queue, now| {
                let received = self.take(queue, now, how);
                let is_over = !received.is_empty() || until <= now;
                let shown = queue.messages.values().map(|message| message.visible_at);
                let next = shown.min().unwrap_or(until).clamp(now, until.max(now));
                if !is_over {
                    queue.waiting.push(context.waker().clone());
                }
                (received, is_over, next)
            });
            if let Some(timer) = timer.take() {
                executor.cancel(timer);
            }
            match found {
                Err(error) => Poll::Ready(Err(error)),
                Ok((received, true, _)) => Poll::Ready(Ok(received)),
                Ok((_, false, next)) => {
                    let waker = context.waker().clone();
                    timer = Some(executor.wake_at(next, self.link.process, waker));
                    Poll::Pending
                }
            }
        });
        received.await
    }
}

fn bytes(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}

impl Queue {
    fn new(settings: QueueSettings) -> Self {
        Queue {
            settings,
            messages: BTreeMap::new(),
            sent: 0,
            waiting: Vec::new(),
        }
    }

    fn send(&mut self, body: &str, now: Duration) -> String {
        self.sent += 1;
        let message = Message {
            body: body.to_owned(),
            sent_at: now,
            visible_at: now,
            receives: 0,
            is_ghost: false,
        };
        self.messages.insert(self.sent, message);
        self.sent.to_string()
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

fn parse(receipt: &Receipt) -> Result<(u64, u64)> {
    let parts = receipt.0.split_once('.');
    let numbers =
        parts.and_then(|(message, receive)| Some((message.parse().ok()?, receive.parse().ok()?)));
    numbers.ok_or_else(|| Error::new(ErrorKind::Invalid, "this is no receipt"))
}

#[cfg(test)]
mod tests;
