//! Forms of browsers: an object is put by a page, with a policy that an owner signed.

use fader_services::Kind;
use fader_services::catalog::Name;
use fader_services::request::own;
use fader_services::s3::command::{HeadBucket, PutObject};
use fader_services::s3::conditions::WriteConditions;
use fader_services::s3::rows::Algorithm;
use fader_services::s3::settings::GivenAcl;
use fader_services::s3::{Action, Code, Command, Error, Reply, S3};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use super::caller::By;
use super::sending::tell_put;
use super::{Answer, host, odd, of_trouble, plain, scheme, set, xml};
use crate::outgoing::Outgoing;
use crate::request_handler::{Arrival, RequestHandler, now_s};
use crate::s3::body::{Source, length_of};
use crate::s3::digest::{Digest, Told};
use crate::s3::fault::{
    Fault, incomplete_body, invalid_argument, invalid_request, missing_length, of_signature,
    too_large,
};
use crate::s3::form::{Fields, Reader};
use crate::s3::post_policy::{self, Sizes};
use crate::s3::{Operation, Place, head, render, settings};
use crate::signature::Form;

/// What the head of a form may have beside the file.
const SLACK_BYTES: u64 = 1 << 20;

/// Answers a form.
pub(super) async fn post(
    handler: &RequestHandler,
    parts: &Parts,
    place: &Place,
    arrival: Arrival,
    incoming: Incoming,
) -> Answer {
    let kind = head::text(&parts.headers, CONTENT_TYPE.as_str())?.unwrap_or_default();
    let mut reader = Reader::new(kind).ok_or_else(|| {
        Fault::new(
            "PreconditionFailed",
            412,
            "Bucket POST must be of the enclosure-type multipart/form-data",
        )
    })?;
    let length = length_of(&incoming).ok_or_else(missing_length)?;
    let size_max = handler.settings.s3_limits.put_bytes;
    if size_max.saturating_add(SLACK_BYTES) < length {
        return Err(too_large(length, size_max));
    }
    let mut source = Source::plain(incoming);
    while !reader.reach_file()? {
        let bytes = source.next().await?.ok_or_else(incomplete_body)?;
        reader.push(&bytes);
    }
    let mut fields = reader.fields().clone();
    fields.name_key();
    let headers = headers_of(&fields)?;
    let judged = judge(handler, parts, &headers, arrival, place, &fields, size_max);
    let (by, sizes) = judged.await?;
    let object = Object::read(&fields, &headers, &place.bucket)?;
    let (kept, put) = keep(handler, &by, source, reader, object, length, sizes).await?;
    let site = format!("{}://{}", scheme(arrival.is_secure), host(parts));
    let site = match place.is_in_host {
        true => site,
        false => format!("{site}/{}", place.bucket),
    };
    reply(&site, &fields, &kept.0, &kept.1, &put)
}

/// Whose request a form is, and how large its file may be.
async fn judge(
    handler: &RequestHandler,
    parts: &Parts,
    headers: &HeaderMap,
    arrival: Arrival,
    place: &Place,
    fields: &Fields,
    size_max: u64,
) -> Result<(By, Sizes), Fault> {
    let form = Form::read(|name| fields.get(name));
    let form = form.map_err(|error| of_signature(&error, true))?;
    let Some(form) = form else {
        let by = handler.s3_by_form(None, parts, headers, arrival)?;
        return Ok((by.doing(Operation::PostObject), Sizes::up_to(size_max)));
    };
    let key = handler
        .with_keys(|open| handler.verifier.verify_form(&form, now_s(), open))
        .await;
    let key = key.map_err(|error| of_signature(&error, true))?;
    let sizes = post_policy::check(form.policy, &place.bucket, fields, now_s(), size_max)?;
    let by = handler.s3_by_form(Some(&key), parts, headers, arrival)?;
    Ok((by.doing(Operation::PostObject), sizes))
}

/// The object that a form puts, without its bytes.
struct Object {
    bucket: String,
    key: String,
    metadata: fader_services::s3::rows::Metadata,
    acl: Option<GivenAcl>,
    told: Told,
}

/// What headers say of a put, fields say of a form.
fn headers_of(fields: &Fields) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    for (name, value) in &fields.pairs {
        let name = match name.to_ascii_lowercase() {
            name if name == "acl" => "x-amz-acl".to_owned(),
            name => name,
        };
        let pair = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .zip(HeaderValue::from_bytes(value.as_bytes()).ok());
        match pair {
            Some((name, value)) => headers.insert(name, value),
            None if name.starts_with("x-amz-") => {
                return Err(invalid_argument("The field has no such value.", &name, ""));
            }
            None => None,
        };
    }
    if !headers.contains_key(CONTENT_TYPE)
        && let Some(kind) = &fields.file_type
        && let Ok(kind) = HeaderValue::from_bytes(kind.as_bytes())
    {
        headers.insert(CONTENT_TYPE, kind);
    }
    Ok(headers)
}

