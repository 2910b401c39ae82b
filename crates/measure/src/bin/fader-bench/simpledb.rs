//! GetAttributes and PutAttributes: against a bare HTTP server, against fdatasync and against
//! moto_server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fader_history::object::Log;
use fader_measure::{
    Axis, Constant, DIGITS, ERRORS_MAX, Get, Interval, Items, Load, Plan, Plot, Put, Scale, Series,
    Until, Wire, acknowledged, ratio_of_medians, rounds, run as generate, sample,
};
use tokio::runtime::Runtime;

use crate::Options;
use crate::disk::Probe;
use crate::load::{Runs, fill, measure};
use crate::machine::Machine;
use crate::report::{Finding, Report, Target};
use crate::server::Server;

const CONNECTIONS: u32 = 64;
/// Items of each domain: far more than connections, so that no two puts meet.
const ITEMS: u64 = 10_000;
/// Attributes of an item, as in the seeds' put phase.
const ATTRIBUTES: u64 = 2;
/// moto gets its items one by one.
const MOTO_ITEMS: u64 = 500;
/// Turns that put, round trip and fdatasync take within a round.
const TURNS: u32 = 10;
/// About what the log writes for a put; within one page of the disk its size hardly matters.
const RECORD_BYTES: usize = 256;

/// The sides of the comparisons.
#[derive(Clone, Copy)]
enum Side {
    Floor,
    Get,
    Put,
    MotoGet,
    MotoPut,
    /// One connection; runs together with the two that follow, which it is compared with.
    PutAlone,
    FloorAlone,
    Sync,
}

/// What is measured, and on what.
struct Bench<'a> {
    options: &'a Options,
    fader: Server,
    get_floor: Server,
    put_floor: Server,
    moto: Option<Server>,
    probe: Probe,
    get_bytes: usize,
    put_bytes: usize,
    gets: Arc<Items>,
    puts: Arc<Items>,
    /// The next stamp for a put.
    stamp: u64,
    /// The last stamp that was acknowledged of each key.
    acknowledged: BTreeMap<u64, u64>,
    /// One for each side.
    runs: Vec<Runs>,
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let mut bench = Bench::start(options, scratch.path())?;
    let mut sides = vec![Side::Floor, Side::Get, Side::Put, Side::PutAlone];
    if bench.moto.is_some() {
        sides.extend([Side::MotoGet, Side::MotoPut]);
    }
    let rounds = rounds(sides.len(), options.runs(), options.seed);
    for (round, order) in rounds.iter().enumerate() {
        eprintln!("round {} of {}", round + 1, rounds.len());
        for &side in order {
            bench.run_side(sides[side])?;
        }
    }
    bench.verify_puts()?;
    if let Some(path) = &options.plot {
        std::fs::write(path, bench.plot().svg())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    bench
        .report(machine)
        .finish(options.json.as_deref(), options.quick)
}

impl<'a> Bench<'a> {
    fn start(options: &'a Options, scratch: &Path) -> Result<Self> {
        let count = if options.quick { ITEMS / 10 } else { ITEMS };
        let (gets, puts) = (items("bench-get", count), items("bench-put", count));
        let fader = Server::fader(&options.fader, &scratch.join("data"))?;
        create(&fader, &[&gets, &puts])?;
        fill(options, &fader, &gets)?;
        let put = Put {
            items: Arc::clone(&puts),
            stamp_first: 0,
        };
        let get_bytes = sample(&fader.target(), Arc::new(get(&gets)))?.len();
        let put_bytes = sample(&fader.target(), Arc::new(put))?.len();
        let moto = options
            .moto
            .as_ref()
            .map(|path| start_moto(path, scratch))
            .transpose()?;
        let runs = [
            ("floor", CONNECTIONS),
            ("GetAttributes", CONNECTIONS),
            ("PutAttributes", CONNECTIONS),
            ("moto GetAttributes", CONNECTIONS),
            ("moto PutAttributes", CONNECTIONS),
            ("PutAttributes", 1),
            ("floor", 1),
            ("write and fdatasync", 0),
        ];
        Ok(Bench {
            options,
            get_floor: Server::floor(get_bytes, scratch)?,
            put_floor: Server::floor(put_bytes, scratch)?,
            fader,
            moto,
            probe: Probe::new(scratch, RECORD_BYTES)?,
            get_bytes,
            put_bytes,
            gets,
            puts,
            stamp: 1,
            acknowledged: BTreeMap::new(),
            runs: runs
                .map(|(name, connections)| Runs::new(name, connections))
                .into(),
        })
    }

