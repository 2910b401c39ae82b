//! Objects are put, found, deleted and tagged, under conditions and with versions.

use super::fixture::*;
use crate::s3::command::*;
use crate::s3::conditions::*;
use crate::s3::reply::{Deleted, Piece, Reply};
use crate::s3::rows::*;
use crate::s3::settings::Versioning;
use crate::s3::{Action, Code, Condition};

fn etags(etag: &str) -> Option<Etags> {
    Some(Etags::Of(vec![etag.to_owned()]))
}

#[test]
fn an_object_is_found_with_all_that_was_given() {
    let mut world = World::new();
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let metadata = Metadata {
        headers: pair("content-type", "text/plain"),
        user: pair("colour", "blue"),
        tags: pair("team", "a"),
    };
    let checksum = Checksum {
        algorithm: Algorithm::Crc32c,
        value: "AAAAAA==".to_owned(),
        is_composite: false,
    };
    let put = world
        .put_with("key", inline("hello"), |put| {
            put.metadata = metadata.clone();
            put.checksum = Some(checksum.clone());
        })
        .unwrap();
    assert_eq!(put.version, None);
    let found = world.get_with("key", None, Extent::Nothing).unwrap();
    let object = found.object().unwrap();
    assert_eq!((object.size, &object.etag), (5, &put.etag));
    assert_eq!(object.metadata, metadata);
    assert_eq!(object.checksum, Some(checksum));
    assert_eq!(found.version.modified_ms, START);
    assert!(found.extent.pieces.is_empty());
    assert_eq!(world.body("key", None), Ok("hello".to_owned()));
    assert_eq!(world.body("none", None), Err(Code::NoSuchKey));
}

#[test]
fn blocks_are_named_from_a_byte_on_so_many_at_once() {
    let mut world = World::new();
    world.limits.read_blocks = 2;
    let ids = [1, 2, 3, 4, 5];
    world.put_with("key", blocks(&ids), |_| {}).unwrap();
    let found = world.get_with("key", None, Extent::From(1500)).unwrap();
    let named = |pieces: &[Piece]| -> Vec<u128> {
        let ids = pieces.iter().map(|piece| match piece {
            Piece::Block(block) => block.id,
            Piece::Inline(_) => 0,
        });
        ids.collect()
    };
    assert_eq!(named(&found.extent.pieces), [2, 3]);
    assert_eq!((found.extent.at, found.extent.next), (1000, Some(3000)));
    let found = world.get_with("key", None, Extent::From(3000)).unwrap();
    assert_eq!(named(&found.extent.pieces), [4, 5]);
    assert_eq!((found.extent.at, found.extent.next), (3000, None));
    let found = world.get_with("key", None, Extent::Part(1, 4999)).unwrap();
    assert_eq!(found.extent.part, Some((0, 5000)));
    assert_eq!(named(&found.extent.pieces), [5]);
    let refused = world.get_with("key", None, Extent::Part(2, 0));
    assert_eq!(refused.unwrap_err().code, Code::InvalidPartNumber);
}

#[test]
fn a_put_is_refused_when_its_condition_does_not_hold() {
    let mut world = World::new();
    let none = WriteConditions {
        if_none_match: true,
        ..WriteConditions::default()
    };
    let is = |etag: &str| WriteConditions {
        if_match: etags(etag),
        ..WriteConditions::default()
    };
    let any = WriteConditions {
        if_match: Some(Etags::Any),
        ..WriteConditions::default()
    };
    let missing = world.put_if("key", is("x")).unwrap_err();
    assert_eq!(missing.code, Code::NoSuchKey);
    assert_eq!(
        world.put_if("key", any.clone()).unwrap_err().code,
        Code::NoSuchKey
    );
    let first = world.put_if("key", none.clone()).unwrap();
    let error = world.put_if("key", none.clone()).unwrap_err();
    assert_eq!(error.code, Code::PreconditionFailed);
    assert_eq!(error.condition, Some(Condition::IfNoneMatch));
    let error = world.put_if("key", is("other")).unwrap_err();
    assert_eq!(error.condition, Some(Condition::IfMatch));
    world.put_if("key", is(&first.etag)).unwrap();
    world.put_if("key", any).unwrap();
    world.versioning(Versioning::Enabled);
    world.delete("key", None).unwrap();
    let missing = world.put_if("key", is(&first.etag)).unwrap_err();
    assert_eq!(missing.code, Code::NoSuchKey);
    world.put_if("key", none).unwrap();
}

