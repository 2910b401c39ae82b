//! The rules of steps that need no service; what they do is shown with counters (`counter`) and in
//! the simulator.

use bytes::Bytes;
use fader_chain::{ALL_GUARDS, ApplyContext, ChainId, EntryId};
use proptest::prelude::*;

use super::*;
use crate::catalog::AccountId;
use crate::{Kind, MapView, Mode};

fn name(kind: Kind) -> NameBuf {
    NameBuf {
        kind,
        account: AccountId("000000000001".to_owned()),
        name: "films".to_owned(),
    }
}

fn found(kind: Kind, number: u64) -> Step {
    let entry = DomainEntry {
        collection: CollectionId(number),
        mode: Mode::Mixed,
        preference: None,
    };
    Step {
        number,
        to: ChainId(1),
        floor: 0,
        action: Action::Found(name(kind), entry),
    }
}

fn encoded(it: &impl Wire) -> Bytes {
    let mut bytes = Vec::new();
    it.put(&mut bytes);
    bytes.into()
}

#[test]
fn bytes_are_frozen_and_come_back() {
    let raze = Step {
        action: Action::Raze(name(Kind::Domain), CollectionId(300)),
        ..found(Kind::Domain, 300)
    };
    let free = Step {
        to: ChainId::SYSTEM,
        action: Action::Free(name(Kind::Bucket), CollectionId(300)),
        ..found(Kind::Bucket, 5)
    };
    assert_eq!(free.action.since(), Version::EIGHTH);
    let commands = [
        Command::Take(ChainId(7), found(Kind::Queue, 5)),
        Command::Settle(raze, Bytes::from_static(b"done")),
        Command::Take(ChainId(2), free),
    ];
    let mut shown = String::new();
    for command in &commands {
        let bytes = encoded(command);
        shown.push_str(&format!("{}\n", bytes.escape_ascii()));
        let mut reader = Reader::new(bytes);
        let read = Command::read(&mut reader).unwrap();
        reader.end().unwrap();
        assert_eq!(format!("{read:?}"), format!("{command:?}"));
    }
    expect_test::expect![[r#"
        \x00\x07\x05\x01\x00\x00\x01\x0c000000000001\x05films\x05\x02\x00
        \x01\xac\x02\x01\x00\x01\x00\x0c000000000001\x05films\xac\x02\x04done
        \x00\x02\x05\x00\x00\x03\x02\x0c000000000001\x05films\xac\x02
    "#]]
    .assert_eq(&shown);
}

#[test]
fn a_collection_of_any_kind_comes_and_goes_by_steps() {
    for kind in Kind::ALL {
        let mut view = MapView::default();
        let mut index = 0;
        let mut take = |step: &Step| {
            let decision = take(&view, &ALL_GUARDS, ChainId::SYSTEM, step).unwrap();
            index += 1;
            let under = ApplyContext::strong(EntryId::new(1, index));
            view.apply(&decision.changes, &under).unwrap();
            let name = name(kind);
            let there = catalog::collection(&view, name.name()).unwrap();
            (decision.changes.is_empty(), there.map(|it| it.collection))
        };
        let step = found(kind, 300);
        assert_eq!(take(&step), (false, Some(CollectionId(300))));
        assert_eq!(take(&step), (true, Some(CollectionId(300))), "STEP-7");
        let raze = Step {
            action: Action::Raze(name(kind), CollectionId(300)),
            ..step.clone()
        };
        assert_eq!(take(&raze), (false, None));
        assert_eq!(take(&step), (true, None), "SAGA-2");
    }
}

#[test]
fn a_malformed_record_is_damage_and_no_panic() {
    for value in [&b""[..], b"\x02", b"\x01\x01\x63", b"\x01\x01\x00\x09"] {
        let mut view = MapView::default();
        let change = Change::Put {
            key: record_key(3),
            value: Bytes::from_static(value),
        };
        let under = ApplyContext::strong(EntryId::new(1, 1));
        view.apply(&[change], &under).unwrap();
        assert!(unsettled(&view, 9).is_err(), "{value:?}");
    }
}

proptest! {
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut reader = Reader::new(noise.into());
        drop(Command::read(&mut reader));
    }
}
