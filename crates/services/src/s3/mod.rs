//! Amazon S3 (2006-03-01): what its requests mean for the index of a bucket.
//!
//! ```text
//! request ─▶ decide ─▶ reply + changes        bytes of objects ─▶ blocks (not here)
//! request ─▶ answer ─▶ reply                  index of a bucket ─▶ rows that name blocks by id
//! ```
//!
//! The invariants SL, SO, SA, SB, SM, SC, SS and SX are where they are kept: `layout`, `objects`,
//! `access`, `buckets`, `fence`, `multipart`, `conditions`, `list`, `lifecycle`.
//!
//! Deliberately absent: wire formats, signatures, checksums' computation (gateway); bytes, leases
//! and the clocks of collectors (node). Also time and randomness (they come in with the request).

mod access;
mod acl;
pub(crate) mod bucket;
mod buckets;
pub mod command;
pub mod conditions;
mod error;
pub(crate) mod fence;
pub(crate) mod layout;
mod lifecycle;
mod limits;
mod list;
mod multipart;
mod names;
mod objects;
mod pieces;
pub mod reply;
pub mod rows;
mod seam;
pub mod settings;
pub(crate) mod tentative;
mod upkeep;
mod versions;
mod wire;

pub use access::{Action, Caller, is_condition_key};
pub use command::{Command, Request};
pub use error::{Code, Condition, Error};
pub use lifecycle::abortion;
pub use limits::Limits;
pub use list::{read_upload, show_upload};
pub use reply::Reply;
pub use seam::S3;

use fader_chain::{Change, Guards};

use crate::s3::bucket::Asked;
use crate::service::Context;
use crate::{Decision, Mode, View, ViewError};

/// What a decision comes to.
type Decided = Result<(Reply, Vec<Change>), Error>;

/// Decides a request that may change state, on the newest state of the log.
pub fn decide(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
) -> Decision<Result<Reply, Error>> {
    decision(decided(view, context, request))
}

/// Decides what a request does to the names of buckets, where those are on `chains` other chains.
fn decide_names(
    view: &dyn View,
    context: &Context<'_, Limits>,
    chains: u32,
    request: &Request,
) -> Option<Decision<Result<Reply, Error>>> {
    let asked = Asked {
        view,
        context,
        request,
    };
    match &request.command {
        Command::CreateBucket(it) => buckets::enter(asked, it, chains).map(decision),
        _ => None,
    }
}

fn decision(decided: Decided) -> Decision<Result<Reply, Error>> {
    let (outcome, changes) = match decided {
        Ok((reply, changes)) => (Ok(reply), changes),
        Err(error) => (Err(error), Vec::new()),
    };
    Decision { outcome, changes }
}

fn decided(view: &dyn View, context: &Context<'_, Limits>, request: &Request) -> Decided {
    let asked = Asked {
        view,
        context,
        request,
    };
    match &request.command {
        Command::CreateBucket(it) => buckets::create(asked, it),
        Command::DeleteBucket(it) => buckets::delete(asked, it),
        Command::PutSetting(it) => buckets::put(asked, it),
        Command::DeleteSetting(it) => buckets::remove(asked, it),
        Command::PutObject(it) => objects::put(asked, it),
        Command::DeleteObject(it) => objects::delete(asked, &it.object),
        Command::DeleteObjects(it) => objects::delete_several(asked, it),
        Command::PutObjectTags(it) => objects::tag(asked, it),
        Command::PutObjectAcl(it) => objects::set_acl(asked, it),
        Command::CreateUpload(it) => multipart::create(asked, it),
        Command::PutPart(it) => multipart::put_part(asked, it),
        Command::CompleteUpload(it) => multipart::complete(asked, it),
        Command::AbortUpload(it) => multipart::abort(asked, it),
        Command::Fence(it) => fence::fence(view, context, it),
        Command::CloseAttempt(it) => fence::close(view, context, it),
        Command::EndAttempt(it) => fence::end_attempt(view, context, it),
        Command::MoveNote(it) => fence::move_note(view, context, it),
        Command::DropGarbage(it) => fence::drop_garbage(view, context, it),
        _ => answer(view, context, request).map(|reply| (reply, Vec::new())),
    }
}

/// Answers a request that changes nothing, on a committed view.
///
/// # Errors
/// [`Error`] as S3 words it; a request that writes is refused as an internal failure.
pub fn answer(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
) -> Result<Reply, Error> {
    let asked = Asked {
        view,
        context,
        request,
    };
    match &request.command {
        Command::HeadBucket(it) => buckets::head(asked, it),
        Command::ListBuckets(it) => buckets::list(asked, it),
        Command::GetSetting(it) => buckets::get(asked, it),
        Command::GetObject(it) => objects::get(asked, it),
        Command::ListParts(it) => multipart::list(asked, it),
        Command::ListUploads(it) => list::uploads(asked, it),
        Command::ListObjects(it) => list::objects(asked, it),
        Command::ListVersions(it) => versions::list(asked, it),
        Command::ListGarbage(it) => fence::list(view, context, it),
        _ => Err(Error::new(
            Code::InternalError,
            "A write was sent where only reads are answered.",
        )),
    }
}

/// What changes when the first bucket of a chain that has work to do at `now_ms` does some of it.
/// It looks at `batch` rows at most. Nothing when there is none. Asked again it goes on.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn upkeep(
    view: &dyn View,
    limits: &Limits,
    guards: &Guards,
    now_ms: u64,
    batch: usize,
) -> Result<Vec<Change>, ViewError> {
    let terms = bucket::Terms {
        view,
        limits,
        guards,
        now_ms,
        mode: Mode::Strong,
    };
    upkeep::upkeep(terms, batch)
}

#[cfg(test)]
mod tests;
