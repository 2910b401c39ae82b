//! Opens a cloud by its URL. Objects are in a bucket, a folder or memory; queues and domains are in
//! there too, or at services of their own.
//!
//! Invariants:
//! - OPEN-1 opened for writing, the promises of any bucket, folder or memory are probed, or
//!   remembered as kept, before queues or domains live in it. Where one is broken, only objects
//!   open.
//! - OPEN-2 opened for reading, nothing is written.

use std::fmt;
use std::sync::Arc;

use fader_cloud::bucket::{BucketDomains, BucketQueues};
use fader_cloud::probe::{self, Findings};
use fader_cloud::{Cloud, Domains, Meter, Metered, Queues, Services};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;

use crate::bucket::{AzureAccess, Bucket, GcsAccess};
use crate::client::{Client, Settings};
use crate::counted::Counted;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, in_read};
use crate::folder::Folder;
use crate::http::Http;
use crate::location::{BucketLocation, Location, Provider, Service, ServiceLocation};
use crate::prefixed::Prefixed;
use crate::refusal::Refusal;
use crate::runtime::system_runtime;
use crate::s3::S3;
use crate::simpledb::SimpleDb;
use crate::sqs::Sqs;

/// Where queues and domains are below a bucket's prefix; the rest is the systems' own.
pub(crate) const SERVICES: &str = "_fader";

/// What a cloud is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing.
    #[default]
    Write,
    /// Reading alone: nothing is probed. Writes are not kept from it.
    Read,
}

/// How a cloud is opened.
#[derive(Clone, Default)]
pub struct Options {
    /// Where its queues are.
    pub queues: ServiceLocation,
    /// Where its domains are.
    pub domains: ServiceLocation,
    /// What it is opened for.
    pub access: Access,
    /// Who asks.
    pub environment: Environment,
    /// What sends; the client of this process if `None`.
    pub http: Option<Http>,
    /// What its wire requests count for.
    pub meter: Meter,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("queues", &self.queues)
            .field("domains", &self.domains)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// A cloud with what belongs to a bucket alone.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Where it is.
    pub location: Location,
    /// The cloud.
    pub cloud: Cloud,
    /// Its queues, if they are in the bucket.
    pub bucket_queues: Option<BucketQueues>,
    /// Its domains, if they are in the bucket.
    pub bucket_domains: Option<BucketDomains>,
    /// What was found of the bucket's promises; `None` where nothing was probed.
    pub findings: Option<Findings>,
}

impl Opened {
    /// Fails at once where each call would.
    fn is_refused(&self, place: &ServiceLocation, service: Service) -> fader_cloud::Result<()> {
        match refusal(&self.location, self.findings.as_ref(), service) {
            Some(refusal) if *place == ServiceLocation::Bucket => Err(refusal.error()),
            _ => Ok(()),
        }
    }
}

/// Why queues or domains are not to be had in a bucket, if they are not.
fn refusal(location: &Location, findings: Option<&Findings>, service: Service) -> Option<Refusal> {
    let broken = findings.filter(|findings| !findings.is_intact())?;
    Some(Refusal(format!(
        "{location} breaks a promise that {} in it rely on: {}. Choose another bucket, or {}",
        service.plural(),
        broken.complaint(),
        service.hint(),
    )))
}

/// Opens a cloud. Its tasks run on the tokio runtime that this is called on.
///
/// # Errors
/// `Invalid`: the URL, the environment or the service; what a probe ends with.
pub async fn open(url: &str, options: &Options) -> fader_cloud::Result<Cloud> {
    Ok(open_all(url, options).await?.cloud)
}

/// The same, with what belongs to a bucket alone.
///
/// # Errors
/// As [`open`].
pub async fn open_all(url: &str, options: &Options) -> fader_cloud::Result<Opened> {
    let runtime = system_runtime();
    let root = in_read(Root::open(url, options))?;
    let findings = match options.access {
        Access::Write if options.needs_bucket() => {
            let store = root.objects(&options.meter);
            let findings = probe::remembered_or_probed(&*store, &runtime, &root.way()).await;
            Some(findings.map_err(|error| named(error, &root))?)
        }
        _ => None,
    };
    let refusal = |service| refusal(&root.location, findings.as_ref(), service);
    let below = |meter: &Meter| (root.objects(meter), Path::from(SERVICES));
    let (mut bucket_queues, mut bucket_domains) = (None, None);
    let queues = match (&options.queues, refusal(Service::Sqs)) {
        (ServiceLocation::Bucket, Some(refusal)) => QueuesAt::There(Arc::new(refusal)),
        (ServiceLocation::Bucket, None) => {
            let (objects, prefix) = below(&options.meter);
            let queues = BucketQueues::new(objects, prefix, runtime.clone());
            bucket_queues = Some(queues.clone());
            QueuesAt::There(Arc::new(queues))
        }
        (ServiceLocation::Service { .. }, _) => in_read(queues_at(&options.queues, options))?,
    };
    let domains = match (&options.domains, refusal(Service::SimpleDb)) {
        (ServiceLocation::Bucket, Some(refusal)) => DomainsAt::There(Arc::new(refusal)),
        (ServiceLocation::Bucket, None) => {
            let (objects, prefix) = below(&options.meter);
            let domains = BucketDomains::new(objects, prefix, runtime.clone());
            bucket_domains = Some(domains.clone());
            DomainsAt::There(Arc::new(domains))
        }
        (ServiceLocation::Service { .. }, _) => in_read(domains_at(&options.domains, options))?,
    };
    let location = root.location.clone();
    let parts = Parts {
        root,
        queues,
        domains,
    };
    Ok(Opened {
        location,
        cloud: Cloud::new(Arc::new(parts), runtime, options.meter.clone()),
        bucket_queues,
        bucket_domains,
        findings,
    })
}

