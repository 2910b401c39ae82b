//! Producers, consumers, and those who move and purge.

use std::collections::VecDeque;

use fader_services::policy::Principal;
use fader_services::request::{self, Outcome};
use fader_services::sqs::command::{
    ChangeMessageVisibility, CreateQueue, DeleteEntry, DeleteMessage, Named, ReceiveMessage,
    SendEntry, SendMessage, StartMessageMoveTask, VisibilityEntry,
};
use fader_services::sqs::{Caller, Command, Message, Reply, Request};
use fader_services::{Mode, Reason};

use super::chain::Operation;
use super::{ACCOUNT, Event, Kept, QUEUES, World};

/// How long a client waits for an answer, beside what it asks to wait.
const PATIENCE: u64 = 600_000;
/// Groups of a FIFO queue.
const GROUPS: [&str; 3] = ["a", "b", "c"];

/// A call of a client.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) client: usize,
    pub(super) chain: usize,
    pub(super) request: Request,
    pub(super) name: Option<u64>,
    pub(super) is_eventual: bool,
    pub(super) stamped: Option<(Operation, request::Reply)>,
    began: u64,
    is_over: bool,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Producer(usize),
    Consumer(usize),
    Mover,
    Purger,
}

/// Something that a consumer does later with a message.
#[derive(Clone, Debug)]
enum Plan {
    Delete(String),
    Hide(String, i64),
}

#[derive(Debug)]
pub(super) struct Client {
    role: Role,
    number: u64,
    plans: VecDeque<Plan>,
    /// What is asked again until it is answered, with its name if it has one.
    again: Option<(Command, Option<u64>)>,
    call: Option<usize>,
}

impl Client {
    pub(super) fn all() -> Vec<Client> {
        let mut roles = vec![Role::Mover, Role::Purger];
        for (at, queue) in QUEUES.iter().enumerate() {
            roles.extend([Role::Consumer(at), Role::Consumer(at)]);
            // Letters come into their queues by moves alone.
            if !queue.name.contains("failed") {
                let producers = if queue.is_mixed { 3 } else { 1 };
                roles.extend(vec![Role::Producer(at); producers]);
            }
        }
        let clients = roles.into_iter().map(|role| Client {
            role,
            number: 0,
            plans: VecDeque::new(),
            again: None,
            call: None,
        });
        clients.collect()
    }
}

/// The request that makes a queue.
pub(super) fn creation(queue: &Kept, dead: Option<(&Kept, u32)>) -> Request {
    let mut attributes = vec![
        ("VisibilityTimeout".to_owned(), "1".to_owned()),
        ("DelaySeconds".to_owned(), queue.delay_s.to_string()),
    ];
    if queue.is_fifo() {
        attributes.push(("FifoQueue".to_owned(), "true".to_owned()));
    }
    if let Some((to, receives)) = dead {
        let policy = format!(
            r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":{receives}}}"#,
            arn(to.name)
        );
        attributes.push(("RedrivePolicy".to_owned(), policy));
    }
    // Each has a secret of its own.
    let seed = queue
        .name
        .bytes()
        .fold(1, |seed, byte| seed * 31 + u128::from(byte));
    request_of(
        seed,
        Command::CreateQueue(CreateQueue {
            queue: queue.name.to_owned(),
            attributes,
            tags: Vec::new(),
            mode: queue.is_mixed.then_some(Mode::Mixed as u8),
        }),
    )
}

pub(super) fn request_of(seed: u128, command: Command) -> Request {
    let principal = Principal::Key((ACCOUNT.to_owned(), "AK".to_owned()));
    Request {
        caller: Caller::of(principal),
        region: "us-east-1".to_owned(),
        seed,
        command,
    }
}

fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}")
}

