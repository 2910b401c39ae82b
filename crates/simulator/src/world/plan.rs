//! What is to happen in a run: faults, fault rates and the work of clients. All is chosen before it
//! begins, so that a failing run can be made smaller by leaving things out.

use bytes::Bytes;
use fader_chain::{ElementOp, EntryId, ReplicaSettings, Wiring};

use super::network::{Kind, NetworkFaults};
use super::operator::{self, Wish};
use super::random::Random;
use super::run_profile::{self, RunProfile};
use crate::history::{Bound, Condition, Level, Request, Write};

/// Microseconds of virtual time.
pub type Micros = u64;

/// What a run is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Faults all the time: nothing wrong is ever said.
    Safety,
    /// Faults end: then everything comes to rest, with all members.
    Liveness,
}

/// What is chosen about a run besides its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What it is to show; by the seed if none is given.
    pub mode: Option<Mode>,
    /// From 1 to 5 members; by the seed if none is given.
    pub members: Option<u32>,
    /// How entries travel at first; by the seed if none is given.
    pub wiring: Option<Wiring>,
    /// Whether there are eventual operations; by the seed if none is given.
    pub mixed: Option<bool>,
    /// Whether the mode changes, where there are eventual operations; by the seed if none is given.
    pub modes: Option<bool>,
    /// What it is about; by the seed if none is given.
    pub profile: Option<RunProfile>,
}

/// A run before it happens.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where its chances come from.
    pub seed: u64,
    /// What it is to show.
    pub mode: Mode,
    /// How many members.
    pub members: u32,
    /// How entries travel at first.
    pub wiring: Wiring,
    /// Whether there are eventual operations.
    pub mixed: bool,
    /// The network while there are faults.
    pub network_faults: NetworkFaults,
    /// The longest sync of a disk.
    pub sync_max: Micros,
    /// The longest time before an engine does what it is given.
    pub work_max: Micros,
    /// How long it rests between the parts of a fill.
    pub work_rest: Micros,
    /// The longest wait for more input before a member sends what has gathered.
    pub flush_max: Micros,
    /// After how many milliseconds a client is idle.
    pub idle_ms: u64,
    /// What goes wrong, by its time.
    pub faults: Vec<(Micros, Fault)>,
    /// Whether clocks stop: then processes show theirs.
    pub stops: bool,
    /// Whether the registers are in a collection, whose mode changes.
    pub modes: bool,
    /// What mode the operator then wants, and when.
    pub wishes: Vec<(Micros, Wish)>,
    /// The work of each client, one order after the other.
    pub clients: Vec<Vec<Order>>,
    /// By how much the numbers of a client's requests grow.
    pub stride: u64,
    /// How long a client waits for an answer.
    pub patience: Micros,
    /// When faults end, in liveness mode; when the run ends, in safety mode.
    pub calm_at: Micros,
    /// Messages that are lost even then, of a thousand.
    pub calm_loss: u32,
    /// How many controllers race; with none the coordinator acts by itself, at once.
    pub controllers: usize,
    /// How long one takes from one step to the next, at most.
    pub control_max: Micros,
    /// What rots without being noticed when everything rests, in liveness mode.
    pub bit_rot: Option<BitRot>,
}

/// A member's engine holds something else than what it was given, and no checksum says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRot {
    /// Which of the machines that may.
    pub machine: usize,
    /// Which row.
    pub row: u64,
    /// What becomes of it.
    pub how: RotHow,
    /// When its process dies after that, if it does: what it knew of its rot it forgets.
    pub crash_after: Option<Micros>,
}

/// What rot does to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotHow {
    /// A bit of its value is another.
    Flip,
    /// It is gone.
    Drop,
    /// It is there under another key too.
    Double,
}