/// The queues that a URL names: a service's, or those in a bucket.
///
/// # Errors
/// As [`open`].
pub async fn open_queues(url: &str, options: &Options) -> fader_cloud::Result<Arc<dyn Queues>> {
    if url.starts_with("sqs:") {
        let location = in_read(ServiceLocation::parse(url, Service::Sqs))?;
        return Ok(in_read(queues_at(&location, options))?.metered(&options.meter));
    }
    let opened = open_all(url, options).await?;
    opened.is_refused(&options.queues, Service::Sqs)?;
    Ok(opened.cloud.queues)
}

/// The domains that a URL names: a service's, or those in a bucket.
///
/// # Errors
/// As [`open`].
pub async fn open_domains(url: &str, options: &Options) -> fader_cloud::Result<Arc<dyn Domains>> {
    if url.starts_with("simpledb:") {
        let location = in_read(ServiceLocation::parse(url, Service::SimpleDb))?;
        return Ok(in_read(domains_at(&location, options))?.metered(&options.meter));
    }
    let opened = open_all(url, options).await?;
    opened.is_refused(&options.domains, Service::SimpleDb)?;
    Ok(opened.cloud.domains)
}

/// Probes the objects that a URL names, without the remembered result.
///
/// # Errors
/// As [`open`].
pub async fn check(url: &str, options: &Options) -> fader_cloud::Result<Findings> {
    let root = in_read(Root::open(url, options))?;
    let store = root.objects(&options.meter);
    let findings = probe::probed(&*store, &system_runtime(), &root.way()).await;
    findings.map_err(|error| named(error, &root))
}

fn named(error: fader_cloud::Error, root: &Root) -> fader_cloud::Error {
    fader_cloud::Error {
        context: format!("{}: {}", root.location, error.context),
        ..error
    }
}

/// Objects, with where they are.
#[derive(Debug)]
struct Root {
    location: Location,
    store: Store,
}

#[derive(Debug)]
enum Store {
    Bucket(Bucket),
    /// Sends no wire requests; its calls count as those that they would be.
    Local(Arc<dyn ObjectStore>),
}

impl Root {
    fn open(url: &str, options: &Options) -> Result<Root, Error> {
        let location = Location::parse(url)?;
        let store = match &location {
            Location::Memory => Store::Local(Arc::new(InMemory::new())),
            Location::Folder(path) => Store::Local(Arc::new(Folder::open(path)?)),
            Location::Bucket(bucket) => Store::Bucket(options.bucket(bucket)?),
        };
        Ok(Root { location, store })
    }

    /// The objects below the prefix, whose requests count for `meter`.
    fn objects(&self, meter: &Meter) -> Arc<dyn ObjectStore> {
        match (&self.store, &self.location) {
            (Store::Local(store), _) => Arc::new(Counted::new(store.clone(), meter)),
            (Store::Bucket(store), Location::Bucket(location)) if !location.prefix.is_empty() => {
                let prefix = Path::from(location.prefix.as_str());
                Arc::new(PrefixStore::new(store.metered(meter), prefix))
            }
            (Store::Bucket(store), _) => Arc::new(store.metered(meter)),
        }
    }

    /// What names the way to the objects.
    fn way(&self) -> String {
        match &self.store {
            Store::Bucket(bucket) => bucket.host().to_owned(),
            Store::Local(_) => "local".to_owned(),
        }
    }
}

impl Options {
    /// Whether queues or domains are to be in the bucket.
    fn needs_bucket(&self) -> bool {
        [&self.queues, &self.domains].contains(&&ServiceLocation::Bucket)
    }

    fn http(&self) -> Http {
        self.http.clone().unwrap_or_else(Http::shared)
    }

    /// A client of S3 for what the contract of objects does not know.
    pub(crate) fn s3(&self, location: &BucketLocation) -> Result<S3, Error> {
        let settings = self.environment.settings()?;
        let (endpoint, credentials) = self.at_s3(location, &settings)?;
        S3::on(self.http(), &endpoint, credentials.as_ref(), &settings)
    }

