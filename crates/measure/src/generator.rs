//! The load generator: drives a target with a workload and logs every operation.
//!
//! Closed loop: each connection sends its next request when it has the answer to the last. Open
//! loop: requests are due by a schedule, whatever the answers do; the first free connection takes
//! the oldest that is due, and its latency counts from when it was due.
//!
//! A few threads, each with its own runtime, connections and pacer. Requests are signed as they are
//! sent and every reply is judged.
//!
//! Invariants:
//! - G1 no due operation is dropped or sent twice: the queue has no bound but the run's length.
//! - G2 a run stops early after [`ERRORS_MAX`] errors, and then is an error itself; one that is to
//!   go on ([`run_through`]) counts them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fader_client::{CONTENT_TYPE, Moment, Signer};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::LocalSet;

use crate::connection::Connection;
use crate::log::{Log, Operation, Outcome};
use crate::schedule::{Arrivals, Schedule};
use crate::workload::{Form, Intent, Verdict, Workload};

/// Errors after which a run is given up: whatever it measured would not count.
const ERRORS_MAX: u64 = 100;
/// No answer within this time is a lost operation.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a waiting caller hears of the progress.
const WATCH_PERIOD: Duration = Duration::from_millis(500);
/// How long a connection rests after an operation that failed, in a run that goes on.
const REST: Duration = Duration::from_millis(10);

/// Where load goes and how it is signed.
#[derive(Clone)]
pub struct Target {
    /// The server.
    pub address: SocketAddr,
    /// Signs for the host that `address` prints as.
    pub signer: Arc<Signer>,
}

/// When operations start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// When a connection has its answer.
    Closed,
    /// By a schedule.
    Open {
        /// Operations a second.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
        /// The schedule's seed.
        seed: u64,
    },
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When that many operations are done.
    Operations(u64),
    /// When no more operations are started.
    Elapsed(Duration),
}

/// The shape of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the log is called.
    pub name: String,
    /// When operations start.
    pub load: Load,
    /// When the run ends.
    pub until: Until,
    /// Connections, over all threads.
    pub connections: u32,
    /// Threads; at most one for each connection is used.
    pub threads: u32,
}

/// Why a run counts for nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The generator could not do its part.
    #[error("load generator: {0}")]
    Io(#[from] std::io::Error),
    /// Operations failed.
    #[error(
        "{name}: {errors} of {operations} operations failed, refused: {refusals:?}, the first as \
         {first:?}"
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
    workload: Arc<dyn Workload>,
    load: Load,
    operations_max: u64,
    elapsed_max: Duration,
    /// Where the threads wait until all connections are open.
    gate: Barrier,
    start: OnceLock<Instant>,
    /// The number of the next operation.
    sequence: AtomicU64,
    done: AtomicU64,
    errors: AtomicU64,
    /// So many errors end it.
    errors_max: u64,
    refusals: parking_lot::Mutex<BTreeMap<String, u64>>,
}

/// Intended starts, as they become due.
type Due = Mutex<UnboundedReceiver<u64>>;

/// One connection of a run.
struct Session {
    run: Arc<Run>,
    number: u32,
    connection: Connection,
    moment: Moment,
    form: Form,
    body: Vec<u8>,
    request: Vec<u8>,
    operations: Vec<Operation>,
}

/// Runs a plan to its end and gives its log; `watch` hears now and then how many are done.
///
/// Blocks; must not be called from within a runtime.
pub fn run(
    target: &Target,
    plan: &Plan,
    workload: Arc<dyn Workload>,
    watch: impl FnMut(u64),
) -> Result<Log, RunError> {
    check(perform(target, plan, workload, watch, ERRORS_MAX)?)
}

/// As [`run`], but operations that fail are counted, and end nothing.
///
/// # Errors
/// [`RunError::Io`] alone.
pub fn run_through(
    target: &Target,
    plan: &Plan,
    workload: Arc<dyn Workload>,
) -> Result<Log, RunError> {
    perform(target, plan, workload, |_| {}, u64::MAX)
}

