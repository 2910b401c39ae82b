//! The places of connections: how many there are, for all and for one address, and who leaves when
//! they run out.
//!
//! ```text
//!            a place is free            all are taken, someone rests         all are at work
//! accept ──▶ Seat ──▶ served            the longest rest ends ──▶ Seat       Seat in the lobby:
//!                                                                            health, else 503
//! ```
//!
//! A connection that was never served is a stranger's. It goes before one that was, and one that
//! says nothing before one whose head or body comes slowly. Each has a moment to begin: where all
//! have just come, the next one waits. One whose request is carried out, such as a long poll, never
//! goes.
//!
//! Invariants:
//! - CONN-4 at most `max` places are taken, and at most `of_address` of them from one address.
//! - CONN-5 bytes of heads that are not whole are at most `heads_bytes_max`, and one read more for
//!   each thread. The first [`HEAD_BYTES_FREE`] of a head do not count: the places bound them.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::connection::{Phase, Progress};

/// Connections beside the places, which may only ask how the server does.
pub(crate) const LOBBY_MAX: usize = 16;
/// When places run out, this part of them is emptied at once: looking for them looks at all.
const EMPTIED_PART: usize = 64;
/// Bytes of a head that count for nothing: a connection's buffer has as many from its first read
/// on. So the heads of most requests touch no counter that all connections share.
const HEAD_BYTES_FREE: usize = 8 << 10;
/// How long a stranger has to begin, and its request to come, before another may need its place.
const YOUNG: Duration = Duration::from_millis(250);
/// How often one that waits for a place looks again.
const LOOK: Duration = Duration::from_millis(10);

/// The numbers of places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// Places for all.
    pub(crate) max: usize,
    /// Of these, for one address.
    pub(crate) of_address: usize,
    /// Bytes of heads that are not whole, beyond [`HEAD_BYTES_FREE`] of each.
    pub(crate) heads_bytes_max: usize,
}

/// All places of a listener.
pub(crate) struct Places {
    numbers: Numbers,
    /// Bytes of heads that are not whole, those that count for nothing left out.
    head_bytes: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    taken: HashMap<u64, Arc<Occupant>>,
    of_address: HashMap<IpAddr, usize>,
    lobby: VecDeque<Arc<Occupant>>,
}

/// Who has a place.
struct Occupant {
    id: u64,
    /// Of which addresses it is one.
    block: IpAddr,
    progress: Progress,
    /// Whether it was served once.
    is_known: AtomicBool,
    /// Bytes of its head that is not whole.
    head_bytes: AtomicUsize,
    is_ended: AtomicBool,
    ended: Notify,
}

/// A place, for as long as this lives.
pub(crate) struct Seat {
    places: Arc<Places>,
    occupant: Arc<Occupant>,
    /// Whether it is one of the lobby.
    pub(crate) is_lobby: bool,
}

/// Which connection leaves first: strangers that say nothing before all others; none that is at
/// work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    SilentStranger,
    SlowStranger,
    /// One that may leave in a moment: it is waited for.
    Young,
    Resting,
}

/// The rank of a connection in a phase since `age`; none if it stays.
fn rank(phase: Phase, age: Duration, is_known: bool) -> Option<Rank> {
    match (phase, is_known) {
        (Phase::Work, _) | (Phase::Head | Phase::Body, true) => None,
        (Phase::Rest, true) => Some(Rank::Resting),
        (_, false) if age < YOUNG => Some(Rank::Young),
        (Phase::Rest, false) => Some(Rank::SilentStranger),
        (Phase::Head | Phase::Body, false) => Some(Rank::SlowStranger),
    }
}

/// What came of the search for places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emptied {
    /// So many connections ended.
    Ended(usize),
    /// Some may in a moment.
    Soon,
    /// All are at work.
    None,
}

/// Bytes that count of a head of which `bytes` have come.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(HEAD_BYTES_FREE)
}

/// The addresses that one client may have: one of version 4, 64 bits of version 6.
fn block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    }
}

impl Occupant {
    fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.ended.notify_one();
    }

    fn rank(&self, now: Instant) -> Option<(Rank, Instant)> {
        let (phase, since) = self.progress.phase();
        let age = now.saturating_duration_since(since);
        let is_known = self.is_known.load(Ordering::Relaxed);
        rank(phase, age, is_known).map(|rank| (rank, since))
    }
}

impl State {
    fn count(&self, block: IpAddr) -> usize {
        self.of_address.get(&block).copied().unwrap_or_default()
    }

    fn take(&mut self, occupant: &Arc<Occupant>) {
        self.taken.insert(occupant.id, Arc::clone(occupant));
        *self.of_address.entry(occupant.block).or_default() += 1;
    }

