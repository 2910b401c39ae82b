//! Move tasks.

use super::fixture::*;
use crate::sqs::command::*;
use crate::sqs::{Code, Reply, Task, split_task_handle};

fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}")
}

fn start(destination: Option<&str>, rate: Option<i64>) -> Command {
    Command::StartMessageMoveTask(StartMessageMoveTask {
        queue: "failed".to_owned(),
        source_arn: arn("failed"),
        destination: destination.map(str::to_owned),
        destination_arn: destination.map(arn),
        max_per_second: rate,
    })
}

fn tasks(chain: &mut Chain) -> Vec<Task> {
    let list = Command::ListMessageMoveTasks(ListMessageMoveTasks {
        queue: "failed".to_owned(),
        source_arn: arn("failed"),
        max_results: Some(10),
    });
    match chain.run(list).unwrap() {
        Reply::Tasks(tasks) => tasks,
        other => panic!("{other:?}"),
    }
}

/// A chain with `count` dead letters of `jobs` in `failed`.
fn with_letters(count: usize) -> Chain {
    let mut chain = Chain::new(0);
    chain.create("failed", &[]).unwrap();
    let redrive = format!(
        r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":1}}"#,
        arn("failed")
    );
    chain
        .create(
            Q,
            &[("VisibilityTimeout", "0"), ("RedrivePolicy", &redrive)],
        )
        .unwrap();
    for number in 0..count {
        chain.send(Q, &number.to_string());
        assert_eq!(chain.receive(Q, 1).len(), 1);
        assert_eq!(chain.receive(Q, 1).len(), 0);
    }
    assert_eq!(chain.counts("failed"), [count as u64, 0, 0]);
    chain
}

#[test]
fn a_task_moves_all_messages_back_to_where_they_came_from() {
    let mut chain = with_letters(100);
    let Ok(Reply::Started(handle)) = chain.run(start(None, None)) else {
        panic!("it begins");
    };
    let (_, source) = split_task_handle(&handle).unwrap();
    assert_eq!(source, arn("failed"));
    assert_eq!(
        chain.code(start(None, None)),
        Code::InvalidParameterValue,
        "one at a time"
    );
    assert_eq!(tasks(&mut chain)[0].status, "RUNNING");
    chain.upkeep(100);
    assert_eq!(chain.counts("failed"), [0, 0, 0]);
    assert_eq!(chain.counts(Q), [100, 0, 0]);
    let all = tasks(&mut chain);
    assert_eq!(
        (all[0].status.as_str(), all[0].moved, all[0].to_move),
        ("COMPLETED", 100, 100)
    );
    assert_eq!(all[0].handle, None);
    let shown = chain.receive_with(ReceiveMessage {
        system_names: texts(&["All"]),
        ..receive(Q, 1)
    });
    assert!(
        shown[0]
            .system
            .iter()
            .all(|(name, _)| name != "DeadLetterQueueSourceArn")
    );
}

#[test]
fn a_task_moves_to_a_queue_of_choice_at_its_rate_and_can_be_ended() {
    let mut chain = with_letters(10);
    chain.create("elsewhere", &[]).unwrap();
    assert_eq!(
        chain.code(start(Some("absent"), None)),
        Code::ResourceNotFound
    );
    for rate in [0, 501] {
        assert_eq!(
            chain.code(start(None, Some(rate))),
            Code::InvalidParameterValue
        );
    }
    let Ok(Reply::Started(handle)) = chain.run(start(Some("elsewhere"), Some(2))) else {
        panic!("it begins");
    };
    for second in 1..=3 {
        chain.upkeep(100);
        assert_eq!(chain.counts("elsewhere"), [2 * second, 0, 0]);
        chain.pass(1);
    }
    let cancel = |task: &str| {
        Command::CancelMessageMoveTask(CancelMessageMoveTask {
            queue: "failed".to_owned(),
            task: task.to_owned(),
        })
    };
    assert_eq!(chain.code(cancel("x")), Code::ResourceNotFound);
    let (task, _) = split_task_handle(&handle).unwrap();
    assert_eq!(chain.run(cancel(&task)), Ok(Reply::Cancelled(6)));
    assert_eq!(chain.code(cancel(&task)), Code::ResourceNotFound);
    chain.pass(10);
    chain.upkeep(100);
    assert_eq!(chain.counts("failed"), [4, 0, 0]);
    assert_eq!(tasks(&mut chain)[0].status, "CANCELLED");
}

/// It shows QM-2.
#[test]
fn of_one_queue_one_task_runs() {
    let mut chain = with_letters(3);
    chain.run(start(None, Some(1))).unwrap();
    chain.upkeep(100);
    assert_eq!(chain.code(start(None, None)), Code::InvalidParameterValue);
    assert_eq!(tasks(&mut chain).len(), 1);
    for _second in 0..3 {
        chain.pass(1);
        chain.upkeep(100);
    }
    assert_eq!(chain.counts("failed"), [0, 0, 0]);
    chain.run(start(None, None)).unwrap();
    assert_eq!(tasks(&mut chain).len(), 2);
}

#[test]
fn a_task_fails_when_there_is_nowhere_to_go() {
    let mut chain = with_letters(3);
    chain.run(Command::DeleteQueue(named(Q))).unwrap();
    assert_eq!(
        chain.code(start(None, None)),
        Code::InvalidParameterValue,
        "no source is left"
    );
    let mut chain = with_letters(3);
    chain.create("elsewhere", &[]).unwrap();
    chain.run(start(Some("elsewhere"), Some(1))).unwrap();
    chain.upkeep(100);
    chain.run(Command::DeleteQueue(named("elsewhere"))).unwrap();
    chain.pass(2);
    chain.upkeep(100);
    let all = tasks(&mut chain);
    assert_eq!((all[0].status.as_str(), all[0].moved), ("FAILED", 1));
    assert_eq!(
        all[0].failure.as_deref(),
        Some("AWS.SimpleQueueService.NonExistentQueue")
    );
    assert_eq!(chain.counts("failed"), [2, 0, 0], "nothing is lost");
}

/// It shows QM-1.
#[test]
fn messages_that_came_later_stay_and_ten_tasks_are_remembered() {
    let mut chain = with_letters(2);
    for _ in 0..12 {
        chain.run(start(None, None)).unwrap();
        chain.send("failed", "later");
        chain.pass(1);
        chain.upkeep(100);
        let held = chain.receive("failed", 10);
        assert_eq!(
            held.iter().map(|it| it.body.as_str()).collect::<Vec<_>>(),
            ["later"]
        );
        for message in held {
            chain.delete("failed", &message.handle).unwrap();
        }
    }
    assert_eq!(tasks(&mut chain).len(), 10);
    assert_eq!(chain.counts(Q), [2, 0, 0]);
}

#[test]
fn between_chains_a_task_goes_by_steps() {
    let mut here = with_letters(5);
    here.id = fader_chain::ChainId(1);
    let mut there = Chain::new(2);
    there.create("elsewhere", &[]).unwrap();
    here.towards = there.place("elsewhere");
    here.run(start(Some("elsewhere"), None)).unwrap();
    here.upkeep(100);
    assert_eq!(here.counts("failed"), [0, 0, 0], "they are hidden");
    finish_steps(&mut here, &mut there);
    assert_eq!(there.counts("elsewhere"), [5, 0, 0]);
    assert_eq!(here.rows_of("failed"), 0);
}
