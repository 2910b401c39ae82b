//! Counter-examples as people see them.

use expect_test::{Expect, expect};

use super::story::{Story, at};
use crate::check::{Fault, every_level, registers, search};
use crate::object::Verb;
use crate::{Rules, Violation, timeline};

fn draw(story: &Story, violation: &Violation, expected: &Expect) {
    let places = violation.operations.iter();
    let operations: Vec<_> = places.map(|at| &story.0.operations[*at]).collect();
    let (text, drawing) = (&violation.explanation, timeline(&operations));
    expected.assert_eq(&format!("{text}\n{drawing}"));
}

fn violation(found: Result<impl std::fmt::Debug, Fault>) -> Violation {
    match found {
        Err(Fault::Violated(violation)) => violation,
        other => panic!("{other:?}"),
    }
}

/// Reads 2, then 1, while both writes were over.
fn back_in_time() -> Story {
    Story::default()
        .write(1, (0, 10), 1)
        .read(3, (11, 12), Some(1))
        .write(2, (20, 30), 2)
        .read(3, (31, 35), Some(2))
        .read(4, (32, 36), Some(2))
        .read(3, (40, 45), Some(1))
}

#[test]
fn registers_show_the_least() {
    let story = back_in_time();
    let found = violation(registers(&story.0, &every_level, &Rules::default()));
    draw(
        &story,
        &found,
        &expect![[r#"
            x: 1 was complete before the last call of 2, and 2 of 1
            c1  |--|                    write x 1 => done  0.000ms to 0.010ms
            c2        |--|              write x 2 => done  0.020ms to 0.030ms
            c4              |--|        read x => 2        0.032ms to 0.036ms
            c3                    |--|  read x => 1        0.040ms to 0.045ms
        "#]],
    );
}

#[test]
fn the_search_shows_the_least() {
    let story = back_in_time();
    let found = violation(search(&story.0, &every_level, 1_000, &Rules::default()));
    draw(
        &story,
        &found,
        &expect![[r#"
            x: no order explains the answers: after 2 answers it is 2, and no other answer fits
            c1  |--|              write x 1 => done  0.000ms to 0.010ms
            c2        |--|        write x 2 => done  0.020ms to 0.030ms
            c3              |--|  read x => 1        0.040ms to 0.045ms
        "#]],
    );
}

#[test]
fn an_operation_without_return_is_open() {
    let mut story = Story::default().tried(1, (0, 10), Verb::Write("a\n".into()));
    story.last().end = None;
    let story = story.read(2, (5, 7), None);
    let operations: Vec<_> = story.0.operations.iter().collect();
    expect![[r#"
        c1  |-------->  write x a\n => no answer  0.000ms to never
        c2     |--|     read x => nothing         0.005ms to 0.007ms
    "#]]
    .assert_eq(&timeline(&operations));
    assert_eq!(at(5).to_string(), "0.005ms");
}
