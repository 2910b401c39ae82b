//! What the server says of itself, to anyone: its health, its counters; and that it is full.

use bytes::Bytes;
use fader_node::Health;
use fader_services::Reason;
use fader_services::simpledb::Error;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use super::{RequestHandler, closing, response};
use crate::body;
use crate::connection::{Phase, Progress};
use crate::metrics::COLLECTIONS_SHOWN;
use crate::origin;
use crate::s3::bucket_of;

impl RequestHandler {
    /// Answers a request on a connection for which there is no place: only what is said to anyone.
    pub(crate) async fn answer_in_lobby(
        &self,
        progress: &Progress,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        progress.enter(Phase::Body);
        let (parts, incoming) = request.into_parts();
        // What a client has sent is read: closing over it would take the answer back.
        let _ = body::read_small(incoming, body::SMALL_BYTES).await;
        progress.enter(Phase::Work);
        let page = match origin::check_http(&parts) {
            Ok(()) => self.page(&parts).await,
            Err(_) => None,
        };
        let response = match page {
            Some(response) => response,
            None => {
                self.metrics.connections_refused.inc();
                let reason = Reason::Connections;
                self.turn_away(&Error::unavailable(reason, reason.sentence()))
            }
        };
        progress.enter(Phase::Rest);
        closing(response)
    }

    /// Whether this is a page of the server itself, for every caller.
    pub(crate) fn is_page(path: &str) -> bool {
        matches!(path, "/healthz" | "/metrics")
    }

    /// Whether the path is that of a page, and no key of a bucket that the host names.
    pub(super) fn asks_page(&self, parts: &Parts) -> bool {
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        RequestHandler::is_page(parts.uri.path())
            && bucket_of(host.unwrap_or_default(), &self.settings.s3_domains).is_none()
    }

    /// The page of the server itself that is asked for, if one is.
    pub(super) async fn page(&self, parts: &Parts) -> Option<Response<Full<Bytes>>> {
        if !self.asks_page(parts) {
            return None;
        }
        match (&parts.method, parts.uri.path()) {
            (&Method::GET | &Method::HEAD, "/healthz") => Some(self.health()),
            (&Method::GET | &Method::HEAD, "/metrics") => Some(Box::pin(self.metrics_page()).await),
            _ => None,
        }
    }

    fn health(&self) -> Response<Full<Bytes>> {
        let (status, text) = health_page(&self.node.health());
        response(status, "application/json", text.to_string().into())
    }

    async fn metrics_page(&self) -> Response<Full<Bytes>> {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let node = self.node.clone();
        // It reads the store, and anyone may ask: one at a time.
        let _turn = self.page_turn.lock().await;
        let figures = tokio::task::spawn_blocking(move || node.figures(COLLECTIONS_SHOWN)).await;
        let page = self.metrics.render(figures.unwrap_or_default());
        response(StatusCode::OK, kind, page.into())
    }
}

/// The status and the object of `/healthz`.
fn health_page(health: &Health) -> (StatusCode, serde_json::Value) {
    let (status, cause) = match health {
        Health::Serving => return (StatusCode::OK, serde_json::json!({"status": "ok"})),
        Health::ReadOnly(cause) => ("read-only", cause),
        Health::Failed(cause) => ("failed", cause),
    };
    let page = serde_json::json!({
        "status": status,
        "code": cause.code().name(),
        "reason": without_paths(&cause.to_string()),
    });
    (StatusCode::SERVICE_UNAVAILABLE, page)
}

/// The text without the paths in it, which are no business of strangers. A path goes from a word
/// with a slash to the next colon, comma or bracket: it may have blanks.
fn without_paths(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_in_path = false;
    for word in text.split(' ') {
        let begins = !is_in_path && word.contains('/');
        if begins {
            kept.push("a file");
        }
        let was_in_path = is_in_path || begins;
        // A bracket begins what the system says.
        if is_in_path && word.starts_with('(') {
            is_in_path = false;
            kept.push(word);
            continue;
        }
        is_in_path = was_in_path && !word.ends_with([':', ',', ';', ')']);
        if !was_in_path {
            kept.push(word);
        } else if !is_in_path
            && let (Some(last), Some(end)) = (kept.last_mut(), word.chars().last())
        {
            *last = match (*last, end) {
                ("a file", ':') => "a file:",
                ("a file", ',') => "a file,",
                (other, _) => other,
            };
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use fader_node::{HealthCause, MemberFailure};

    use super::*;

    #[test]
    fn the_page_of_health_has_the_code_of_the_cause_and_no_path() {
        let full = HealthCause::Full {
            context: "cannot write /var/lib/fader/log/1: No space left on device".to_owned(),
        };
        let failed = HealthCause::MemberFailed(MemberFailure {
            times: 2,
            cause: Box::new(HealthCause::Broken),
        });
        let told = |health| {
            let (status, page) = health_page(&health);
            (status.as_u16(), page.to_string())
        };
        let expected = [
            (Health::Serving, (200, r#"{"status":"ok"}"#.to_owned())),
            (
                Health::ReadOnly(full),
                (
                    503,
                    [
                        r#"{"code":"store","reason":"cannot write a file: No space left on "#,
                        r#"device","status":"read-only"}"#,
                    ]
                    .concat(),
                ),
            ),
            (
                Health::Failed(failed),
                (
                    503,
                    [
                        r#"{"code":"broken","reason":"its member here failed 2 times: an "#,
                        r#"invariant of the chain was broken; see the log","status":"failed"}"#,
                    ]
                    .concat(),
                ),
            ),
        ];
        for (health, page) in expected {
            assert_eq!(told(health), page);
        }
    }

    #[test]
    fn paths_are_left_out_and_the_rest_is_kept() {
        for (text, expected) in [
            (
                "No space left on device (os error 28)",
                "No space left on device (os error 28)",
            ),
            (
                "cannot write /var/lib/fader/log/1: No space left on device (os error 28)",
                "cannot write a file: No space left on device (os error 28)",
            ),
            (
                "cannot write /var/my data/log/1: No space left",
                "cannot write a file: No space left",
            ),
            (
                "./fader-data/engine is gone (os error 2)",
                "a file (os error 2)",
            ),
            ("'data/a', and 'data/b'", "a file, and a file"),
            ("", ""),
        ] {
            assert_eq!(without_paths(text), expected, "{text}");
        }
    }
}
