//! A request of a client, as it goes through a node.

use fader_services::catalog::AccountId;
use fader_services::level::Demand;
use fader_services::simpledb::Request;

/// A request of a client: who asks for what, and how.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whose domains it is about.
    pub account: AccountId,
    /// What is asked.
    pub request: Request,
    /// At which level, under which name, in which session.
    pub demand: Demand,
}

impl Call {
    /// A request for an account.
    pub fn new(account: &AccountId, request: Request, demand: Demand) -> Self {
        Call {
            account: account.clone(),
            request,
            demand,
        }
    }
}
