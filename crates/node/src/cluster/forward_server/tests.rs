//! Requests of other processes that may wait, and whose askers' clients go.

use std::sync::atomic::{AtomicUsize, Ordering};

use fader_services::{Call, counter};
use tokio::sync::Notify;

use super::*;

const OF: (NodeId, u64) = (NodeId(1), 7);
const PATIENCE: Duration = Duration::from_secs(600);

/// What becomes of the request that the server was asked to carry out.
#[derive(Default)]
struct Fate {
    poll: Mutex<Option<Arc<Poll>>>,
    may_answer: Notify,
    answered: AtomicUsize,
}

/// A server at which a request that may wait has arrived; with the end of what carries it out.
fn asked() -> (ForwardServer, Arc<Fate>, tokio::sync::oneshot::Receiver<()>) {
    let server = ForwardServer::new(Handle::current());
    let fate = Arc::new(Fate::default());
    let (carried, ended) = tokio::sync::oneshot::channel();
    let carried = Mutex::new(Some(carried));
    let of_host = Arc::clone(&fate);
    let host: Host = Box::new(move |_, asked| {
        let (fate, carried) = (Arc::clone(&of_host), carried.lock().take());
        Box::pin(async move {
            let ForwardedRequest::Request(call) = asked else {
                panic!("a request");
            };
            *fate.poll.lock() = call.poll;
            fate.may_answer.notified().await;
            fate.answered.fetch_add(1, Ordering::Relaxed);
            drop(carried);
            ForwardedReply::Why(Vec::new())
        })
    });
    assert!(server.host.set(host).is_ok());
    let wait = counter::Request::Wait {
        name: "a".to_owned(),
        least: 1,
        until_ms: 0,
    };
    let asked = ForwardedRequest::Request(Call::of_node(wait));
    let reply = Reply::to_no_member(OF);
    server.serve(ChainId(1), asked, PATIENCE, reply);
    (server, fate, ended)
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
    let (server, fate, ended) = asked();
    poll_of(&fate).await.note_waits();
    server.withdraw(OF.0, Some(OF.1 + 1));
    server.withdraw(OF.0, Some(OF.1));
    assert!(ended.await.is_err(), "it is carried out no more");
    assert_eq!(fate.answered.load(Ordering::Relaxed), 0);
    while !server.waiting.lock().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_whose_client_went_before_ends_as_soon_as_it_is_to_wait() {
    let (server, fate, mut ended) = asked();
    server.withdraw(OF.0, None);
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
async fn messages_of_a_half_closed_client_are_answered() {
    let (server, fate, ended) = asked();
    poll_of(&fate).await;
    server.withdraw(OF.0, Some(OF.1));
    fate.may_answer.notify_one();
    assert!(ended.await.is_err());
    assert_eq!(fate.answered.load(Ordering::Relaxed), 1);
}
