//! The bytes of a log's objects, frozen.

use bytes::Bytes;
use expect_test::{Expect, expect};

use super::{Content, Manifest, PutId, Slot, SnapshotName, decode_snapshot, encode_snapshot};
use crate::bucket::names::Incarnation;

fn check(bytes: &Bytes, expected: &Expect) {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = hex
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

fn slot(content: Content) -> Slot {
    Slot {
        number: 300,
        put_id: PutId {
            process: 0x1234,
            number: 9,
        },
        content,
    }
}

#[test]
fn a_slot_has_these_bytes() {
    let writes = slot(Content::Writes(vec![
        Bytes::from("one"),
        Bytes::from("two"),
    ]));
    check(
        &writes.encode(),
        &expect![[r#"
        46414445524c01ac0200000000000000000000000000001234090102036f6e65
        0374776fd9826bc59ffa2f0b"#]],
    );
    let seal = slot(Content::Seal);
    check(
        &seal.encode(),
        &expect![[r#"
        46414445524c01ac02000000000000000000000000000012340902621875ae6c
        71fda4"#]],
    );
    let stub = slot(Content::Stub);
    check(
        &stub.encode(),
        &expect![[r#"
        46414445524c01ac02000000000000000000000000000012340903708dbbeb57
        2b89c2"#]],
    );
    for slot in [writes, seal, stub] {
        assert_eq!(Slot::decode("k", &slot.encode(), 300).unwrap(), slot);
        assert!(Slot::decode("k", &slot.encode(), 301).is_err());
    }
}

#[test]
fn a_manifest_has_these_bytes() {
    let living = Manifest {
        incarnation: Incarnation(7),
        is_gone: false,
        snapshot: None,
    };
    check(
        &living.encode(),
        &expect!["464144455244010000000000000007000065e447c35c3d4500"],
    );
    let gone = Manifest {
        is_gone: true,
        snapshot: Some(SnapshotName {
            position: 256,
            random: 11,
        }),
        ..living
    };
    check(
        &gone.encode(),
        &expect![[r#"
        46414445524401000000000000000701018002000000000000000ba7791e569f
        8e5fa5"#]],
    );
    for manifest in [living, gone] {
        let read = Manifest::decode("k", &manifest.encode()).unwrap();
        assert_eq!(read, manifest);
    }
}

#[test]
fn a_snapshot_has_these_bytes() {
    let name = SnapshotName {
        position: 256,
        random: 11,
    };
    assert_eq!(name.text(), "0000000000000100-000000000000000b");
    assert_eq!(SnapshotName::parse(&name.text()), Some(name));
    assert_eq!(SnapshotName::parse("100-b"), None);
    let bytes = encode_snapshot(name, &[3, 1, 2, 3]);
    check(
        &bytes,
        &expect!["4641444552500180020301020306d1df7013f938cf"],
    );
    let state = decode_snapshot("k", &bytes, 256, |reader| reader.bytes());
    assert_eq!(state.unwrap(), Bytes::from_static(&[1, 2, 3]));
    assert!(decode_snapshot("k", &bytes, 512, |reader| reader.bytes()).is_err());
}
