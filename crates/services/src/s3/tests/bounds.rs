//! What a list reads: at most 3 rows for each entry that it returns, and 64.

use super::fixture::*;
use crate::s3::command::{Command, List};
use crate::s3::layout::{Keys, encode};
use crate::s3::rows::{Object, Source, State, Version, VersionId};

fn check(world: &mut World, command: Command, expected: usize) {
    let page = world.page(command);
    let (rows, tables) = world.rows.take();
    assert_eq!(page.entries.len(), expected);
    assert!(rows <= 3 * expected + 64, "{rows} rows: {tables}");
}

fn version(number: u64, state: State) -> Version {
    Version {
        number,
        id: VersionId::Named((number, 1)),
        modified_ms: START,
        noncurrent_ms: 0,
        state,
    }
}

fn object(attempt: u128) -> State {
    State::Object(Box::new(Object {
        size: 1,
        etag: String::new(),
        checksum: None,
        metadata: crate::s3::rows::Metadata::default(),
        parts: 0,
        source: Source::Inline(attempt),
        owner: String::new(),
        acl: None,
    }))
}

/// Puts rows without deciding each put: of the key `current` object, and older versions.
fn fill(world: &mut World, key: &str, has_current: bool, older: u64) {
    let keys = Keys(world.collection(B).unwrap());
    let mut changes = Vec::new();
    let mut put = |key, version: &Version| {
        let value = encode(version);
        changes.push(fader_chain::Change::Put { key, value });
    };
    if has_current {
        put(keys.current(key), &version(older + 1, object(0)));
    }
    for number in 1..=older {
        let state = match number == older && !has_current {
            true => State::Marker,
            false => object(u128::from(number)),
        };
        put(keys.version(key, number), &version(number, state));
    }
    world.apply(&changes);
}

/// It shows SS-1.
#[test]
fn a_list_seeks_past_each_common_prefix() {
    let mut world = World::new();
    for folder in 0..20 {
        for file in 0..1_000 {
            fill(&mut world, &format!("{folder:02}/{file:04}"), true, 0);
        }
    }
    check(&mut world, Command::ListObjects(list_of("", "/")), 20);
    check(&mut world, Command::ListVersions(list_of("", "/")), 20);
    check(&mut world, Command::ListObjects(list_of("03/", "/")), 1_000);
    let two = List {
        count: Some(2),
        after: Some("07/".to_owned()),
        ..list_of("", "/")
    };
    check(&mut world, Command::ListObjects(two), 2);
}

/// It shows BLAYOUT-1.
#[test]
fn a_list_of_objects_reads_no_older_version_and_no_delete_marker() {
    let mut world = World::versioned();
    for number in 0..20 {
        fill(&mut world, &format!("deleted-{number}"), false, 1_000);
        fill(&mut world, &format!("there-{number}"), true, 1_000);
    }
    check(&mut world, Command::ListObjects(list_of("", "")), 20);
    check(&mut world, Command::ListObjects(list_of("deleted", "")), 0);
    check(&mut world, Command::ListVersions(list_of("", "")), 1_000);
    check(&mut world, Command::ListVersions(list_of("", "-")), 2);
}

#[test]
fn a_list_reads_no_bytes_and_no_blocks() {
    let mut world = World::new();
    for number in 0..50 {
        world.put(&format!("{number:02}"), "body");
    }
    world.page(Command::ListObjects(list_of("", "")));
    let (_, tables) = world.rows.take();
    assert!(!tables.contains('T'), "{tables}");
}

#[test]
fn a_list_of_uploads_meets_no_completed_one() {
    let mut world = World::new();
    for _ in 0..100 {
        let upload = world.upload("key");
        let part = world.part(&upload, 1, inline("x")).unwrap();
        world.complete(&upload, &[part]).unwrap();
    }
    world.upload("key");
    check(&mut world, Command::ListUploads(list_of("", "")), 1);
}
