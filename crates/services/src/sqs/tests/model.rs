//! Random scripts against a queue that keeps its messages in a list.

use std::collections::BTreeMap;

use fader_chain::Guards;
use proptest::prelude::*;

use super::fixture::*;
use crate::sqs::Code;
use crate::sqs::command::*;

const VISIBILITY_S: u64 = 10;
const RETENTION_S: u64 = 60;

/// One step of a script.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Send {
        group: u8,
        id: u8,
        delay_s: u64,
    },
    Receive {
        count: i64,
        visibility_s: u64,
    },
    /// Of the messages that were received, that one: by an old handle, or by its newest.
    Delete(usize),
    Visibility(usize, u64),
    Pass(u64),
    /// The clock of another head is behind.
    Back(u64),
    Purge,
    Upkeep,
}

pub(super) fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..4_u8, 0..40_u8, prop_oneof![3 => Just(0_u64), 1 => 0..8_u64])
            .prop_map(|(group, id, delay_s)| Act::Send { group, id, delay_s }),
        6 => (1..5_i64, prop_oneof![2 => Just(VISIBILITY_S), 1 => 0..15_u64])
            .prop_map(|(count, visibility_s)| Act::Receive { count, visibility_s }),
        3 => (0..20_usize).prop_map(Act::Delete),
        2 => (0..20_usize, 0..15_u64).prop_map(|(which, seconds)| Act::Visibility(which, seconds)),
        3 => (0..12_u64).prop_map(Act::Pass),
        1 => (0..5_u64).prop_map(Act::Back),
        1 => Just(Act::Purge),
        2 => Just(Act::Upkeep),
    ]
}

/// A message of the model.
#[derive(Clone, Debug)]
struct Message {
    is_fifo: bool,
    number: u64,
    group: u8,
    sent_ms: u64,
    /// From when on it can be received.
    visible_ms: u64,
    /// In a FIFO queue its own place, after any events.
    is_held: bool,
    receives: u32,
    handle: String,
}

/// A queue as the documentation has it.
struct Model {
    is_fifo: bool,
    /// Of its last entry.
    clock_ms: u64,
    now_ms: u64,
    messages: Vec<Message>,
    last: u64,
    /// First sends by id.
    recent: BTreeMap<u8, u64>,
    purged_ms: u64,
}

impl Model {
    fn new(is_fifo: bool) -> Self {
        Model {
            is_fifo,
            clock_ms: START,
            now_ms: START,
            messages: Vec::new(),
            last: 0,
            recent: BTreeMap::new(),
            purged_ms: 0,
        }
    }

    fn send(&mut self, group: u8, id: u8, delay_s: u64) -> Option<String> {
        if self.is_fifo {
            if self
                .recent
                .get(&id)
                .is_some_and(|end_ms| self.now_ms < *end_ms)
            {
                return None;
            }
            self.recent.insert(id, self.now_ms + 300_000);
        }
        self.last += 1;
        let body = format!("{}", self.last);
        let delay_s = if self.is_fifo { 0 } else { delay_s };
        self.messages.push(Message {
            is_fifo: self.is_fifo,
            number: self.last,
            group,
            sent_ms: self.now_ms,
            visible_ms: self.now_ms + delay_s * 1000,
            is_held: false,
            receives: 0,
            handle: String::new(),
        });
        Some(body)
    }

    /// Messages whose retention is not over. Time may fall until an entry saw it: nothing is
    /// removed here.
    fn alive(&self) -> impl Iterator<Item = &Message> {
        let is_alive = |it: &&Message| self.now_ms < it.sent_ms + RETENTION_S * 1000;
        self.messages.iter().filter(is_alive)
    }

    /// Messages that can be received, those of a group in its order. `is_swept`: a message in
    /// flight whose retention is over blocks its group no more.
    fn receivable(&self, is_swept: bool) -> Vec<&Message> {
        let mut order: Vec<&Message> = self.alive().collect();
        if !self.is_fifo {
            order.retain(|it| it.visible_ms <= self.now_ms);
            order.sort_by_key(|it| (it.visible_ms, it.number));
            return order;
        }
        let is_alive = |it: &Message| self.now_ms < it.sent_ms + RETENTION_S * 1000;
        let is_held = |it: &&Message| it.is_held && self.now_ms < it.visible_ms;
        let is_blocked = |group| {
            let mut held = self.messages.iter().filter(is_held);
            held.any(|it| it.group == group && (is_alive(it) || !is_swept))
        };
        order.retain(|it| !is_blocked(it.group));
        order
    }

