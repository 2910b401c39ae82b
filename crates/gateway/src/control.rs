//! The administrator's socket: access keys, in JSON over HTTP.
//!
//! ```text
//! GET  /keys              {"keys":[{"id","account","status","created_ms","note"}]}
//! POST /keys              {"account":"000000000001","note":""}, both optional
//!                         -> {"id","secret","account"}
//! POST /keys/ID/disable   -> {"id","status"}
//! POST /keys/ID/enable    -> {"id","status"}
//! POST /keys/ID/rotate    -> {"id","secret","account"} of the key in its place
//! ```
//!
//! A refusal is `{"error":"..."}` with a status of 4xx or 5xx. A secret is shown once, when it is
//! made; nothing shows it again.

use bytes::Bytes;
use fader_node::OpenKey;
use fader_services::catalog::{AccessKey, AccountId, Command, KeyStatus, Refusal};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::body::{self, BodyError};
use crate::connection::{Phase, Progress};
use crate::door::{Door, response};

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 4096;
/// Whose keys are made when no account is named.
const ACCOUNT: &str = "000000000001";

/// A status and a message.
type Failure = (StatusCode, String);

/// Answers one request of the administrator.
pub(crate) async fn answer(
    door: &Door,
    progress: &Progress,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    progress.enter(Phase::Body);
    let (parts, incoming) = request.into_parts();
    let outcome = match body::read(incoming, BODY_BYTES_MAX).await {
        Ok(body) => {
            progress.enter(Phase::Work);
            route(door, &parts.method, parts.uri.path(), &body).await
        }
        Err(BodyError::TooLarge) => Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is too large".to_owned(),
        )),
        Err(BodyError::Broken) => {
            Err((StatusCode::BAD_REQUEST, "the body is cut short".to_owned()))
        }
    };
    progress.enter(Phase::Rest);
    let (status, value) = match outcome {
        Ok(value) => (StatusCode::OK, value),
        Err((status, message)) => (status, json!({ "error": message })),
    };
    response(status, "application/json", value.to_string().into())
}

async fn route(door: &Door, method: &Method, path: &str, body: &Bytes) -> Result<Value, Failure> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (method, parts.as_slice()) {
        (&Method::GET, ["keys"]) => {
            let keys = door.node.keys().map_err(|refusal| failure(&refusal))?;
            Ok(json!({ "keys": keys.iter().map(shown).collect::<Vec<_>>() }))
        }
        (&Method::POST, ["keys"]) => {
            let (account, note) = read_new_key(body)?;
            let key = door
                .node
                .create_key(&account, None, &note)
                .await
                .map_err(|refusal| failure(&refusal))?;
            tracing::info!(
                id = key.key.id,
                account = account.0,
                "created an access key"
            );
            Ok(shown_once(&key))
        }
        (&Method::POST, ["keys", id, "disable"]) => set_status(door, id, KeyStatus::Disabled).await,
        (&Method::POST, ["keys", id, "enable"]) => set_status(door, id, KeyStatus::Active).await,
        (&Method::POST, ["keys", id, "rotate"]) => {
            let key = door
                .node
                .rotate_key(id)
                .await
                .map_err(|refusal| failure(&refusal))?;
            tracing::info!(old_id = id, id = key.key.id, "rotated an access key");
            Ok(shown_once(&key))
        }
        _ => Err((
            StatusCode::NOT_FOUND,
            format!("there is no {method} {path} here"),
        )),
    }
}

async fn set_status(door: &Door, id: &str, status: KeyStatus) -> Result<Value, Failure> {
    let command = Command::SetKeyStatus {
        id: id.to_owned(),
        status,
    };
    door.node
        .catalog(command)
        .await
        .map_err(|refusal| failure(&refusal))?;
    let status = status_name(status);
    tracing::info!(id, status, "set the status of an access key");
    Ok(json!({ "id": id, "status": status }))
}

/// The account and the note of a key to be made.
fn read_new_key(body: &Bytes) -> Result<(AccountId, String), Failure> {
    let bad = |message: String| (StatusCode::BAD_REQUEST, message);
    let (mut account, mut note) = (ACCOUNT.to_owned(), String::new());
    if body.is_empty() {
        return Ok((AccountId(account), note));
    }
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the body is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(bad("the body must be an object".to_owned()));
    };
    for (name, value) in fields {
        let place = match &*name {
            "account" => &mut account,
            "note" => &mut note,
            _ => return Err(bad(format!("the field {name:?} is not known"))),
        };
        match value {
            Value::String(text) => *place = text,
            Value::Null => {}
            _ => return Err(bad(format!("{name} must be a string"))),
        }
    }
    Ok((AccountId(account), note))
}

fn shown(key: &AccessKey) -> Value {
    json!({
        "id": key.id,
        "account": key.account.0,
        "status": status_name(key.status),
        "created_ms": key.created_ms,
        "note": key.note,
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

fn failure(refusal: &Refusal) -> Failure {
    let status = match refusal {
        Refusal::NoSuchKey(_) => StatusCode::NOT_FOUND,
        Refusal::KeyExists(_) => StatusCode::CONFLICT,
        Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
        Refusal::View(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, refusal.to_string())
}
