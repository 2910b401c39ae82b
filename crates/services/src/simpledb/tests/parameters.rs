//! Parameters that are missing, empty, too long, too many or in contradiction, and which of two
//! things wrong is reported.

use super::*;

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn put_parts(name: Option<&str>, value: Option<&str>) -> Request {
    let attribute = AttributePut {
        name: name.map(str::to_owned),
        value: value.map(str::to_owned),
        replace: false,
    };
    Request::PutAttributes {
        domain: "books".to_owned(),
        put: ItemPut {
            item: some("item"),
            attributes: vec![attribute],
        },
        expected: Vec::new(),
    }
}

fn delete_parts(name: Option<&str>, value: Option<&str>) -> Request {
    let attribute = AttributeDelete {
        name: name.map(str::to_owned),
        value: value.map(str::to_owned),
    };
    Request::DeleteAttributes {
        domain: "books".to_owned(),
        delete: ItemDelete {
            item: some("item"),
            attributes: vec![attribute],
        },
        expected: Vec::new(),
    }
}

fn get(item: &str, names: &[String]) -> Request {
    Request::GetAttributes {
        domain: "books".to_owned(),
        item: item.to_owned(),
        names: names.to_vec(),
        consistent: false,
    }
}

#[track_caller]
fn check_refused(request: &Request, code: Code, message: &str) {
    let mut service = Service::with_domain();
    let before = service.view.clone();
    let error = service.run(request).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (code, message));
    assert_eq!(error.box_usage.to_string(), "0.0000219907");
    assert_eq!(service.view, before);
}

#[test]
fn missing_parts_are_named() {
    let check = |request, message| check_refused(&request, Code::MissingParameter, message);
    check(
        put_parts(None, Some("v")),
        "Attribute.Name missing for Attribute.Value='v'.",
    );
    check(
        put_parts(Some("n"), None),
        "Attribute.Value missing for Attribute.Name='n'.",
    );
    check(
        put_parts(None, None),
        "The request must contain the parameter Name",
    );
    check(
        delete_parts(None, Some("v")),
        "Attribute.Name missing for Attribute.Value='v'.",
    );
    check(
        delete_parts(None, None),
        "The request must contain the parameter Name",
    );
    check(put("item", &[]), "No attributes for item ='item'.");
}

#[test]
fn items_have_names() {
    let check = |request, message| check_refused(&request, Code::MissingParameter, message);
    let domain = || "books".to_owned();
    let item_missing = "The request must contain the parameter ItemName.";
    let put = ItemPut {
        item: None,
        ..item_put("", &["a=1"])
    };
    let puts = vec![put.clone()];
    check(
        Request::PutAttributes {
            domain: domain(),
            put,
            expected: vec![],
        },
        item_missing,
    );
    check(
        Request::BatchPutAttributes {
            domain: domain(),
            puts,
        },
        item_missing,
    );
    check(
        Request::BatchPutAttributes {
            domain: domain(),
            puts: vec![],
        },
        item_missing,
    );
    let delete = ItemDelete {
        item: None,
        ..item_delete("", &[])
    };
    let deletes = vec![delete.clone()];
    check(
        Request::DeleteAttributes {
            domain: domain(),
            delete,
            expected: vec![],
        },
        item_missing,
    );
    check(
        Request::BatchDeleteAttributes {
            domain: domain(),
            deletes,
        },
        item_missing,
    );
    check(
        Request::BatchDeleteAttributes {
            domain: domain(),
            deletes: vec![],
        },
        item_missing,
    );
    let puts = vec![item_put("i", &["a=1"]), item_put("j", &[])];
    check(
        Request::BatchPutAttributes {
            domain: domain(),
            puts,
        },
        "No attributes for item ='j'.",
    );
}

