//! Access keys are created, shown, disabled and rotated, each in one step or not at all.

use fader_chain::{ApplyContext, Change, EntryId};

use super::*;
use crate::forward::wire::Wire as _;
use crate::{Decision, MapView, Reason};
use expect_test::expect;

const OLD: &str = "AKIA000000000OLD";
const NEW: &str = "AKIA000000000NEW";

fn access_key(id: &str) -> AccessKey {
    AccessKey {
        id: id.to_owned(),
        account: AccountId("000000000001".to_owned()),
        sealed_secret: Bytes::from_static(b"sealed"),
        status: KeyStatus::Active,
        created_ms: 1_317_975_502_999,
        note: "für boto".to_owned(),
        preference: None,
        rights: Rights::All,
    }
}

fn run(view: &mut MapView, command: &Command) -> Result<(), Refusal> {
    let Decision { outcome, changes } = decide(view, command);
    assert!(
        outcome.is_ok() || changes.is_empty(),
        "a refusal changes nothing"
    );
    let under = ApplyContext::strong(EntryId::new(1, 1));
    view.apply(&changes, &under).unwrap();
    outcome
}

fn with_old_key() -> MapView {
    let mut view = MapView::default();
    run(&mut view, &Command::CreateKey(access_key(OLD))).unwrap();
    view
}

fn set_status(id: &str, status: KeyStatus) -> Command {
    Command::SetKeyStatus {
        id: id.to_owned(),
        status,
    }
}

fn rotate(id: &str, replacement: AccessKey) -> Command {
    Command::RotateKey {
        id: id.to_owned(),
        replacement,
    }
}

#[test]
fn a_key_is_created_once() {
    let mut view = with_old_key();
    assert_eq!(key(&view, OLD).unwrap(), Some(access_key(OLD)));
    assert_eq!(key(&view, NEW).unwrap(), None);
    let before = view.clone();
    run(&mut view, &Command::CreateKey(access_key(OLD))).unwrap();
    let other = AccessKey {
        note: String::new(),
        ..access_key(OLD)
    };
    let refusal = run(&mut view, &Command::CreateKey(other)).unwrap_err();
    assert_eq!(refusal, Refusal::KeyExists(OLD.to_owned()));
    assert_eq!(view, before);
}

#[test]
fn keys_are_listed_by_id() {
    let mut view = with_old_key();
    run(&mut view, &Command::CreateKey(access_key(NEW))).unwrap();
    assert_eq!(keys(&view).unwrap(), [access_key(NEW), access_key(OLD)]);
    assert_eq!(keys(&MapView::default()).unwrap(), []);
}

#[test]
fn a_status_is_set() {
    let mut view = with_old_key();
    run(&mut view, &set_status(OLD, KeyStatus::Disabled)).unwrap();
    let disabled = AccessKey {
        status: KeyStatus::Disabled,
        ..access_key(OLD)
    };
    assert_eq!(key(&view, OLD).unwrap(), Some(disabled));
    let again = decide(&view, &set_status(OLD, KeyStatus::Disabled));
    assert_eq!((again.outcome, again.changes), (Ok(()), vec![]));
    run(&mut view, &set_status(OLD, KeyStatus::Active)).unwrap();
    assert_eq!(key(&view, OLD).unwrap(), Some(access_key(OLD)));
    let refusal = run(&mut view, &set_status(NEW, KeyStatus::Active)).unwrap_err();
    assert_eq!(refusal, Refusal::NoSuchKey(NEW.to_owned()));
}

#[test]
fn a_preference_is_set_and_outlives_rotation() {
    let mut view = with_old_key();
    let preference = Some("eventual; r=1; w=2".parse().unwrap());
    let set = |id: &str, preference| Command::SetKeyPreference {
        id: id.to_owned(),
        preference,
    };
    run(&mut view, &set(OLD, preference)).unwrap();
    let preferring = AccessKey {
        preference,
        ..access_key(OLD)
    };
    assert_eq!(key(&view, OLD).unwrap(), Some(preferring));
    let again = decide(&view, &set(OLD, preference));
    assert_eq!((again.outcome, again.changes), (Ok(()), vec![]));
    run(&mut view, &rotate(OLD, access_key(NEW))).unwrap();
    let new = key(&view, NEW).unwrap().unwrap();
    assert_eq!(new.preference, preference);
    run(&mut view, &set(NEW, None)).unwrap();
    assert_eq!(key(&view, NEW).unwrap(), Some(access_key(NEW)));
    let refusal = run(&mut view, &set("none", None)).unwrap_err();
    assert_eq!(refusal, Refusal::NoSuchKey("none".to_owned()));
}

#[test]
fn keys_of_version_1_are_read() {
    let change = Change::Put {
        key: Bytes::from_static(b"\0\0\0\0\0\0\0\0kAKIA000000000OLD"),
        value: Bytes::from_static(
            b"\x01\x0c000000000001\x01\x97\xe1\xd8\xeb\xad&\x06sealed\tf\xc3\xbcr boto",
        ),
    };
    let mut view = MapView::default();
    view.apply(&[change], &ApplyContext::strong(EntryId::ZERO))
        .unwrap();
    assert_eq!(key(&view, OLD).unwrap(), Some(access_key(OLD)));
}

#[test]
fn rotation_is_one_step_within_the_account() {
    let mut view = with_old_key();
    let foreign = AccountId("999999999999".to_owned());
    let command = rotate(
        OLD,
        AccessKey {
            account: foreign,
            ..access_key(NEW)
        },
    );
    run(&mut view, &command).unwrap();
    let disabled = AccessKey {
        status: KeyStatus::Disabled,
        ..access_key(OLD)
    };
    assert_eq!(keys(&view).unwrap(), [access_key(NEW), disabled]);
    let again = decide(&view, &command);
    assert_eq!((again.outcome, again.changes), (Ok(()), vec![]));
}

