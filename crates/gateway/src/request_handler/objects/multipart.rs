//! Multipart uploads: they are opened, get parts, are listed, completed and aborted.

use fader_services::s3::command::{
    CompleteUpload, CreateUpload, HeadBucket, ListParts, ListedPart, OneUpload, PutPart,
};
use fader_services::s3::reply::Parts;
use fader_services::s3::rows::{Algorithm, Checksum, Part};
use fader_services::s3::{Action, Code, Command, Error, Reply, abortion, read_upload};
use hyper::{Response, StatusCode};

use super::sending::tell_expiry;
use super::store::Kept;
use super::{Answer, Asked, Body, now_ms, odd, plain, set, xml};
use crate::outgoing::Outgoing;
use crate::s3::fault::{Fault, bad_digest, invalid_argument, invalid_request, malformed_xml};
use crate::s3::xml::Element;
use crate::s3::{checksum, head, render};

impl Asked<'_> {
    pub(super) async fn create_upload(&self) -> Answer {
        let acl = self.check_put()?;
        let algorithm = self.upload_algorithm()?;
        let command = CreateUpload {
            bucket: self.bucket(),
            key: self.key(),
            metadata: head::metadata(&self.parts.headers)?,
            acl,
            algorithm,
        };
        match self.call(Command::CreateUpload(command)).await? {
            Reply::Upload(id) => {
                let body = render::upload(&self.place.bucket, &self.place.key, id);
                let mut response = xml(body);
                if let Some((algorithm, is_whole)) = algorithm {
                    let name = checksum::name(algorithm);
                    set(&mut response, "x-amz-checksum-algorithm", name);
                    set(
                        &mut response,
                        "x-amz-checksum-type",
                        checksum::kind_name(is_whole),
                    );
                }
                let action = Action::PutObject;
                self.tell_abortion(&mut response, action, now_ms()).await;
                Ok(response)
            }
            other => Err(odd(&other)),
        }
    }

    /// The checksums of an upload, and whether that of its object is of all bytes.
    fn upload_algorithm(&self) -> Result<Option<(Algorithm, bool)>, Fault> {
        let algorithm = self
            .header("x-amz-checksum-algorithm")?
            .map(checksum::named);
        let kind = self.told_kind()?;
        let Some(algorithm) = algorithm.transpose()? else {
            return match kind {
                None => Ok(None),
                Some(_) => Err(invalid_request(
                    "The x-amz-checksum-type header can only be used with the \
                     x-amz-checksum-algorithm header.",
                )),
            };
        };
        let is_whole = kind.unwrap_or(algorithm == Algorithm::Crc64Nvme);
        let is_possible = match algorithm {
            Algorithm::Crc64Nvme => is_whole,
            Algorithm::Sha1 | Algorithm::Sha256 => !is_whole,
            Algorithm::Crc32 | Algorithm::Crc32c => true,
        };
        let kind = checksum::kind_name(is_whole);
        match is_possible {
            true => Ok(Some((algorithm, is_whole))),
            false => Err(invalid_request(format!(
                "The {kind} checksum type cannot be used with the {} checksum algorithm.",
                checksum::name(algorithm).to_ascii_lowercase()
            ))),
        }
    }

    /// Whether the checksum of an object is one of all its bytes, if the request says.
    fn told_kind(&self) -> Result<Option<bool>, Fault> {
        match self.header("x-amz-checksum-type")? {
            None => Ok(None),
            Some("FULL_OBJECT") => Ok(Some(true)),
            Some("COMPOSITE") => Ok(Some(false)),
            Some(other) => {
                let message = "Value for x-amz-checksum-type header is invalid.";
                Err(invalid_argument(message, "x-amz-checksum-type", other))
            }
        }
    }

    /// Tells when a rule of the lifecycle aborts an upload that was opened then, to one who may do
    /// this.
    async fn tell_abortion(
        &self,
        response: &mut Response<Outgoing>,
        action: Action,
        initiated_ms: u64,
    ) {
        let command = HeadBucket {
            bucket: self.bucket(),
            action,
            key: Some(self.key()),
        };
        let Ok(Reply::Bucket(settings)) = self.call(Command::HeadBucket(command)).await else {
            return;
        };
        let key = &self.place.key;
        let Some(expiry) = abortion(&settings, self.limits(), key, initiated_ms) else {
            return;
        };
        set(
            response,
            "x-amz-abort-date",
            &render::http_time(expiry.at_ms),
        );
        set(response, "x-amz-abort-rule-id", &expiry.rule);
    }

    /// The upload that the request names.
    pub(super) fn upload(&self) -> Result<OneUpload, Fault> {
        let text = self.parameters.get("uploadId").unwrap_or_default();
        let upload = read_upload(text)
            .ok_or_else(|| Fault::from(Error::of(Code::NoSuchUpload)).with("UploadId", text))?;
        Ok(OneUpload {
            bucket: self.bucket(),
            key: self.key(),
            upload,
        })
    }

    /// The number of the part that the request names.
    pub(super) fn number(&self) -> Result<u32, Fault> {
        let text = self.parameters.get("partNumber").unwrap_or_default();
        let most = self.limits().parts;
        let number = text
            .parse()
            .ok()
            .filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| {
            let message = format!("Part number must be an integer between 1 and {most}, inclusive");
            invalid_argument(message, "partNumber", text)
        })
    }

    /// A page of the parts of an open upload.
    async fn parts(
        &self,
        of: &OneUpload,
        after: u32,
        count: Option<usize>,
    ) -> Result<Parts, Fault> {
        let command = ListParts {
            of: of.clone(),
            after,
            count,
        };
        match self.call(Command::ListParts(command)).await? {
            Reply::Parts(parts) => Ok(*parts),
            other => Err(odd(&other)),
        }
    }

    /// The checksums of an open upload.
    pub(super) async fn algorithm_of(
        &self,
        of: &OneUpload,
    ) -> Result<Option<(Algorithm, bool)>, Fault> {
        let parts = self.parts(of, 0, Some(0)).await?;
        Ok(parts.upload.algorithm)
    }

    pub(super) async fn upload_part(&self, body: Body) -> Answer {
        head::check_left_out(&self.parts.headers)?;
        let (of, number) = (self.upload()?, self.number()?);
        let algorithm = self.algorithm_of(&of).await?;
        let told = body.told.checksum.as_ref().map(|it| it.0);
        if let (Some((algorithm, _)), Some(told)) = (algorithm, told)
            && algorithm != told
        {
            return Err(mismatch(Some(algorithm), told));
        }
        let default = algorithm.map_or(Algorithm::Crc64Nvme, |it| it.0);
        let kept = self.keep(Some(of.upload), body, default).await?;
        let (etag, checksum) = self.commit_part(of, number, kept).await?;
        let mut response = plain(StatusCode::OK);
        set(&mut response, "etag", &render::quoted(&etag));
        if told.is_some() || algorithm.is_some() {
            set(
                &mut response,
                checksum::header(checksum.algorithm),
                &checksum.value,
            );
        }
        Ok(response)
    }

    /// Commits a part whose bytes are stored.
    pub(super) async fn commit_part(
        &self,
        of: OneUpload,
        number: u32,
        kept: Kept,
    ) -> Result<(String, Checksum), Fault> {
        let Kept { stored, sums } = kept;
        let command = PutPart {
            of,
            number,
            attempt: stored.owner.attempt,
            content: stored.content.clone(),
            etag: sums.etag,
            checksum: Some(sums.checksum.clone()),
        };
        let outcome = self.ask(Command::PutPart(command)).await;
        match self.committed(outcome, &stored)? {
            Reply::Part(etag) => Ok((etag, sums.checksum)),
            other => Err(odd(&other)),
        }
    }

    pub(super) async fn abort_upload(&self) -> Answer {
        let command = Command::AbortUpload(self.upload()?);
        self.call(command).await?;
        Ok(plain(StatusCode::NO_CONTENT))
    }

    pub(super) async fn list_parts(&self) -> Answer {
        let of = self.upload()?;
        let after = self
            .count("part-number-marker", "partNumberMarker")?
            .unwrap_or(0);
        let most = self.count("max-parts", "maxParts")?;
        let after = u32::try_from(after).unwrap_or(u32::MAX);
        let command = ListParts {
            of: of.clone(),
            after,
            count: most,
        };
        let parts = self.parts(&of, after, most).await?;
        let shown = most.unwrap_or(1000).min(1000);
        let encoding = self.encoding()?;
        let mut response = xml(render::parts(&command, shown, encoding, &parts));
        let action = Action::ListMultipartUploadParts;
        self.tell_abortion(&mut response, action, parts.upload.initiated_ms)
            .await;
        Ok(response)
    }

    pub(super) async fn complete_upload(&self, body: &[u8]) -> Answer {
        let of = self.upload()?;
        let listed = read_parts(body)?;
        let size = self.header("x-amz-mp-object-size")?.map(|text| {
            let message = "Value for x-amz-mp-object-size header is invalid.";
            let invalid = |_| invalid_argument(message, "x-amz-mp-object-size", text);
            text.parse().map_err(invalid)
        });
        let conditions = head::write_conditions(&self.parts.headers)?;
        let told = self.told_of_whole()?;
        let (listed, checksum) = self.joined(&of, listed, &told).await?;
        if let (Some(checksum), Some((_, told))) = (&checksum, told.sum) {
            check_joined(checksum, told)?;
        }
        let command = CompleteUpload {
            of,
            parts: listed,
            checksum,
            size: size.transpose()?,
            conditions,
        };
        match self.call(Command::CompleteUpload(command)).await? {
            Reply::Put(put) => {
                let (bucket, key) = (&self.place.bucket, &self.place.key);
                let mut response = xml(render::completed(&self.location(), bucket, key, &put));
                if let Some(version) = put.version {
                    set(&mut response, "x-amz-version-id", &version.to_string());
                }
                tell_expiry(&mut response, put.expiry.as_ref());
                Ok(response)
            }
            other => Err(odd(&other)),
        }
    }

    /// What a completion tells of the checksum of its object.
    fn told_of_whole(&self) -> Result<ToldOfWhole<'_>, Fault> {
        let sum = match checksum::sent(&self.parts.headers)? {
            Some(algorithm) => {
                let value = self.header(checksum::header(algorithm))?;
                Some((algorithm, value.unwrap_or_default()))
            }
            None => None,
        };
        Ok(ToldOfWhole {
            sum,
            is_whole: self.told_kind()?,
        })
    }

    /// The listed parts, and the checksum of their object, joined from those of the stored parts.
    /// The commit compares the parts again, by ETag and checksum.
    async fn joined(
        &self,
        of: &OneUpload,
        listed: Vec<ListedPart>,
        told: &ToldOfWhole<'_>,
    ) -> Result<(Vec<ListedPart>, Option<Checksum>), Fault> {
        let mut stored: Vec<(u32, Part)> = Vec::new();
        let mut after = 0;
        let of_upload = loop {
            let page = match self.parts(of, after, None).await {
                Ok(page) => page,
                // It may be completed already: the commit answers that again.
                Err(fault) if fault.code == "NoSuchUpload" => return Ok((listed, None)),
                Err(fault) => return Err(fault),
            };
            stored.extend(page.parts);
            match page.next {
                Some(next) => after = next,
                None => break page.upload.algorithm,
            }
        };
        let Some((algorithm, is_whole)) = told.agreed(of_upload)? else {
            return Ok((listed, None));
        };
        let mut sums = Vec::with_capacity(listed.len());
        for part in &listed {
            let found = stored.binary_search_by_key(&part.number, |it| it.0);
            let found = found.ok().map(|at| &stored[at].1);
            let found = found.filter(|found| found.etag == part.etag);
            let found = found.ok_or_else(|| Error::of(Code::InvalidPart))?;
            if part.checksum.is_none() && !is_whole {
                return Err(invalid_request(format!(
                    "The upload was created using a {} checksum. The complete request must \
                     include the checksum for each part. It was missing for part {} in the \
                     request.",
                    checksum::name(algorithm).to_ascii_lowercase(),
                    part.number
                )));
            }
            let value = found
                .checksum
                .as_ref()
                .filter(|it| it.algorithm == algorithm);
            let value = value.ok_or_else(|| match of_upload {
                Some(_) => Error::of(Code::InvalidPart).into(),
                None => mismatch(None, algorithm),
            })?;
            sums.push((&*value.value, found.size));
        }
        let checksum = checksum::join(algorithm, is_whole, sums.into_iter());
        match (&checksum, of_upload) {
            (None, None) => Err(mismatch(None, algorithm)),
            _ => Ok((listed, checksum)),
        }
    }
}