impl World {
    pub(super) fn client_goes_on(&mut self, at: usize) {
        let wanted = match self.clients[at].again.take() {
            Some((command, name)) => Some((command, name)),
            None => self.next_command(at),
        };
        let Some((command, name)) = wanted else {
            return;
        };
        let Some(queue) = QUEUES.iter().find(|it| Some(it.name) == command.queue()) else {
            return;
        };
        let waits_s = match &command {
            Command::ReceiveMessage(receive) => receive.wait_seconds.unwrap_or(0),
            _ => 0,
        };
        let is_send = matches!(&command, Command::SendMessage(it) if it.entries.len() == 1);
        let is_eventual = queue.is_mixed && is_send && name.is_none() && self.random.chance(600);
        let call = self.calls.len();
        self.count("calls");
        self.calls.push(Call {
            client: at,
            chain: queue.chain,
            request: request_of(self.random.name(), command),
            name,
            is_eventual,
            stamped: None,
            began: self.now,
            is_over: false,
        });
        self.clients[at].call = Some(call);
        if let Some(time) = self.travel(60) {
            self.queue.plan(time, Event::Call(call));
        }
        let patience = PATIENCE + waits_s.cast_unsigned() * 1_000_000;
        self.queue.plan(self.now + patience, Event::Deadline(call));
    }

    fn next_command(&mut self, at: usize) -> Option<(Command, Option<u64>)> {
        let is_named = self.random.chance(400);
        let name = is_named.then(|| self.random.number());
        let command = match self.clients[at].role {
            Role::Producer(queue) if !self.is_calm() => self.send(at, queue),
            Role::Consumer(queue) => match self.clients[at].plans.pop_front() {
                Some(Plan::Delete(handle)) => Command::DeleteMessage(DeleteMessage {
                    queue: QUEUES[queue].name.to_owned(),
                    is_batch: false,
                    entries: vec![DeleteEntry {
                        id: String::new(),
                        receipt_handle: Some(handle),
                    }],
                }),
                Some(Plan::Hide(handle, seconds)) => {
                    Command::ChangeMessageVisibility(ChangeMessageVisibility {
                        queue: QUEUES[queue].name.to_owned(),
                        is_batch: false,
                        entries: vec![VisibilityEntry {
                            id: String::new(),
                            receipt_handle: Some(handle),
                            visibility_timeout: Some(seconds),
                        }],
                    })
                }
                None => self.receive(queue),
            },
            Role::Mover if !self.is_calm() => {
                let queue = QUEUES[self.random.below(3)].name;
                Command::StartMessageMoveTask(StartMessageMoveTask {
                    queue: queue.to_owned(),
                    source_arn: arn(queue),
                    destination: None,
                    destination_arn: None,
                    max_per_second: self.random.chance(300).then_some(2),
                })
            }
            Role::Purger if !self.is_calm() => {
                let queue = if self.random.chance(800) { 7 } else { 4 };
                let queue = QUEUES[queue].name.to_owned();
                Command::PurgeQueue(Named { queue })
            }
            _ => return None,
        };
        Some((command, name))
    }

    fn send(&mut self, at: usize, queue: usize) -> Command {
        let is_fifo = QUEUES[queue].is_fifo();
        let count = if self.random.chance(250) { 3 } else { 1 };
        let entries = (0..count).map(|entry| {
            let client = &mut self.clients[at];
            client.number += 1;
            let body = format!("{}-{at}-{}", QUEUES[queue].name, client.number);
            let group = GROUPS[self.random.below(GROUPS.len())];
            SendEntry {
                id: format!("e{entry}"),
                delay_seconds: (!is_fifo && self.random.chance(100)).then_some(1),
                group_id: is_fifo.then(|| group.to_owned()),
                deduplication_id: is_fifo.then(|| body.clone()),
                body: Some(body),
                ..SendEntry::default()
            }
        });
        let entries: Vec<_> = entries.collect();
        Command::SendMessage(SendMessage {
            queue: QUEUES[queue].name.to_owned(),
            is_batch: 1 < count,
            entries,
        })
    }

    fn receive(&mut self, queue: usize) -> Command {
        let is_calm = self.is_calm();
        let arrived_ms = self.chains[QUEUES[queue].chain].wall_ms(self.now);
        Command::ReceiveMessage(ReceiveMessage {
            queue: QUEUES[queue].name.to_owned(),
            max_messages: Some(if self.random.chance(500) { 1 } else { 4 }),
            visibility_timeout: match is_calm {
                true => Some(20),
                false => self.random.chance(300).then_some(2),
            },
            wait_seconds: self.random.chance(700).then_some(3),
            arrived_ms,
            ..ReceiveMessage::default()
        })
    }