    /// The endpoint of a bucket of S3, and who asks.
    fn at_s3(
        &self,
        location: &BucketLocation,
        settings: &Settings,
    ) -> Result<(String, Option<crate::Credentials>), Error> {
        let endpoint = location.endpoint.clone();
        let endpoint = endpoint.unwrap_or_else(|| self.environment.s3_endpoint(&settings.region));
        let credentials = match location.is_unsigned {
            true => None,
            false => Some(self.environment.aws()?),
        };
        Ok((endpoint, credentials))
    }

    fn bucket(&self, location: &BucketLocation) -> Result<Bucket, Error> {
        let environment = &self.environment;
        let settings = environment.settings()?;
        let name = &location.name;
        let given = location.endpoint.as_deref();
        match &location.provider {
            Provider::S3 => {
                let (endpoint, credentials) = self.at_s3(location, &settings)?;
                Bucket::s3(
                    self.http(),
                    &endpoint,
                    name,
                    credentials.as_ref(),
                    &settings,
                )
            }
            Provider::Gcs => {
                let access = match location.is_unsigned {
                    true => GcsAccess::Unsigned,
                    false => environment.google()?,
                };
                let endpoint = given.unwrap_or("https://storage.googleapis.com");
                Bucket::gcs(self.http(), endpoint, name, &access, &settings)
            }
            Provider::Azure(account) => {
                let account = match account {
                    Some(account) => account.clone(),
                    None => environment.azure_account()?,
                };
                let access = match location.is_unsigned {
                    true => AzureAccess::Unsigned,
                    false => environment.azure()?,
                };
                let own = format!("https://{account}.blob.core.windows.net");
                let endpoint = given.unwrap_or(&own);
                Bucket::azure(self.http(), endpoint, &account, name, &access, &settings)
            }
        }
    }
}

/// Queues, as they are for each meter.
#[derive(Debug)]
enum QueuesAt {
    Sqs { prefix: String, sqs: Sqs },
    There(Arc<dyn Queues>),
}

/// Domains, as they are for each meter.
#[derive(Debug)]
enum DomainsAt {
    SimpleDb { prefix: String, client: Client },
    There(Arc<dyn Domains>),
}

impl QueuesAt {
    fn metered(&self, meter: &Meter) -> Arc<dyn Queues> {
        match self {
            QueuesAt::There(queues) => queues.clone(),
            QueuesAt::Sqs { prefix, sqs } => Arc::new(Prefixed {
                prefix: prefix.clone(),
                service: Arc::new(sqs.metered(meter)),
            }),
        }
    }
}

impl DomainsAt {
    fn metered(&self, meter: &Meter) -> Arc<dyn Domains> {
        match self {
            DomainsAt::There(domains) => domains.clone(),
            DomainsAt::SimpleDb { prefix, client } => Arc::new(Prefixed {
                prefix: prefix.clone(),
                service: Arc::new(SimpleDb(client.metered(meter))),
            }),
        }
    }
}

fn queues_at(location: &ServiceLocation, options: &Options) -> Result<QueuesAt, Error> {
    let (prefix, sqs) = sqs_of(location, options)?;
    Ok(QueuesAt::Sqs { prefix, sqs })
}

/// A client of a service of queues, and the prefix of names there.
pub(crate) fn sqs_of(
    location: &ServiceLocation,
    options: &Options,
) -> Result<(String, Sqs), Error> {
    let (prefix, endpoint, credentials, settings) = at_service(location, options)?;
    let sqs = Sqs::on(options.http(), &endpoint, credentials.as_ref(), &settings)?;
    Ok((prefix, sqs))
}

fn domains_at(location: &ServiceLocation, options: &Options) -> Result<DomainsAt, Error> {
    let (prefix, endpoint, credentials, settings) = at_service(location, options)?;
    let client = Client::on(options.http(), &endpoint, credentials, settings)?;
    Ok(DomainsAt::SimpleDb { prefix, client })
}

type AtService = (String, String, Option<crate::Credentials>, Settings);

/// Prefix, endpoint, credentials and settings of a service of its own.
fn at_service(location: &ServiceLocation, options: &Options) -> Result<AtService, Error> {
    let ServiceLocation::Service {
        service,
        prefix,
        endpoint,
        is_unsigned,
    } = location
    else {
        return Err(Error::new(ErrorKind::Invalid, "no service is named"));
    };
    let environment = &options.environment;
    let settings = environment.settings()?;
    let endpoint = endpoint.clone();
    let endpoint =
        endpoint.unwrap_or_else(|| environment.service_endpoint(*service, &settings.region));
    let credentials = match is_unsigned {
        true => None,
        false => Some(environment.aws()?),
    };
    Ok((prefix.clone(), endpoint, credentials, settings))
}

/// The handles of an opened cloud. What is in the bucket serves callers of all scopes at once, and
/// counts for the meter that the cloud was opened with.
#[derive(Debug)]
struct Parts {
    root: Root,
    queues: QueuesAt,
    domains: DomainsAt,
}

impl Metered for Parts {
    fn services(&self, meter: &Meter) -> Services {
        Services {
            objects: self.root.objects(meter),
            queues: self.queues.metered(meter),
            domains: self.domains.metered(meter),
        }
    }
}