    fn free(&mut self, occupant: &Occupant) {
        if self.taken.remove(&occupant.id).is_none() {
            return;
        }
        if let Some(count) = self.of_address.get_mut(&occupant.block) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&occupant.block);
            }
        }
    }

    /// Ends `count` connections at most, of one address or any: those of the lowest rank, the
    /// longest in it first.
    fn empty(&mut self, count: usize, of: Option<IpAddr>) -> Emptied {
        let now = Instant::now();
        let candidates = self.taken.values();
        let candidates = candidates.filter(|it| of.is_none_or(|block| block == it.block));
        let mut ranked: Vec<((Rank, Instant), Arc<Occupant>)> = candidates
            .filter_map(|it| Some((it.rank(now)?, Arc::clone(it))))
            .collect();
        let Some(lowest) = ranked.iter().map(|((rank, _), _)| *rank).min() else {
            return Emptied::None;
        };
        if lowest == Rank::Young {
            return Emptied::Soon;
        }
        ranked.retain(|((rank, _), _)| *rank == lowest);
        let count = count.min(ranked.len());
        if count < ranked.len() {
            ranked.select_nth_unstable_by_key(count, |(rank, _)| *rank);
            ranked.truncate(count);
        }
        for (_, occupant) in &ranked {
            self.free(occupant);
            occupant.end();
        }
        Emptied::Ended(count)
    }

    /// Ends the longest in the lobby if that is full.
    fn wait(&mut self, occupant: &Arc<Occupant>) {
        if LOBBY_MAX <= self.lobby.len()
            && let Some(longest) = self.lobby.pop_front()
        {
            longest.end();
        }
        self.lobby.push_back(Arc::clone(occupant));
    }
}

impl Places {
    /// Places that are all free.
    pub(crate) fn new(numbers: Numbers) -> Arc<Places> {
        Arc::new(Places {
            numbers,
            head_bytes: AtomicUsize::new(0),
            state: Mutex::default(),
        })
    }

    /// A place for a connection from `address`, or one in the lobby. Says how many connections had
    /// to end for it. Waits while all places are those of strangers that have just come.
    pub(crate) async fn enter(self: &Arc<Self>, address: IpAddr) -> (Seat, usize) {
        let mut ended = 0;
        loop {
            if let Some(seat) = self.try_enter(block(address), &mut ended) {
                return (seat, ended);
            }
            sleep(LOOK).await;
        }
    }

    fn try_enter(self: &Arc<Self>, block: IpAddr, ended: &mut usize) -> Option<Seat> {
        let Numbers {
            max, of_address, ..
        } = self.numbers;
        let mut state = self.state.lock();
        let mut is_lobby = false;
        let own = (of_address, Some(block), state.count(block));
        let all = (max, None, state.taken.len());
        for (most, of, taken) in [own, all] {
            if taken < most || (of.is_none() && state.taken.len() < most) {
                continue;
            }
            match state.empty(most.div_ceil(EMPTIED_PART), of) {
                Emptied::Ended(count) => *ended += count,
                Emptied::Soon => return None,
                Emptied::None => is_lobby = true,
            }
        }
        state.next += 1;
        let occupant = Arc::new(Occupant {
            id: state.next,
            block,
            progress: Progress::new(),
            is_known: AtomicBool::new(false),
            head_bytes: AtomicUsize::new(0),
            is_ended: AtomicBool::new(false),
            ended: Notify::new(),
        });
        match is_lobby {
            true => state.wait(&occupant),
            false => state.take(&occupant),
        }
        drop(state);
        Some(Seat {
            places: Arc::clone(self),
            occupant,
            is_lobby,
        })
    }

    /// Ends the connection whose head has been on its way for longest.
    fn end_a_head(&self) {
        let state = self.state.lock();
        let others = state.taken.values().chain(&state.lobby);
        let heads = others.filter(|it| 0 < counted(it.head_bytes.load(Ordering::Relaxed)));
        let oldest = heads.min_by_key(|it| it.progress.phase().1);
        if let Some(occupant) = oldest {
            // Its bytes go when its task does; they are not to be looked for again.
            self.forget_head(occupant);
            occupant.end();
        }
    }

    /// Takes an occupant's head from what counts.
    fn forget_head(&self, occupant: &Occupant) {
        let bytes = counted(occupant.head_bytes.swap(0, Ordering::Relaxed));
        if 0 < bytes {
            self.head_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Seat {
    /// What its connection is doing.
    pub(crate) fn progress(&self) -> &Progress {
        &self.occupant.progress
    }

    /// Its connection was served: it is no stranger's.
    pub(crate) fn served(&self) {
        self.occupant.is_known.store(true, Ordering::Relaxed);
    }

    /// The head that was on its way is whole.
    pub(crate) fn head_is_whole(&self) {
        self.places.forget_head(&self.occupant);
    }

    /// Resolves when its place is another's.
    pub(crate) async fn ended(&self) {
        while !self.occupant.is_ended.load(Ordering::Relaxed) {
            self.occupant.ended.notified().await;
        }
    }

    /// Counts what is read of heads.
    fn read(&self, bytes: usize) {
        if bytes == 0 || !matches!(self.progress().phase().0, Phase::Rest | Phase::Head) {
            return;
        }
        let before = self.occupant.head_bytes.fetch_add(bytes, Ordering::Relaxed);
        let more = counted(before + bytes) - counted(before);
        if more == 0 {
            return;
        }
        let all = self.places.head_bytes.fetch_add(more, Ordering::Relaxed) + more;
        if self.places.numbers.heads_bytes_max < all {
            self.places.end_a_head();
        }
    }

    /// The stream with what is read of it counted.
    pub(crate) fn metered<T>(&self, stream: T) -> Metered<'_, T> {
        Metered { stream, seat: self }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.head_is_whole();
        let mut state = self.places.state.lock();
        match self.is_lobby {
            true => state.lobby.retain(|it| it.id != self.occupant.id),
            false => state.free(&self.occupant),
        }
    }
}

/// A stream whose heads count.
pub(crate) struct Metered<'a, T> {
    stream: T,
    seat: &'a Seat,
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<'_, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let filled = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.seat.read(buffer.filled().len() - filled);
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<'_, T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
