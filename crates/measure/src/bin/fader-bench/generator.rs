//! The load generator: in a closed loop beside wrk, and in an open loop at its promised rate.
//!
//! Both sides of the closed loop ask the same bare server in turn, over as many connections, from
//! one thread. The side wrk repeats one PutAttributes; the generator makes and signs another one
//! each time, and judges and logs each reply. Both run on the first core, the server on the others.
//!
//! Their rates for their own processor time are those at a server that answers at once. There a
//! closed loop's latencies are its connections by its rate: they tell what the client costs. So the
//! latencies of both are compared at a server that takes a while, and decides them.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fader_client::CONTENT_TYPE;
use fader_measure::{
    Arrivals, Constant, DIGITS, Form, Items, Load, Plan, Put, Rate, Schedule, Starts, Summary,
    Until, Wire, interval_of_median, median, ratio_of_medians, run as generate,
};

use crate::Options;
use crate::cores;
use crate::machine::{Machine, MachineTimes, ProcessTimes};
use crate::report::{Finding, Report, Side, Target};
use crate::server::Server;

/// Octets of each reply.
const REPLY_BYTES: usize = 300;
/// A slow server takes at most this long for an answer, in milliseconds.
const TAKES_MS: u64 = 10;
/// Connections of both sides.
const CONNECTIONS: u32 = 64;
/// Operations a second of the open loop, on one thread.
const RATE: f64 = 50_000.0;
/// Operations start at most this much late, 99 of 100.
const SLIP_MS_MAX: f64 = 1.0;
/// The rate for each second of processor time is at least this part of wrk's.
const SHARE_MIN: f64 = 0.5;

/// What one side did, over all rounds.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    /// Operations for each second of the side's own processor time.
    processor_rates: Vec<f64>,
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
}

impl Rounds {
    fn side(&self, name: &str) -> Side {
        Side {
            name: format!("{name}, {CONNECTIONS} connections"),
            rate: median(&self.rates),
            p50_ms: median(&self.p50_ms),
            p99_ms: median(&self.p99_ms),
            server_us: f64::NAN,
            rates: self.rates.clone(),
        }
    }
}

/// Measures; true if all targets are met, or with `--quick`.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let servers = cores::apart(|| Servers::start(scratch.path()))??;
    let start = MachineTimes::now()?;
    let script = scratch.path().join("put.lua");
    std::fs::write(&script, put_again(&servers.fast.target()))?;
    let [mut ours, mut theirs] = [(); 2].map(|()| Rounds::default());
    let [mut ours_slow, mut theirs_slow] = [(); 2].map(|()| Rounds::default());
    let (mut slips, mut missing) = (Vec::new(), 0);
    for _ in 0..options.runs() {
        for (server, ours, theirs) in [
            (&servers.fast, &mut ours, &mut theirs),
            (&servers.slow, &mut ours_slow, &mut theirs_slow),
        ] {
            closed(options, server, ours)?;
            if let Some(program) = &options.wrk {
                wrk(program, &script, server, options.seconds(), theirs)?;
            }
        }
        let (slip_ms, left_out) = open(options, &servers.fast)?;
        slips.push(slip_ms);
        missing += left_out;
    }
    ensure!(missing == 0, "{missing} operations are not in the log");
    let alone = |samples: &[f64]| interval_of_median(samples, options.seed);
    let finding = |name: &str, interval, target| Finding {
        name: name.to_owned(),
        interval,
        unit: "",
        target,
    };
    let name = format!("p99 of the slip at {RATE} operations a second, ms");
    let mut findings = vec![finding(&name, alone(&slips), Target::AtMost(SLIP_MS_MAX))];
    let mut sides = vec![ours.side("generator"), ours_slow.side("generator, slow")];
    if options.wrk.is_some() {
        let of_both = [&ours.processor_rates, &theirs.processor_rates];
        findings.push(finding(
            "generator / wrk: rate for its own processor time",
            ratio_of_medians(of_both[0], of_both[1], options.seed),
            Target::AtLeast(SHARE_MIN),
        ));
        findings.extend(latencies(&ours_slow, &theirs_slow, options.seed));
        sides.extend([theirs.side("wrk"), theirs_slow.side("wrk, slow")]);
    }
    let (now, own) = (MachineTimes::now()?, ProcessTimes::own()?);
    let used = own.user + own.children_user + servers.user_time()?;
    let report = Report {
        benchmark: "generator",
        machine,
        sides,
        findings,
        notes: vec![start.others(&now, used)],
    };
    report.finish(options.json.as_deref(), options.quick)
}

/// Latencies of both at a server that decides them. They agree if neither ratio is below 1 for
/// certain.
fn latencies(ours: &Rounds, theirs: &Rounds, seed: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, ours, theirs) in [
        ("p50", &ours.p50_ms, &theirs.p50_ms),
        ("p99", &ours.p99_ms, &theirs.p99_ms),
    ] {
        for (one, other, text) in [
            (ours, theirs, "generator / wrk"),
            (theirs, ours, "wrk / generator"),
        ] {
            findings.push(Finding {
                name: format!("{text}: {name} at a slow server"),
                interval: ratio_of_medians(one, other, seed),
                unit: "",
                target: Target::Reaches(1.0),
            });
        }
    }
    findings
}

/// What both sides ask.
struct Servers {
    /// It answers at once.
    fast: Server,
    /// It takes up to [`TAKES_MS`] for an answer.
    slow: Server,
}

