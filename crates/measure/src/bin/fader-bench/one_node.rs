//! What one node costs over an earlier commit: the last one without replicas, unless another is
//! named.
//!
//! Two figures for PutAttributes and for GetAttributes of one value of 500 octets. One is
//! instructions of the server per request, counted by callgrind, with one request at a time. The
//! other is rates without callgrind, in interleaved pairs. Both servers get the same requests of
//! the same client, and verify every signature.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use fader_measure::{
    Arrivals, ERRORS_MAX, Get, Interval, Items, Load, Plan, Put, Rate, Starts, Until, Wire, median,
    ratio_of_medians, rounds, run as generate,
};
use tokio::runtime::Runtime;

use crate::BeforeOptions;
use crate::callgrind::Counted;
use crate::load::{Runs, fill, measure, pair_by_pair};
use crate::machine::Machine;
use crate::report::{Finding, Report, Target};
use crate::server::Server;

/// Octets of the value.
const VALUE_BYTES: usize = 500;
/// Items, over and over again.
const ITEMS: u64 = 1_000;
/// Requests before instructions are counted: caches fill, and lazy parts are made.
const WARM_UP: u64 = 200;
/// Requests whose instructions are counted.
const COUNTED: u64 = 1_000;
/// Requests a second meanwhile: so few that each finds an idle server, with any other load of the
/// machine. How often a server sleeps between two requests is otherwise a matter of chance.
const COUNTED_PER_S: f64 = 250.0;
/// The fewest pairs an interval is worth being told of.
const PAIRS_MIN: usize = 10;
/// Connections of a side of a pair.
const CONNECTIONS: u32 = 16;
/// How many instructions more a request may take, in percent.
const MORE_MAX: f64 = 5.0;

/// What is asked of a server.
#[derive(Clone, Copy)]
enum Asked {
    Get,
    Put,
}

/// Gets first, while every item is as it was filled in.
const REQUESTS: [Asked; 2] = [Asked::Get, Asked::Put];

/// A server with its items, and the stamp of the next put.
struct Side {
    name: &'static str,
    server: Server,
    stamp: u64,
}

pub(crate) fn run(options: &BeforeOptions) -> Result<bool> {
    let all = &options.all;
    if !Counted::is_installed() {
        ensure!(all.quick, "needs valgrind, for its callgrind");
        println!("one-node: left out, since valgrind is not installed");
        return Ok(true);
    }
    let (scratch, machine) = Machine::begin(&all.scratch)?;
    let mut report = Report {
        benchmark: "one-node",
        machine,
        sides: Vec::new(),
        findings: Vec::new(),
        notes: vec![format!(
            "One value of {VALUE_BYTES} octets; signatures of version 2 made and verified. \
             Callgrind's processor has no instructions for SHA."
        )],
    };
    counts(options, scratch.path(), &mut report)?;
    match &options.before {
        Some(before) => pairs(options, scratch.path(), before, &mut report)?,
        None => report
            .notes
            .push(String::from("Without --before nothing is compared.")),
    }
    report.finish(all.json.as_deref(), all.quick)
}

/// Instructions per request: of this commit, and compared with the earlier one's.
fn counts(options: &BeforeOptions, scratch: &Path, report: &mut Report) -> Result<()> {
    let all = &options.all;
    let this = ("this commit", Some(&all.fader));
    let sides = [this, ("the earlier commit", options.before.as_ref())];
    let mut counts = sides.map(|_| REQUESTS.map(|_| Vec::new()));
    for round in 0..all.runs() {
        for ((name, binary), counts) in sides.iter().zip(&mut counts) {
            let Some(binary) = binary else { continue };
            eprintln!(
                "counting instructions of {name}, {} of {}",
                round + 1,
                all.runs()
            );
            let folder = scratch.join(format!("{name} {round}"));
            std::fs::create_dir(&folder)?;
            for (counts, count) in counts.iter_mut().zip(count(options, &folder, binary)?) {
                counts.push(count);
            }
            if let Some(logs) = &all.logs {
                keep(&folder, &logs.join(name))?;
            }
        }
    }
    let [this, before] = counts;
    for ((asked, this), before) in REQUESTS.iter().zip(this).zip(before) {
        let action = asked.action();
        let mut note = format!("Instructions per {action}: {:.0}", median(&this));
        if !before.is_empty() {
            note += &format!("; before {:.0}", median(&before));
            let ratio = ratio_of_medians(&this, &before, all.seed);
            let percent = |ratio: f64| 100.0 * (ratio - 1.0);
            report.findings.push(Finding {
                name: format!("more instructions per {action} than before"),
                interval: Interval {
                    estimate: percent(ratio.estimate),
                    low: percent(ratio.low),
                    high: percent(ratio.high),
                },
                unit: " %",
                target: Target::AtMost(MORE_MAX),
            });
        }
        report.notes.push(note);
    }
    Ok(())
}

