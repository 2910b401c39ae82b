//! What is checked: each entry when it is committed, each answer, those that wait, and the end.

use fader_services::request;
use fader_services::sqs::command::PeekMessages;
use fader_services::sqs::{Command, Message, Received, Reply};
use fader_services::steps::{self, Action, Taken};

use super::chain::{Deed, Entry, touched};
use super::clients::request_of;
use super::ledger::{Broken, Meant};
use super::{QUEUES, World};

impl World {
    /// An entry is committed, and applied.
    pub(super) fn watch_commit(&mut self, at: usize, entry: &Entry) -> Result<(), Broken> {
        let id = self.chains[at].id;
        let touched = touched(&entry.changes);
        let touched = touched.into_iter();
        let queues: Vec<usize> = touched.filter_map(|it| self.queue_of(id, it)).collect();
        let now_ms = self.decided_ms(entry);
        let mut times = queues.iter().map(|queue| self.ledger.pass(*queue, now_ms));
        let at_ms = times.by_ref().fold(0, u64::max);
        let mut meant = Meant::default();
        match &entry.deed {
            Deed::Call(call, Ok(request::Reply::Sqs(reply))) => {
                self.means(*call, reply, &mut meant)?;
            }
            Deed::Call(..) => {}
            Deed::Step(_, command, outcome) => {
                meant.moves = true;
                self.means_step(at, command, outcome, &mut meant);
            }
            Deed::Upkeep => meant.moves = true,
            Deed::Promotion(key) => self.means_promotion(key, &mut meant),
        }
        let shown: Vec<_> = queues
            .iter()
            .map(|queue| (*queue, self.peek(*queue)))
            .collect();
        if let Deed::Call(call, Ok(request::Reply::Sqs(Reply::Received(received)))) = &entry.deed
            && !entry.changes.is_empty()
        {
            self.receives(*call, received)?;
        }
        let steps = self.unsettled(at);
        let carried = steps.iter().flat_map(|(_, ids)| ids);
        meant.carries = carried.copied().collect();
        self.ledger.shown(&shown, &meant)?;
        self.ledger.carry(id, &steps, at_ms);
        self.count("commits");
        self.ledger.check_whole()
    }

    /// The clock that a decision was given.
    fn decided_ms(&self, entry: &Entry) -> u64 {
        match &entry.deed {
            Deed::Call(..) | Deed::Upkeep => entry.now_ms,
            // A step has the time of its origin.
            Deed::Step(_, steps::Command::Take(origin, step), _) => {
                self.ledger.begun_ms((*origin, step.number))
            }
            Deed::Step(..) => 0,
            Deed::Promotion(key) => {
                let call = self.arrivals.get(key).map(|call| &self.calls[*call]);
                let stamped = call.and_then(|call| call.stamped.as_ref());
                stamped.map_or(0, |(operation, _)| operation.sent_ms)
            }
        }
    }