impl Servers {
    fn start(scratch: &Path) -> Result<Self> {
        Ok(Servers {
            fast: Server::floor(REPLY_BYTES, scratch)?,
            slow: Server::slow_floor(REPLY_BYTES, TAKES_MS, scratch)?,
        })
    }

    /// Their processor time in user mode so far, in seconds.
    fn user_time(&self) -> Result<f64> {
        let of = |server: &Server| Ok::<_, anyhow::Error>(ProcessTimes::of(server.id())?.user);
        Ok(of(&self.fast)? + of(&self.slow)?)
    }
}

fn workload() -> Arc<dyn Wire> {
    let items = Items {
        domain: String::from("dom"),
        count: 1_000,
        attributes: 2,
        value_bytes: DIGITS,
        groups: 0,
    };
    let workload = Arc::new(Put {
        items: Arc::new(items),
        stamp_first: 0,
    });
    Arc::new(Constant {
        workload,
        bytes: REPLY_BYTES,
    })
}

fn plan(load: Load, time: Duration, connections: u32) -> Plan {
    Plan {
        name: String::from("generator"),
        load,
        until: Until::Elapsed(time),
        connections,
        threads: 1,
        errors_max: Some(1),
        levels: Vec::new(),
    }
}

/// A round of the closed loop.
fn closed(options: &Options, server: &Server, rounds: &mut Rounds) -> Result<()> {
    let before = ProcessTimes::own()?;
    let plan = plan(Load::Closed, options.seconds(), CONNECTIONS);
    let ran = generate(&server.target(), &plan, workload(), |_| {})?;
    let after = ProcessTimes::own()?;
    let used = after.user + after.system - before.user - before.system;
    let summary = Summary::of(&ran.log, ran.elapsed);
    let ms = |quantile| summary.service.value_at_quantile(quantile) as f64 / 1e6;
    rounds.rates.push(summary.rate);
    rounds.processor_rates.push(summary.done as f64 / used);
    rounds.p50_ms.push(ms(0.5));
    rounds.p99_ms.push(ms(0.99));
    Ok(())
}

/// A round of the open loop: the slip's 99th percentile in milliseconds, and how many operations of
/// the schedule are not in the log.
fn open(options: &Options, server: &Server) -> Result<(f64, u64)> {
    let starts = Starts::Rate {
        rate: Rate::Constant(RATE),
        arrivals: Arrivals::Constant,
        seed: options.seed,
    };
    let time = options.seconds();
    let end = u64::try_from(time.as_nanos())?;
    let schedule = Schedule::new(starts.clone());
    let expected = schedule.take_while(|at| *at < end).count() as u64;
    let plan = plan(Load::Open(starts), time, 4 * CONNECTIONS);
    let ran = generate(&server.target(), &plan, workload(), |_| {})?;
    let summary = Summary::of(&ran.log, ran.elapsed);
    let slip_ms = summary.slip.value_at_quantile(0.99) as f64 / 1e6;
    Ok((slip_ms, expected.saturating_sub(summary.done)))
}

/// A script of wrk that sends the generator's first request again and again. The server has the
/// same work with both.
fn put_again(target: &fader_measure::Target) -> String {
    let workload = workload();
    let mut form = Form::default();
    workload.parameters(&workload.plan(0), &mut form);
    let (mut pairs, mut body) = (form.pairs().collect(), Vec::new());
    let moment = target.signer.moment(0);
    let action = workload.action();
    target.signer.sign(&moment, action, &mut pairs, &mut body);
    let body = String::from_utf8_lossy(&body);
    format!(
        "wrk.method = \"POST\"\nwrk.body = \"{body}\"\n\
         wrk.headers[\"content-type\"] = \"{CONTENT_TYPE}\"\n"
    )
}

/// A round of wrk.
fn wrk(
    program: &Path,
    script: &Path,
    server: &Server,
    time: Duration,
    rounds: &mut Rounds,
) -> Result<()> {
    let before = ProcessTimes::own()?;
    // It takes whole seconds.
    let seconds = time.as_secs().max(1);
    let output = Command::new(program)
        .args(["--threads", "1", "--latency"])
        .args(["--connections", &CONNECTIONS.to_string()])
        .args(["--duration", &format!("{seconds}s")])
        .arg("--script")
        .arg(script)
        .arg(format!("http://{}/", server.target().address))
        .output()
        .with_context(|| format!("{} does not run", program.display()))?;
    let after = ProcessTimes::own()?;
    let used =
        after.children_user + after.children_system - before.children_user - before.children_system;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "wrk fails: {text}");
    let figure = |label: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(label));
        line.map(str::trim)
            .with_context(|| format!("no {label} in {text}"))
    };
    let rate: f64 = figure("Requests/sec:")?.parse()?;
    rounds.rates.push(rate);
    rounds.processor_rates.push(rate * seconds as f64 / used);
    rounds.p50_ms.push(milliseconds(figure("50%")?)?);
    rounds.p99_ms.push(milliseconds(figure("99%")?)?);
    Ok(())
}

/// A latency as wrk prints it, in milliseconds.
fn milliseconds(text: &str) -> Result<f64> {
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
    let found = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = found.with_context(|| format!("{text}: no latency"))?;
    Ok(number.parse::<f64>()? * factor)
}
