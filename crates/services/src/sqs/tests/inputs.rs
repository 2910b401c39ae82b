//! Any request is answered or refused; its bytes come back.

use fader_chain::Reader;
use proptest::prelude::*;

use super::fixture::*;
use crate::forward::wire::Wire as _;
use crate::sqs::command::*;
use crate::sqs::{Code, Entry, Error, Reply};

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(Q.to_owned()),
        Just("jobs.fifo".to_owned()),
        Just("absent".to_owned()),
        "[a-z.\\PC]{0,12}",
    ]
}

fn texts_of() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9_.*:{}\"-]{0,20}", "\\PC{0,20}", any::<String>()]
}

fn pairs_of() -> impl Strategy<Value = Pairs> {
    let name = prop_oneof![
        Just("Policy".to_owned()),
        Just("RedrivePolicy".to_owned()),
        Just("DelaySeconds".to_owned()),
        Just("FifoQueue".to_owned()),
        texts_of(),
    ];
    prop::collection::vec((name, texts_of()), 0..4)
}

fn entries() -> impl Strategy<Value = Vec<SendEntry>> {
    let attribute = (
        texts_of(),
        texts_of(),
        prop_oneof![
            Just(Value::Missing),
            Just(Value::List),
            texts_of().prop_map(Value::Text),
            prop::collection::vec(any::<u8>(), 0..9).prop_map(|it| Value::Binary(it.into())),
        ],
    )
        .prop_map(|(name, data_type, value)| Attribute {
            name,
            data_type,
            value,
        });
    let attributes = prop::collection::vec(attribute, 0..3);
    let ids = (
        texts_of(),
        prop::option::of(texts_of()),
        prop::option::of(texts_of()),
    );
    let message = (
        ids,
        prop::option::of(texts_of()),
        prop::option::of(any::<i64>()),
        attributes,
    );
    let message = message.prop_map(
        |((id, group_id, deduplication_id), body, delay_seconds, all)| SendEntry {
            id,
            body,
            delay_seconds,
            system_attributes: all.clone(),
            attributes: all,
            deduplication_id,
            group_id,
        },
    );
    prop::collection::vec(message, 0..3)
}