fn perform(
    target: &Target,
    plan: &Plan,
    workload: Arc<dyn Workload>,
    mut watch: impl FnMut(u64),
    errors_max: u64,
) -> Result<Log, RunError> {
    let connections = plan.connections.max(1);
    let threads = plan.threads.clamp(1, connections);
    let run = Arc::new(Run {
        errors_max,
        ..Run::new(target, plan, workload, threads)
    });
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (finished, unfinished) = std::sync::mpsc::channel::<()>();
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let (run, finished) = (Arc::clone(&run), finished.clone());
            let numbers: Vec<u32> = (thread..connections).step_by(threads as usize).collect();
            std::thread::spawn(move || {
                // Dropped when the thread ends, be it by a panic.
                let _finished = finished;
                drive(&run, thread, threads, &numbers)
            })
        })
        .collect();
    drop(finished);
    while unfinished.recv_timeout(WATCH_PERIOD) == Err(RecvTimeoutError::Timeout) {
        watch(run.done.load(Ordering::Relaxed));
    }
    let mut operations = Vec::new();
    for handle in handles {
        let thread = handle
            .join()
            .map_err(|_| io::Error::other("a thread panicked"))?;
        operations.extend(thread?);
    }
    let last_end = operations
        .iter()
        .map(|operation: &Operation| operation.end_ns)
        .max();
    let refusals = std::mem::take(&mut *run.refusals.lock());
    Ok(Log {
        name: plan.name.clone(),
        start_unix_ns: nanoseconds(now),
        elapsed_ns: match plan.until {
            Until::Operations(_) => last_end.unwrap_or(0),
            Until::Elapsed(elapsed) => nanoseconds(elapsed),
        },
        refusals,
        operations,
    })
}

/// Does the workload's first operation and gives the body of its reply.
///
/// Blocks; must not be called from within a runtime.
pub fn sample(target: &Target, workload: Arc<dyn Workload>) -> Result<Vec<u8>, RunError> {
    let plan = Plan {
        name: String::from("sample"),
        load: Load::Closed,
        until: Until::Operations(1),
        connections: 1,
        threads: 1,
    };
    let run = Arc::new(Run::new(target, &plan, workload, 1));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut sessions = open_all(&run, &[0]).await?;
        let session = &mut sessions[0];
        session.perform(0, None).await;
        let body = session.connection.body().to_vec();
        let operations = std::mem::take(&mut session.operations);
        check(Log {
            name: plan.name,
            operations,
            ..Log::default()
        })?;
        Ok(body)
    })
}

/// One thread's part of a run: a runtime, its sessions and, in an open loop, their pacer.
fn drive(
    run: &Arc<Run>,
    thread: u32,
    threads: u32,
    numbers: &[u32],
) -> Result<Vec<Operation>, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let opened = runtime.and_then(|runtime| {
        let sessions = runtime.block_on(open_all(run, numbers))?;
        Ok((runtime, sessions))
    });
    // Before any error is returned: the other threads wait here too.
    run.gate.wait();
    let (runtime, sessions) = opened?;
    run.start.get_or_init(Instant::now);
    let (due_sender, due) = mpsc::unbounded_channel();
    let pacer = match run.load {
        Load::Closed => None,
        Load::Open {
            rate,
            arrivals,
            seed,
        } => {
            let schedule = Schedule::new(arrivals, rate, seed);
            let schedule = schedule.skip(thread as usize).step_by(threads as usize);
            let run = Arc::clone(run);
            Some(std::thread::spawn(move || {
                pace(&run, schedule, &due_sender)
            }))
        }
    };
    let due = Rc::new(Mutex::new(due));
    let operations = LocalSet::new().block_on(&runtime, async {
        let spawn = |session: Session| match run.load {
            Load::Closed => tokio::task::spawn_local(session.closed_loop()),
            Load::Open { .. } => tokio::task::spawn_local(session.open_loop(Rc::clone(&due))),
        };
        let tasks: Vec<_> = sessions.into_iter().map(spawn).collect();
        let mut operations = Vec::new();
        for task in tasks {
            operations.extend(task.await.map_err(io::Error::other)?);
        }
        Ok(operations)
    });
    // The pacer ends when nobody listens any more.
    drop(due);
    if let Some(pacer) = pacer {
        pacer
            .join()
            .map_err(|_| io::Error::other("a pacer panicked"))?;
    }
    operations
}

async fn open_all(run: &Arc<Run>, numbers: &[u32]) -> io::Result<Vec<Session>> {
    let mut sessions = Vec::with_capacity(numbers.len());
    for &number in numbers {
        let mut connection = Connection::new(run.target.address);
        connection.open().await?;
        sessions.push(Session {
            run: Arc::clone(run),
            number,
            connection,
            moment: run.target.signer.moment(unix_seconds()),
            form: Form::default(),
            body: Vec::new(),
            request: Vec::new(),
            operations: Vec::new(),
        });
    }
    Ok(sessions)
}

