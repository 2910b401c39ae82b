//! Lists in pages: prefixes, delimiters, markers.

use super::fixture::*;
use crate::s3::Code;
use crate::s3::command::{Command, List};
use crate::s3::reply::Entry;

fn names(world: &mut World, list: List) -> Vec<String> {
    let page = world.page(Command::ListObjects(list));
    page.entries.iter().map(|it| it.name().to_owned()).collect()
}

fn after(list: List, key: &str) -> List {
    List {
        after: Some(key.to_owned()),
        ..list
    }
}

#[test]
fn keys_come_in_the_order_of_their_bytes() {
    let mut world = World::new();
    for key in ["b", "a", "a\u{1}", "a/", "ä", "B", "\u{10000}", "\u{ffff}"] {
        world.put(key, "x");
    }
    let expected = ["B", "a", "a\u{1}", "a/", "b", "ä", "\u{ffff}", "\u{10000}"];
    assert_eq!(names(&mut world, list_of("", "")), expected);
    let page = world.page(Command::ListVersions(list_of("", "")));
    let shown: Vec<&str> = page.entries.iter().map(Entry::name).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_marker_that_ends_a_common_prefix_passes_all_of_it() {
    let mut world = World::new();
    for key in ["a", "b/1", "b/2", "c"] {
        world.put(key, "x");
    }
    let list = || list_of("", "/");
    assert_eq!(names(&mut world, list()), ["a", "b/", "c"]);
    assert_eq!(names(&mut world, after(list(), "b/")), ["c"]);
    assert_eq!(names(&mut world, after(list(), "b/1")), ["b/", "c"]);
    assert_eq!(names(&mut world, after(list(), "a")), ["b/", "c"]);
    assert_eq!(
        names(&mut world, after(list_of("b/", ""), "a")),
        ["b/1", "b/2"]
    );
    assert!(names(&mut world, after(list_of("b/", ""), "c")).is_empty());
}

#[test]
fn a_delimiter_may_be_long_and_begins_after_the_prefix() {
    let mut world = World::new();
    for key in ["x--1--2", "x--3", "x-4"] {
        world.put(key, "x");
    }
    assert_eq!(names(&mut world, list_of("", "--")), ["x--", "x-4"]);
    assert_eq!(names(&mut world, list_of("x--", "--")), ["x--1--", "x--3"]);
}

#[test]
fn a_page_has_so_many_entries_at_most_and_says_whether_there_are_more() {
    let mut world = World::new();
    world.limits.page_entries = 3;
    for key in ["a", "b", "c"] {
        world.put(key, "x");
    }
    let of = |count| {
        Command::ListObjects(List {
            count,
            ..list_of("", "")
        })
    };
    let page = world.page(of(None));
    assert_eq!((page.entries.len(), page.next), (3, None));
    world.put("d", "x");
    let page = world.page(of(Some(5000)));
    assert_eq!(page.entries.len(), 3);
    assert_eq!(page.next.unwrap().0, "c");
    let page = world.page(of(Some(0)));
    assert_eq!((page.entries.len(), page.next), (0, None));
}

#[test]
fn versions_are_listed_in_pages_of_any_size() {
    let mut world = World::new();
    world.put("a", "null");
    world.versioning(crate::s3::settings::Versioning::Enabled);
    for body in ["1", "2", "3"] {
        world.put("a", body);
        world.put("a/b", body);
    }
    world.delete("a", None).unwrap();
    world.put("b", "1");
    let whole = world.page(Command::ListVersions(list_of("", "")));
    assert_eq!(whole.entries.len(), 9);
    let latest = whole.entries.iter().map(|entry| match entry {
        Entry::Version { is_latest, .. } => *is_latest,
        _ => false,
    });
    let latest: Vec<bool> = latest.collect();
    assert_eq!(
        latest,
        [true, false, false, false, false, true, false, false, true]
    );
    for count in 1..=9 {
        let mut list = List {
            count: Some(count),
            ..list_of("", "")
        };
        let mut found = Vec::new();
        loop {
            let page = world.page(Command::ListVersions(list.clone()));
            assert!(page.entries.len() <= count);
            found.extend(page.entries);
            let Some((key, id)) = page.next else { break };
            (list.after, list.after_id) = (Some(key), id);
        }
        assert_eq!(found, whole.entries, "pages of {count}");
    }
    let null = List {
        after_id: Some("null".to_owned()),
        ..after(list_of("", ""), "a")
    };
    let page = world.page(Command::ListVersions(null));
    assert_eq!(page.entries.len(), 4);
    let wrong = List {
        after_id: Some("?".to_owned()),
        ..after(list_of("", ""), "a")
    };
    assert_eq!(
        world.code(Command::ListVersions(wrong)),
        Code::InvalidArgument
    );
}
