//! `fader s3 mb` and `rb`.

use anyhow::Result;
use clap::Args;
use fader_client::S3Request;

use super::{Service, place};

/// Which bucket.
#[derive(Args)]
pub(super) struct Options {
    /// The bucket: its name, or s3://NAME.
    #[arg(value_parser = place::bucket)]
    bucket: String,
}

/// Makes a bucket.
pub(super) async fn make(service: &Service, options: &Options) -> Result<()> {
    let request = S3Request::new("PUT".parse()?, &options.bucket, "");
    service.call(request).await?;
    Ok(())
}

/// Removes an empty bucket.
pub(super) async fn remove(service: &Service, options: &Options) -> Result<()> {
    let request = S3Request::new("DELETE".parse()?, &options.bucket, "");
    service.call(request).await?;
    Ok(())
}
