//! Where a cloud is: one form of URL for objects, queues and domains. Pure: nothing is opened here.
//!
//! ```text
//!  s3://BUCKET/PREFIX?endpoint=URL              queues, domains:  bucket
//!  gs://BUCKET/PREFIX                                             sqs://PREFIX?endpoint=URL
//!  az://CONTAINER/PREFIX?account=NAME                             simpledb://PREFIX?endpoint=URL
//!  file:///DIR
//!  mem://
//! ```
//!
//! Invariants:
//! - LOC-1 a URL with a secret is refused, and no error repeats it.
//! - LOC-2 what `Display` writes is read as the same location.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::error::Error;

/// Parameters that other tools put secrets into.
const SECRETS: [&str; 14] = [
    "access_key",
    "access_key_id",
    "accesskey",
    "account_key",
    "key",
    "password",
    "sas",
    "sas_token",
    "secret",
    "secret_access_key",
    "secret_key",
    "sig",
    "session_token",
    "token",
];

/// Where objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A bucket of S3, GCS or Azure.
    Bucket(BucketLocation),
    /// A folder of this machine, with its absolute path.
    Folder(PathBuf),
    /// This process's memory.
    Memory,
}

/// A bucket, with all that a URL says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketLocation {
    /// Whose protocol it speaks.
    pub provider: Provider,
    /// Its name, or a container's.
    pub name: String,
    /// The folder that all keys are in; empty for none.
    pub prefix: String,
    /// `http://host:port` or `https://host:port`; the provider's own if `None`.
    pub endpoint: Option<String>,
    /// Whether requests are sent unsigned.
    pub is_unsigned: bool,
}

/// Whose protocol a bucket speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// S3.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure's blob service, with the account; that of the environment if `None`.
    Azure(Option<String>),
}

/// Where queues or domains are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServiceLocation {
    /// In the bucket or folder that has the objects.
    #[default]
    Bucket,
    /// At a service of their own.
    Service {
        /// Which one.
        service: Service,
        /// With what all names begin there; empty for nothing.
        prefix: String,
        /// `http://host:port` or `https://host:port`; AWS's if `None`.
        endpoint: Option<String>,
        /// Whether requests are sent unsigned.
        is_unsigned: bool,
    },
}

/// A service of queues or of domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Queues.
    Sqs,
    /// Domains.
    SimpleDb,
}

impl Service {
    /// The scheme of its URLs.
    pub fn scheme(self) -> &'static str {
        match self {
            Service::Sqs => "sqs",
            Service::SimpleDb => "simpledb",
        }
    }

    /// What it keeps.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Service::Sqs => "queues",
            Service::SimpleDb => "domains",
        }
    }

    /// How it is chosen.
    pub(crate) fn hint(self) -> String {
        let (flag, scheme) = (self.flag(), self.scheme());
        format!("{flag} {scheme}://PREFIX?endpoint=URL")
    }

    /// The flag that chooses it.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Service::Sqs => "--queues",
            Service::SimpleDb => "--domains",
        }
    }
}

impl Location {
    /// Reads a URL.
    ///
    /// # Errors
    /// `Invalid`, with what to write instead.
    pub fn parse(text: &str) -> Result<Location, Error> {
        let url = read(text)?;
        match url.scheme() {
            "s3" => Location::bucket(&url, Provider::S3),
            "gs" => Location::bucket(&url, Provider::Gcs),
            "az" => {
                let account = one(&url, "account");
                Location::bucket(&url, Provider::Azure(account))
            }
            "file" => {
                only(&url, &[])?;
                let is_local = url.host_str().is_none_or(str::is_empty);
                let path = url.to_file_path().ok().filter(|_| is_local);
                path.map(Location::Folder).ok_or_else(|| {
                    refused(
                        text,
                        "a folder is an absolute path of this machine: file:///DIR",
                    )
                })
            }
            "mem" => {
                only(&url, &[])?;
                let is_bare = url.host_str().is_none_or(str::is_empty) && url.path().is_empty();
                let memory = is_bare.then_some(Location::Memory);
                memory.ok_or_else(|| refused(text, "memory has no names: mem://"))
            }
            "sqs" | "simpledb" => Err(refused(
                text,
                "objects are not there: give it to --queues or --domains",
            )),
            _ => Err(refused(
                text,
                "it begins with s3://, gs://, az://, file:/// or mem://",
            )),
        }
    }

    fn bucket(url: &Url, provider: Provider) -> Result<Location, Error> {
        match provider {
            Provider::Azure(_) => only(url, &["account", "endpoint", "unsigned"])?,
            Provider::S3 | Provider::Gcs => only(url, &["endpoint", "unsigned"])?,
        }
        let name = decoded(url.host_str().unwrap_or_default())?;
        if name.is_empty() {
            let form = format!("name a bucket: {}://BUCKET/PREFIX", url.scheme());
            return Err(refused(url.as_str(), &form));
        }
        let prefix = decoded(url.path())?;
        let prefix = prefix.trim_matches('/');
        let is_plain = object_store::path::Path::parse(prefix).is_ok();
        if !is_plain {
            let rule = "the prefix has an empty part, `.`, `..` or a character that keys have not";
            return Err(refused(url.as_str(), rule));
        }
        Ok(Location::Bucket(BucketLocation {
            provider,
            name,
            prefix: prefix.to_owned(),
            endpoint: endpoint(url)?,
            is_unsigned: is_unsigned(url)?,
        }))
    }
}

