//! Domains in memory: SimpleDB's own rules (`fader-services`) on a map, and copies of it that lag.
//!
//! Invariants:
//! - MDOMAIN-1 strong reads and all writes see the newest state. A profile may give strong reads an
//!   age, so that a check can be seen to tell.
//! - MDOMAIN-2 an eventual read sees a state that was the newest one no longer ago than the
//!   profile's greatest age. A copy never goes back, but another copy may be behind it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use fader_chain::{ApplyContext, Change, EntryId};
use fader_services::catalog::{self, AccountId};
use fader_services::simpledb::{Context, Limits, Reply as Answer, Request, answer, decide};
use fader_services::{Decision, MapView};

use super::link::{Ask, Link, Reply, Shared};
use super::profile::{DomainProfile, Staleness};
use super::schedule::Access;
use crate::clock::Clock;
use crate::domains::ReadConsistency;
use crate::error::Result;
use crate::meter::RequestKind;
use crate::simpledb::{self, Requests};

/// Copies that eventual reads are answered from.
const COPIES: usize = 2;

/// SimpleDB's machine time of a read and a write, in 10⁻¹⁰ hours: the samples of its guide.
const BOX_USAGE: (u64, u64) = (93_382, 219_907);

/// Domains of a model, as one process sees them.
#[derive(Clone, Debug)]
pub struct ModelDomains {
    link: Link,
    service: Arc<DomainService>,
}

/// What all processes share.
#[derive(Debug)]
pub(super) struct DomainService {
    pub(super) profile: Shared<DomainProfile>,
    account: AccountId,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    newest: MapView,
    copies: [LaggingReplica; COPIES],
    /// What some copy has not applied yet, behind the first `forgotten` writes, with its time.
    writes: VecDeque<(Duration, Vec<Change>)>,
    forgotten: u64,
}

#[derive(Debug, Default)]
struct LaggingReplica {
    view: MapView,
    applied: u64,
}

impl State {
    fn write(&mut self, changes: Vec<Change>, now: Duration, age_max: Duration) {
        self.writes.push_back((now, changes));
        let last = self.last();
        apply(
            &mut self.newest,
            last,
            &self.writes[self.writes.len() - 1].1,
        );
        let oldest = self.newest_at(now.saturating_sub(age_max));
        for copy in 0..COPIES {
            self.catch_up(copy, oldest);
        }
        let applied = self.copies.iter().map(|copy| copy.applied).min();
        while self.forgotten < applied.unwrap_or(last) {
            self.writes.pop_front();
            self.forgotten += 1;
        }
    }

    /// The number of the last write.
    fn last(&self) -> u64 {
        self.forgotten + self.writes.len() as u64
    }

    /// The number of the last write that had happened at a time.
    fn newest_at(&self, time: Duration) -> u64 {
        self.forgotten + self.writes.partition_point(|(at, _)| *at <= time) as u64
    }

    fn catch_up(&mut self, copy: usize, to: u64) {
        let copy = &mut self.copies[copy];
        while copy.applied < to {
            let at = (copy.applied - self.forgotten) as usize;
            copy.applied += 1;
            apply(&mut copy.view, copy.applied, &self.writes[at].1);
        }
    }
}

fn apply(view: &mut MapView, index: u64, changes: &[Change]) {
    let under = ApplyContext::strong(EntryId::new(1, index));
    view.apply(changes, &under)
        .expect("only what the service wrote is read");
}

impl DomainService {
    pub(super) fn new(profile: DomainProfile) -> Self {
        DomainService {
            profile: Shared::new(profile),
            account: AccountId("000000000001".to_owned()),
            limits: Limits::default(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it is locked")
    }

    fn context(&self, view: &MapView, request: &Request, wall: Duration) -> Context<'_> {
        let entry = request.domain().and_then(|domain| {
            let entry = catalog::domain(view, &self.account, domain);
            entry.expect("only what the service wrote is read")
        });
        Context {
            collection: entry.as_ref().map(|entry| entry.collection),
            mode: entry.map(|entry| entry.mode).unwrap_or_default(),
            now_ms: wall.as_millis() as u64,
            ..Context::new(&self.account, &self.limits)
        }
    }
}

impl ModelDomains {
    pub(super) fn new(link: Link, service: Arc<DomainService>) -> Self {
        ModelDomains { link, service }
    }