/// Something that goes wrong, or that an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process dies, and starts again after some time.
    Crash(usize, Micros),
    /// All die at once.
    CrashAll(Micros),
    /// A process stands still.
    Pause(usize, Micros),
    /// A machine stands still, with its clocks.
    Stop(usize, Micros),
    /// One direction between two members is cut.
    Cut(usize, usize, Micros),
    /// A member is cut off from all others.
    Isolate(usize, Micros),
    /// A member is cut off from the coordinator.
    Orphan(usize, Micros),
    /// A member is not told of configurations.
    Deafen(usize, Micros),
    /// The coordinator is down.
    Outage(Micros),
    /// A wall clock is put forward or back, in milliseconds.
    Jump(usize, i64),
    /// A member's disk is gone; another one is put in after some time.
    Lose(usize, Micros),
    /// A disk refuses the next sync.
    FailSync(usize),
    /// A disk is slow.
    Slow(usize, Micros),
    /// A serving member becomes the head.
    Promote(usize),
    /// A serving member goes behind the others.
    Back(usize),
    /// A serving member becomes syncing.
    Demote(usize),
    /// The other wiring.
    Rewire,
    /// The safe point is raised as far as it may be.
    Collect,
    /// A checksum says that a member's log or engine is damaged: what is there is worth nothing.
    Spoil(usize),
    /// A member's disk has no room for its log: it stops and says so, until there is room again.
    Full(usize, Micros),
    /// Messages of one kind from one member to another are lost.
    Mute(usize, usize, Kind, Micros),
    /// A copy of a member's disk is made.
    Copy(usize),
    /// A copy is put back that passes for the disk, and all that served last begin again, each
    /// within a session.
    PutTwinBack(usize, Micros),
    /// And puts it back in the disk's place; the process starts again after some time.
    PutBack(usize, Micros),
    /// The chain is permanently placed elsewhere than at this member, if it is at none but one.
    Leave(usize),
    /// It is to stay after all.
    Stay(usize),
}

/// One thing that a client does, and does again under the same name until it knows what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// How long the client thinks before.
    pub pause: Micros,
    /// Whom it asks.
    pub target: Target,
    /// How it asks.
    pub level: Level,
    /// What it asks.
    pub request: Request,
    /// Whether it shows its session's token.
    pub has_session: bool,
    /// How often it asks again.
    pub retries: u32,
    /// Whether it wants to know how its eventual write ends.
    pub asks_fate: bool,
    /// The client and its order that is asked again, under its name, if it was asked before.
    pub repeats: Option<(usize, usize)>,
    /// Whether that is only its name, and what is asked is something else.
    pub is_another: bool,
}

impl Order {
    /// At once, without a session, and once.
    pub fn new(target: Target, level: Level, request: Request) -> Self {
        Order {
            pause: 0,
            target,
            level,
            request,
            has_session: false,
            retries: 0,
            asks_fate: false,
            repeats: None,
            is_another: false,
        }
    }
}

/// Whom a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The head of the newest configuration.
    Head,
    /// This machine.
    Machine(usize),
}

/// The registers.
const KEYS: [&str; 3] = ["x", "y", "z"];
/// The groups of a register.
const GROUPS: [&str; 2] = ["a", "b"];

impl Plan {
    /// The plan of `seed`.
    pub fn new(seed: u64, choice: &Choice) -> Self {
        let mut random = Random::new(seed);
        let drawn = match random.chance(600) {
            true => Mode::Safety,
            false => Mode::Liveness,
        };
        let mode = choice.mode.unwrap_or(drawn);
        let drawn = *random.pick(&[3, 3, 3, 2, 3, 4, 5, 1]);
        let members = choice.members.unwrap_or(drawn);
        let drawn = *random.pick(&[Wiring::Star, Wiring::Chain]);
        let wiring = choice.wiring.unwrap_or(drawn);
        let drawn = random.chance(700);
        let mixed = choice.mixed.unwrap_or(drawn);
        let calm_at = random.between(1_500_000, 4_000_000);
        let network_faults = network_faults(&mut random);
        let sync_max = *random.pick(&[0, 500, 3_000, 20_000]);
        let mut plan = Plan {
            seed,
            mode,
            members,
            wiring,
            mixed,
            network_faults,
            sync_max,
            work_max: sync_max / 4,
            work_rest: 100,
            flush_max: *random.pick(&[0, 0, 300]),
            idle_ms: ReplicaSettings::default().idle_ms,
            faults: Vec::new(),
            stops: false,
            modes: false,
            wishes: Vec::new(),
            clients: Vec::new(),
            stride: 1,
            patience: 600_000,
            calm_at,
            calm_loss: 0,
            controllers: 0,
            control_max: 60_000,
            bit_rot: None,
        };
        plan.faults = faults(&plan, &mut random);
        let count = random.between(2, 5);
        plan.clients = (0..count)
            .map(|client| orders(&plan, client, &mut random))
            .collect();
        more_faults(&mut plan);
        bit_rot(&mut plan);
        if let Some(profile) = choice.profile.or_else(|| run_profile::drawn(seed, choice)) {
            run_profile::shape(&mut plan, profile);
        } else if mixed && choice.modes != Some(false) {
            plan.wishes = operator::wishes(seed, choice.modes.is_some(), calm_at);
        }
        surroundings(&mut plan);
        plan.modes = !plan.wishes.is_empty();
        if plan.modes {
            operator::collect(&mut plan.clients);
        }
        plan
    }
}

