//! Reads on the chain thread: what a request looks at, and what is shown to it.

use fader_chain::{EntryId, Input, Level, Reply, Scope, Session, Token};
use fader_services::catalog;
use fader_services::level::Receipt;
use fader_services::request::{Refusal as Refused, Reply as Answered};
use fader_services::service::{Sight, Trouble};
use fader_services::{Call, ViewError};

use super::context::{name_of, reads_keys, unreadable};
use super::pending::Work;
use super::showing::{Item, Showing};
use super::thread::ChainThread;

impl ChainThread {
    /// Begins a read.
    pub(super) fn read(&mut self, work: Box<Work>, level: Level) {
        if matches!(level, Level::Eventual { .. } | Level::Barrier) {
            return self.read_tentative(work, level);
        }
        let scope = match &*work {
            Work::Read { call, .. } => self.scope(call, work.following().is_some()),
            _ => Ok(Scope::All),
        };
        let asked = scope.and_then(|scope| Ok((scope, self.awaited(&work)?)));
        self.ask_replica(work, level, asked);
    }

    /// Begins a read of what `scope` names that waits for what its session has seen.
    pub(super) fn ask_replica(
        &mut self,
        work: Box<Work>,
        level: Level,
        asked: Result<(Scope, Option<Session>), ViewError>,
    ) {
        let (scope, session) = match asked {
            Ok(asked) => asked,
            Err(error) => return work.show_trouble(Trouble::Unreadable(error), None),
        };
        let token = self.desk.put(work);
        self.step(Input::Read {
            token,
            scope,
            level,
            session,
        });
    }

    /// What a request looks at. With the collection's entry in the catalog: where that is clean,
    /// the collection is the same before and after all that is not committed. Where it is not
    /// there, a session may know better, and name items of it.
    fn scope(&self, call: &Call, is_followed: bool) -> Result<Scope, ViewError> {
        let Some(name) = name_of(call).filter(|_| reads_keys(call)) else {
            return Ok(Scope::All);
        };
        let mut keys = vec![catalog::name_key(name)];
        let collection = match call.demand.collection {
            None => self.collection(call)?,
            known => known,
        };
        if collection.is_none() && is_followed {
            return Ok(Scope::All);
        }
        if let Some(collection) = collection {
            match call.request.sight(collection) {
                Sight::Register(key) => keys.push(key),
                Sight::Rows(rows) => keys.extend(rows),
                Sight::Registers(..) => return Ok(Scope::All),
            }
        }
        Ok(Scope::Keys(keys))
    }

    /// Answers a read, in the step of the reply.
    pub(super) fn tell(&self, work: Box<Work>, reply: &Reply, showing: Showing) {
        match self.follow(&work, reply) {
            Ok(followed) => work.show(showing, followed),
            Err(error) => work.show_trouble(Trouble::Unreadable(error), None),
        }
    }

    /// Answers a read with what stands in its way, in the step of the reply.
    pub(super) fn tell_trouble(&mut self, token: Token, reply: &Reply, trouble: Trouble) {
        let work = self.desk.take(token);
        match self.follow(&work, reply) {
            Ok(followed) => work.show_trouble(trouble, followed),
            Err(error) => work.show_trouble(Trouble::Unreadable(error), None),
        }
    }

    /// The answer at a commit id that is in the log and not applied yet, with what is told of it.
    fn answer_at(&self, at: EntryId, call: &Call) -> Result<(Answered, Receipt), Refused> {
        let view = self.replica.view_at(at, &**self.desk.snapshot());
        let answered = self.desk.answer(&*view, call)?;
        let item = Item::committed(&*view, call).map_err(unreadable(call))?;
        let receipt = item.map(|item| item.receipt(call));
        Ok((answered, receipt.unwrap_or_default()))
    }

    /// Answers a read with the state at the commit id `at`.
    pub(super) fn show(&mut self, token: Token, at: EntryId) {
        let work = self.desk.take(token);
        let showing = match &*work {
            Work::Read { call, .. } if self.desk.applied() < at => {
                Showing::Answered(Box::new(self.answer_at(at, call)))
            }
            _ => Showing::Snapshot(self.desk.snapshot().clone()),
        };
        // What is shown may be newer than what had to be.
        let at = at.max(self.desk.applied());
        self.tell(work, &Reply::Show { at }, showing);
    }
}
