//! Carries the requests of this process's session ([`Keeper`]) to a server, on a connection of
//! their own.
//!
//! Invariants:
//! - ZNODE-11 nothing is locked that another thread waits for while a request is under way; a ping
//!   waits for requests of its own session alone.

use fader_chain::membership::{Answer, Change, Keeper, Ping, Request, session_name};
use fader_chain::{ChainId, Identity, Progress, Report, Version};
use fader_zookeeper::{Changed, EnsembleClient, EnsembleError};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::record::Content;
use super::{TRIES, incarnation};
use crate::clock::monotonic_ms;
use crate::coordinator::{CoordinatorError, Outage, PingTime};

/// The session of this process.
#[derive(Default)]
pub(super) struct OwnSession {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    /// None before the process has entered.
    keeper: Option<Keeper>,
    /// How many requests were not answered, and why the last was not.
    lost: u64,
    why: Option<EnsembleError>,
}

impl OwnSession {
    /// The process begins, without an incarnation.
    pub(super) fn enter(&self, keeper: Keeper) {
        self.state.lock().keeper = Some(keeper);
    }

    /// The process, if it has entered.
    pub(super) fn process(&self) -> Option<Identity> {
        let state = self.state.lock();
        state.keeper.as_ref().map(|it| it.record().identity)
    }

    /// The disks whose znodes lag behind what was adopted on them.
    pub(super) fn unnoted(&self) -> Vec<(Identity, Progress)> {
        let state = self.state.lock();
        state
            .keeper
            .as_ref()
            .map(Keeper::unnoted)
            .unwrap_or_default()
    }

    /// The znode of this incarnation's disk says that.
    pub(super) fn on_noted(&self, member: Identity, progress: Progress) {
        if let Some(keeper) = &mut self.state.lock().keeper {
            keeper.on_noted(member, progress);
        }
    }

    /// An incarnation answers no request any more: its disk's progress is noted before the
    /// incarnation is removed. Nothing if it is over.
    pub(super) fn close(&self, member: Identity) -> Option<Progress> {
        self.state.lock().keeper.as_mut()?.close(member)
    }
}

/// How requests of the session are carried.
pub(super) struct Carrier<'a> {
    pub(super) own: &'a OwnSession,
    /// Where the cluster is.
    pub(super) root: &'a str,
    /// The greatest version that this process speaks.
    pub(super) speaks: Version,
    pub(super) asker: &'a Mutex<EnsembleClient>,
}