/// Kinds of faults that came later, from a stream of their own: what else happens under a seed does
/// not depend on them.
fn more_faults(plan: &mut Plan) {
    let random = &mut Random::new(plan.seed ^ 0x0dd5_0f7a_0175);
    if !random.chance(300) {
        return;
    }
    for _ in 0..random.between(1, 3) {
        let at = random.between(100_000, plan.calm_at);
        let machine = random.below(plan.members as usize);
        let long = random.skewed(50_000, 1_500_000);
        let fault = match random.chance(500) {
            true => Fault::Spoil(machine),
            false => Fault::Full(machine, long),
        };
        plan.faults.push((at, fault));
    }
    plan.faults.sort_by_key(|(at, _)| *at);
}

/// What came later still, in the same way: controllers that race, a network that never gets better,
/// copies of disks that are put back.
fn surroundings(plan: &mut Plan) {
    let random = &mut Random::new(plan.seed ^ 0x7261_6365_7273);
    if random.chance(200) {
        plan.controllers = random.between(2, 4) as usize;
    }
    if random.chance(400) {
        plan.calm_loss = *random.pick(&[2, 10, 30]);
    }
    if random.chance(100) {
        for _ in 0..random.between(1, 3) {
            let at = random.between(150_000, plan.calm_at);
            let machine = random.below(plan.members as usize);
            plan.faults.push((at, Fault::Copy(machine)));
            let back_at = at + random.skewed(30_000, 1_000_000);
            let down = random.skewed(1_000, 100_000);
            plan.faults
                .push((back_at.min(plan.calm_at), Fault::PutBack(machine, down)));
        }
        plan.faults.sort_by_key(|(at, _)| *at);
    }
}

fn bit_rot(plan: &mut Plan) {
    let random = &mut Random::new(plan.seed ^ 0x5171_1707);
    if plan.mode == Mode::Liveness && random.chance(500) {
        plan.bit_rot = Some(BitRot {
            machine: random.below(plan.members as usize),
            row: random.number(),
            how: *random.pick(&[RotHow::Flip, RotHow::Drop, RotHow::Double]),
            crash_after: random.chance(300).then(|| random.between(0, 600_000)),
        });
    }
}

fn network_faults(random: &mut Random) -> NetworkFaults {
    let is_rough = random.chance(600);
    let some = |rough: u32| if is_rough { rough } else { 0 };
    NetworkFaults {
        delay_min: *random.pick(&[100, 1_000]),
        delay_max: *random.pick(&[1_500, 5_000, 30_000]),
        loss: some(*random.pick(&[5, 20, 80])),
        twice: some(*random.pick(&[0, 20, 100])),
        stray: *random.pick(&[0, 5, 30]),
        stray_max: *random.pick(&[300_000, 1_500_000]),
    }
}

fn faults(plan: &Plan, random: &mut Random) -> Vec<(Micros, Fault)> {
    // A few kinds per run, so that each gets its chance to be the only one that matters.
    let kinds: Vec<usize> = (0..random.between(1, 6))
        .map(|_| random.below(KINDS))
        .collect();
    let count = random.skewed(0, 14);
    let mut faults: Vec<(Micros, Fault)> = (0..count)
        .map(|_| {
            let at = random.between(100_000, plan.calm_at);
            let kind = *random.pick(&kinds);
            (at, fault(kind, plan.members as usize, random))
        })
        .collect();
    faults.sort_by_key(|(at, _)| *at);
    faults
}

const KINDS: usize = 18;

fn fault(kind: usize, members: usize, random: &mut Random) -> Fault {
    let (one, other) = random.two_below(members);
    let short = random.skewed(5_000, 300_000);
    let long = random.skewed(50_000, 1_500_000);
    match kind {
        0 | 1 => Fault::Crash(one, long),
        2 => Fault::CrashAll(short),
        3 => Fault::Pause(one, long),
        4 => Fault::Cut(one, other, long),
        5 => Fault::Isolate(one, long),
        6 => Fault::Orphan(one, long),
        7 => Fault::Deafen(one, long),
        8 => Fault::Outage(long),
        9 => Fault::Jump(one, *random.pick(&[-5_000, -300, 300, 700, 60_000])),
        10 => Fault::Lose(one, short),
        11 => Fault::FailSync(one),
        12 => Fault::Slow(one, long),
        13 => Fault::Promote(one),
        14 => Fault::Back(one),
        15 => Fault::Demote(one),
        16 => Fault::Rewire,
        _ => Fault::Collect,
    }
}

