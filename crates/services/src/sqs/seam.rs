//! SQS as a service among others.

use std::time::Duration;

use bytes::Bytes;
use fader_chain::{DecodeError, ElementOp, Reader, Settled, Stamp};

use crate::forward::wire::Wire as _;
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::service::{
    Acceptance, Class, Context, Meaning, Outcome, Service, Sight, Target, Trouble, Wait,
};
use crate::simpledb::metadata_key;
use crate::sqs::command::{Command, Request};
use crate::sqs::error::{Code, Error};
use crate::sqs::limits::Limits;
use crate::sqs::reply::Reply;
use crate::sqs::settings::name_in;
use crate::sqs::{answer, decide, layout, queues, tentative};
use crate::steps::{Step, Taken};
use crate::{CollectionId, Decision, Kind, Mode, View, ViewError};

/// SQS.
#[derive(Debug)]
pub enum Sqs {}

const VERSION: u8 = 1;

impl Service for Sqs {
    type Request = Request;
    type Reply = Reply;
    type Refusal = Error;
    type Limits = Limits;

    fn class(request: &Request) -> Class {
        match &request.command {
            Command::SendMessage(_) => Class::Write,
            Command::GetQueueUrl(_) | Command::ListQueueTags(_) | Command::ShowReceived(_) => {
                Class::Keyed
            }
            command if command.is_write() => Class::Conditional,
            _ => Class::Scan,
        }
    }

