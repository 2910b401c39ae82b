//! HM-4: a head prepares to give its role away, with a write that its followers do not hear of.

use std::sync::Arc;
use std::time::Duration;

use fader_chain::Wiring;
use fader_services::{Call, Reason, counter};
use tokio::sync::oneshot;

use super::super::{Cluster, ClusterSettings};
use crate::member::Member;
use crate::member::pending::{Answer, PendingRequest, RequestResult};
use crate::member::refusal::{Kind, Refusal};
use crate::member::thread::Job;
use crate::settings::Settings;

const MEMBERS: usize = 3;
/// Of sessions that outlast a test.
const LONG: Duration = Duration::from_secs(600);

fn three(folder: &tempfile::TempDir) -> Arc<Cluster> {
    let settings = ClusterSettings {
        size: MEMBERS,
        wiring: Wiring::Star,
        session: LONG,
        delay: Duration::ZERO,
        member: Settings {
            slow_after: LONG,
            ..Settings::new(folder.path().to_owned())
        },
    };
    Cluster::open(settings, |_| {}).unwrap().1
}

/// Asks a head to create a counter.
fn ask(head: &Member, name: &str) -> oneshot::Receiver<Answer<RequestResult>> {
    let create = counter::Request::Create(name.to_owned());
    let call = Arc::new(Call::of_node(create));
    let (reply, answer) = oneshot::channel();
    head.enqueue(Job::Submit(PendingRequest::write(call, None, None, reply)))
        .unwrap();
    answer
}

async fn refusal(answer: oneshot::Receiver<Answer<RequestResult>>) -> Refusal {
    answer.await.unwrap().err().expect("it is not taken")
}

#[tokio::test]
async fn a_head_ends_its_writes_and_takes_no_other_before_its_role_goes() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = three(&folder);
    let head = loop {
        if let Some((_, head)) = cluster.head()
            && ask(&head, "first").await.is_ok_and(|told| told.is_ok())
        {
            break head;
        }
        tokio::task::yield_now().await;
    };
    let (node, names) = (cluster.head().unwrap().0, ["n1", "n2", "n3"]);
    let (here, away) = names
        .map(str::to_owned)
        .into_iter()
        .partition(|name| *name == cluster.name(node));
    cluster.partition(&[here, away]).unwrap();
    let under_way = ask(&head, "under-way");
    assert!(!head.prepares_to_hand_over());
    let told = refusal(ask(&head, "later")).await;
    assert_eq!((told.kind, told.reason), (Kind::Elsewhere, Reason::Moved));
    assert!(!head.prepares_to_hand_over(), "no member has confirmed it");
    cluster.heal();
    assert!(under_way.await.unwrap().unwrap().outcome.is_ok());
    while !head.prepares_to_hand_over() {
        tokio::task::yield_now().await;
    }
    head.keeps_its_role();
    let again = ask(&head, "again").await.unwrap().unwrap();
    assert!(again.outcome.is_ok());
    cluster.close();
}
