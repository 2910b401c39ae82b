//! A run on any provider in any time: the generator's shell for `cloud`'s runtimes, real or
//! virtual.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fader_cloud::Runtime;
use fader_history::object::{Operation, Outcome, Request, Text, Value, Verb};
use fader_history::{Moment, Outcome as End};
use parking_lot::Mutex;

use crate::generator::{Generator, Start, Step, nanoseconds};
use crate::run::Plan;
use crate::workload::{Act, Intent, Workload, value};

/// A service of objects: what operations of logs are asked of.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Asks for one operation, on behalf of a client, at a level by its name.
    async fn ask(&self, client: u32, request: &Request, level: &str) -> Outcome;

    /// Removes what was written.
    ///
    /// # Errors
    /// What stays, and why.
    async fn end(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Clients that do a workload together.
#[derive(Clone)]
pub struct Party {
    /// The shape of its load; threads are the runtime's.
    pub plan: Plan,
    /// What they ask.
    pub workload: Arc<dyn Workload>,
    /// Whom they ask.
    pub provider: Arc<dyn Provider>,
    /// What the provider is called in the log.
    pub endpoint: Text,
    /// The number of the first client; the others follow.
    pub first: u32,
}

struct Shared {
    party: Party,
    runtime: Runtime,
    origin: Duration,
    generator: Mutex<Generator>,
    /// Held by the free client that waits for the time. Not tokio's: a task of tokio in which a
    /// model runs to its end would use up its budget, and wait for more for ever.
    turn: futures_util::lock::Mutex<()>,
}

/// Lets a party do its part of a run that began at `origin` by the runtime's monotonic clock, and
/// gives its operations, client by client.
pub async fn drive(runtime: &Runtime, origin: Duration, party: Party) -> Vec<Operation> {
    let Plan {
        load,
        until,
        errors_max,
        connections,
        ..
    } = &party.plan;
    let generator = Generator::new(load, *until, *errors_max);
    let connections = (*connections).max(1);
    let shared = Arc::new(Shared {
        party,
        runtime: runtime.clone(),
        origin,
        generator: Mutex::new(generator),
        turn: futures_util::lock::Mutex::new(()),
    });
    let clients: Vec<_> = (0..connections)
        .map(|number| runtime.spawn(work(Arc::clone(&shared), number)))
        .collect();
    let mut operations = Vec::new();
    for client in clients {
        // A client that died with its process told nothing more.
        operations.extend(client.await.unwrap_or_default());
    }
    operations
}

/// Lets parties do a run, one phase after another: those of a phase together, each from a time
/// after its beginning on. Gives all operations; their times count from the run's start, which is
/// now.
pub async fn drive_all(runtime: &Runtime, phases: Vec<Vec<(Duration, Party)>>) -> Vec<Operation> {
    let start = runtime.clock.monotonic();
    let mut operations = Vec::new();
    for parties in phases {
        let origin = runtime.clock.monotonic();
        let begin = |(after, party): (Duration, Party)| {
            let own = runtime.clone();
            runtime.spawn(async move {
                own.clock.sleep(after).await;
                drive(&own, origin, party).await
            })
        };
        let running: Vec<_> = parties.into_iter().map(begin).collect();
        let first = operations.len();
        for party in running {
            operations.extend(party.await.unwrap_or_default());
        }
        let later = nanoseconds(origin.saturating_sub(start));
        operations[first..]
            .iter_mut()
            .for_each(|one| put_off(one, later));
    }
    operations
}

/// Moves an operation's times.
fn put_off(operation: &mut Operation, nanos: u64) {
    operation.intended.nanos += nanos;
    operation.called.nanos += nanos;
    if let Some((returned, _)) = &mut operation.end {
        returned.nanos += nanos;
    }
}

async fn work(shared: Arc<Shared>, number: u32) -> Vec<Operation> {
    let mut operations = Vec::new();
    while let Some(start) = shared.next().await {
        let intent = shared.party.workload.plan(start.sequence);
        shared
            .perform(number, start, &intent, &mut operations)
            .await;
    }
    operations
}

impl Shared {
    /// Nanoseconds since the run's start.
    fn now(&self) -> u64 {
        nanoseconds(self.runtime.clock.monotonic().saturating_sub(self.origin))
    }

    /// The next operation, when it is due.
    async fn next(&self) -> Option<Start> {
        let mut turn = None;
        loop {
            let now = self.now();
            let step = self.generator.lock().step(now);
            match (step, &turn) {
                (Step::Start(start), _) => return Some(start),
                (Step::End, _) => return None,
                (Step::Wait(_), None) => turn = Some(self.turn.lock().await),
                (Step::Wait(until), Some(_)) => {
                    let time = Duration::from_nanos(until - now);
                    self.runtime.clock.sleep(time).await;
                }
            }
        }
    }

    async fn perform(
        &self,
        number: u32,
        start: Start,
        intent: &Intent,
        operations: &mut Vec<Operation>,
    ) {
        let request = intent.request();
        let (key, is_modify) = (request.key.clone(), intent.act == Act::Modify);
        let mut outcome = self.ask(number, start, intent, request, operations).await;
        if is_modify && let End::Done(reply) = &outcome {
            let swap = Request {
                key,
                verb: Verb::Swap {
                    from: reply.shown.clone().unwrap_or_default(),
                    to: intent.value.map_or(Value::None, value),
                },
            };
            outcome = self.ask(number, start, intent, swap, operations).await;
        }
        let is_done = matches!(outcome, End::Done(_));
        self.generator.lock().ended(is_done);
        if is_done {
            self.party.workload.done(intent);
        }
    }

    async fn ask(
        &self,
        number: u32,
        start: Start,
        intent: &Intent,
        request: Request,
        operations: &mut Vec<Operation>,
    ) -> Outcome {
        let party = &self.party;
        let process = party.first + number;
        let level = party.plan.levels.get(intent.level).cloned();
        let level = level.unwrap_or_default();
        let called = self.now();
        let outcome = party.provider.ask(process, &request, &level).await;
        let operation = Operation {
            process,
            session: None,
            endpoint: party.endpoint.clone(),
            name: None,
            attempt: 1,
            level,
            intended: Moment::at(start.intended),
            called: Moment::at(called),
            action: request,
            end: Some((Moment::at(self.now()), outcome.clone())),
            price: None,
        };
        if !party.workload.goes_on(&operation) {
            self.generator.lock().stop();
        }
        operations.push(operation);
        outcome
    }
}

#[cfg(test)]
mod tests;
