//! Puts and gets of registers on a chain of mode `strong`. Each put has a value of its own, so that
//! every judge of linearizability can judge the runs.
//!
//! | judge | what it looks at |
//! |---|---|
//! | `linear` | the committed log, and where each answer stands in it |
//! | `search` | clients' answers; any model, here the simulator's |
//! | `search` of `history` | the same answers as a log of [`fader_history::object`] |
//! | `registers` of `history` | the same, by zones |
//!
//! A run without a change must be right for all of them. Then answers and times are changed:
//! - A read shows a value that was surely overwritten, or that none wrote: all must tell.
//! - A read shows another read's answer, or an operation has another one's times. The three that
//!   know answers alone must agree. All that they refuse, `linear` refuses. It may refuse more: it
//!   has one order of the writes, the log's, and they have any.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{ElementOp, Guards, RequestId};
use fader_history::check::{Fault, every_level, registers, search};
use fader_history::object::{self, Text, Value, Verb};
use fader_history::{Log, Rules};

use crate::check::{self, Evidence};
use crate::history::{Call, History, Level, Moment, Outcome, Reply, Request, Write};
use crate::membership::Run;
use crate::service::{Service, pairs_of};
use crate::world::{self, Choice, Failure, Mode, Order, Plan, Random};

/// States for each register that a search may look at.
const EFFORT: usize = 1_000_000;
/// The group that holds a register's value.
const GROUP: &[u8] = b"v";
/// Changes of each kind that a run's history is judged with.
const CHANGES: usize = 8;
/// What nothing limits.
const SERVICE: Service = Service {
    pairs_max: usize::MAX,
};

/// A change of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A read shows what another write had replaced before.
    Stale,
    /// A read shows what no write put.
    Unwritten,
    /// A read shows what another read of the register shows.
    Answer,
    /// An operation has the times of another one.
    Times,
}

/// Judges one seed's run, and its history with changes.
pub fn run(seed: u64, is_traced: bool) -> Run {
    run_with(seed, is_traced, &Rules::default())
}

/// The same by checks of `history` that have these rules.
fn run_with(seed: u64, is_traced: bool, rules: &Rules) -> Run {
    let plan = plan(seed);
    let found = world::run(&plan, &Guards::default(), is_traced);
    let mut claims: BTreeMap<&'static str, usize> = found.claims.iter().copied().collect();
    claims.retain(|claim, _| *claim == "linear");
    claims.insert("calls", found.history.calls.len());
    let judged = match found.failure {
        Some(failure) => Err(failure),
        None => judge(seed, &found.history, rules, &mut claims),
    };
    Run {
        failure: judged.err(),
        claims,
        trace: found.trace,
        events: found.events,
    }
}

/// The seed's plan; each order puts one value that no other puts, or gets one register.
fn plan(seed: u64) -> Plan {
    let choice = Choice {
        mode: Some(Mode::Safety),
        members: None,
        wiring: None,
        mixed: Some(false),
        modes: Some(false),
        profile: None,
    };
    let mut plan = Plan::new(seed, &choice);
    for (client, orders) in plan.clients.iter_mut().enumerate() {
        for (number, order) in orders.iter_mut().enumerate() {
            simplify(order, format!("{client}.{number}").into());
        }
    }
    plan
}

fn simplify(order: &mut Order, value: Bytes) {
    let key = order.request.keys()[0].clone();
    order.level = Level::Strong;
    order.request = if order.request.writes.is_empty() {
        Request {
            reads: vec![key],
            ..Request::default()
        }
    } else {
        let group = Bytes::from_static(GROUP);
        let ops = vec![ElementOp::ClearAll, ElementOp::Add { group, value }];
        Request {
            writes: vec![Write { key, ops }],
            ..Request::default()
        }
    };
}

