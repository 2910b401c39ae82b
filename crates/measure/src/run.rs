//! A run on raw connections in real time: the generator's shell for SimpleDB.
//!
//! A few threads, each with its own runtime, connections and pacer; one generator for all. Requests
//! are signed as they are sent and every reply is judged.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fader_client::{CONTENT_TYPE, Signer};
use fader_history::object::{Log, Operation, Text};
use fader_history::{Clock, Header, Moment, Outcome};
use parking_lot::Mutex;
use tokio::task::LocalSet;

use crate::connection::Connection;
use crate::generator::{Generator, Load, Start, Step, Until, nanoseconds};
use crate::pacer::Pacer;
use crate::workload::{Form, Heard, Intent, Wire};

/// Errors after which a benchmark is given up: what it measured would not count.
pub const ERRORS_MAX: u64 = 100;
/// No answer within this time is a lost operation.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The time that setting a timer and waking up by it takes, in nanoseconds.
const TIMER_COST_NS: u64 = 20_000;
/// How often a waiting caller hears of the progress.
const WATCH_PERIOD: Duration = Duration::from_millis(500);

/// Where load goes and how it is signed.
#[derive(Clone)]
pub struct Target {
    /// The server.
    pub address: SocketAddr,
    /// Signs for the host that `address` prints as.
    pub signer: Arc<Signer>,
}

/// The shape of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What ran, for messages.
    pub name: String,
    /// When operations start.
    pub load: Load,
    /// When the run ends.
    pub until: Until,
    /// Connections, over all threads: operations under way at once.
    pub connections: u32,
    /// Threads; at most one for each connection is used.
    pub threads: u32,
    /// After this many errors the run ends, and one error makes the run one; without it errors are
    /// data like the rest.
    pub errors_max: Option<u64>,
    /// The levels of operations, by number.
    pub levels: Vec<Text>,
}

/// What a run was.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// Every operation.
    pub log: Log,
    /// How long operations were started.
    pub elapsed: Duration,
    /// Refusals by the reason that Fader's header `x-fader-reason` names, else by the status.
    pub refusals: BTreeMap<String, u64>,
}

/// Why a run counts for nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The generator could not do its part.
    #[error("load generator: {0}")]
    Io(#[from] std::io::Error),
    /// Operations failed.
    #[error(
        "{name}: {errors} of {operations} operations failed, refused: {refusals:?}, the first: \
         {first}"
    )]
    Failed {
        /// The run.
        name: String,
        /// Failed operations.
        errors: u64,
        /// All operations.
        operations: u64,
        /// Refusals by their reasons.
        refusals: BTreeMap<String, u64>,
        /// The first that failed.
        first: Box<Operation>,
    },
}

/// What the threads of a run have in common.
struct Run {
    target: Target,
    endpoint: Text,
    levels: Vec<Text>,
    workload: Arc<dyn Wire>,
    generator: Mutex<Generator>,
    refusals: Mutex<BTreeMap<String, u64>>,
    /// Where the threads wait until all connections are open.
    gate: Barrier,
    /// When the run began, also in nanoseconds since 1970.
    start: OnceLock<(Instant, u64)>,
}

/// One connection of a run.
struct Client {
    run: Arc<Run>,
    number: u32,
    connection: Connection,
    pacer: Rc<tokio::sync::Mutex<Pacer>>,
    moment: fader_client::Moment,
    form: Form,
    body: Vec<u8>,
    request: Vec<u8>,
    operations: Operations,
}

/// What a connection did. It grows by pieces that stay where they are. A vector would move all of
/// it when it grows, and those of all connections grow at the same time.
#[derive(Default)]
struct Operations(Vec<Vec<Operation>>);

impl Operations {
    /// Operations of one piece.
    const PIECE: usize = 256;

    fn push(&mut self, operation: Operation) {
        match self.0.last_mut() {
            Some(piece) if piece.len() < Self::PIECE => piece.push(operation),
            _ => {
                let mut piece = Vec::with_capacity(Self::PIECE);
                piece.push(operation);
                self.0.push(piece);
            }
        }
    }
}