fn orders(plan: &Plan, client: u64, random: &mut Random) -> Vec<Order> {
    let has_session = random.chance(500);
    let pace = *random.pick(&[2_000, 20_000, 100_000]);
    let count = random.between(5, 40);
    (0..count)
        .map(|number| {
            let machine = random.below(plan.members as usize);
            let label = format!("{client}.{number}");
            let mut order = order(plan, &label, random);
            order.has_session = has_session;
            order.pause = random.skewed(0, pace);
            if matches!(order.target, Target::Machine(_)) {
                order.target = Target::Machine(machine);
            }
            order
        })
        .collect()
}

fn order(plan: &Plan, label: &str, random: &mut Random) -> Order {
    let kinds = if plan.mixed { 1_000 } else { 550 };
    let kind = random.between(0, kinds - 1);
    let quorum = *random.pick(&[1, 1, 2, 2, 3]);
    let key = Bytes::from_static(random.pick(&KEYS).as_bytes());
    let eventual = Level::Eventual {
        quorum,
        sloppy: random.chance(150),
    };
    let (level, request) = match kind {
        0..200 => (Level::Strong, write(&[key], label, random)),
        200..350 => (Level::Strong, conditional(key, label, random)),
        350..500 => (Level::Strong, read(key, random)),
        500..550 => {
            let bound = match random.chance(500) {
                true => Bound::Versions(random.below(3)),
                false => Bound::Micros(random.between(0, 100) * 1_000),
            };
            (Level::Bounded(bound), read(key, random))
        }
        550..780 => (eventual, write(&keys(key, random), label, random)),
        780..930 => (eventual, single_read(key)),
        930..965 => (Level::Barrier, single_read(key)),
        _ => (Level::Barrier, conditional(key, label, random)),
    };
    let goes_to_head = matches!(level, Level::Strong | Level::Barrier)
        && (!request.is_read() || level == Level::Barrier);
    let target = match goes_to_head && random.chance(950) {
        true => Target::Head,
        false => Target::Machine(0),
    };
    Order {
        retries: *random.pick(&[0, 2, 6]),
        asks_fate: random.chance(300),
        ..Order::new(target, level, request)
    }
}

fn read(key: Bytes, random: &mut Random) -> Request {
    let mut reads = vec![key];
    if random.chance(200) {
        reads = KEYS
            .iter()
            .map(|key| Bytes::from_static(key.as_bytes()))
            .collect();
    }
    Request {
        reads,
        ..Request::default()
    }
}

pub(super) fn single_read(key: Bytes) -> Request {
    Request {
        reads: vec![key],
        ..Request::default()
    }
}

pub(super) fn write(keys: &[Bytes], label: &str, random: &mut Random) -> Request {
    let writes = keys.iter().map(|key| Write {
        key: key.clone(),
        ops: element_ops(label, random),
    });
    Request {
        writes: writes.collect(),
        ..Request::default()
    }
}

/// One register, or two.
fn keys(key: Bytes, random: &mut Random) -> Vec<Bytes> {
    let other = Bytes::from_static(random.pick(&KEYS).as_bytes());
    match random.chance(300) && other != key {
        true => vec![key, other],
        false => vec![key],
    }
}

pub(super) fn conditional(key: Bytes, label: &str, random: &mut Random) -> Request {
    let condition = match random.below(4) {
        0 => Condition::Exists,
        1 => Condition::Absent,
        2 => Condition::Has {
            group: Bytes::from_static(random.pick(&GROUPS).as_bytes()),
            value: few(random),
        },
        // Replaced by the version that the client saw last.
        _ => Condition::Version(EntryId::ZERO),
    };
    let mut request = write(&keys(key.clone(), random), label, random);
    request.conditions = vec![(key.clone(), condition)];
    if random.chance(400) {
        request.reads = vec![key];
    }
    if random.chance(100) {
        request.writes.clear();
    }
    request
}

/// A value that others write too.
pub(super) fn few(random: &mut Random) -> Bytes {
    Bytes::from_static(random.pick(&["p", "q", "r"]).as_bytes())
}

pub(super) fn element_ops(label: &str, random: &mut Random) -> Vec<ElementOp> {
    let group = Bytes::from_static(random.pick(&GROUPS).as_bytes());
    let value = match random.chance(600) {
        true => few(random),
        false => Bytes::from(label.to_owned()),
    };
    let add = ElementOp::Add {
        group: group.clone(),
        value: value.clone(),
    };
    match random.below(10) {
        0 => vec![ElementOp::ClearAll],
        1 => vec![ElementOp::ClearAll, add],
        2 | 3 => vec![ElementOp::Clear { group }, add],
        4 => vec![ElementOp::Clear { group }],
        5 | 6 => vec![ElementOp::Remove {
            group,
            value: few(random),
        }],
        _ => vec![add],
    }
}