/// The history as it is, then with changes.
fn judge(
    seed: u64,
    history: &History,
    rules: &Rules,
    claims: &mut BTreeMap<&'static str, usize>,
) -> Result<(), Failure> {
    let right = verdicts(history, rules).map_err(|text| Failure::new("judges", text))?;
    if right != Verdicts::ALL_RIGHT {
        return Err(Failure::new("judges", format!("unchanged: {right:?}")));
    }
    let random = &mut Random::new(seed ^ 0x7265_6769_7374);
    for kind in [Kind::Stale, Kind::Unwritten, Kind::Answer, Kind::Times] {
        for _ in 0..CHANGES {
            let Some(changed) = change(kind, history, random) else {
                continue;
            };
            let failure = |text| Failure::new("judges", format!("{kind:?}: {text}"));
            let found = verdicts(&changed, rules).map_err(failure)?;
            let Some(claim) = found.agreement(kind) else {
                return Err(failure(format!("{found:?}")));
            };
            *claims.entry(claim).or_default() += 1;
        }
    }
    Ok(())
}

/// Whether each judge found a history right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdicts {
    linear: bool,
    search: bool,
    search_of_history: bool,
    registers: bool,
}

impl Verdicts {
    const ALL_RIGHT: Verdicts = Verdicts {
        linear: true,
        search: true,
        search_of_history: true,
        registers: true,
    };

    /// What the judges agree on, after a change of this kind; none if they must not differ so.
    fn agreement(self, kind: Kind) -> Option<&'static str> {
        let answers = [self.search, self.search_of_history, self.registers];
        let is_sure = matches!(kind, Kind::Stale | Kind::Unwritten);
        match (self.linear, answers) {
            (false, [false, false, false]) => Some("all refuse"),
            (true, [true, true, true]) if !is_sure => Some("all accept"),
            (false, [true, true, true]) if !is_sure => Some("log refuses"),
            _ => None,
        }
    }
}

fn verdicts(history: &History, rules: &Rules) -> Result<Verdicts, String> {
    let evidence = Evidence::new(history).map_err(|violation| violation.to_string())?;
    let log = log_of(history);
    let of_simulator = check::search(history, SERVICE, EFFORT);
    let of_history = search(&log, &every_level, EFFORT, rules);
    let given_up = [
        of_simulator.as_ref().map_or(0, |found| found.given_up),
        of_history.as_ref().map_or(0, |found| found.given_up),
    ];
    if given_up != [0, 0] {
        return Err(format!("no verdict on {given_up:?} operations"));
    }
    let by_zones = match registers(&log, &every_level, rules) {
        Err(Fault::Unfit(unfit)) => return Err(unfit.to_string()),
        judged => judged.is_ok(),
    };
    Ok(Verdicts {
        linear: check::linear(&evidence).is_ok(),
        search: of_simulator.is_ok(),
        search_of_history: of_history.is_ok(),
        registers: by_zones,
    })
}

/// Clients' calls, as every tool writes them.
fn log_of(history: &History) -> Log<object::Request> {
    let mut attempts: BTreeMap<RequestId, u32> = BTreeMap::new();
    let mut log = Log::default();
    for call in &history.calls {
        let attempt = call.name.map_or(1, |name| {
            let attempt = attempts.entry(name).or_default();
            *attempt += 1;
            *attempt
        });
        let name = call
            .name
            .map(|name| format!("{}.{}", name.client.id, name.seq));
        log.operations.push(object::Operation {
            process: call.client,
            session: None,
            endpoint: call.node.to_string().into(),
            name: name.map(Text::from),
            attempt,
            level: "strong".into(),
            intended: call.invoked,
            called: call.invoked,
            action: object::Request {
                key: text(call.request.keys()[0]),
                verb: match written(call) {
                    Some(value) => Verb::Write(Value::Text(text(value))),
                    None => Verb::Read,
                },
            },
            end: call.end.as_ref().map(|(at, end)| (*at, outcome(end))),
            price: None,
        });
    }
    log
}

fn outcome(end: &Outcome) -> object::Outcome {
    match end {
        Outcome::Done(Reply::Shown { registers, .. }) => {
            let pairs = pairs_of(&registers[0].register);
            let value = pairs.first().map(|(_, value)| Value::Text(text(value)));
            object::Outcome::Done(object::Reply::shows(value.unwrap_or_default()))
        }
        Outcome::Done(_) => object::Outcome::Done(object::Reply::default()),
        Outcome::Refused(refusal) => object::Outcome::Refused(refusal.to_string().into()),
        Outcome::Unknown => object::Outcome::Unknown,
    }
}

fn text(bytes: &Bytes) -> Text {
    String::from_utf8_lossy(bytes).into()
}

