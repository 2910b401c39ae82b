//! The actions and versions of SimpleDB's wire protocol.

use fader_services::simpledb::{Code, Error};

use crate::parameters::Parameters;
use crate::refusal::{missing, refuse};

/// The version of the protocol that a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 2007-11-07, the one with Query.
    V2007,
    /// 2009-04-15.
    V2009,
}

impl Version {
    /// The version a request names.
    pub(crate) fn of(parameters: &Parameters<'_>) -> Result<Version, Error> {
        match parameters.get("Version") {
            Some("2009-04-15") => Ok(Version::V2009),
            Some("2007-11-07") => Ok(Version::V2007),
            Some(other) => Err(refuse(
                Code::NoSuchVersion,
                format!(
                    "The requested version ({other}) of service AmazonSimpleDB does not exist."
                ),
            )),
            None => Err(missing("Version")),
        }
    }

    /// The namespace of its replies.
    pub(crate) fn namespace(self) -> &'static str {
        match self {
            Version::V2007 => "http://sdb.amazonaws.com/doc/2007-11-07/",
            Version::V2009 => "http://sdb.amazonaws.com/doc/2009-04-15/",
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the names are AWS's own, but for ExplainSelect, which is Fader's"
)]
pub(crate) enum Action {
    BatchDeleteAttributes,
    BatchPutAttributes,
    CreateDomain,
    DeleteAttributes,
    DeleteDomain,
    DomainMetadata,
    ExplainSelect,
    GetAttributes,
    ListDomains,
    PutAttributes,
    Query,
    QueryWithAttributes,
    Select,
}

impl Action {
    /// Every action, in the order of its discriminants.
    pub(crate) const ALL: [Action; 13] = [
        Action::BatchDeleteAttributes,
        Action::BatchPutAttributes,
        Action::CreateDomain,
        Action::DeleteAttributes,
        Action::DeleteDomain,
        Action::DomainMetadata,
        Action::ExplainSelect,
        Action::GetAttributes,
        Action::ListDomains,
        Action::PutAttributes,
        Action::Query,
        Action::QueryWithAttributes,
        Action::Select,
    ];

    /// The action a request names, if `version` has it.
    pub(crate) fn of(parameters: &Parameters<'_>, version: Version) -> Result<Action, Error> {
        let Some(name) = parameters.get("Action") else {
            return Err(refuse(
                Code::MissingAction,
                "No action was supplied with this request.",
            ));
        };
        Action::ALL
            .into_iter()
            .find(|action| action.name() == name)
            .filter(|action| version == Version::V2007 || !action.is_of_2007_only())
            .ok_or_else(|| {
                refuse(
                    Code::InvalidAction,
                    format!("The action {name} is not valid for this web service."),
                )
            })
    }

    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::BatchDeleteAttributes => "BatchDeleteAttributes",
            Action::BatchPutAttributes => "BatchPutAttributes",
            Action::CreateDomain => "CreateDomain",
            Action::DeleteAttributes => "DeleteAttributes",
            Action::DeleteDomain => "DeleteDomain",
            Action::DomainMetadata => "DomainMetadata",
            Action::ExplainSelect => "ExplainSelect",
            Action::GetAttributes => "GetAttributes",
            Action::ListDomains => "ListDomains",
            Action::PutAttributes => "PutAttributes",
            Action::Query => "Query",
            Action::QueryWithAttributes => "QueryWithAttributes",
            Action::Select => "Select",
        }
    }

    /// Whether it changes anything.
    pub(crate) fn is_write(self) -> bool {
        match self {
            Action::BatchDeleteAttributes
            | Action::BatchPutAttributes
            | Action::CreateDomain
            | Action::DeleteAttributes
            | Action::DeleteDomain
            | Action::PutAttributes => true,
            Action::DomainMetadata
            | Action::ExplainSelect
            | Action::GetAttributes
            | Action::ListDomains
            | Action::Query
            | Action::QueryWithAttributes
            | Action::Select => false,
        }
    }

    fn is_of_2007_only(self) -> bool {
        matches!(self, Action::Query | Action::QueryWithAttributes)
    }
}
