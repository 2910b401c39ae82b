//! How a call of a process reaches a service and how its answer comes back.
//!
//! ```text
//!  caller ── request ──▶ effect at the service ── answer ──▶ caller
//!     │                     │
//!     └─ may die here       └─ happens all the same
//! ```
//!
//! Invariants:
//! - LINK-1 a call takes effect once or not at all, and never before it was sent.
//! - LINK-2 each call is counted once, with the status that its caller saw.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_channel::oneshot;

use super::executor::Executor;
use super::faults::{Fate, FaultSource};
use super::profile::Call;
use super::schedule::Access;
use crate::error::{Error, ErrorKind};
use crate::meter::{Meter, RequestKind, WireRequest};

/// One process's way to one service.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) executor: Executor,
    pub(super) process: usize,
    pub(super) meter: Meter,
    pub(super) faults: Arc<FaultSource>,
}

/// What is called, and how it behaves.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) call: Call,
    pub(super) kind: RequestKind,
    pub(super) access: Access,
    pub(super) is_conditional: bool,
    pub(super) sent_bytes: u64,
    /// SimpleDB's machine time, in 10⁻¹⁰ hours.
    pub(super) box_usage: u64,
}

/// What the service answers, unless it refuses with a status.
pub(super) struct Reply<T> {
    pub(super) value: T,
    pub(super) status: u16,
    pub(super) bytes: u64,
}

impl<T> Reply<T> {
    /// Success without a body.
    pub(super) fn ok(value: T) -> Result<Self, u16> {
        Ok(Reply {
            value,
            status: 200,
            bytes: 0,
        })
    }
}

impl Link {
    /// Calls: `effect` happens at the service, at a time that the profile and the schedule decide.
    ///
    /// # Errors
    /// `Unavailable` and `Ambiguous`, as the fate is.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        ask: Ask,
        effect: impl FnOnce() -> Result<Reply<T>, u16> + Send + 'static,
    ) -> Result<T, Error> {
        let Ask { call, access, .. } = &ask;
        let scheduled = self.executor.fate(access);
        let fate = scheduled
            .unwrap_or_else(|| self.faults.fate(call, access.is_write, ask.is_conditional));
        let (before, after) = self.faults.latency(call, ask.sent_bytes);
        let is_heard = matches!(fate, Fate::Answered | Fate::Refused(_));
        let (give_up, answer) = oneshot::channel();
        if !is_heard {
            let (link, asked) = (self.clone(), ask.clone());
            let give_up = move || {
                link.count(&asked, None, 0);
                link.note(&asked, "no answer to");
                drop(give_up.send(None));
            };
            let timeout = match scheduled {
                // The schedule decides when the caller gives up.
                Some(_) => Duration::ZERO,
                None => call.timeout,
            };
            let own = Access {
                call: "give up",
                name: String::new(),
                is_prefix: false,
                is_write: false,
            };
            self.executor.at(timeout, self.process, own, give_up);
            let happens = match fate {
                Fate::LostAnswer => Some(before),
                Fate::Late => Some(self.faults.lateness(call)),
                _ => None,
            };
            if let Some(when) = happens {
                let (link, asked) = (self.clone(), ask.clone());
                let effect = move || {
                    let status = effect().map_or_else(|status| status, |reply| reply.status);
                    link.note(&asked, &format!("{status} unheard,"));
                };
                self.executor.at(when, self.process, access.clone(), effect);
            }
        } else {
            self.answer(&ask, fate, before, after, give_up, effect);
        }
        let context = format!("{} {:?}", access.call, access.name);
        match answer.await {
            Ok(Some(Ok(value))) => Ok(value),
            Ok(Some(Err(status))) => {
                let kind = ErrorKind::Unavailable { retry_after: None };
                Err(Error::new(kind, format!("{context}: status {status}")))
            }
            Ok(None) | Err(_) => {
                let kind = match access.is_write {
                    true => ErrorKind::Ambiguous,
                    false => ErrorKind::Unavailable { retry_after: None },
                };
                Err(Error::new(kind, format!("{context}: no answer")))
            }
        }
    }

    fn answer<T: Send + 'static>(
        &self,
        ask: &Ask,
        fate: Fate,
        before: Duration,
        after: Duration,
        sender: oneshot::Sender<Option<Result<T, u16>>>,
        effect: impl FnOnce() -> Result<Reply<T>, u16> + Send + 'static,
    ) {
        let (link, asked) = (self.clone(), ask.clone());
        let act = move || {
            let (value, status, bytes) = match fate {
                Fate::Refused(status) => (Err(status), status, 0),
                _ => match effect() {
                    Ok(reply) => (Ok(reply.value), reply.status, reply.bytes),
                    Err(status) => (Err(status), status, 0),
                },
            };
            link.note(&asked, &status.to_string());
            let per_mib = asked.call.per_mib;
            let after = after + per_mib.mul_f64(bytes as f64 / f64::from(1 << 20));
            let answered = link.clone();
            let (process, executor) = (link.process, link.executor.clone());
            let answer = Access {
                call: "answer",
                name: String::new(),
                is_prefix: false,
                is_write: false,
            };
            let tell = move || {
                answered.count(&asked, Some(status), bytes);
                // The caller may have died.
                let _ = sender.send(Some(value));
            };
            match after.is_zero() {
                true => tell(),
                false => executor.at(after, process, answer, tell),
            }
        };
        self.executor
            .at(before, self.process, ask.access.clone(), act);
    }

    fn note(&self, ask: &Ask, what: &str) {
        let name = self.executor.name(self.process);
        self.executor
            .note(|| format!("{name}: {what} {} {}", ask.access.call, ask.access.name));
    }

    fn count(&self, ask: &Ask, status: Option<u16>, received_bytes: u64) {
        self.meter.count(&WireRequest {
            sent_bytes: ask.sent_bytes,
            received_bytes,
            box_usage: ask.box_usage,
            ..WireRequest::new(ask.kind, status)
        });
    }
}

/// A value that several handles read and one scenario replaces.
#[derive(Debug)]
pub(super) struct Shared<T>(Mutex<Arc<T>>);

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Shared(Mutex::new(Arc::new(value)))
    }

    pub(super) fn get(&self) -> Arc<T> {
        self.0
            .lock()
            .expect("nothing panics while it is locked")
            .clone()
    }

    pub(super) fn set(&self, value: T) {
        *self.0.lock().expect("nothing panics while it is locked") = Arc::new(value);
    }
}
