//! The five phases of the article of 2008: many items put, three queries with a get for each item
//! that they find, all items deleted. Also how many requests were served and in flight meanwhile.
//!
//! ```text
//! put n items of two attributes
//! query all              ─▶ get one attribute of each          (10,000 of 10,000)
//! query one attribute    ─▶ get the other                       (6,971)
//! query both attributes  ─▶ get both                            (9,900)
//! delete n items
//! ```
//!
//! Gets begin with the first page of a query. Every answer is compared with what was put. The seed
//! had `Query`; today's SDKs have `Select`, which asks the same here.
//!
//! Deliberately absent: judging. A run says what happened; who compares runs, does.

mod data;
mod recording;
mod sender;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fader_client::{Error, Response};
use fader_history::object::{Log, Operation, Reply, Request, Value, Verb};
use fader_history::{Header, Moment};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use data::{Data, Question};
use recording::SEED;
pub use recording::{Phase, Recording, chart};
pub use sender::{ClientKind, Sender, THREADS};

use crate::generator::nanoseconds;
use crate::providers::simpledb::heard;
use crate::workload::Heard;

/// Requests at hand at a time, waiting or in flight. More than any window here, and few enough that
/// none waits for long.
const AT_HAND: usize = 1_024;
/// How often is looked at what was served and is in flight.
const STEP: Duration = Duration::from_millis(100);

/// What to run.
#[derive(Clone, Debug)]
pub struct Phases {
    /// Items; the seed had 10,000.
    pub items: u32,
    /// The domain, which is created and deleted.
    pub domain: String,
}

/// A run under way.
struct Run {
    sender: Sender,
    domain: String,
    data: Data,
    gate: Semaphore,
    start: Instant,
    operations: Mutex<Vec<Operation>>,
    unexpected: AtomicU64,
}

/// When a phase was, and what its log does not tell.
struct Lap {
    name: &'static str,
    start: Duration,
    end: Duration,
    /// Attempts refused for overload.
    refused: u64,
    /// Answers that were not what had been put.
    unexpected: u64,
}

/// Runs the phases, one after the other.
///
/// # Errors
/// When the domain cannot be made or deleted, or a query fails. A put, get or delete that fails is
/// counted.
pub async fn run(phases: &Phases, sender: Sender) -> Result<(Recording, Log), Error> {
    let domain = vec![pair("DomainName", &phases.domain)];
    sender.call("CreateDomain", &domain).await?;
    let run = Arc::new(Run {
        sender,
        domain: phases.domain.clone(),
        data: Data::new(phases.items),
        gate: Semaphore::new(AT_HAND),
        start: Instant::now(),
        operations: Mutex::default(),
        unexpected: AtomicU64::new(0),
    });
    let watch = tokio::spawn(watch(Arc::clone(&run)));
    let mut laps = Vec::new();
    for (index, seed) in SEED.iter().enumerate() {
        laps.push(phase(&run, index, seed.name).await?);
    }
    watch.abort();
    let connections = match watch.await {
        Ok(never) => match never {},
        Err(_) => run.sender.samples(),
    };
    run.sender.call("DeleteDomain", &domain).await?;
    let log = Log {
        header: Header {
            target: run.sender.target(),
            ..Header::default()
        },
        operations: std::mem::take(&mut *run.operations.lock()),
    };
    let recording = Recording {
        client: run.sender.name(),
        addresses: run.sender.addresses(),
        items: phases.items,
        step_s: STEP.as_secs_f64(),
        served: recording::served(&log, STEP, connections.len()),
        connections,
        phases: laps.iter().map(|lap| Phase::of(lap, &log)).collect(),
    };
    Ok((recording, log))
}

/// Looks, step by step, until it is ended.
async fn watch(run: Arc<Run>) -> std::convert::Infallible {
    let mut steps = interval(STEP);
    loop {
        steps.tick().await;
        run.sender.sample();
    }
}

async fn phase(run: &Arc<Run>, index: usize, name: &'static str) -> Result<Lap, Error> {
    let start = run.start.elapsed();
    let refused = run.sender.refused();
    let unexpected = run.unexpected.load(Ordering::Relaxed);
    let mut tasks = JoinSet::new();
    match Question::ALL.get(index.wrapping_sub(1)) {
        Some(question) => query(run, *question, &mut tasks).await?,
        None if index == 0 => each(run, &mut tasks, Run::put).await,
        None => each(run, &mut tasks, Run::delete).await,
    }
    while tasks.join_next().await.is_some() {}
    Ok(Lap {
        name,
        start,
        end: run.start.elapsed(),
        refused: run.sender.refused() - refused,
        unexpected: run.unexpected.load(Ordering::Relaxed) - unexpected,
    })
}

