//! The administrator's socket: access keys, in JSON over HTTP.
//!
//! ```text
//! GET  /keys              {"keys":[{"id","account","status","created_ms","note","consistency"}]}
//! POST /keys              {"account":"000000000001","note":"","consistency":""}, all optional
//!                         -> {"id","secret","account"}
//! POST /keys/ID/disable   -> {"id","status"}
//! POST /keys/ID/enable    -> {"id","status"}
//! POST /keys/ID/set       {"consistency":""} -> {"id","consistency"}
//! POST /keys/ID/rotate    -> {"id","secret","account"} of the key in its place
//! GET  /domains/…         the mode of a domain; see `control::domains`
//! GET  /cluster           how the members of a cluster do; see `control::cluster`
//! POST /cluster/VERB      what shall happen to one: kill, restart, pause, partition, heal
//! ```
//!
//! A refusal is `{"error","code","kind","do"}` with the status of its code
//! (docs/reference/errors.md). A secret is shown once, when it is made; nothing shows it again.

mod cluster;
mod domains;

use bytes::Bytes;
use fader_node::{ClusterError, OpenKey, Secret};
use fader_services::catalog::{
    AccessKey, AccountId, Command, KeyNature, KeyStatus, Refusal, Rights,
};
use fader_services::level::{DefaultConsistency, Malformed};
use fader_services::{ErrorCode, Kind};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinError;

use crate::body::{self, BodyError};
use crate::connection::{Phase, Progress};
use crate::request_handler::{RequestHandler, response};

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 4096;
/// Whose keys are made when no account is named.
const ACCOUNT: &str = "000000000001";

/// Why an order is refused.
struct Failure {
    code: ErrorCode,
    message: String,
}

impl Failure {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
        }
    }

    /// The order breaks a rule.
    fn invalid(message: impl Into<String>) -> Self {
        Failure::new(ErrorCode::CallInvalid, message)
    }

    /// There is no such thing.
    fn not_found(message: impl Into<String>) -> Self {
        Failure::new(ErrorCode::NotFound, message)
    }

    /// The status: that of the code. What has none is a state that does not allow the order.
    fn status(&self) -> StatusCode {
        let status = self.code.row().status;
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        status.unwrap_or(StatusCode::CONFLICT)
    }

    fn body(&self) -> Value {
        let row = self.code.row();
        json!({
            "error": self.message,
            "code": row.code.name(),
            "kind": row.kind.name(),
            "do": row.action,
        })
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::new(refusal.code(), refusal.to_string())
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Failure::new(error.code, error.context)
    }
}

/// A part of the work panicked.
impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Failure::new(ErrorCode::Internal, error.to_string())
    }
}

/// Answers one request of the administrator.
pub(crate) async fn answer(
    handler: &RequestHandler,
    progress: &Progress,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    progress.enter(Phase::Body);
    let (parts, incoming) = request.into_parts();
    let outcome = match body::read_small(incoming, BODY_BYTES_MAX).await {
        Ok(body) => {
            progress.enter(Phase::Work);
            route(handler, &parts.method, parts.uri.path(), &body).await
        }
        Err(BodyError::TooLarge) => {
            let bytes = format!("the body is larger than {BODY_BYTES_MAX} bytes");
            Err(Failure::new(ErrorCode::BodyTooLarge, bytes))
        }
        Err(BodyError::Broken | BodyError::Slow) => Err(Failure::invalid("the body is cut short")),
    };
    progress.enter(Phase::Rest);
    let (status, value) = match outcome {
        Ok(value) => (StatusCode::OK, value),
        Err(failure) => (failure.status(), failure.body()),
    };
    response(status, "application/json", value.to_string().into())
}