    fn means(&mut self, call: usize, reply: &Reply, meant: &mut Meant) -> Result<(), Broken> {
        let command = self.calls[call].request.command.clone();
        let name = command.queue().unwrap_or_default();
        let at = QUEUES.iter().position(|it| it.name == name).unwrap_or(0);
        match (&command, reply) {
            (Command::SendMessage(send), Reply::Sent(sent)) => {
                let window_ms = self.limits.sqs.deduplication_s * 1000;
                for (entry, sent) in send.entries.iter().zip(sent) {
                    let Ok(sent) = &sent.outcome else { continue };
                    let body = entry.body.clone().unwrap_or_default();
                    if self.ledger.knows(sent.id) && self.ledger.body(sent.id) != Some(&body) {
                        return Err(("named", format!("{body} has another one's id")));
                    }
                    if let Some(id) = &entry.deduplication_id {
                        match self.ledger.first(at, id, window_ms) {
                            Some(first) if first != sent.id && !self.ledger.knows(sent.id) => {
                                return Err(("first", format!("{body} is sent twice")));
                            }
                            Some(_) => self.count("duplicates"),
                            None if self.ledger.knows(sent.id) => {}
                            None => self.ledger.sent_first(at, id, sent.id),
                        }
                    }
                    self.ledger
                        .enter_body(&body, sent.id, QUEUES[at].is_fifo())?;
                    let own_s = entry.delay_seconds.unwrap_or(0).cast_unsigned();
                    let delay_s = match entry.delay_seconds {
                        Some(_) => own_s,
                        None => QUEUES[at].delay_s,
                    };
                    meant.enters.insert(sent.id, (body, delay_s * 1000));
                    self.count("sent");
                }
            }
            (Command::DeleteMessage(delete), Reply::Changed(changed)) => {
                let entries = delete.entries.iter().zip(changed);
                for (entry, _) in entries.filter(|(_, it)| it.outcome.is_ok()) {
                    let handle = entry.receipt_handle.as_deref().unwrap_or_default();
                    meant.leaves.extend(self.ledger.is_newest(handle));
                }
            }
            (Command::ChangeMessageVisibility(change), Reply::Changed(changed)) => {
                let entries = change.entries.iter().zip(changed);
                for (entry, _) in entries.filter(|(_, it)| it.outcome.is_ok()) {
                    let handle = entry.receipt_handle.as_deref().unwrap_or_default();
                    let seconds = entry.visibility_timeout.unwrap_or(0).cast_unsigned();
                    if let Some((queue, number)) = self.ledger.is_newest(handle) {
                        self.ledger.hide(queue, number, seconds * 1000);
                    }
                }
            }
            (Command::PurgeQueue(_), _) => {
                meant.purges = Some(at);
                self.count("purges");
            }
            (Command::ReceiveMessage(_), _) => meant.moves = true,
            _ => {}
        }
        Ok(())
    }

    fn means_step(
        &mut self,
        at: usize,
        command: &steps::Command,
        outcome: &request::Outcome,
        meant: &mut Meant,
    ) {
        match (command, outcome) {
            (steps::Command::Take(origin, step), Ok(request::Reply::Step(Taken::Done(done))))
                if done.is_empty() =>
            {
                self.ledger.took((*origin, step.number));
                self.count("moved far");
            }
            (steps::Command::Settle(step, _), _) => {
                meant.settles = Some((self.chains[at].id, step.number));
            }
            _ => {}
        }
    }

    fn means_promotion(&mut self, key: &bytes::Bytes, meant: &mut Meant) {
        let Some(call) = self.arrivals.get(key).map(|call| &self.calls[*call]) else {
            return;
        };
        let Command::SendMessage(send) = &call.request.command else {
            return;
        };
        if let Some((_, request::Reply::Sqs(Reply::Sent(sent)))) = &call.stamped {
            for (entry, sent) in send.entries.iter().zip(sent) {
                let body = entry.body.clone().unwrap_or_default();
                let delay_s = entry.delay_seconds.unwrap_or(0).cast_unsigned();
                if let Ok(sent) = &sent.outcome {
                    meant.enters.insert(sent.id, (body, delay_s * 1000));
                }
            }
        }
        self.count("promoted");
    }

    /// A receive is committed: its messages as a client will see them.
    fn receives(&mut self, call: usize, received: &Received) -> Result<(), Broken> {
        let name = received.queue.as_str();
        let at = QUEUES.iter().position(|it| it.name == name).unwrap_or(0);
        let reply = Reply::Received(Box::new(received.clone()));
        let rest = request::Reply::Sqs(reply).rest();
        let Some(request::Request::Sqs(rest)) = rest else {
            return Ok(());
        };
        let Some(Reply::Messages(messages)) = self.read(QUEUES[at].chain, &rest) else {
            return Err(("lost", "what is received cannot be read".to_owned()));
        };
        let Command::ReceiveMessage(command) = &self.calls[call].request.command else {
            return Ok(());
        };
        let most = QUEUES[at].dead.map_or(u32::MAX, |(_, receives)| receives);
        if let Some(held) = received.messages.iter().find(|it| most < it.receives) {
            let text = format!("message {} of {name} is received too often", held.number);
            return Err(("letters", text));
        }
        let visibility_s = command.visibility_timeout.unwrap_or(1).cast_unsigned();
        let numbers = received.messages.iter().map(|it| it.number);
        let messages: Vec<(u64, Message)> = numbers.zip(messages).collect();
        if messages.len() != received.messages.len() {
            return Err(("lost", "a message is received without its body".to_owned()));
        }
        self.ledger.receive(at, &messages, visibility_s * 1000)
    }