/// One request for each item.
async fn each<F>(run: &Arc<Run>, tasks: &mut JoinSet<()>, make: fn(Arc<Run>, u32) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for item in 0..run.data.items {
        Run::spawn(run, tasks, make(Arc::clone(run), item)).await;
    }
}

/// A query, page by page, and a get for each item on a page.
async fn query(run: &Arc<Run>, question: Question, tasks: &mut JoinSet<()>) -> Result<(), Error> {
    let expression = run.data.expression(question, &run.domain);
    let mut found = 0_u64;
    let mut token = None;
    loop {
        let mut parameters = vec![pair("SelectExpression", &expression)];
        parameters.extend(token.take().map(|token: String| pair("NextToken", &token)));
        let page = run.ask("Select", &parameters, &expression).await?;
        let result = page.root.child("SelectResult").cloned().unwrap_or_default();
        for item in result.children("Item") {
            found += 1;
            let name = item.child_text("Name").to_owned();
            Run::spawn(run, tasks, Arc::clone(run).get(question, name)).await;
        }
        token = result.child("NextToken").map(|token| token.text.clone());
        if token.as_ref().is_none_or(String::is_empty) {
            break;
        }
    }
    let missing = found.abs_diff(u64::from(run.data.matches(question)));
    run.unexpected.fetch_add(missing, Ordering::Relaxed);
    Ok(())
}

impl Run {
    /// Starts a task when there is room for one more.
    async fn spawn(
        run: &Arc<Run>,
        tasks: &mut JoinSet<()>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let permit = run.gate.acquire().await.expect("the gate is never closed");
        permit.forget();
        let run = Arc::clone(run);
        tasks.spawn(async move {
            task.await;
            run.gate.add_permits(1);
        });
        while tasks.try_join_next().is_some() {}
    }

    async fn put(self: Arc<Self>, item: u32) {
        let name = self.data.name(item);
        let mut parameters = self.item(&name);
        for (index, (attribute, value)) in self.data.attributes(item).iter().enumerate() {
            parameters.push((format!("Attribute.{index}.Name"), (*attribute).to_owned()));
            parameters.push((format!("Attribute.{index}.Value"), value.clone()));
            parameters.push(pair(&format!("Attribute.{index}.Replace"), "true"));
        }
        drop(self.ask("PutAttributes", &parameters, &name).await);
    }

    async fn get(self: Arc<Self>, question: Question, item: String) {
        let mut parameters = self.item(&item);
        for (index, name) in question.gets().iter().enumerate() {
            parameters.push((format!("AttributeName.{index}"), (*name).to_owned()));
        }
        let answer = self.ask("GetAttributes", &parameters, &item).await;
        let is_right = answer.map_or(true, |answer| {
            let result = answer.root.child("GetAttributesResult");
            let result = result.cloned().unwrap_or_default();
            let attribute = result.children("Attribute");
            let mut got: Vec<(String, String)> = attribute
                .map(|it| {
                    (
                        it.child_text("Name").to_owned(),
                        it.child_text("Value").to_owned(),
                    )
                })
                .collect();
            got.sort();
            self.data.is_right(question, &item, &got)
        });
        if !is_right {
            self.unexpected.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn delete(self: Arc<Self>, item: u32) {
        let name = self.data.name(item);
        drop(self.ask("DeleteAttributes", &self.item(&name), &name).await);
    }

    fn item(&self, name: &str) -> Vec<(String, String)> {
        vec![pair("DomainName", &self.domain), pair("ItemName", name)]
    }

    /// Asks until there is an answer or none will come, and notes it.
    async fn ask(
        &self,
        action: &str,
        parameters: &[(String, String)],
        key: &str,
    ) -> Result<Response, Error> {
        let called = Moment::at(nanoseconds(self.start.elapsed()));
        let answer = self.sender.call(action, parameters).await;
        let verb = match action {
            "PutAttributes" => Verb::Write(Value::Text(key.into())),
            "DeleteAttributes" => Verb::Write(Value::None),
            _ => Verb::Read,
        };
        let is_write = verb != Verb::Read;
        let said = match &answer {
            Ok(_) => Heard::Reply(Reply::default()),
            Err(error) => heard(error),
        };
        let returned = Moment::at(nanoseconds(self.start.elapsed()));
        self.operations.lock().push(Operation {
            process: 0,
            session: None,
            endpoint: self.sender.target().into(),
            name: None,
            attempt: 1,
            level: "".into(),
            intended: called,
            called,
            action: Request {
                key: key.into(),
                verb,
            },
            end: Some((returned, said.outcome(is_write))),
            price: None,
        });
        answer
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests;
