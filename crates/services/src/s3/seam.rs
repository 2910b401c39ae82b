//! S3 as a service among others.

use bytes::Bytes;
use fader_chain::{DecodeError, ElementOp, Reader, Settled, Stamp};

use crate::forward::wire::Wire as _;
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::s3::command::{Command, GetObject, Request};
use crate::s3::error::{Code, Error};
use crate::s3::layout::Keys;
use crate::s3::limits::Limits;
use crate::s3::reply::Reply;
use crate::s3::rows::{Content, VersionId};
use crate::s3::{answer, decide, decide_names, tentative};
use crate::service::{
    Acceptance, Class, Context, Meaning, Outcome, Service, Sight, Target, Trouble, Wait,
};
use crate::simpledb::metadata_key;
use crate::steps::{Step, Taken};
use crate::{CollectionId, Decision, Kind, Mode, View, ViewError};

/// S3.
#[derive(Debug)]
pub enum S3 {}

const VERSION: u8 = 1;

impl Service for S3 {
    type Request = Request;
    type Reply = Reply;
    type Refusal = Error;
    type Limits = Limits;

    fn class(request: &Request) -> Class {
        match &request.command {
            Command::HeadBucket(_) | Command::GetSetting(_) | Command::GetObject(_) => Class::Keyed,
            command if command.is_write() => Class::Conditional,
            _ => Class::Scan,
        }
    }

    fn target(request: &Request) -> Target<'_> {
        let kind = Kind::Bucket;
        match &request.command {
            Command::CreateBucket(it) => Target::Create {
                kind,
                name: &it.bucket,
                plain: false,
            },
            // Whether it may be deleted its own chain knows (SB-7).
            command => match command.bucket() {
                Some(bucket) => Target::Of(kind, bucket),
                None => Target::System,
            },
        }
    }

    fn sight(request: &Request, collection: CollectionId) -> Sight {
        Sight::Rows(match &request.command {
            Command::HeadBucket(_) | Command::GetSetting(_) => vec![metadata_key(collection)],
            Command::GetObject(it) => rows_of(it, collection),
            _ => Vec::new(),
        })
    }

    fn size(request: &Request) -> usize {
        size_of(&request.command)
    }

    fn effective_level(
        mode: Option<Mode>,
        of_collection: Option<DefaultConsistency>,
        consistency: &ConsistencyOptions,
        request: &Request,
    ) -> Result<(Level, Option<Bound>), Error> {
        let is_write = request.command.is_write();
        match consistency.level {
            Level::Eventual { .. } if is_write => {
                let takes = mode.is_none_or(Mode::takes_eventual) && consistency.bound.is_none();
                let put = tentative::is_plain(request).filter(|_| takes);
                put.ok_or_else(tentative::refused)?;
                Ok((consistency.level, None))
            }
            _ if is_write && consistency.bound.is_some() => {
                let message = "A write cannot have a bound: it is not a read.";
                Err(Error::new(Code::InvalidArgument, message))
            }
            Level::Default if !is_write => {
                let mut preferred = consistency.preference.into_iter().chain(of_collection);
                Ok(preferred
                    .next()
                    .map_or((Level::Strong, None), |it| (it.level, it.bound)))
            }
            Level::Default => Ok((Level::Strong, None)),
            level => Ok((level, consistency.bound)),
        }
    }

    fn decide(
        view: &dyn View,
        context: &Context<'_, Limits>,
        request: &Request,
    ) -> Result<Decision<Outcome<Self>>, Wait> {
        Ok(decide(view, context, request))
    }

    fn decide_names(
        view: &dyn View,
        context: &Context<'_, Limits>,
        chains: u32,
        request: &Request,
    ) -> Option<Decision<Outcome<Self>>> {
        decide_names(view, context, chains, request)
    }

    fn answer(view: &dyn View, context: &Context<'_, Limits>, request: &Request) -> Outcome<Self> {
        answer(view, context, request)
    }

    fn begun(reply: &Reply) -> Option<&Step> {
        match reply {
            Reply::Ended(step) => Some(step),
            _ => None,
        }
    }

    fn finished(reply: Reply, _taken: &Taken) -> Outcome<Self> {
        Ok(match reply {
            Reply::Ended(_) => Reply::Done,
            reply => reply,
        })
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
        _stamp: Stamp,
    ) -> Result<Settled, ViewError> {
        tentative::settle(newest, limits, key, ops)
    }

    fn word(trouble: Trouble) -> Error {
        match trouble {
            Trouble::Unavailable(why) => Error::unavailable(why.reason, &why.to_string()),
            Trouble::NoCollection => Error::of(Code::NoSuchBucket),
            Trouble::Unreadable(error) => error.into(),
            other => Error::new(Code::InvalidArgument, other.sentence()),
        }
    }

    fn meaning(error: &Error) -> Meaning {
        match error.code {
            Code::NoSuchBucket if error.is_last() => Meaning::Final,
            Code::NoSuchBucket => Meaning::NoCollection,
            Code::InternalError => Meaning::Unreadable,
            _ => error.reason.map_or(Meaning::Final, Meaning::Later),
        }
    }

    fn depends_on_state(error: &Error) -> bool {
        error.code.depends_on_state()
    }

    fn keep(outcome: Result<&Reply, &Error>) -> Option<Bytes> {
        let mut kept = vec![VERSION, u8::from(outcome.is_ok())];
        match outcome {
            Ok(reply) => reply.put(&mut kept),
            Err(error) if error.code.depends_on_state() => error.put(&mut kept),
            Err(_) => return None,
        }
        Some(Bytes::from(kept))
    }

    fn kept(bytes: Bytes) -> Result<Outcome<Self>, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return Err(DecodeError::new("an outcome's version"));
        }
        let outcome = Result::read(&mut reader)?;
        reader.end()?;
        Ok(outcome)
    }
}

/// The rows that a read of an object looks at. Those of its content change with them, in one entry.
fn rows_of(get: &GetObject, collection: CollectionId) -> Vec<Bytes> {
    let keys = Keys(collection);
    let mut rows = vec![metadata_key(collection), keys.current(&get.key)];
    match get.version {
        None => {}
        Some(VersionId::Null) => rows.push(keys.null(&get.key)),
        Some(VersionId::Named((number, _))) => rows.push(keys.version(&get.key, number)),
    }
    rows
}

/// Bytes that a command holds: those of its texts and of the content that it carries.
fn size_of(command: &Command) -> usize {
    let content = |content: &Content| match content {
        Content::Inline(bytes) => bytes.len(),
        Content::Blocks(blocks) => size_of_val(&**blocks),
    };
    let pairs = |pairs: &[(String, String)]| -> usize {
        let sizes = pairs.iter().map(|(name, value)| name.len() + value.len());
        sizes.sum()
    };
    let bucket = command.bucket().map_or(0, str::len);
    bucket
        + match command {
            Command::PutObject(it) => {
                let metadata = pairs(&it.metadata.headers) + pairs(&it.metadata.user);
                it.key.len() + metadata + pairs(&it.metadata.tags) + content(&it.content)
            }
            Command::PutPart(it) => it.of.key.len() + content(&it.content),
            Command::CompleteUpload(it) => {
                let parts = it.parts.iter().map(|part| part.etag.len() + 64);
                it.of.key.len() + parts.sum::<usize>()
            }
            Command::DeleteObjects(it) => {
                let keys = it.objects.iter().map(|object| object.key.len() + 64);
                keys.sum()
            }
            Command::PutSetting(_) => 4096,
            _ => 1024,
        }
}