impl Object {
    fn read(fields: &Fields, headers: &HeaderMap, bucket: &str) -> Result<Object, Fault> {
        let key = fields.get("key").ok_or_else(|| {
            invalid_argument("Bucket POST must contain a field named 'key'.", "key", "")
        })?;
        head::check_left_out(headers)?;
        let mut metadata = head::metadata(headers)?;
        if let Some(tagging) = fields.get("tagging") {
            metadata.tags = settings::tags(tagging.as_bytes())?;
        }
        Ok(Object {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            metadata,
            acl: settings::acl_of_headers(headers)?,
            told: Told::read(headers)?,
        })
    }
}

/// Stores the file and commits it.
async fn keep(
    handler: &RequestHandler,
    by: &By,
    mut source: Source,
    mut reader: Reader,
    object: Object,
    length: u64,
    sizes: Sizes,
) -> Result<((String, String), fader_services::s3::reply::Put), Fault> {
    if handler.settings.s3_limits.key_bytes < object.key.len() {
        return Err(Error::of(Code::KeyTooLongError).into());
    }
    if matches!(object.told.checksum, Some((_, None))) {
        return Err(invalid_request("A form has no trailer."));
    }
    let allowed = HeadBucket {
        bucket: object.bucket.clone(),
        action: Action::PutObject,
        key: Some(object.key.clone()),
    };
    let (outcome, _) = handler
        .node
        .call(by.call(Command::HeadBucket(allowed)))
        .await;
    own::<S3>(outcome)?;
    let name = Name::new(Kind::Bucket, &by.account, &object.bucket);
    let begun = handler.node.begin_body(name, None, Some(length)).await;
    let mut writer = begun.map_err(of_trouble)?;
    let mut digest = Digest::sized(object.told, Algorithm::Crc64Nvme, length, &handler.md5s);
    loop {
        while let Some(bytes) = reader.take_file() {
            digest.update(&bytes).await?;
            sizes.check_growing(digest.size())?;
            writer.push(bytes).await.map_err(of_trouble)?;
        }
        match source.next().await? {
            Some(bytes) => reader.push(&bytes),
            None => break,
        }
    }
    reader.finish()?;
    sizes.check_whole(digest.size())?;
    let sums = digest.finish(&Vec::new()).await?;
    let stored = writer.finish().await.map_err(of_trouble)?;
    let names = (object.bucket.clone(), object.key.clone());
    let command = PutObject {
        bucket: object.bucket,
        key: object.key,
        attempt: stored.owner.attempt,
        content: stored.content.clone(),
        etag: sums.etag,
        checksum: Some(sums.checksum),
        metadata: object.metadata,
        acl: object.acl,
        conditions: WriteConditions::default(),
    };
    let call = by.call(Command::PutObject(Box::new(command)));
    let (outcome, _) = handler.node.call(call).await;
    match own::<S3>(outcome) {
        Ok(Reply::Put(put)) => Ok((names, put)),
        Ok(other) => Err(odd(&other)),
        Err(error) => {
            if error.code.status() < 500 {
                handler.node.give_up(&stored);
            }
            Err(error.into())
        }
    }
}

/// What a form asks to be told; `site` is the URL of its bucket.
fn reply(
    site: &str,
    fields: &Fields,
    bucket: &str,
    key: &str,
    put: &fader_services::s3::reply::Put,
) -> Answer {
    let mut path = Vec::new();
    for (at, part) in key.split('/').enumerate() {
        if 0 < at {
            path.push(b'/');
        }
        crate::percent::encode(part, &mut path);
    }
    let path = String::from_utf8_lossy(&path).into_owned();
    let location = format!("{site}/{path}");
    let redirect = fields
        .get("success_action_redirect")
        .or(fields.get("redirect"));
    let mut response: Response<Outgoing> = match redirect.filter(|it| it.starts_with("http")) {
        Some(to) => {
            let mark = if to.contains('?') { '&' } else { '?' };
            let etag = format!("%22{}%22", put.etag);
            let to = format!("{to}{mark}bucket={bucket}&key={path}&etag={etag}");
            let mut response = plain(StatusCode::SEE_OTHER);
            set(&mut response, "location", &to);
            return Ok(response);
        }
        None => match fields.get("success_action_status") {
            Some("200") => plain(StatusCode::OK),
            Some("201") => {
                let mut response = xml(render::posted(&location, bucket, key, &put.etag));
                *response.status_mut() = StatusCode::CREATED;
                response
            }
            _ => plain(StatusCode::NO_CONTENT),
        },
    };
    set(&mut response, "location", &location);
    tell_put(&mut response, put);
    Ok(response)
}
