//! Exports of domains to buckets (`simpledbv2`): what is known of each, and whose turn it is to go
//! on with it. The bytes go another way: a process that has the domain writes them to the bucket.
//!
//! ```text
//! Start ─▶ pending ── Claim ─▶ running, attempt n, until its lease is over ── End ─▶ ended
//!                       ▲                  │ Beat: the lease is longer
//!                       └── lease over ────┘ another process claims attempt n + 1
//! ```
//!
//! ```text
//! system := 'X' text(account) id:u128be                      an export
//!         | 'p' chain:u32be collection:u64be id:u128be       one that has not ended: its account
//! ```
//!
//! Invariants:
//! - EXPORT-1 an export is of one collection. That is not deleted before the export has ended.
//! - EXPORT-2 an attempt ends an export only if no other was claimed since.
//! - EXPORT-3 the first 6 bytes of an id are the milliseconds at which it was asked for. So keys of
//!   an account are in the order of time.
//!
//! Deliberately absent: reading domains, objects, and the clock of the lease's holder (gateway).

mod error;
mod rows;
mod seam;
mod start;

pub use error::{Code, Error};
pub(crate) use rows::is_under_way;
pub use rows::{Export, Finding, Place, State, arn, id_text};
pub use seam::Exports;

use bytes::Bytes;
use fader_chain::{ChainId, Change};

use crate::catalog::{AccountId, Name};
use crate::key::KeyRange;
use crate::service::Context;
use crate::simpledb::{open_token, seal_token};
use crate::sqs::{wire_choice, wire_fields};
use crate::{Direction, View};

use rows::{exports_of, get, id_of_arn, put, unfinished_of, waiting_key};

/// Rows of unfinished exports of a chain that one [`Command::Due`] looks at. No more are claimed at
/// once than there are processes.
const DUE_ROWS: usize = 256;

/// The limits of exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Exports of a domain that begin within a day.
    pub of_domain: usize,
    /// Exports of an account that begin within a day.
    pub of_account: usize,
    /// The length of that day, in milliseconds.
    pub day_ms: u64,
    /// How long a client's token stands for its request, in milliseconds.
    pub token_ms: u64,
    /// How long an export is known, in milliseconds.
    pub kept_ms: u64,
    /// Exports of one page.
    pub page: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const HOUR: u64 = 3_600_000;
        Limits {
            of_domain: 5,
            of_account: 25,
            day_ms: 24 * HOUR,
            token_ms: 8 * HOUR,
            kept_ms: 90 * 24 * HOUR,
            page: 100,
        }
    }
}

/// Begins an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Random, drawn where the request arrived: the id comes from it.
    pub seed: u128,
    /// The client's word for the request, under which it may be repeated.
    pub token: String,
    /// The domain.
    pub domain: String,
    /// The region that the request names.
    pub region: String,
    /// Where the objects go.
    pub place: Place,
}
wire_fields!(Start {
    seed,
    token,
    domain,
    region,
    place
});

/// Lists exports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Of this domain alone.
    pub domain: Option<String>,
    /// So many at most.
    pub count: Option<usize>,
    /// Where a page ended.
    pub next: Option<Bytes>,
}
wire_fields!(List {
    domain,
    count,
    next
});

/// An attempt to carry an export out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Whose export it is.
    pub account: AccountId,
    /// Its id.
    pub id: u128,
    /// The attempt, from 1.
    pub number: u32,
}
wire_fields!(Attempt {
    account,
    id,
    number
});

/// Claims the attempt, or lengthens its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The attempt.
    pub attempt: Attempt,
    /// The lease from now on, in milliseconds.
    pub lease_ms: u64,
}
wire_fields!(Hold { attempt, lease_ms });

/// Ends an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The attempt that did it.
    pub attempt: Attempt,
    /// What came of it.
    pub finding: Finding,
}
wire_fields!(End { attempt, finding });

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins an export.
    Start(Start),
    /// Tells of one, by its ARN.
    Get(String),
    /// Lists them.
    List(List),
    /// Tells of some that nothing works on, of domains on these chains.
    Due(Vec<ChainId>),
    /// Claims one.
    Claim(Hold),
    /// Keeps one.
    Beat(Hold),
    /// Ends one.
    End(End),
}
wire_choice!(Command, "a command about exports", {
    0 => Start(it), 1 => Get(it), 2 => List(it), 3 => Due(it), 4 => Claim(it), 5 => Beat(it),
    6 => End(it),
});

impl Command {
    /// Whether it may change state.
    pub fn is_write(&self) -> bool {
        !matches!(self, Command::Get(_) | Command::List(_) | Command::Due(_))
    }
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An export.
    Export(Box<Export>),
    /// Exports, and where the page ended if more follow.
    Page((Vec<Export>, Option<Bytes>)),
    /// An export that may be claimed, with its account, and the attempt that is next.
    Due(Option<(AccountId, Box<Export>)>),
    /// It was done.
    Done,
}
wire_choice!(Reply, "a reply about exports", {
    0 => Export(it), 1 => Page(it), 2 => Due(it), 3 => Done,
});

type Decided = Result<(Reply, Vec<Change>), Error>;

/// Decides a command that may change state, on the newest state of the system chain.
pub(crate) fn decide(view: &dyn View, context: &Context<'_, Limits>, command: &Command) -> Decided {
    match command {
        Command::Start(it) => start::start(view, context, it),
        Command::Claim(it) => claim(view, context.now_ms, it),
        Command::Beat(it) => beat(view, context.now_ms, it),
        Command::End(it) => end(view, it),
        _ => answer(view, context, command).map(|reply| (reply, Vec::new())),
    }
}

