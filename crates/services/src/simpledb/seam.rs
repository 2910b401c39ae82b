//! SimpleDB as a service among others.

use bytes::Bytes;
use fader_chain::{DecodeError, ElementOp, Register, Stamp};

use crate::kind::Kind;
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level, show_name};
use crate::service::{Class, Meaning, NAME_TOO_FAR, Outcome, Service, Sight, Target, Trouble};
use crate::simpledb::{
    self, Acceptance, AttributeDelete, AttributePut, Code, Context, CostedReply, Error, Expected,
    Limits, Request, counters,
};
use crate::{CollectionId, Decision, KeyBuilder, Mode, Table, View, ViewError, item_key, service};

/// SimpleDB.
#[derive(Debug)]
pub enum SimpleDb {}

impl Service for SimpleDb {
    type Request = Request;
    type Reply = CostedReply;
    type Refusal = Error;
    type Limits = Limits;

    fn class(request: &Request) -> Class {
        match request {
            Request::PutAttributes { expected, .. }
            | Request::DeleteAttributes { expected, .. }
                if !expected.is_empty() =>
            {
                Class::Conditional
            }
            Request::GetAttributes { .. } | Request::DomainMetadata { .. } => Class::Keyed,
            request if request.is_write() => Class::Write,
            _ => Class::Scan,
        }
    }

