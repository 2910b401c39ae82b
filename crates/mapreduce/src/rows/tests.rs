//! Names of tasks, and what a row says.

use super::*;

#[test]
fn a_task_is_read_as_it_is_written() {
    for phase in Phase::ALL {
        for number in [0, 17, 123_456] {
            let task = Task { phase, number };
            assert_eq!(Task::parse(&task.to_string()), Some(task));
        }
    }
    for text in ["m-1", "x-00001", "m00001", "m-00001 ", ""] {
        assert_eq!(Task::parse(text), None, "{text:?}");
    }
}

#[test]
fn an_attempt_is_lost_when_nothing_is_known_of_it() {
    let attribute = |(name, value): (&str, &str)| Attribute {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let pairs = [
        ("started", "a"),
        ("started", "b"),
        ("started", "c"),
        ("started", "d"),
        ("failed", "a"),
        ("ended", "b"),
    ];
    let row = Row::parse(pairs.map(attribute).to_vec());
    assert_eq!(row.lost(), 1, "c was followed by d");
    assert_eq!(row.failed.len(), 1);
}