    fn ask(&self, is_write: bool, domain: Option<&str>) -> Ask {
        let profile = self.service.profile.get();
        let (call, kind, name, box_usage) = match is_write {
            true => (
                &profile.write,
                RequestKind::DomainWrite,
                "write",
                BOX_USAGE.1,
            ),
            false => (&profile.read, RequestKind::DomainRead, "read", BOX_USAGE.0),
        };
        Ask {
            call: call.clone(),
            kind,
            access: Access {
                call: name,
                name: domain.unwrap_or_default().to_owned(),
                is_prefix: domain.is_none(),
                is_write,
            },
            is_conditional: false,
            sent_bytes: 0,
            box_usage,
        }
    }

    /// The wall clock of the service.
    fn wall(&self) -> Duration {
        self.link.executor.harness().clock().wall()
    }
}

#[async_trait]
impl Requests for ModelDomains {
    async fn write(&self, request: Request) -> Result<()> {
        let ask = self.ask(true, request.domain());
        let domains = self.clone();
        let effect = move || {
            let (service, now) = (&domains.service, domains.link.executor.now());
            let mut state = service.state();
            let context = service.context(&state.newest, &request, domains.wall());
            let Decision { outcome, changes } = decide(&state.newest, &context, &request);
            let value = outcome.map(drop).map_err(|error| simpledb::refusal(&error));
            let status = if value.is_ok() { 200 } else { 409 };
            if value.is_ok() {
                state.write(changes, now, service.profile.get().age_max());
            }
            Ok(Reply {
                value,
                status,
                bytes: 0,
            })
        };
        self.link.call(ask, effect).await?
    }

    async fn read(&self, request: Request, reading: ReadConsistency) -> Result<Answer> {
        let ask = self.ask(false, request.domain());
        let domains = self.clone();
        let effect = move || {
            let (service, now) = (&domains.service, domains.link.executor.now());
            let mut state = service.state();
            let profile = service.profile.get();
            let staleness = match reading {
                ReadConsistency::Strong => &profile.strong_reads,
                ReadConsistency::Eventual => &profile.staleness,
            };
            let view = match reading {
                ReadConsistency::Strong if *staleness == Staleness::None => &state.newest,
                _ => {
                    let faults = &domains.link.faults;
                    let copy = faults.below(COPIES);
                    let age = faults.age(staleness);
                    let to = state.newest_at(now.saturating_sub(age));
                    state.catch_up(copy, to);
                    &state.copies[copy].view
                }
            };
            let context = service.context(view, &request, domains.wall());
            let answered = answer(view, &context, &request);
            Reply::ok(
                answered
                    .map(|answered| answered.reply)
                    .map_err(|error| simpledb::refusal(&error)),
            )
        };
        self.link.call(ask, effect).await?
    }

    async fn create_domain(&self, domain: &str) -> Result<()> {
        self.write(simpledb::create(domain)).await
    }

    async fn delete_domain(&self, domain: &str) -> Result<()> {
        self.write(simpledb::delete(domain)).await
    }

    async fn list_domains(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        let mut next_token = None;
        loop {
            let request = Request::ListDomains {
                max_count: None,
                next_token,
            };
            let Answer::Domains {
                names,
                next_token: next,
            } = self.read(request, ReadConsistency::Strong).await?
            else {
                return Err(simpledb::unexpected());
            };
            all.extend(names);
            next_token = next;
            if next_token.is_none() {
                return Ok(all);
            }
        }
    }
}

#[cfg(test)]
mod tests;
