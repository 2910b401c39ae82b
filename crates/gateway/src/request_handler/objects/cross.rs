//! Requests of pages of other origins: preflights, and headers of replies.

use fader_services::request::own;
use fader_services::s3::command::OneSetting;
use fader_services::s3::settings::{CorsRule, Setting, SettingName};
use fader_services::s3::{Command, Reply, S3};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::caller::By;
use super::{Answer, host, plain, set};
use crate::request_handler::RequestHandler;
use crate::s3::cors::{self, Asked as Wanted};
use crate::s3::fault::{Fault, invalid_request};
use crate::s3::{Place, head};

/// The rules of a bucket, for any caller; none where it cannot be asked.
async fn rules(handler: &RequestHandler, bucket: &str) -> Vec<CorsRule> {
    let Ok(Some(owner)) = handler.node.bucket_owner(bucket).await else {
        return Vec::new();
    };
    let command = Command::GetSetting(OneSetting {
        bucket: bucket.to_owned(),
        name: SettingName::Cors,
    });
    let (outcome, _) = handler.node.call(By::account(&owner).call(command)).await;
    match own::<S3>(outcome) {
        Ok(Reply::Setting(Setting::Cors(rules))) => rules,
        _ => Vec::new(),
    }
}

/// Answers a preflight: whether a page may send a request. No client signs one.
pub(super) async fn preflight(handler: &RequestHandler, parts: &Parts, place: &Place) -> Answer {
    let text = |name: &str| head::text(&parts.headers, name);
    let (Some(origin), Some(method)) = (text("origin")?, text("access-control-request-method")?)
    else {
        return Err(invalid_request(
            "Insufficient information. Origin request header needed.",
        ));
    };
    let wanted = Wanted {
        origin,
        method,
        headers: text("access-control-request-headers")?.unwrap_or_default(),
    };
    let rules = rules(handler, &place.bucket).await;
    let Some(headers) = cors::headers(&rules, wanted, true) else {
        return Err(Fault::new(
            "AccessForbidden",
            403,
            "CORSResponse: This CORS request is not allowed. This is usually because the \
             evaluation of Origin, request method / Access-Control-Request-Method or \
             Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
        )
        .with("Method", method)
        .with("ResourceType", "BUCKET"));
    };
    let mut response = plain(StatusCode::OK);
    for (name, value) in headers {
        set(&mut response, name, &value);
    }
    Ok(response)
}

/// Adds what lets a page of another origin see a reply, also one that refuses.
pub(super) async fn add_headers(handler: &RequestHandler, parts: &Parts, headers: &mut HeaderMap) {
    let text = |name: &str| head::text(&parts.headers, name).ok().flatten();
    let Some(origin) = text("origin").filter(|_| parts.method != Method::OPTIONS) else {
        return;
    };
    let domains = &handler.settings.s3_domains;
    let Ok(place) = Place::read(parts.uri.path(), host(parts), domains) else {
        return;
    };
    if place.bucket.is_empty() {
        return;
    }
    let rules = rules(handler, &place.bucket).await;
    let wanted = Wanted {
        origin,
        method: text("access-control-request-method").unwrap_or(parts.method.as_str()),
        headers: "",
    };
    for (name, value) in cors::headers(&rules, wanted, false).unwrap_or_default() {
        let name = HeaderName::from_static(name);
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}