impl Carrier<'_> {
    /// Begins an incarnation, on a disk whose znode says this.
    pub(super) fn open(
        &self,
        chain: ChainId,
        member: Identity,
        noted: Progress,
    ) -> Result<(), CoordinatorError> {
        let open = || {
            self.keep(|keeper| keeper.open(chain, member, noted))?;
            self.ping(member).map(drop)
        };
        let opened = match open() {
            // It was that of others that ended: this incarnation is in no write of it.
            Err(CoordinatorError::SessionOver) => open(),
            opened => opened,
        };
        if opened.is_err() {
            self.keep(|keeper| keeper.leave_out(member))?;
        }
        opened
    }

    /// Pings for an incarnation.
    pub(super) fn ping(&self, member: Identity) -> Result<PingTime, CoordinatorError> {
        let asked_ms = monotonic_ms();
        self.drive(|keeper| match keeper.ping(member, asked_ms) {
            Ping::Over => Some(Err(CoordinatorError::SessionOver)),
            Ping::At(sent) => Some(Ok(PingTime(sent))),
            Ping::Due => None,
        })
    }

    /// Says what an incarnation reports.
    pub(super) fn report(&self, member: Identity, report: Report) -> Result<(), CoordinatorError> {
        match self.keep(|keeper| keeper.report(member, report))? {
            Some(change) => self.say(change),
            None => Ok(()),
        }
    }

    /// Leaves an incarnation that was closed out of the session; with the last one it ends.
    pub(super) fn leave_out(&self, member: Identity) -> Result<(), CoordinatorError> {
        let change = self.keep(|keeper| keeper.leave_out(member))?;
        self.say(change)
    }

    /// The process has a session also without an incarnation, or only with one.
    pub(super) fn stay(&self, stays: bool) -> Result<(), CoordinatorError> {
        let change = self.keep(|keeper| keeper.stay(stays))?;
        self.say(change)
    }

    /// Pings for the process, if it stays and has no incarnation.
    pub(super) fn ping_alone(&self) -> Result<(), CoordinatorError> {
        match self.keep(Keeper::ping_alone)? {
            Some(change) => self.say(change),
            None => Ok(()),
        }
    }

    fn say(&self, change: Change) -> Result<(), CoordinatorError> {
        self.drive(|keeper| keeper.is_acknowledged(change).then_some(Ok(())))
    }

    fn keep<T>(&self, act: impl FnOnce(&mut Keeper) -> T) -> Result<T, CoordinatorError> {
        let mut state = self.own.state.lock();
        let keeper = state.keeper.as_mut();
        keeper.map(act).ok_or(CoordinatorError::SessionOver)
    }

    /// Carries requests until `is_done`, or until one is not answered. One thread carries at a
    /// time, and the others wait for what comes of it.
    fn drive<T>(
        &self,
        mut is_done: impl FnMut(&mut Keeper) -> Option<Result<T, CoordinatorError>>,
    ) -> Result<T, CoordinatorError> {
        let own = self.own;
        let mut state = own.state.lock();
        let (lost, mut tries) = (state.lost, 0);
        while tries < TRIES {
            let now = &mut *state;
            let keeper = now.keeper.as_mut().ok_or(CoordinatorError::SessionOver)?;
            if let Some(done) = is_done(keeper) {
                return done;
            }
            if now.lost != lost {
                let why = now.why.clone().map_or(Outage::Unwatched, Outage::Ensemble);
                return Err(why.into());
            }
            let Some(request) = keeper.next(monotonic_ms(), incarnation()?) else {
                own.answered.wait(&mut state);
                continue;
            };
            tries += 1;
            let asked = MutexGuard::unlocked(&mut state, || self.ask(&request));
            let answer = *asked.as_ref().unwrap_or(&Answer::Lost);
            if let Some(keeper) = state.keeper.as_mut() {
                keeper.on_answer(answer);
            }
            if let Err(failure) = &asked {
                state.lost += 1;
                state.why = Some(failure.clone());
            }
            own.answered.notify_all();
            asked?;
        }
        let znode = format!("{}/sessions", self.root);
        Err(Outage::Contended { znode }.into())
    }

    fn ask(&self, request: &Request) -> Result<Answer, EnsembleError> {
        // One request is under way at a time: no thread waits here.
        let mut asker = self.asker.lock();
        let path = |session| {
            let name = session_name(session, self.speaks);
            format!("{}/sessions/{name}", self.root)
        };
        let changed = |changed| match changed {
            Changed::Done => Answer::Done,
            Changed::Stale => Answer::Stale,
            Changed::Missing => Answer::Missing,
        };
        match request {
            Request::Create(record) => {
                let is_made = asker.create(&path(record.identity), &record.encode())?;
                Ok(match is_made {
                    true => Answer::Done,
                    false => Answer::Exists,
                })
            }
            Request::Write { record, version } => {
                let path = path(record.identity);
                asker.set(&path, &record.encode(), *version).map(changed)
            }
            Request::Delete { session, version } => {
                asker.delete(&path(*session), *version).map(changed)
            }
            Request::Find { session } => {
                let path = path(*session);
                asker.sync(&path)?;
                let znode = asker.get(&path, false)?;
                Ok(Answer::Found(znode.map(|znode| znode.version)))
            }
        }
    }
}
