//! What a run is measured at: a model in virtual time, or domains by their URL in real time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fader_client::{Access, SystemClock, system_runtime};
use fader_cloud::model::{Executor, Skew};
use fader_cloud::{Clock as _, Domains, Runtime};
use fader_history::object::{Log, Text};
use fader_history::{Clock, Header, Order};
use fader_measure::model::{Behaviour, Registers};
use fader_measure::{EVENTUAL, InDomain, Party, Provider, STRONG, drive_all};

/// The target that is no service.
pub(super) const MODEL: &str = "model";

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
    match run.target {
        MODEL => Ok(on_model(run)),
        url => on_domains(run, url).await,
    }
}

fn header(run: &Run<'_>, clock: Clock, order: Order) -> Header {
    Header {
        clock,
        target: run.target.to_owned(),
        levels: vec![EVENTUAL.to_owned(), STRONG.to_owned()],
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

async fn on_domains(run: &Run<'_>, url: &str) -> Result<Log> {
    let options = fader_client::Options {
        access: Access::Write,
        ..fader_client::Options::default()
    };
    let domains = fader_client::open_domains(url, &options).await?;
    let clock = SystemClock::default();
    let domain = format!("fader-measure-{}", clock.wall().as_millis());
    domains
        .create(&domain)
        .await
        .with_context(|| format!("cannot create a domain at {url}"))?;
    let work = in_domain(run, url, domains.clone(), &domain);
    let done = tokio::select! {
        done = work => Ok(done),
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    let deleted = domains.delete(&domain).await;
    let log = done?;
    deleted.with_context(|| format!("cannot delete the domain {domain}"))?;
    if log.operations.iter().all(|one| one.done().is_none()) {
        let reason = log.operations.iter().find(|one| one.is_refused());
        match reason {
            Some(refused) => bail!("nothing was done: {refused}"),
            None => bail!("nothing was done at {url}"),
        }
    }
    Ok(log)
}

async fn in_domain(run: &Run<'_>, url: &str, domains: Arc<dyn Domains>, domain: &str) -> Log {
    let runtime: Runtime = system_runtime();
    let provider = InDomain {
        domains,
        domain: domain.to_owned(),
        value_bytes: run.value_bytes,
    };
    let phases = (run.phases)(&Seam {
        provider: Arc::new(provider),
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
