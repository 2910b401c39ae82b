//! What Fader's client costs: small requests from one thread to a local static server, beside a
//! bare loop over hyper's connections.
//!
//! Both sides run on the same thread, one after the other in shuffled order; the server is another
//! process. On a machine that does other work the rates say what was left. Their ratio still says
//! what the client costs, and so does the thread's own processor time.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use fader_client::{Http, Origin, Settings};
use fader_measure::{Interval, interval_of_median, median, ratio_of_medians};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Options;
use crate::machine::Machine;
use crate::report::{Finding, Report, Side, Target};
use crate::server::Server;

/// Who asks at once: connections of the bare loop, callers of the client.
const CALLERS: usize = 64;
/// Octets of each reply.
const REPLY_BYTES: usize = 100;
/// Until the client's window has found its size.
const WARM_UP: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Bare,
    Client,
}

/// What one side did in one round.
struct Round {
    who: Who,
    rate: f64,
    /// Requests for each second of the thread's processor time.
    processor_rate: f64,
    p50_ms: f64,
    p99_ms: f64,
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let server = Server::floor(REPLY_BYTES, scratch.path())?;
    let address = server.target().address;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let http = Http::here(fader_window::Settings::default());
    let origin = Origin::on(http, &format!("http://{address}"), &Settings::default())?;
    let origin = Arc::new(origin);
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let warm_up = WARM_UP.min(options.seconds());
    runtime.block_on(round(Who::Client, address, &origin, warm_up))?;
    let mut rounds = Vec::new();
    for _ in 0..options.runs() {
        let mut order = [Who::Bare, Who::Client];
        order.shuffle(&mut random);
        for who in order {
            rounds.push(runtime.block_on(round(who, address, &origin, options.seconds()))?);
        }
    }
    let windows = origin.windows();
    let windows = windows.iter().map(|(lane, state)| {
        format!(
            "{lane}: window {:.0}, at most {} in flight, an answer takes {:.2} ms",
            state.window,
            state.limit,
            state.latency.unwrap_or_default().as_secs_f64() * 1e3,
        )
    });
    let report = Report {
        benchmark: "client",
        machine,
        sides: vec![side(&rounds, Who::Bare), side(&rounds, Who::Client)],
        findings: findings(&rounds, options.seed),
        notes: windows.collect(),
    };
    report.finish(options.json.as_deref(), options.quick)
}

async fn round(
    who: Who,
    address: SocketAddr,
    origin: &Arc<Origin>,
    time: Duration,
) -> Result<Round> {
    let (begin, used) = (Instant::now(), processor_time()?);
    let until = begin + time;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        match who {
            Who::Bare => callers.spawn(bare(address, until)),
            Who::Client => callers.spawn(client(Arc::clone(origin), until)),
        };
    }
    let mut latencies = Vec::new();
    while let Some(done) = callers.join_next().await {
        latencies.extend(done??);
    }
    let count = latencies.len() as f64;
    ensure!(0.0 < count, "nothing was answered");
    latencies.sort_unstable();
    let quantile = |share: f64| latencies[(share * (count - 1.0)) as usize].as_secs_f64() * 1e3;
    Ok(Round {
        who,
        rate: count / begin.elapsed().as_secs_f64(),
        processor_rate: count / (processor_time()? - used).as_secs_f64(),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
    })
}

/// One request after the other on a connection.
async fn bare(address: SocketAddr, until: Instant) -> Result<Vec<Duration>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let host = address.to_string();
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let begin = Instant::now();
        let request = Request::get("/").header(HOST, &host);
        sender.ready().await?;
        let reply = sender.send_request(request.body(Full::<Bytes>::default())?);
        let reply = reply.await?;
        ensure!(reply.status().is_success(), "the server refuses");
        ensure!(reply.into_body().collect().await?.to_bytes().len() == REPLY_BYTES);
        latencies.push(begin.elapsed());
    }
    Ok(latencies)
}

/// One request after the other through the client.
async fn client(origin: Arc<Origin>, until: Instant) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let begin = Instant::now();
        let request = Request::get("/").body(Full::default())?;
        let reply = origin.send(request, "get").await?;
        ensure!(reply.status().is_success(), "the server refuses");
        ensure!(reply.body().len() == REPLY_BYTES);
        latencies.push(begin.elapsed());
    }
    Ok(latencies)
}

fn side(rounds: &[Round], who: Who) -> Side {
    let figures = |figure: fn(&Round) -> f64| -> Vec<f64> {
        let rounds = rounds.iter().filter(|round| round.who == who);
        rounds.map(figure).collect()
    };
    let rates = figures(|round| round.rate);
    let name = match who {
        Who::Bare => "bare hyper",
        Who::Client => "client",
    };
    Side {
        name: format!("{name}, {CALLERS} callers"),
        rate: median(&rates),
        p50_ms: median(&figures(|round| round.p50_ms)),
        p99_ms: median(&figures(|round| round.p99_ms)),
        server_us: f64::NAN,
        rates,
    }
}

fn findings(rounds: &[Round], seed: u64) -> Vec<Finding> {
    let figures = |who: Who, figure: fn(&Round) -> f64| -> Vec<f64> {
        let rounds = rounds.iter().filter(|round| round.who == who);
        rounds.map(figure).collect()
    };
    let rates = |who| figures(who, |round| round.rate);
    let processor = |who| figures(who, |round| round.processor_rate);
    let alone = |samples: &[f64]| interval_of_median(samples, seed);
    let finding = |name: &str, interval: Interval, bound: f64| Finding {
        name: name.to_owned(),
        interval,
        unit: "",
        target: Target::AtLeast(bound),
    };
    let (ours, bare) = (rates(Who::Client), rates(Who::Bare));
    let ratio = ratio_of_medians(&ours, &bare, seed);
    let (our_time, bare_time) = (processor(Who::Client), processor(Who::Bare));
    let time_ratio = ratio_of_medians(&our_time, &bare_time, seed);
    vec![
        finding("client: requests a second", alone(&ours), 30_000.0),
        finding("client / bare hyper: requests a second", ratio, 0.7),
        finding(
            "client: requests a second of its thread's time",
            alone(&our_time),
            30_000.0,
        ),
        finding("client / bare hyper: the same", time_ratio, 0.7),
    ]
}

/// What this thread used of a processor so far.
fn processor_time() -> Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let used = text.split(' ').next().and_then(|used| used.parse().ok());
    let used = used.context("/proc/thread-self/schedstat is not as the kernel documents it")?;
    Ok(Duration::from_nanos(used))
}
