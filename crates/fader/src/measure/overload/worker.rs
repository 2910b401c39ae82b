//! One worker process: its threads, and what they were told.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fader_history::object::{Log, Operation};
use fader_measure::formats::join;
use fader_measure::{
    Form, Intent, Load, Plan, Remaining, Stress, Summary, Target, Until, Variant, Verdict, Wire,
    Workload,
};
use fader_services::ErrorCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Options;
use crate::failure::Failure;
use crate::measure::staleness::write_log;
use crate::measure::target::Raw;

/// What a worker says when it may begin.
pub(super) const READY: &str = "ready\n";
/// The body that the paper shows, up to the request's id and from there on. What it shows begins
/// after the declaration of XML, which SimpleDB sends as well.
const BODY: [&str; 2] = [
    "<Response><Errors><Error><Code>ServiceUnavailable</Code><Message>Service AmazonSimpleDB is \
     currently unavailable. Please try again later</Message></Error></Errors><RequestID>",
    "</RequestID></Response>",
];
const DECLARATION: &[u8] = b"<?xml version=\"1.0\"?>\n";
/// Characters of a body that is shown.
const SHOWN: usize = 400;

/// What a worker was told.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) gets: Requests,
    pub(super) puts: Requests,
    pub(super) bodies: Bodies,
    /// Seconds since 1970 in which an answer was 503.
    pub(super) seconds: BTreeSet<u64>,
}

/// What requests of one kind came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Requests {
    /// Those that were done: plain ones, then strong ones.
    pub(super) done: [u64; 2],
    /// Those that were answered with 503.
    pub(super) unavailable: [u64; 2],
    /// Other statuses, and silence as 0, by their count.
    pub(super) other: BTreeMap<u16, u64>,
    /// Of those that were done, in milliseconds: median and 99th percentile.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Bodies of answers with 503.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Bodies {
    /// As the paper shows it, but for the request's id.
    pub(super) same: u64,
    /// Others.
    pub(super) other: u64,
    /// The first of them.
    pub(super) example: Option<String>,
}

impl Bodies {
    pub(super) fn add(&mut self, body: &[u8]) {
        if is_the_papers(body) {
            self.same += 1;
            return;
        }
        self.other += 1;
        let shown = || String::from_utf8_lossy(body).chars().take(SHOWN).collect();
        self.example.get_or_insert_with(shown);
    }
}

/// Whether a body is the paper's, octet by octet, but for the digits of the request's id.
fn is_the_papers(body: &[u8]) -> bool {
    let body = body.strip_prefix(DECLARATION).unwrap_or(body);
    let id = body.strip_prefix(BODY[0].as_bytes());
    let id = id.and_then(|rest| rest.strip_suffix(BODY[1].as_bytes()));
    let is_digit = |(at, octet): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *octet == b'-',
        _ => octet.is_ascii_digit() || (b'a'..=b'f').contains(octet),
    };
    id.is_some_and(|id| id.len() == 36 && id.iter().enumerate().all(is_digit))
}

/// A workload that counts refusals.
struct Counted {
    stress: Stress,
    heard: Mutex<Told>,
}

impl Workload for Counted {
    fn plan(&self, sequence: u64) -> Intent {
        self.stress.plan(sequence)
    }
}

impl Wire for Counted {
    fn action(&self) -> &'static str {
        self.stress.action()
    }

    fn parameters(&self, intent: &Intent, form: &mut Form) {
        self.stress.parameters(intent, form);
    }

    fn verify(&self, intent: &Intent, body: &[u8]) -> Verdict {
        self.stress.verify(intent, body)
    }

    fn refused(&self, intent: &Intent, status: u16, body: &[u8]) {
        let Told {
            gets,
            bodies,
            seconds,
            ..
        } = &mut *self.heard.lock();
        if status != 503 {
            *gets.other.entry(status).or_default() += 1;
            return;
        }
        gets.unavailable[intent.level] += 1;
        bodies.add(body);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        seconds.insert(now.map_or(0, |now| now.as_secs()));
    }
}

