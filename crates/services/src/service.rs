//! What a service is to those who carry its requests: the seam between `services` and `node`.
//!
//! A node asks four things of a request. What it does ([`Class`]), which collection it is about
//! ([`Target`]), which of its rows it looks at ([`Sight`]), and at which level it may run. Then it
//! has it decided or answered. It never looks inside: `request` has the closed enums that it
//! carries.
//!
//! Invariants:
//! - everything here is a function of its arguments: no clock, no randomness, no state.
//! - `class`, `target` and `sight` depend on the request alone, so that every node of a
//!   cluster routes it the same way.

use std::time::Duration;

use bytes::Bytes;
use fader_chain::{
    ALL_GUARDS, Accepted, ChainId, DecodeError, ElementOp, Guards, Register, RequestId, Settled,
    Stamp,
};

use crate::catalog::AccountId;
use crate::kind::Kind;
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level, show_name};
use crate::request::{Refusal, Reply};
use crate::steps::{Step, Taken};
use crate::{
    CollectionId, Decision, Inconsistency, Mode, PageBudget, Reason, Unavailable, UnlimitedBudget,
    View, ViewError,
};

/// How far ahead the deadline of a [`Wait`] may be: AWS's longest poll is 20 s.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// What a request does, as far as its way goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It may change state.
    Write,
    /// It may change state, and what it finds decides whether.
    Conditional,
    /// It changes nothing and looks at a few keys, which [`Sight`] names.
    Keyed,
    /// It changes nothing, and how long it takes depends on what there is.
    Scan,
}

impl Class {
    /// Whether it may change state: then it is decided, else answered.
    pub fn is_write(self) -> bool {
        matches!(self, Class::Write | Class::Conditional)
    }
}

/// Which collection a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// None: it is for the system chain.
    System,
    /// The one of this name, on its chain.
    Of(Kind, &'a str),
    /// The one of this name, which it creates unless it is there. `plain`: any that is there will
    /// do, without regard to its properties.
    Create {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: &'a str,
        /// Whether nothing is asked of one that is there already.
        plain: bool,
    },
    /// The one of this name, which it deletes.
    Delete(Kind, &'a str),
}

impl<'a> Target<'a> {
    /// The kind and the name, if there are any.
    pub fn name(self) -> Option<(Kind, &'a str)> {
        match self {
            Target::System => None,
            Target::Of(kind, name) | Target::Delete(kind, name) => Some((kind, name)),
            Target::Create { kind, name, .. } => Some((kind, name)),
        }
    }
}

/// Which rows of its collection a request looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// One register, which eventual operations may change.
    Register(Bytes),
    /// The registers from one key to another, with what derives from them.
    Registers(Bytes, Bytes),
    /// Of a keyed read these rows, which have no registers; of any other request none in
    /// particular.
    Rows(Vec<Bytes>),
}

/// What a decision or an answer knows beside the view.
pub struct Context<'a, L> {
    /// Who asks.
    pub account: &'a AccountId,
    /// The collection the request names, as the catalog knows it; `None` when it knows none, or the
    /// request names none.
    pub collection: Option<CollectionId>,
    /// The mode in force for it; strong when there is none.
    pub mode: Mode,
    /// By how many items of it the view shows more, or fewer, than are committed
    /// ([`Tentative::items`](crate::Tentative)); 0 on a view without unsettled operations.
    pub unsettled_items: i64,
    /// Milliseconds since 1970, settled once by the member that decides.
    pub now_ms: u64,
    /// The limits in force.
    pub limits: &'a L,
    /// When to end a page.
    pub pace: &'a dyn PageBudget,
    /// The chain that decides.
    pub chain: ChainId,
    /// Where the collection is that the request names beside its target
    /// ([`Service::towards`]); `None` when it names none, or there is none.
    pub towards: Option<Place>,
    /// The guards of the protocol, for steps that are begun and taken.
    pub guards: &'a Guards,
}

/// Where a collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its chain.
    pub chain: ChainId,
    /// Its id.
    pub collection: CollectionId,
}

impl<L> Clone for Context<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Context<'_, L> {}

impl<'a, L> Context<'a, L> {
    /// What is known of a request that names no collection, on a cluster of one chain.
    pub fn new(account: &'a AccountId, limits: &'a L) -> Self {
        Context {
            account,
            collection: None,
            mode: Mode::Strong,
            unsettled_items: 0,
            now_ms: 0,
            limits,
            pace: &UnlimitedBudget,
            chain: ChainId::SYSTEM,
            towards: None,
            guards: &ALL_GUARDS,
        }
    }

