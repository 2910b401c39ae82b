//! Registers of one value: small histories with known verdicts.

use super::*;

fn at(micros: u64) -> Moment {
    Moment { micros, step: 0 }
}

fn call(invoked: u64, ended: Option<u64>, action: ValueAction) -> ValueCall {
    ValueCall {
        invoked: at(invoked),
        ended: ended.map(at),
        action,
    }
}

fn write(expected: Option<&str>, value: &str, held: bool) -> ValueAction {
    ValueAction::Write {
        expected: expected.map(str::to_owned),
        value: value.to_owned(),
        held,
    }
}

fn read(value: Option<&str>) -> ValueAction {
    ValueAction::Read(value.map(str::to_owned))
}

fn is_linear(calls: &[ValueCall]) -> bool {
    search_values(calls, 10_000).is_ok_and(|found| found.is_some())
}

#[test]
fn a_chain_of_writes_is_an_order() {
    assert!(is_linear(&[
        call(0, Some(1), write(None, "a", true)),
        call(2, Some(5), write(Some("a"), "b", true)),
        call(3, Some(4), read(Some("a"))),
        call(6, Some(7), write(Some("a"), "c", false)),
        call(8, Some(9), read(Some("b"))),
    ]));
}

#[test]
fn two_writes_with_one_condition_are_none() {
    let calls = [
        call(0, Some(1), write(None, "a", true)),
        call(2, Some(5), write(Some("a"), "b", true)),
        call(2, Some(6), write(Some("a"), "c", true)),
    ];
    assert_eq!(search_values(&calls, 10_000).unwrap_err().len(), 3);
}

#[test]
fn an_old_read_is_none() {
    assert!(!is_linear(&[
        call(0, Some(1), write(None, "a", true)),
        call(2, Some(3), read(None)),
    ]));
}

#[test]
fn an_unknown_write_may_happen_at_any_time_or_never() {
    let unknown = call(0, None, write(None, "a", true));
    assert!(is_linear(std::slice::from_ref(&unknown)));
    for reads in [
        vec![None, None],
        vec![None, Some("a")],
        vec![Some("a"), Some("a")],
    ] {
        let mut calls = vec![unknown.clone()];
        let reads = reads.iter().enumerate();
        calls.extend(reads.map(|(nth, value)| {
            let begin = 10 * (1 + nth as u64);
            call(begin, Some(begin + 1), read(*value))
        }));
        assert!(is_linear(&calls), "{calls:?}");
    }
    assert!(!is_linear(&[
        unknown,
        call(10, Some(11), read(Some("a"))),
        call(20, Some(21), read(None)),
    ]));
}

#[test]
fn a_refusal_needs_another_value() {
    assert!(!is_linear(&[
        call(0, Some(1), write(None, "a", true)),
        call(2, Some(3), write(Some("a"), "b", false)),
    ]));
}