    /// Whether a client still waits for this.
    pub(super) fn is_awaited(&self, call: usize) -> bool {
        !self.calls[call].is_over
    }

    /// A client waits no longer: it does not know what came of its call.
    pub(super) fn give_up(&mut self, call: usize) {
        if !self.is_awaited(call) {
            return;
        }
        self.count("unknown");
        self.again(call);
    }

    /// What was not answered is asked again where that cannot do harm.
    fn again(&mut self, call: usize) {
        let at = self.over(call);
        let Call { request, name, .. } = &self.calls[call];
        let is_fifo = request
            .command
            .queue()
            .is_some_and(|it| it.ends_with(".fifo"));
        let is_safe = match &request.command {
            Command::SendMessage(_) => name.is_some() || is_fifo,
            Command::DeleteMessage(_) => true,
            Command::ReceiveMessage(_) => name.is_some(),
            _ => false,
        };
        self.clients[at].again = is_safe.then(|| (request.command.clone(), *name));
        self.pause(at, 1_000, 20_000);
    }

    fn over(&mut self, call: usize) -> usize {
        self.calls[call].is_over = true;
        let at = self.calls[call].client;
        self.clients[at].call = None;
        at
    }

    fn pause(&mut self, at: usize, least: u64, most: u64) {
        let pause = self.random.skewed(least, most);
        self.queue.plan(self.now + pause, Event::Client(at));
    }

    /// A client hears.
    pub(super) fn answer(&mut self, call: usize, outcome: Outcome) {
        if !self.is_awaited(call) {
            return;
        }
        let outcome = match outcome {
            // A receive is answered with what a read after its commit shows.
            Ok(reply) => match reply.rest() {
                Some(request::Request::Sqs(rest)) => self
                    .read(self.calls[call].chain, &rest)
                    .map(request::Reply::Sqs)
                    .ok_or(None),
                _ => Ok(reply),
            },
            Err(refusal) => Err(Some(refusal)),
        };
        match outcome {
            Ok(request::Reply::Sqs(reply)) => self.is_told(call, reply),
            Err(Some(refusal)) => {
                self.trace
                    .say(self.now, || format!("      call {call}: {refusal}"));
                match refusal.reason() {
                    Some(Reason::NoMember | Reason::WaitTooLong) => self.again(call),
                    _ => {
                        let at = self.over(call);
                        self.pause(at, 5_000, 100_000);
                    }
                }
            }
            _ => self.again(call),
        }
    }

    fn is_told(&mut self, call: usize, reply: Reply) {
        let at = self.over(call);
        let command = self.calls[call].request.command.clone();
        match (command, reply) {
            (Command::SendMessage(_), Reply::Sent(sent)) => {
                let is_eventual = self.calls[call].is_eventual;
                for sent in sent.into_iter().filter_map(|it| it.outcome.ok()) {
                    self.acknowledge(sent.id, is_eventual);
                }
            }
            (Command::DeleteMessage(delete), Reply::Changed(_)) => {
                let handle = delete.entries[0].receipt_handle.clone();
                self.told_deleted(&handle.unwrap_or_default());
            }
            (Command::ReceiveMessage(_), Reply::Messages(messages)) => {
                self.count(if messages.is_empty() {
                    "empty"
                } else {
                    "received"
                });
                for message in messages {
                    self.shown(self.calls[call].began, &message);
                    self.plan(at, &message);
                }
            }
            _ => {}
        }
        let is_slow = matches!(self.clients[at].role, Role::Mover | Role::Purger);
        match is_slow {
            true => self.pause(at, 500_000, 3_000_000),
            false => self.pause(at, 2_000, 250_000),
        }
    }

    /// What a consumer does with a message.
    fn plan(&mut self, at: usize, message: &Message) {
        let handle = message.handle.clone();
        let plan = match self.random.below(10) {
            _ if self.is_calm() => Plan::Delete(handle),
            0..4 => Plan::Delete(handle),
            4 => Plan::Hide(handle, 0),
            5 => Plan::Hide(handle, 2),
            // It forgets: another one gets it when its visibility ends.
            _ => return,
        };
        self.clients[at].plans.push_back(plan);
    }
}
