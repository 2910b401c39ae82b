//! Themes: runs that are about one part of the protocol. Who draws everything at once seldom draws
//! what a rare case needs together.
//!
//! A theme has its own stream of numbers, and puts its own clients and faults in the place of a
//! plan's; network, disks and the kind of run stay as they were drawn.

use bytes::Bytes;
use fader_chain::ElementOp;

use super::leavings;
use super::moves;
use super::network::Kind;
use super::operator;
use super::plan::{
    Choice, Fault, Micros, Mode, Order, Plan, Target, conditional, element_ops, few, single_read,
    write,
};
use super::random::Random;
use super::stops;
use crate::history::{Level, Request, Write};

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Members go with operations that they alone hold, and return when marks are collected.
    Returns,
    /// Quorums while members come and go.
    Quorums,
    /// A collection closes and opens while members hold operations.
    Closings,
    /// Clocks that are put back while processes die.
    Clocks,
    /// Requests that are asked again, late.
    Names,
    /// Members are filled, slowly.
    Fills,
    /// Heads that change.
    Heads,
    /// The floor rises as often as it can, while engines lag and members are filled.
    Floors,
    /// Copies of disks are put back, and all go down.
    Copies,
    /// Members leave for good while they hold operations. Not drawn: what seeds draw stays.
    Leavings,
    /// The head's role moves between live members, some of which do not hear of it. Not drawn.
    Moves,
    /// Names that are used for other requests too. Not drawn.
    Borrowings,
    /// Members that are to leave, and to stay after all when they have left. Not drawn.
    Retractions,
    /// Controllers that are slow, and race, while members come and go. Not drawn.
    Races,
    /// Clients that are idle, of which nothing is kept. Not drawn.
    Idlers,
    /// Machines that stand still with their clocks. Not drawn.
    Stops,
}

impl Theme {
    /// All of them.
    pub const ALL: [Theme; 16] = [
        Theme::Returns,
        Theme::Quorums,
        Theme::Closings,
        Theme::Clocks,
        Theme::Names,
        Theme::Fills,
        Theme::Heads,
        Theme::Floors,
        Theme::Copies,
        Theme::Leavings,
        Theme::Moves,
        Theme::Borrowings,
        Theme::Retractions,
        Theme::Races,
        Theme::Idlers,
        Theme::Stops,
    ];
    /// Those that seeds draw; later ones are asked for by name, so that seeds stay what they are.
    const DRAWN: usize = 7;

    /// Its name, and what runs are about, for people.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Theme::Returns => (
                "returns",
                "Members return with what they alone held, after marks were collected",
            ),
            Theme::Quorums => ("quorums", "Quorums while members come and go"),
            Theme::Closings => ("closings", "A collection closes and opens"),
            Theme::Clocks => ("clocks", "Clocks are put back while processes die"),
            Theme::Names => ("names", "Requests are asked again, late"),
            Theme::Fills => ("fills", "Members are filled, slowly"),
            Theme::Heads => ("heads", "Heads change"),
            Theme::Floors => ("floors", "The floor rises as often as it can"),
            Theme::Copies => ("copies", "Copies of disks are put back"),
            Theme::Leavings => ("leavings", "Members leave for good"),
            Theme::Moves => ("moves", "The head moves, and does not hear of it"),
            Theme::Borrowings => ("borrowings", "Names are used for other requests too"),
            Theme::Retractions => ("retractions", "Who has left for good is to stay after all"),
            Theme::Idlers => ("idlers", "Clients are idle, and forgotten"),
            Theme::Stops => ("stops", "Machines stand still with their clocks"),
            Theme::Races => ("races", "Slow controllers race while members come and go"),
        }
    }
}

/// The theme of a seed, if it has one.
pub(super) fn drawn(seed: u64, choice: &Choice) -> Option<Theme> {
    let mut random = Random::new(seed ^ 0x7468_656d_6573);
    let is_free = choice.mixed.is_none() && choice.modes.is_none();
    let theme = *random.pick(&Theme::ALL[..Theme::DRAWN]);
    (is_free && random.chance(300)).then_some(theme)
}