impl IntoIterator for Operations {
    type Item = Operation;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<Operation>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

/// Runs a plan to its end and gives its log; `watch` hears now and then how many are done.
///
/// Blocks; must not be called from within a runtime.
///
/// # Errors
/// A connection that cannot be opened; an error of an operation, if the plan bounds them.
pub fn run(
    target: &Target,
    plan: &Plan,
    workload: Arc<dyn Wire>,
    mut watch: impl FnMut(u64),
) -> Result<Ran, RunError> {
    let connections = plan.connections.max(1);
    let threads = plan.threads.clamp(1, connections);
    let run = Arc::new(Run::new(target, plan, workload, threads));
    let (finished, unfinished) = std::sync::mpsc::channel::<()>();
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let (run, finished) = (Arc::clone(&run), finished.clone());
            let numbers: Vec<u32> = (thread..connections).step_by(threads as usize).collect();
            std::thread::spawn(move || {
                // Dropped when the thread ends, be it by a panic.
                let _finished = finished;
                drive(&run, &numbers)
            })
        })
        .collect();
    drop(finished);
    while unfinished.recv_timeout(WATCH_PERIOD) == Err(RecvTimeoutError::Timeout) {
        watch(run.generator.lock().done());
    }
    let mut operations = Vec::new();
    for handle in handles {
        let thread = handle
            .join()
            .map_err(|_| io::Error::other("a thread panicked"))?;
        operations.extend(thread?.into_iter().flatten());
    }
    let elapsed = match plan.until {
        Until::Elapsed(elapsed) => elapsed,
        Until::Operations(_) => Duration::from_nanos(last_end(&operations)),
    };
    let header = header(target, plan, run.start().1);
    check(
        plan,
        Ran {
            log: Log { header, operations },
            elapsed,
            refusals: std::mem::take(&mut *run.refusals.lock()),
        },
    )
}

/// Does the workload's first operation and gives the body of its reply.
///
/// Blocks; must not be called from within a runtime.
///
/// # Errors
/// As those of [`run`].
pub fn sample(target: &Target, workload: Arc<dyn Wire>) -> Result<Vec<u8>, RunError> {
    let plan = Plan {
        name: String::from("sample"),
        load: Load::Closed,
        until: Until::Operations(1),
        connections: 1,
        threads: 1,
        errors_max: Some(1),
        levels: Vec::new(),
    };
    let run = Arc::new(Run::new(target, &plan, workload, 1));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut clients = open_all(&run, &[0]).await?;
        let client = &mut clients[0];
        client
            .perform(Start {
                sequence: 0,
                intended: 0,
            })
            .await;
        let body = client.connection.body().to_vec();
        let operations = std::mem::take(&mut client.operations).into_iter().collect();
        check(
            &plan,
            Ran {
                log: Log {
                    header: Header::default(),
                    operations,
                },
                elapsed: Duration::ZERO,
                refusals: BTreeMap::new(),
            },
        )?;
        Ok(body)
    })
}

fn header(target: &Target, plan: &Plan, start_unix_nanos: u64) -> Header {
    Header {
        clock: Clock::Monotonic { start_unix_nanos },
        target: target.address.to_string(),
        levels: plan.levels.iter().map(Text::to_string).collect(),
        ..Header::default()
    }
}

/// The last return of an operation.
fn last_end(operations: &[Operation]) -> u64 {
    let ends = operations.iter().filter_map(|one| one.end.as_ref());
    ends.map(|(at, _)| at.nanos).max().unwrap_or(0)
}

/// One thread's part of a run: a runtime and its connections.
fn drive(run: &Arc<Run>, numbers: &[u32]) -> Result<Vec<Operations>, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let opened = runtime.and_then(|runtime| {
        let clients = runtime.block_on(open_all(run, numbers))?;
        Ok((runtime, clients))
    });
    // Before any error is returned: the other threads wait here too.
    run.gate.wait();
    let (runtime, clients) = opened?;
    run.start();
    LocalSet::new().block_on(&runtime, async {
        let tasks: Vec<_> = clients
            .into_iter()
            .map(|client| tokio::task::spawn_local(client.work()))
            .collect();
        let mut operations = Vec::new();
        for task in tasks {
            operations.push(task.await.map_err(io::Error::other)??);
        }
        Ok(operations)
    })
}

async fn open_all(run: &Arc<Run>, numbers: &[u32]) -> io::Result<Vec<Client>> {
    let pacer = Rc::new(tokio::sync::Mutex::new(Pacer::new()?));
    let mut clients = Vec::with_capacity(numbers.len());
    for &number in numbers {
        let mut connection = Connection::new(run.target.address);
        connection.open().await?;
        clients.push(Client {
            run: Arc::clone(run),
            number,
            connection,
            pacer: Rc::clone(&pacer),
            moment: run.target.signer.moment(unix_seconds()),
            form: Form::default(),
            body: Vec::new(),
            request: Vec::new(),
            operations: Operations::default(),
        });
    }
    Ok(clients)
}

impl Run {
    fn new(target: &Target, plan: &Plan, workload: Arc<dyn Wire>, threads: u32) -> Self {
        Run {
            target: target.clone(),
            endpoint: target.address.to_string().into(),
            levels: plan.levels.clone(),
            workload,
            generator: Mutex::new(Generator::new(&plan.load, plan.until, plan.errors_max)),
            refusals: Mutex::default(),
            gate: Barrier::new(threads as usize),
            start: OnceLock::new(),
        }
    }