/// Is a worker: says that it is ready, waits for a line, loads the service, and says what it was
/// told. It ends when its input does.
pub(super) async fn run(options: &Options, url: &str, number: u64, domain: &str) -> Result<()> {
    let raw = Raw::at(url).await?;
    let (domain, items) = (domain.to_owned(), options.items);
    let (threads, time) = (options.threads, options.time);
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let begun = begin();
        let worked = begun.and_then(|()| worked(&raw, number, &domain, items, threads, time));
        // A command that was interrupted has no use for it.
        let _ = tell.send(worked);
    });
    let (told, log) = told.await.context("a thread panicked")??;
    if let Some(path) = &options.out {
        write_log(&log, path)?;
    }
    serde_json::to_writer(stdout().lock(), &told)?;
    Ok(())
}

fn begin() -> Result<()> {
    let mut out = stdout().lock();
    out.write_all(READY.as_bytes())?;
    out.flush()?;
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    std::thread::spawn(|| {
        let mut rest = String::new();
        while stdin()
            .lock()
            .read_line(&mut rest)
            .is_ok_and(|count| 0 < count)
        {}
        std::process::exit(2);
    });
    Ok(())
}

/// What a worker of this number is told in a domain with so many items, and its log.
pub(super) fn worked(
    raw: &Raw,
    number: u64,
    domain: &str,
    items: u64,
    threads: u32,
    time: Duration,
) -> Result<(Told, Log)> {
    let stress = |is_put| Stress {
        domain: domain.to_owned(),
        is_put,
        variant: Variant::InTurn,
        items,
        in_order: false,
        // Workers write different values.
        value_first: number << 40,
        remaining: Remaining::new(u64::MAX),
        is_background: false,
    };
    work(&raw.target, [stress(false), stress(true)], threads, time)
}

/// Gets and puts side by side.
fn work(
    target: &Target,
    [get, put]: [Stress; 2],
    threads: u32,
    time: Duration,
) -> Result<(Told, Log)> {
    let side = |stress| one_side(target, stress, threads, time);
    let (gets, puts) = std::thread::scope(|scope| {
        let gets = scope.spawn(|| side(get));
        let puts = side(put);
        (gets.join(), puts)
    });
    let gets = gets.map_err(|_| Failure::new(ErrorCode::Internal, "a thread panicked"))?;
    let ((mut told, gets_log), (puts, mut puts_log)) = (gets?, puts?);
    told.puts = puts.gets;
    told.seconds.extend(puts.seconds);
    told.bodies.same += puts.bodies.same;
    told.bodies.other += puts.bodies.other;
    told.bodies.example = told.bodies.example.or(puts.bodies.example);
    puts_log
        .operations
        .iter_mut()
        .for_each(|one| one.process += threads);
    Ok((told, join(vec![gets_log, puts_log])))
}

/// What one kind of requests was told, as if it were gets, and its log.
fn one_side(target: &Target, stress: Stress, threads: u32, time: Duration) -> Result<(Told, Log)> {
    let plan = Plan {
        name: "overload".to_owned(),
        load: Load::Closed,
        until: Until::Elapsed(time),
        connections: threads,
        threads,
        errors_max: None,
        levels: stress.levels(),
    };
    let workload = Arc::new(Counted {
        stress,
        heard: Mutex::default(),
    });
    let log = fader_measure::run(target, &plan, workload.clone(), |_| {})?.log;
    let mut told = std::mem::take(&mut *workload.heard.lock());
    let levels = &plan.levels;
    let count = |level| {
        let of_level = |one: &&Operation| one.level == levels[level] && one.done().is_some();
        log.operations.iter().filter(of_level).count() as u64
    };
    told.gets.done = [count(0), count(1)];
    let refused = told.gets.unavailable.iter().chain(told.gets.other.values());
    let answered = refused.sum::<u64>() + told.gets.done.iter().sum::<u64>();
    let silent = log.operations.len() as u64 - answered;
    if 0 < silent {
        told.gets.other.insert(0, silent);
    }
    let service = Summary::of(&log, time).service;
    told.gets.p50_ms = service.value_at_quantile(0.5) as f64 / 1e6;
    told.gets.p99_ms = service.value_at_quantile(0.99) as f64 / 1e6;
    Ok((told, log))
}

#[cfg(test)]
mod tests;
