//! The clients of a profile: the requests that they send, and their pace.

use bytes::Bytes;
use fader_chain::ElementOp;

use super::RunProfile;
use crate::history::{Level, Request, Write};
use crate::world::plan::{
    Micros, Order, Plan, Target, conditional, element_ops, few, single_read, write,
};
use crate::world::random::Random;

/// Some write at one member each, some at the head, some read.
pub(super) fn clients(plan: &Plan, profile: RunProfile, random: &mut Random) -> Vec<Vec<Order>> {
    let members = plan.members as usize;
    let mut clients = Vec::new();
    if profile == RunProfile::Stops {
        return strong_clients(plan, random);
    }
    for machine in 0..members {
        let pace = random.between(3_000, 40_000);
        clients.push(work(plan, random, pace, |label, random| {
            eventual_write(profile, machine, members, label, random)
        }));
    }
    let pace = match profile {
        RunProfile::Fills | RunProfile::Heads => random.between(2_000, 20_000),
        _ => random.between(10_000, 100_000),
    };
    clients.push(work(plan, random, pace, |label, random| {
        strong_write(label, random)
    }));
    if profile == RunProfile::Moves {
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
    if matches!(profile, RunProfile::Names | RunProfile::Heads) {
        repeat(&mut clients, random);
    }
    if profile == RunProfile::Borrowings {
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

/// Every so often a client asks again for what was asked before, by any client.
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

/// Every so often a client uses the name of what was asked before for something else, mostly where
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
    profile: RunProfile,
    machine: usize,
    members: usize,
    label: &str,
    random: &mut Random,
) -> Order {
    let key = key(random);
    let quorum = match profile {
        RunProfile::Quorums => *random.pick(&[1, 2, 2, 3]),
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
    let target = match profile == RunProfile::Quorums && random.chance(500) {
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