impl ServiceLocation {
    /// Reads `bucket`, or the URL of a service.
    ///
    /// # Errors
    /// `Invalid`, with what to write instead.
    pub fn parse(text: &str, service: Service) -> Result<ServiceLocation, Error> {
        if text == "bucket" {
            return Ok(ServiceLocation::Bucket);
        }
        let url = read(text)?;
        let scheme = service.scheme();
        if url.scheme() != scheme {
            let form = format!("{} takes `bucket` or {scheme}://PREFIX", service.flag());
            return Err(refused(text, &form));
        }
        only(&url, &["endpoint", "unsigned"])?;
        if !matches!(url.path(), "" | "/") {
            let form = format!("a prefix of names has no `/`: {scheme}://PREFIX");
            return Err(refused(text, &form));
        }
        Ok(ServiceLocation::Service {
            service,
            prefix: decoded(url.host_str().unwrap_or_default())?,
            endpoint: endpoint(&url)?,
            is_unsigned: is_unsigned(&url)?,
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Memory => f.write_str("mem://"),
            Location::Folder(path) => match Url::from_file_path(path) {
                Ok(url) => f.write_str(url.as_str()),
                Err(()) => write!(f, "file://{}", path.display()),
            },
            Location::Bucket(bucket) => bucket.fmt(f),
        }
    }
}

impl fmt::Display for BucketLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, account) = match &self.provider {
            Provider::S3 => ("s3", None),
            Provider::Gcs => ("gs", None),
            Provider::Azure(account) => ("az", account.as_deref()),
        };
        write!(f, "{scheme}://{}", self.name)?;
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        parameters(f, account, self.endpoint.as_deref(), self.is_unsigned)
    }
}

impl fmt::Display for ServiceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceLocation::Bucket => f.write_str("bucket"),
            ServiceLocation::Service {
                service,
                prefix,
                endpoint,
                is_unsigned,
            } => {
                write!(f, "{}://{prefix}", service.scheme())?;
                parameters(f, None, endpoint.as_deref(), *is_unsigned)
            }
        }
    }
}

fn parameters(
    f: &mut fmt::Formatter<'_>,
    account: Option<&str>,
    endpoint: Option<&str>,
    is_unsigned: bool,
) -> fmt::Result {
    let unsigned = is_unsigned.then_some("true");
    let all = [
        ("account", account),
        ("endpoint", endpoint),
        ("unsigned", unsigned),
    ];
    let mut mark = '?';
    for (name, value) in all {
        if let Some(value) = value {
            write!(f, "{mark}{name}={value}")?;
            mark = '&';
        }
    }
    Ok(())
}

/// Reads any URL without secrets.
fn read(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text).map_err(|_| {
        // The text may be anything, a secret too.
        Error::invalid(
            "this is no URL: write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, \
             az://CONTAINER/PREFIX?account=NAME, file:///DIR or mem://",
        )
    })?;
    let is_secret = |name: &str| SECRETS.contains(&name.to_ascii_lowercase().as_str());
    let has_secret = url.query_pairs().any(|(name, _)| is_secret(&name));
    if has_secret || !url.username().is_empty() || url.password().is_some() {
        return Err(secret(url.scheme()));
    }
    if url.fragment().is_some() {
        return Err(refused(
            text,
            "it has a part after `#`: write %23 for a `#` in a name",
        ));
    }
    Ok(url)
}

fn secret(scheme: &str) -> Error {
    let variables = match scheme {
        "gs" => "GOOGLE_APPLICATION_CREDENTIALS",
        "az" => "AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN",
        _ => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    };
    Error::invalid(format!(
        "the URL has a user or a secret in it, which shells and logs would keep: set {variables} in \
         the environment instead"
    ))
}

/// Refuses parameters that are not known, and those given twice.
fn only(url: &Url, known: &[&str]) -> Result<(), Error> {
    let mut seen = Vec::new();
    for (name, _) in url.query_pairs() {
        if !known.contains(&&*name) {
            let rule = match known {
                [] => format!("it takes no parameters, and {name:?} is one"),
                _ => format!("unknown parameter {name:?}: it takes {}", known.join(", ")),
            };
            return Err(refused(url.as_str(), &rule));
        }
        if seen.contains(&name) {
            let rule = format!("parameter {name:?} is there twice");
            return Err(refused(url.as_str(), &rule));
        }
        seen.push(name);
    }
    Ok(())
}

fn one(url: &Url, name: &str) -> Option<String> {
    let found = url.query_pairs().find(|(found, _)| found == name);
    found.map(|(_, value)| value.into_owned())
}

fn endpoint(url: &Url) -> Result<Option<String>, Error> {
    let Some(text) = one(url, "endpoint") else {
        return Ok(None);
    };
    let rule = "endpoint is http://host:port or https://host:port, without a path";
    let endpoint = Url::parse(&text).map_err(|_| Error::invalid(rule))?;
    if !endpoint.username().is_empty() || endpoint.password().is_some() {
        return Err(secret(url.scheme()));
    }
    let is_origin = matches!(endpoint.scheme(), "http" | "https")
        && endpoint.path() == "/"
        && endpoint.query().is_none();
    match is_origin {
        true => Ok(Some(text.trim_end_matches('/').to_owned())),
        false => Err(refused(url.as_str(), rule)),
    }
}

fn is_unsigned(url: &Url) -> Result<bool, Error> {
    match one(url, "unsigned").as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(refused(url.as_str(), "unsigned is true or false")),
    }
}

fn decoded(text: &str) -> Result<String, Error> {
    let decoded = object_store::path::Path::from_url_path(text);
    match decoded {
        Ok(path) => Ok(path.to_string()),
        Err(error) => Err(Error::invalid(format!(
            "{text:?} cannot be part of a key: {error}"
        ))),
    }
}

fn refused(text: &str, rule: &str) -> Error {
    Error::invalid(format!("{text}: {rule}"))
}

#[cfg(test)]
mod tests;