    fn run_side(&mut self, side: Side) -> Result<()> {
        let elapsed = self.options.seconds();
        match side {
            Side::Floor => self.run_floor(side, Arc::new(get(&self.gets)), elapsed),
            Side::Get => {
                let workload: Arc<dyn Wire> = Arc::new(get(&self.gets));
                let runs = &mut self.runs[side as usize];
                measure(self.options, &self.fader, runs, elapsed, |_| {
                    Arc::clone(&workload)
                })?;
                Ok(())
            }
            Side::Put => self.run_put(side, elapsed),
            Side::MotoGet | Side::MotoPut => self.run_moto(side, elapsed),
            Side::PutAlone | Side::FloorAlone | Side::Sync => self.run_alone(elapsed / TURNS),
        }
    }

    /// Put, the floor's round trip and fdatasync in many short turns, so that what the disk does
    /// for a second falls on all three.
    fn run_alone(&mut self, elapsed: Duration) -> Result<()> {
        for _ in 0..TURNS {
            self.run_put(Side::PutAlone, elapsed)?;
            let put = Put {
                items: Arc::clone(&self.puts),
                stamp_first: self.stamp,
            };
            self.run_floor(Side::FloorAlone, Arc::new(put), elapsed)?;
            let begin = Instant::now();
            let times = self.probe.run(elapsed)?;
            self.runs[Side::Sync as usize].add_times(times, begin.elapsed());
        }
        Ok(())
    }

    fn run_floor(&mut self, side: Side, workload: Arc<dyn Wire>, elapsed: Duration) -> Result<()> {
        let (server, bytes) = match side {
            Side::FloorAlone => (&self.put_floor, self.put_bytes),
            _ => (&self.get_floor, self.get_bytes),
        };
        let workload: Arc<dyn Wire> = Arc::new(Constant { workload, bytes });
        let runs = &mut self.runs[side as usize];
        measure(self.options, server, runs, elapsed, |_| {
            Arc::clone(&workload)
        })?;
        Ok(())
    }

    fn run_put(&mut self, side: Side, elapsed: Duration) -> Result<()> {
        let (items, stamp) = (Arc::clone(&self.puts), self.stamp);
        let put = |done: u64| -> Arc<dyn Wire> {
            Arc::new(Put {
                items: Arc::clone(&items),
                stamp_first: stamp + done,
            })
        };
        let runs = &mut self.runs[side as usize];
        for ran in measure(self.options, &self.fader, runs, elapsed, put)? {
            self.acknowledge(&ran.log);
        }
        Ok(())
    }

    fn run_moto(&mut self, side: Side, elapsed: Duration) -> Result<()> {
        let moto = self.moto.as_ref().context("moto was started")?;
        let workload: Arc<dyn Wire> = match side {
            Side::MotoGet => {
                let items = items("moto-get", MOTO_ITEMS);
                let stamps = (0..MOTO_ITEMS).map(|key| (key, key)).collect();
                Arc::new(Get {
                    items,
                    stamps,
                    consistent: false,
                })
            }
            _ => Arc::new(Put {
                items: items("moto-put", MOTO_ITEMS),
                stamp_first: 0,
            }),
        };
        let runs = &mut self.runs[side as usize];
        measure(self.options, moto, runs, elapsed, |_| Arc::clone(&workload))?;
        Ok(())
    }

    fn acknowledge(&mut self, log: &Log) {
        self.stamp += log.operations.len() as u64;
        for (key, written) in acknowledged(log) {
            let stamp = self.acknowledged.entry(key).or_default();
            *stamp = written.max(*stamp);
        }
    }

    /// Reads back, consistently, what the last acknowledged puts put.
    fn verify_puts(&self) -> Result<()> {
        let stamps: Vec<(u64, u64)> = self.acknowledged.iter().map(|(k, s)| (*k, *s)).collect();
        let plan = Plan {
            name: String::from("reading back what was put"),
            load: Load::Closed,
            until: Until::Operations(stamps.len() as u64),
            connections: CONNECTIONS,
            threads: self.options.threads,
            errors_max: Some(ERRORS_MAX),
            levels: Vec::new(),
        };
        let get = Get {
            items: Arc::clone(&self.puts),
            stamps,
            consistent: true,
        };
        generate(&self.fader.target(), &plan, Arc::new(get), |_| {})?;
        Ok(())
    }

