//! Places in lanes, and the timer that calls turns which no report calls.
//!
//! Invariants:
//! - WAKE-1 while anything waits, a timer runs and looks again no later than the windows ask. Or
//!   every one that waits has been woken, and the first to look starts a timer.
//! - while the state is locked no waker is called and nothing is spawned: both may drop a
//!   task, and with it a place.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fader_window::{Effect, Input, Outcome, Request, RequestError, RequestId, Settings};
use fader_window::{State as WindowState, Time, Windows};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a request says of itself.
#[derive(Clone, Debug)]
pub struct LimiterRequest<Lane> {
    /// Which window it is under: a host with a class of operations.
    pub lane: Lane,
    /// Whether it may be sent again when it is unknown whether it took effect.
    pub is_repeatable: bool,
    /// When its answer is of no use any more.
    pub deadline: Option<Instant>,
}

/// The windows of all lanes. Clones are the same limiter.
pub struct Limiter<Lane> {
    shared: Arc<Shared<Lane>>,
}

/// One request's place, from asking to its end. Dropped before, it is given back.
pub struct Ticket<Lane: Ord + Clone + Send + 'static> {
    limiter: Limiter<Lane>,
    lane: Lane,
    id: RequestId,
    is_over: bool,
}

struct Shared<Lane> {
    origin: Instant,
    state: Mutex<State<Lane>>,
    /// Wakes the timer before its time.
    alarm: Notify,
}

struct State<Lane> {
    windows: Windows<Lane>,
    places: Places,
    timer: Timer,
    effects: Vec<Effect>,
}

/// What a place knows.
enum Slot {
    Waiting(Option<Waker>),
    Called(Result<u32, RequestError>),
    /// No place's; the next one that is free, if any.
    Free(Option<usize>),
}

/// The slots of all places, found by their ids: those of unfinished requests differ.
struct Places {
    slots: Vec<Slot>,
    free: Option<usize>,
}

impl Places {
    fn take(&mut self) -> RequestId {
        let at = match self.free {
            Some(at) => {
                if let Slot::Free(next) = self.slots[at] {
                    self.free = next;
                }
                self.slots[at] = Slot::Waiting(None);
                at
            }
            None => {
                self.slots.push(Slot::Waiting(None));
                self.slots.len() - 1
            }
        };
        RequestId(at as u64)
    }

    fn give_back(&mut self, id: RequestId) {
        self.slots[id.0 as usize] = Slot::Free(self.free);
        self.free = Some(id.0 as usize);
    }

    fn slot(&mut self, id: RequestId) -> &mut Slot {
        &mut self.slots[id.0 as usize]
    }
}

#[derive(Clone, Copy)]
enum Timer {
    None,
    /// It runs, and will look at that time at the latest; at once if there is none.
    Until(Option<Time>),
}

/// What is to be done for the timer, when the state is unlocked.
enum TimerAction {
    None,
    Ring,
    Start(Handle),
}

impl<Lane> Clone for Limiter<Lane> {
    fn clone(&self) -> Self {
        Limiter {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<Lane> fmt::Debug for Limiter<Lane> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").finish_non_exhaustive()
    }
}

impl<Lane: Ord + Clone + Send + 'static> Limiter<Lane> {
    /// Windows with these settings, one for each lane. Give each process a seed of its own.
    pub fn new(settings: Settings) -> Self {
        let state = State {
            windows: Windows::new(settings),
            places: Places {
                slots: Vec::new(),
                free: None,
            },
            timer: Timer::None,
            effects: Vec::new(),
        };
        Limiter {
            shared: Arc::new(Shared {
                origin: Instant::now(),
                state: Mutex::new(state),
                alarm: Notify::new(),
            }),
        }
    }

