//! Steps of the replication core: strong writes of 500 bytes through three members in memory.
//!
//! No disk, no network, no thread: what is measured is `Replica::step` with an engine that is an
//! ordered map. The floor is that map alone: each side does the same number of insertions of the
//! same rows, three times over, once per member.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use fader_chain::{
    Accepted, ChainMember, Change, Configuration, CorrelationId, Decided, DiskId, Effect,
    ElementOp, EntryId, Envelope, Host, Identity, Incarnation, Input, NodeId, Now, Operation,
    RecoveredState, Replica, ReplicaSettings, Role, Settled, TombstonePolicy, View, ViewError,
    Wiring,
};
use fader_measure::ratio_of_medians;

use crate::Options;
use crate::machine::Machine;
use crate::report::{Finding, Report, Target};

/// Registers written to, in turn.
const REGISTERS: u64 = 1_024;
/// Bytes of a value.
const VALUE_BYTES: usize = 500;
/// Writes submitted before links move: one at a time, and as a busy head gathers them.
const BATCHES: [u64; 2] = [1, 32];

/// An engine in memory.
type Memory = BTreeMap<Bytes, Bytes>;

/// A service that replaces one value.
struct Service {
    memory: Memory,
    value: Bytes,
}

impl Host for Service {
    fn committed(&self) -> &dyn View {
        &self.memory
    }

    fn decide(&self, token: CorrelationId, _newest: &dyn View) -> Result<Decided, ViewError> {
        let group = Bytes::from_static(b"v");
        let ops = vec![
            ElementOp::Clear {
                group: group.clone(),
            },
            ElementOp::Add {
                group,
                value: self.value.clone(),
            },
        ];
        Ok(Decided {
            result: Bytes::new(),
            changes: vec![Change::Merge {
                key: key(token.0),
                ops,
                marks: TombstonePolicy::Dropped,
            }],
            depends_on_state: true,
        })
    }

    fn accept(
        &self,
        _token: CorrelationId,
        _tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError> {
        Ok(None)
    }

    fn settle(&self, _operation: &Operation, _newest: &dyn View) -> Result<Settled, ViewError> {
        Ok(Settled::Refused(Bytes::new()))
    }

    fn fix(&mut self) {}

    fn fixed(&self) -> Option<(EntryId, &dyn View)> {
        None
    }

    fn unfix(&mut self) {}
}

fn key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&(number % REGISTERS).to_be_bytes())
}

/// What a run counted.
#[derive(Clone, Copy)]
struct Counted {
    steps: u64,
    writes: u64,
    seconds: f64,
}

impl Counted {
    fn steps_per_second(&self) -> f64 {
        self.steps as f64 / self.seconds
    }
}

struct World {
    members: Vec<(Replica, Service)>,
    inbox: Vec<VecDeque<Envelope>>,
    effects: Vec<Effect>,
    steps: u64,
    replies: u64,
}

impl World {
    fn new(wiring: Wiring) -> Result<Self> {
        let identity = |node: u32| Identity {
            node: NodeId(node),
            incarnation: Incarnation(1),
            disk: DiskId(u128::from(node)),
        };
        let member = |node: u32| ChainMember {
            node: NodeId(node),
            incarnation: Incarnation(1),
            disk: DiskId(u128::from(node)),
            role: Role::Serving,
        };
        let configuration = Arc::new(Configuration {
            epoch: 1,
            wiring,
            members: (0..3).map(member).collect(),
            last_serving: Vec::new(),
            absent: Vec::new(),
            safe_point: EntryId::ZERO,
            lossy: fader_chain::UncleanRecovery::default(),
            version: fader_chain::Version::NEWEST,
        });
        let value = Bytes::from(vec![b'v'; VALUE_BYTES]);
        let member = |node| {
            let service = Service {
                memory: Memory::default(),
                value: value.clone(),
            };
            (
                Replica::new(identity(node), ReplicaSettings::default()),
                service,
            )
        };
        let mut world = World {
            members: (0..3).map(member).collect(),
            inbox: vec![VecDeque::new(); 3],
            effects: Vec::new(),
            steps: 0,
            replies: 0,
        };
        for node in 0..3 {
            world.step(
                node,
                Input::Recovered {
                    durable: RecoveredState::default(),
                    applied: EntryId::ZERO,
                    filling: false,
                },
            )?;
            world.step(node, Input::Configuration(configuration.clone()))?;
        }
        world.settle()?;
        Ok(world)
    }

