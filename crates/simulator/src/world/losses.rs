//! One member is lost while clients ask all the time, and no kind of operation pauses for long.
//!
//! Times of this world are a quarter of those of processes, as `retry_ms` is. There strong
//! operations return within S + 1 s, and eventual ones pause for 0.5 s at most. A client that hears
//! nothing for 0.25 s asks the next member.

use bytes::Bytes;
use fader_chain::{ElementOp, Guards, Wiring};

use super::plan::{Choice, Fault, Micros, Mode, Order, Plan, Target};
use super::random::Random;
use super::run::{Failure, Run, run};
use super::{NetworkFaults, SESSION};
use crate::history::{History, Level, Request, Write};

const PATIENCE: Micros = 250_000 / 4;
const STRONG_MAX: Micros = SESSION + 1_000_000 / 4;
const EVENTUAL_MAX: Micros = 500_000 / 4;
/// When the chain is whole and has answered all kinds, and the member is lost.
const LOST_AT: Micros = 300_000;
/// For how long it is away.
const AWAY: Micros = 4 * SESSION;
/// How long a client rests. A member takes few eventual writes that no head has settled (BP-2).
const PAUSE: Micros = 12_000;

const EVENTUAL: Level = Level::Eventual {
    quorum: 1,
    sloppy: false,
};
const OF_TWO: Level = Level::Eventual {
    quorum: 2,
    sloppy: false,
};

/// What one client repeats.
#[derive(Clone, Copy)]
struct Repeated {
    level: Level,
    is_read: bool,
    name: &'static str,
}

impl Repeated {
    const fn new(level: Level, is_read: bool, name: &'static str) -> Self {
        Repeated {
            level,
            is_read,
            name,
        }
    }
}

const KINDS: [Repeated; 5] = [
    Repeated::new(Level::Strong, true, "strong reads"),
    Repeated::new(Level::Strong, false, "strong writes"),
    Repeated::new(EVENTUAL, true, "eventual reads"),
    Repeated::new(OF_TWO, true, "eventual reads of two"),
    Repeated::new(EVENTUAL, false, "eventual writes"),
];

/// The run of `seed`, in which one member is lost; its silences are judged with all else.
pub fn losses(seed: u64, guards: &Guards, is_traced: bool) -> Run {
    let plan = plan(seed);
    let mut found = run(&plan, guards, is_traced);
    if found.failure.is_some() {
        return found;
    }
    match judge(&found.history, plan.calm_at) {
        Ok(count) => found.claims.push(("silences", count)),
        Err(text) => found.failure = Some(Failure::new("silence", text)),
    }
    found
}

fn plan(seed: u64) -> Plan {
    let random = &mut Random::new(seed ^ 0x6c6f_7373_6573);
    let members = *random.pick(&[3, 3, 5]);
    let choice = Choice {
        mode: Some(Mode::Safety),
        members: Some(members),
        wiring: Some(*random.pick(&[Wiring::Star, Wiring::Chain])),
        mixed: Some(true),
        modes: Some(false),
        profile: None,
    };
    let machine = random.below(members as usize);
    let at = LOST_AT + random.between(0, 60_000);
    let faults = match random.below(4) {
        0 => vec![Fault::Crash(machine, AWAY)],
        1 => vec![Fault::Pause(machine, AWAY)],
        2 => vec![Fault::Stop(machine, AWAY)],
        _ => vec![Fault::Isolate(machine, AWAY), Fault::Orphan(machine, AWAY)],
    };
    Plan {
        network_faults: NetworkFaults {
            delay_min: 100,
            delay_max: *random.pick(&[500, 1_500]),
            loss: 0,
            twice: 0,
            stray: 0,
            stray_max: 0,
        },
        sync_max: *random.pick(&[500, 3_000]),
        work_max: 500,
        stops: faults.contains(&Fault::Stop(machine, AWAY)),
        faults: faults.into_iter().map(|fault| (at, fault)).collect(),
        clients: KINDS.map(|kind| orders(kind, members as usize)).into(),
        patience: PATIENCE,
        calm_at: at + AWAY,
        calm_loss: 0,
        controllers: 0,
        ..Plan::new(seed, &choice)
    }
}

/// Orders for the same thing, each to the next member.
fn orders(kind: Repeated, members: usize) -> Vec<Order> {
    let key = Bytes::from_static(b"x");
    let add = |value: String| ElementOp::Add {
        group: Bytes::from_static(kind.name.as_bytes()),
        value: value.into(),
    };
    let count = usize::try_from((LOST_AT + AWAY) / PAUSE).unwrap_or(usize::MAX);
    let order = |number: usize| {
        let request = match kind.is_read {
            true => Request {
                reads: vec![key.clone()],
                ..Request::default()
            },
            false => Request {
                writes: vec![Write {
                    key: key.clone(),
                    ops: vec![add((number % 2).to_string())],
                }],
                ..Request::default()
            },
        };
        Order {
            pause: PAUSE,
            ..Order::new(Target::Machine(number % members), kind.level, request)
        }
    };
    (0..count).map(order).collect()
}

/// The number of silences, each of which was short enough.
fn judge(history: &History, end: Micros) -> Result<usize, String> {
    let mut count = 0;
    for (client, kind) in KINDS.into_iter().enumerate() {
        let most = match kind.level {
            Level::Strong => STRONG_MAX,
            _ => EVENTUAL_MAX,
        };
        let calls = history.calls.iter();
        let its = calls.filter(|call| call.client as usize == client);
        let answered = its.filter_map(|call| Some(call.done()?.0.micros()));
        let mut last = LOST_AT;
        for at in answered.chain([end]) {
            let silence = at.saturating_sub(last);
            if most < silence {
                return Err(format!(
                    "{}: none was answered for {silence} us from {last}",
                    kind.name
                ));
            }
            (last, count) = (last.max(at), count + 1);
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_operation_pauses_for_long_when_a_member_is_lost() {
        for seed in 1..40 {
            let found = losses(seed, &Guards::default(), false);
            assert_eq!(found.failure, None, "{seed}: {:?}", plan(seed).faults);
        }
    }

    #[test]
    fn a_silence_is_told() {
        let plan = Plan {
            clients: vec![Vec::new(); KINDS.len()],
            ..plan(1)
        };
        let found = run(&plan, &Guards::default(), false);
        let told = judge(&found.history, plan.calm_at).unwrap_err();
        assert!(
            told.starts_with("strong reads: none was answered"),
            "{told}"
        );
    }
}
