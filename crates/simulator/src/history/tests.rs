//! A history in words.

use expect_test::{Expect, expect};

use super::*;

fn check(shown: &impl std::fmt::Display, expected: &Expect) {
    expected.assert_eq(&shown.to_string());
}

fn at(micros: u64, step: u64) -> Moment {
    Moment {
        nanos: micros * 1_000,
        step,
    }
}

#[test]
fn a_call_with_its_reply() {
    let add = ElementOp::Add {
        group: "a".into(),
        value: "1".into(),
    };
    let mut call = Call {
        client: 3,
        session: Some(1),
        name: None,
        borrowed: None,
        node: NodeId(2),
        invoked: at(1_204, 17),
        level: Level::Strong,
        request: Request {
            conditions: vec![("x".into(), Condition::Absent)],
            reads: Vec::new(),
            writes: vec![Write {
                key: "x".into(),
                ops: vec![ElementOp::ClearAll, add.clone()],
            }],
        },
        end: None,
    };
    check(
        &call,
        &expect!["1.204ms#17 c3/s1 asks n2: strong if x absent, put x [clear +a=1] => no answer"],
    );
    let mut register = Register::default();
    register.merge(
        &[ElementOp::ClearAll, add],
        Stamp::strong(EntryId::new(1, 7)),
    );
    call.level = Level::Eventual {
        quorum: 2,
        sloppy: false,
    };
    call.request = Request {
        reads: vec!["x".into()],
        ..Request::default()
    };
    let reply = Reply::Shown {
        epoch: 1,
        commit: EntryId::new(1, 7),
        safe_point: EntryId::ZERO,
        registers: vec![Shown {
            key: "x".into(),
            register,
            tentative: true,
        }],
    };
    check(
        &reply,
        &expect!["shows at 1.7 (epoch 1, safe point 0.0): x {!@1.7 a=1@1.7} tentative"],
    );
    call.end = Some((at(2_000, 20), Outcome::Unknown));
    check(
        &call,
        &expect!["1.204ms#17 c3/s1 asks n2: eventual(2) get x => 2.000ms#20 unknown"],
    );
}

#[test]
fn member_behavior() {
    let fact = Fact::Stamped(Stamping {
        shown: Stamp::ZERO,
        node: NodeId(1),
        lease: false,
        name: RequestId {
            client: 10_u128.into(),
            seq: 4,
            part: 0,
        },
        stamp: Stamp {
            base: EntryId::new(1, 2),
            clock: 900,
            node: 1,
            counter: 0,
        },
        accept: EntryId::new(1, 3),
        key: "x".into(),
        ops: vec![ElementOp::Remove {
            group: "a".into(),
            value: "\u{1}".into(),
        }],
    });
    check(
        &Event { at: at(5, 6), fact },
        &expect![[
            r"0.005ms#6 n1 stamps a:4 @1.2+900n1/0: x [-a=\x01], log to 1.3, without a lease"
        ]],
    );
}
