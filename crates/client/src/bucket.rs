//! The contract's objects, in a bucket of S3, GCS or Azure: `object_store`'s implementations of
//! their protocols, with every request sent by [`Http`].
//!
//! Invariants:
//! - BUCKET-1 a put on a condition is sent again only if it certainly took no effect. It carries a
//!   mark of its own (metadata `faderput`). Where its outcome is in doubt, the object is looked at,
//!   and if it has the mark, the put happened.
//! - BUCKET-2 a 409 decides nothing: the put is sent again, as long as its time lasts.
//! - BUCKET-3 `object_store` repeats nothing by itself: the window decides.
//!
//! Deliberately absent: buckets are neither made nor deleted; names of buckets in host names.

mod failure;
mod wire;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use fader_cloud::Meter;
use fader_window::State;
use futures_util::FutureExt;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::path::Path;
use object_store::{
    Attribute, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result, RetryConfig, StaticCredentialProvider, UploadPart,
};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::client::Settings;
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind};
use crate::http::{Http, WindowKey};

use self::failure::{in_contract, is_in_doubt};
use self::wire::{Connector, METER, Wire};

/// The name of the mark among an object's metadata.
///
/// Letters only: Azure takes no hyphen, and proxies drop headers with an underscore.
const MARK: &str = "faderput";
/// Where Google and Azure give tokens.
const GOOGLE_AUTHORITIES: [&str; 3] = [
    "https://accounts.google.com",
    "https://oauth2.googleapis.com",
    "https://www.googleapis.com",
];
const AZURE_AUTHORITIES: [&str; 1] = ["https://login.microsoftonline.com"];
/// When an object is looked at after a put whose outcome is in doubt. A put that was cut off may
/// still be under way.
const LOOKS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_secs(1),
];
/// The first wait and the longest after a conflict; drawn between half of it and all.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);
const CONFLICT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A bucket of S3 or of a service like it, of GCS, or a container of Azure. Clones are the same,
/// and count for the same meter.
#[derive(Clone, Debug)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    wire: Arc<Wire>,
    meter: Meter,
}

/// Whose requests go to GCS.
#[derive(Clone, Debug)]
pub enum GcsAccess {
    /// They are not signed.
    Unsigned,
    /// A file of application default credentials: of a service account, or of a user.
    File(PathBuf),
}

/// Whose requests go to Azure; debug output shows no secret.
#[derive(Clone)]
pub enum AzureAccess {
    /// They are not signed.
    Unsigned,
    /// The account's key, in base64.
    Key(Zeroizing<String>),
    /// A shared access signature: `sv=..&sig=..`.
    Sas(Zeroizing<String>),
    /// An application of Entra.
    Application {
        /// The tenant's id.
        tenant: String,
        /// The application's id.
        id: String,
        /// Its secret.
        secret: Zeroizing<String>,
    },
}

impl fmt::Debug for AzureAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AzureAccess::Unsigned => "Unsigned",
            AzureAccess::Key(_) => "Key(..)",
            AzureAccess::Sas(_) => "Sas(..)",
            AzureAccess::Application { .. } => "Application(..)",
        })
    }
}

impl Bucket {
    /// A bucket at an S3 endpoint, `http://host:port` or `https://host:port`; requests without
    /// credentials are sent unsigned. Of the settings the signature does not count: the protocol
    /// knows version 4.
    ///
    /// # Errors
    /// `Invalid` when the endpoint is none, or its certificates cannot be used.
    pub fn s3(
        http: Http,
        endpoint: &str,
        bucket: &str,
        credentials: Option<&Credentials>,
        settings: &Settings,
    ) -> std::result::Result<Bucket, Error> {
        let wire = Arc::new(Wire::new(http, endpoint, settings, &[])?);
        let builder = AmazonS3Builder::new()
            .with_endpoint(endpoint.trim_end_matches('/'))
            .with_allow_http(true)
            .with_bucket_name(bucket)
            .with_region(&settings.region)
            .with_retry(never_again())
            .with_http_connector(Connector(Arc::clone(&wire)));
        let builder = match credentials {
            None => builder.with_skip_signature(true),
            Some(credentials) => {
                let builder = builder
                    .with_access_key_id(credentials.access_key())
                    .with_secret_access_key(credentials.secret());
                match credentials.token() {
                    None => builder,
                    Some(token) => builder.with_token(token),
                }
            }
        };
        Bucket::built(bucket, endpoint, wire, builder.build())
    }

