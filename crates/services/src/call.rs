//! A request as a node carries it: the request of a service, and what goes with any.

use std::sync::Arc;

use crate::catalog::AccountId;
use crate::level::ConsistencyOptions;
use crate::poll::Poll;
use crate::request::Request;
use crate::service::Place;

/// A request: who asks for what, and how.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whose collections it is about. Empty of what a node asks for itself.
    pub account: AccountId,
    /// What is asked.
    pub request: Request,
    /// At which level, under which name, in which session.
    pub consistency: ConsistencyOptions,
    /// Where the other collection is that it names, if it names one
    /// ([`Service::towards`](crate::service::Service::towards)), and chains are several.
    pub towards: Option<Place>,
    /// Of one that may wait: what its carriers tell each other. Each process has its own; a
    /// decision in another one is not noted here, and a client that goes is told there.
    pub poll: Option<Arc<Poll>>,
}

impl Call {
    /// A request for an account.
    pub fn new(
        account: &AccountId,
        request: impl Into<Request>,
        consistency: ConsistencyOptions,
    ) -> Self {
        Call {
            account: account.clone(),
            request: request.into(),
            consistency,
            towards: None,
            poll: None,
        }
    }

    /// The account that asks, as names have it ([`AccountId::number`]): of a queue it may be
    /// another than its owner's, or none.
    pub fn sender(&self) -> u64 {
        let Request::Sqs(request) = &self.request else {
            return self.account.number();
        };
        let account = request.caller.principal.account().cloned();
        account.map_or(u64::MAX, |account| AccountId(account).number())
    }

    /// What a node asks for itself.
    pub fn of_node(request: impl Into<Request>) -> Self {
        Call::new(
            &AccountId(String::new()),
            request,
            ConsistencyOptions::default(),
        )
    }

    /// Notes that it was decided to wait.
    pub fn note_waits(&self) {
        if let Some(poll) = &self.poll {
            poll.note_waits();
        }
    }
}
