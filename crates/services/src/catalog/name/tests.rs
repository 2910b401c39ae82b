//! Names of every kind, each with the accounts that it is one name for.

use bytes::Bytes;
use fader_chain::{ApplyContext, Change, EntryId};

use super::*;
use crate::catalog::{self, domains};
use crate::{MapView, Mode};

fn account(number: u8) -> AccountId {
    AccountId(format!("{number:012}"))
}

fn apply(view: &mut MapView, changes: &[Change]) {
    let under = ApplyContext::strong(EntryId::new(1, 1));
    view.apply(changes, &under).unwrap();
}

fn create(view: &mut MapView, name: Name<'_>) {
    let (_, changes) = catalog::create(view, name, Mode::Mixed, None).unwrap();
    apply(view, &changes);
}

fn names(view: &MapView, kind: Kind, account: &AccountId) -> Vec<String> {
    domains::names(view, kind, account, "", None, 9).unwrap()
}

#[test]
fn a_name_is_of_its_account_or_of_the_cluster_as_its_kind_says() {
    for kind in Kind::ALL {
        let mut view = MapView::default();
        let (mine, yours) = (account(1), account(2));
        let of_me = Name::new(kind, &mine, "films");
        let of_you = Name::new(kind, &yours, "films");
        create(&mut view, of_me);
        let id = |view: &MapView, name| {
            let entry = catalog::collection(view, name).unwrap();
            entry.map(|entry| entry.collection)
        };
        let first = id(&view, of_me).unwrap();
        match kind.is_of_cluster() {
            true => {
                assert_eq!(id(&view, of_you), Some(first));
                assert_eq!(catalog::owner(&view, of_you).unwrap(), Some(mine.clone()));
            }
            false => {
                assert_eq!(id(&view, of_you), None);
                create(&mut view, of_you);
                assert_ne!(id(&view, of_you), Some(first));
                assert_eq!(catalog::owner(&view, of_you).unwrap(), None);
            }
        }
        assert_eq!(names(&view, kind, &mine), ["films"]);
        let yours_count = usize::from(!kind.is_of_cluster());
        assert_eq!(names(&view, kind, &yours).len(), yours_count);
        // Another kind has names of its own.
        for other in Kind::ALL.into_iter().filter(|other| *other != kind) {
            assert_eq!(id(&view, Name::new(other, &mine, "films")), None);
            assert_eq!(names(&view, other, &mine), Vec::<String>::new());
        }
        let entry = catalog::collection(&view, of_me).unwrap().unwrap();
        let changes = catalog::delete(&view, of_me, &entry).unwrap();
        apply(&mut view, &changes);
        assert_eq!(id(&view, of_me), None);
        assert_eq!(names(&view, kind, &mine), Vec::<String>::new());
        let count = domains::count(&view, kind, &mine).unwrap();
        assert_eq!(count, 0, "DOMAIN-1");
    }
}

#[test]
fn keys_are_frozen() {
    let account = account(1);
    let shown = |kind| {
        let key = catalog::name_key(Name::new(kind, &account, "films"));
        key.escape_ascii().to_string()
    };
    let keys = Kind::ALL.map(shown).join("\n");
    expect_test::expect![[r"
        \x00\x00\x00\x00\x00\x00\x00\x00d000000000001\x00\x01films
        \x00\x00\x00\x00\x00\x00\x00\x00e\x01000000000001\x00\x01films
        \x00\x00\x00\x00\x00\x00\x00\x00e\x02\x00\x01films
        \x00\x00\x00\x00\x00\x00\x00\x00e\x03000000000001\x00\x01films"]]
    .assert_eq(&keys);
}

#[test]
fn names_are_kept_and_read_and_nothing_else_is() {
    let account = account(1);
    for kind in Kind::ALL {
        let name = Name::new(kind, &account, "films");
        let mut bytes = Vec::new();
        name.put(&mut bytes);
        let mut reader = Reader::new(bytes.clone().into());
        assert_eq!(NameBuf::read(&mut reader).unwrap(), name.to_owned());
        reader.end().unwrap();
        if kind != Kind::Domain {
            *bytes.last_mut().unwrap() = 99;
            let unknown = NameBuf::read(&mut Reader::new(Bytes::from(bytes)));
            let error = unknown.unwrap_err().to_string();
            assert_eq!(error, "malformed bytes: the kind of a collection");
        }
    }
}

#[test]
fn a_mode_of_any_kind_closes_and_is_found_again() {
    for kind in Kind::ALL {
        let mut view = MapView::default();
        let account = account(1);
        let name = Name::new(kind, &account, "films");
        create(&mut view, name);
        let changes = catalog::set_mode(&view, name, Mode::Strong, false).unwrap();
        apply(&mut view, &changes);
        let draining = catalog::draining(&view).unwrap();
        assert_eq!(draining.len(), 1);
        assert_eq!(draining[0].name, name.to_owned());
        for mode in [Mode::Drained, Mode::Strong] {
            let changes = catalog::close_collection(&view, draining[0].collection).unwrap();
            apply(&mut view, &changes);
            let entry = catalog::collection(&view, name).unwrap().unwrap();
            assert_eq!(entry.mode, mode);
        }
        assert_eq!(catalog::draining(&view).unwrap(), []);
    }
}
