//! Requests of other processes that may wait, and whose askers' clients go.

use std::sync::atomic::{AtomicUsize, Ordering};

use fader_services::{Call, counter};
use tokio::sync::Notify;

use super::*;

const OF: (NodeId, u64) = (NodeId(1), 7);
const PATIENCE: Duration = Duration::from_secs(600);

/// What becomes of the request that the door was asked to carry out.
#[derive(Default)]
struct Fate {
    poll: Mutex<Option<Arc<Poll>>>,
    may_answer: Notify,
    answered: AtomicUsize,
}

/// A door at which a request that may wait has arrived; with the end of what carries it out.
fn asked() -> (Door, Arc<Fate>, tokio::sync::oneshot::Receiver<()>) {
    let door = Door::new(Handle::current());
    let fate = Arc::new(Fate::default());
    let (carried, ended) = tokio::sync::oneshot::channel();
    let carried = Mutex::new(Some(carried));
    let of_host = Arc::clone(&fate);
    let host: Host = Box::new(move |_, asked| {
        let (fate, carried) = (Arc::clone(&of_host), carried.lock().take());
        Box::pin(async move {
            let Asked::Request(call) = asked else {
                panic!("a request");
            };
            *fate.poll.lock() = call.poll;
            fate.may_answer.notified().await;
            fate.answered.fetch_add(1, Ordering::Relaxed);
            drop(carried);
            Told::Why(Vec::new())
        })
    });
    assert!(door.host.set(host).is_ok());
    let wait = counter::Request::Wait {
        name: "a".to_owned(),
        least: 1,
        until_ms: 0,
    };
    let asked = Asked::Request(Call::of_node(wait));
    let reply = Reply::to_nobody(OF);
    door.serve(ChainId(1), asked, PATIENCE, reply);
    (door, fate, ended)
}

async fn poll_of(fate: &Fate) -> Arc<Poll> {
    loop {
        if let Some(poll) = fate.poll.lock().clone() {
            return poll;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_that_waits_ends_when_its_client_goes() {
    let (door, fate, ended) = asked();
    poll_of(&fate).await.note_waits();
    door.withdraw(OF.0, Some(OF.1 + 1));
    door.withdraw(OF.0, Some(OF.1));
    assert!(ended.await.is_err(), "it is carried out no more");
    assert_eq!(fate.answered.load(Ordering::Relaxed), 0);
    while !door.waiting.lock().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_whose_client_went_before_ends_as_soon_as_it_is_to_wait() {
    let (door, fate, mut ended) = asked();
    door.withdraw(OF.0, None);
    let poll = poll_of(&fate).await;
    tokio::task::yield_now().await;
    assert!(
        ended
            .try_recv()
            .is_err_and(|it| it == tokio::sync::oneshot::error::TryRecvError::Empty)
    );
    poll.note_waits();
    assert!(ended.await.is_err());
    assert_eq!(fate.answered.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_is_there_is_answered_though_its_client_sends_no_more() {
    let (door, fate, ended) = asked();
    poll_of(&fate).await;
    door.withdraw(OF.0, Some(OF.1));
    fate.may_answer.notify_one();
    assert!(ended.await.is_err());
    assert_eq!(fate.answered.load(Ordering::Relaxed), 1);
}
