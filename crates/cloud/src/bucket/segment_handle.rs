//! All that a process does to one segment, one write at a time (rules BQUEUE-4 to BQUEUE-8).
//!
//! Operations that wait for a write under way share the next one. What a write says is decided by
//! [`super::state::plan`]; this file does its requests.

mod view;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_channel::oneshot;
use object_store::PutMode;
use object_store::path::Path;

pub(super) use self::view::View;
use super::guard::Guard;
use super::listing::Listed;
use super::names::{Held, Holding, Incarnation, Part, SegmentName, part_text};
use super::operations::{
    Claimed, Pending, Reply, Tries, Waiting, again, fail_all, needs_no_state, settle,
};
use super::segment;
use super::state::{Act, Operation, Plan, Seen, State, has_claimed, plan};
use super::store::{Put, Store};
use super::time::{Landed, holder_end};
use crate::error::{Error, ErrorKind, Result, like, process_over};
use crate::queues::Received;

/// Writes of one operation that others were faster than, at most.
const RACES_MAX: u32 = 64;
/// Writes of one operation whose answers were lost, at most.
const UNKNOWN_MAX: u32 = 6;

/// A segment as a process works on it.
#[derive(Debug)]
pub(super) struct SegmentHandle {
    store: Store,
    incarnation: Incarnation,
    name: SegmentName,
    state_key: Path,
    segment_key: Path,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    view: Option<View>,
    waiting: Vec<Waiting>,
    is_busy: bool,
    /// What was read before a claim; for mutants.
    early: Option<Vec<String>>,
}

impl Inner {
    /// The state as it is known, if that is the one that a list shows.
    fn known(&mut self, listed: Option<&Listed>) -> Option<&View> {
        let view = self.view.as_mut()?;
        if let Some(listed) = listed {
            let e_tag = view.version.as_ref().and_then(|known| known.e_tag.as_ref());
            if e_tag != listed.e_tag.as_ref() || listed.e_tag.is_none() {
                return None;
            }
            view.seen.landed = Landed::Modified(listed.modified);
        }
        Some(view)
    }
}

impl SegmentHandle {
    /// `folder` is that of the queue's incarnation.
    pub(super) fn new(
        store: &Store,
        folder: &Path,
        incarnation: Incarnation,
        name: SegmentName,
    ) -> Self {
        let part = |part| folder.clone().join(part_key(store, name, part));
        SegmentHandle {
            store: store.clone(),
            incarnation,
            name,
            state_key: part(Part::State),
            segment_key: part(Part::Segment),
            inner: Mutex::default(),
        }
    }

    /// The segment's name.
    pub(super) fn name(&self) -> SegmentName {
        self.name
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("nothing panics while it is locked")
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        let inner = self.inner();
        !inner.is_busy && inner.waiting.is_empty()
    }

    /// How many messages are visible, if that is known of the state that a list shows.
    pub(super) fn visible_of(&self, listed: Option<&Listed>) -> Option<usize> {
        let mut inner = self.inner();
        let view = inner.known(listed)?;
        Some(view.visible(&self.store))
    }

    /// Notes what a list shows, where that is news.
    pub(super) fn hint(&self, listed: Option<&Listed>) {
        let mut inner = self.inner();
        if inner.is_busy || inner.known(listed).is_some() {
            return;
        }
        inner.view = match listed {
            None => Some(View::absent(self.name.count)),
            // It is read before the next write.
            Some(_) => None,
        };
    }

    /// A state that was listed, as it is known or read; `None` if it is gone, and so its segment,
    /// which is deleted before it.
    pub(super) async fn look(&self, listed: &Listed) -> Result<Option<View>> {
        self.hint(Some(listed));
        if let Some(known) = self.inner().known(Some(listed)) {
            return Ok(Some(known.clone()));
        }
        let read = self.read_state().await?;
        if !read.seen.exists {
            return Ok(None);
        }
        let mut inner = self.inner();
        if !inner.is_busy && inner.view.is_none() {
            inner.view = Some(read.clone());
        }
        Ok(Some(read))
    }