/// Makes `plan` one about `theme`.
pub(super) fn shape(plan: &mut Plan, theme: Theme) {
    let mut random = Random::new(plan.seed ^ 0x7468_656d_6521);
    let random = &mut random;
    plan.calm_at = random.between(2_000_000, 4_000_000);
    if random.chance(400) {
        plan.work_max = *random.pick(&[20_000, 100_000, 400_000]);
        plan.work_rest = *random.pick(&[100, 20_000, 60_000]);
    }
    if theme == Theme::Names {
        plan.stride = *random.pick(&[1, 200, 300, 600]);
    }
    // What is stamped under a lease that should be none is not told apart: strong operations only.
    (plan.stops, plan.mixed) = (theme == Theme::Stops, theme != Theme::Stops);
    if theme == Theme::Races {
        plan.controllers = random.between(3, 5) as usize;
        plan.control_max = *random.pick(&[100_000, 300_000, 600_000]);
    }
    plan.clients = clients(plan, theme, random);
    if theme == Theme::Idlers {
        // Nobody asks again, not even at rest: what is settled twice was settled twice by members.
        plan.mode = Mode::Safety;
        // Longer than anybody waits for an answer.
        plan.idle_ms = *random.pick(&[800, 1_000]);
        plan.calm_at = 5_000_000;
        let orders = plan.clients.iter_mut().flatten();
        orders.for_each(|order| order.retries = 0);
    }
    plan.faults = match theme {
        Theme::Returns | Theme::Closings => returns(plan, theme, random),
        Theme::Floors => floors(plan, random),
        Theme::Idlers if random.chance(600) => floors(plan, random),
        Theme::Idlers => returns(plan, theme, random),
        Theme::Copies => copies(plan, random),
        Theme::Leavings => {
            let mut faults = shower(plan, theme, random);
            leavings::add(&mut faults, plan, random);
            faults
        }
        Theme::Moves => moves::faults(plan, random),
        Theme::Stops => stops::faults(plan, random),
        Theme::Retractions => leavings::taken_back(plan, random),
        _ => shower(plan, theme, random),
    };
    plan.faults.sort_by_key(|(at, _)| *at);
    if theme == Theme::Closings {
        plan.wishes = operator::wishes(plan.seed, true, plan.calm_at);
        if random.chance(700) {
            for index in 1..plan.wishes.len() {
                let (before, _) = plan.wishes[index - 1];
                plan.wishes[index].0 = before + random.skewed(20_000, 300_000);
            }
        }
    }
}

/// Some write at one member each, some at the head, some read.
fn clients(plan: &Plan, theme: Theme, random: &mut Random) -> Vec<Vec<Order>> {
    let members = plan.members as usize;
    let mut clients = Vec::new();
    if theme == Theme::Stops {
        return strong_clients(plan, random);
    }
    for machine in 0..members {
        let pace = random.between(3_000, 40_000);
        clients.push(work(plan, random, pace, |label, random| {
            eventual_write(theme, machine, members, label, random)
        }));
    }
    let pace = match theme {
        Theme::Fills | Theme::Heads => random.between(2_000, 20_000),
        _ => random.between(10_000, 100_000),
    };
    clients.push(work(plan, random, pace, |label, random| {
        strong_write(label, random)
    }));
    if theme == Theme::Moves {
        // Who asks the head of the newest configuration never meets one that has not heard of it.
        for machine in 0..members {
            let pace = random.between(2_000, 20_000);
            clients.push(work(plan, random, pace, |label, random| Order {
                target: Target::Machine(machine),
                retries: 0,
                ..strong_write(label, random)
            }));
        }
        for orders in &mut clients {
            let has_session = random.chance(500);
            for order in orders {
                order.has_session = has_session;
            }
        }
    }
    let pace = random.between(3_000, 40_000);
    clients.push(work(plan, random, pace, |_, random| read(members, random)));
    if matches!(theme, Theme::Names | Theme::Heads) {
        repeat(&mut clients, random);
    }
    if theme == Theme::Borrowings {
        borrow(&mut clients, random);
    }
    clients
}

/// Some write at the head, and at each member some read.
fn strong_clients(plan: &Plan, random: &mut Random) -> Vec<Vec<Order>> {
    let pace = random.between(5_000, 30_000);
    let writers = work(plan, random, pace, strong_write);
    let mut clients = vec![writers];
    for machine in 0..plan.members as usize {
        let pace = random.between(5_000, 30_000);
        clients.push(work(plan, random, pace, |_, random| {
            let read = single_read(key(random));
            Order::new(Target::Machine(machine), Level::Strong, read)
        }));
    }
    clients
}

/// Orders up to the time when it is calm, more or less.
fn work(
    plan: &Plan,
    random: &mut Random,
    pace: Micros,
    order: impl Fn(&str, &mut Random) -> Order,
) -> Vec<Order> {
    let count = (plan.calm_at / pace).clamp(10, 120);
    let client = random.number() % 1_000;
    let orders = (0..count).map(|number| {
        let mut order = order(&format!("{client}.{number}"), random);
        order.pause = random.skewed(0, 2 * pace);
        order
    });
    orders.collect()
}

