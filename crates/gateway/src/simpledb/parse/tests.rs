//! Forms to requests: indices, spellings, refusals.

use proptest::prelude::*;

use super::*;
use crate::simpledb::Version;

fn parse(form: &str) -> Result<Request, String> {
    let parameters =
        Parameters::read(b"", form.as_bytes(), 100).map_err(|error| error.to_string())?;
    let action = Action::of(&parameters, Version::V2007).map_err(|error| error.to_string())?;
    request(action, &parameters, CollectionOptions::default()).map_err(|error| error.to_string())
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn put(name: Option<&str>, value: Option<&str>, replace: bool) -> AttributePut {
    let owned = |text: &str| text.to_owned();
    AttributePut {
        name: name.map(owned),
        value: value.map(owned),
        replace,
    }
}

#[test]
fn each_action_on_domains_is_read() {
    let domain = || "dom".to_owned();
    for (form, expected) in [
        (
            "Action=CreateDomain&DomainName=dom",
            Request::CreateDomain {
                domain: domain(),
                mode: None,
                preference: None,
            },
        ),
        (
            "Action=DeleteDomain&DomainName=dom",
            Request::DeleteDomain { domain: domain() },
        ),
        (
            "Action=DomainMetadata&DomainName=dom",
            Request::DomainMetadata { domain: domain() },
        ),
        (
            "Action=ListDomains",
            Request::ListDomains {
                max_count: None,
                next_token: None,
            },
        ),
        (
            "Action=ListDomains&MaxNumberOfDomains=-7&NextToken=AAE%3D",
            Request::ListDomains {
                max_count: Some(-7),
                next_token: Some(PageToken(Bytes::from_static(&[0, 1]))),
            },
        ),
    ] {
        assert_eq!(parse(form), Ok(expected), "{form}");
    }
}

#[test]
fn each_question_is_read() {
    let domain = || "dom".to_owned();
    for (form, expected) in [
        (
            "Action=GetAttributes&DomainName=dom&ItemName=i&ConsistentRead=true",
            Request::GetAttributes {
                domain: domain(),
                item: "i".to_owned(),
                names: vec![],
                consistent: true,
            },
        ),
        (
            "Action=Select&SelectExpression=select&ConsistentRead=false",
            Request::Select {
                expression: "select".to_owned(),
                next_token: None,
                consistent: false,
            },
        ),
        (
            "Action=ExplainSelect&SelectExpression=select",
            Request::ExplainSelect {
                expression: "select".to_owned(),
            },
        ),
        (
            "Action=Query&DomainName=dom&MaxNumberOfItems=3",
            Request::Query {
                domain: domain(),
                expression: None,
                max_count: Some(3),
                next_token: None,
                attributes: None,
            },
        ),
        (
            "Action=QueryWithAttributes&DomainName=dom&QueryExpression=q&AttributeName.1=a",
            Request::Query {
                domain: domain(),
                expression: some("q"),
                max_count: None,
                next_token: None,
                attributes: Some(vec!["a".to_owned()]),
            },
        ),
    ] {
        assert_eq!(parse(form), Ok(expected), "{form}");
    }
}

#[test]
fn indices_are_sparse_numeric_and_optional() {
    let form = "Action=PutAttributes&DomainName=dom&ItemName=i\
        &Attribute.10.Name=c&Attribute.10.Value=3&Attribute.10.Replace=true\
        &Attribute.2.Name=b&Attribute.2.Value=2&Attribute.2.Replace=false\
        &Attribute.0.Name=a&Attribute.0.Value=&Attribute.9999999999.Name=d\
        &Attribute.Name=z&Attribute.Value=0&Attribute.3.Value=4";
    let Ok(Request::PutAttributes {
        put: item,
        expected,
        ..
    }) = parse(form)
    else {
        panic!("not read")
    };
    assert_eq!(item.item, some("i"));
    assert_eq!(expected, []);
    assert_eq!(
        item.attributes,
        [
            put(Some("z"), Some("0"), false),
            put(Some("a"), Some(""), false),
            put(Some("b"), Some("2"), false),
            put(None, Some("4"), false),
            put(Some("c"), Some("3"), true),
            put(Some("d"), None, false),
        ]
    );
}

#[test]
fn conditions_are_read_with_and_without_index() {
    for (form, expected) in [
        (
            "Expected.Name=a&Expected.Value=1",
            vec![Expected {
                name: some("a"),
                value: some("1"),
                exists: None,
            }],
        ),
        (
            "Expected.1.Name=a&Expected.1.Exists=false",
            vec![Expected {
                name: some("a"),
                value: None,
                exists: Some(false),
            }],
        ),
        (
            "Expected.0.Name=a&Expected.1.Value=1&Expected.1.Exists=true",
            vec![
                Expected {
                    name: some("a"),
                    value: None,
                    exists: None,
                },
                Expected {
                    name: None,
                    value: some("1"),
                    exists: Some(true),
                },
            ],
        ),
    ] {
        for action in ["PutAttributes", "DeleteAttributes"] {
            let form = format!("Action={action}&DomainName=dom&{form}");
            let read = match parse(&form) {
                Ok(
                    Request::PutAttributes { expected, .. }
                    | Request::DeleteAttributes { expected, .. },
                ) => expected,
                other => panic!("{other:?}"),
            };
            assert_eq!(read, expected, "{form}");
        }
    }
}

#[test]
fn batches_are_read() {
    let form = "Action=BatchPutAttributes&DomainName=dom&Item.1.ItemName=b\
        &Item.1.Attribute.0.Name=n&Item.1.Attribute.0.Value=v&Item.1.Attribute.0.Replace=true\
        &Item.0.ItemName=a&Item.0.Attribute.Name=m&Item.7.Attribute.1.Value=w";
    let Ok(Request::BatchPutAttributes { puts, .. }) = parse(form) else {
        panic!("not read")
    };
    assert_eq!(
        puts,
        [
            ItemPut {
                item: some("a"),
                attributes: vec![put(Some("m"), None, false)]
            },
            ItemPut {
                item: some("b"),
                attributes: vec![put(Some("n"), Some("v"), true)]
            },
            ItemPut {
                item: None,
                attributes: vec![put(None, Some("w"), false)]
            },
        ]
    );
    let form = "Action=BatchDeleteAttributes&DomainName=dom&Item.2.ItemName=a\
        &Item.3.ItemName=b&Item.3.Attribute.1.Name=n&Item.3.Attribute.1.Value=v\
        &Item.3.Attribute.1.Replace=whatever";
    let Ok(Request::BatchDeleteAttributes { deletes, .. }) = parse(form) else {
        panic!("not read")
    };
    let delete = AttributeDelete {
        name: some("n"),
        value: some("v"),
    };
    assert_eq!(
        deletes,
        [
            ItemDelete {
                item: some("a"),
                attributes: vec![]
            },
            ItemDelete {
                item: some("b"),
                attributes: vec![delete]
            },
        ]
    );
}

#[test]
fn attribute_names_are_read_with_and_without_index() {
    let form = "Action=GetAttributes&DomainName=dom&ItemName=i\
        &AttributeName.10=c&AttributeName.2=b&AttributeName=a&AttributeNames=x";
    assert_eq!(
        parse(&form.replace("&AttributeNames=x", "")),
        Ok(Request::GetAttributes {
            domain: "dom".to_owned(),
            item: "i".to_owned(),
            names: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
            consistent: false,
        })
    );
    assert!(parse(form).is_err());
}

#[test]
fn empty_lists_as_botocore_writes_them_have_no_members() {
    for (with_list, without) in [
        (
            "Action=GetAttributes&DomainName=dom&ItemName=i&AttributeNames=",
            "Action=GetAttributes&DomainName=dom&ItemName=i",
        ),
        (
            "Action=BatchDeleteAttributes&DomainName=dom&Item.1.ItemName=i&Item.1.Attributes=",
            "Action=BatchDeleteAttributes&DomainName=dom&Item.1.ItemName=i",
        ),
        (
            "Action=BatchPutAttributes&DomainName=dom&Item.1.ItemName=i&Item.1.Attributes=",
            "Action=BatchPutAttributes&DomainName=dom&Item.1.ItemName=i",
        ),
    ] {
        let expected = parse(without);
        assert!(expected.is_ok());
        assert_eq!(parse(with_list), expected, "{with_list}");
    }
}

/// Forms with a value that is not one, and the refusal after `InvalidParameterValue: Value (`.
const INVALID_VALUES: &[(&str, &str)] = &[
    (
        "Action=PutAttributes&DomainName=d&Attribute.1.Replace=yes",
        "yes) for parameter Replace is invalid. The Replace flag should be either true or false.",
    ),
    (
        "Action=PutAttributes&DomainName=d&Attribute.1.Replace=",
        ") for parameter Replace is invalid. The Replace flag should be either true or false.",
    ),
    (
        "Action=PutAttributes&DomainName=d&Expected.Exists=TRUE",
        "TRUE) for parameter Expected.Exists is invalid. \
         Expected.Exists should be either true or false.",
    ),
    (
        "Action=Select&SelectExpression=s&ConsistentRead=1",
        "1) for parameter ConsistentRead is invalid. \
         The ConsistentRead flag should be either true or false.",
    ),
    (
        "Action=ListDomains&MaxNumberOfDomains=x",
        "x) for parameter MaxNumberOfDomains is invalid. \
         MaxNumberOfDomains must be between 1 and 100.",
    ),
    (
        "Action=Query&DomainName=d&MaxNumberOfItems=9999999999999999999",
        "9999999999999999999) for parameter MaxNumberOfItems is invalid. \
         MaxNumberOfItems must be between 1 and 250.",
    ),
];

#[test]
fn invalid_values_are_refused_in_the_words_of_aws() {
    for (form, expected) in INVALID_VALUES {
        let expected = format!("InvalidParameterValue: Value ({expected}");
        assert_eq!(parse(form), Err(expected), "{form}");
    }
}

#[test]
fn members_that_cannot_be_understood_are_refused() {
    for (action, name) in [
        ("PutAttributes", "Attribute.99999999999.Name"),
        ("PutAttributes", "Attribute.-1.Name"),
        ("PutAttributes", "Attribute.1"),
        ("PutAttributes", "Attribute.1.Nme"),
        ("PutAttributes", "Expected.1.Replace"),
        ("BatchPutAttributes", "Item.1.Attribute.x.Name"),
        ("BatchPutAttributes", "Item.1.Name"),
        ("GetAttributes", "AttributeName.x"),
        ("GetAttributes", "AttributeName."),
        ("BatchPutAttributes", "Item.1.Attributes"),
        ("GetAttributes", "AttributeName.00000000001"),
    ] {
        let form = format!("Action={action}&DomainName=d&ItemName=i&{name}=n");
        let expected = format!(
            "InvalidParameterValue: Value (n) for parameter {name} is invalid. \
             The parameter's name is not understood."
        );
        assert_eq!(parse(&form), Err(expected), "{form}");
    }
}

#[test]
fn missing_or_contradictory_parameters_are_refused() {
    let missing = "MissingParameter: The request must contain the parameter";
    let replace = "FeatureDeprecated: The replace flag must be specified per attribute, not per \
        item.";
    for (form, expected) in [
        (
            "",
            "MissingAction: No action was supplied with this request.",
        ),
        (
            "Action=Put",
            "InvalidAction: The action Put is not valid for this web service.",
        ),
        ("Action=CreateDomain", &format!("{missing} DomainName.")),
        (
            "Action=GetAttributes&ItemName=i",
            &format!("{missing} DomainName."),
        ),
        (
            "Action=GetAttributes&DomainName=d",
            &format!("{missing} ItemName."),
        ),
        ("Action=Select", &format!("{missing} SelectExpression.")),
        (
            "Action=ListDomains&NextToken=?",
            "InvalidNextToken: The specified next token is not valid.",
        ),
        ("Action=PutAttributes&DomainName=d&Replace=true", replace),
        (
            "Action=BatchPutAttributes&DomainName=d&Item.1.Replace=true",
            replace,
        ),
        (
            "Action=PutAttributes&DomainName=d&Attribute.1.Name=n&Attribute.01.Name=m",
            "InvalidParameterCombination: The parameter Attribute.1.Name cannot be used with the \
             parameter Attribute.1.Name",
        ),
    ] {
        assert_eq!(parse(form), Err(expected.to_owned()), "{form}");
    }
}

#[test]
fn versions_decide_which_actions_there_are() {
    let outcome = |form: &str| {
        let parameters = Parameters::read(b"", form.as_bytes(), 100).unwrap();
        let version = Version::of(&parameters).map_err(|error| error.to_string())?;
        Action::of(&parameters, version).map_err(|error| error.to_string())
    };
    for action in Action::ALL {
        assert_eq!(Action::ALL[action as usize], action);
        let form = format!("Version=2007-11-07&Action={}", action.name());
        assert_eq!(outcome(&form), Ok(action));
        let is_of_both = !action.name().starts_with("Query");
        let form = format!("Version=2009-04-15&Action={}", action.name());
        assert_eq!(outcome(&form).is_ok(), is_of_both, "{form}");
    }
    assert_eq!(
        outcome("Action=Select&Version=2012-11-05").unwrap_err(),
        "NoSuchVersion: The requested version (2012-11-05) of service AmazonSimpleDB does not \
         exist."
    );
    assert_eq!(
        outcome("Action=Select").unwrap_err(),
        "MissingParameter: The request must contain the parameter Version."
    );
}

proptest! {
    #[test]
    fn any_members_are_read_or_refused(
        action in 0..Action::ALL.len(),
        names in proptest::collection::vec(
            "(Attribute|Item|Expected|AttributeName)(\\.[0-9]{0,12})?(\\.(Name|Value|Replace|\
             Exists|ItemName|Attribute))?(\\.[0-9x]{0,3})?(\\.(Name|Value|Replace))?",
            0..8,
        ),
    ) {
        let action = Action::ALL[action].name();
        let mut form = format!("Action={action}&DomainName=d&ItemName=i&SelectExpression=s");
        for name in names {
            form.push('&');
            form.push_str(&name);
            form.push_str("=true");
        }
        let _ = parse(&form);
    }
}