/// Says what is due, when it is due. A thread of its own, since a runtime's timers are as coarse as
/// a millisecond.
fn pace(run: &Run, schedule: impl Iterator<Item = u64>, due: &UnboundedSender<u64>) {
    for intended_ns in schedule {
        let intended = Duration::from_nanos(intended_ns);
        if run.elapsed_max <= intended {
            return;
        }
        std::thread::sleep(intended.saturating_sub(run.elapsed()));
        if due.send(intended_ns).is_err() {
            return;
        }
    }
}

impl Run {
    fn new(target: &Target, plan: &Plan, workload: Arc<dyn Workload>, threads: u32) -> Self {
        let (operations_max, elapsed_max) = match plan.until {
            Until::Operations(count) => (count, Duration::MAX),
            Until::Elapsed(elapsed) => (u64::MAX, elapsed),
        };
        Run {
            target: target.clone(),
            workload,
            load: plan.load,
            operations_max,
            elapsed_max,
            gate: Barrier::new(threads as usize),
            start: OnceLock::new(),
            sequence: AtomicU64::new(0),
            done: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            errors_max: ERRORS_MAX,
            refusals: parking_lot::Mutex::default(),
        }
    }

    fn elapsed(&self) -> Duration {
        self.start.get_or_init(Instant::now).elapsed()
    }

    /// The number of an operation to do now, if there is one left.
    fn next(&self) -> Option<u64> {
        if self.errors_max <= self.errors.load(Ordering::Relaxed) {
            return None;
        }
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        Some(sequence).filter(|sequence| *sequence < self.operations_max)
    }
}

impl Session {
    async fn closed_loop(mut self) -> Vec<Operation> {
        while self.run.elapsed() < self.run.elapsed_max
            && let Some(sequence) = self.run.next()
        {
            self.perform(sequence, None).await;
        }
        self.operations
    }

    async fn open_loop(mut self, due: Rc<Due>) -> Vec<Operation> {
        loop {
            let intended_ns = due.lock().await.recv().await;
            let Some(intended_ns) = intended_ns else {
                break;
            };
            let Some(sequence) = self.run.next() else {
                break;
            };
            self.perform(sequence, Some(intended_ns)).await;
        }
        self.operations
    }

    async fn perform(&mut self, sequence: u64, intended_ns: Option<u64>) {
        let run = Arc::clone(&self.run);
        let intent = run.workload.plan(sequence);
        self.write_request(&intent);
        let start_ns = nanoseconds(run.elapsed());
        let exchange = self.connection.exchange(&self.request);
        let (outcome, value) = match tokio::time::timeout(OPERATION_TIMEOUT, exchange).await {
            Err(_) | Ok(Err(_)) => (Outcome::Lost, intent.value),
            Ok(Ok(reply)) if reply.status != 200 => {
                let reason = reply.reason.unwrap_or_else(|| reply.status.to_string());
                *run.refusals.lock().entry(reason).or_default() += 1;
                (Outcome::Refused(reply.status), intent.value)
            }
            Ok(Ok(reply)) => match run.workload.verify(&intent, reply.body) {
                Verdict::Right(value) => (Outcome::Done, value),
                Verdict::Wrong => (Outcome::Wrong, None),
            },
        };
        let counter = if outcome == Outcome::Done {
            &run.done
        } else {
            &run.errors
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.operations.push(Operation {
            session: self.number,
            kind: intent.kind,
            outcome,
            intended_ns: intended_ns.unwrap_or(start_ns),
            start_ns,
            end_ns: nanoseconds(run.elapsed()),
            key: intent.key,
            value,
        });
        if outcome != Outcome::Done && run.errors_max == u64::MAX {
            tokio::time::sleep(REST).await;
        }
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
        let (host, size) = (signer.host(), self.body.len());
        write!(
            out,
            "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-type: {CONTENT_TYPE}\r\n"
        )
        .expect("a vector takes any octets");
        for (name, value) in &headers.0 {
            write!(out, "{name}: {value}\r\n").expect("a vector takes any octets");
        }
        write!(out, "content-length: {size}\r\n\r\n").expect("a vector takes any octets");
        out.extend_from_slice(&self.body);
    }
}

fn check(log: Log) -> Result<Log, RunError> {
    let is_error = |operation: &&Operation| operation.outcome != Outcome::Done;
    match log.operations.iter().find(is_error) {
        None => Ok(log),
        Some(first) => Err(RunError::Failed {
            errors: log.errors(),
            operations: log.operations.len() as u64,
            first: Box::new(*first),
            refusals: log.refusals,
            name: log.name,
        }),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