#[test]
fn conditions_of_a_read_come_in_their_order() {
    let mut world = World::new();
    let etag = world.put("key", "x").etag;
    let mut get = |conditions| {
        let get = GetObject {
            bucket: B.to_owned(),
            key: "key".to_owned(),
            version: None,
            conditions,
            extent: Extent::Nothing,
            action: Action::GetObject,
        };
        let told = world.run(Command::GetObject(get));
        told.map(drop)
            .map_err(|error| (error.code, error.condition))
    };
    let none = ReadConditions::default;
    let failed = |condition| Err((Code::PreconditionFailed, Some(condition)));
    let same = |condition| Err((Code::NotModified, Some(condition)));
    let told = get(ReadConditions {
        if_match: etags("other"),
        ..none()
    });
    assert_eq!(told, failed(Condition::IfMatch));
    let told = get(ReadConditions {
        if_match: etags(&etag),
        if_unmodified_since_ms: Some(0),
        ..none()
    });
    assert_eq!(told, Ok(()));
    let told = get(ReadConditions {
        if_unmodified_since_ms: Some(START - 1000),
        ..none()
    });
    assert_eq!(told, failed(Condition::IfUnmodifiedSince));
    let told = get(ReadConditions {
        if_none_match: etags(&etag),
        if_modified_since_ms: Some(0),
        ..none()
    });
    assert_eq!(told, same(Condition::IfNoneMatch));
    let told = get(ReadConditions {
        if_none_match: etags("other"),
        if_modified_since_ms: Some(START),
        ..none()
    });
    assert_eq!(told, Ok(()));
    let told = get(ReadConditions {
        if_modified_since_ms: Some(START),
        ..none()
    });
    assert_eq!(told, same(Condition::IfModifiedSince));
}

#[test]
fn a_deletion_has_conditions_by_etag_size_and_time() {
    let mut world = World::new();
    let none = DeleteConditions::default;
    let is = |etag: &str| DeleteConditions {
        if_match: etags(etag),
        ..none()
    };
    let size = |size| DeleteConditions {
        size: Some(size),
        ..none()
    };
    let at = |ms| DeleteConditions {
        last_modified_ms: Some(ms),
        ..none()
    };
    let error = world.delete_if("key", None, is("x")).unwrap_err();
    assert_eq!(error.code, Code::NoSuchKey);
    world.delete_if("key", None, size(9)).unwrap();
    let etag = world.put("key", "abc").etag;
    for (conditions, condition) in [
        (is("x"), Condition::IfMatch),
        (size(9), Condition::IfMatchSize),
        (at(START + 1000), Condition::IfMatchLastModified),
    ] {
        let error = world.delete_if("key", None, conditions).unwrap_err();
        assert_eq!(error.code, Code::PreconditionFailed);
        assert_eq!(error.condition, Some(condition));
    }
    let all = DeleteConditions {
        if_match: etags(&etag),
        size: Some(3),
        last_modified_ms: Some(START + 999),
    };
    world.delete_if("key", None, all).unwrap();
    assert_eq!(world.body("key", None), Err(Code::NoSuchKey));
}

#[test]
fn versions_are_kept_hidden_by_markers_and_found_by_their_ids() {
    let mut world = World::new();
    world.put("key", "null");
    world.versioning(Versioning::Enabled);
    let one = world.put("key", "one").version;
    let two = world.put("key", "two").version;
    assert_eq!(
        world.body("key", Some(VersionId::Null)),
        Ok("null".to_owned())
    );
    assert_eq!(world.body("key", one), Ok("one".to_owned()));
    let marker = world.delete("key", None).unwrap();
    assert!(marker.is_marker);
    let error = world.get_with("key", None, Extent::Nothing).unwrap_err();
    assert_eq!(
        (error.code, error.marker),
        (Code::NoSuchKey, marker.version)
    );
    let error = world
        .get_with("key", marker.version, Extent::Nothing)
        .unwrap_err();
    assert_eq!(
        (error.code, error.marker),
        (Code::MethodNotAllowed, marker.version)
    );
    let gone = world.delete("key", marker.version).unwrap();
    assert!(gone.is_marker);
    assert_eq!(world.body("key", None), Ok("two".to_owned()));
    world.delete("key", two).unwrap();
    assert_eq!(world.body("key", None), Ok("one".to_owned()));
    assert_eq!(world.body("key", two), Err(Code::NoSuchVersion));
    world.delete("key", two).unwrap();
}

