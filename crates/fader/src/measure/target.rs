//! What a run is measured at: a model in virtual time, or a service by its URL in real time.
//!
//! Experiments with threads ask a SimpleDB on raw connections, one for each thread ([`Raw`]).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fader_client::{
    Access, Client, Credentials, Service, ServiceLocation, Settings, SignatureVersion, Signer,
    SimpleDb, SystemClock, system_runtime,
};
use fader_cloud::model::{Executor, Skew};
use fader_cloud::{Clock as _, Domains, Runtime};
use fader_history::object::{Log, Operation, Outcome, Text};
use fader_history::{Clock, Header, Order};
use fader_measure::model::{Behaviour, Registers};
use fader_measure::{
    CONDITIONAL, EVENTUAL, Etcd, InDomain, InSimpleDb, Party, Provider, Redis, STRONG, Target,
    drive_all,
};
use fader_services::ErrorCode;

use crate::failure::{self, Failure};
use crate::interrupt::{Interrupts, interrupted};

/// The target that is no service.
pub(super) const MODEL: &str = "model";

/// A target as reports of experiments tell it: the model shows what it was made to show.
pub(super) fn told(target: &str) -> String {
    match target {
        MODEL => format!("{MODEL}, fitted to the paper: it says nothing about SimpleDB"),
        url => url.to_owned(),
    }
}

/// The parties of a phase, and when each begins in it.
pub(super) type Phase = Vec<(Duration, Party)>;

/// A target with a run's parties.
pub(super) struct Run<'a> {
    /// `model`, or a URL.
    pub(super) target: &'a str,
    /// How the model behaves.
    pub(super) behaviour: Behaviour,
    /// Of the model.
    pub(super) seed: u64,
    /// Octets of values.
    pub(super) value_bytes: usize,
    /// Levels that are asked for.
    pub(super) levels: Vec<&'a str>,
    /// What orders the versions of a key, where replies do not tell.
    pub(super) order: Order,
    /// Who asks, phase by phase.
    pub(super) phases: &'a dyn Fn(&Seam) -> Vec<Phase>,
}

/// Whom parties ask.
pub(super) struct Seam {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) endpoint: Text,
}

/// Runs all parties to their end and gives their log.
pub(super) async fn run(run: &Run<'_>) -> Result<Log> {
    let known = [STRONG, EVENTUAL, CONDITIONAL];
    let unknown = run.levels.iter().find(|level| !known.contains(level));
    if let Some(level) = unknown.filter(|_| !run.target.starts_with("simpledb:")) {
        let target = run.target;
        return failure::invalid(format_args!(
            "level {level}: {target} has {STRONG} and {EVENTUAL}; Fader's are for simpledb://"
        ));
    }
    match run.target {
        MODEL => Ok(on_model(run)),
        url => on_service(run, url).await,
    }
}

fn header(run: &Run<'_>, clock: Clock, order: Order) -> Header {
    Header {
        clock,
        target: run.target.to_owned(),
        levels: run.levels.iter().map(|level| (*level).to_owned()).collect(),
        seed: Some(run.seed),
        order,
        ..Header::default()
    }
}

fn on_model(run: &Run<'_>) -> Log {
    let executor = Executor::new(run.seed);
    let runtime = executor.process("clients", Skew::default()).runtime();
    let provider = Registers::new(runtime.clone(), run.behaviour.clone(), run.seed);
    let phases = (run.phases)(&Seam {
        provider: Arc::new(provider),
        endpoint: MODEL.into(),
    });
    Log {
        header: header(run, Clock::Virtual, Order::Told),
        operations: executor.run(drive_all(&runtime, phases)),
    }
}

async fn on_service(run: &Run<'_>, url: &str) -> Result<Log> {
    let mut interrupts = Interrupts::listen()?;
    let provider = tokio::select! {
        opened = open(run, url) => opened?,
        () = interrupts.next() => return interrupted(),
    };
    let done = tokio::select! {
        log = asked(run, url, provider.clone()) => Ok(log),
        () = interrupts.next() => interrupted(),
    };
    let ended = provider.end().await;
    let log = done?;
    ended.map_err(anyhow::Error::msg)?;
    if log.operations.iter().all(|one| one.done().is_none()) {
        let reason = log.operations.iter().find(|one| one.is_refused());
        return match reason {
            Some(refused) => nothing_done(refused, format_args!("nothing was done: {refused}")),
            None => failure::fail(
                ErrorCode::Unavailable,
                format_args!("nothing was done at {url}"),
            ),
        };
    }
    Ok(log)
}