/// What a completion tells of the checksum of its object.
struct ToldOfWhole<'a> {
    sum: Option<(Algorithm, &'a str)>,
    /// Whether it is of all bytes, if that is told.
    is_whole: Option<bool>,
}

impl ToldOfWhole<'_> {
    /// The checksum that is computed of an upload with this one. Where the upload has none, what is
    /// told is compared all the same: with the checksum of all bytes.
    ///
    /// # Errors
    /// InvalidRequest when the upload has another.
    fn agreed(&self, of: Option<(Algorithm, bool)>) -> Result<Option<(Algorithm, bool)>, Fault> {
        let is_whole = of.is_none_or(|it| it.1);
        if self.is_whole.is_some_and(|told| told != is_whole) {
            return Err(invalid_request(format!(
                "The upload was created using the {} checksum mode. The complete request must use \
                 the same checksum mode.",
                checksum::kind_name(is_whole)
            )));
        }
        match (of, self.sum) {
            (Some((algorithm, _)), Some((told, _))) if algorithm != told => {
                Err(mismatch(Some(algorithm), told))
            }
            (None, told) => Ok(told.map(|(algorithm, _)| (algorithm, true))),
            (of, _) => Ok(of),
        }
    }
}

/// A checksum of another algorithm than the upload has.
fn mismatch(expected: Option<Algorithm>, told: Algorithm) -> Fault {
    let expected = expected.map_or("null", checksum::name);
    invalid_request(format!(
        "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
        expected.to_ascii_lowercase(),
        checksum::name(told).to_ascii_lowercase()
    ))
}

/// Compares a joined checksum with the one that the client has.
fn check_joined(joined: &Checksum, told: &str) -> Result<(), Fault> {
    let bare = joined.value.split_once('-').map(|(value, _)| value);
    match told == joined.value || bare == Some(told) {
        true => Ok(()),
        false => Err(bad_digest(checksum::name(joined.algorithm))),
    }
}

/// Reads the list of parts of a completion.
fn read_parts(body: &[u8]) -> Result<Vec<ListedPart>, Fault> {
    let root = Element::parse(body, "CompleteMultipartUpload")?;
    let read = |part: &Element| {
        let checksums = checksum::ALL.iter();
        let mut values = checksums.filter_map(|it| part.text_of(checksum::element(*it)));
        Ok(ListedPart {
            number: part.parsed("PartNumber")?.ok_or_else(malformed_xml)?,
            etag: part.need("ETag")?.trim().trim_matches('"').to_owned(),
            checksum: values.next().map(|it| it.trim().to_owned()),
        })
    };
    root.children("Part").map(read).collect()
}
