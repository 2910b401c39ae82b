//! Pages: frozen bytes, search against a sorted map, and decoders that survive anything.

use std::collections::BTreeMap;

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::tests::{ROOT, Tree, any_key, any_record, delete, insert, small, stamp, update};
use crate::{HybridTime, Op, Payload, Sizes};

fn hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect());
    lines.collect::<Vec<String>>().join("\n")
}

fn page_of(records: &[Record]) -> Page {
    let mut tree = Tree::new(Sizes::default());
    tree.apply(ROOT, records, HybridTime::ZERO);
    tree.pages[&ROOT].clone()
}

#[test]
fn the_bytes_of_a_leaf_are_frozen() {
    let pointer = Pointer {
        object: 0xabc,
        size: 1 << 33,
        crc32c: 0xdead_beef,
    };
    let mut large = insert("user0002", 4, "");
    large.op = Op::Insert(Payload::Object(pointer));
    let records = [
        insert("user0001", 1, "one"),
        large,
        update("user0002", 5, "two"),
        delete("user0003", 6),
        update("user0004", 7, "before its insert"),
    ];
    let page = page_of(&records);
    expect![[r#"
        4644524200010000336c4866000000e600000000000000020000000000000000
        0000000000000000000000000000000200000000000000000000018bcfe56800
        0000000000000007000000040000000000000000000000000000000000000000
        0000000000000000000000000000000075736572303030310000003200000033
        000000340000000000005b00000076000000a5000000bd000000e60001033100
        000000000000010000000000000001000000006f6e6500010732000000000000
        0004000000000000000100000000000000000000000500000000000000010000
        000074776f000101330000000000000006000000000000000100000000000104
        3400000000000000070000000000000001000000006265666f72652069747320
        696e73657274"#]]
    .assert_eq(&hex(&page.encode()));
    expect![[r#"
        level 0 [, ∞)
        horizon 0.0.0
        lsn 2 key 0 written 1700000000000 nonce 000000000000000000000000000000020000000000000000
        user0001: alive 1.1.0 "one"
        user0002: alive 4.1.0 value 5.1.0 "two"
        user0003: dead 6.1.0
        user0004: value 7.1.0 "before its insert"
    "#]]
    .assert_eq(&format!("{page:?}"));
}

#[test]
fn the_bytes_of_an_inner_page_are_frozen() {
    let mut tree = Tree::new(small());
    for index in 0..12 {
        tree.write_all(
            ROOT,
            &[insert(&format!("user{index:04}"), 1, "some payload")],
        );
    }
    let root = &tree.pages[&ROOT];
    assert!(!root.is_leaf());
    expect![[r#"
        4644524200010000f00b5bc10000006c00000000000000080000000000000000
        0000000000000000000000000000000c00000000000000000000018bcfe56800
        0100000000000000000000020000000000000000000000000000000000000000
        0000000000000000000000000000000000000000757365720000004400000054
        0000006c00000000000000000000000000000008000000000000000000000000
        000000097573657230303036"#]]
    .assert_eq(&hex(&root.encode()));
    expect![[r#"
        level 1 [, ∞)
        horizon 0.0.0
        lsn 8 key 0 written 1700000000000 nonce 0000000000000000000000000000000c0000000000000000
        : 00000000000000000000000000000008
        user0006: 00000000000000000000000000000009
    "#]]
    .assert_eq(&format!("{root:?}"));
    let left = &tree.pages[&root.child(0)];
    expect![[r#"
        46445242000100006a10eb810000014b00000000000000080000000000000000
        0000000000000000000000000000000a00000000000000000000018bcfe56800
        0001000000080007000000060000000000000000000000000000000000000000
        0000000000000000000000000000000975736572303030367573657230303030
        0000003100000032000000330000003400000035000000000000730000009700
        0000bb000000df00000103000001270000014b00010330000000000000000100
        0000000000000100000000736f6d65207061796c6f6164000103310000000000
        000001000000000000000100000000736f6d65207061796c6f61640001033200
        00000000000001000000000000000100000000736f6d65207061796c6f616400
        0103330000000000000001000000000000000100000000736f6d65207061796c
        6f6164000103340000000000000001000000000000000100000000736f6d6520
        7061796c6f616400010335000000000000000100000000000000010000000073
        6f6d65207061796c6f6164"#]]
    .assert_eq(&hex(&left.encode()));
}

#[test]
fn an_empty_page_is_a_root() {
    let page = page_of(&[]);
    assert!(page.is_root() && page.is_leaf());
    assert_eq!(page.count(), 0);
    assert_eq!(page.get(b""), None);
    assert_eq!(page.get(b"x"), None);
    assert_eq!(page.route(b"x"), Route::Here);
    assert_eq!(page.slots(b"").count(), 0);
}

#[test]
fn an_overlay_shows_pending_records_and_obeys_the_registers() {
    let page = page_of(&[insert("a", 10, "old"), delete("b", 10)]);
    let seen = |key: &str, pending: &[Record]| {
        let slot = page.overlay(key.as_bytes(), pending);
        slot.visible().cloned()
    };
    let old = Some(crate::tests::inline("old"));
    let new = Some(crate::tests::inline("new"));
    assert_eq!(seen("a", &[]), old);
    assert_eq!(seen("a", &[update("a", 11, "new")]), new);
    assert_eq!(seen("a", &[update("a", 9, "older")]), old);
    assert_eq!(seen("a", &[delete("a", 11)]), None);
    assert_eq!(seen("b", &[update("b", 11, "new")]), None);
    assert_eq!(seen("b", &[insert("b", 11, "new")]), new);
    assert_eq!(seen("c", &[insert("c", 1, "new")]), new);
    assert_eq!(seen("c", &[insert("a", 12, "other key")]), None);
}

#[test]
fn a_record_is_covered_when_the_page_reflects_it() {
    let page = page_of(&[insert("a", 10, ""), update("b", 10, "")]);
    assert!(page.covers(&insert("a", 10, "")));
    assert!(page.covers(&update("a", 9, "")));
    assert!(!page.covers(&update("a", 11, "")));
    assert!(!page.covers(&insert("b", 9, "")), "b has no life yet");
    assert!(!page.covers(&delete("c", 1)));
    let mut tree = Tree::new(small());
    tree.apply(ROOT, &[delete("a", 10)], HybridTime(11));
    assert_eq!(tree.pages[&ROOT].horizon(), stamp(10));
    assert!(
        tree.pages[&ROOT].covers(&delete("a", 10)),
        "the horizon covers what was removed"
    );
}

/// Bodies that a wrong writer could make: each is refused by its own name.
#[test]
fn mistakes_in_a_body_are_named() {
    let page = page_of(&[insert("aa", 1, "1"), insert("ab", 2, "2")]);
    let error = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = page.body().to_vec();
        change(&mut body);
        match Page::parse(*page.envelope(), body.into()) {
            Err(PageError::Damaged { what }) => what,
            other => panic!("{other:?}"),
        }
    };
    // The body: header 48, prefix "a" at 48, heads at 49, offsets at 57, slots at 69.
    assert_eq!(error(&|body| body.truncate(47)), "the header ends early");
    assert_eq!(
        error(&|body| body[1] = 1),
        "high key and right sibling do not agree"
    );
    assert_eq!(
        error(&|body| body[6] = 0xff),
        "a key of the header is too long"
    );
    assert_eq!(error(&|body| body[8] = 0xff), "the directory ends early");
    assert_eq!(error(&|body| body[0] = 1), "a head is not that of its key");
    assert_eq!(error(&|body| body[49] = 0), "a head is not that of its key");
    assert_eq!(
        error(&|body| body[60] = 0),
        "the slots do not begin behind the directory"
    );
    assert_eq!(error(&|body| body[64] = 0), "an offset is wrong");
    assert_eq!(
        error(&|body| body.push(0)),
        "the slots do not end with the page"
    );
    assert_eq!(error(&|body| body[69] = 0xff), "a slot ends early");
    assert_eq!(error(&|body| body[71] = 2), "a slot's flags do not agree");
    assert_eq!(error(&|body| body[71] = 16), "a slot's flags do not agree");
    assert_eq!(
        error(&|body| body[71] |= OBJECT),
        "a pointer has a wrong size"
    );
    let reversed = |body: &mut Vec<u8>| {
        body[49] = b'c';
        body[72] = b'c';
    };
    assert_eq!(error(&reversed), "keys are out of order");
    let large = vec![0; PAGE_BYTES_MAX + 1];
    let what = "it is larger than any page";
    assert_eq!(
        Page::parse(*page.envelope(), large.into()),
        Err(PageError::Damaged { what })
    );
}

proptest! {
    #[test]
    fn a_page_finds_what_a_sorted_map_finds(
        records in proptest::collection::vec(any_record(), 0..60),
        probes in proptest::collection::vec(any_key(), 0..30),
    ) {
        let page = page_of(&records);
        let mut map: BTreeMap<Bytes, crate::Slot> = BTreeMap::new();
        for record in &records {
            map.entry(record.key.clone()).or_default().merge(record, Stamp::ZERO);
        }
        let keys = records.iter().map(|record| &record.key);
        for key in keys.chain(&probes) {
            let slot = map.get(key).cloned().unwrap_or_default();
            prop_assert_eq!(page.find(key), slot.as_ref());
            prop_assert_eq!(page.get(key), slot.as_ref().visible());
            let from: Vec<Vec<u8>> = page.slots(key).map(|(key, _)| key.to_vec()).collect();
            let expected = map.range(key.clone()..).map(|(key, _)| key.to_vec());
            let expected: Vec<Vec<u8>> = expected.collect();
            prop_assert_eq!(from, expected);
        }
        prop_assert_eq!(page.count(), map.len());
        prop_assert_eq!(Page::decode(page.encode()), Ok(page));
    }

    /// The checksum is set right, so that the checks behind it are reached.
    #[test]
    fn a_mutated_page_is_read_or_refused(
        records in proptest::collection::vec(any_record(), 0..30),
        is_small in any::<bool>(),
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        probes in proptest::collection::vec(any_key(), 1..10),
    ) {
        let mut tree = Tree::new(if is_small { small() } else { Sizes::default() });
        let separators = tree.write_all(ROOT, &records);
        tree.post_all(separators);
        for page in tree.pages.values() {
            let mut body = page.body().to_vec();
            for (place, byte) in &places {
                // Half of the changes hit the header and the directory.
                let within = if byte % 2 == 0 { body.len() } else { body.len().min(90) };
                body[place.index(within)] = *byte;
            }
            if let Some(cut) = cut {
                body.truncate(cut.index(body.len()));
            }
            let Ok(page) = Page::parse(*page.envelope(), body.into()) else { continue };
            exercise(&page, &probes);
            prop_assert_eq!(Page::decode(page.encode()), Ok(page));
        }
    }
}

/// Calls everything that reads a page.
fn exercise(page: &Page, probes: &[Bytes]) {
    let _ = format!("{page:?}");
    for key in probes {
        let route = page.route(key);
        assert!(!page.is_leaf() || !matches!(route, Route::Down(_)));
        let looked = page.look(key).err().unwrap_or(Route::Here);
        assert_eq!(looked, route);
        if let Some(table) = KeyTable::new(page) {
            assert_eq!(page.look_by(&table, key), page.look(key));
        }
        if page.is_leaf() {
            assert!(page.look(key).is_err() || page.look(key) == Ok(page.find(key)));
            assert_eq!(route == Route::Here, page.contains(key));
            let _ = (page.get(key), page.find(key), page.slots(key).count());
        }
    }
    for index in 0..page.count() {
        let key = page.key(index).to_vec();
        assert_eq!(page.position(&key), Ok(index));
        assert!(page.contains(&key));
    }
}