/// A run of which a request that had to be done was not. A service that answers 4xx refuses the
/// call; every other end says that the service does not answer, or takes no calls now.
pub(super) fn nothing_done<T>(one: &Operation, message: impl std::fmt::Display) -> Result<T> {
    let code = match &one.end {
        Some((_, Outcome::Refused(status))) if status.starts_with('4') => ErrorCode::RequestRefused,
        _ => ErrorCode::Unavailable,
    };
    failure::fail(code, message)
}

/// The service at a URL, with room for the objects of this run.
async fn open(run: &Run<'_>, url: &str) -> Result<Arc<dyn Provider>> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let bytes = run.value_bytes;
    let made = match scheme {
        None => {
            return failure::invalid(format_args!(
                "--target: expected `{MODEL}`, or a URL that begins with simpledb://, redis://, \
                 etcd://, s3://, file:// or the like, found {url}"
            ));
        }
        Some("simpledb") => {
            let wrong = |level: &&str| InSimpleDb::check_level(level).err();
            if let Some(wrong) = run.levels.iter().find_map(wrong) {
                return failure::invalid(wrong);
            }
            let location = Simple::parse(url)?;
            let client = location.client()?;
            let domain = location.domain();
            let made = InSimpleDb::create(client, domain, &run.levels, bytes).await;
            Arc::new(made?) as Arc<dyn Provider>
        }
        Some("redis") => Arc::new(redis(url, bytes)?),
        Some("etcd") => {
            let members = url.trim_start_matches("etcd://").trim_end_matches('/');
            let members: Vec<String> = members.split(',').map(str::to_owned).collect();
            if !members.iter().all(|member| is_address(member)) {
                return failure::invalid(format_args!(
                    "{url}: expected etcd://HOST:PORT, or several with commas between them"
                ));
            }
            Arc::new(Etcd::new(members, format!("{}/", new_domain()), bytes))
        }
        Some(_) => {
            let options = fader_client::Options {
                access: Access::Write,
                ..fader_client::Options::default()
            };
            let domains = fader_client::open_domains(url, &options).await?;
            let domain = new_domain();
            let created = domains.create(&domain).await;
            created.with_context(|| format!("cannot create a domain at {url}"))?;
            Arc::new(InDomain {
                domains,
                domain,
                value_bytes: bytes,
            })
        }
    };
    Ok(made)
}

fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// `redis://HOST:PORT?replica=HOST:PORT&wait=N`; the password is the one of `redis-cli`.
fn redis(url: &str, value_bytes: usize) -> Result<Redis> {
    let form = || format!("{url}: expected redis://HOST:PORT?replica=HOST:PORT&wait=N");
    let rest = url.trim_start_matches("redis://");
    let (primary, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let primary = primary.trim_end_matches('/');
    let (mut replica, mut wait) = (None, None);
    for part in parameters.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("replica", address)) if is_address(address) => replica = Some(address),
            Some(("wait", count)) => {
                let invalid = |_| Failure::new(ErrorCode::CallInvalid, form());
                wait = Some(count.parse().map_err(invalid)?);
            }
            _ => return failure::invalid(form()),
        }
    }
    if !is_address(primary) {
        return failure::invalid(form());
    }
    let password = std::env::var("REDISCLI_AUTH").unwrap_or_default();
    let prefix = format!("{}:", new_domain());
    // A strong write waits for the replica that there is.
    let wait = wait.unwrap_or(u32::from(replica.is_some()));
    let made = Redis::new(primary, replica, wait, &password, prefix, value_bytes);
    made.map_err(anyhow::Error::msg)
}

async fn asked(run: &Run<'_>, url: &str, provider: Arc<dyn Provider>) -> Log {
    let runtime: Runtime = system_runtime();
    let phases = (run.phases)(&Seam {
        provider,
        endpoint: url.into(),
    });
    let start = runtime.clock.wall().as_nanos();
    let clock = Clock::Monotonic {
        start_unix_nanos: u64::try_from(start).unwrap_or(u64::MAX),
    };
    Log {
        header: header(run, clock, run.order),
        operations: drive_all(&runtime, phases).await,
    }
}

/// The name of a domain for one run.
fn new_domain() -> String {
    let now = SystemClock::default().wall().as_millis();
    format!("fader-measure-{now}")
}