#[test]
fn texts_have_a_length() {
    let longest = "ü".repeat(512);
    let long = format!("{longest}x");
    let mut service = Service::with_domain();
    let pair = format!("{longest}={longest}");
    service.run(&put(&longest, &[&pair])).unwrap();
    let reply = service
        .run(&get(&longest, std::slice::from_ref(&longest)))
        .unwrap()
        .reply;
    let text = bytes::Bytes::from(longest.clone());
    assert_eq!(
        reply,
        Reply::Attributes(vec![Attribute {
            name: text.clone(),
            value: text
        }])
    );

    let check = |request, parameter| {
        let message = format!(
            "Value (\"{long}\") for parameter {parameter} is invalid. \
             Value exceeds maximum length of 1024."
        );
        check_refused(&request, Code::InvalidParameterValue, &message);
    };
    check(put(&long, &["a=1"]), "Item");
    check(put_parts(Some(&long), Some("1")), "Name");
    check(put_parts(Some("a"), Some(&long)), "Value");
    check(delete_parts(Some(&long), None), "Name");
    check(delete_parts(Some("a"), Some(&long)), "Value");
    check(get(&long, &[]), "Item");
    check(get("item", &["a".to_owned(), long.clone()]), "Name");
    check(
        with_expected(vec![expect(Some(&long), Some("1"), None)]),
        "Name",
    );
    check(
        with_expected(vec![expect(Some("a"), Some(&long), None)]),
        "Value",
    );
}

#[test]
fn names_are_not_empty() {
    let check = |request, parameter, what| {
        let message = format!(
            "Value (\"\") for parameter {parameter} is invalid.\
             The empty string is an illegal {what} name"
        );
        check_refused(&request, Code::InvalidParameterValue, &message);
    };
    check(put("", &["a=1"]), "Item", "item");
    check(put("item", &["=1"]), "Name", "attribute");
    check(delete_parts(Some(""), None), "Name", "attribute");
    check(
        with_expected(vec![expect(Some(""), Some("1"), None)]),
        "Name",
        "attribute",
    );
}

#[test]
fn counts_are_bounded() {
    let names = |count: usize| (0..count).map(|n| format!("a{n}")).collect::<Vec<_>>();
    let pairs = |count: usize| (0..count).map(|n| format!("a{n}=1")).collect::<Vec<_>>();
    let item = |pairs: &[String]| {
        item_put(
            "item",
            &pairs.iter().map(String::as_str).collect::<Vec<_>>(),
        )
    };
    let put = |pairs: &[String]| Request::PutAttributes {
        domain: "books".to_owned(),
        put: item(pairs),
        expected: Vec::new(),
    };
    let mut service = Service::with_domain();
    service.run(&put(&pairs(256))).unwrap();
    assert!(service.run(&get("item", &names(256))).is_ok());
    check_refused(
        &get("item", &names(257)),
        Code::TooManyRequestedAttributes,
        "Too many attributes requested.",
    );
    check_refused(
        &put(&pairs(257)),
        Code::NumberSubmittedAttributesExceeded,
        "Too many attributes for item item in a single call. \
         Up to 256 attributes per call allowed.",
    );
    let puts = |count: usize| Request::BatchPutAttributes {
        domain: "books".to_owned(),
        puts: (0..count)
            .map(|n| item_put(&format!("i{n}"), &["a=1"]))
            .collect(),
    };
    assert!(service.run(&puts(25)).is_ok());
    check_refused(
        &puts(26),
        Code::NumberSubmittedItemsExceeded,
        "Too many items in a single call. Up to 25 items per call allowed.",
    );
}

/// It shows SDBWRITE-1.
#[test]
fn an_item_appears_once_in_a_batch_put() {
    let puts = vec![
        item_put("i", &["a=1"]),
        item_put("j", &["a=1"]),
        item_put("i", &["b=1"]),
    ];
    check_refused(
        &Request::BatchPutAttributes {
            domain: "books".to_owned(),
            puts,
        },
        Code::DuplicateItemName,
        "The item name was specified more than once.",
    );
}

fn expect(name: Option<&str>, value: Option<&str>, exists: Option<bool>) -> Expected {
    Expected {
        name: name.map(str::to_owned),
        value: value.map(str::to_owned),
        exists,
    }
}

fn with_expected(expected: Vec<Expected>) -> Request {
    Request::PutAttributes {
        domain: "books".to_owned(),
        put: item_put("item", &["a=2"]),
        expected,
    }
}

