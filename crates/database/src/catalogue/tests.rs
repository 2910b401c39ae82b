//! The catalogue's bytes are frozen, and bad ones are refused.

use expect_test::expect;

use super::*;

fn sample() -> Catalogue {
    let mut catalogue = Catalogue::new(0xDB);
    let collection = Collection::new(&CollectionSettings::default(), None, || {
        (CollectionId(5), PageId(9))
    });
    let added = catalogue.add("books", collection.expect("valid settings"));
    added.expect("a valid name");
    catalogue
}

#[test]
fn the_bytes_are_frozen() {
    let text = String::from_utf8(sample().encode().to_vec()).expect("JSON is text");
    expect![[r#"
        {
          "format": 3,
          "database": "00000000000000db",
          "collections": {
            "books": {
              "id": "0000000000000005",
              "minimum": "basic",
              "queues": 1,
              "leaf_bytes": 100000,
              "node_bytes": 57000,
              "root": "00000000000000000000000000000009"
            }
          }
        }"#]]
    .assert_eq(&text);
    assert_eq!(
        Catalogue::decode(text.as_bytes()).expect("its own bytes"),
        sample()
    );
}

#[test]
fn a_store_without_conditions_is_in_the_bytes() {
    let mut catalogue = sample();
    catalogue.is_timed = true;
    let text = String::from_utf8(catalogue.encode().to_vec()).expect("JSON is text");
    assert!(text.contains("\"is_timed\": true"), "{text}");
    let read = Catalogue::decode(text.as_bytes()).expect("its own bytes");
    assert_eq!(read, catalogue);
}

#[test]
fn a_newer_format_and_foreign_bytes_are_refused_by_name() {
    let newer = Catalogue::decode(br#"{"format": 4, "unknown": true}"#).expect_err("newer");
    assert!(newer.to_string().contains("format 4"), "{newer}");
    for foreign in [&b"<html>"[..], b"", b"{}", b"[1]"] {
        let refused = Catalogue::decode(foreign).expect_err("foreign");
        assert_eq!(refused.kind, ErrorKind::Malformed);
    }
    let text = String::from_utf8(sample().encode().to_vec()).expect("JSON is text");
    for (from, to) in [
        ("\"leaf_bytes\": 100000", "\"leaf_bytes\": 1"),
        ("0000009\"", "x\""),
    ] {
        let damaged = text.replace(from, to);
        assert_ne!(damaged, text);
        assert!(Catalogue::decode(damaged.as_bytes()).is_err(), "{damaged}");
    }
}

#[test]
fn names_and_settings_have_bounds() {
    let collection = |settings: &CollectionSettings| {
        Collection::new(settings, None, || (CollectionId(1), PageId(1)))
    };
    let good = collection(&CollectionSettings::default()).expect("the defaults");
    for name in ["", "a\nb", &"n".repeat(NAME_BYTES_MAX + 1)] {
        let refused = sample().add(name, good.clone()).expect_err("a bad name");
        assert_eq!(refused.kind, ErrorKind::Invalid);
    }
    let taken = sample().add("books", good).expect_err("it is taken");
    assert_eq!(taken.kind, ErrorKind::Precondition);
    for (queues, leaf_bytes) in [(0, 1_000), (QUEUES_MAX + 1, 1_000), (1, 10)] {
        let settings = CollectionSettings {
            queues: PendingQueues::PerCollection(queues),
            leaf_bytes,
            ..CollectionSettings::default()
        };
        assert!(collection(&settings).is_err(), "{settings:?}");
    }
}

#[test]
fn format_1_is_read_and_indexes_are_trees_of_their_own() {
    let old = br#"{"format": 1, "database": "00000000000000db", "collections": {}}"#;
    let read = Catalogue::decode(old).expect("the format before indexes");
    assert_eq!(read, Catalogue::new(0xDB));
    let settings = CollectionSettings {
        indexes: [("by author".to_owned(), "author".to_owned())].into(),
        ..CollectionSettings::default()
    };
    let mut next = 0;
    let ids = || {
        next += 1;
        (CollectionId(next), PageId(u128::from(next)))
    };
    let mut catalogue = Catalogue::new(0xDB);
    let collection = Collection::new(&settings, None, ids).expect("valid settings");
    catalogue.add("books", collection).expect("a valid name");
    let read = Catalogue::decode(&catalogue.encode()).expect("its own bytes");
    assert_eq!(read, catalogue);
    let trees: Vec<u64> = read.trees().map(|tree| tree.id.0).collect();
    assert_eq!(trees, [1, 2]);
    assert!(catalogue.remove("books"));
    let dropped: Vec<u64> = catalogue.dropped.iter().map(|tree| tree.id.0).collect();
    assert_eq!(dropped, [2, 1]);
}

#[test]
fn format_2_is_read_and_queues_of_leaves_are_named() {
    let text = String::from_utf8(sample().encode().to_vec()).expect("JSON is text");
    let old = text.replace("\"format\": 3", "\"format\": 2");
    let read = Catalogue::decode(old.as_bytes()).expect("the format before queues of leaves");
    assert_eq!(read, sample());
    let settings = CollectionSettings {
        queues: PendingQueues::PerLeaf,
        indexes: [("author".to_owned(), "author".to_owned())].into(),
        ..CollectionSettings::default()
    };
    let ids = || (CollectionId(5), PageId(9));
    let collection = Collection::new(&settings, None, ids).expect("valid settings");
    let mut catalogue = Catalogue::new(0xDB);
    catalogue.add("books", collection).expect("a valid name");
    let text = String::from_utf8(catalogue.encode().to_vec()).expect("JSON is text");
    assert!(text.contains("\"queues\": \"per-leaf\""), "{text}");
    // An index has one queue: its tree has no updates.
    assert!(text.contains("\"queues\": 1"), "{text}");
    assert!(catalogue.remove("books"));
    let read = Catalogue::decode(&catalogue.encode()).expect("its own bytes");
    assert_eq!(read, catalogue);
}
