//! How a server begins.

use std::cell::Cell;

use fader_services::Reason;

use super::*;

fn no_member() -> Refusal {
    let reason = Reason::NoMember;
    Refusal::Unavailable(reason.into())
}

/// What becomes of a start, and how often it was ready, where looking for a key ends as `ensured`
/// says.
async fn start(ensured: &[Result<(), Refusal>]) -> (Result<()>, usize) {
    let (times_ready, times_ensured) = (Cell::new(0), Cell::new(0));
    let ready = async || {
        times_ready.set(times_ready.get() + 1);
        Ok(())
    };
    let ensure = async || {
        let number = times_ensured.replace(times_ensured.get() + 1);
        Ok(ensured[number].clone()?)
    };
    let begun = until_begun(ready, ensure).await;
    (begun, times_ready.get())
}

#[tokio::test]
async fn a_node_that_stops_serving_before_it_has_a_key_waits_again() {
    let (begun, times) = start(&[Err(no_member()), Err(no_member()), Ok(())]).await;
    begun.unwrap();
    assert_eq!(times, 3);
}

#[tokio::test]
async fn a_key_that_cannot_be_made_ends_the_start() {
    let taken = Refusal::KeyExists("AKIA".to_owned());
    let (begun, times) = start(&[Err(taken)]).await;
    assert_eq!(
        begun.unwrap_err().to_string(),
        "access key AKIA exists already"
    );
    assert_eq!(times, 1);
}