    /// Claims messages.
    pub(super) async fn claim(
        self: &Arc<Self>,
        max: usize,
        visibility: Duration,
    ) -> Result<Claimed> {
        let random = || u128::from(self.store.runtime.random());
        let operation = Operation::Claim {
            id: random() << 64 | random(),
            max,
            visibility,
        };
        let (reply, answer) = oneshot::channel();
        self.ask(operation, Reply::Claim(reply));
        answer.await.unwrap_or_else(|_| Err(process_over()))
    }

    /// Removes or hides a message.
    pub(super) async fn write(self: &Arc<Self>, operation: Operation) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.ask(operation, Reply::Write(reply));
        answer.await.unwrap_or_else(|_| Err(process_over()))
    }

    fn ask(self: &Arc<Self>, operation: Operation, reply: Reply) {
        let mut inner = self.inner();
        inner.waiting.push(Waiting { operation, reply });
        let starts = !std::mem::replace(&mut inner.is_busy, true);
        drop(inner);
        if starts {
            let handle = self.clone();
            drop(self.store.runtime.spawn(async move { handle.work().await }));
        }
    }

    async fn work(self: Arc<Self>) {
        while let Some((waiting, view)) = self.next() {
            let view = self.serve(waiting, view).await;
            self.inner().view = view;
        }
    }

    /// What waits, and the state as it is known; `None` ends the work.
    fn next(&self) -> Option<(Vec<Waiting>, Option<View>)> {
        let mut inner = self.inner();
        let waiting = std::mem::take(&mut inner.waiting);
        inner.is_busy = !waiting.is_empty();
        inner.is_busy.then(|| (waiting, inner.view.take()))
    }

    /// The state, read.
    pub(super) async fn read_state(&self) -> Result<View> {
        let found = self.store.get_surely(&self.state_key).await?;
        let Some(found) = found else {
            return Ok(View::absent(self.name.count));
        };
        let state = State::decode(self.state_key.as_ref(), &found.bytes, self.name.count)?;
        Ok(View {
            seen: Seen {
                state,
                landed: Landed::Modified(found.modified),
                exists: true,
            },
            version: Some(found.version),
        })
    }

    /// Answers operations by one write or some; the state as it is known then.
    async fn serve(
        self: &Arc<Self>,
        mut waiting: Vec<Waiting>,
        mut view: Option<View>,
    ) -> Option<View> {
        let mut tries = Tries::default();
        loop {
            let known = match view {
                Some(known) => known,
                None if tries.is_first() && waiting.iter().all(needs_no_state) => {
                    View::absent(self.name.count)
                }
                None => match self.read_state().await {
                    Ok(known) => known,
                    Err(error) => {
                        fail_all(waiting, &error, 0 < tries.unknown);
                        return None;
                    }
                },
            };
            match self.write_once(waiting, known, &mut tries).await {
                Round::Over(view) => return view,
                Round::Again(left, found) => (waiting, view) = (left, found),
            }
        }
    }

    /// Decides operations on a state, and writes once.
    async fn write_once(
        self: &Arc<Self>,
        waiting: Vec<Waiting>,
        known: View,
        tries: &mut Tries,
    ) -> Round {
        self.read_early(&waiting, &known).await;
        let at = self.store.moment();
        let operations: Vec<Operation> = waiting.iter().map(|one| one.operation).collect();
        let is_reread = !tries.is_first();
        let Plan { answers, act } =
            plan(&known.seen, &operations, &at, is_reread, &self.store.guards);
        let pending = settle(waiting, answers, &known.seen);
        let next = match act {
            Act::Nothing => return Round::Over(Some(known)),
            Act::Delete => {
                self.delete(pending, &known).await;
                return Round::Over(None);
            }
            Act::Write(next) => State {
                write: self.store.runtime.random(),
                ..next
            },
        };
        let pending = self.acknowledge_early(pending);
        let put = self.put(&known, &next, &pending).await;
        let answered = self.store.now();
        match put {
            Ok(Put::Landed(version)) => {
                self.granted(pending, at.now);
                Round::Over(Some(View {
                    seen: Seen {
                        state: next,
                        landed: Landed::Answered(answered),
                        exists: true,
                    },
                    version: Some(version),
                }))
            }
            Ok(Put::Refused) => {
                tries.races += 1;
                let waiting = again(pending, |_, reply| reply.done());
                if waiting.is_empty() {
                    return Round::Over(None);
                }
                if RACES_MAX <= tries.races {
                    let context = "other processes changed the segment again and again";
                    let kind = ErrorKind::Unavailable { retry_after: None };
                    fail_all(waiting, &Error::new(kind, context), 0 < tries.unknown);
                    return Round::Over(None);
                }
                Round::Again(waiting, None)
            }
            Ok(Put::Unknown(error)) => {
                tries.unknown += 1;
                self.find_out(pending, &next, &error, at.now, tries).await
            }
            Err(error) => {
                fail_all(
                    again(pending, Reply::fail_unknown),
                    &error,
                    0 < tries.unknown,
                );
                Round::Over(None)
            }
        }
    }

    /// Finds out what became of a write without an answer (BQUEUE-6, BQUEUE-7).
    async fn find_out(
        self: &Arc<Self>,
        pending: Vec<Pending>,
        next: &State,
        error: &Error,
        sent: Duration,
        tries: &Tries,
    ) -> Round {
        let found = match self.read_state().await {
            Ok(found) if tries.unknown <= UNKNOWN_MAX => found,
            _ => {
                fail_all(again(pending, Reply::fail_unknown), error, true);
                return Round::Over(None);
            }
        };
        let (state, guards) = (&found.seen.state, &self.store.guards);
        let is_ours = found.seen.exists && state.write == next.write;
        let has_landed = |(one, claimed): &Pending| match one.operation {
            _ if is_ours && guards.has(Guard::ClaimIds) => true,
            Operation::Claim { id, .. } => {
                found.seen.exists && has_claimed(state, id, claimed, guards)
            }
            _ => false,
        };
        let (landed, rest): (Vec<_>, Vec<_>) = pending.into_iter().partition(has_landed);
        self.granted(landed, sent);
        let waiting = again(rest, Reply::give_up);
        if waiting.is_empty() {
            return Round::Over(Some(found));
        }
        self.store.look_pause(tries.unknown).await;
        Round::Again(waiting, Some(found))
    }

    async fn put(&self, known: &View, next: &State, pending: &[Pending]) -> Result<Put> {
        let guards = &self.store.guards;
        let is_peek = |(one, _): &Pending| {
            matches!(
                one.operation,
                Operation::Remove {
                    holding: Holding::Peek { .. },
                    ..
                }
            )
        };
        let is_conditional = match &known.version {
            _ if !guards.has(Guard::PeekIfMatch) && pending.iter().all(is_peek) => false,
            Some(_) => guards.has(Guard::UpdateIfMatch),
            None => guards.has(Guard::CreateIfAbsent),
        };
        let mode = match (&known.version, is_conditional) {
            (_, false) => PutMode::Overwrite,
            (Some(version), true) => PutMode::Update(version.clone()),
            (None, true) => PutMode::Create,
        };
        self.store.put(&self.state_key, next.encode(), mode).await
    }

    /// What the write granted: removes and hides are acknowledged, and the messages of claims are
    /// read for all of them together.
    fn granted(self: &Arc<Self>, pending: Vec<Pending>, sent: Duration) {
        let mut claims = Vec::new();
        for (one, claimed) in pending {
            match (one.operation, one.reply) {
                (Operation::Claim { id, visibility, .. }, Reply::Claim(reply)) => {
                    let sent = match self.store.guards.has(Guard::HolderFromSending) {
                        true => sent,
                        false => self.store.now(),
                    };
                    claims.push(Claim {
                        id,
                        claimed,
                        end: holder_end(sent, visibility),
                        reply,
                    });
                }
                (_, reply) => reply.done(),
            }
        }
        if !claims.is_empty() {
            let handle = self.clone();
            let read = async move { handle.deliver(claims).await };
            drop(self.store.runtime.spawn(read));
        }
    }

    /// Reads the segment after the claims landed, and answers them.
    async fn deliver(self: Arc<Self>, claims: Vec<Claim>) {
        let early = self.inner().early.take();
        let bodies = match early {
            Some(bodies) => Ok(Some(bodies)),
            None => self.read_segment().await,
        };
        match bodies {
            Ok(Some(bodies)) => {
                for claim in claims {
                    let messages = claim.claimed.iter().map(|(index, receives)| {
                        let holding = Holding::Claim(claim.id);
                        self.message(*index, &bodies, *receives, holding)
                    });
                    let messages = Claimed::Messages(messages.collect(), claim.end);
                    let _ = claim.reply.send(Ok(messages));
                }
            }
            Ok(None) => {
                for claim in claims {
                    let _ = claim.reply.send(Ok(Claimed::Nothing));
                }
                // The claim created a state for a segment that is gone. A list deletes it later
                // if this fails.
                let _ = self.store.delete_surely(&self.state_key).await;
                self.inner().view = None;
            }
            Err(error) => {
                for claim in claims {
                    let _ = claim.reply.send(Err(like(&error)));
                }
            }
        }
    }

    /// The bodies of the segment; `None` if it is gone.
    pub(super) async fn read_segment(&self) -> Result<Option<Vec<String>>> {
        let found = self.store.get_surely(&self.segment_key).await?;
        let Some(found) = found else {
            return Ok(None);
        };
        let key = self.segment_key.as_ref();
        segment::decode(key, &found.bytes, self.name.count).map(Some)
    }

    /// A message for its receiver.
    pub(super) fn message(
        &self,
        index: usize,
        bodies: &[String],
        receives: u64,
        holding: Holding,
    ) -> Received {
        let held = Held {
            incarnation: self.incarnation,
            segment: self.name,
            index,
            holding,
        };
        Received {
            id: self.name.message_id(index),
            body: bodies[index].clone(),
            receipt: held.receipt(),
            receives,
        }
    }

    /// Deletes the segment, acknowledges, and deletes the state.
    async fn delete(&self, pending: Vec<Pending>, known: &View) {
        let (first, second) = match self.store.guards.has(Guard::SegmentBeforeState) {
            true => (&self.segment_key, &self.state_key),
            false => (&self.state_key, &self.segment_key),
        };
        let deleted = self.store.delete_surely(first).await;
        match deleted {
            Ok(()) => again(pending, |_, reply| reply.done())
                .into_iter()
                .for_each(|one| one.reply.done()),
            Err(error) => {
                fail_all(again(pending, Reply::fail_unknown), &error, true);
                return;
            }
        }
        if known.seen.exists {
            // A list deletes it later if this fails.
            let _ = self.store.delete_surely(second).await;
        }
    }

    /// Reads the segment before the claim; for mutants.
    async fn read_early(&self, waiting: &[Waiting], known: &View) {
        let guards = &self.store.guards;
        let is_early = !guards.has(Guard::BodyAfterClaim)
            || (known.seen.exists && !guards.has(Guard::BodyAfterUpdate));
        let claims = |one: &Waiting| matches!(one.operation, Operation::Claim { .. });
        if is_early && waiting.iter().any(claims) {
            let bodies = self.read_segment().await.ok().flatten();
            self.inner().early = bodies;
        }
    }

    /// Acknowledges removes before their write; for a mutant.
    fn acknowledge_early(&self, pending: Vec<Pending>) -> Vec<Pending> {
        if self.store.guards.has(Guard::RemoveAfterPut) {
            return pending;
        }
        let early = pending.into_iter().map(|(one, claimed)| match one.reply {
            Reply::Write(reply) => {
                let _ = reply.send(Ok(()));
                let (reply, _) = oneshot::channel();
                let reply = Reply::Write(reply);
                (Waiting { reply, ..one }, claimed)
            }
            reply => (Waiting { reply, ..one }, claimed),
        });
        early.collect()
    }
}

/// The last part of a key of a segment's object.
pub(super) fn part_key(store: &Store, name: SegmentName, part: Part) -> String {
    part_text(name, part, store.guards.has(Guard::StatesFirst))
}

/// What one write came to.
enum Round {
    /// All operations are answered; the state as it is known.
    Over(Option<View>),
    /// These are decided again, on this state if it is known.
    Again(Vec<Waiting>, Option<View>),
}

/// A claim that landed.
#[derive(Debug)]
struct Claim {
    id: u128,
    claimed: Vec<(usize, u64)>,
    end: Duration,
    reply: oneshot::Sender<Result<Claimed>>,
}
