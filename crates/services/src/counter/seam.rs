//! Counters as a service among others.

use std::time::Duration;

use bytes::Bytes;
use fader_chain::{Change, DecodeError, Reader};

use crate::counter::{
    Decided, MOVED, Refusal, Reply, Request, add, counter, create, delete, move_to, names, wait,
};
use crate::forward::wire::Wire;
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::request::Limits;
use crate::service::{
    Class, Context, Meaning, Outcome, Service, Sight, Target, Trouble, WAIT_MAX, Wait,
};
use crate::simpledb::metadata_key;
use crate::steps::{Step, Taken};
use crate::{CollectionId, Decision, Kind, Mode, Rule, View};

/// The service.
#[derive(Debug)]
pub enum Counter {}

impl Service for Counter {
    type Request = Request;
    type Reply = Reply;
    type Refusal = Refusal;
    type Limits = Limits;

    fn class(request: &Request) -> Class {
        match request {
            Request::Read(_) => Class::Keyed,
            _ => Class::Conditional,
        }
    }

    fn target(request: &Request) -> Target<'_> {
        let kind = Kind::Counter;
        match request {
            Request::Create(name) => Target::Create {
                kind,
                name,
                plain: true,
            },
            Request::Delete(name) => Target::Delete(kind, name),
            Request::Read(name)
            | Request::Add { name, .. }
            | Request::Wait { name, .. }
            | Request::Move { name, .. } => Target::Of(kind, name),
        }
    }

    fn towards(request: &Request) -> Option<(Kind, &str)> {
        match request {
            Request::Move { to, .. } => Some((Kind::Counter, to)),
            _ => None,
        }
    }

    fn sight(_request: &Request, collection: CollectionId) -> Sight {
        Sight::Rows(vec![metadata_key(collection)])
    }

    fn size(request: &Request) -> usize {
        let towards = Counter::towards(request).map_or(0, |(_, name)| name.len());
        let name = Counter::target(request).name();
        towards + name.map_or(0, |(_, name)| name.len())
    }

    fn patience(request: &Request) -> Duration {
        match request {
            Request::Wait { .. } => WAIT_MAX,
            _ => Duration::ZERO,
        }
    }

    fn effective_level(
        _mode: Option<Mode>,
        _of_collection: Option<DefaultConsistency>,
        consistency: &ConsistencyOptions,
        _request: &Request,
    ) -> Result<(Level, Option<Bound>), Refusal> {
        match consistency.level {
            Level::Default | Level::Strong => Ok((Level::Strong, None)),
            _ => Err(Rule::StrongOnly.into()),
        }
    }

    fn decide(
        view: &dyn View,
        context: &Context<'_, Limits>,
        request: &Request,
    ) -> Result<Decision<Outcome<Self>>, Wait> {
        Ok(decision(match request {
            Request::Create(name) => create(view, context.account, name),
            Request::Delete(name) => delete(view, context.account, name),
            Request::Add { by, limit, .. } => add(view, context, *by, *limit),
            Request::Wait {
                least, until_ms, ..
            } => wait(view, context, *least, *until_ms)?,
            Request::Move { by, limit, .. } => move_to(view, context, *by, *limit),
            Request::Read(_) => Self::answer(view, context, request).map(|it| (it, Vec::new())),
        }))
    }

    fn decide_names(
        view: &dyn View,
        context: &Context<'_, Limits>,
        chains: u32,
        request: &Request,
    ) -> Option<Decision<Outcome<Self>>> {
        names(view, context.account, chains, request).map(decision)
    }

    fn answer(view: &dyn View, context: &Context<'_, Limits>, _: &Request) -> Outcome<Self> {
        counter(view, context).map(|(_, value)| Reply::Value(value))
    }

    fn begun(reply: &Reply) -> Option<&Step> {
        match reply {
            Reply::Moving(step) => Some(step),
            _ => None,
        }
    }

    fn finished(reply: Reply, taken: &Taken) -> Outcome<Self> {
        match taken {
            Taken::Done(outcome) if outcome == MOVED => Ok(Reply::Done),
            Taken::Done(_) => Err(Refusal::NotMoved),
            // It was settled so long ago that only the counters can tell.
            Taken::Passed => Ok(reply),
        }
    }

    fn word(trouble: Trouble) -> Refusal {
        match trouble {
            Trouble::NoCollection => Refusal::NoCounter,
            other => Rule::of(other).map_or_else(Refusal::from, Refusal::from),
        }
    }

    fn meaning(refusal: &Refusal) -> Meaning {
        match refusal {
            Refusal::NoCounter => Meaning::NoCollection,
            Refusal::Failed(failure) => failure.meaning(),
            Refusal::Value(_) | Refusal::NotMoved | Refusal::Invalid(_) => Meaning::Final,
        }
    }

    fn depends_on_state(refusal: &Refusal) -> bool {
        !matches!(refusal, Refusal::Failed(_) | Refusal::Invalid(_))
    }

    fn keep(outcome: Result<&Reply, &Refusal>) -> Option<Bytes> {
        let mut kept = vec![u8::from(outcome.is_ok())];
        match outcome {
            Ok(reply) => reply.put(&mut kept),
            Err(refusal) if Self::depends_on_state(refusal) => refusal.put(&mut kept),
            Err(_) => return None,
        }
        Some(Bytes::from(kept))
    }

    fn kept(bytes: Bytes) -> Result<Outcome<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let outcome = match bool::read(&mut reader)? {
            true => Ok(Reply::read(&mut reader)?),
            false => Err(Refusal::read(&mut reader)?),
        };
        reader.end()?;
        Ok(outcome)
    }
}

fn decision(decided: Decided) -> Decision<Outcome<Counter>> {
    let (outcome, changes): (_, Vec<Change>) = match decided {
        Ok((reply, changes)) => (Ok(reply), changes),
        Err(refusal) => (Err(refusal), Vec::new()),
    };
    Decision { outcome, changes }
}
