//! What a refusal of a chain means to the client, and to another process.

use std::sync::Arc;

use fader_chain::{Refusal as Of, RequestId};
use fader_services::Call;
use fader_services::catalog::Command;
use tokio::sync::oneshot;

use super::*;
use crate::member::pending::PendingRequest;

#[test]
fn a_refusal_of_the_chain_names_its_reason_and_the_next_step() {
    let name = RequestId {
        client: 7_u128.into(),
        seq: 1,
        part: 0,
    };
    for (refusal, kind, reason) in [
        (Of::NotHead, Kind::Elsewhere, Reason::NoMember),
        (Of::NotDrained, Kind::Again, Reason::NoMember),
        (Of::Quorum, Kind::Again, Reason::TooFewMembers),
        (Of::Overloaded, Kind::Again, Reason::Overloaded),
        (Of::TooOld(name), Kind::Never, Reason::NameTooOld),
    ] {
        assert_eq!(Refusal::from(refusal), Refusal::new(kind, reason));
    }
}

#[test]
fn a_lone_member_that_does_not_serve_takes_no_writes() {
    let alone = Refusal::from(Of::NotServing).of_lone();
    assert_eq!(alone, Refusal::new(Kind::Again, Reason::NoWrites));
    let queue = Refusal::new(Kind::Elsewhere, Reason::QueueFull).of_lone();
    assert_eq!(queue, Refusal::new(Kind::Again, Reason::QueueFull));
}

#[test]
fn a_write_that_too_few_confirm_in_time_may_have_taken_effect() {
    let (reply, mut told) = oneshot::channel();
    let call = Arc::new(Call::of_node(Command::Confirm));
    PendingRequest::write(call, None, None, reply).miss(None);
    let refused = told.try_recv().unwrap().unwrap().outcome.unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::Unconfirmed));
    let words = "too few members confirmed it in time; it is not known whether the write took \
                 effect";
    assert_eq!(refused.to_string(), words);
}

#[test]
fn another_process_is_told_the_reason() {
    for reason in Reason::ALL {
        let refusal = Refusal::new(Kind::Elsewhere, reason);
        let told = Refusal::told(&Unavailable::from(&refusal).into());
        assert_eq!((told.kind, told.reason), (Kind::Elsewhere, reason));
    }
    let full = Refusal::of_health(
        Kind::Again,
        &HealthCause::Full {
            context: "no space left on device".to_owned(),
        },
    );
    assert_eq!(full.to_string(), "no space left on device");
    assert_eq!(
        Refusal::told(&Unavailable::from(&full).into()).reason,
        Reason::Store
    );
}

#[test]
fn what_one_member_may_have_done_is_unknown_though_another_did_nothing() {
    let lost = Refusal::new(Kind::Unknown, Reason::Lost);
    let moved = Refusal::new(Kind::Elsewhere, Reason::Moved);
    assert_eq!(lost.clone().then(moved.clone()), lost);
    assert_eq!(moved.clone().then(lost.clone()), lost);
    let none = Refusal::new(Kind::Elsewhere, Reason::NoMember);
    assert_eq!(none.then(moved.clone()), moved);
}
