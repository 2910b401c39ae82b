//! From replies to outcomes.

use super::*;

#[test]
fn replies_have_outcomes() {
    let heard = |status, is_write| Heard::Status(status, "".into()).outcome(is_write);
    for status in [400, 403, 404, 409, 412, 429] {
        let refused = Outcome::Refused(status.to_string().into());
        assert_eq!(heard(status, true), refused);
        assert_eq!(heard(status, false), refused);
    }
    for status in [408, 500, 503] {
        assert_eq!(heard(status, true), Outcome::Unknown);
        assert_eq!(
            heard(status, false),
            Outcome::Refused(status.to_string().into())
        );
    }
    assert_eq!(Heard::Silence.outcome(true), Outcome::Unknown);
    assert_eq!(
        Heard::Unsent.outcome(true),
        Outcome::Refused("not sent".into())
    );
    assert_eq!(
        Heard::Status(503, "ServiceUnavailable".into()).outcome(false),
        Outcome::Refused("503 ServiceUnavailable".into())
    );
    let reply = Reply::shows(Value::Number(4));
    assert_eq!(
        Heard::Reply(reply.clone()).outcome(false),
        Outcome::Done(reply)
    );
}

#[test]
fn wrong_answers_say_nothing() {
    let mut intent = Intent {
        act: Act::Read,
        key: 3,
        value: Some(4),
        level: 0,
    };
    assert_eq!(intent.outcome(Verdict::Wrong), Outcome::Unknown);
    let shown = Reply::shows(Value::Number(4));
    assert_eq!(
        intent.outcome(Verdict::Right(Some(4))),
        Outcome::Done(shown)
    );
    assert_eq!(intent.request().to_string(), "read item-0000000003");
    intent.act = Act::Write;
    assert_eq!(
        intent.outcome(Verdict::Right(Some(4))),
        Outcome::Done(Reply::default())
    );
    assert_eq!(intent.request().to_string(), "write item-0000000003 4");
}
