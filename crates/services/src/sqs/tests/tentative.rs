//! Eventual sends to queues of the mode `mixed`.

use fader_chain::{Settled, Stamp};

use super::fixture::*;
use crate::Mode;
use crate::level::{ConsistencyOptions, Level};
use crate::service::{Context, Service as _};
use crate::sqs::command::*;
use crate::sqs::{Code, Reply, Sqs};

fn accept(
    chain: &mut Chain,
    entries: Vec<SendEntry>,
) -> Result<crate::service::Acceptance<Reply>, Code> {
    let request = chain.request(Command::SendMessage(SendMessage {
        queue: Q.to_owned(),
        is_batch: 1 < entries.len(),
        entries,
    }));
    let context = Context {
        collection: chain.place(Q).map(|place| place.collection),
        mode: chain.mode,
        now_ms: chain.now_ms,
        guards: &chain.guards,
        ..Context::new(&chain.account, &chain.limits)
    };
    Sqs::accept(&chain.rows, &context, &request).map_err(|error| error.code)
}

#[test]
fn an_eventual_send_is_received_after_its_promotion() {
    let mut chain = Chain::with_queue(&[]);
    assert_eq!(
        accept(&mut chain, vec![entry("x")]).unwrap_err(),
        Code::UnsupportedOperation
    );
    chain.mode = Mode::Mixed;
    let named = |id: &str, body: &str| SendEntry {
        id: id.to_owned(),
        ..entry(body)
    };
    let accepted = accept(
        &mut chain,
        vec![named("a", "1"), named("b", ""), named("c", "2")],
    );
    let accepted = accepted.unwrap();
    assert_eq!(accepted.writes.len(), 2, "one was refused");
    assert_eq!(chain.bodies(Q, 10), texts(&[]));
    for write in &accepted.writes {
        let limits = chain.limits.clone();
        let settled = Sqs::settle(
            &chain.rows,
            &limits,
            &write.key,
            write.ops.clone(),
            Stamp::MAX,
        );
        let Ok(Settled::Apply(changes)) = settled else {
            panic!("{settled:?}");
        };
        chain.apply(&changes);
    }
    let Reply::Sent(sent) = accepted.answered else {
        panic!("sent");
    };
    let held = chain.receive(Q, 10);
    let ids: Vec<u128> = held.iter().map(|it| it.id).collect();
    let told = sent.iter().filter_map(|it| it.outcome.as_ref().ok());
    assert_eq!(ids, told.map(|it| it.id).collect::<Vec<_>>());
}

#[test]
fn an_eventual_send_to_a_deleted_queue_is_gone() {
    let mut chain = Chain::with_queue(&[]);
    chain.mode = Mode::Mixed;
    let accepted = accept(&mut chain, vec![entry("x")]).unwrap();
    chain.run(Command::DeleteQueue(named(Q))).unwrap();
    let write = &accepted.writes[0];
    let settled = Sqs::settle(
        &chain.rows,
        &chain.limits,
        &write.key,
        write.ops.clone(),
        Stamp::MAX,
    );
    assert!(matches!(settled, Ok(Settled::Refused(_))));
}

#[test]
fn only_sends_to_mixed_standard_queues_are_eventual() {
    let mut chain = Chain::new(0);
    let eventual = ConsistencyOptions {
        level: Level::EVENTUAL,
        ..ConsistencyOptions::default()
    };
    let mut permits = |mode, queue: &str, is_send| {
        let command = match is_send {
            true => Command::SendMessage(SendMessage {
                queue: queue.to_owned(),
                is_batch: false,
                entries: Vec::new(),
            }),
            false => Command::ReceiveMessage(receive(queue, 1)),
        };
        let request = chain.request(command);
        Sqs::effective_level(mode, None, &eventual, &request).is_ok()
    };
    assert!(permits(Some(Mode::Mixed), Q, true));
    assert!(!permits(Some(Mode::Strong), Q, true));
    assert!(!permits(Some(Mode::Mixed), "jobs.fifo", true));
    assert!(!permits(Some(Mode::Mixed), Q, false));
    let create = |name: &str, mode: Mode| CreateQueue {
        queue: name.to_owned(),
        attributes: match name.ends_with(".fifo") {
            true => pairs(&[("FifoQueue", "true")]),
            false => Vec::new(),
        },
        tags: Vec::new(),
        mode: Some(mode.byte()),
    };
    let fifo = Command::CreateQueue(create("jobs.fifo", Mode::Mixed));
    assert_eq!(chain.code(fifo), Code::InvalidParameterValue);
    let eventual = Command::CreateQueue(create(Q, Mode::Eventual));
    assert_eq!(chain.code(eventual), Code::InvalidParameterValue);
    chain
        .run(Command::CreateQueue(create(Q, Mode::Mixed)))
        .unwrap();
}