/// Answers one that changes nothing.
pub(crate) fn answer(
    view: &dyn View,
    context: &Context<'_, Limits>,
    command: &Command,
) -> Result<Reply, Error> {
    match command {
        Command::Get(arn) => {
            let id = id_of_arn(arn, context.account)?;
            let found = get(view, context.account, id)?;
            let is_it =
                |it: &Export| rows::arn(context.account, it) == *arn && is_known(it, context);
            let export = found.filter(is_it).ok_or_else(Error::no_such_export)?;
            Ok(Reply::Export(Box::new(export)))
        }
        Command::List(it) => list(view, context, it),
        Command::Due(chains) => due(view, context.now_ms, chains),
        _ => Err(Error::new(
            Code::InternalFailure,
            "A write was sent where only reads are answered.",
        )),
    }
}

fn is_known(export: &Export, context: &Context<'_, Limits>) -> bool {
    context.now_ms.saturating_sub(context.limits.kept_ms) <= export.requested_ms
}

/// A page of exports, the oldest first.
fn list(view: &dyn View, context: &Context<'_, Limits>, list: &List) -> Result<Reply, Error> {
    let page = context.limits.page;
    let count = list.count.unwrap_or(page);
    if !(1..=page).contains(&count) {
        let message = format!("maxResults must be between 1 and {page}.");
        return Err(Error::new(Code::InvalidParameterValue, message));
    }
    if let Some(domain) = &list.domain {
        let name = Name::domain(context.account, domain);
        start::domain_at(view, name)?.ok_or_else(Error::no_such_domain)?;
    }
    let text = list.domain.as_deref().unwrap_or_default();
    let after = match &list.next {
        None => {
            let known = context.now_ms.saturating_sub(context.limits.kept_ms);
            u128::from(known) << rows::TIME_SHIFT
        }
        Some(token) => {
            let at = open_token(token, context.account, text.as_bytes());
            let at = at.and_then(|at| Some(u128::from_be_bytes(at.as_ref().try_into().ok()?)));
            at.ok_or_else(Error::invalid_next_token)?.saturating_add(1)
        }
    };
    let mut found = Vec::new();
    let KeyRange { start, end } = exports_of(context.account, after);
    for pair in view.scan(&start, &end, Direction::Forward) {
        let export = rows::decode(pair?.1)?;
        if list.domain.as_ref().is_none_or(|it| *it == export.domain) {
            found.push(export);
        }
        if count < found.len() {
            break;
        }
    }
    let has_more = count < found.len();
    found.truncate(count);
    let next = found
        .last()
        .filter(|_| has_more)
        .map(|last| seal_token(context.account, text.as_bytes(), &last.id.to_be_bytes()));
    Ok(Reply::Page((found, next)))
}

/// The first export of these chains that may be claimed.
fn due(view: &dyn View, now_ms: u64, chains: &[ChainId]) -> Result<Reply, Error> {
    for chain in chains {
        let KeyRange { start, end } = unfinished_of(*chain);
        for pair in view.scan(&start, &end, Direction::Forward).take(DUE_ROWS) {
            let (key, account) = pair?;
            let account = rows::account(&account)?;
            let found = get(view, &account, rows::id_of(&key)?)?;
            if let Some(export) = found.filter(|it| it.is_free(now_ms)) {
                return Ok(Reply::Due(Some((account, Box::new(export)))));
            }
        }
    }
    Ok(Reply::Due(None))
}

/// An export that has not ended, if the attempt has a turn at it.
fn unended(
    view: &dyn View,
    attempt: &Attempt,
    turn: impl Fn(&Export) -> bool,
) -> Result<Export, Error> {
    let export = get(view, &attempt.account, attempt.id)?;
    let export = export.filter(|it| !it.state.has_ended() && turn(it));
    export.ok_or_else(Error::not_yours)
}

/// Claims the next attempt of an export whose lease is over.
fn claim(view: &dyn View, now_ms: u64, hold: &Hold) -> Decided {
    let attempt = &hold.attempt;
    let is_next = |it: &Export| it.is_free(now_ms) && attempt.number == it.attempt + 1;
    let export = unended(view, attempt, is_next)?;
    let claimed = Export {
        state: State::Running,
        attempt: attempt.number,
        lease_ms: now_ms.saturating_add(hold.lease_ms),
        ..export
    };
    let change = put(&attempt.account, &claimed);
    Ok((Reply::Export(Box::new(claimed)), vec![change]))
}

/// Lengthens the lease of an attempt.
fn beat(view: &dyn View, now_ms: u64, hold: &Hold) -> Decided {
    let attempt = &hold.attempt;
    let export = unended(view, attempt, |it| it.attempt == attempt.number)?;
    let kept = Export {
        lease_ms: now_ms.saturating_add(hold.lease_ms),
        ..export
    };
    Ok((Reply::Done, vec![put(&attempt.account, &kept)]))
}

/// Ends an export (EXPORT-2). Repeated it changes nothing.
fn end(view: &dyn View, end: &End) -> Decided {
    let attempt = &end.attempt;
    let export = unended(view, attempt, |it| it.attempt == attempt.number)?;
    let ended = Export {
        state: State::Ended(end.finding.clone()),
        lease_ms: 0,
        ..export
    };
    let changes = vec![
        put(&attempt.account, &ended),
        Change::Remove {
            key: waiting_key(ended.chain, ended.collection, ended.id),
        },
    ];
    Ok((Reply::Done, changes))
}

#[cfg(test)]
mod tests;