    /// When the run began: now, if nothing did before.
    fn start(&self) -> (Instant, u64) {
        *self.start.get_or_init(|| {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH);
            (Instant::now(), nanoseconds(wall.unwrap_or_default()))
        })
    }

    /// Nanoseconds since the run's start.
    fn now(&self) -> u64 {
        nanoseconds(self.start().0.elapsed())
    }
}

impl Client {
    async fn work(mut self) -> io::Result<Operations> {
        while let Some(start) = self.next().await? {
            self.perform(start).await;
        }
        Ok(self.operations)
    }

    /// The next operation, when it is due. Of the free connections of a thread one waits for the
    /// time, the others for their turn.
    async fn next(&self) -> io::Result<Option<Start>> {
        let mut pacer = None;
        loop {
            let now = self.run.now();
            let step = self.run.generator.lock().step(now);
            match (step, &mut pacer) {
                (Step::Start(start), _) => return Ok(Some(start)),
                (Step::End, _) => return Ok(None),
                (Step::Wait(_), None) => pacer = Some(self.pacer.lock().await),
                // A timer costs more than that: replies are looked at meanwhile.
                (Step::Wait(until), Some(_)) if until - now < TIMER_COST_NS => {
                    tokio::task::yield_now().await;
                }
                (Step::Wait(until), Some(pacer)) => {
                    pacer.wait(Duration::from_nanos(until - now)).await?;
                }
            }
        }
    }

    async fn perform(&mut self, start: Start) {
        let run = Arc::clone(&self.run);
        let intent = run.workload.plan(start.sequence);
        self.write_request(&intent);
        let called = run.now();
        let exchange = self.connection.exchange(&self.request);
        let outcome = match tokio::time::timeout(OPERATION_TIMEOUT, exchange).await {
            Err(_) | Ok(Err(_)) => Heard::Silence.outcome(intent.is_write()),
            Ok(Ok(reply)) if reply.status != 200 => {
                let reason = reply.reason.unwrap_or_else(|| reply.status.to_string());
                *run.refusals.lock().entry(reason).or_default() += 1;
                run.workload.refused(&intent, reply.status, reply.body);
                Heard::Status(reply.status, Text::default()).outcome(intent.is_write())
            }
            Ok(Ok(reply)) => intent.outcome(run.workload.verify(&intent, reply.body)),
        };
        let returned = run.now();
        let is_done = matches!(outcome, Outcome::Done(_));
        run.generator.lock().ended(is_done);
        if is_done {
            run.workload.done(&intent);
        }
        let operation = Operation {
            process: self.number,
            session: None,
            endpoint: run.endpoint.clone(),
            name: None,
            attempt: 1,
            level: run.levels.get(intent.level).cloned().unwrap_or_default(),
            intended: Moment::at(start.intended),
            called: Moment::at(called),
            action: intent.request(),
            end: Some((Moment::at(returned), outcome)),
            price: None,
        };
        if !run.workload.goes_on(&operation) {
            run.generator.lock().stop();
        }
        self.operations.push(operation);
    }

    /// Signs the request; only the second's time stamps and the text change from one to the next.
    fn write_request(&mut self, intent: &Intent) {
        let Target { signer, .. } = &self.run.target;
        let second = unix_seconds();
        if self.moment.second() != second {
            self.moment = signer.moment(second);
        }
        self.form.clear();
        self.run.workload.parameters(intent, &mut self.form);
        let mut pairs = self.form.pairs().collect();
        let action = self.run.workload.action();
        let headers = signer.sign(&self.moment, action, &mut pairs, &mut self.body);
        let out = &mut self.request;
        out.clear();
        for part in [
            "POST / HTTP/1.1\r\nhost: ",
            signer.host(),
            "\r\ncontent-type: ",
        ] {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(CONTENT_TYPE.as_bytes());
        for (name, value) in &headers.0 {
            for part in ["\r\n", name, ": ", value] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        let size = self.body.len();
        write!(out, "\r\ncontent-length: {size}\r\n\r\n").expect("a vector takes any octets");
        out.extend_from_slice(&self.body);
    }
}

fn check(plan: &Plan, ran: Ran) -> Result<Ran, RunError> {
    let operations = &ran.log.operations;
    let mut failed = operations.iter().filter(|one| one.done().is_none());
    match (plan.errors_max, failed.next()) {
        (None, _) | (_, None) => Ok(ran),
        (Some(_), Some(first)) => Err(RunError::Failed {
            name: plan.name.clone(),
            errors: 1 + failed.count() as u64,
            operations: operations.len() as u64,
            refusals: ran.refusals.clone(),
            first: Box::new(first.clone()),
        }),
    }
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
