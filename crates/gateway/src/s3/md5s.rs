//! MD5s of large bodies, of several side by side.
//!
//! A step of an MD5 needs the step before, which leaves most of a processor idle. A thread computes
//! the MD5s of several bodies at once, each in a lane of the processor's vectors. It begins when a
//! body is due: one that ends, or of which much waits. By then other bodies fill more lanes. When
//! much waits of all of them, all are due: what waits keeps its memory.
//!
//! Invariants:
//! - MD5S-1 the MD5 of a body is that of its bytes, in their order.
//! - MD5S-2 of a body at most [`WAITING_MAX`] wait here, and what was sent with the last of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

use bytes::{Buf as _, Bytes};
use md5_many::{Md5Many, Md5State};
use tokio::sync::{Notify, oneshot};

use crate::s3::fault::Fault;

/// Bytes of a body that are sent together.
const SENT_BYTES: usize = 256 << 10;
/// A body of which so many bytes wait is due.
const DUE_BYTES: usize = 1 << 20;
/// A body of which so many bytes wait sends no more.
const WAITING_MAX: usize = 2 << 20;
/// Fewer lanes than that are slower than one MD5 after the other.
const LANES_MIN: usize = 3;
/// Lanes are computed in groups of so many: others are filled with copies.
const GROUP: usize = 8;
/// Lanes that are computed at once. All bodies are due when as much of them waits as would make so
/// many due.
const LANES_MAX: usize = 16;
/// Bytes of a step.
const STEP_BYTES: usize = 64;

/// The MD5 of bytes.
pub(crate) type Sum = [u8; 16];

/// What the thread hears of a body.
enum News {
    /// Its next bytes.
    Bytes(Vec<Bytes>, Arc<Waiting>),
    /// It has no more: the thread answers.
    End(oneshot::Sender<Sum>),
    /// Its MD5 is not asked for.
    GivenUp,
}

/// How many bytes of a body wait.
#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    is_less: Notify,
}

/// The thread that computes. It ends when this and all bodies are dropped.
pub(crate) struct Md5s {
    thread: mpsc::Sender<(u64, News)>,
    next: AtomicU64,
}

impl Md5s {
    /// Starts the thread.
    pub(crate) fn start() -> Md5s {
        let (thread, news) = mpsc::channel();
        let run = move || run(&news);
        let started = std::thread::Builder::new()
            .name("md5".to_owned())
            .spawn(run);
        if let Err(error) = started {
            // What is sent fails then, and so does each large body.
            tracing::error!(%error, "no thread for MD5s");
        }
        Md5s {
            thread,
            next: AtomicU64::new(0),
        }
    }

    /// A new body.
    pub(crate) fn begin(&self) -> Body {
        Body {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            thread: self.thread.clone(),
            waiting: Arc::default(),
            gathered: Vec::new(),
            gathered_bytes: 0,
        }
    }
}

/// A body whose bytes come.
pub(crate) struct Body {
    number: u64,
    thread: mpsc::Sender<(u64, News)>,
    waiting: Arc<Waiting>,
    /// What is sent next.
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
}