#[test]
fn a_refused_rotation_leaves_the_old_key_active() {
    let mut view = with_old_key();
    for (command, refusal) in [
        (
            rotate(NEW, access_key(OLD)),
            Refusal::NoSuchKey(NEW.to_owned()),
        ),
        (
            rotate(OLD, access_key(OLD)),
            Refusal::KeyExists(OLD.to_owned()),
        ),
    ] {
        assert_eq!(run(&mut view, &command).unwrap_err(), refusal);
    }
    run(&mut view, &Command::CreateKey(access_key(NEW))).unwrap();
    let taken = AccessKey {
        note: String::new(),
        ..access_key(NEW)
    };
    let refusal = run(&mut view, &rotate(OLD, taken)).unwrap_err();
    assert_eq!(refusal, Refusal::KeyExists(NEW.to_owned()));
    assert_eq!(key(&view, OLD).unwrap(), Some(access_key(OLD)));
}

#[test]
fn a_key_keeps_its_rights() {
    let granted = |id: &str| AccessKey {
        rights: Rights::Granted,
        ..access_key(id)
    };
    let mut view = MapView::default();
    run(&mut view, &Command::CreateKey(granted(OLD))).unwrap();
    assert_eq!(key(&view, OLD).unwrap(), Some(granted(OLD)));
    run(&mut view, &set_status(OLD, KeyStatus::Disabled)).unwrap();
    run(&mut view, &set_status(OLD, KeyStatus::Active)).unwrap();
    assert_eq!(key(&view, OLD).unwrap(), Some(granted(OLD)));
    // The one that takes its place has no more rights.
    run(&mut view, &rotate(OLD, access_key(NEW))).unwrap();
    assert_eq!(key(&view, NEW).unwrap(), Some(granted(NEW)));
    let disabled = AccessKey {
        status: KeyStatus::Disabled,
        ..granted(OLD)
    };
    assert_eq!(key(&view, OLD).unwrap(), Some(disabled.clone()));
    for sent in [granted(NEW), disabled] {
        let mut bytes = Vec::new();
        sent.put(&mut bytes);
        let mut reader = fader_chain::Reader::new(bytes.into());
        assert_eq!(AccessKey::read(&mut reader).unwrap(), sent);
    }
}

#[test]
fn shapes_are_checked() {
    let account = |id: &str| AccessKey {
        account: AccountId(id.to_owned()),
        ..access_key(OLD)
    };
    let note = |size: usize| AccessKey {
        note: "x".repeat(size),
        ..access_key(OLD)
    };
    let mut view = MapView::default();
    for bad in [
        access_key("ab"),
        access_key(&"x".repeat(129)),
        access_key("AKIA00000000/OLD"),
        access_key("AKIA00000000öLD"),
        account("00000000001"),
        account("0000000000001"),
        account("00000000000a"),
        note(257),
    ] {
        let refusal = run(&mut view, &Command::CreateKey(bad.clone())).unwrap_err();
        assert!(matches!(refusal, Refusal::Invalid(_)), "{bad:?}");
    }
    for good in [
        access_key("a_Z4567890123456"),
        access_key("a-1"),
        access_key("old.server"),
        access_key(&"x".repeat(128)),
        note(256),
    ] {
        run(&mut view, &Command::CreateKey(good)).unwrap();
    }
}

#[test]
fn bytes_are_frozen() {
    let decision = decide(&MapView::default(), &Command::CreateKey(access_key(OLD)));
    let [Change::Put { key, value }] = decision.changes.as_slice() else {
        panic!("one put")
    };
    expect![[r#"\x00\x00\x00\x00\x00\x00\x00\x00kAKIA000000000OLD"#]]
        .assert_eq(&key.escape_ascii().to_string());
    expect![[r#"\x02\x0c000000000001\x01\x97\xe1\xd8\xeb\xad&\x06sealed\tf\xc3\xbcr boto\x00"#]]
        .assert_eq(&value.escape_ascii().to_string());
}

#[test]
fn damage_is_reported() {
    let decision = decide(&MapView::default(), &Command::CreateKey(access_key(OLD)));
    let [
        Change::Put {
            key: stored_key,
            value,
        },
    ] = decision.changes.as_slice()
    else {
        panic!("one put")
    };
    let bad_status = {
        let mut bytes = value.to_vec();
        bytes[14] = 4;
        Bytes::from(bytes)
    };
    let cuts = (0..value.len()).map(|size| value.slice(..size));
    for damaged in cuts.chain([bad_status]) {
        let mut view = MapView::default();
        let change = Change::Put {
            key: stored_key.clone(),
            value: damaged,
        };
        view.apply(&[change], &ApplyContext::strong(EntryId::ZERO))
            .unwrap();
        assert!(key(&view, OLD).is_err());
        assert!(keys(&view).is_err());
        let refused = run(&mut view, &set_status(OLD, KeyStatus::Active)).unwrap_err();
        assert!(matches!(refused, Refusal::View(_)));
        assert_eq!(refused.code(), ErrorCode::StoreUnreadable);
    }
}

#[test]
fn an_outage_that_another_node_told_in_words_is_one() {
    let words = "the node is stopping".to_owned();
    let outage = Refusal::Unavailable(Reason::Stopping.into());
    assert_eq!(Refusal::from(Failure::of_words(words)), outage);
    let words = "the block at offset 0 is damaged".to_owned();
    assert_eq!(
        Refusal::from(Failure::of_words(words.clone())),
        Refusal::View(ViewError::Told { words })
    );
}