    /// One step; its effects at once, but for messages, which wait.
    fn step(&mut self, node: usize, input: Input) -> Result<()> {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let (replica, service) = &mut self.members[node];
            self.steps += 1;
            let mut effects = std::mem::take(&mut self.effects);
            replica.step(Now::default(), input, service, &mut effects)?;
            let (mut persisted, mut applied) = (None, None);
            for effect in effects.drain(..) {
                match effect {
                    Effect::Persist { lsn, .. } => persisted = Some(lsn),
                    Effect::Send { to, envelope } => self.inbox[to.0 as usize].push_back(envelope),
                    Effect::Apply { id, mutations } => {
                        for mutation in mutations.iter() {
                            if let Some(value) = &mutation.value {
                                service.memory.insert(mutation.key.clone(), value.clone());
                            }
                        }
                        applied = Some(id);
                    }
                    Effect::Reply { .. } => self.replies += 1,
                    Effect::Fill(_)
                    | Effect::Coordinator(_)
                    | Effect::Stop(_)
                    | Effect::StaleMessage { .. } => {}
                }
            }
            self.effects = effects;
            if let Some(id) = applied {
                self.step(node, Input::Applied(id))?;
            }
            next = persisted.map(Input::Persisted);
        }
        Ok(())
    }

    /// Moves messages until none is left.
    fn settle(&mut self) -> Result<()> {
        loop {
            for node in 0..3 {
                self.step(node, Input::Flush)?;
            }
            if self.inbox.iter().all(VecDeque::is_empty) {
                return Ok(());
            }
            for node in 0..3 {
                for envelope in std::mem::take(&mut self.inbox[node]) {
                    self.step(node, Input::Message(envelope))?;
                }
            }
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let machine = Machine::describe(&options.scratch);
    machine.print();
    let writes = if options.quick { 20_000 } else { 400_000 };
    let wirings = [("star", Wiring::Star), ("chain", Wiring::Chain)];
    let sides: Vec<_> = wirings
        .into_iter()
        .flat_map(|(name, wiring)| BATCHES.map(|batch| (name, wiring, batch)))
        .collect();
    let mut rates = vec![Vec::new(); sides.len()];
    let mut floor = Vec::new();
    for _ in 0..options.runs() {
        for (rates, (_, wiring, batch)) in rates.iter_mut().zip(&sides) {
            let counted = through_three(*wiring, *batch, writes)?;
            anyhow::ensure!(counted.writes == writes, "some writes were not answered");
            rates.push(counted);
        }
        floor.push(map_alone(writes));
    }
    println!("floor: {:.0} insertions a second", median(&floor));
    let mut findings = Vec::new();
    for ((name, _, batch), counted) in sides.iter().zip(&rates) {
        let steps: Vec<f64> = counted.iter().map(Counted::steps_per_second).collect();
        let written = counted.iter().map(|run| run.writes as f64 / run.seconds);
        let name = format!("{name}, {batch} in flight");
        println!(
            "{name}: {:.0} writes, {:.0} steps a second",
            median(&written.collect::<Vec<_>>()),
            median(&steps)
        );
        // A step that carries many entries does more: the target is for one write at a time.
        if *batch != 1 {
            continue;
        }
        findings.push(Finding {
            name: format!("millions of steps a second, {name}"),
            interval: ratio_of_medians(&steps, &vec![1e6; steps.len()], options.seed),
            unit: " M",
            target: Target::AtLeast(1.0),
        });
    }
    let report = Report {
        benchmark: "steps",
        machine,
        sides: Vec::new(),
        findings,
        notes: vec![String::from(
            "One thread, three replicas, values of 500 bytes; a write is acknowledged when all \
             three have it. The floor inserts each value three times into a map.",
        )],
    };
    report.finish(options.json.as_deref(), options.quick)
}

fn median(rates: &[f64]) -> f64 {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Insertions a second of the same rows into ordered maps, and nothing else.
fn map_alone(writes: u64) -> f64 {
    let value = Bytes::from(vec![b'v'; VALUE_BYTES]);
    let mut maps = [BTreeMap::new(), BTreeMap::new(), BTreeMap::new()];
    let started = Instant::now();
    for number in 0..writes {
        for map in &mut maps {
            map.insert(key(number), value.clone());
        }
    }
    (writes * 3) as f64 / started.elapsed().as_secs_f64()
}

/// Sends `writes` through a chain of three, `batch` at a time.
fn through_three(wiring: Wiring, batch: u64, writes: u64) -> Result<Counted> {
    let mut world = World::new(wiring)?;
    (world.steps, world.replies) = (0, 0);
    let started = Instant::now();
    for number in 0..writes {
        world.step(
            0,
            Input::Submit {
                token: CorrelationId(number),
                request: None,
                barrier: Vec::new(),
            },
        )?;
        if (number + 1) % batch == 0 {
            world.settle()?;
        }
    }
    world.settle()?;
    Ok(Counted {
        steps: world.steps,
        writes: world.replies,
        seconds: started.elapsed().as_secs_f64(),
    })
}