#[allow(clippy::too_many_lines, reason = "one strategy for each command")]
fn commands() -> impl Strategy<Value = Command> {
    let number = || prop::option::of(prop_oneof![-2..20_i64, any::<i64>()]);
    let text = || prop::option::of(texts_of());
    let list = || prop::collection::vec(texts_of(), 0..3);
    prop_oneof![
        (
            names(),
            pairs_of(),
            pairs_of(),
            prop::option::of(any::<u8>())
        )
            .prop_map(|(queue, attributes, tags, mode)| Command::CreateQueue(
                CreateQueue {
                    queue,
                    attributes,
                    tags,
                    mode
                }
            )),
        (names(), pairs_of()).prop_map(|(queue, attributes)| {
            Command::SetQueueAttributes(SetQueueAttributes { queue, attributes })
        }),
        (names(), list()).prop_map(|(queue, names)| {
            Command::GetQueueAttributes(GetQueueAttributes { queue, names })
        }),
        (names(), any::<bool>(), entries()).prop_map(|(queue, is_batch, entries)| {
            Command::SendMessage(SendMessage {
                queue,
                is_batch,
                entries,
            })
        }),
        (names(), list(), list(), number(), number(), text()).prop_map(
            |(queue, system_names, attribute_names, max_messages, wait_seconds, attempt_id)| {
                Command::ReceiveMessage(ReceiveMessage {
                    queue,
                    system_names,
                    attribute_names,
                    max_messages,
                    visibility_timeout: wait_seconds,
                    wait_seconds,
                    attempt_id,
                    arrived_ms: START,
                })
            }
        ),
        (
            names(),
            any::<bool>(),
            prop::collection::vec((texts_of(), text(), number()), 0..3)
        )
            .prop_map(|(queue, is_batch, all)| {
                let entries = all.into_iter();
                let entries =
                    entries.map(|(id, receipt_handle, visibility_timeout)| VisibilityEntry {
                        id,
                        receipt_handle,
                        visibility_timeout,
                    });
                Command::ChangeMessageVisibility(ChangeMessageVisibility {
                    queue,
                    is_batch,
                    entries: entries.collect(),
                })
            }),
        (names(), texts_of(), list(), list()).prop_map(|(queue, label, accounts, actions)| {
            Command::AddPermission(AddPermission {
                queue,
                label,
                accounts,
                actions,
            })
        }),
        (names(), number(), text()).prop_map(|(queue, max_results, next_token)| {
            Command::ListQueues(List {
                queue,
                max_results,
                next_token,
            })
        }),
        (names(), text(), number()).prop_map(|(queue, destination, max_per_second)| {
            Command::StartMessageMoveTask(StartMessageMoveTask {
                source_arn: queue.clone(),
                queue,
                destination_arn: destination.clone(),
                destination,
                max_per_second,
            })
        }),
        names().prop_map(|queue| Command::PurgeQueue(named(&queue))),
        names().prop_map(|queue| Command::DeleteQueue(named(&queue))),
        (names(), any::<u64>(), number()).prop_map(|(queue, after, max_messages)| {
            Command::PeekMessages(PeekMessages {
                queue,
                after,
                max_messages,
            })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_request_is_answered_or_refused(script in prop::collection::vec(commands(), 1..12)) {
        let mut chain = Chain::with_fifo(&[]);
        chain.create(Q, &[]).unwrap();
        for command in script {
            let mut bytes = Vec::new();
            command.put(&mut bytes);
            let mut reader = Reader::new(bytes.into());
            prop_assert_eq!(Command::read(&mut reader).unwrap(), command.clone());
            reader.end().unwrap();
            let before = chain.rows.live().count();
            match chain.run(command) {
                Ok(_) => {}
                Err(error) => {
                    prop_assert_ne!(error.code, Code::InternalError, "{}", error);
                    prop_assert_eq!(chain.rows.live().count(), before, "it changes nothing");
                }
            }
            chain.pass(1);
        }
        chain.upkeep(10);
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..120)) {
        let noise = bytes::Bytes::from(noise);
        drop(Command::read(&mut Reader::new(noise.clone())));
        drop(Reply::read(&mut Reader::new(noise.clone())));
        drop(crate::sqs::QueueStep::read(&mut Reader::new(noise.clone())));
        drop(<crate::sqs::Sqs as crate::service::Service>::kept(noise));
    }
}

#[test]
fn every_code_has_its_names_and_its_bytes() {
    for code in Code::all() {
        let error = Error::new(code, "later (too many writes are waiting)");
        let mut bytes = Vec::new();
        error.put(&mut bytes);
        let read = Error::read(&mut Reader::new(bytes.into())).unwrap();
        assert_eq!(read.code, code);
        assert_eq!(read.reason.is_some(), code == Code::ServiceUnavailable);
        assert!(code.json_type().starts_with("com.amazon"), "{code:?}");
    }
    for (at, code) in Code::all().enumerate() {
        assert_eq!(code as usize, at, "they are in their order");
    }
    let naming = |code: Code| (code.json_type(), code.query_code(), code.status());
    assert_eq!(
        naming(Code::QueueDoesNotExist),
        (
            "com.amazonaws.sqs#QueueDoesNotExist".to_owned(),
            "AWS.SimpleQueueService.NonExistentQueue",
            400
        )
    );
}

#[test]
fn replies_come_back_from_their_bytes() {
    let error = Error::no_such_queue();
    let replies = [
        Reply::Done,
        Reply::Queue(Q.to_owned()),
        Reply::Pairs(pairs(&[("a", "b")])),
        Reply::Cancelled(7),
        Reply::Changed(vec![
            Entry {
                id: "a".to_owned(),
                outcome: Ok(()),
            },
            Entry {
                id: "b".to_owned(),
                outcome: Err(error),
            },
        ]),
    ];
    for reply in replies {
        let mut bytes = Vec::new();
        reply.put(&mut bytes);
        let mut reader = Reader::new(bytes.into());
        assert_eq!(Reply::read(&mut reader).unwrap(), reply);
        reader.end().unwrap();
    }
}