/// The value that a call puts.
fn written(call: &Call) -> Option<&Bytes> {
    let ops = call.request.writes.first()?.ops.iter();
    ops.rev().find_map(|op| match op {
        ElementOp::Add { value, .. } => Some(value),
        _ => None,
    })
}

/// A read that was answered.
#[derive(Clone, Copy)]
struct Read {
    call: usize,
    called: Moment,
    returned: Moment,
}

/// A history with one change; none if there is nothing that can be changed so.
fn change(kind: Kind, history: &History, random: &mut Random) -> Option<History> {
    let mut changed = history.clone();
    match kind {
        Kind::Stale | Kind::Answer => {
            let (reads, replacements) = (reads(history), replacements(history));
            let pairs = reads.iter().flat_map(|read| {
                let others = reads.iter().filter(|shown| shown.call != read.call);
                others.map(move |shown| (*read, *shown))
            });
            let is_meant = |(read, shown): &(Read, Read)| {
                let key = key_of(history, read.call);
                let is_stale = || {
                    replacements.iter().any(|(of, called, returned)| {
                        *of == key && shown.returned < *called && *returned < read.called
                    })
                };
                key == key_of(history, shown.call) && (kind == Kind::Answer || is_stale())
            };
            let pairs: Vec<(Read, Read)> = pairs.filter(is_meant).collect();
            let (read, shown) = picked(random, &pairs)?;
            let reply = history.calls[shown.call].done()?.1.clone();
            changed.calls[read.call].end = Some((read.returned, Outcome::Done(reply)));
        }
        Kind::Unwritten => {
            let mut reads = reads(history);
            reads.retain(|read| value_of(&mut changed.calls[read.call]).is_some());
            let read = picked(random, &reads)?;
            *value_of(&mut changed.calls[read.call])? = Bytes::from_static(b"never");
        }
        Kind::Times => {
            let done = (0..history.calls.len()).filter(|at| history.calls[*at].done().is_some());
            let done: Vec<usize> = done.collect();
            let (call, other) = (picked(random, &done)?, picked(random, &done)?);
            let (returned, _) = history.calls[other].done()?;
            changed.calls[call].invoked = history.calls[other].invoked;
            changed.calls[call].end.as_mut()?.0 = returned;
            // A history has its calls in the order of invocation.
            changed.calls.sort_by_key(|call| call.invoked);
        }
    }
    Some(changed)
}

/// One of `options`; none of none.
fn picked<T: Copy>(random: &mut Random, options: &[T]) -> Option<T> {
    (!options.is_empty()).then(|| *random.pick(options))
}

fn key_of(history: &History, call: usize) -> &Bytes {
    history.calls[call].request.keys()[0]
}

/// The reads that were answered.
fn reads(history: &History) -> Vec<Read> {
    let reads = history.calls.iter().enumerate();
    let reads = reads.filter(|(_, call)| call.request.is_read());
    reads
        .filter_map(|(at, call)| {
            let (returned, _) = call.done()?;
            Some(Read {
                call: at,
                called: call.invoked,
                returned,
            })
        })
        .collect()
}

/// The acknowledged writes of one attempt: the register, the call and the return.
fn replacements(history: &History) -> Vec<(&Bytes, Moment, Moment)> {
    let mut attempts: BTreeMap<RequestId, usize> = BTreeMap::new();
    for name in history.calls.iter().filter_map(|call| call.name) {
        *attempts.entry(name).or_default() += 1;
    }
    let writes = history.calls.iter().enumerate();
    writes
        .filter(|(_, call)| call.name.is_some_and(|name| attempts[&name] == 1))
        .filter_map(|(at, call)| Some((key_of(history, at), call.invoked, call.done()?.0)))
        .collect()
}

/// The value that a read shows.
fn value_of(call: &mut Call) -> Option<&mut Bytes> {
    let Some((_, Outcome::Done(Reply::Shown { registers, .. }))) = &mut call.end else {
        return None;
    };
    let mut members = registers[0]
        .register
        .groups
        .iter_mut()
        .flat_map(|group| &mut group.members);
    members
        .find(|member| member.live)
        .map(|member| &mut member.value)
}

#[cfg(test)]
mod tests;