    /// Whether these are what a receive of `count` may give. A message that is over may be swept,
    /// or not yet.
    fn may_receive(&self, numbers: &[u64], count: usize) -> bool {
        let is_one_of = |is_swept| are_first(&self.receivable(is_swept), numbers, count);
        [true, false].into_iter().any(is_one_of) || self.is_between(numbers, count)
    }

    /// Some of the messages that are over were swept: no more than with all of them, no fewer than
    /// with none.
    fn is_between(&self, numbers: &[u64], count: usize) -> bool {
        let all = self.receivable(true);
        let least = self.receivable(false).len().min(count);
        self.is_fifo
            && least <= numbers.len()
            && are_first(&all, numbers, numbers.len())
            && numbers.len() < all.len().min(count)
    }

    fn find(&mut self, handle: &str) -> Option<&mut Message> {
        self.messages.iter_mut().find(|it| it.handle == handle)
    }
}

/// Whether these are the first in order or, of messages with groups, the first of each group, for
/// any groups.
fn are_first(receivable: &[&Message], numbers: &[u64], count: usize) -> bool {
    let mut receivable = receivable.to_vec();
    if numbers.len() != receivable.len().min(count) {
        return false;
    }
    for number in numbers {
        let Some(at) = receivable.iter().position(|it| it.number == *number) else {
            return false;
        };
        let (group, is_fifo) = (receivable[at].group, receivable[at].is_fifo);
        let first = receivable
            .iter()
            .position(|it| !is_fifo || it.group == group);
        if first != Some(at) {
            return false;
        }
        receivable.remove(at);
    }
    true
}

/// Runs a script on both; says where they differ.
pub(super) fn compare(is_fifo: bool, script: &[Act], guards: Guards) -> Result<(), String> {
    let attributes = [
        ("VisibilityTimeout", "10"),
        ("MessageRetentionPeriod", "60"),
    ];
    let (mut chain, name) = match is_fifo {
        true => (Chain::with_fifo(&attributes), "jobs.fifo"),
        false => (Chain::with_queue(&attributes), Q),
    };
    chain.guards = guards;
    let mut model = Model::new(is_fifo);
    let mut handles: Vec<String> = Vec::new();
    for (at, act) in script.iter().enumerate() {
        let told = step(&mut chain, name, &mut model, &mut handles, act);
        told.map_err(|difference| format!("step {at}, {act:?}: {difference}"))?;
        model.now_ms = chain.clock_ms(name).max(chain.now_ms);
        let counts = chain.counts(name).iter().sum::<u64>();
        let count = model.alive().count() as u64;
        // What is over is counted until it is swept, which is when a head's clock says so.
        let is_swept = matches!(act, Act::Upkeep) && chain.now_ms == model.now_ms;
        if counts < count || (is_swept && counts != count) {
            return Err(format!(
                "step {at}, {act:?}: {counts} messages, not {count}"
            ));
        }
    }
    Ok(())
}