/// Every so often somebody asks again for what was asked before, by anybody.
fn repeat(clients: &mut [Vec<Order>], random: &mut Random) {
    for client in 0..clients.len() {
        for number in 1..clients[client].len() {
            let of = random.below(clients.len());
            let earlier = random.below(number);
            let is_write = |order: &Order| !order.request.is_read() && order.repeats.is_none();
            let Some(order) = clients[of].get(earlier).filter(|order| is_write(order)) else {
                continue;
            };
            if random.chance(250) {
                let pause = clients[client][number].pause;
                clients[client][number] = Order {
                    pause,
                    repeats: Some((of, earlier)),
                    ..order.clone()
                };
            }
        }
    }
}

/// Every so often somebody uses the name of what was asked before for something else, mostly where
/// that was asked.
fn borrow(clients: &mut [Vec<Order>], random: &mut Random) {
    for client in 0..clients.len() {
        for number in 1..clients[client].len() {
            let of = random.below(clients.len());
            let earlier = random.below(number);
            let is_eventual = |order: &&Order| {
                let is_write = !order.request.is_read() && !order.is_another;
                is_write && matches!(order.level, Level::Eventual { .. })
            };
            let here = &clients[client][number];
            let lender = clients[of].get(earlier).filter(is_eventual);
            if let Some(lender) = lender
                && is_eventual(&here)
                && random.chance(400)
            {
                let target = match random.chance(800) {
                    true => lender.target,
                    false => here.target,
                };
                clients[client][number] = Order {
                    target,
                    repeats: Some((of, earlier)),
                    is_another: true,
                    retries: 0,
                    ..here.clone()
                };
            }
        }
    }
}

fn key(random: &mut Random) -> Bytes {
    let name = match random.chance(700) {
        true => "x",
        false => random.pick(&["y", "z"]),
    };
    Bytes::from_static(name.as_bytes())
}

fn eventual_write(
    theme: Theme,
    machine: usize,
    members: usize,
    label: &str,
    random: &mut Random,
) -> Order {
    let key = key(random);
    let quorum = match theme {
        Theme::Quorums => *random.pick(&[1, 2, 2, 3]),
        _ => *random.pick(&[1, 1, 1, 1, 2]),
    };
    let request = match random.chance(300) {
        true => write(&[key], label, random),
        // Of few values, so that what one writes another removes.
        false => {
            let group = Bytes::from_static(b"a");
            let value = few(random);
            let op = match random.chance(600) {
                true => ElementOp::Add { group, value },
                false => ElementOp::Remove { group, value },
            };
            let ops = vec![op];
            Request {
                writes: vec![Write { key, ops }],
                ..Request::default()
            }
        }
    };
    let level = Level::Eventual {
        quorum,
        sloppy: false,
    };
    let other = random.below(members);
    let target = match theme == Theme::Quorums && random.chance(500) {
        true => Target::Machine(other),
        false => Target::Machine(machine),
    };
    Order {
        retries: *random.pick(&[0, 0, 2]),
        ..Order::new(target, level, request)
    }
}

fn strong_write(label: &str, random: &mut Random) -> Order {
    let key = key(random);
    let request = match random.below(10) {
        0..2 => conditional(key, label, random),
        2..4 => {
            let ops = element_ops(label, random);
            Request {
                writes: vec![Write { key, ops }],
                ..Request::default()
            }
        }
        _ => {
            let (group, value) = (Bytes::from_static(b"a"), few(random));
            let ops = vec![match random.chance(500) {
                true => ElementOp::Add { group, value },
                false => ElementOp::Remove { group, value },
            }];
            Request {
                writes: vec![Write { key, ops }],
                ..Request::default()
            }
        }
    };
    let level = match random.chance(50) {
        true if request.writes.len() < 2 => Level::Barrier,
        _ => Level::Strong,
    };
    Order {
        retries: *random.pick(&[0, 3, 6]),
        ..Order::new(Target::Head, level, request)
    }
}

fn read(members: usize, random: &mut Random) -> Order {
    let target = Target::Machine(random.below(members));
    let request = single_read(key(random));
    let level = match random.chance(400) {
        true => Level::Strong,
        false => Level::Eventual {
            quorum: *random.pick(&[1, 1, 2, 3]),
            sloppy: false,
        },
    };
    Order::new(target, level, request)
}