    /// Takes a place behind all that wait in the lane.
    pub fn enter(&self, ask: LimiterRequest<Lane>) -> Ticket<Lane> {
        let LimiterRequest {
            lane,
            is_repeatable,
            deadline,
        } = ask;
        let mut state = self.lock();
        let id = state.places.take();
        let request = Request {
            id,
            deadline: deadline.map(|deadline| self.time(deadline)),
            is_repeatable,
        };
        self.step(state, &lane, Input::Submit(request));
        Ticket {
            limiter: self.clone(),
            lane,
            id,
            is_over: false,
        }
    }

    /// What is to be seen of each lane.
    pub fn states(&self) -> Vec<(Lane, WindowState)> {
        let state = self.lock();
        let states = state.windows.states();
        states.map(|(lane, state)| (lane.clone(), state)).collect()
    }

    /// Steps a lane and calls those whose turn it brings.
    fn step(&self, mut state: MutexGuard<'_, State<Lane>>, lane: &Lane, input: Input) {
        let mut called = Vec::new();
        // The timer looks in time at all other lanes already (WAKE-1).
        let wake = state.step(self.time(Instant::now()), lane, input, &mut called);
        let alarm = state.arm(wake, &mut called);
        drop(state);
        self.sound(alarm);
        called.into_iter().for_each(Waker::wake);
    }

    fn sound(&self, alarm: TimerAction) {
        match alarm {
            TimerAction::None => {}
            TimerAction::Ring => self.shared.alarm.notify_one(),
            TimerAction::Start(runtime) => drop(runtime.spawn(keep_time(Watch(self.clone())))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<Lane>> {
        let state = self.shared.state.lock();
        state.expect("nothing panics while it is locked but a broken window")
    }

    fn time(&self, instant: Instant) -> Time {
        let since = instant.saturating_duration_since(self.shared.origin);
        Time::default().after(since)
    }

    /// Looks whether the turn has come; `None` where it has not, and the waker is kept.
    fn poll_turn(
        &self,
        id: RequestId,
        context: &mut Context<'_>,
    ) -> Poll<Result<u32, RequestError>> {
        let mut state = self.lock();
        match state.places.slot(id) {
            Slot::Called(turn) => return Poll::Ready(*turn),
            Slot::Waiting(Some(waker)) if waker.will_wake(context.waker()) => {}
            Slot::Waiting(waker) => *waker = Some(context.waker().clone()),
            Slot::Free(_) => unreachable!("a place has a slot until it is over"),
        }
        if matches!(state.timer, Timer::None) {
            // Outside of any runtime there is nothing to start a timer with.
            let wake = state.windows.wake_at().map(|(at, _)| at);
            let alarm = state.arm(wake, &mut Vec::new());
            drop(state);
            self.sound(alarm);
        }
        Poll::Pending
    }
}

impl<Lane: Ord + Clone> State<Lane> {
    /// Steps a lane; when it is to be stepped next.
    fn step(
        &mut self,
        now: Time,
        lane: &Lane,
        input: Input,
        called: &mut Vec<Waker>,
    ) -> Option<Time> {
        let wake = self.windows.step(now, lane, input, &mut self.effects);
        for effect in self.effects.drain(..) {
            let (id, turn) = match effect {
                Effect::Send { id, attempt } => (id, Ok(attempt)),
                Effect::Fail { id, why } => (id, Err(why)),
            };
            let slot = self.places.slot(id);
            if let Slot::Waiting(waker) = slot {
                called.extend(waker.take());
            }
            *slot = Slot::Called(turn);
        }
        wake
    }

    /// Sees to it that a timer looks at that time (WAKE-1).
    fn arm(&mut self, wake: Option<Time>, called: &mut Vec<Waker>) -> TimerAction {
        let Some(at) = wake else {
            return TimerAction::None;
        };
        match &mut self.timer {
            Timer::Until(until) if until.is_none_or(|until| until <= at) => TimerAction::None,
            Timer::Until(until) => {
                *until = Some(at);
                TimerAction::Ring
            }
            Timer::None => match Handle::try_current() {
                Ok(runtime) => {
                    self.timer = Timer::Until(None);
                    TimerAction::Start(runtime)
                }
                Err(_) => {
                    self.wake_all(called);
                    TimerAction::None
                }
            },
        }
    }

    fn wake_all(&mut self, called: &mut Vec<Waker>) {
        for slot in &mut self.places.slots {
            if let Slot::Waiting(waker) = slot {
                called.extend(waker.take());
            }
        }
    }
}

impl<Lane: Ord + Clone + Send + 'static> Ticket<Lane> {
    /// Waits for the turn: the how manieth it is, from 1. Then the attempt is to be made, and to be
    /// reported.
    ///
    /// # Errors
    /// Why it will not be sent (again): the place is over.
    pub async fn turn(&mut self) -> Result<u32, RequestError> {
        let (limiter, id) = (&self.limiter, self.id);
        let turn = poll_fn(|context| limiter.poll_turn(id, context)).await;
        if turn.is_err() {
            self.is_over = true;
            self.limiter.lock().places.give_back(self.id);
        }
        turn
    }

    /// Tells how the attempt ended. After anything but `Ok` there may be another turn.
    pub fn report(&mut self, outcome: Outcome) {
        let mut state = self.limiter.lock();
        if outcome == Outcome::Ok {
            self.is_over = true;
            state.places.give_back(self.id);
        } else {
            *state.places.slot(self.id) = Slot::Waiting(None);
        }
        let id = self.id;
        let report = Input::Report { id, outcome };
        self.limiter.step(state, &self.lane, report);
    }
}

impl<Lane: Ord + Clone + Send + 'static> Drop for Ticket<Lane> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.limiter.lock();
            state.places.give_back(self.id);
            self.limiter.step(state, &self.lane, Input::Cancel(self.id));
        }
    }
}