/// Instructions per request of each kind, counted in a life of its own.
fn count(options: &BeforeOptions, folder: &Path, binary: &Path) -> Result<[f64; 2]> {
    let mut counted = Counted::fader(binary, folder)?;
    let items = items();
    prepare(options, &counted.server, &items)?;
    let requests = if options.all.quick {
        COUNTED / 10
    } else {
        COUNTED
    };
    let mut counts = [0.0; 2];
    for (asked, count) in REQUESTS.iter().zip(&mut counts) {
        let run = |server: &Server, first: u64, requests: u64| {
            let plan = Plan {
                name: asked.action().to_owned(),
                load: Load::Open(Starts::Rate {
                    rate: Rate::Constant(COUNTED_PER_S),
                    arrivals: Arrivals::Constant,
                    seed: options.all.seed,
                }),
                until: Until::Operations(requests),
                connections: 1,
                threads: 1,
                errors_max: Some(ERRORS_MAX),
                levels: Vec::new(),
            };
            let workload = asked.workload(&items, 1 + first);
            generate(&server.target(), &plan, workload, |_| {})
        };
        run(&counted.server, 0, WARM_UP)?;
        counted.instructions()?;
        run(&counted.server, WARM_UP, requests)?;
        *count = counted.instructions()? as f64 / requests as f64;
    }
    Ok(counts)
}

/// Copies callgrind's files.
fn keep(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        if file.file_type()?.is_file() {
            std::fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    Ok(())
}

/// Rates of both, one right after the other in each round, so that both have the same machine.
fn pairs(
    options: &BeforeOptions,
    scratch: &Path,
    before: &Path,
    report: &mut Report,
) -> Result<()> {
    let items = items();
    let side = |name, binary: &Path| -> Result<Side> {
        let server = Server::fader(binary, &scratch.join(name))?;
        prepare(options, &server, &items)?;
        Ok(Side {
            name,
            server,
            stamp: 1,
        })
    };
    let mut sides = [side("before", before)?, side("this", &options.all.fader)?];
    let all = &options.all;
    let count = match all.quick {
        true => all.runs(),
        false => all.runs().max(PAIRS_MIN),
    };
    for asked in REQUESTS {
        let mut runs = sides
            .each_ref()
            .map(|side| Runs::new(&format!("{} of {}", asked.action(), side.name), CONNECTIONS));
        for (round, order) in rounds(sides.len(), count, all.seed).iter().enumerate() {
            eprintln!("{}: pair {} of {count}", asked.action(), round + 1);
            for &number in order {
                let (side, runs) = (&mut sides[number], &mut runs[number]);
                let stamp = side.stamp;
                let logs = measure(all, &side.server, runs, all.seconds(), |done| {
                    asked.workload(&items, stamp + done)
                })?;
                side.stamp += logs
                    .iter()
                    .map(|l| l.log.operations.len() as u64)
                    .sum::<u64>();
            }
        }
        let [before, now] = &runs;
        report.findings.push(Finding {
            name: format!("rate of {} / before, pair by pair", asked.action()),
            interval: pair_by_pair(&now.rates, &before.rates, all.seed),
            unit: " x",
            target: Target::Reaches(1.0),
        });
        report.sides.extend(runs.iter().map(Runs::side));
    }
    Ok(())
}

fn prepare(options: &BeforeOptions, server: &Server, items: &Arc<Items>) -> Result<()> {
    Runtime::new()?.block_on(server.client()?.create_domain(&items.domain))?;
    fill(&options.all, server, items)?;
    Ok(())
}

fn items() -> Arc<Items> {
    Arc::new(Items {
        domain: String::from("bench-one-node"),
        count: ITEMS,
        attributes: 1,
        value_bytes: VALUE_BYTES,
        groups: 0,
    })
}

impl Asked {
    fn action(self) -> &'static str {
        match self {
            Asked::Put => "PutAttributes",
            Asked::Get => "GetAttributes",
        }
    }

    /// Puts from `stamp` on; gets of what the items were filled with.
    fn workload(self, items: &Arc<Items>, stamp: u64) -> Arc<dyn Wire> {
        let items = Arc::clone(items);
        match self {
            Asked::Put => Arc::new(Put {
                items,
                stamp_first: stamp,
            }),
            Asked::Get => Arc::new(Get {
                stamps: (0..items.count).map(|key| (key, 0)).collect(),
                items,
                consistent: false,
            }),
        }
    }
}