/// Again and again a member is heard of less and less, dies, and returns when the floor has risen.
fn returns(plan: &Plan, theme: Theme, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(150_000, 600_000);
    while at + 200_000 < plan.calm_at {
        let machine = random.below(members);
        let long = random.skewed(50_000, 600_000);
        match random.chance(500) {
            true => faults.push((at, Fault::Isolate(machine, long))),
            false => {
                for other in (0..members).filter(|other| *other != machine) {
                    for kind in [Kind::Offers, Kind::Promotions, Kind::Overlays] {
                        faults.push((at, Fault::Mute(machine, other, kind, long)));
                    }
                }
            }
        }
        let down = random.between(250_000, 1_200_000);
        let crash_at = at + random.skewed(5_000, 200_000);
        if random.chance(800) {
            faults.push((crash_at, Fault::Crash(machine, down)));
        }
        for _ in 0..3 {
            let collect_at = at + random.between(0, 1_500_000);
            faults.push((collect_at.min(plan.calm_at), Fault::Collect));
        }
        for _ in 0..random.below(3) {
            let then = at + random.between(0, 800_000);
            faults.push((then.min(plan.calm_at), any(theme, members, random)));
        }
        at += random.between(300_000, 1_300_000);
    }
    faults
}

/// The floor rises all the time. Somebody holds operations of which the head does not hear for a
/// while; in some runs members die and are filled.
fn floors(plan: &mut Plan, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    plan.work_max = *random.pick(&[200_000, 400_000, 800_000]);
    plan.work_rest = *random.pick(&[100, 20_000, 100_000]);
    let has_deaths = random.chance(600);
    let pace = random.between(10_000, 60_000);
    let mut faults = Vec::new();
    for at in (100_000..plan.calm_at).step_by(usize::try_from(pace).unwrap_or(usize::MAX)) {
        faults.push((at, Fault::Collect));
    }
    let mut at = random.between(100_000, 300_000);
    while at < plan.calm_at {
        let machine = random.below(members);
        let long = random.between(50_000, 400_000);
        for other in (0..members).filter(|other| *other != machine) {
            let muted: &[Kind] = match random.chance(500) {
                true => &[Kind::Offers, Kind::Promotions],
                false => &[Kind::Promotions],
            };
            for kind in muted {
                faults.push((at, Fault::Mute(machine, other, *kind, long)));
            }
        }
        if has_deaths && random.chance(400) {
            let down = random.between(50_000, 700_000);
            let dies = match random.chance(600) {
                true => random.below(members),
                false => machine,
            };
            let then = at + random.skewed(0, 200_000);
            faults.push((then.min(plan.calm_at), Fault::Crash(dies, down)));
        }
        at += random.between(50_000, 500_000);
    }
    faults
}

/// Again and again a disk is copied, work goes on, and all go down: one with its copy is the first
/// that is back. Some copies pass for the disk.
fn copies(plan: &Plan, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(150_000, 500_000);
    while at < plan.calm_at {
        let machine = random.below(members);
        faults.push((at, Fault::Copy(machine)));
        let back_at = at + random.between(40_000, 500_000);
        if plan.calm_at < back_at {
            break;
        }
        let down = random.between(1_000, 20_000);
        faults.push((
            back_at,
            match random.chance(500) {
                true => Fault::PutBack(machine, down),
                false => Fault::PutTwinBack(machine, down),
            },
        ));
        if random.chance(700) {
            faults.push((back_at, Fault::CrashAll(random.between(50_000, 900_000))));
        }
        at = back_at + random.between(300_000, 1_500_000);
    }
    faults
}

/// Faults of the theme, one soon after the other.
fn shower(plan: &Plan, theme: Theme, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(150_000, 400_000);
    let pace = random.between(30_000, 300_000);
    while at < plan.calm_at {
        let fault = any(theme, members, random);
        if let (Theme::Clocks, Fault::Crash(machine, _)) = (theme, fault) {
            let by = *random.pick(&[-5_000, -300, -100, 200]);
            faults.push((at + random.between(0, 5_000), Fault::Jump(machine, by)));
        }
        faults.push((at, fault));
        at += random.skewed(5_000, 2 * pace);
    }
    faults
}

fn any(theme: Theme, members: usize, random: &mut Random) -> Fault {
    let (one, other) = random.two_below(members);
    let short = random.skewed(20_000, 300_000);
    let long = random.between(300_000, 1_200_000);
    let kind = *random.pick(&Kind::ALL);
    let down = match theme {
        Theme::Fills | Theme::Returns => long,
        _ => short,
    };
    match random.below(12) {
        0..3 => Fault::Crash(one, down),
        3 => Fault::Promote(one),
        4 => Fault::Back(one),
        5 => Fault::Demote(one),
        6..9 => Fault::Mute(one, other, kind, short),
        9 => Fault::Cut(one, other, short),
        10 => match theme {
            Theme::Names | Theme::Returns => Fault::Collect,
            Theme::Quorums => Fault::Deafen(one, long),
            Theme::Fills => Fault::Spoil(one),
            _ => Fault::Pause(one, short),
        },
        _ => match theme {
            Theme::Names => Fault::Collect,
            Theme::Quorums => Fault::Orphan(one, short),
            Theme::Clocks => Fault::Crash(one, short),
            _ => Fault::Isolate(one, short),
        },
    }
}