    /// The same with other limits: those of one service instead of all.
    pub fn under<M>(&self, limits: &'a M) -> Context<'a, M> {
        Context {
            account: self.account,
            collection: self.collection,
            mode: self.mode,
            unsettled_items: self.unsettled_items,
            now_ms: self.now_ms,
            limits,
            pace: self.pace,
            chain: self.chain,
            towards: self.towards,
            guards: self.guards,
        }
    }
}

/// A decision that cannot be made yet. It is made again when an entry touched the collection, and
/// at the latest at the deadline, when it may not wait any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The deadline, in milliseconds since 1970; at most [`WAIT_MAX`] from now.
    pub until_ms: u64,
    /// What it waits for, as a number of the service's own. Waiters of one collection with the same
    /// number are served in order; where the first waits again so would the others.
    pub alike: u64,
    /// When the first of those who wait for the same is decided again though nothing changed, in
    /// milliseconds since 1970: something is due then.
    pub wake_ms: Option<u64>,
}

/// An eventual write that may be stamped.
#[derive(Clone, Debug, PartialEq)]
pub struct Acceptance<R> {
    /// The reply, when all operations have their W.
    pub answered: R,
    /// One operation for each register, in the order in which the request first names them: the
    /// parts of its name, from 0 (D19).
    pub writes: Vec<Accepted>,
}

/// What [`Trouble::NameTooFar`] says.
pub(crate) const NAME_TOO_FAR: &str = "The number of the request's name is more than 1048576 above \
     the greatest that its client has used, or above 9223372036854775808 for a new client. Number \
     the requests of a client one after the other.";

/// What a node itself has to say to a client, which its service puts into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is not carried out now, or it is not known whether it was.
    Unavailable(Unavailable),
    /// There is no such collection.
    NoCollection,
    /// The store could not be read.
    Unreadable(ViewError),
    /// Its name is that of another request (XO-6).
    NameTaken,
    /// The number of its name is too far above those of its client (XO-8).
    NameTooFar,
    /// The chain never has as many members as the request's `r` or `w`.
    Quorum {
        /// `r` or `w`.
        name: &'static str,
        /// What is asked.
        members: u8,
        /// What there is.
        size: usize,
    },
    /// The session's token was not given to this account.
    StrangeToken,
    /// The write of this name, which the session made or was shown, is nowhere any more.
    Lost(RequestId),
    /// What the session saw committed is no part of the chain any more (AL-4).
    Forgotten,
}

impl Trouble {
    /// It in one sentence. SimpleDB has words of its own, and so have services of the node.
    pub(crate) fn sentence(self) -> String {
        match self {
            Trouble::Unavailable(why) => why.to_string(),
            Trouble::NoCollection => "There is no such collection".to_owned(),
            Trouble::Unreadable(error) => error.to_string(),
            Trouble::NameTaken => "The request's name is that of another request".to_owned(),
            Trouble::NameTooFar => NAME_TOO_FAR.to_owned(),
            Trouble::Quorum { name, size, .. } => format!("{name} must be between 1 and {size}"),
            Trouble::StrangeToken => {
                "The session's token is not one that was given to this account".to_owned()
            }
            Trouble::Lost(name) => format!("The write {} is lost", show_name(&name)),
            Trouble::Forgotten => "What this session has seen is lost".to_owned(),
        }
    }
}

impl From<Reason> for Trouble {
    fn from(reason: Reason) -> Self {
        Trouble::Unavailable(reason.into())
    }
}

/// What a refusal means to those on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// There is no such collection here; another member may know one.
    NoCollection,
    /// The store here could not be read; another member's may be.
    Unreadable,
    /// Not now: 503.
    Later(Reason),
    /// It is the answer.
    Final,
}

/// What one service means. No value of it is ever made.
///
/// What a service without eventual writes has to say of them is said here.
pub trait Service {
    /// Its requests.
    type Request;
    /// What a request comes to that succeeds.
    type Reply: Into<Reply>;
    /// What it comes to otherwise.
    type Refusal: Into<Refusal>;
    /// Its limits.
    type Limits;

    /// What the request does.
    fn class(request: &Self::Request) -> Class;

    /// Which collection it is about.
    fn target(request: &Self::Request) -> Target<'_>;

    /// Which other collection it is about, where a step is to go.
    fn towards(_request: &Self::Request) -> Option<(Kind, &str)> {
        None
    }

    /// What it looks at in that collection.
    fn sight(_request: &Self::Request, _collection: CollectionId) -> Sight {
        Sight::Rows(Vec::new())
    }

    /// Bytes that it holds while it waits: those of its texts and values.
    fn size(request: &Self::Request) -> usize;

    /// For how long it may wait at the head for its collection to change: at most [`WAIT_MAX`].
    fn patience(_request: &Self::Request) -> Duration {
        Duration::ZERO
    }

    /// The level that it runs at, never [`Level::Default`], and its bound. `mode` is that of its
    /// collection, and `of_collection` what that prefers; nothing where this member knows none.
    ///
    /// # Errors
    /// The refusal when level, mode and request do not go together.
    fn effective_level(
        mode: Option<Mode>,
        of_collection: Option<DefaultConsistency>,
        consistency: &ConsistencyOptions,
        request: &Self::Request,
    ) -> Result<(Level, Option<Bound>), Self::Refusal>;

