//! GetAttributes and PutAttributes: against a bare HTTP server, against fdatasync, against
//! moto_server and against an earlier commit's binary.

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

use crate::disk::Probe;
use crate::load::{Runs, fill, measure, pair_by_pair};
use crate::machine::Machine;
use crate::report::{Finding, Report, Target};
use crate::server::Server;
use crate::{BeforeOptions, Options};

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

/// The least part of the earlier binary's rate, and of its latency the same the other way round.
const BEFORE_MIN: f64 = 0.97;

/// The sides of the comparisons.
#[derive(Clone, Copy)]
enum Side {
    Floor,
    Get,
    Put,
    GetBefore,
    PutBefore,
    MotoGet,
    MotoPut,
    /// One connection; runs together with the three that follow, which it is compared with.
    PutAlone,
    PutAloneBefore,
    FloorAlone,
    Sync,
}

/// A binary of Fader with its items.
struct Subject {
    server: Server,
    /// The next stamp for a put.
    stamp: u64,
    /// The last stamp that was acknowledged of each key.
    acknowledged: BTreeMap<u64, u64>,
}

/// What is measured, and on what.
struct Bench<'a> {
    options: &'a Options,
    /// This commit's binary, and the earlier one's if there is one.
    subjects: Vec<Subject>,
    get_floor: Server,
    put_floor: Server,
    moto: Option<Server>,
    probe: Probe,
    get_bytes: usize,
    put_bytes: usize,
    gets: Arc<Items>,
    puts: Arc<Items>,
    /// One for each side.
    runs: Vec<Runs>,
}

