//! The map answers as the contract of `View` says.

use fader_chain::EntryId;

use super::*;

fn filled() -> MapView {
    let mut view = MapView::default();
    let put = |key: &'static str| Change::Put {
        key: key.into(),
        value: key.into(),
    };
    let under = ApplyContext::strong(EntryId::new(1, 1));
    view.apply(&[put("b"), put("a"), put("c"), put("d")], &under)
        .unwrap();
    view
}

fn scanned(view: &MapView, start: &str, end: &str, direction: Direction) -> String {
    let pairs = view.scan(start.as_bytes(), end.as_bytes(), direction);
    pairs
        .map(|pair| String::from_utf8(pair.unwrap().0.to_vec()).unwrap())
        .collect()
}

#[test]
fn scans_start_to_end_excluded_in_both_directions() {
    let view = filled();
    for (start, end, forward) in [
        ("a", "c", "ab"),
        ("", "z", "abcd"),
        ("bb", "d", "c"),
        ("c", "c", ""),
        ("d", "a", ""),
    ] {
        assert_eq!(scanned(&view, start, end, Direction::Forward), forward);
        let backward: String = forward.chars().rev().collect();
        assert_eq!(scanned(&view, start, end, Direction::Backward), backward);
    }
}

#[test]
fn applies_in_order() {
    let mut view = filled();
    let changes = [
        Change::Remove { key: "a".into() },
        Change::Put {
            key: "b".into(),
            value: "new".into(),
        },
        Change::Remove {
            key: "absent".into(),
        },
    ];
    let under = ApplyContext::strong(EntryId::new(1, 2));
    view.apply(&changes, &under).unwrap();
    assert_eq!(view.get(b"a").unwrap(), None);
    assert_eq!(view.get(b"b").unwrap(), Some("new".into()));
    assert_eq!(view.iter().count(), 3);
}
