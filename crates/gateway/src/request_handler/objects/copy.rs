//! Copies: bytes are read from one object and stored as another, inside the server.

use fader_services::Kind;
use fader_services::catalog::Name;
use fader_services::s3::command::{Extent, GetObject, PutObject};
use fader_services::s3::reply::Found;
use fader_services::s3::rows::{Algorithm, Metadata};
use fader_services::s3::{Action, Code, Command, Error, Reply};
use hyper::Response;

use super::caller::By;
use super::reader::Reader;
use super::sending::tell_put;
use super::store::Kept;
use super::{Answer, Asked, now_ms, odd, of_trouble, set, xml};
use crate::outgoing::Outgoing;
use crate::s3::digest::{Digest, Told};
use crate::s3::fault::{Fault, invalid_argument, invalid_request};
use crate::s3::head::{self, CopySource, Range};
use crate::s3::{checksum, render};

/// The source of a copy, found.
struct Origin {
    by: By,
    asked: GetObject,
    found: Box<Found>,
    size: u64,
}

impl Asked<'_> {
    fn copy_source(&self) -> Result<CopySource, Fault> {
        CopySource::read(self.header("x-amz-copy-source")?.unwrap_or_default())
    }

    /// Finds the source of a copy, if its conditions hold.
    async fn origin(&self, source: CopySource, from: u64) -> Result<Origin, Fault> {
        let conditions = head::read_conditions(&self.parts.headers, "x-amz-copy-source-")?;
        let expected = self.header("x-amz-source-expected-bucket-owner")?;
        let mut by = self.by.clone();
        by.caller.expected_owner = expected.map(str::to_owned);
        let asked = GetObject {
            bucket: source.bucket,
            key: source.key,
            version: source.version,
            conditions,
            extent: Extent::From(from),
            action: Action::GetObject,
        };
        let outcome = self.ask_by(&by, Command::GetObject(asked.clone())).await;
        let found = match outcome {
            Ok(Reply::Object(found)) => found,
            Ok(other) => return Err(odd(&other)),
            // A copy is no read that a cache may answer.
            Err(error) if error.code == Code::NotModified => {
                return Err(Error {
                    condition: error.condition,
                    ..Error::of(Code::PreconditionFailed)
                }
                .into());
            }
            Err(error) if error.code == Code::MethodNotAllowed => {
                return Err(invalid_request(
                    "The source of a copy request may not specifically refer to a delete marker \
                     by version id.",
                ));
            }
            Err(error) => {
                let fault = Fault::from(error);
                return Err(fault.about(&asked.bucket, &asked.key));
            }
        };
        let size = found.object().map_or(0, |object| object.size);
        Ok(Origin {
            by,
            asked,
            found,
            size,
        })
    }

    /// Stores bytes of the source, for the destination.
    async fn keep_copy(
        &self,
        mut origin: Origin,
        start: u64,
        end: u64,
        upload: Option<u128>,
        algorithm: Algorithm,
    ) -> Result<(Kept, Box<Found>), Fault> {
        if self.limits().put_bytes < end - start {
            return Err(invalid_request(format!(
                "The specified copy source is larger than the maximum allowable size for a copy \
                 source: {}",
                self.limits().put_bytes
            )));
        }
        let name = Name::new(Kind::Bucket, &self.by.account, &self.place.bucket);
        let begun = self
            .handler
            .node
            .begin_body(name, upload, Some(end - start));
        let mut writer = begun.await.map_err(of_trouble)?;
        let mut digest = Digest::sized(Told::default(), algorithm, end - start, &self.handler.md5s);
        let (node, found) = (&self.handler.node, &mut origin.found);
        let mut reader = Reader::new(node, &origin.by, &origin.asked, found, start, end);
        while let Some(bytes) = reader.next().await? {
            digest.update(&bytes).await?;
            writer.push(bytes).await.map_err(of_trouble)?;
        }
        let sums = digest.finish(&Vec::new()).await?;
        let stored = writer.finish().await.map_err(of_trouble)?;
        Ok((Kept { stored, sums }, origin.found))
    }

    pub(super) async fn copy_object(&self) -> Answer {
        let acl = self.check_put()?;
        let source = self.copy_source()?;
        let is_replaced = self.replaces("x-amz-metadata-directive")?;
        let are_tags_replaced = self.replaces("x-amz-tagging-directive")?;
        let is_itself = source.bucket == self.place.bucket && source.key == self.place.key;
        if is_itself && source.version.is_none() && !is_replaced && !are_tags_replaced {
            return Err(invalid_request(
                "This copy request is illegal because it is trying to copy an object to itself \
                 without changing the object's metadata, storage class, website redirect location \
                 or encryption attributes.",
            ));
        }
        let conditions = head::write_conditions(&self.parts.headers)?;
        let named = self
            .header("x-amz-checksum-algorithm")?
            .map(checksum::named);
        let named = named.transpose()?;
        let origin = self.origin(source, 0).await?;
        let given = head::metadata(&self.parts.headers)?;
        let object = origin.found.object();
        let kept = object
            .map(|object| object.metadata.clone())
            .unwrap_or_default();
        let metadata = joined(kept, given, is_replaced, are_tags_replaced);
        let of_source = object.and_then(|object| object.checksum.as_ref());
        let algorithm = named.or(of_source.map(|it| it.algorithm));
        let algorithm = algorithm.unwrap_or(Algorithm::Crc64Nvme);
        let end = origin.size;
        let kept = self.keep_copy(origin, 0, end, None, algorithm).await?;
        let (Kept { stored, sums }, found) = kept;
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
        let put = match self.committed(outcome, &stored)? {
            Reply::Put(put) => put,
            other => return Err(odd(&other)),
        };
        let body = render::copied(
            "CopyObjectResult",
            &put.etag,
            put.checksum.as_ref(),
            now_ms(),
        );
        let mut response = xml(body);
        tell_put(&mut response, &put);
        tell_source(&mut response, &found);
        Ok(response)
    }

    /// Whether a directive says REPLACE.
    fn replaces(&self, name: &'static str) -> Result<bool, Fault> {
        match self.header(name)? {
            None | Some("COPY") => Ok(false),
            Some("REPLACE") => Ok(true),
            Some(other) => Err(invalid_argument("Unknown directive.", name, other)),
        }
    }

    pub(super) async fn copy_part(&self) -> Answer {
        let (of, number) = (self.upload()?, self.number()?);
        let algorithm = self.algorithm_of(&of).await?.map(|it| it.0);
        let text = self.header("x-amz-copy-source-range")?;
        let range = match text.map(|text| (text, Range::read(text))) {
            None => None,
            Some((_, Some(Range::Between(first, last)))) => Some((first, last)),
            Some((text, _)) => {
                let message = "The x-amz-copy-source-range value must be of the form \
                               bytes=first-last where first and last are the zero-based offsets \
                               of the first and last bytes to copy";
                return Err(invalid_argument(message, "x-amz-copy-source-range", text));
            }
        };
        let start = range.map_or(0, |(first, _)| first);
        let origin = self.origin(self.copy_source()?, start).await?;
        let end = range.map_or(origin.size, |(_, last)| last.saturating_add(1));
        if origin.size < end {
            let message = format!(
                "Range specified is not valid for source object of size: {}",
                origin.size
            );
            let value = text.unwrap_or_default();
            return Err(invalid_argument(message, "x-amz-copy-source-range", value));
        }
        let sum = algorithm.unwrap_or(Algorithm::Crc64Nvme);
        let (kept, found) = self
            .keep_copy(origin, start, end, Some(of.upload), sum)
            .await?;
        let (etag, checksum) = self.commit_part(of, number, kept).await?;
        let shown = algorithm.map(|_| &checksum);
        let mut response = xml(render::copied("CopyPartResult", &etag, shown, now_ms()));
        tell_source(&mut response, &found);
        Ok(response)
    }
}

/// The metadata of a copy.
fn joined(kept: Metadata, given: Metadata, is_replaced: bool, are_tags: bool) -> Metadata {
    let (headers, user) = match is_replaced {
        true => (given.headers, given.user),
        false => (kept.headers, kept.user),
    };
    let tags = if are_tags { given.tags } else { kept.tags };
    Metadata {
        headers,
        user,
        tags,
    }
}

fn tell_source(response: &mut Response<Outgoing>, found: &Found) {
    if found.is_versioned {
        let version = found.version.id.to_string();
        set(response, "x-amz-copy-source-version-id", &version);
    }
}