    /// A bucket of GCS, or of a server that speaks its XML protocol.
    ///
    /// # Errors
    /// `Invalid` when the endpoint is none, or certificates or the file of credentials cannot be
    /// used.
    pub fn gcs(
        http: Http,
        endpoint: &str,
        bucket: &str,
        access: &GcsAccess,
        settings: &Settings,
    ) -> std::result::Result<Bucket, Error> {
        let wire = Arc::new(Wire::new(http, endpoint, settings, &GOOGLE_AUTHORITIES)?);
        let builder = GoogleCloudStorageBuilder::new()
            .with_base_url(endpoint.trim_end_matches('/'))
            .with_bucket_name(bucket)
            .with_retry(never_again())
            .with_http_connector(Connector(Arc::clone(&wire)));
        let builder = match access {
            GcsAccess::File(path) => {
                let shown = path.display();
                let unread = |error| Error::invalid(format!("cannot read {shown}: {error}"));
                let text = std::fs::read(path).map(Zeroizing::new).map_err(unread)?;
                // The cause of what the builder refuses may quote the file.
                let unknown =
                    || Error::invalid(format!("{shown} has no credentials of Google in JSON"));
                serde_json::from_slice::<serde::de::IgnoredAny>(&text).map_err(|_| unknown())?;
                builder.with_application_credentials(path.to_str().ok_or_else(unknown)?)
            }
            GcsAccess::Unsigned => {
                // Puts carry a token even where nothing else is signed.
                let unsigned = StaticCredentialProvider::new(GcpCredential {
                    bearer: "none".to_owned(),
                });
                builder
                    .with_credentials(Arc::new(unsigned))
                    .with_skip_signature(true)
            }
        };
        Bucket::built(bucket, endpoint, wire, builder.build())
    }

    /// A container of Azure's blob service. At an endpoint whose host does not begin with the
    /// account's name, as Azurite's does not, the account is the first part of each path.
    ///
    /// # Errors
    /// `Invalid` when the endpoint is none, or certificates or credentials cannot be used.
    pub fn azure(
        http: Http,
        endpoint: &str,
        account: &str,
        container: &str,
        access: &AzureAccess,
        settings: &Settings,
    ) -> std::result::Result<Bucket, Error> {
        let wire = Arc::new(Wire::new(http, endpoint, settings, &AZURE_AUTHORITIES)?);
        let endpoint = endpoint.trim_end_matches('/');
        let base = match wire.host().split('.').next() == Some(account) {
            true => endpoint.to_owned(),
            false => format!("{endpoint}/{account}"),
        };
        let builder = MicrosoftAzureBuilder::new()
            .with_endpoint(base)
            .with_allow_http(true)
            .with_account(account)
            .with_container_name(container)
            .with_retry(never_again())
            .with_http_connector(Connector(Arc::clone(&wire)));
        let builder = match access {
            AzureAccess::Unsigned => builder
                .with_skip_signature(true)
                .with_bearer_token_authorization("none"),
            AzureAccess::Key(key) => {
                // The cause may quote the key.
                let decoded = BASE64_STANDARD.decode(key.as_bytes()).map(Zeroizing::new);
                let rule = "the account's key (AZURE_STORAGE_KEY) is not base64";
                decoded.map_err(|_| Error::invalid(rule))?;
                builder.with_access_key(key.as_str())
            }
            AzureAccess::Sas(sas) => {
                let pairs = object_store::azure::split_sas(sas);
                // The cause may quote the signature.
                let pairs = pairs.map_err(|_| Error::invalid("the SAS token is none"))?;
                builder.with_sas_authorization(pairs)
            }
            AzureAccess::Application { tenant, id, secret } => {
                builder.with_client_secret_authorization(id, secret.as_str(), tenant)
            }
        };
        Bucket::built(container, endpoint, wire, builder.build())
    }

    fn built<S: ObjectStore>(
        bucket: &str,
        endpoint: &str,
        wire: Arc<Wire>,
        store: Result<S>,
    ) -> std::result::Result<Bucket, Error> {
        // The cause may quote a secret: it is kept, and not shown.
        let context = || format!("bucket {bucket:?} at {endpoint}: the credentials do not fit it");
        let store = store.map_err(|error| Error::caused(ErrorKind::Invalid, context(), error))?;
        Ok(Bucket {
            store: Arc::new(store),
            wire,
            meter: Meter::default(),
        })
    }

    /// The same bucket, whose requests count for `meter`.
    pub fn metered(&self, meter: &Meter) -> Self {
        Bucket {
            meter: meter.clone(),
            ..self.clone()
        }
    }

    /// Host and port of the endpoint.
    pub(crate) fn host(&self) -> &str {
        self.wire.host()
    }

    /// A call whose requests count.
    async fn counted<T>(&self, call: impl Future<Output = T>) -> T {
        METER.scope(self.meter.clone(), call).await
    }

