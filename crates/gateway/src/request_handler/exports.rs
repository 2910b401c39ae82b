//! From a request of `simpledbv2` to its reply.

use std::time::Instant;

use bytes::Bytes;
use fader_node::{Call, ChainId};
use fader_services::Reason;
use fader_services::catalog::AccountId;
use fader_services::exports::{Code, Command, Error, Exports, Reply};
use fader_services::level::ConsistencyOptions;
use fader_services::request::own;
use fader_services::simpledb::{Code as Refused, Error as Refusal};
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{Arrival, REASON, RequestHandler, request_id, response};
use crate::exports::{self, Operation};
use crate::limit::Load;
use crate::parameters::Parameters;
use crate::sqs;

const JSON: &str = "application/json";
const ERROR_TYPE: &str = "x-amzn-errortype";
const REQUEST_ID: &str = "x-amzn-requestid";

/// A refusal as it is told.
struct Fault {
    code: &'static str,
    status: u16,
    error: Error,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault {
            code: error.code.name(),
            status: error.code.status(),
            error,
        }
    }
}

/// A refusal of the gateway itself, in the words of `simpledbv2`.
impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let error = Error {
            reason: refusal.reason,
            ..Error::new(Code::AccessDenied, refusal.message)
        };
        let (code, status) = match refusal.code {
            _ if refusal.reason.is_some() => ("ServiceUnavailableException", 503),
            Refused::SignatureDoesNotMatch | Refused::RequestExpired => {
                ("InvalidSignatureException", 403)
            }
            Refused::InvalidClientTokenId => ("UnrecognizedClientException", 403),
            Refused::IncompleteSignature => ("IncompleteSignatureException", 403),
            Refused::AuthMissingFailure => ("MissingAuthenticationTokenException", 403),
            Refused::AccessFailure | Refused::AuthFailure => ("AccessDeniedException", 403),
            Refused::InternalError => ("InternalFailure", 500),
            _ => ("InvalidParameterValueException", 400),
        };
        Fault {
            code,
            status,
            error,
        }
    }
}

impl RequestHandler {
    /// Answers a request if it is one of `simpledbv2`.
    pub(super) async fn exports(
        &self,
        parts: &Parts,
        body: &Bytes,
        arrival: Arrival,
    ) -> Option<Response<Full<Bytes>>> {
        let operation = Operation::of(parts.uri.path())?;
        if parts.method != Method::POST {
            return None;
        }
        let started = Instant::now();
        let outcome = self.export_answer(operation, parts, body, arrival);
        let outcome = Box::pin(outcome).await;
        let code = outcome.as_ref().err().map(|fault| fault.code);
        self.metrics
            .count_request(Some(operation.name()), code, started.elapsed());
        Some(match outcome {
            Ok(value) => respond(StatusCode::OK, &value),
            Err(fault) => {
                if let Some(reason) = fault.error.reason {
                    self.node.count_refusal(ChainId::SYSTEM, reason);
                }
                fault_response(&fault)
            }
        })
    }

    async fn export_answer(
        &self,
        operation: Operation,
        parts: &Parts,
        body: &Bytes,
        arrival: Arrival,
    ) -> Result<Value, Fault> {
        let query = parts.uri.query().unwrap_or_default();
        let parameters = Parameters::read(query.as_bytes(), b"", self.settings.parameters_max)?;
        let caller = self.authenticate(parts, body, arrival.port, &parameters);
        let caller = caller.await?;
        caller.check_rights()?;
        let region = sqs::region_of(&parts.headers).to_owned();
        let command = exports::parse(operation, body, rand::random(), region)?;
        let load = Load::from(command.is_write());
        let account = caller.account();
        let carry_out = self.ask_exports(account, command);
        let reply = match &self.limiter {
            None => carry_out.await,
            Some(limiter) => {
                let outcome = Box::pin(limiter.within(load, carry_out)).await;
                outcome.unwrap_or_else(|| {
                    Err(Error {
                        reason: Some(Reason::Limit),
                        ..Error::new(Code::ServiceUnavailable, "Rate exceeded.")
                    })
                })
            }
        }?;
        if operation == Operation::StartDomainExport {
            self.export_begins.notify_one();
        }
        Ok(exports::render(operation, account, &reply))
    }

    /// What the service says of a command about exports.
    pub(super) async fn ask_exports(
        &self,
        account: &AccountId,
        command: Command,
    ) -> Result<Reply, Error> {
        let call = Call::new(account, command, ConsistencyOptions::default());
        let (outcome, _) = self.node.call(call).await;
        own::<Exports>(outcome)
    }
}

fn respond(status: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    let mut response = response(status, JSON, value.to_string().into());
    if let Ok(id) = HeaderValue::from_str(&request_id()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

fn fault_response(fault: &Fault) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::BAD_REQUEST);
    let body = json!({ "__type": fault.code, "message": fault.error.message });
    let mut response = respond(status, &body);
    let headers = response.headers_mut();
    headers.insert(ERROR_TYPE, HeaderValue::from_static(fault.code));
    if let Some(reason) = fault.error.reason {
        headers.insert(REASON, HeaderValue::from_static(reason.code()));
    }
    response
}