    fn report(&self, machine: Machine) -> Report {
        let finding = |name: &str, interval: Interval, target: Target| Finding {
            name: name.to_owned(),
            interval,
            unit: " x",
            target,
        };
        let rates = |side: Side| self.runs[side as usize].rates.as_slice();
        let seed = self.options.seed;
        let ratio = |above: Side, below: Side| ratio_of_medians(rates(above), rates(below), seed);
        let medians = |side: Side| self.runs[side as usize].medians.as_slice();
        let parts = medians(Side::Sync).iter().zip(medians(Side::FloorAlone));
        let parts: Vec<f64> = parts.map(|(sync, round_trip)| sync + round_trip).collect();
        let latency = ratio_of_medians(medians(Side::PutAlone), &parts, seed);
        let mut findings = vec![
            finding(
                "get rate / floor rate",
                ratio(Side::Get, Side::Floor),
                Target::AtLeast(0.6),
            ),
            finding(
                "put rate / get rate",
                ratio(Side::Put, Side::Get),
                Target::AtLeast(0.35),
            ),
            finding(
                "put latency / (fdatasync + round trip)",
                latency,
                Target::AtMost(2.0),
            ),
        ];
        let mut notes = vec![format!(
            "Items of {ATTRIBUTES} attributes of 16 octets; replies of {} (get), {} (put) octets; \
             signatures of version 2 made and verified; every reply checked; puts read back.",
            self.get_bytes, self.put_bytes
        )];
        match &self.moto {
            Some(_) => findings.extend([
                finding(
                    "get rate / moto",
                    ratio(Side::Get, Side::MotoGet),
                    Target::AtLeast(20.0),
                ),
                finding(
                    "put rate / moto",
                    ratio(Side::Put, Side::MotoPut),
                    Target::AtLeast(20.0),
                ),
            ]),
            None => notes.push(String::from(
                "moto_server was not given (--moto): that comparison was left out.",
            )),
        }
        let sides = self
            .runs
            .iter()
            .filter(|runs| !runs.rates.is_empty())
            .map(Runs::side);
        Report {
            benchmark: "simpledb",
            machine,
            sides: sides.collect(),
            findings,
            notes,
        }
    }

    /// Latency by percentile, both axes logarithmic: the distance between lines is a ratio.
    fn plot(&self) -> Plot {
        let shown = [Side::Floor, Side::Get, Side::Put].map(|side| &self.runs[side as usize]);
        let series = |runs: &Runs| Series {
            name: runs.name.clone(),
            points: runs.spectrum.clone(),
        };
        Plot {
            title: format!("Latency with {CONNECTIONS} connections"),
            x: Axis {
                label: String::from("one operation in so many takes longer"),
                scale: Scale::Logarithmic,
            },
            y: Axis {
                label: String::from("milliseconds"),
                scale: Scale::Logarithmic,
            },
            series: shown.map(series).into(),
        }
    }
}

fn items(domain: &str, count: u64) -> Arc<Items> {
    Arc::new(Items {
        domain: domain.to_owned(),
        count,
        attributes: ATTRIBUTES,
        value_bytes: DIGITS,
        groups: 0,
    })
}

/// Gets of items as they were filled in.
fn get(items: &Arc<Items>) -> Get {
    let stamps = (0..items.count).map(|key| (key, 0)).collect();
    Get {
        items: Arc::clone(items),
        stamps,
        consistent: false,
    }
}

fn create(server: &Server, domains: &[&Items]) -> Result<()> {
    let (runtime, client) = (Runtime::new()?, server.client()?);
    for items in domains {
        runtime.block_on(client.create_domain(&items.domain))?;
    }
    Ok(())
}

/// moto with its items, put one by one: it knows no batches. Item and stamp are the same number.
fn start_moto(path: &Path, scratch: &Path) -> Result<Server> {
    let moto = Server::moto(path, scratch)?;
    let (gets, puts) = (items("moto-get", MOTO_ITEMS), items("moto-put", MOTO_ITEMS));
    create(&moto, &[&gets, &puts])?;
    let plan = Plan {
        name: String::from("filling moto"),
        load: Load::Closed,
        until: Until::Operations(MOTO_ITEMS),
        connections: 4,
        threads: 1,
        errors_max: Some(ERRORS_MAX),
        levels: Vec::new(),
    };
    generate(
        &moto.target(),
        &plan,
        Arc::new(Put {
            items: gets,
            stamp_first: 0,
        }),
        |_| {},
    )?;
    Ok(moto)
}
