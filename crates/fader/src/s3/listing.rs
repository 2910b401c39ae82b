//! `fader s3 ls`, and lists of objects for other verbs.

use anyhow::Result;
use clap::Args;
use fader_client::{Element, S3Request};
use serde_json::json;

use super::place::ObjectPlace;
use super::{Service, number};
use crate::output::{self, visible};

/// What is listed.
#[derive(Args)]
pub(super) struct Options {
    /// s3://BUCKET or s3://BUCKET/PREFIX; the buckets if absent.
    place: Option<ObjectPlace>,
    /// All objects, also those below further slashes.
    #[arg(short, long)]
    recursive: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// An object of a list.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// Its key.
    pub(super) key: String,
    /// Its bytes.
    pub(super) size: u64,
    /// Without quotes.
    pub(super) etag: String,
    /// As the endpoint writes it.
    pub(super) modified: String,
}

/// A page of a list.
pub(super) struct Page {
    /// Its objects.
    pub(super) objects: Vec<Listed>,
    /// Common prefixes.
    prefixes: Vec<String>,
    /// The token of the next page.
    pub(super) next: Option<String>,
}

/// A page of the objects whose keys begin so.
pub(super) async fn page(
    service: &Service,
    bucket: &str,
    prefix: &str,
    delimiter: &str,
    token: Option<&str>,
) -> Result<Page> {
    let mut query = vec![("list-type", "2"), ("prefix", prefix)];
    if !delimiter.is_empty() {
        query.push(("delimiter", delimiter));
    }
    if let Some(token) = token {
        query.push(("continuation-token", token));
    }
    let request = S3Request {
        query: &query,
        ..S3Request::new("GET".parse()?, bucket, "")
    };
    let root = service.call(request).await?.xml()?;
    let mut objects = Vec::new();
    for object in root.children("Contents") {
        objects.push(Listed {
            key: object.child_text("Key").to_owned(),
            size: number(object.child_text("Size"), "size")?,
            etag: object.child_text("ETag").trim_matches('"').to_owned(),
            modified: object.child_text("LastModified").to_owned(),
        });
    }
    let prefixes = root.children("CommonPrefixes");
    let next = root.child_text("NextContinuationToken");
    Ok(Page {
        objects,
        prefixes: prefixes
            .map(|it| it.child_text("Prefix").to_owned())
            .collect(),
        next: (root.child_text("IsTruncated") == "true" && !next.is_empty())
            .then(|| next.to_owned()),
    })
}

/// All objects whose keys begin so.
pub(super) async fn all(service: &Service, bucket: &str, prefix: &str) -> Result<Vec<Listed>> {
    let mut objects = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = page(service, bucket, prefix, "", token.as_deref()).await?;
        objects.extend(page.objects);
        match page.next {
            Some(next) => token = Some(next),
            None => return Ok(objects),
        }
    }
}

/// Lists buckets or objects.
pub(super) async fn run(service: &Service, options: &Options) -> Result<()> {
    let Some(place) = &options.place else {
        return buckets(service, options.json).await;
    };
    let delimiter = if options.recursive { "" } else { "/" };
    let mut token: Option<String> = None;
    loop {
        let (bucket, prefix) = (&place.bucket, &place.key);
        let page = page(service, bucket, prefix, delimiter, token.as_deref()).await?;
        let mut lines = String::new();
        for prefix in &page.prefixes {
            lines.push_str(&match options.json {
                true => format!("{}\n", json!({ "prefix": prefix })),
                false => format!("{:>24}  {:>12}  {}\n", "", "folder", visible(prefix)),
            });
        }
        for object in &page.objects {
            lines.push_str(&match options.json {
                true => format!("{}\n", described(object)),
                false => format!(
                    "{:>24}  {:>12}  {}\n",
                    visible(&object.modified),
                    object.size,
                    visible(&object.key)
                ),
            });
        }
        output::print(&lines)?;
        match page.next {
            Some(next) => token = Some(next),
            None => return Ok(()),
        }
    }
}

fn described(object: &Listed) -> serde_json::Value {
    json!({
        "key": object.key, "size": object.size, "etag": object.etag, "modified": object.modified,
    })
}

async fn buckets(service: &Service, is_json: bool) -> Result<()> {
    let root = service
        .call(S3Request::new("GET".parse()?, "", ""))
        .await?
        .xml()?;
    let Some(list) = root.child("Buckets") else {
        return Ok(());
    };
    let line = |bucket: &Element| {
        let (name, created) = (bucket.child_text("Name"), bucket.child_text("CreationDate"));
        match is_json {
            true => format!("{}\n", json!({ "bucket": name, "created": created })),
            false => format!("{:>24}  {}\n", visible(created), visible(name)),
        }
    };
    output::print(&list.children("Bucket").map(line).collect::<String>())
}