pub(crate) fn run(options: &BeforeOptions) -> Result<bool> {
    let (before, options) = (&options.before, &options.all);
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let mut bench = Bench::start(options, before.as_deref(), scratch.path())?;
    let mut sides = vec![Side::Floor, Side::Get, Side::Put, Side::PutAlone];
    if bench.has_before() {
        sides.extend([Side::GetBefore, Side::PutBefore]);
    }
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
    for subject in &bench.subjects {
        bench.verify_puts(subject)?;
    }
    if let Some(path) = &options.plot {
        std::fs::write(path, bench.plot().svg())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    bench
        .report(machine)
        .finish(options.json.as_deref(), options.quick)
}

impl Side {
    /// The index of the binary that it asks.
    fn subject(self) -> usize {
        match self {
            Side::GetBefore | Side::PutBefore | Side::PutAloneBefore => 1,
            _ => 0,
        }
    }
}

impl Subject {
    fn acknowledge(&mut self, log: &Log) {
        self.stamp += log.operations.len() as u64;
        for (key, written) in acknowledged(log) {
            let stamp = self.acknowledged.entry(key).or_default();
            *stamp = written.max(*stamp);
        }
    }
}

impl<'a> Bench<'a> {
    fn start(options: &'a Options, before: Option<&Path>, scratch: &Path) -> Result<Self> {
        let count = if options.quick { ITEMS / 10 } else { ITEMS };
        let (gets, puts) = (items("bench-get", count), items("bench-put", count));
        let subject = |binary: &Path, folder: &str| -> Result<Subject> {
            let server = Server::fader(binary, &scratch.join(folder))?;
            create(&server, &[&gets, &puts])?;
            fill(options, &server, &gets)?;
            Ok(Subject {
                server,
                stamp: 1,
                acknowledged: BTreeMap::new(),
            })
        };
        let mut subjects = vec![subject(&options.fader, "data")?];
        if let Some(binary) = before {
            subjects.push(subject(binary, "data-before")?);
        }
        let target = subjects[0].server.target();
        let put = Put {
            items: Arc::clone(&puts),
            stamp_first: 0,
        };
        let get_bytes = sample(&target, Arc::new(get(&gets)))?.len();
        let put_bytes = sample(&target, Arc::new(put))?.len();
        let moto = options
            .moto
            .as_ref()
            .map(|path| start_moto(path, scratch))
            .transpose()?;
        let runs = [
            ("floor", CONNECTIONS),
            ("GetAttributes", CONNECTIONS),
            ("PutAttributes", CONNECTIONS),
            ("GetAttributes before", CONNECTIONS),
            ("PutAttributes before", CONNECTIONS),
            ("moto GetAttributes", CONNECTIONS),
            ("moto PutAttributes", CONNECTIONS),
            ("PutAttributes", 1),
            ("PutAttributes before", 1),
            ("floor", 1),
            ("write and fdatasync", 0),
        ];
        Ok(Bench {
            options,
            get_floor: Server::floor(get_bytes, scratch)?,
            put_floor: Server::floor(put_bytes, scratch)?,
            subjects,
            moto,
            probe: Probe::new(scratch, RECORD_BYTES)?,
            get_bytes,
            put_bytes,
            gets,
            puts,
            runs: runs
                .map(|(name, connections)| Runs::new(name, connections))
                .into(),
        })
    }

    fn run_side(&mut self, side: Side) -> Result<()> {
        let elapsed = self.options.seconds();
        match side {
            Side::Floor => self.run_floor(side, Arc::new(get(&self.gets)), elapsed),
            Side::Get | Side::GetBefore => self.run_get(side, elapsed),
            Side::Put | Side::PutBefore => self.run_put(side, elapsed),
            Side::MotoGet | Side::MotoPut => self.run_moto(side, elapsed),
            Side::PutAlone | Side::PutAloneBefore | Side::FloorAlone | Side::Sync => {
                self.run_alone(elapsed / TURNS)
            }
        }
    }

    fn has_before(&self) -> bool {
        self.subjects.len() == 2
    }

    /// Put, the floor's round trip and fdatasync in many short turns, so that what the disk does
    /// for a second falls on all three.
    fn run_alone(&mut self, elapsed: Duration) -> Result<()> {
        for _ in 0..TURNS {
            self.run_put(Side::PutAlone, elapsed)?;
            if self.has_before() {
                self.run_put(Side::PutAloneBefore, elapsed)?;
            }
            let put = Put {
                items: Arc::clone(&self.puts),
                stamp_first: self.subjects[0].stamp,
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

    fn run_get(&mut self, side: Side, elapsed: Duration) -> Result<()> {
        let workload: Arc<dyn Wire> = Arc::new(get(&self.gets));
        let server = &self.subjects[side.subject()].server;
        let runs = &mut self.runs[side as usize];
        measure(self.options, server, runs, elapsed, |_| {
            Arc::clone(&workload)
        })?;
        Ok(())
    }

    fn run_put(&mut self, side: Side, elapsed: Duration) -> Result<()> {
        let subject = &mut self.subjects[side.subject()];
        let (items, stamp) = (Arc::clone(&self.puts), subject.stamp);
        let put = |done: u64| -> Arc<dyn Wire> {
            Arc::new(Put {
                items: Arc::clone(&items),
                stamp_first: stamp + done,
            })
        };
        let runs = &mut self.runs[side as usize];
        for ran in measure(self.options, &subject.server, runs, elapsed, put)? {
            subject.acknowledge(&ran.log);
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

    /// Reads back, consistently, what the last acknowledged puts put.
    fn verify_puts(&self, subject: &Subject) -> Result<()> {
        let stamps: Vec<(u64, u64)> = subject.acknowledged.iter().map(|(k, s)| (*k, *s)).collect();
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
        generate(&subject.server.target(), &plan, Arc::new(get), |_| {})?;
        Ok(())
    }

    fn report(&self, machine: Machine) -> Report {
        let mut notes = vec![format!(
            "Items of {ATTRIBUTES} attributes of 16 octets; replies of {} (get), {} (put) octets; \
             signatures of version 2 made and verified; every reply checked; puts read back.",
            self.get_bytes, self.put_bytes
        )];
        if self.moto.is_none() {
            notes.push(String::from(
                "moto_server was not given (--moto): that comparison was left out.",
            ));
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
            findings: self.findings(),
            notes,
        }
    }

    fn rates(&self, side: Side) -> &[f64] {
        &self.runs[side as usize].rates
    }

    fn medians(&self, side: Side) -> &[f64] {
        &self.runs[side as usize].medians
    }

    fn findings(&self) -> Vec<Finding> {
        use Target::{AtLeast, AtMost};
        let seed = self.options.seed;
        let ratio = |above, below| ratio_of_medians(self.rates(above), self.rates(below), seed);
        let sync = self.medians(Side::Sync).iter();
        let parts = sync.zip(self.medians(Side::FloorAlone));
        let parts: Vec<f64> = parts.map(|(sync, round_trip)| sync + round_trip).collect();
        let latency = ratio_of_medians(self.medians(Side::PutAlone), &parts, seed);
        let mut found = vec![
            (
                "get rate / floor rate",
                ratio(Side::Get, Side::Floor),
                AtLeast(0.6),
            ),
            (
                "put rate / get rate",
                ratio(Side::Put, Side::Get),
                AtLeast(0.35),
            ),
            (
                "put latency / (fdatasync + round trip)",
                latency,
                AtMost(2.0),
            ),
        ];
        if self.moto.is_some() {
            found.extend([
                (
                    "get rate / moto",
                    ratio(Side::Get, Side::MotoGet),
                    AtLeast(20.0),
                ),
                (
                    "put rate / moto",
                    ratio(Side::Put, Side::MotoPut),
                    AtLeast(20.0),
                ),
            ]);
        }
        if self.has_before() {
            let rate = |now, before| pair_by_pair(self.rates(now), self.rates(before), seed);
            let [now, before] = [Side::PutAlone, Side::PutAloneBefore].map(|s| self.medians(s));
            let least = AtLeast(BEFORE_MIN);
            found.extend([
                ("get rate / before", rate(Side::Get, Side::GetBefore), least),
                ("put rate / before", rate(Side::Put, Side::PutBefore), least),
                (
                    "put latency: before / now",
                    pair_by_pair(before, now, seed),
                    least,
                ),
            ]);
        }
        let finding = |(name, interval, target): (&str, Interval, Target)| Finding {
            name: name.to_owned(),
            interval,
            unit: " x",
            target,
        };
        found.into_iter().map(finding).collect()
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