#[allow(clippy::too_many_lines, reason = "one act after the other")]
fn step(
    chain: &mut Chain,
    name: &str,
    model: &mut Model,
    handles: &mut Vec<String>,
    act: &Act,
) -> Result<(), String> {
    // The time of decisions never falls.
    let clock_ms = chain.clock_ms(name);
    if clock_ms < model.clock_ms {
        return Err(format!(
            "the time fell from {} to {clock_ms}",
            model.clock_ms
        ));
    }
    model.clock_ms = clock_ms;
    model.now_ms = clock_ms.max(chain.now_ms);
    match act {
        Act::Send { group, id, delay_s } => {
            let expected = model.send(*group, *id, *delay_s);
            let message = SendEntry {
                body: Some(expected.clone().unwrap_or_else(|| "again".to_owned())),
                group_id: model.is_fifo.then(|| group.to_string()),
                deduplication_id: model.is_fifo.then(|| id.to_string()),
                delay_seconds: (!model.is_fifo).then(|| i64::try_from(*delay_s).unwrap()),
                ..SendEntry::default()
            };
            let sent = chain
                .send_entry(name, message)
                .map_err(|error| error.to_string())?;
            if let (Some(number), Some(_)) = (sent.sequence, &expected)
                && number != model.last
            {
                return Err(format!("it was taken for a duplicate of {number}"));
            }
        }
        Act::Receive {
            count,
            visibility_s,
        } => {
            let shown = chain.receive_with(ReceiveMessage {
                visibility_timeout: Some(i64::try_from(*visibility_s).unwrap()),
                ..receive(name, *count)
            });
            let numbers: Vec<u64> = shown.iter().map(|it| it.body.parse().unwrap()).collect();
            if !model.may_receive(&numbers, usize::try_from(*count).unwrap()) {
                let expected: Vec<u64> =
                    model.receivable(true).iter().map(|it| it.number).collect();
                return Err(format!("received {numbers:?} of {expected:?}"));
            }
            let until_ms = model.now_ms + visibility_s * 1000;
            for (number, message) in numbers.into_iter().zip(shown) {
                let found = model
                    .messages
                    .iter_mut()
                    .find(|it| it.number == number)
                    .unwrap();
                found.visible_ms = until_ms;
                found.is_held = model.now_ms < until_ms;
                found.receives += 1;
                found.handle.clone_from(&message.handle);
                handles.push(message.handle);
            }
        }
        Act::Delete(which) => {
            let Some(handle) = handles.get(*which).cloned() else {
                return Ok(());
            };
            let done = chain.delete(name, &handle).map_err(|error| error.code);
            let now_ms = model.now_ms;
            let is_fifo = model.is_fifo;
            let found = model.find(&handle);
            let is_held = found.as_ref().map(|it| now_ms < it.visible_ms);
            let is_over = found.is_some_and(|it| it.sent_ms + RETENTION_S * 1000 <= now_ms);
            match (is_held, done) {
                (Some(true), Ok(())) => model.messages.retain(|it| it.handle != handle),
                // What is over may be swept.
                (Some(false), Ok(())) if !is_fifo || is_over => {
                    model.messages.retain(|it| it.handle != handle);
                }
                (Some(false), Err(Code::InvalidParameterValue)) if is_fifo => {}
                (None, Ok(())) => {}
                (None, Err(Code::InvalidParameterValue)) if is_fifo => {}
                (found, told) => return Err(format!("deleted {found:?}: {told:?}")),
            }
        }
        Act::Visibility(which, seconds) => {
            let Some(handle) = handles.get(*which).cloned() else {
                return Ok(());
            };
            let seconds_asked = i64::try_from(*seconds).unwrap();
            let done = chain.visibility(name, &handle, seconds_asked).is_ok();
            let now_ms = model.now_ms;
            match model.find(&handle) {
                Some(message) if now_ms < message.visible_ms && done => {
                    message.visible_ms = now_ms + seconds * 1000;
                    message.is_held = 0 < *seconds;
                }
                Some(message)
                    if now_ms < message.visible_ms
                        && now_ms < message.sent_ms + RETENTION_S * 1000 =>
                {
                    return Err("it is in flight and was refused".to_owned());
                }
                // What is over, and not yet swept, may still be changed.
                _ => {}
            }
        }
        Act::Pass(seconds) => chain.pass(*seconds),
        Act::Back(seconds) => chain.now_ms -= seconds * 1000,
        Act::Purge => {
            let is_early = model.purged_ms != 0 && model.now_ms < model.purged_ms + 60_000;
            let purged = chain.run(Command::PurgeQueue(named(name))).is_ok();
            if purged == is_early {
                return Err(format!("purged: {purged}"));
            }
            if purged {
                model.messages.clear();
                model.purged_ms = model.now_ms;
            }
        }
        Act::Upkeep => {
            chain.upkeep(3);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// It shows QL-1 and QL-2.
    #[test]
    fn a_standard_queue_is_its_model(script in prop::collection::vec(acts(), 1..60)) {
        prop_assert_eq!(compare(false, &script, Guards::default()), Ok(()));
    }

    #[test]
    fn a_fifo_queue_is_its_model(script in prop::collection::vec(acts(), 1..60)) {
        prop_assert_eq!(compare(true, &script, Guards::default()), Ok(()));
    }
}