impl Body {
    /// Takes the bytes that follow, when few enough wait (MD5S-2).
    ///
    /// # Errors
    /// The thread is gone.
    pub(crate) async fn update(&mut self, bytes: Bytes) -> Result<(), Fault> {
        self.gathered_bytes += bytes.len();
        self.gathered.push(bytes);
        if self.gathered_bytes < SENT_BYTES {
            return Ok(());
        }
        self.send()?;
        while WAITING_MAX < self.waiting.bytes.load(Ordering::Acquire) {
            self.waiting.is_less.notified().await;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Fault> {
        let count = std::mem::take(&mut self.gathered_bytes);
        self.waiting.bytes.fetch_add(count, Ordering::AcqRel);
        let bytes = std::mem::take(&mut self.gathered);
        self.tell(News::Bytes(bytes, self.waiting.clone()))
    }

    fn tell(&self, news: News) -> Result<(), Fault> {
        self.thread.send((self.number, news)).map_err(|_| gone())
    }

    /// The MD5 of all.
    ///
    /// # Errors
    /// The thread is gone.
    pub(crate) async fn finish(mut self) -> Result<Sum, Fault> {
        self.send()?;
        let (sender, receiver) = oneshot::channel();
        self.tell(News::End(sender))?;
        receiver.await.map_err(|_| gone())
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // Of one that has ended nothing is known there.
        let _ = self.tell(News::GivenUp);
    }
}

fn gone() -> Fault {
    Fault::new("InternalError", 500, "The server computes no MD5s.")
}

fn run(news: &mpsc::Receiver<(u64, News)>) {
    let mut lanes = Lanes::new(DUE_BYTES);
    while let Ok(first) = news.recv() {
        for (number, news) in std::iter::once(first).chain(news.try_iter()) {
            lanes.hear(number, news);
        }
        lanes.compute();
    }
}

/// The bodies that the thread knows.
struct Lanes {
    engine: Md5Many,
    /// A body of which so many bytes wait is due.
    due_bytes: usize,
    bodies: BTreeMap<u64, Lane>,
}

#[derive(Default)]
struct Lane {
    state: Md5State,
    pieces: VecDeque<Bytes>,
    bytes: usize,
    waiting: Arc<Waiting>,
    end: Option<oneshot::Sender<Sum>>,
}

impl Lane {
    fn is_due(&self, due_bytes: usize) -> bool {
        self.end.is_some() || due_bytes <= self.bytes
    }

    /// Whole steps that the first piece has, in bytes, once those of the step that is begun are
    /// computed. With less the piece is computed alone.
    fn steps(&mut self) -> usize {
        while let Some(piece) = self.pieces.front_mut() {
            let begun = (self.state.bytes_hashed() % STEP_BYTES as u64) as usize;
            let rest = match (begun, piece.len()) {
                (0, length) if STEP_BYTES <= length => return length - length % STEP_BYTES,
                (begun, length) => length.min(STEP_BYTES - begun),
            };
            self.state.update(&piece[..rest]);
            self.took(rest);
        }
        0
    }

    /// Bytes of the first piece were computed.
    fn took(&mut self, count: usize) {
        let piece = self.pieces.front_mut().expect("they are of a piece");
        piece.advance(count);
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        self.bytes -= count;
        self.waiting.bytes.fetch_sub(count, Ordering::AcqRel);
        self.waiting.is_less.notify_one();
    }
}

impl Lanes {
    fn new(due_bytes: usize) -> Lanes {
        Lanes {
            engine: Md5Many::new(),
            due_bytes,
            bodies: BTreeMap::new(),
        }
    }

    fn hear(&mut self, number: u64, news: News) {
        if let News::GivenUp = news {
            self.bodies.remove(&number);
            return;
        }
        let lane = self.bodies.entry(number).or_default();
        match news {
            News::Bytes(pieces, waiting) => {
                lane.bytes += pieces.iter().map(Bytes::len).sum::<usize>();
                lane.pieces.extend(pieces);
                lane.waiting = waiting;
            }
            News::End(end) => lane.end = Some(end),
            News::GivenUp => {}
        }
    }

    /// Computes until nothing is due, and answers those that have ended.
    fn compute(&mut self) {
        let all: usize = self.bodies.values().map(|lane| lane.bytes).sum();
        let due = match LANES_MAX * self.due_bytes <= all {
            true => 0,
            false => self.due_bytes,
        };
        let waits = |lane: &Lane| lane.is_due(due) && 0 < lane.bytes;
        while self.bodies.values().any(waits) {
            self.step(due);
        }
        let ended = self.bodies.extract_if(.., |_, lane| lane.end.is_some());
        for (_, lane) in ended {
            if let Some(end) = lane.end {
                // A body that was given up asks no more.
                let _ = end.send(lane.state.finalize());
            }
        }
    }

    /// Computes as many steps of several bodies as all of them have, or all steps of those that are
    /// due, one after the other.
    fn step(&mut self, due: usize) {
        let mut lanes: Vec<(usize, &mut Lane)> = Vec::new();
        for lane in self.bodies.values_mut() {
            let steps = lane.steps();
            if 0 < steps {
                lanes.push((steps, lane));
            }
        }
        lanes.sort_by_key(|(_, lane)| (!lane.is_due(due), std::cmp::Reverse(lane.bytes)));
        lanes.truncate(LANES_MAX);
        if lanes.len() < LANES_MIN {
            for (steps, lane) in lanes {
                if lane.is_due(due) {
                    lane.state.update(&lane.pieces[0][..steps]);
                    lane.took(steps);
                }
            }
            return;
        }
        let common = lanes.iter().map(|(steps, _)| *steps).min().unwrap_or(0);
        let count = lanes.len().next_multiple_of(GROUP);
        let filled = (0..count).map(|at| &lanes[at.min(lanes.len() - 1)].1);
        let (mut states, pieces): (Vec<Md5State>, Vec<&[u8]>) = filled
            .map(|lane| (lane.state, &lane.pieces[0][..common]))
            .unzip();
        self.engine.update_many(&mut states, &pieces);
        for ((_, lane), state) in lanes.iter_mut().zip(states) {
            lane.state = state;
            lane.took(common);
        }
    }
}

#[cfg(test)]
mod tests {
    use md5::{Digest as _, Md5};
    use proptest::prelude::*;

    use super::*;

    /// Pieces of these sizes, other ones for each body.
    fn pieces_of(number: usize, sizes: &[usize]) -> Vec<Bytes> {
        let mut at = number;
        let pieces = sizes.iter().map(|size| {
            at += size;
            (at..at + size).map(|it| ((it * 31) >> 3) as u8).collect()
        });
        pieces.collect()
    }

    proptest! {
        /// It shows MD5S-1: bodies whose pieces come in turns, each computed when it is due.
        #[test]
        fn the_md5s_of_many_bodies_are_those_of_each(
            sizes in prop::collection::vec(prop::collection::vec(0..700_usize, 0..20), 1..20),
        ) {
            const DUE: usize = 2_000;
            let bodies = sizes.iter().enumerate();
            let bodies: Vec<Vec<Bytes>> = bodies.map(|(at, sizes)| pieces_of(at, sizes)).collect();
            let mut lanes = Lanes::new(DUE);
            let mut receivers = Vec::new();
            for turn in 0..=20 {
                for (number, pieces) in bodies.iter().enumerate() {
                    if let Some(piece) = pieces.get(turn) {
                        let waiting = Arc::new(Waiting::default());
                        waiting.bytes.store(1 << 20, Ordering::Relaxed);
                        lanes.hear(number as u64, News::Bytes(vec![piece.clone()], waiting));
                    } else if turn == pieces.len() {
                        let (sender, receiver) = oneshot::channel();
                        lanes.hear(number as u64, News::End(sender));
                        receivers.push((pieces, receiver));
                    }
                }
                lanes.compute();
                prop_assert!(lanes.bodies.values().all(|lane| lane.bytes < DUE));
            }
            prop_assert!(lanes.bodies.is_empty());
            for (pieces, mut receiver) in receivers {
                let expected: Sum = Md5::digest(pieces.concat()).into();
                prop_assert_eq!(receiver.try_recv().unwrap(), expected);
            }
        }
    }

    #[tokio::test]
    async fn a_body_waits_while_much_of_it_does_and_one_that_is_given_up_is_forgotten() {
        let md5s = Md5s::start();
        let piece = Bytes::from(vec![7; 300 << 10]);
        let mut given_up = md5s.begin();
        given_up.update(piece.clone()).await.unwrap();
        drop(given_up);
        let mut body = md5s.begin();
        for _ in 0..40 {
            body.update(piece.clone()).await.unwrap();
            assert!(body.waiting.bytes.load(Ordering::Relaxed) <= WAITING_MAX);
        }
        let expected: Sum = Md5::digest(piece.repeat(40)).into();
        assert_eq!(body.finish().await.unwrap(), expected);
    }
}
