//! Who asks, from the variables that each provider's own tools read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::bucket::{AzureAccess, GcsAccess};
use crate::client::Settings;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::location::Service;

/// Where gcloud keeps what a user logged in with.
const GCLOUD_FILE: &str = ".config/gcloud/application_default_credentials.json";

/// Where AWS's tools keep access keys.
const AWS_FILE: &str = ".aws/credentials";

/// Variables by name: the process's, or others in their place.
#[derive(Clone, Default)]
pub struct Environment(Option<BTreeMap<String, String>>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment(..)")
    }
}

impl Environment {
    /// Only these variables, not those of the process.
    pub fn of<const N: usize>(variables: [(&str, &str); N]) -> Environment {
        let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Environment(Some(owned.into()))
    }

    /// A variable; one that is empty is not set.
    fn get(&self, name: &str) -> Option<String> {
        let value = match &self.0 {
            None => std::env::var(name).ok(),
            Some(variables) => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }

    fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name))
    }

    /// The settings of clients: region and certificates.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let settings = Settings::default();
        let region = self.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
        let ca_pem = match self.get("AWS_CA_BUNDLE") {
            None => None,
            Some(path) => Some(std::fs::read(&path).map_err(|error| {
                Error::invalid(format!("AWS_CA_BUNDLE: cannot read {path}: {error}"))
            })?),
        };
        Ok(Settings {
            region: region.unwrap_or(settings.region),
            ca_pem,
            ..settings
        })
    }

    /// Where S3 is that no URL tells of.
    pub(crate) fn s3_endpoint(&self, region: &str) -> String {
        let told = self.first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
        told.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"))
    }

    /// Where a service is that no URL tells of.
    pub(crate) fn service_endpoint(&self, service: Service, region: &str) -> String {
        let (variable, host) = match service {
            Service::Sqs => ("AWS_ENDPOINT_URL_SQS", format!("sqs.{region}")),
            Service::SimpleDb if region == "us-east-1" => {
                ("AWS_ENDPOINT_URL_SIMPLEDB", "sdb".to_owned())
            }
            Service::SimpleDb => ("AWS_ENDPOINT_URL_SIMPLEDB", format!("sdb.{region}")),
        };
        let told = self.first(&[variable, "AWS_ENDPOINT_URL"]);
        told.unwrap_or_else(|| format!("https://{host}.amazonaws.com"))
    }

    /// An access key of AWS, or of a service like it.
    pub(crate) fn aws(&self) -> Result<Credentials, Error> {
        let found = self.access_key(None)?;
        found.ok_or_else(|| {
            Error::invalid(
                "no access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE \
                 to a section of ~/.aws/credentials that has one, or add unsigned=true to the URL \
                 of a server that takes unsigned requests",
            )
        })
    }

    /// An access key from where AWS's tools look: a profile that the caller names, else the
    /// variables, else the profile that `AWS_PROFILE` names, else `default`. Profiles are sections
    /// of the file `AWS_SHARED_CREDENTIALS_FILE`, else `~/.aws/credentials`.
    ///
    /// # Errors
    /// `Invalid`: a profile that is named and has no access key; a file that cannot be read.
    pub fn access_key(&self, profile: Option<&str>) -> Result<Option<Credentials>, Error> {
        let (id, secret) = (
            self.get("AWS_ACCESS_KEY_ID"),
            self.get("AWS_SECRET_ACCESS_KEY"),
        );
        if let (Some(id), Some(secret), None) = (id, secret, profile) {
            let credentials = Credentials::new(id, secret);
            return Ok(Some(match self.get("AWS_SESSION_TOKEN") {
                None => credentials,
                Some(token) => credentials.with_token(token),
            }));
        }
        let named = profile.map(str::to_owned);
        let named = named.or_else(|| self.first(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]));
        let path = self.get("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
        let path = path.or_else(|| {
            self.get("HOME")
                .map(|home| PathBuf::from(home).join(AWS_FILE))
        });
        let text = match &path {
            Some(path) if path.exists() => std::fs::read_to_string(path).map_err(|error| {
                Error::invalid(format!("cannot read {}: {error}", path.display()))
            })?,
            _ => String::new(),
        };
        let section = named.as_deref().unwrap_or("default");
        let found = Credentials::of_profile(&Zeroizing::new(text), section);
        match (&found, &named, path) {
            (None, Some(named), Some(path)) => Err(Error::invalid(format!(
                "no access key in [{named}] of {}: write aws_access_key_id and \
                 aws_secret_access_key there",
                path.display()
            ))),
            _ => Ok(found),
        }
    }

    /// Credentials of Google.
    pub(crate) fn google(&self) -> Result<GcsAccess, Error> {
        let named = self
            .get("GOOGLE_APPLICATION_CREDENTIALS")
            .map(PathBuf::from);
        let kept = || {
            self.get("HOME")
                .map(|home| PathBuf::from(home).join(GCLOUD_FILE))
        };
        let path = named.or_else(|| kept().filter(|path| path.exists()));
        path.map(GcsAccess::File).ok_or_else(|| {
            Error::invalid(
                "no credentials: set GOOGLE_APPLICATION_CREDENTIALS to the file of a service \
                 account, or run `gcloud auth application-default login`, or add unsigned=true to \
                 the URL of a server that takes unsigned requests",
            )
        })
    }

    /// Azure's account that no URL tells of.
    pub(crate) fn azure_account(&self) -> Result<String, Error> {
        let account = self.first(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]);
        account.ok_or_else(|| {
            Error::invalid(
                "no account: write az://CONTAINER/PREFIX?account=NAME, or set \
                 AZURE_STORAGE_ACCOUNT",
            )
        })
    }

    /// Credentials of Azure.
    pub(crate) fn azure(&self) -> Result<AzureAccess, Error> {
        let secret = |names: &[&str]| self.first(names).map(Zeroizing::new);
        if let Some(key) = secret(&["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"]) {
            return Ok(AzureAccess::Key(key));
        }
        if let Some(sas) = secret(&["AZURE_STORAGE_SAS_TOKEN"]) {
            return Ok(AzureAccess::Sas(sas));
        }
        let (tenant, id) = (self.get("AZURE_TENANT_ID"), self.get("AZURE_CLIENT_ID"));
        match (tenant, id, secret(&["AZURE_CLIENT_SECRET"])) {
            (Some(tenant), Some(id), Some(secret)) => {
                Ok(AzureAccess::Application { tenant, id, secret })
            }
            _ => Err(Error::invalid(
                "no credentials: set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or \
                 AZURE_TENANT_ID with AZURE_CLIENT_ID and AZURE_CLIENT_SECRET; or add \
                 unsigned=true to the URL of a server that takes unsigned requests",
            )),
        }
    }
}