    /// Decides a request that may change state on the newest state of the log.
    ///
    /// # Errors
    /// [`Wait`] when it is to be decided again later. At its deadline a request may wait no more.
    fn decide(
        view: &dyn View,
        context: &Context<'_, Self::Limits>,
        request: &Self::Request,
    ) -> Result<Decision<Outcome<Self>>, Wait>;

    /// Decides what it does to the names of collections, on the system chain of a cluster that has
    /// its collections on `chains` others. That is the first step of a creation or a deletion
    /// (`catalog/placement.rs`). Nothing of a request that does nothing to names there.
    fn decide_names(
        _view: &dyn View,
        _context: &Context<'_, Self::Limits>,
        _chains: u32,
        _request: &Self::Request,
    ) -> Option<Decision<Outcome<Self>>> {
        None
    }

    /// Answers one that changes nothing, on a committed view.
    ///
    /// # Errors
    /// The refusal, as the service words it.
    fn answer(
        view: &dyn View,
        context: &Context<'_, Self::Limits>,
        request: &Self::Request,
    ) -> Outcome<Self>;

    /// Answers one of a register from what several members show of it.
    ///
    /// # Errors
    /// The refusal, as the service words it.
    fn answer_register(
        view: &dyn View,
        context: &Context<'_, Self::Limits>,
        request: &Self::Request,
        _shown: Register,
    ) -> Outcome<Self> {
        Self::answer(view, context, request)
    }

    /// Whether an unsettled element decided anything of what the request is shown.
    fn is_tentative(_request: &Self::Request, _committed: &Register, _shown: &Register) -> bool {
        false
    }

    /// Decides an eventual write where it arrives, on what this member shows.
    ///
    /// # Errors
    /// The refusal of the request as a whole, before anything is stamped.
    fn accept(
        _view: &dyn View,
        _context: &Context<'_, Self::Limits>,
        _request: &Self::Request,
    ) -> Result<Acceptance<Self::Reply>, Self::Refusal> {
        let error = ViewError::from(Inconsistency::NoEventualWrites);
        Err(Self::word(Trouble::Unreadable(error)))
    }

    /// Settles an eventual operation on `newest`, the state of the head's log. `ops` are the
    /// elements that the log does not dominate, at least one.
    ///
    /// # Errors
    /// [`ViewError`] when the store cannot be read, or `key` is no register's.
    fn settle(
        _newest: &dyn View,
        _limits: &Self::Limits,
        _key: &Bytes,
        _ops: Vec<ElementOp>,
        _stamp: Stamp,
    ) -> Result<Settled, ViewError> {
        Err(ViewError::from(Inconsistency::NoRegister))
    }

    /// The step that a decision began, which is to be finished before its reply is told.
    fn begun(_reply: &Self::Reply) -> Option<&Step> {
        None
    }

    /// The read whose answer is told in place of the reply to a decision, once that is committed.
    /// It serves where a decision names rows instead of reading them
    /// (docs/internals/decisions/0014-queues.md).
    fn rest(_reply: &Self::Reply) -> Option<Self::Request> {
        None
    }

    /// What is told when that step is finished.
    ///
    /// # Errors
    /// The refusal, when the other chain refused it.
    fn finished(reply: Self::Reply, _taken: &Taken) -> Outcome<Self> {
        Ok(reply)
    }

    /// Puts what a node has to say into the words of the service.
    fn word(trouble: Trouble) -> Self::Refusal;

    /// What a refusal means to those on its way.
    fn meaning(refusal: &Self::Refusal) -> Meaning;

    /// Whether a write is refused with it because of the state it found: then the refusal is an
    /// entry (D12).
    fn depends_on_state(refusal: &Self::Refusal) -> bool;

    /// What is kept of the outcome of a named write (XO-3), and `None` if it is no entry.
    fn keep(outcome: Result<&Self::Reply, &Self::Refusal>) -> Option<Bytes>;

    /// Reads what `keep` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no outcome of a strong write of this service.
    fn kept(bytes: Bytes) -> Result<Outcome<Self>, DecodeError>;
}

/// What a request of a service comes to.
pub type Outcome<S> = Result<<S as Service>::Reply, <S as Service>::Refusal>;

/// Whether a chain of `size` members has the quorums that `level` asks.
///
/// # Errors
/// [`Trouble::Quorum`]: a quorum is never lowered to what there is.
pub fn permits_quorum(level: Level, size: usize) -> Result<(), Trouble> {
    let Level::Eventual { r, w, .. } = level else {
        return Ok(());
    };
    let mut asked = [("r", r), ("w", w)].into_iter();
    match asked.find(|(_, members)| size < usize::from(*members)) {
        None => Ok(()),
        Some((name, members)) => Err(Trouble::Quorum {
            name,
            members,
            size,
        }),
    }
}
