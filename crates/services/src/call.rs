//! A request as a node carries it: the request of a service, and what goes with any.

use crate::catalog::AccountId;
use crate::level::Demand;
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
    pub demand: Demand,
    /// Where the other collection is that it names, if it names one
    /// ([`Service::towards`](crate::service::Service::towards)), and chains are several.
    pub towards: Option<Place>,
}

impl Call {
    /// A request for an account.
    pub fn new(account: &AccountId, request: impl Into<Request>, demand: Demand) -> Self {
        Call {
            account: account.clone(),
            request: request.into(),
            demand,
            towards: None,
        }
    }

    /// What a node asks for itself.
    pub fn of_node(request: impl Into<Request>) -> Self {
        Call::new(&AccountId(String::new()), request, Demand::default())
    }
}
