//! One log as a process reads and writes it (rules BLOG-2 to BLOG-7). One request for the log's
//! tail is under way at a time; what waits meanwhile shares the next.
//!
//! Invariants:
//! - LOG-1 the view is a prefix of the log.
//! - LOG-2 the slot behind the view is resolved before the next one is written.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ::bytes::Bytes;
use futures_channel::oneshot;
use object_store::PutMode;
use xxhash_rust::xxh3::xxh3_64;

use super::ask::Ask;
use super::bytes::{Content, PutId, Slot};
use super::turns::Turns;
use super::view::{Looked, View};
use super::{Keeper, Machine, SNAPSHOT_EVERY, WRITES_MAX};
use crate::bucket::guard::Guard;
use crate::bucket::store::{Put, Store};
use crate::bucket::time::drift;
use crate::error::{Error, ErrorKind, Result, like, process_over};

/// How long a view answers eventual reads.
const YOUNG: Duration = Duration::from_secs(5);
/// Looks for an unknown PUT before its callers are told so.
const LOOKS_MAX: u32 = 6;

/// A log of one name, as one process uses it.
#[derive(Debug)]
pub(in crate::bucket) struct LogClient<M: Machine> {
    pub(super) keeper: Arc<Keeper>,
    pub(super) name: String,
    /// This life of the process.
    process: u128,
    inner: Mutex<Inner<M>>,
}

#[derive(Debug)]
pub(super) struct Inner<M: Machine> {
    pub(super) view: Option<View<M>>,
    pub(super) waiting: VecDeque<Ask<M>>,
    is_busy: bool,
    /// A PUT whose outcome is unknown, for the slot behind the view.
    unresolved: Option<Slot>,
    put_ids: u64,
    pub(super) turns: Turns,
}

/// What became of a slot's PUT.
enum Committed {
    Yes,
    /// Another slot is there.
    No,
    Reopen,
    /// Unknown.
    Unknown(Error),
}

impl<M: Machine> LogClient<M> {
    pub(in crate::bucket) fn new(keeper: Arc<Keeper>, name: &str) -> Self {
        let random = || u128::from(keeper.store.runtime.random());
        let process = random() << 64 | random();
        LogClient {
            keeper,
            name: name.to_owned(),
            process,
            inner: Mutex::new(Inner {
                view: None,
                waiting: VecDeque::new(),
                is_busy: false,
                unresolved: None,
                put_ids: 0,
                turns: Turns::default(),
            }),
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner<M>> {
        self.inner
            .lock()
            .expect("nothing panics while it is locked")
    }

    pub(super) fn store(&self) -> &Store {
        &self.keeper.store
    }

    pub(super) fn has(&self, guard: Guard) -> bool {
        self.keeper.store.guards.has(guard)
    }

    /// Writes, decided at the log's tail.
    pub(in crate::bucket) async fn write(self: &Arc<Self>, write: M::Write) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Write(write, reply));
        answer.await.unwrap_or_else(|_| Err(process_over()))
    }