    /// A stream whose requests count, about the objects of a folder.
    fn counted_stream<T: 'static>(
        &self,
        folder: String,
        mut stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let meter = self.meter.clone();
        let next = move |context: &mut Context<'_>| {
            METER.sync_scope(meter.clone(), || stream.poll_next_unpin(context))
        };
        let counted = stream::poll_fn(next);
        counted
            .map_err(move |error| in_contract(&folder, error))
            .boxed()
    }

    /// The windows of this endpoint, by class of operations.
    pub fn windows(&self) -> Vec<(WindowKey, State)> {
        self.wire.windows()
    }

    /// Puts on a condition.
    async fn put_once(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        let mark = format!("{:032x}", rand::random::<u128>());
        let name = Attribute::Metadata(MARK.into());
        options.attributes.insert(name, mark.clone().into());
        match self.put_decided(location, payload, options).await {
            Err(error) if is_in_doubt(&error) => {
                let found = self.look_for(location, &mark).await;
                found.ok_or(error)
            }
            put => put,
        }
    }

    /// Puts, again and again as long as the service answers that a conflicting request kept it
    /// from deciding.
    async fn put_decided(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let deadline = self.wire.deadline();
        let mut pause = CONFLICT_PAUSE;
        loop {
            let (again, options) = (payload.clone(), options.clone());
            let put = self.store.put_opts(location, again, options).await;
            let is_conflict = put.as_ref().is_err_and(wire::is_conflict);
            let next = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
            if !is_conflict || deadline <= next {
                return put;
            }
            self.wire.pause(next).await;
            pause = (pause * 2).min(CONFLICT_PAUSE_MAX);
        }
    }

    /// The object with this mark, if it is there.
    async fn look_for(&self, location: &Path, mark: &str) -> Option<PutResult> {
        for wait in LOOKS {
            self.wire.pause(Instant::now() + wait).await;
            let head = GetOptions {
                head: true,
                ..GetOptions::default()
            };
            // A look that fails leaves the doubt.
            let Ok(found) = self.store.get_opts(location, head).await else {
                continue;
            };
            let name = Attribute::Metadata(MARK.into());
            if found.attributes.get(&name).is_some_and(|it| &**it == mark) {
                return Some(PutResult {
                    e_tag: found.meta.e_tag,
                    version: found.meta.version,
                    extensions: found.extensions,
                });
            }
        }
        None
    }
}

fn text(prefix: Option<&Path>) -> String {
    prefix.map(Path::to_string).unwrap_or_default()
}

/// The window repeats, and nothing below it.
fn never_again() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.store, f)
    }
}

#[async_trait]
impl ObjectStore for Bucket {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let put = match options.mode {
            PutMode::Overwrite => {
                let put = self.put_decided(location, payload, options);
                self.counted(put).await
            }
            PutMode::Create | PutMode::Update(_) => {
                let put = self.put_once(location, payload, options);
                self.counted(put).await
            }
        };
        put.map_err(|error| in_contract(location.as_ref(), error))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.store.put_multipart_opts(location, options);
        let begun = self.counted(begun).await;
        let upload = begun.map_err(|error| in_contract(location.as_ref(), error))?;
        let bucket = self.clone();
        Ok(Box::new(Upload { upload, bucket }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let got = self.counted(self.store.get_opts(location, options)).await;
        got.map_err(|error| in_contract(location.as_ref(), error))
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let got = self.counted(self.store.get_ranges(location, ranges)).await;
        got.map_err(|error| in_contract(location.as_ref(), error))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let deleted = self.store.delete_stream(locations);
        self.counted_stream(String::new(), deleted)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.counted_stream(text(prefix), self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.store.list_with_offset(prefix, offset);
        self.counted_stream(text(prefix), listed)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.counted(self.store.list_with_delimiter(prefix)).await;
        listed.map_err(|error| in_contract(&text(prefix), error))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copied = self.counted(self.store.copy_opts(from, to, options)).await;
        copied.map_err(|error| in_contract(to.as_ref(), error))
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let renamed = self.store.rename_opts(from, to, options);
        let renamed = self.counted(renamed).await;
        renamed.map_err(|error| in_contract(to.as_ref(), error))
    }
}

/// An upload whose requests count.
#[derive(Debug)]
struct Upload {
    upload: Box<dyn MultipartUpload>,
    bucket: Bucket,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let part = self.upload.put_part(part);
        METER.scope(self.bucket.meter.clone(), part).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let bucket = self.bucket.clone();
        bucket.counted(self.upload.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let bucket = self.bucket.clone();
        bucket.counted(self.upload.abort()).await
    }
}
