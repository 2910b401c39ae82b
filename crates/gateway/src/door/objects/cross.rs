//! Requests of pages of other origins: preflights, and headers of replies.

use fader_services::request::own;
use fader_services::s3::command::OneSetting;
use fader_services::s3::settings::{CorsRule, Setting, SettingName};
use fader_services::s3::{Command, Reply, S3};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;

use super::caller::By;
use super::{Answer, Asked, plain, set};
use crate::door::Door;
use crate::s3::cors::{self, Asked as Wanted};
use crate::s3::fault::{Fault, invalid_request};
use crate::s3::{Place, head};

/// The rules of a bucket, whoever asks; none where it cannot be asked.
async fn rules(door: &Door, bucket: &str) -> Vec<CorsRule> {
    let Ok(Some(owner)) = door.node.bucket_owner(bucket) else {
        return Vec::new();
    };
    let command = Command::GetSetting(OneSetting {
        bucket: bucket.to_owned(),
        name: SettingName::Cors,
    });
    let (outcome, _) = door.node.call(By::account(&owner).call(command)).await;
    match own::<S3>(outcome) {
        Ok(Reply::Setting(Setting::Cors(rules))) => rules,
        _ => Vec::new(),
    }
}

/// Answers a preflight: whether a page may send a request. Nobody signs one.
pub(super) async fn preflight(door: &Door, parts: &Parts, place: &Place) -> Answer {
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
    let rules = rules(door, &place.bucket).await;
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

/// Adds what lets a page of another origin see a reply.
pub(super) async fn add_headers(asked: &Asked<'_>, headers: &mut HeaderMap) {
    let Ok(Some(origin)) = asked.header("origin") else {
        return;
    };
    if asked.place.bucket.is_empty() {
        return;
    }
    let rules = rules(asked.door, &asked.place.bucket).await;
    let wanted = Wanted {
        origin,
        method: asked.parts.method.as_str(),
        headers: "",
    };
    for (name, value) in cors::headers(&rules, wanted, false).unwrap_or_default() {
        let name = HeaderName::from_static(name);
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}