#[test]
fn conditions_are_whole_and_consistent() {
    use Code::*;
    let (yes, no) = (Some(true), Some(false));
    let (a, one) = (Some("a"), Some("1"));
    let incomplete =
        "If Expected.Exists = True or unspecified, then Expected.Value has to be specified";
    let no_name = "The request must contain the parameter Expected.Name.";
    let absent = "Attribute (a) does not exist";
    let exists_and_value = "Expected.Exists=false and Expected.Value cannot be specified together";
    for (expected, code, message) in [
        (expect(a, None, None), IncompleteExpectedValues, incomplete),
        (expect(a, None, yes), IncompleteExpectedValues, incomplete),
        (expect(a, one, no), ExistsAndExpectedValue, exists_and_value),
        (expect(None, one, None), MissingParameter, no_name),
        (expect(None, one, yes), MissingParameter, no_name),
        (expect(None, None, no), MissingParameter, no_name),
        (expect(None, None, None), MissingParameter, no_name),
        (expect(a, one, None), AttributeDoesNotExist, absent),
        (expect(a, one, yes), AttributeDoesNotExist, absent),
    ] {
        check_refused(&with_expected(vec![expected]), code, message);
    }
    let mut service = Service::with_domain();
    assert!(
        service
            .run(&with_expected(vec![expect(a, None, no)]))
            .is_ok()
    );
    assert!(
        service
            .run(&with_expected(vec![expect(a, Some("2"), yes)]))
            .is_ok()
    );
}

#[test]
fn there_is_one_condition() {
    let (a, one, yes) = (Some("a"), Some("1"), Some(true));
    for (expected, code, message) in [
        (
            [expect(a, one, yes), expect(a, one, yes)],
            Code::MultipleExpectedNames,
            "Only one Expected.Name can be specified",
        ),
        (
            [expect(a, one, yes), expect(None, one, yes)],
            Code::MultipleExpectedValues,
            "Only one Expected.Value can be specified",
        ),
        (
            [expect(a, one, yes), expect(None, None, yes)],
            Code::MultipleExistsConditions,
            "Only one Exists condition can be specified",
        ),
    ] {
        check_refused(&with_expected(expected.to_vec()), code, message);
    }
    // One of each part, under different indices, is one condition.
    let split = vec![expect(a, None, None), expect(None, one, None)];
    let message = "Attribute (a) does not exist";
    check_refused(&with_expected(split), Code::AttributeDoesNotExist, message);
}

#[test]
fn the_first_thing_wrong_is_reported() {
    let request = |domain: &str, item: &str, attributes: &[&str], expected: Vec<Expected>| {
        Request::PutAttributes {
            domain: domain.to_owned(),
            put: item_put(item, attributes),
            expected,
        }
    };
    let bad_condition = || vec![expect(Some("a"), None, None)];
    let unmet_condition = || vec![expect(Some("a"), Some("1"), None)];
    let mut service = Service::with_domain();
    service.limits.item_pairs = 0;
    for (request, code, start) in [
        (
            request("x", "", &["=1"], bad_condition()),
            Code::InvalidParameterValue,
            "Value (x)",
        ),
        (
            request("none", "", &["=1"], bad_condition()),
            Code::InvalidParameterValue,
            "Value (\"\") for parameter Item",
        ),
        (
            request("none", "i", &[], bad_condition()),
            Code::MissingParameter,
            "No attributes",
        ),
        (
            request("none", "i", &["=1"], bad_condition()),
            Code::InvalidParameterValue,
            "Value (\"\") for parameter Name",
        ),
        (
            request("none", "i", &["a=1"], bad_condition()),
            Code::IncompleteExpectedValues,
            "If",
        ),
        (
            request("none", "i", &["a=1"], unmet_condition()),
            Code::NoSuchDomain,
            "The specified domain",
        ),
        (
            request("books", "i", &["a=1"], unmet_condition()),
            Code::AttributeDoesNotExist,
            "Attribute",
        ),
        (
            request("books", "i", &["a=1"], vec![]),
            Code::NumberItemAttributesExceeded,
            "Too many",
        ),
    ] {
        let error = service.run(&request).unwrap_err();
        assert_eq!(error.code, code);
        assert!(error.message.starts_with(start), "{}", error.message);
    }
}