    fn target(request: &Request) -> Target<'_> {
        let kind = Kind::Domain;
        match request {
            Request::CreateDomain {
                domain,
                mode,
                preference,
            } => Target::Create {
                kind,
                name: domain,
                plain: mode.is_none() && preference.is_none(),
            },
            Request::DeleteDomain { domain } => Target::Delete(kind, domain),
            _ => request
                .domain()
                .map_or(Target::System, |domain| Target::Of(kind, domain)),
        }
    }

    fn sight(request: &Request, collection: CollectionId) -> Sight {
        let register = |item: &str| Sight::Register(item_key(collection, item.as_bytes()));
        let none = Sight::Rows(Vec::new());
        match request {
            Request::GetAttributes { item, .. } => register(item),
            Request::PutAttributes { put, .. } => put.item.as_deref().map_or(none, register),
            Request::DeleteAttributes { delete, .. } => {
                delete.item.as_deref().map_or(none, register)
            }
            Request::Select { .. } | Request::Query { .. } => {
                let items = KeyBuilder::new(collection, Table::Items);
                Sight::Registers(items.clone().build(), items.build_end())
            }
            Request::DomainMetadata { .. } => Sight::Rows(vec![counters::metadata_key(collection)]),
            _ => none,
        }
    }

    fn size(request: &Request) -> usize {
        let named = request.domain().map_or(0, str::len);
        named
            + match request {
                Request::PutAttributes { put, expected, .. } => {
                    text(&put.item) + puts(&put.attributes) + conditions(expected)
                }
                Request::BatchPutAttributes { puts: items, .. } => {
                    let sizes = items.iter().map(|it| text(&it.item) + puts(&it.attributes));
                    sizes.sum()
                }
                Request::DeleteAttributes {
                    delete, expected, ..
                } => text(&delete.item) + deletes(&delete.attributes) + conditions(expected),
                Request::BatchDeleteAttributes { deletes: items, .. } => {
                    let sizes = items
                        .iter()
                        .map(|it| text(&it.item) + deletes(&it.attributes));
                    sizes.sum()
                }
                Request::GetAttributes { item, names, .. } => {
                    item.len() + names.iter().map(String::len).sum::<usize>()
                }
                Request::Select { expression, .. } | Request::ExplainSelect { expression } => {
                    expression.len()
                }
                Request::Query {
                    expression,
                    attributes,
                    ..
                } => {
                    let names = attributes.iter().flatten().map(String::len);
                    text(expression) + names.sum::<usize>()
                }
                Request::CreateDomain { .. }
                | Request::DeleteDomain { .. }
                | Request::ListDomains { .. }
                | Request::DomainMetadata { .. } => 0,
            }
    }

    fn effective_level(
        mode: Option<Mode>,
        of_collection: Option<DefaultConsistency>,
        consistency: &ConsistencyOptions,
        request: &Request,
    ) -> Result<(Level, Option<Bound>), Error> {
        simpledb::effective_level(mode, of_collection, consistency, request)
    }

    fn decide(
        view: &dyn View,
        context: &Context<'_>,
        request: &Request,
    ) -> Result<Decision<Outcome<Self>>, service::Wait> {
        Ok(simpledb::decide(view, context, request))
    }

    fn decide_names(
        view: &dyn View,
        context: &Context<'_>,
        chains: u32,
        request: &Request,
    ) -> Option<Decision<Outcome<Self>>> {
        simpledb::decide_names(view, context.account, context.limits, chains, request)
    }

    fn answer(view: &dyn View, context: &Context<'_>, request: &Request) -> Outcome<Self> {
        simpledb::answer(view, context, request)
    }

    fn answer_register(
        view: &dyn View,
        context: &Context<'_>,
        request: &Request,
        shown: Register,
    ) -> Outcome<Self> {
        simpledb::answer_item(view, context, request, shown)
    }

    fn is_tentative(request: &Request, committed: &Register, shown: &Register) -> bool {
        simpledb::is_tentative(request, committed, shown)
    }

    fn accept(
        view: &dyn View,
        context: &Context<'_>,
        request: &Request,
    ) -> Result<Acceptance, Error> {
        simpledb::accept(view, context, request)
    }

    fn settle(
        newest: &dyn View,
        limits: &Limits,
        key: &Bytes,
        ops: Vec<ElementOp>,
        stamp: Stamp,
    ) -> Result<fader_chain::Settled, ViewError> {
        Ok(simpledb::settle(newest, limits, key, ops, stamp)?.into())
    }

    fn word(trouble: Trouble) -> Error {
        match trouble {
            Trouble::Unavailable(why) => Error::unavailable(why.reason, &why.to_string()),
            Trouble::NoCollection => Error::no_such_domain(),
            Trouble::Unreadable(error) => error.into(),
            Trouble::NameTaken => Error::new(
                Code::InvalidParameterCombination,
                "The request's name is that of another request",
            ),
            Trouble::NameTooFar => Error::new(Code::InvalidParameterValue, NAME_TOO_FAR),
            Trouble::Quorum {
                name,
                members,
                size,
            } => simpledb::no_such_quorum(name, members, size),
            Trouble::StrangeToken => Error::new(
                Code::InvalidParameterValue,
                "The session's token is not one that this service gave to this account. Begin a \
                 new session with an empty token.",
            ),
            Trouble::Lost(name) => Error::new(
                Code::TentativeValueLost,
                format!(
                    "The write {} that this session made or was shown is held by no member that \
                     serves, and was not settled. Write it again if it was yours, and go on with \
                     the token of this reply, which does not name it any more.",
                    show_name(&name)
                ),
            ),
            Trouble::Forgotten => Error::new(
                Code::TentativeValueLost,
                "What this session has seen was lost with the disks that had it: an operator had \
                 the chain go on with what another member had. Look at what there is, and go on \
                 with the token of this reply.",
            ),
        }
    }

    fn meaning(error: &Error) -> Meaning {
        match error.code {
            Code::NoSuchDomain => Meaning::NoCollection,
            Code::InternalError => Meaning::Unreadable,
            _ => error.reason.map_or(Meaning::Final, Meaning::Later),
        }
    }

    fn depends_on_state(error: &Error) -> bool {
        error.code.depends_on_state()
    }

    fn keep(outcome: Result<&CostedReply, &Error>) -> Option<Bytes> {
        simpledb::encode_outcome(outcome)
    }

    fn kept(bytes: Bytes) -> Result<Outcome<Self>, DecodeError> {
        simpledb::decode_outcome(bytes)
    }
}

fn text(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

fn puts(attributes: &[AttributePut]) -> usize {
    let sizes = attributes.iter().map(|it| text(&it.name) + text(&it.value));
    sizes.sum()
}

fn deletes(attributes: &[AttributeDelete]) -> usize {
    let sizes = attributes.iter().map(|it| text(&it.name) + text(&it.value));
    sizes.sum()
}

fn conditions(expected: &[Expected]) -> usize {
    let sizes = expected.iter().map(|it| text(&it.name) + text(&it.value));
    sizes.sum()
}

#[cfg(test)]
mod tests;