/// Where a SimpleDB is, and who asks.
struct Simple {
    prefix: String,
    endpoint: String,
    /// None where requests go unsigned.
    credentials: Option<Credentials>,
}

impl Simple {
    /// Of a URL such as `simpledb://PREFIX?endpoint=http://127.0.0.1:4566`.
    fn parse(url: &str) -> Result<Self> {
        let location = ServiceLocation::parse(url, Service::SimpleDb)?;
        let ServiceLocation::Service {
            prefix,
            endpoint,
            is_unsigned,
            ..
        } = location
        else {
            return failure::invalid(format_args!(
                "{url}: expected simpledb://PREFIX?endpoint=URL"
            ));
        };
        let variable = |name| std::env::var(name).ok().filter(|url| !url.is_empty());
        let endpoint = endpoint
            .or_else(|| variable("AWS_ENDPOINT_URL_SIMPLEDB"))
            .or_else(|| variable("AWS_ENDPOINT_URL"))
            .unwrap_or_else(|| "https://sdb.amazonaws.com".to_owned());
        let credentials = match is_unsigned {
            true => None,
            false => Some(crate::credentials::find(None)?),
        };
        Ok(Simple {
            prefix,
            endpoint,
            credentials,
        })
    }

    fn client(&self) -> Result<SimpleDb> {
        let ca_pem = match std::env::var("AWS_CA_BUNDLE") {
            Ok(path) if !path.is_empty() => {
                Some(std::fs::read(&path).with_context(|| format!("AWS_CA_BUNDLE: {path}"))?)
            }
            _ => None,
        };
        let settings = Settings {
            ca_pem,
            ..Settings::default()
        };
        let credentials = self.credentials.clone();
        Ok(SimpleDb(Client::new(
            &self.endpoint,
            credentials,
            settings,
        )?))
    }

    /// A domain for one run.
    fn domain(&self) -> String {
        format!("{}{}", self.prefix, new_domain())
    }
}

/// A SimpleDB that threads ask, each on a connection of its own.
#[derive(Clone)]
pub(super) struct Raw {
    /// Where requests go.
    pub(super) target: Target,
    /// A domain of this run.
    pub(super) domain: String,
    domains: Arc<dyn Domains>,
}

impl Raw {
    /// The service at a URL such as `simpledb://?endpoint=http://127.0.0.1:4566`; the domain is not
    /// there yet.
    pub(super) async fn at(url: &str) -> Result<Self> {
        let location = Simple::parse(url)?;
        let credentials = location.credentials.clone();
        let credentials = credentials
            .with_context(|| format!("{url}: threads sign their requests: leave `unsigned` out"))?;
        let raw = Raw::of(&location.endpoint, credentials).await?;
        Ok(Raw {
            domain: location.domain(),
            ..raw
        })
    }

    /// The service at an endpoint.
    pub(super) async fn of(endpoint: &str, credentials: Credentials) -> Result<Self> {
        let host = endpoint.trim_end_matches('/').strip_prefix("http://");
        let host = host.with_context(|| {
            format!("{endpoint}: threads speak HTTP without TLS: expected http://HOST:PORT")
        })?;
        let with_port = match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
            _ => format!("{host}:80"),
        };
        let found = tokio::net::lookup_host(&with_port).await;
        let mut found = found.with_context(|| format!("cannot find {with_port}"))?;
        let address = found.next();
        let address = address.with_context(|| format!("{with_port} has no address"))?;
        let signer = Signer::new(&credentials, SignatureVersion::V2, host);
        let client = Client::new(endpoint, Some(credentials), Settings::default())?;
        Ok(Raw {
            target: Target {
                address,
                signer: Arc::new(signer),
            },
            domain: new_domain(),
            domains: Arc::new(SimpleDb(client)),
        })
    }

    /// Works with the domain, which is created before and deleted after, also on Ctrl-C.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let created = self.domains.create(&self.domain).await;
        created.with_context(|| format!("cannot create the domain {}", self.domain))?;
        let mut interrupts = Interrupts::listen()?;
        let done = tokio::select! {
            done = work => done,
            () = interrupts.next() => interrupted(),
        };
        let deleted = self.domains.delete(&self.domain).await;
        let done = done?;
        deleted.with_context(|| format!("cannot delete the domain {}", self.domain))?;
        Ok(done)
    }
}
