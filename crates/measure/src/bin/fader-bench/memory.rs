//! A million items: resident memory after opening them and after reading many; and the start after
//! a crash with a gigabyte written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use fader_measure::{
    BatchPut, DIGITS, ERRORS_MAX, Get, Interval, Items, Load, Plan, Until, acknowledged,
    run as generate,
};
use tokio::runtime::Runtime;

use crate::Options;
use crate::load::fill;
use crate::machine::Machine;
use crate::report::{Finding, Report, Target};
use crate::server::Server;

const ITEMS: u64 = 1_000_000;
const ATTRIBUTES: u64 = 5;
const READS: u64 = 50_000;
const RESIDENT_MIB_MAX: f64 = 300.0;
/// What is to have gone into the log when the server is killed.
const LOG_BYTES: u64 = 1 << 30;
const START_S_MAX: f64 = 10.0;
const CONNECTIONS: u32 = 64;

pub(crate) fn run(options: &Options) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let data = scratch.path().join("data");
    let part = if options.quick { 100 } else { 1 };
    let items = Arc::new(Items {
        domain: String::from("bench-memory"),
        count: ITEMS / part,
        attributes: ATTRIBUTES,
        value_bytes: DIGITS,
        groups: 0,
    });
    let server = Server::fader(&options.fader, &data)?;
    Runtime::new()?.block_on(server.client()?.create_domain(&items.domain))?;
    fill(options, &server, &items)?;
    let filled = mebibytes(server.resident()?);
    ensure!(server.stop()?.success(), "the server did not end in peace");

    let server = Server::fader(&options.fader, &data)?;
    let opened = mebibytes(server.resident()?);
    let reopen_time = server.start_time;
    read_some(options, &server, &items, READS / part)?;
    let read = mebibytes(server.resident()?);

    let crash = crash(options, server, &data, &items, LOG_BYTES / part)?;
    let finding = |name: &str, value: f64, unit: &'static str, bound: f64| Finding {
        name: name.to_owned(),
        interval: Interval::single(value),
        unit,
        target: Target::AtMost(bound),
    };
    let start_s = crash.start_time.as_secs_f64();
    let report = Report {
        benchmark: "memory",
        machine,
        sides: Vec::new(),
        findings: vec![
            finding("resident after opening", opened, " MiB", RESIDENT_MIB_MAX),
            finding("resident after reads", read, " MiB", RESIDENT_MIB_MAX),
            finding("start after the crash", start_s, " s", START_S_MAX),
        ],
        notes: vec![
            format!(
                "{} items of {ATTRIBUTES} attributes; {} reads; after filling them the server had \
                 {filled:.0} MiB resident; reopening them took {:.2} s.",
                items.count,
                READS / part,
                reopen_time.as_secs_f64()
            ),
            format!(
                "{} MiB went into the log before kill -9; {} MiB of it were still in its folder.",
                crash.written >> 20,
                crash.log_bytes >> 20
            ),
            String::from("Single figures: the interval is the figure itself."),
        ],
    };
    report.finish(options.json.as_deref(), options.quick)
}

/// What a crash and the start after it came to.
struct Crash {
    /// Bytes that went into the log since the server's start.
    written: u64,
    /// Bytes of log that were there at the crash.
    log_bytes: u64,
    start_time: Duration,
}

/// Writes until the log has taken that many bytes, kills the server, starts it again and checks
/// that what was acknowledged last is there.
fn crash(
    options: &Options,
    server: Server,
    data: &Path,
    items: &Arc<Items>,
    bytes: u64,
) -> Result<Crash> {
    let mut batches = BatchPut {
        items: Arc::clone(items),
        stamp_first: 1,
    };
    let mut stamps = BTreeMap::new();
    let mut written = 0;
    while written < bytes {
        let pass = Arc::new(batches);
        let until = Until::Operations(pass.operations());
        let ran = generate(
            &server.target(),
            &plan("write", until, options),
            pass.clone(),
            |_| {},
        )?;
        for (first, stamp) in acknowledged(&ran.log) {
            stamps.extend(pass.keys(first).map(|key| (key, stamp)));
        }
        written = server.metric("fader_log_bytes_total")?;
        eprintln!("wrote {} of {} MiB of log", written >> 20, bytes >> 20);
        batches = BatchPut {
            items: Arc::clone(items),
            stamp_first: pass.stamp_first + 1,
        };
    }
    let log_bytes = server.metric("fader_log_disk_bytes")?;
    server.crash()?;
    let server = Server::fader(&options.fader, data)?;
    let reads = Until::Operations(READS.min(items.count));
    let stamps = stamps.into_iter().collect();
    let get = Get {
        items: Arc::clone(items),
        stamps,
        consistent: true,
    };
    generate(
        &server.target(),
        &plan("read", reads, options),
        Arc::new(get),
        |_| {},
    )?;
    Ok(Crash {
        written,
        log_bytes,
        start_time: server.start_time,
    })
}

/// Reads items at random, each of which must be as it was filled in.
fn read_some(options: &Options, server: &Server, items: &Arc<Items>, count: u64) -> Result<()> {
    let stamps = (0..items.count).map(|key| (key, 0)).collect();
    let get = Get {
        items: Arc::clone(items),
        stamps,
        consistent: false,
    };
    let plan = plan("read", Until::Operations(count), options);
    generate(&server.target(), &plan, Arc::new(get), |_| {})?;
    Ok(())
}

fn plan(name: &str, until: Until, options: &Options) -> Plan {
    let (name, threads) = (name.to_owned(), options.threads);
    Plan {
        name,
        load: Load::Closed,
        until,
        connections: CONNECTIONS,
        threads,
        errors_max: Some(ERRORS_MAX),
        levels: Vec::new(),
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