    fn target(request: &Request) -> Target<'_> {
        let kind = Kind::Queue;
        match &request.command {
            Command::CreateQueue(it) => Target::Create {
                kind,
                name: &it.queue,
                plain: false,
            },
            Command::DeleteQueue(it) => Target::Delete(kind, &it.queue),
            command => match command.queue() {
                Some(queue) => Target::Of(kind, queue),
                None => Target::System,
            },
        }
    }

    /// The dead-letter queue of a redrive policy, and where a move task goes to.
    fn towards(request: &Request) -> Option<(Kind, &str)> {
        let attributes = match &request.command {
            Command::CreateQueue(it) => &it.attributes,
            Command::SetQueueAttributes(it) => &it.attributes,
            Command::StartMessageMoveTask(it) => {
                return it.destination.as_deref().map(|name| (Kind::Queue, name));
            }
            _ => return None,
        };
        let policy = attributes.iter().find(|(name, _)| name == "RedrivePolicy");
        let name = arn_in(&policy?.1).and_then(name_in)?;
        Some((Kind::Queue, name))
    }

    fn sight(request: &Request, collection: CollectionId) -> Sight {
        match &request.command {
            Command::GetQueueUrl(_) | Command::ListQueueTags(_) => Sight::Rows(vec![
                metadata_key(collection),
                layout::counters_key(collection),
            ]),
            Command::ShowReceived(it) => Sight::Rows(it.bodies()),
            _ => Sight::Rows(Vec::new()),
        }
    }

    fn size(request: &Request) -> usize {
        request.size()
    }

    fn patience(request: &Request) -> Duration {
        match &request.command {
            // The longest poll: what the queue says is known where it is decided.
            Command::ReceiveMessage(_) => Duration::from_secs(20),
            _ => Duration::ZERO,
        }
    }

    fn effective_level(
        mode: Option<Mode>,
        of_collection: Option<DefaultConsistency>,
        consistency: &ConsistencyOptions,
        request: &Request,
    ) -> Result<(Level, Option<Bound>), Error> {
        let is_send = matches!(&request.command, Command::SendMessage(it)
            if !it.queue.ends_with(".fifo"));
        let takes = is_send && mode.is_none_or(Mode::takes_eventual);
        match consistency.level {
            Level::Strong | Level::Barrier => Ok((Level::Strong, None)),
            Level::Eventual { .. } if !takes || consistency.bound.is_some() => {
                Err(tentative::refused())
            }
            Level::Eventual { .. } => Ok((consistency.level, None)),
            Level::Default => {
                let preferred = consistency.preference.into_iter().chain(of_collection);
                let mut eventual = preferred
                    .filter(|_| takes && mode.is_some())
                    .map(|it| it.level);
                let level = eventual.find(|level| matches!(level, Level::Eventual { .. }));
                Ok((level.unwrap_or(Level::Strong), None))
            }
        }
    }

    fn decide(
        view: &dyn View,
        context: &Context<'_, Limits>,
        request: &Request,
    ) -> Result<Decision<Outcome<Self>>, Wait> {
        decide(view, context, request).map(decision)
    }

    fn decide_names(
        view: &dyn View,
        context: &Context<'_, Limits>,
        chains: u32,
        request: &Request,
    ) -> Option<Decision<Outcome<Self>>> {
        let (queue, created) = match &request.command {
            Command::CreateQueue(it) => (it.queue.as_str(), Some(it)),
            Command::DeleteQueue(it) => (it.queue.as_str(), None),
            _ => return None,
        };
        queues::names(view, context, chains, request, queue, created).map(decision)
    }

    fn answer(view: &dyn View, context: &Context<'_, Limits>, request: &Request) -> Outcome<Self> {
        answer(view, context, request)
    }

    fn accept(
        view: &dyn View,
        context: &Context<'_, Limits>,
        request: &Request,
    ) -> Result<Acceptance<Reply>, Error> {
        tentative::accept(view, context, request)
    }

    fn settle(
        newest: &dyn View,
        limits: &Limits,
        key: &Bytes,
        ops: Vec<ElementOp>,
        stamp: Stamp,
    ) -> Result<Settled, ViewError> {
        tentative::settle(newest, limits, key, &ops, stamp)
    }

    fn rest(reply: &Reply) -> Option<Request> {
        match reply {
            Reply::Received(received) => {
                Some(Request::of_node(Command::ShowReceived(received.clone())))
            }
            _ => None,
        }
    }

    fn begun(reply: &Reply) -> Option<&Step> {
        match reply {
            Reply::Received(received) => received.step.as_ref(),
            _ => None,
        }
    }

    /// A receive does not wait for what came of its dead letters: it has none of them.
    fn finished(reply: Reply, _taken: &Taken) -> Outcome<Self> {
        Ok(match reply {
            Reply::Received(received) => Reply::Received(Box::new(crate::sqs::Received {
                step: None,
                ..*received
            })),
            reply => reply,
        })
    }

    fn word(trouble: Trouble) -> Error {
        match trouble {
            Trouble::Unavailable(why) => Error::unavailable(why.reason, &why.to_string()),
            Trouble::NoCollection => Error::no_such_queue(),
            Trouble::Unreadable(error) => error.into(),
            other => Error::new(Code::InvalidParameterValue, other.sentence()),
        }
    }

    fn meaning(error: &Error) -> Meaning {
        match error.code {
            Code::QueueDoesNotExist => Meaning::NoCollection,
            Code::InternalError => Meaning::Unreadable,
            _ => error.reason.map_or(Meaning::Final, Meaning::Later),
        }
    }

    fn depends_on_state(error: &Error) -> bool {
        error.depends_on_state()
    }

    fn keep(outcome: Result<&Reply, &Error>) -> Option<Bytes> {
        let mut kept = vec![VERSION, u8::from(outcome.is_ok())];
        match outcome {
            Ok(reply) => reply.put(&mut kept),
            Err(error) if error.depends_on_state() => error.put(&mut kept),
            Err(_) => return None,
        }
        Some(Bytes::from(kept))
    }

    fn kept(bytes: Bytes) -> Result<Outcome<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return Err(DecodeError::new("an outcome's version"));
        }
        let outcome = match bool::read(&mut reader)? {
            true => Ok(Reply::read(&mut reader)?),
            false => Err(Error::read(&mut reader)?),
        };
        reader.end()?;
        Ok(outcome)
    }
}

/// The ARN in the text of a redrive policy, with any other content: it is judged when it is set.
fn arn_in(policy: &str) -> Option<&str> {
    let from = policy.find("arn:aws:sqs:")?;
    let end = policy[from..].find('"')?;
    Some(&policy[from..from + end])
}

fn decision(decided: Result<(Reply, Vec<fader_chain::Change>), Error>) -> Decision<Outcome<Sqs>> {
    let (outcome, changes) = match decided {
        Ok((reply, changes)) => (Ok(reply), changes),
        Err(error) => (Err(error), Vec::new()),
    };
    Decision { outcome, changes }
}
