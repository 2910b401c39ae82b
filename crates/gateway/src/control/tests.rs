//! Refusals of orders: status and body.

use fader_services::{Reason, ViewError};

use super::*;

/// Status and body of a refusal.
fn told(failure: impl Into<Failure>) -> (u16, Value) {
    let failure = failure.into();
    (failure.status().as_u16(), failure.body())
}

#[tokio::test]
async fn a_refusal_has_the_status_of_its_code() {
    let panicked = tokio::spawn(async { panic!("on purpose") });
    let panicked = panicked.await.unwrap_err();
    let cluster = |code| ClusterError {
        code,
        context: "n2 does not run".to_owned(),
    };
    let outage = Refusal::Unavailable(Reason::NoMember.into());
    for ((status, body), expected) in [
        (told(panicked), (500, "internal")),
        (
            told(cluster(ErrorCode::StateConflict)),
            (409, "state-conflict"),
        ),
        (told(cluster(ErrorCode::NotFound)), (404, "not-found")),
        (told(cluster(ErrorCode::DataDamaged)), (409, "data-damaged")),
        (
            told(Refusal::KeyExists("AKIA".to_owned())),
            (409, "already-exists"),
        ),
        (
            told(Refusal::View(ViewError::Engine {
                context: "damage".to_owned(),
            })),
            (500, "store-unreadable"),
        ),
        (told(outage), (503, "no-member")),
    ] {
        assert_eq!((status, body["code"].as_str().unwrap()), expected, "{body}");
        assert!(
            body["error"].is_string() && body["do"].is_string(),
            "{body}"
        );
    }
}