/// It shows SO-1.
#[test]
fn suspended_writes_replace_the_null_version_only() {
    let mut world = World::versioned();
    let kept = world.put("key", "kept").version;
    world.versioning(Versioning::Suspended);
    let null = world.put("key", "first");
    assert_eq!(null.version, None);
    world.put("key", "second");
    let deleted = world.delete("key", None).unwrap();
    let expected = Deleted {
        version: Some(VersionId::Null),
        is_marker: true,
    };
    assert_eq!(deleted, expected);
    let page = world.page(Command::ListVersions(list_of("", "")));
    assert_eq!(page.entries.len(), 2);
    assert_eq!(world.body("key", kept), Ok("kept".to_owned()));
}

#[test]
fn several_are_deleted_each_judged_alone() {
    let mut world = World::new();
    world.put("a", "1");
    world.put("b", "2");
    let of = |key: &str, conditions| Deletion {
        key: key.to_owned(),
        version: None,
        conditions,
    };
    let wrong = DeleteConditions {
        if_match: etags("x"),
        ..DeleteConditions::default()
    };
    let delete = |objects| {
        Command::DeleteObjects(DeleteObjects {
            bucket: B.to_owned(),
            objects,
        })
    };
    let objects = vec![
        of("a", DeleteConditions::default()),
        of("b", wrong),
        of("none", DeleteConditions::default()),
    ];
    let Ok(Reply::DeletedSeveral(told)) = world.run(delete(objects)) else {
        panic!("no reply");
    };
    let told: Vec<bool> = told.iter().map(Result::is_ok).collect();
    assert_eq!(told, [true, false, true]);
    assert_eq!(world.body("a", None), Err(Code::NoSuchKey));
    assert_eq!(world.body("b", None), Ok("2".to_owned()));
    let many = vec![of("a", DeleteConditions::default()); 1001];
    assert_eq!(world.code(delete(many)), Code::MalformedXML);
    assert_eq!(world.code(delete(Vec::new())), Code::MalformedXML);
}

#[test]
fn tags_of_a_version_are_changed_in_place() {
    let mut world = World::versioned();
    let old = world.put("key", "old").version;
    world.put("key", "new");
    let tags = vec![("a".to_owned(), "b".to_owned())];
    let tag = |version, tags: &Pairs| {
        Command::PutObjectTags(PutObjectTags {
            bucket: B.to_owned(),
            key: "key".to_owned(),
            version,
            tags: tags.clone(),
        })
    };
    world.run(tag(old, &tags)).unwrap();
    let mut shown = |version| {
        let found = world.get_with("key", version, Extent::Nothing).unwrap();
        found.object().unwrap().metadata.tags.clone()
    };
    assert_eq!((shown(old), shown(None)), (tags, Pairs::new()));
    let many: Pairs = (0..11).map(|at| (at.to_string(), String::new())).collect();
    assert_eq!(world.code(tag(None, &many)), Code::InvalidTag);
    let system = vec![("aws:a".to_owned(), "b".to_owned())];
    assert_eq!(world.code(tag(None, &system)), Code::InvalidTag);
}

#[test]
fn oversize_input_is_refused() {
    let mut world = World::new();
    let put = |world: &mut World, key: &str, content, user: &str| {
        let told = world.put_with(key, content, |put| {
            put.metadata.user = vec![("a".to_owned(), user.to_owned())];
        });
        told.map(drop).map_err(|error| error.code)
    };
    let key = "k".repeat(1024);
    assert_eq!(put(&mut world, &key, inline("x"), ""), Ok(()));
    let key = "k".repeat(1025);
    let told = put(&mut world, &key, inline("x"), "");
    assert_eq!(told, Err(Code::KeyTooLongError));
    let told = put(&mut world, "k", inline("x"), &"m".repeat(2048));
    assert_eq!(told, Err(Code::MetadataTooLarge));
    let large = inline(&"x".repeat(16_385));
    assert_eq!(put(&mut world, "k", large, ""), Err(Code::InvalidRequest));
    world.limits.put_bytes = 1500;
    let told = put(&mut world, "k", blocks(&[1, 2]), "");
    assert_eq!(told, Err(Code::EntityTooLarge));
}

#[test]
fn ids_of_versions_are_read_as_they_are_shown() {
    for id in [VersionId::Null, VersionId::Named((1, u64::MAX))] {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    for text in ["", "Null", "+000000000000001000000000000000f", "0"] {
        assert!(text.parse::<VersionId>().is_err(), "{text}");
    }
}