#[test]
fn writes_are_not_answered() {
    let service = Service::with_domain();
    let request = put("item", &["a=1"]);
    let error = answer(&service.view, &service.context(&request), &request).unwrap_err();
    assert_eq!(error.code, Code::InternalError);
}

/// It shows CATALOG-1.
#[test]
fn a_request_with_a_forgotten_collection_finds_no_domain() {
    let mut service = Service::with_domain();
    let request = put("item", &["a=1"]);
    let collection = service.context(&request).collection;
    service
        .run(&Request::DeleteDomain {
            domain: "books".to_owned(),
        })
        .unwrap();
    let context = Context {
        collection,
        ..service.context(&request)
    };
    let Decision { outcome, changes } = decide(&service.view, &context, &request);
    assert_eq!(outcome.unwrap_err().code, Code::NoSuchDomain);
    assert_eq!(changes, []);
}

#[test]
fn a_list_token_belongs_to_its_account() {
    let mut service = Service::with_domain();
    service.run(&create("films")).unwrap();
    let list = |next_token| Request::ListDomains {
        max_count: Some(1),
        next_token,
    };
    let Reply::Domains { next_token, .. } = service.run(&list(None)).unwrap().reply else {
        panic!("not a list");
    };
    service.account = AccountId("000000000002".to_owned());
    let error = service.run(&list(next_token)).unwrap_err();
    assert_eq!(error.code, Code::InvalidNextToken);
}

#[test]
fn accounts_have_their_own_domains() {
    let mut service = Service::with_domain();
    service.run(&put("item", &["a=1"])).unwrap();
    service.account = AccountId("000000000002".to_owned());
    let names = |service: &mut Service| {
        let list = Request::ListDomains {
            max_count: None,
            next_token: None,
        };
        match service.run(&list).unwrap().reply {
            Reply::Domains { names, .. } => names,
            other => panic!("not a list: {other:?}"),
        }
    };
    assert_eq!(
        service.run(&get("item", &[])).unwrap_err().code,
        Code::NoSuchDomain
    );
    assert_eq!(names(&mut service), Vec::<String>::new());
    service.run(&create("books")).unwrap();
    assert_eq!(
        service.run(&get("item", &[])).unwrap().reply,
        Reply::Attributes(vec![])
    );
    service
        .run(&Request::DeleteDomain {
            domain: "books".to_owned(),
        })
        .unwrap();
    service.account = AccountId("000000000001".to_owned());
    assert_eq!(names(&mut service), ["books"]);
}

/// Puts `value` under the key of the domain's table and rest, or removes it.
fn damage(service: &mut Service, table: crate::Table, rest: &[u8], value: Option<&'static [u8]>) {
    let collection = service.context(&put("item", &[])).collection.unwrap();
    let key = crate::KeyBuilder::new(collection, table).raw(rest).build();
    service.apply(&[match value {
        Some(value) => Change::Put {
            key,
            value: value.into(),
        },
        None => Change::Remove { key },
    }]);
}

#[test]
fn damage_is_an_internal_error_and_changes_nothing() {
    use crate::Table::{AttributeCount, Items, Metadata};
    let delete = || delete_parts(Some("a"), None);
    for (table, rest, value, requests) in [
        (
            Metadata,
            &b""[..],
            Some(&b"\x02"[..]),
            vec![delete(), put("i", &["a=1"])],
        ),
        (
            Metadata,
            b"",
            Some(b"\x01\x00\x00\x00\x00\x00\x00"),
            vec![delete()],
        ),
        (
            Items,
            b"item",
            Some(b"\x01"),
            vec![delete(), get("item", &[]), put("item", &["a=1"])],
        ),
        (
            AttributeCount,
            b"a",
            Some(b"\x80"),
            vec![delete(), put("i", &["a=1"])],
        ),
        (AttributeCount, b"a", None, vec![delete()]),
    ] {
        let mut service = Service::with_domain();
        service.run(&put("item", &["a=1"])).unwrap();
        damage(&mut service, table, rest, value);
        let before = service.view.clone();
        for request in requests {
            let error = service.run(&request).unwrap_err();
            assert_eq!(error.code, Code::InternalError, "{request:?}");
        }
        assert_eq!(service.view, before);
    }
}