    /// Ends the log and its name; none is fine.
    pub(in crate::bucket) async fn seal(self: &Arc<Self>) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Seal(reply));
        answer.await.unwrap_or_else(|_| Err(process_over()))
    }

    /// Reads the state at the tail, found by a request that begins after this call (BLOG-4).
    pub(in crate::bucket) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&M) -> T + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Read(Box::new(move |machine| {
            let _ = reply.send(machine.map(read));
        })));
        answer.await.unwrap_or_else(|_| Err(process_over()))
    }

    /// Reads the state of at most five seconds ago without a request, or the newest one (BLOG-5).
    pub(in crate::bucket) async fn read_recent<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&M) -> T + Send + 'static,
    ) -> Result<T> {
        match self.read_young(read) {
            Ok(value) => Ok(value),
            Err(read) => self.read(read).await,
        }
    }

    fn read_young<T, F: FnOnce(&M) -> T>(&self, read: F) -> std::result::Result<T, F> {
        let now = self.store().now();
        let inner = self.inner();
        let Some(view) = &inner.view else {
            return Err(read);
        };
        let is_young = view.tail.is_some_and(|tail| {
            let age = now.saturating_sub(tail);
            age + drift(age) < YOUNG
        });
        match is_young {
            true => Ok(read(&view.machine)),
            false => Err(read),
        }
    }

    fn ask(self: &Arc<Self>, ask: Ask<M>) {
        let mut inner = self.inner();
        inner.waiting.push_back(ask);
        let starts = !std::mem::replace(&mut inner.is_busy, true);
        drop(inner);
        if starts {
            let log = self.clone();
            let work = async move {
                while let Some(asks) = log.next() {
                    log.serve(asks).await;
                }
            };
            drop(self.store().runtime.spawn(work));
        }
    }

    /// What is served together: reads and writes, or one end of the log. Reads do not wait for
    /// the rest of a writer.
    fn next(&self) -> Option<Vec<Ask<M>>> {
        let now = self.store().now();
        let mut inner = self.inner();
        let is_read = |ask: &Ask<M>| matches!(ask, Ask::Read(_));
        let reads_only = now < inner.turns.rests_until() && inner.waiting.iter().any(is_read);
        let mut asks = Vec::new();
        let mut left = VecDeque::new();
        while let Some(ask) = inner.waiting.pop_front() {
            let is_seal = matches!(ask, Ask::Seal(_));
            let is_full = WRITES_MAX <= asks.len();
            if (reads_only && !is_read(&ask)) || is_full || (is_seal && !asks.is_empty()) {
                left.push_back(ask);
                continue;
            }
            asks.push(ask);
            if is_seal {
                break;
            }
        }
        left.append(&mut inner.waiting);
        inner.waiting = left;
        inner.is_busy = !asks.is_empty();
        inner.is_busy.then_some(asks)
    }

    async fn serve(self: &Arc<Self>, asks: Vec<Ask<M>>) {
        let is_write = |ask: &Ask<M>| matches!(ask, Ask::Write(..));
        if asks.iter().any(is_write) {
            self.rest().await;
        }
        let mut asks = Some(asks);
        let served = self.serve_all(&mut asks).await;
        if let Err(error) = served {
            let no_error = error.kind == ErrorKind::NotFound;
            for ask in asks.into_iter().flatten() {
                match ask {
                    // One that is not there is fine.
                    Ask::Seal(reply) if no_error => {
                        let _ = reply.send(Ok(()));
                    }
                    ask => ask.fail(&error),
                }
            }
        }
    }

    /// Serves asks, and takes them out when they are answered.
    async fn serve_all(self: &Arc<Self>, asks: &mut Option<Vec<Ask<M>>>) -> Result<()> {
        let all = asks.as_ref().map_or(&[][..], Vec::as_slice);
        let is_seal = matches!(all, [Ask::Seal(_)]);
        let writes = all.iter().any(|ask| matches!(ask, Ask::Write(..)));
        let mut first = None;
        let mut races = 0;
        loop {
            self.open(writes).await?;
            if !self.resolve().await? {
                continue;
            }
            if is_seal && !self.has(Guard::Seal) {
                return self.sealed(asks).await;
            }
            let all = asks.as_ref().map_or(&[][..], Vec::as_slice);
            let (number, mut decided) = self.decide(all)?;
            if !self.has(Guard::DecideAgain) {
                decided = first
                    .get_or_insert(decided)
                    .iter()
                    .map(clone_decided)
                    .collect();
            }
            let parts = parts_of(&decided);
            let content = match (is_seal, parts.is_empty()) {
                (true, _) => Content::Seal,
                (false, false) => Content::Writes(parts),
                (false, true) => {
                    let refused = decided.iter().any(Result::is_err);
                    if refused && !self.has(Guard::RefuseAtTail) {
                        self.answer(asks, decided);
                        return Ok(());
                    }
                    match self.look(writes, 1 + races, None).await? {
                        Looked::Tail if self.position() + 1 == number => {
                            self.answer(asks, decided);
                            return Ok(());
                        }
                        // The state is another one: decided again.
                        _ => {
                            races += 1;
                            continue;
                        }
                    }
                }
            };
            if is_seal && !self.has(Guard::SealFirst) {
                self.finish().await?;
            }
            let slot = Slot {
                number,
                put_id: self.put_id(&content),
                content,
            };
            match self.commit(slot, races, is_seal).await? {
                Committed::Yes if is_seal => return self.sealed(asks).await,
                Committed::Yes => {
                    self.answer(asks, decided);
                    return Ok(());
                }
                Committed::No => races += 1,
                Committed::Reopen => {}
                Committed::Unknown(error) => {
                    self.unknown(asks, decided, &error);
                    return Ok(());
                }
            }
        }
    }

    /// The number of the slot behind the view, and what the view makes of each ask.
    fn decide(&self, asks: &[Ask<M>]) -> Result<(u64, Vec<Result<Option<Bytes>>>)> {
        let inner = self.inner();
        let Some(view) = &inner.view else {
            return Err(Error::new(
                ErrorKind::Unavailable { retry_after: None },
                "no view",
            ));
        };
        let number = view.position + 1;
        let writes: Vec<&M::Write> = asks
            .iter()
            .filter_map(|ask| match ask {
                Ask::Write(write, _) => Some(write),
                _ => None,
            })
            .collect();
        let mut decided = view.machine.decide(number, &writes).into_iter();
        let decided = asks.iter().map(|ask| match ask {
            Ask::Write(..) => decided.next().unwrap_or(Ok(None)),
            _ => Ok(None),
        });
        Ok((number, decided.collect()))
    }

    fn put_id(&self, content: &Content) -> PutId {
        if !self.has(Guard::PutIdOfProcess) {
            let hash = match content {
                Content::Writes(writes) => xxh3_64(&writes.concat()),
                _ => 0,
            };
            return PutId {
                process: 0,
                number: hash,
            };
        }
        let mut inner = self.inner();
        if let Some(slot) = &inner.unresolved
            && !self.has(Guard::PutIdOfContent)
        {
            return slot.put_id;
        }
        inner.put_ids += 1;
        PutId {
            process: self.process,
            number: inner.put_ids,
        }
    }

    /// PUTs a slot, and finds out what became of it (BLOG-2).
    async fn commit(self: &Arc<Self>, slot: Slot, races: u64, is_seal: bool) -> Result<Committed> {
        let Some((incarnation, contact)) = self.of_view() else {
            return Ok(Committed::Reopen);
        };
        let key = self.keeper.slot_key(&self.name, incarnation, slot.number);
        let mut looks = 0;
        loop {
            let sent = self.store().now();
            let mode = match self.has(Guard::SlotIfAbsent) {
                true => PutMode::Create,
                false => PutMode::Overwrite,
            };
            let unknown = match self.store().put(&key, slot.encode(), mode).await {
                Ok(Put::Landed(_)) => {
                    let answered = self.store().now();
                    if self.is_lost(contact, answered, true) {
                        self.inner().view = None;
                        return Ok(Committed::Unknown(too_late()));
                    }
                    if !is_seal {
                        self.landed(&slot, sent, answered)?;
                    }
                    return Ok(Committed::Yes);
                }
                Ok(Put::Refused) => None,
                Ok(Put::Unknown(error)) => Some(error),
                // Nothing was changed by this one; an earlier one is unknown still.
                Err(error) if 0 < looks => Some(error),
                Err(error) => return Err(error),
            };
            let is_unknown = unknown.is_some() || 0 < looks;
            loop {
                match self.look(true, 1 + races, Some(&slot)).await {
                    Ok(Looked::Own) => return Ok(Committed::Yes),
                    Ok(Looked::Lost) if is_unknown && self.has(Guard::UnresolvedUnknown) => {
                        return Ok(Committed::Unknown(too_late()));
                    }
                    Ok(Looked::Reopen | Looked::Lost) => return Ok(Committed::Reopen),
                    Ok(Looked::Tail) if slot.number <= self.position() => {
                        return Ok(Committed::No);
                    }
                    // It is not there yet: the same slot, the same bytes.
                    Ok(Looked::Tail) => break,
                    Err(error) if !is_unknown => return Err(error),
                    Err(error) if LOOKS_MAX <= looks => {
                        self.inner().unresolved = Some(slot);
                        return Ok(Committed::Unknown(error));
                    }
                    Err(_) => {}
                }
                looks += 1;
                self.store().look_pause(looks).await;
            }
            if !self.has(Guard::ResolveFirst) {
                // A mutant goes on to the next slot.
                if let Some(view) = &mut self.inner().view {
                    view.position += 1;
                }
                return Ok(Committed::No);
            }
            looks += 1;
            if LOOKS_MAX < looks {
                self.inner().unresolved = Some(slot);
                let context = "the write's outcome cannot be found out";
                let lost = || Error::new(ErrorKind::Ambiguous, context);
                return Ok(Committed::Unknown(unknown.unwrap_or_else(lost)));
            }
        }
    }

    /// Finds out what became of a PUT whose callers were told that it is unknown; false if the
    /// view is none any more.
    async fn resolve(self: &Arc<Self>) -> Result<bool> {
        if !self.has(Guard::PutIdOfContent) {
            // A mutant writes what waits now with the put-id of then.
            return Ok(true);
        }
        let Some(slot) = self.inner().unresolved.take() else {
            return Ok(true);
        };
        if slot.number != self.position() + 1 {
            return Ok(true);
        }
        let is_seal = slot.content == Content::Seal;
        match self.commit(slot, 0, is_seal).await? {
            Committed::Yes if is_seal => {
                self.finish().await?;
                self.inner().view = None;
                Ok(false)
            }
            Committed::Yes | Committed::No => Ok(true),
            Committed::Reopen => Ok(false),
            Committed::Unknown(error) => {
                let context = format!("an earlier write is unresolved: {error}");
                let kind = ErrorKind::Unavailable { retry_after: None };
                Err(Error::new(kind, context))
            }
        }
    }

    /// An own slot landed: it is the tail.
    fn landed(self: &Arc<Self>, slot: &Slot, sent: Duration, answered: Duration) -> Result<()> {
        let number = slot.number;
        self.apply("an own slot", slot, sent)?;
        let random = self.store().runtime.random();
        let young_since = self.young_since(sent);
        let mut inner = self.inner();
        inner.turns.wrote(self.process, sent, answered, random);
        let Some(view) = &mut inner.view else {
            return Ok(());
        };
        view.tail = Some(young_since);
        if number.is_multiple_of(SNAPSHOT_EVERY) {
            let kept = self.keeper.clone().keep(
                self.name.clone(),
                view.incarnation,
                number,
                view.machine.snapshot(),
            );
            drop(inner);
            drop(self.store().runtime.spawn(kept));
        }
        Ok(())
    }

    async fn rest(self: &Arc<Self>) {
        let until = self.inner().turns.rests_until();
        let now = self.store().now();
        if now < until {
            self.store().runtime.clock.sleep(until - now).await;
            // Rivals wrote meanwhile. What cannot be read now is read later.
            let _ = self.look(true, 4, None).await;
        }
    }

    pub(super) async fn finish(&self) -> Result<()> {
        match self.of_view() {
            Some((incarnation, _)) => self.keeper.finish(&self.name, incarnation).await,
            None => Ok(()),
        }
    }

    /// The log is sealed: marks its name, and answers.
    async fn sealed(&self, asks: &mut Option<Vec<Ask<M>>>) -> Result<()> {
        let finished = self.finish().await;
        self.inner().view = None;
        finished?;
        for ask in asks.take().into_iter().flatten() {
            if let Ask::Seal(reply) = ask {
                let _ = reply.send(Ok(()));
            }
        }
        Ok(())
    }

    /// Answers asks that were decided at the tail.
    fn answer(&self, asks: &mut Option<Vec<Ask<M>>>, decided: Vec<Result<Option<Bytes>>>) {
        let inner = self.inner();
        for (ask, decided) in asks.take().into_iter().flatten().zip(decided) {
            match (ask, &inner.view) {
                (Ask::Write(_, reply), _) => {
                    let _ = reply.send(decided.map(drop));
                }
                (Ask::Read(read), Some(view)) => read(Ok(&view.machine)),
                // A stub showed that the write landed, and the view is read anew.
                (ask, _) => ask.fail(&Error::new(
                    ErrorKind::Unavailable { retry_after: None },
                    "the log's view is read anew",
                )),
            }
        }
    }

    /// Answers asks whose slot's outcome is unknown.
    fn unknown(
        &self,
        asks: &mut Option<Vec<Ask<M>>>,
        decided: Vec<Result<Option<Bytes>>>,
        error: &Error,
    ) {
        for (ask, decided) in asks.take().into_iter().flatten().zip(decided) {
            let is_pending = matches!(ask, Ask::Seal(_)) || matches!(decided, Ok(Some(_)));
            let kind = match is_pending {
                true => ErrorKind::Ambiguous,
                false => ErrorKind::Unavailable { retry_after: None },
            };
            ask.fail(&Error::new(kind, error.context.clone()));
        }
    }
}

/// What decisions log.
fn parts_of(decided: &[Result<Option<Bytes>>]) -> Vec<Bytes> {
    let parts = decided.iter().filter_map(|decided| decided.as_ref().ok());
    parts.flatten().cloned().collect()
}

fn clone_decided(decided: &Result<Option<Bytes>>) -> Result<Option<Bytes>> {
    match decided {
        Ok(part) => Ok(part.clone()),
        Err(error) => Err(like(error)),
    }
}

fn too_late() -> Error {
    let context = "the answer came after an hour without contact: the domain may be another one";
    Error::new(ErrorKind::Ambiguous, context)
}
