//! Sends of one process to one queue (rules BQUEUE-1 and BQUEUE-2).
//!
//! Sends that wait for PUTs under way share the next segment.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_channel::oneshot;
use object_store::PutMode;
use object_store::path::Path;

use super::catalog::Known;
use super::guard::Guard;
use super::names::{Part, SEGMENT_MESSAGES_MAX, SegmentName};
use super::segment_handle::part_key;

use super::segment::{SEGMENT_BYTES_MAX, encode};
use super::store::{Put, Store};
use crate::error::{Error, ErrorKind, Result, like};
use crate::group::{Bounds, Group, Waits};

/// What one segment takes, and how many PUTs are under way at once.
const BOUNDS: Bounds = Bounds {
    in_flight: 4,
    messages: SEGMENT_MESSAGES_MAX,
    bytes: SEGMENT_BYTES_MAX,
};
/// Names that one send tries.
const NAMES_MAX: u32 = 5;

/// Sends that wait, and those under way.
#[derive(Debug, Default)]
pub(super) struct Sender {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    group: Group<Send>,
    /// Segments so far; for mutants whose names repeat.
    sent: u64,
}

/// Messages that are sent together.
#[derive(Debug)]
pub(super) struct Send {
    /// Their texts.
    pub(super) bodies: Vec<String>,
    /// For their ids.
    pub(super) reply: oneshot::Sender<Result<Vec<String>>>,
}

impl Default for Inner {
    fn default() -> Self {
        Inner {
            group: Group::new(BOUNDS),
            sent: 0,
        }
    }
}

impl Waits for Send {
    fn bodies(&self) -> &[String] {
        &self.bodies
    }
}

impl Sender {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("nothing panics while it is locked")
    }

    /// Lets a send wait; whether the caller has to start [`Sender::work`] beside it.
    pub(super) fn push(&self, send: Send) -> bool {
        self.inner().group.push(send)
    }

    /// PUTs segments until no send waits. `known` gives the queue as its settings, at most a minute
    /// old, say.
    pub(super) async fn work<F>(self: Arc<Self>, store: Store, known: impl Fn() -> F + Sync)
    where
        F: Future<Output = Result<Arc<Known>>> + std::marker::Send,
    {
        loop {
            let mut sends = self.inner().group.next();
            if sends.is_empty() {
                return;
            }
            if !store.guards.has(Guard::SendAfterPut) {
                sends = acknowledge_early(&store, sends);
            }
            let sent = match known().await {
                Ok(known) => self.put(&store, &known, &sends).await,
                Err(error) => Err(error),
            };
            let mut index = 0;
            for send in sends {
                let ids = match &sent {
                    Ok(name) => Ok((index..index + send.bodies.len())
                        .map(|index| name.message_id(index))
                        .collect()),
                    Err(error) => Err(like(error)),
                };
                index += send.bodies.len();
                // The caller may have gone.
                let _ = send.reply.send(ids);
            }
        }
    }

    /// PUTs a segment, once per name.
    async fn put(&self, store: &Store, known: &Known, sends: &[Send]) -> Result<SegmentName> {
        let bodies: Vec<&str> = sends
            .iter()
            .flat_map(|send| send.bodies.iter().map(String::as_str))
            .collect();
        let bytes = encode(bodies.iter().copied());
        let mut name = self.name(store, bodies.len());
        let mut attempt = 0;
        loop {
            attempt += 1;
            let key = key_of(store, known, name);
            let unknown = match self.put_once(store, &key, bytes.clone(), attempt).await? {
                Put::Landed(_) => break,
                // The name is another segment's.
                Put::Refused => None,
                Put::Unknown(_) if !store.guards.has(Guard::SendUnknown) => break,
                Put::Unknown(error) => {
                    if store.exists_surely(&key).await.map_err(ambiguous)? {
                        break;
                    }
                    Some(error)
                }
            };
            if NAMES_MAX <= attempt {
                let context = "every name of this segment is taken: is the entropy repeated?";
                let taken = || Error::new(ErrorKind::Unavailable { retry_after: None }, context);
                return Err(unknown.unwrap_or_else(taken));
            }
            store.look_pause(attempt).await;
            let repeats =
                !store.guards.has(Guard::NewName) || !store.guards.has(Guard::NewNameIfAbsent);
            if !repeats {
                name = self.name(store, bodies.len());
            }
        }
        known.receiver.wake();
        Ok(name)
    }

    async fn put_once(&self, store: &Store, key: &Path, bytes: Bytes, attempt: u32) -> Result<Put> {
        let guards = &store.guards;
        let is_blind =
            !guards.has(Guard::RandomNames) || (1 < attempt && !guards.has(Guard::NewName));
        let mode = match is_blind {
            true => PutMode::Overwrite,
            false => PutMode::Create,
        };
        store.put(key, bytes, mode).await
    }

    /// A name that was never used.
    fn name(&self, store: &Store, count: usize) -> SegmentName {
        let repeats =
            !store.guards.has(Guard::RandomNames) || !store.guards.has(Guard::RandomNamesIfAbsent);
        if repeats {
            let mut inner = self.inner();
            inner.sent += 1;
            return SegmentName {
                time_ms: 0,
                random: inner.sent,
                count,
            };
        }
        SegmentName {
            time_ms: store.moment().store.as_millis() as u64,
            random: store.runtime.random(),
            count,
        }
    }
}

fn key_of(store: &Store, known: &Known, name: SegmentName) -> Path {
    known
        .folder
        .clone()
        .join(part_key(store, name, Part::Segment))
}

/// The send may have happened: that could not be found out.
fn ambiguous(error: Error) -> Error {
    Error {
        kind: ErrorKind::Ambiguous,
        ..error
    }
}

/// Acknowledges sends before their PUT; for a mutant.
fn acknowledge_early(store: &Store, sends: Vec<Send>) -> Vec<Send> {
    let early = sends.into_iter().map(|send| {
        let ids = (0..send.bodies.len()).map(|_| store.runtime.random().to_string());
        let _ = send.reply.send(Ok(ids.collect()));
        let (reply, _) = oneshot::channel();
        Send { reply, ..send }
    });
    early.collect()
}
