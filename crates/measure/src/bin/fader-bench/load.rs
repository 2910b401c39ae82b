//! Runs as the benchmarks need them: filling a domain, and one side of a round.

use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fader_measure::{
    BatchPut, ERRORS_MAX, Interval, Items, Load, Plan, Ran, Summary, Until, Wire, formats,
    interval_of_median, median, run as generate,
};

use crate::Options;
use crate::report::Side;
use crate::server::Server;

/// Connections that fill a domain.
const FILL_CONNECTIONS: u32 = 16;
/// Part of a side's time that it runs before it is measured.
const WARM_UP_SHARE: f64 = 0.1;

/// One side of a comparison, over all rounds.
pub(crate) struct Runs {
    pub(crate) name: String,
    pub(crate) connections: u32,
    pub(crate) rates: Vec<f64>,
    /// Median latencies, in seconds.
    pub(crate) medians: Vec<f64>,
    p99s: Vec<f64>,
    server_times: Vec<f64>,
    /// Latencies by quantile, of the last round.
    pub(crate) spectrum: Vec<(f64, f64)>,
}

impl Runs {
    pub(crate) fn new(name: &str, connections: u32) -> Self {
        Runs {
            name: name.to_owned(),
            connections,
            rates: Vec::new(),
            medians: Vec::new(),
            p99s: Vec::new(),
            server_times: Vec::new(),
            spectrum: Vec::new(),
        }
    }

    /// Adds a round that was measured by the generator.
    fn add(&mut self, ran: &Ran, processor_time: f64) {
        let summary = Summary::of(&ran.log, ran.elapsed);
        let latency = |quantile| summary.response.value_at_quantile(quantile) as f64 / 1e9;
        self.rates.push(summary.rate);
        self.medians.push(latency(0.5));
        self.p99s.push(latency(0.99));
        self.server_times.push(processor_time / summary.done as f64);
        let nines = (0..=40).map(|step| 10_f64.powf(f64::from(step) / 10.0));
        let is_known = |nine: &f64| *nine <= summary.done as f64;
        self.spectrum = nines
            .filter(is_known)
            .map(|nine| (nine, 1e3 * latency(1.0 - 1.0 / nine)))
            .collect();
    }

    /// Adds a round of times that were taken otherwise, in seconds.
    pub(crate) fn add_times(&mut self, mut times: Vec<f64>, elapsed: Duration) {
        times.sort_unstable_by(f64::total_cmp);
        self.rates.push(times.len() as f64 / elapsed.as_secs_f64());
        self.medians.push(median(&times));
        self.p99s.push(
            times
                .get(times.len() * 99 / 100)
                .copied()
                .unwrap_or(f64::NAN),
        );
        self.server_times.push(f64::NAN);
    }

    pub(crate) fn side(&self) -> Side {
        Side {
            name: format!("{}, {} connections", self.name, self.connections)
                .replace(", 0 connections", "")
                .replace(" 1 connections", " 1 connection"),
            rate: median(&self.rates),
            p50_ms: 1e3 * median(&self.medians),
            p99_ms: 1e3 * median(&self.p99s),
            server_us: 1e6 * median(&self.server_times),
            rates: self.rates.clone(),
        }
    }
}

/// The median of the rounds' ratios: both figures of a round had the same machine.
pub(crate) fn pair_by_pair(above: &[f64], below: &[f64], seed: u64) -> Interval {
    let ratios: Vec<f64> = above.iter().zip(below).map(|(a, b)| a / b).collect();
    interval_of_median(&ratios, seed)
}

/// Warms a server up and measures one side of a round; gives the log of all that was done to it.
pub(crate) fn measure(
    options: &Options,
    server: &Server,
    runs: &mut Runs,
    elapsed: Duration,
    mut workload: impl FnMut(u64) -> Arc<dyn Wire>,
) -> Result<Vec<Ran>> {
    let plan = |elapsed| Plan {
        name: runs.name.clone(),
        load: Load::Closed,
        until: Until::Elapsed(elapsed),
        connections: runs.connections,
        threads: options.threads,
        errors_max: Some(ERRORS_MAX),
        levels: Vec::new(),
    };
    let target = server.target();
    let warm_up = generate(
        &target,
        &plan(elapsed.mul_f64(WARM_UP_SHARE)),
        workload(0),
        |_| {},
    )?;
    let before = server.processor_time()?;
    let workload = workload(warm_up.log.operations.len() as u64);
    let ran = generate(&target, &plan(elapsed), workload, |_| {})?;
    runs.add(&ran, server.processor_time()? - before);
    if let Some(folder) = &options.logs {
        fs::create_dir_all(folder)?;
        let (side, connections) = (runs.name.replace(' ', "-"), runs.connections);
        let name = format!("{side}-{connections}-{}.jsonl", runs.rates.len());
        let path = folder.join(name);
        let file = File::create(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        let format = formats::Format::JsonLines;
        let out = formats::write(format, &ran.log.header, BufWriter::new(file))?;
        let mut out = out.context("JSON lines are written")?;
        for operation in &ran.log.operations {
            out.operation(operation)?;
        }
        out.finish()?;
    }
    Ok(vec![warm_up, ran])
}

/// Fills a domain with all its items.
pub(crate) fn fill(options: &Options, server: &Server, items: &Arc<Items>) -> Result<Ran> {
    let workload = BatchPut {
        items: Arc::clone(items),
        stamp_first: 0,
    };
    let batches = workload.operations();
    let plan = Plan {
        name: format!("fill {}", items.domain),
        load: Load::Closed,
        until: Until::Operations(batches),
        connections: FILL_CONNECTIONS,
        threads: options.threads,
        errors_max: Some(ERRORS_MAX),
        levels: Vec::new(),
    };
    let begin = Instant::now();
    let name = &items.domain;
    let (is_terminal, mut tenth) = (std::io::stderr().is_terminal(), 0);
    let ran = generate(&server.target(), &plan, Arc::new(workload), |done| {
        let percent = 100 * done / batches;
        if is_terminal {
            eprint!("\rfilling {name}: {percent:3} % of {} items", items.count);
            let _ = std::io::stderr().flush();
        } else if tenth < percent / 10 {
            tenth = percent / 10;
            eprintln!("filling {name}: {percent} % of {} items", items.count);
        }
    })?;
    let rate = items.count as f64 / begin.elapsed().as_secs_f64();
    let start = if is_terminal { "\r" } else { "" };
    eprintln!(
        "{start}filled {name}: {} items, {rate:.0} a second",
        items.count
    );
    Ok(ran)
}
