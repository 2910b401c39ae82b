//! What the service answers and changes.

use std::collections::BTreeMap;

use fader_chain::EntryId;

use super::*;

#[derive(Default)]
struct Memory(BTreeMap<Bytes, Register>);

impl State for Memory {
    fn register(&self, key: &Bytes) -> Register {
        self.0.get(key).cloned().unwrap_or_default()
    }

    fn pairs(&self) -> u64 {
        self.0
            .values()
            .map(|register| register.pairs().count() as u64)
            .sum()
    }
}

fn add(value: &'static str) -> ElementOp {
    ElementOp::Add {
        group: "a".into(),
        value: value.into(),
    }
}

fn write(key: &'static str, ops: Vec<ElementOp>) -> Write {
    Write {
        key: key.into(),
        ops,
    }
}

/// x has a=1 and a=2 by entry 1.3, y nothing.
fn memory() -> Memory {
    let mut register = Register::default();
    register.merge(&[add("1"), add("2")], Stamp::strong(EntryId::new(1, 3)));
    register.version = EntryId::new(1, 3);
    Memory(BTreeMap::from([("x".into(), register)]))
}

const SERVICE: Service = Service { pairs_max: 3 };

#[track_caller]
fn check(
    conditions: Vec<(Bytes, Condition)>,
    writes: Vec<Write>,
    expected: &(Answer, Option<u64>),
) {
    let request = Request {
        conditions,
        reads: Vec::new(),
        writes: writes.clone(),
    };
    let decision = SERVICE.decide(&request, &memory());
    let is_done = matches!(decision.answer, Answer::Done(_));
    assert_eq!(decision.writes, if is_done { writes } else { Vec::new() });
    assert_eq!(&(decision.answer, decision.pairs), expected);
}

#[test]
fn conditions() {
    let has = |value: &'static str| Condition::Has {
        group: "a".into(),
        value: value.into(),
    };
    let cases = [
        ("x", Condition::Exists, true),
        ("y", Condition::Exists, false),
        ("x", Condition::Absent, false),
        ("y", Condition::Absent, true),
        ("x", has("1"), true),
        ("x", has("3"), false),
        ("x", Condition::Version(EntryId::new(1, 3)), true),
        ("x", Condition::Version(EntryId::new(1, 2)), false),
        ("y", Condition::Version(EntryId::ZERO), false),
    ];
    for (key, condition, holds) in cases {
        let expected = match holds {
            true => (Answer::Done(Vec::new()), Some(3)),
            false => (Answer::ConditionFailed, None),
        };
        check(
            vec![(key.into(), condition)],
            vec![write("y", vec![add("1")])],
            &expected,
        );
    }
}

#[test]
fn a_limit_refuses_the_whole_request_but_not_what_shrinks() {
    let too_many = write("x", vec![add("3"), add("4")]);
    let fits = write("y", vec![add("1")]);
    check(
        Vec::new(),
        vec![fits, too_many],
        &(Answer::LimitExceeded, None),
    );
    let replaced = write("x", vec![ElementOp::ClearAll, add("9")]);
    check(
        Vec::new(),
        vec![replaced],
        &(Answer::Done(Vec::new()), Some(1)),
    );
}

#[test]
fn a_request_reads_before_it_writes() {
    let request = Request {
        conditions: Vec::new(),
        reads: vec!["x".into(), "y".into()],
        writes: vec![write("x", vec![ElementOp::ClearAll])],
    };
    let decision = SERVICE.decide(&request, &memory());
    let pairs = vec![("a".into(), "1".into()), ("a".into(), "2".into())];
    assert_eq!(decision.answer, Answer::Done(vec![pairs, Vec::new()]));
    assert_eq!(decision.pairs, Some(0));
}

#[test]
fn settling_counts_under_the_operations_own_stamp() {
    let older = Stamp::strong(EntryId::new(1, 2));
    let newer = Stamp::strong(EntryId::new(1, 4));
    let settle = |ops: &[ElementOp], stamp| SERVICE.settle(&"x".into(), ops, stamp, &memory());
    assert_eq!(settle(&[ElementOp::ClearAll], older), Some(2));
    assert_eq!(settle(&[ElementOp::ClearAll], newer), Some(0));
    assert_eq!(settle(&[add("3")], older), Some(3));
    assert_eq!(settle(&[add("3"), add("4")], older), None);
}

#[test]
fn answers_are_read_as_they_were_written() {
    let pairs = vec![("a".into(), "1".into()), ("b".into(), Bytes::new())];
    let answers = [
        Answer::Done(Vec::new()),
        Answer::Done(vec![pairs, Vec::new()]),
        Answer::ConditionFailed,
        Answer::LimitExceeded,
    ];
    for answer in answers {
        let bytes = answer.encode();
        assert_eq!(Answer::decode(bytes.clone()), Ok(answer));
        assert!(Answer::decode(bytes.slice(..bytes.len() - 1)).is_err());
    }
    assert!(Answer::decode(Bytes::from_static(&[9])).is_err());
}
