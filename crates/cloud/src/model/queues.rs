//! Queues in memory.
//!
//! Invariants:
//! - Q1 a message that nobody removed, and whose retention is not over, is there.
//! - Q2 a hidden message is given to nobody until its time is over.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;

use super::process::ModelClock;
use super::weather::{Dice, Weather};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::queues::{
    QueueCounts, QueueSettings, Queues, Receipt, Receive, Received, WAIT_MAX, check_count,
    check_name, check_texts, check_visibility,
};

/// Queues in memory, in virtual time.
#[derive(Debug)]
pub struct ModelQueues {
    weather: Weather,
    dice: Dice,
    clock: Arc<ModelClock>,
    queues: Mutex<BTreeMap<String, Queue>>,
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
    pub(super) fn new(weather: Weather, clock: Arc<ModelClock>) -> Self {
        ModelQueues {
            weather,
            dice: Dice::new(weather, 1),
            clock,
            queues: Mutex::default(),
        }
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<String, Queue>> {
        self.queues
            .lock()
            .expect("nothing panics while it is locked")
    }

    /// Does something with a queue, after what its age has done to it.
    fn with<T>(&self, name: &str, act: impl FnOnce(&mut Queue, Duration) -> T) -> Result<T> {
        let now = self.clock.monotonic();
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
        if self.dice.happens(self.weather.disorder) {
            for at in (1..numbers.len()).rev() {
                numbers.swap(at, self.dice.below(at + 1));
            }
        }
        numbers.truncate(how.max);
        let hidden = how.visibility.unwrap_or(queue.settings.visibility);
        let mut received = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(message) = queue.messages.get_mut(&number) else {
                continue;
            };
            message.visible_at = now + hidden;
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
        let (number, _) = parse(receipt)?;
        let Some(message) = queue.messages.get_mut(&number) else {
            return Ok(());
        };
        if !message.is_ghost && self.dice.happens(self.weather.resurrections) {
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
        self.dice.begin(&self.weather, "create")?;
        check_name(queue)?;
        check_visibility(settings.visibility)?;
        let known = self.queues().get(queue).map(|known| known.settings);
        match known {
            Some(known) if known != *settings => {
                let context = format!("queue {queue:?} exists with other settings");
                return Err(Error::new(ErrorKind::Precondition, context));
            }
            Some(_) => {}
            None => {
                let created = Queue {
                    settings: *settings,
                    messages: BTreeMap::new(),
                    sent: 0,
                    waiting: Vec::new(),
                };
                self.queues().insert(queue.to_owned(), created);
            }
        }
        self.dice.end(&self.weather, "create", Ok(()))
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        self.dice.begin(&self.weather, "delete")?;
        self.with(queue, |queue, _| queue.wake())?;
        self.queues().remove(queue);
        self.dice.end(&self.weather, "delete", Ok(()))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.dice.begin(&self.weather, "list")?;
        let queues = self.queues();
        let names = queues.keys().filter(|name| name.starts_with(prefix));
        Ok(names.cloned().collect())
    }

    async fn send(&self, queue: &str, bodies: &[String]) -> Result<Vec<Result<String>>> {
        self.dice.begin(&self.weather, "send")?;
        check_count(bodies.len())?;
        check_texts(bodies)?;
        let sent = self.with(queue, |queue, now| {
            let ids = bodies.iter().map(|body| Ok(queue.send(body, now)));
            let ids = ids.collect();
            queue.wake();
            ids
        })?;
        self.dice.end(&self.weather, "send", Ok(sent))
    }

    async fn receive(&self, queue: &str, how: &Receive) -> Result<Vec<Received>> {
        self.dice.begin(&self.weather, "receive")?;
        check_count(how.max)?;
        check_visibility(how.visibility.unwrap_or_default())?;
        if WAIT_MAX < how.wait {
            let context = format!("a receive waits at most {WAIT_MAX:?}");
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        if how.wait.is_zero() && self.dice.happens(self.weather.empty_receives) {
            return self.with(queue, |_, _| Vec::new());
        }
        let until = self.clock.monotonic() + how.wait;
        let received = poll_fn(|context| {
            let found = self.with(queue, |queue, now| {
                let received = self.take(queue, now, how);
                let is_over = !received.is_empty() || until <= now;
                let next = queue.messages.values().map(|message| message.visible_at);
                let next = next.min().unwrap_or(until).clamp(now, until);
                if !is_over {
                    queue.waiting.push(context.waker().clone());
                }
                (received, is_over, next)
            });
            match found {
                Err(error) => Poll::Ready(Err(error)),
                Ok((received, true, _)) => Poll::Ready(Ok(received)),
                Ok((_, false, next)) => {
                    let waker = context.waker().clone();
                    self.clock.executor().wake_at(next, 0, waker);
                    Poll::Pending
                }
            }
        });
        let received = received.await;
        self.dice.end(&self.weather, "receive", received)
    }

    async fn remove(&self, queue: &str, receipts: &[Receipt]) -> Result<Vec<Result<()>>> {
        self.dice.begin(&self.weather, "remove")?;
        check_count(receipts.len())?;
        let removed = self.with(queue, |queue, now| {
            let removed = receipts.iter();
            let removed = removed.map(|receipt| self.remove_one(queue, now, receipt));
            removed.collect()
        })?;
        self.dice.end(&self.weather, "remove", Ok(removed))
    }

    async fn hide(&self, queue: &str, receipt: &Receipt, time: Duration) -> Result<()> {
        self.dice.begin(&self.weather, "hide")?;
        check_visibility(time)?;
        let (number, receive) = parse(receipt)?;
        let hidden = self.with(queue, |queue, now| {
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
        })?;
        self.dice.end(&self.weather, "hide", hidden)
    }

    async fn counts(&self, queue: &str) -> Result<QueueCounts> {
        self.dice.begin(&self.weather, "counts")?;
        self.with(queue, |queue, now| {
            let is_visible = |message: &&Message| message.visible_at <= now;
            let visible = queue.messages.values().filter(is_visible).count() as u64;
            QueueCounts {
                visible,
                in_flight: queue.messages.len() as u64 - visible,
            }
        })
    }
}

impl Queue {
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