async fn route(
    handler: &RequestHandler,
    method: &Method,
    path: &str,
    body: &Bytes,
) -> Result<Value, Failure> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (method, parts.as_slice()) {
        (&Method::GET, ["keys"]) => {
            let keys = handler.node.keys().await?;
            Ok(json!({ "keys": keys.iter().map(shown).collect::<Vec<_>>() }))
        }
        (&Method::POST, ["keys"]) => {
            let names = ["account", "note", "consistency", "rights", "id", "secret"];
            let [account, note, consistency, rights, id, secret] = read_fields(body, names)?;
            let account = AccountId(account.unwrap_or_else(|| ACCOUNT.to_owned()));
            let options = KeyNature {
                preference: read_preference(consistency.as_deref())?,
                rights: read_rights(rights.as_deref())?,
            };
            let pair = match (id, secret) {
                (None, None) => None,
                (Some(id), Some(secret)) => Some((id, Secret::new(secret))),
                _ => return Err(Failure::invalid("id and secret go together")),
            };
            let key = handler
                .node
                .create_key(&account, pair, &note.unwrap_or_default(), options)
                .await?;
            tracing::info!(
                id = key.key.id,
                account = account.0,
                "created an access key"
            );
            Ok(shown_once(&key))
        }
        (&Method::POST, ["keys", id, "disable"]) => {
            set_status(handler, id, KeyStatus::Disabled).await
        }
        (&Method::POST, ["keys", id, "enable"]) => set_status(handler, id, KeyStatus::Active).await,
        (&Method::POST, ["keys", id, "set"]) => {
            let [consistency] = read_fields(body, ["consistency"])?;
            set_preference(handler, id, read_preference(consistency.as_deref())?).await
        }
        (&Method::POST, ["keys", id, "rotate"]) => {
            let key = handler.node.rotate_key(id).await?;
            tracing::info!(old_id = id, id = key.key.id, "rotated an access key");
            Ok(shown_once(&key))
        }
        (_, ["domains", path @ ..]) => {
            domains::answer(&handler.node, method, Kind::Domain, path, body).await
        }
        (_, ["queues", path @ ..]) => {
            domains::answer(&handler.node, method, Kind::Queue, path, body).await
        }
        (_, ["buckets", path @ ..]) => {
            domains::answer(&handler.node, method, Kind::Bucket, path, body).await
        }
        (_, ["cluster", verb @ ..]) => cluster::answer(&handler.node, method, verb, body).await,
        _ => Err(Failure::not_found(format!(
            "there is no {method} {path} here"
        ))),
    }
}

async fn set_status(
    handler: &RequestHandler,
    id: &str,
    status: KeyStatus,
) -> Result<Value, Failure> {
    let command = Command::SetKeyStatus {
        id: id.to_owned(),
        status,
    };
    handler.node.catalog(command).await?;
    let status = status_name(status);
    tracing::info!(id, status, "set the status of an access key");
    Ok(json!({ "id": id, "status": status }))
}

async fn set_preference(
    handler: &RequestHandler,
    id: &str,
    preference: Option<DefaultConsistency>,
) -> Result<Value, Failure> {
    let command = Command::SetKeyPreference {
        id: id.to_owned(),
        preference,
    };
    handler.node.catalog(command).await?;
    let shown = shown_preference(preference);
    tracing::info!(id, consistency = shown, "set what an access key prefers");
    Ok(json!({ "id": id, "consistency": shown }))
}

/// The texts of a body's fields, in the order of `names`; all are optional, no other is known.
fn read_fields<const N: usize>(
    body: &Bytes,
    names: [&str; N],
) -> Result<[Option<String>; N], Failure> {
    let mut texts = [const { None }; N];
    if body.is_empty() {
        return Ok(texts);
    }
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Failure::invalid(format!("the body is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(Failure::invalid("the body must be an object"));
    };
    for (name, value) in fields {
        let Some(at) = names.iter().position(|known| *known == name) else {
            return Err(Failure::invalid(format!("the field {name:?} is not known")));
        };
        match value {
            Value::String(text) => texts[at] = Some(text),
            Value::Null => {}
            _ => return Err(Failure::invalid(format!("{name} must be a string"))),
        }
    }
    Ok(texts)
}

/// A preference; none when the text is empty or absent.
fn read_preference(text: Option<&str>) -> Result<Option<DefaultConsistency>, Failure> {
    let text = text.filter(|text| !text.is_empty());
    let preference = text.map(str::parse).transpose();
    preference.map_err(|error: Malformed| Failure::invalid(format!("consistency: {error}")))
}

/// Rights; all when the text is empty or absent.
fn read_rights(text: Option<&str>) -> Result<Rights, Failure> {
    match text {
        None | Some("" | "all") => Ok(Rights::All),
        Some("granted") => Ok(Rights::Granted),
        Some(other) => Err(Failure::invalid(format!(
            "rights: {other:?} is neither all nor granted"
        ))),
    }
}

fn shown_preference(preference: Option<DefaultConsistency>) -> String {
    preference.map_or_else(String::new, |preference| preference.to_string())
}

fn shown(key: &AccessKey) -> Value {
    json!({
        "id": key.id,
        "account": key.account.0,
        "status": status_name(key.status),
        "created_ms": key.created_ms,
        "note": key.note,
        "consistency": shown_preference(key.preference),
        "rights": match key.rights {
            Rights::All => "all",
            Rights::Granted => "granted",
        },
    })
}

fn shown_once(key: &OpenKey) -> Value {
    json!({ "id": key.key.id, "secret": key.secret.reveal(), "account": key.key.account.0 })
}

fn status_name(status: KeyStatus) -> &'static str {
    match status {
        KeyStatus::Active => "active",
        KeyStatus::Disabled => "disabled",
    }
}

#[cfg(test)]
mod tests;