    /// All messages of a queue, by number.
    fn peek(&self, queue: usize) -> Vec<(u64, Message)> {
        let (mut all, mut after): (Vec<(u64, Message)>, u64) = (Vec::new(), 0);
        loop {
            let command = Command::PeekMessages(PeekMessages {
                queue: QUEUES[queue].name.to_owned(),
                after,
                max_messages: None,
            });
            let request = request_of(0, command);
            let Some(Reply::Peeked(peeked)) = self.read(QUEUES[queue].chain, &request) else {
                return all;
            };
            if peeked.after == after {
                return all;
            }
            after = peeked.after;
            all.extend(peeked.messages.into_iter().map(|message| {
                let mut system = message.system.iter();
                let number = system.find(|(name, _)| name == "SequenceNumber");
                let number = number.and_then(|(_, value)| value.parse().ok());
                (number.unwrap_or(0), message)
            }));
        }
    }

    fn unsettled(&self, at: usize) -> Vec<(u64, Vec<u128>)> {
        let steps = steps::unsettled(&self.chains[at].committed, usize::MAX);
        let steps = steps.expect("a view in memory can be read").into_iter();
        let carried = steps.map(|step| match &step.action {
            Action::Queue(of) => (step.number, of.messages()),
            _ => (step.number, Vec::new()),
        });
        carried.collect()
    }

    /// A client is told that its message was sent.
    pub(super) fn acknowledge(&mut self, id: u128, is_eventual: bool) {
        match is_eventual {
            true => self.promised.push(id),
            false if !self.ledger.knows(id) => self.fail("lost", "a send is not in the log"),
            false => {}
        }
        self.count("acknowledged");
    }

    pub(super) fn told_deleted(&mut self, handle: &str) {
        let now = self.now;
        if let Some(id) = self.gone.get(handle).copied()
            && self.ledger.is_deleted(id)
        {
            self.deleted.entry(id).or_insert(now);
            self.count("deleted");
        }
    }

    /// A client is shown a message.
    pub(super) fn shown(&mut self, began: u64, message: &Message) {
        if self.ledger.body(message.id) != Some(&message.body) {
            let text = format!("{} is shown and was not sent", message.body);
            return self.fail("once", &text);
        }
        if self.deleted.get(&message.id).is_some_and(|at| *at < began) {
            let text = format!("{} is shown after its deletion", message.body);
            return self.fail("removed", &text);
        }
        self.gone.insert(message.handle.clone(), message.id);
    }

    /// Where a long poll waits, there is nothing for it.
    pub(super) fn check_woken(&mut self, at: usize) {
        if !self.chains[at].is_served() || !self.chains[at].is_quiet() {
            return;
        }
        let parked: Vec<usize> = self.chains[at].parked.values().copied().collect();
        for call in parked.into_iter().filter(|call| self.is_awaited(*call)) {
            if self.would_give(at, call).is_some_and(|count| count != 0) {
                return self.fail("woken", &format!("call {call} waits for what is there"));
            }
        }
        self.count("woken");
    }

    /// The end: all is received, and every step settled.
    pub(super) fn check_drained(&mut self) {
        if self.failure.is_some() {
            return;
        }
        for id in std::mem::take(&mut self.promised) {
            if !self.ledger.knows(id) {
                return self.fail("lost", "an eventual send is nowhere");
            }
        }
        for (queue, kept) in QUEUES.iter().enumerate() {
            if !self.ledger.is_empty(queue) {
                return self.fail("drained", &format!("messages are left in {}", kept.name));
            }
        }
        if (0..2).any(|at| !self.unsettled(at).is_empty()) {
            return self.fail("drained", "a step is not settled");
        }
        self.count("drained");
    }
}