impl<Lane: Ord + Clone + Send + 'static> fmt::Debug for Ticket<Lane> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.id).finish()
    }
}

/// The timer's hold on its limiter. If the runtime ends under it, those who wait are woken, and
/// the first of them that runs elsewhere starts another (WAKE-1).
struct Watch<Lane: Ord + Clone + Send + 'static>(Limiter<Lane>);

impl<Lane: Ord + Clone + Send + 'static> Drop for Watch<Lane> {
    fn drop(&mut self) {
        let mut wakers = Vec::new();
        {
            let mut state = self.0.lock();
            if let Timer::None = mem::replace(&mut state.timer, Timer::None) {
                return;
            }
            state.wake_all(&mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Calls the turns whose time has come, as long as a time is to be waited for.
async fn keep_time<Lane: Ord + Clone + Send + 'static>(watch: Watch<Lane>) {
    let limiter = &watch.0;
    while let Some(at) = limiter.look() {
        let until = limiter.shared.origin + Duration::from_nanos(at.0);
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = limiter.shared.alarm.notified() => {}
        }
    }
}

impl<Lane: Ord + Clone + Send + 'static> Limiter<Lane> {
    /// Steps every lane whose time has come; when to look next. `None` where there is nothing to
    /// wait for: the timer is then gone.
    fn look(&self) -> Option<Time> {
        let mut called = Vec::new();
        let next = {
            let mut state = self.lock();
            let now = self.time(Instant::now());
            loop {
                let wake = state.windows.wake_at();
                match wake.map(|(at, lane)| (at, lane.clone())) {
                    Some((at, lane)) if at <= now => {
                        state.step(now, &lane, Input::Tick, &mut called);
                    }
                    wake => break self.set_timer(&mut state, wake.map(|(at, _)| at)),
                }
            }
        };
        called.into_iter().for_each(Waker::wake);
        next
    }

    fn set_timer(&self, state: &mut State<Lane>, wake: Option<Time>) -> Option<Time> {
        state.timer = match wake {
            Some(at) => Timer::Until(Some(at)),
            None => Timer::None,
        };
        wake
    }
}
