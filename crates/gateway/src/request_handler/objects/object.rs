//! Requests about one object: put, get, delete, tags, ACL, attributes.

use fader_services::s3::command::{
    DeleteObject, Deletion, Extent, GetObject, PutObject, PutObjectAcl, PutObjectTags,
};
use fader_services::s3::conditions::ReadConditions;
use fader_services::s3::reply::Found;
use fader_services::s3::rows::{Algorithm, Pairs};
use fader_services::s3::settings::{GivenAcl, private};
use fader_services::s3::{Action, Code, Command, Error, Reply};
use hyper::{Method, Response, StatusCode};

use super::reader::{Reader, Unreadable};
use super::sending::{Part, tell_put};
use super::store::Kept;
use super::{Answer, Asked, Body, odd, plain, set, xml};
use crate::outgoing::Outgoing;
use crate::s3::fault::{Fault, invalid_argument, invalid_request};
use crate::s3::head::{self, Range};
use crate::s3::{render, settings};

/// How often an object is looked up whose bytes are gone when they are read.
const LOOKS: usize = 3;
/// Parts that attributes show at most.
const PARTS: u32 = 1000;

impl Asked<'_> {
    /// Refuses what is known to be wrong of an object before its bytes come; else the ACL that it
    /// is given.
    pub(super) fn check_put(&self) -> Result<Option<GivenAcl>, Fault> {
        head::check_left_out(&self.parts.headers)?;
        if self.limits().key_bytes < self.place.key.len() {
            return Err(Error::of(Code::KeyTooLongError).into());
        }
        settings::acl_of_headers(&self.parts.headers)
    }

    pub(super) async fn put_object(&self, body: Body) -> Answer {
        let acl = self.check_put()?;
        let headers = &self.parts.headers;
        let metadata = head::metadata(headers)?;
        let conditions = head::write_conditions(headers)?;
        self.check_bucket(body.length).await?;
        let Kept { stored, sums } = self.keep(None, body, Algorithm::Crc64Nvme).await?;
        let command = PutObject {
            bucket: self.bucket(),
            key: self.key(),
            attempt: stored.owner.attempt,
            content: stored.content.clone(),
            etag: sums.etag,
            checksum: Some(sums.checksum),
            metadata,
            acl,
            conditions,
        };
        let outcome = self.ask(Command::PutObject(Box::new(command))).await;
        match self.committed(outcome, &stored)? {
            Reply::Put(put) => {
                let mut response = plain(StatusCode::OK);
                tell_put(&mut response, &put);
                Ok(response)
            }
            other => Err(odd(&other)),
        }
    }

    /// Finds an object, as the request names it.
    pub(super) async fn find(
        &self,
        action: Action,
        extent: Extent,
        conditions: ReadConditions,
    ) -> Result<(GetObject, Box<Found>), Fault> {
        let command = GetObject {
            bucket: self.bucket(),
            key: self.key(),
            version: head::version(self.parameters)?,
            conditions,
            extent,
            action,
        };
        match self.call(Command::GetObject(command.clone())).await? {
            Reply::Object(found) => Ok((command, found)),
            other => Err(odd(&other)),
        }
    }

    pub(super) async fn get_object(&self) -> Answer {
        self.check_overrides()?;
        let mut looks = 1;
        loop {
            match self.try_get().await {
                Err(Unreadable::Gone) if looks < LOOKS => looks += 1,
                Err(unreadable) => return Err(unreadable.into()),
                Ok(response) => return Ok(response),
            }
        }
    }

    async fn try_get(&self) -> Result<Response<Outgoing>, Unreadable> {
        let mut range = self.header("range")?.and_then(Range::read);
        let number = self.part_number()?;
        if range.is_some() && number.is_some() {
            let message = "Cannot specify both Range header and partNumber query parameter";
            return Err(invalid_request(message).into());
        }
        let extent = match (range, number) {
            (_, Some(number)) => Extent::Part(number, 0),
            _ if self.parts.method == Method::HEAD => Extent::Nothing,
            (Some(Range::Between(start, _) | Range::From(start)), _) => Extent::From(start),
            _ => Extent::From(0),
        };
        let conditions = head::read_conditions(&self.parts.headers, "")?;
        let action = Action::GetObject;
        let (mut command, mut found) = self.find(action, extent, conditions.clone()).await?;
        if range.is_some() && !self.is_range_of(&found)? {
            range = None;
            let extent = match self.parts.method {
                Method::HEAD => Extent::Nothing,
                _ => Extent::From(0),
            };
            (command, found) = self.find(action, extent, conditions).await?;
        }
        let size = found.object().map_or(0, |object| object.size);
        let part = part_of(&found, range, number.is_some(), size)?;
        let status = match part.is_partial {
            true => StatusCode::PARTIAL_CONTENT,
            false => StatusCode::OK,
        };
        let mut response = plain(status);
        self.tell_object(&mut response, &found, &part)?;
        if self.parts.method != Method::HEAD && part.start < part.end {
            let (node, by) = (&self.handler.node, &self.by);
            let reader = Reader::new(node, by, &command, &mut found, part.start, part.end);
            *response.body_mut() = reader.send().await?;
        }
        Ok(response)
    }

    fn is_range_of(&self, found: &Found) -> Result<bool, Fault> {
        let etag = found.object().map_or("", |object| &object.etag);
        head::is_range_of(&self.parts.headers, etag, found.version.modified_ms)
    }

    fn part_number(&self) -> Result<Option<u32>, Fault> {
        let number = self.parameters.get("partNumber").map(|text| {
            let number = text
                .parse()
                .ok()
                .filter(|number| (1..=10_000).contains(number));
            number.ok_or_else(|| {
                let message = "Part number must be an integer between 1 and 10000, inclusive";
                invalid_argument(message, "partNumber", text)
            })
        });
        number.transpose()
    }

    pub(super) async fn delete_object(&self) -> Answer {
        let command = DeleteObject {
            bucket: self.bucket(),
            object: Deletion {
                key: self.key(),
                version: head::version(self.parameters)?,
                conditions: head::delete_conditions(&self.parts.headers)?,
            },
        };
        match self.call(Command::DeleteObject(command)).await? {
            Reply::Deleted(deleted) => {
                let mut response = plain(StatusCode::NO_CONTENT);
                if deleted.is_marker {
                    set(&mut response, "x-amz-delete-marker", "true");
                }
                if let Some(version) = deleted.version {
                    set(&mut response, "x-amz-version-id", &version.to_string());
                }
                Ok(response)
            }
            other => Err(odd(&other)),
        }
    }

    pub(super) async fn attributes(&self) -> Answer {
        let asked = self.header("x-amz-object-attributes")?;
        let asked = asked.ok_or_else(|| {
            invalid_request("Missing required header for this request: x-amz-object-attributes")
        })?;
        let names: Vec<&str> = asked.split(',').map(str::trim).collect();
        let known = [
            "ETag",
            "Checksum",
            "ObjectParts",
            "StorageClass",
            "ObjectSize",
        ];
        if let Some(odd) = names.iter().find(|name| !known.contains(*name)) {
            let message = "Invalid attribute name specified.";
            return Err(invalid_argument(message, "x-amz-object-attributes", *odd));
        }
        let conditions = head::read_conditions(&self.parts.headers, "")?;
        let (after, most) = self.parts_asked()?;
        let extent = match names.contains(&"ObjectParts") {
            true => Extent::Parts(after, most),
            false => Extent::Nothing,
        };
        let (_, found) = self
            .find(Action::GetObjectAttributes, extent, conditions)
            .await?;
        let object = found.object().ok_or_else(|| Error::of(Code::NoSuchKey))?;
        let has = |name: &str| names.contains(&name);
        let mut response = xml(render::attributes(object, &found.extent, after, most, has));
        let modified = render::http_time(found.version.modified_ms);
        set(&mut response, "last-modified", &modified);
        if found.is_versioned {
            set(
                &mut response,
                "x-amz-version-id",
                &found.version.id.to_string(),
            );
        }
        Ok(response)
    }

    /// Which parts a request for attributes wants: those after a number, so many.
    fn parts_asked(&self) -> Result<(u32, u32), Fault> {
        let number = |name: &'static str, default: u32| match self.header(name)? {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| invalid_argument("The number is not one.", name, text)),
        };
        let most = number("x-amz-max-parts", PARTS)?.min(PARTS);
        Ok((number("x-amz-part-number-marker", 0)?, most))
    }

    pub(super) async fn object_tags(&self) -> Answer {
        let (_, found) = self.look(Action::GetObjectTagging).await?;
        let object = found.object().ok_or_else(|| Error::of(Code::NoSuchKey))?;
        let mut response = xml(settings::show_tags(&object.metadata.tags));
        if found.is_versioned {
            set(
                &mut response,
                "x-amz-version-id",
                &found.version.id.to_string(),
            );
        }
        Ok(response)
    }

    pub(super) async fn tag_object(&self, tags: Pairs) -> Answer {
        let status = match self.parts.method {
            Method::DELETE => StatusCode::NO_CONTENT,
            _ => StatusCode::OK,
        };
        let command = PutObjectTags {
            bucket: self.bucket(),
            key: self.key(),
            version: head::version(self.parameters)?,
            tags,
        };
        match self.call(Command::PutObjectTags(command)).await? {
            Reply::Put(put) => {
                let mut response = plain(status);
                if let Some(version) = put.version {
                    set(&mut response, "x-amz-version-id", &version.to_string());
                }
                Ok(response)
            }
            other => Err(odd(&other)),
        }
    }

    pub(super) async fn object_acl(&self) -> Answer {
        let (_, found) = self.look(Action::GetObjectAcl).await?;
        let object = found.object().ok_or_else(|| Error::of(Code::NoSuchKey))?;
        let own = private(&object.owner);
        let acl = object.acl.as_ref().unwrap_or(&own);
        Ok(xml(settings::show_acl(acl, &object.owner)))
    }

    pub(super) async fn put_object_acl(&self, body: &[u8]) -> Answer {
        let command = PutObjectAcl {
            bucket: self.bucket(),
            key: self.key(),
            version: head::version(self.parameters)?,
            acl: match settings::acl_of_headers(&self.parts.headers)? {
                Some(acl) => acl,
                None => GivenAcl::Grants(settings::read_acl(body)?),
            },
        };
        match self.call(Command::PutObjectAcl(command)).await? {
            Reply::Put(_) => Ok(plain(StatusCode::OK)),
            other => Err(odd(&other)),
        }
    }

    /// Finds an object without its bytes.
    async fn look(&self, action: Action) -> Result<(GetObject, Box<Found>), Fault> {
        let conditions = ReadConditions::default();
        self.find(action, Extent::Nothing, conditions).await
    }
}

/// Which bytes of an object are sent.
fn part_of(
    found: &Found,
    range: Option<Range>,
    is_numbered: bool,
    size: u64,
) -> Result<Part, Fault> {
    if let Some((start, bytes)) = found.extent.part.filter(|_| is_numbered) {
        return Ok(Part {
            start,
            end: start + bytes,
            is_partial: 0 < size,
            is_numbered,
        });
    }
    let Some(range) = range else {
        return Ok(Part {
            start: 0,
            end: size,
            is_partial: false,
            is_numbered,
        });
    };
    let (start, end) = range.within(size).ok_or_else(|| not_satisfiable(size))?;
    Ok(Part {
        start,
        end,
        is_partial: true,
        is_numbered,
    })
}

/// The object has none of the bytes that are asked for.
pub(super) fn not_satisfiable(size: u64) -> Fault {
    let mut fault = Fault::new(
        "InvalidRange",
        416,
        "The requested range is not satisfiable",
    );
    fault
        .headers
        .push(("content-range", format!("bytes */{size}")));
    fault.with("ActualObjectSize", size.to_string())
}
