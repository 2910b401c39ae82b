//! Reads on the chain thread: what a request looks at, and what is shown to it.

use fader_chain::{CorrelationId, EntryId, Input, Level, Reply, Scope, Session};
use fader_services::catalog;
use fader_services::level::ReplyMetadata;
use fader_services::request::{Refusal as Refused, Reply as Answered};
use fader_services::service::{Sight, Trouble};
use fader_services::{Call, ViewError};

use super::context::{name_of, reads_keys, unreadable};
use super::pending::PendingRequest;
use super::read_source::{Item, ReadSource};
use super::thread::ChainThread;

impl ChainThread {
    /// Begins a read.
    pub(super) fn read(&mut self, work: Box<PendingRequest>, level: Level) {
        if matches!(level, Level::Eventual { .. } | Level::Barrier) {
            return self.read_tentative(work, level);
        }
        let scope = match &*work {
            PendingRequest::Read { call, .. } => self.scope(call, work.context().is_some()),
            _ => Ok(Scope::All),
        };
        let asked = scope.and_then(|scope| Ok((scope, self.awaited(&work)?)));
        self.ask_replica(work, level, asked);
    }

    /// Begins a read of what `scope` names that waits for what its session has seen.
    pub(super) fn ask_replica(
        &mut self,
        work: Box<PendingRequest>,
        level: Level,
        asked: Result<(Scope, Option<Session>), ViewError>,
    ) {
        let (scope, session) = match asked {
            Ok(asked) => asked,
            Err(error) => return work.show_trouble(Trouble::Unreadable(error), None),
        };
        let token = self.requests.put(work);
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
        let collection = match call.consistency.collection {
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
    pub(super) fn tell(&self, work: Box<PendingRequest>, reply: &Reply, source: ReadSource) {
        match self.follow(&work, reply) {
            Ok(update) => work.show(source, update),
            Err(error) => work.show_trouble(Trouble::Unreadable(error), None),
        }
    }

    /// Answers a read with what stands in its way, in the step of the reply.
    pub(super) fn tell_trouble(&mut self, token: CorrelationId, reply: &Reply, trouble: Trouble) {
        let work = self.requests.take(token);
        match self.follow(&work, reply) {
            Ok(update) => work.show_trouble(trouble, update),
            Err(error) => work.show_trouble(Trouble::Unreadable(error), None),
        }
    }

    /// The answer at a commit id that is in the log and not applied yet, with what is told of it.
    fn answer_at(&self, at: EntryId, call: &Call) -> Result<(Answered, ReplyMetadata), Refused> {
        let view = self.replica.view_at(at, &**self.requests.snapshot());
        let answered = self.requests.answer(&*view, call)?;
        let item = Item::committed(&*view, call).map_err(unreadable(call))?;
        let metadata = item.map(|item| item.metadata(call));
        Ok((answered, metadata.unwrap_or_default()))
    }

    /// Answers a read with the state at the commit id `at`.
    pub(super) fn show(&mut self, token: CorrelationId, at: EntryId) {
        let work = self.requests.take(token);
        let source = match &*work {
            PendingRequest::Read { call, .. } if self.requests.applied() < at => {
                ReadSource::Answered(Box::new(self.answer_at(at, call)))
            }
            _ => ReadSource::Snapshot(self.requests.snapshot().clone()),
        };
        // What is shown may be newer than what had to be.
        let at = at.max(self.requests.applied());
        self.tell(work, &Reply::Show { at }, source);
    }
}
