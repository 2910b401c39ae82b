//! `fader s3 cat`, `rm` and `presign`.

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use fader_client::S3Request;
use fader_services::ErrorCode;

use super::place::ObjectPlace;
use super::{Service, listing, number};
use crate::failure;
use crate::output;
use crate::sqs::settings::seconds;

/// Bytes of one request.
const PIECE_BYTES: u64 = 8 << 20;
/// The longest life of a presigned URL, in seconds: AWS's.
const EXPIRES_S_MAX: u64 = 7 * 24 * 3600;

/// Which object.
#[derive(Args)]
pub(super) struct CatOptions {
    /// s3://BUCKET/KEY.
    place: ObjectPlace,
}

/// Which objects.
#[derive(Args)]
pub(super) struct RmOptions {
    /// s3://BUCKET/KEY, or with -r s3://BUCKET/PREFIX.
    place: ObjectPlace,
    /// All objects below the prefix, or of the bucket.
    #[arg(short, long)]
    recursive: bool,
}

/// Which object, and for how long.
#[derive(Args)]
pub(super) struct PresignOptions {
    /// s3://BUCKET/KEY.
    place: ObjectPlace,
    /// How long the URL lives, up to 7 days.
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = seconds)]
    expires: u64,
    /// The URL puts the object, in place of getting it.
    #[arg(long)]
    put: bool,
}

/// Prints an object, a piece at a time.
pub(super) async fn cat(service: &Service, options: &CatOptions) -> Result<()> {
    options.place.check_key("`fader s3 ls` lists them")?;
    let (bucket, key) = (&*options.place.bucket, &*options.place.key);
    let head = service
        .call(S3Request::new("HEAD".parse()?, bucket, key))
        .await?;
    let size = number(head.header("content-length"), "length")?;
    let etag = head.header("etag").to_owned();
    let mut at = 0;
    while at < size {
        let range = format!("bytes={at}-{}", size.min(at + PIECE_BYTES) - 1);
        let request = S3Request {
            headers: &[("range", &range), ("if-match", &etag)],
            ..S3Request::new("GET".parse()?, bucket, key)
        };
        let reply = service.call(request).await?;
        if reply.body.is_empty() {
            return failure::fail(
                ErrorCode::AnswerMalformed,
                format_args!("the endpoint sent nothing for {range}"),
            );
        }
        at += reply.body.len() as u64;
        std::io::stdout().write_all(&reply.body)?;
    }
    Ok(std::io::stdout().flush()?)
}

/// Removes objects.
pub(super) async fn remove(service: &Service, options: &RmOptions) -> Result<()> {
    let (bucket, key) = (&*options.place.bucket, &*options.place.key);
    if !options.recursive {
        options.place.check_key("-r removes all of them")?;
        service
            .call(S3Request::new("DELETE".parse()?, bucket, key))
            .await?;
        return Ok(());
    }
    let prefix = options.place.folder();
    let mut removed = 0;
    loop {
        // What is listed first is gone then: the first page is always the next one.
        let page = listing::page(service, bucket, &prefix, "", None).await?;
        if page.objects.is_empty() {
            output::tell(&format!("removed {removed} objects"));
            return Ok(());
        }
        removed += page.objects.len();
        let keys: String = page.objects.iter().map(|it| element(&it.key)).collect();
        let body = format!("<Delete><Quiet>true</Quiet>{keys}</Delete>");
        let md5 = super::digest::md5_base64(body.as_bytes());
        let request = S3Request {
            query: &[("delete", "")],
            headers: &[("content-md5", &md5)],
            body: body.into(),
            ..S3Request::new("POST".parse()?, bucket, "")
        };
        let root = service.call(request).await?.xml()?;
        if let Some(error) = root.child("Error") {
            let (key, message) = (error.child_text("Key"), error.child_text("Message"));
            return failure::fail(
                ErrorCode::RequestRefused,
                format_args!("{} is not removed: {message}", output::visible(key)),
            );
        }
    }
}

fn element(key: &str) -> String {
    let mut text = String::from("<Object><Key>");
    for character in key.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            control if control < ' ' => text.push_str(&format!("&#{};", u32::from(control))),
            other => text.push(other),
        }
    }
    text.push_str("</Key></Object>");
    text
}

/// Prints a URL.
pub(super) fn presign(service: &Service, options: &PresignOptions) -> Result<()> {
    if !(1..=EXPIRES_S_MAX).contains(&options.expires) {
        return failure::invalid("a URL lives from 1 second to 7 days");
    }
    let method = if options.put { "PUT" } else { "GET" };
    let request = S3Request::new(method.parse()?, &options.place.bucket, &options.place.key);
    let url = service.0.presigned(&request, options.expires)?;
    output::print(&format!("{url}\n"))
}
