//! Lines as people and programs write them.

use fader_cloud::{Attribute, Item, ItemPut};

use super::{Columns, Header, from_json, to_json};

fn item(name: &str, attributes: &[(&str, &str)]) -> Item {
    let attributes = attributes.iter().map(|(name, value)| Attribute {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    });
    Item {
        name: name.to_owned(),
        attributes: attributes.collect(),
    }
}

fn as_item(put: ItemPut) -> Item {
    let attributes = put.attributes.into_iter();
    let attributes = attributes.map(|put| Attribute {
        name: put.name,
        value: put.value,
    });
    Item {
        name: put.name,
        attributes: attributes.collect(),
    }
}

#[test]
fn json_lines_survive_the_round_trip() {
    for original in [
        item("a", &[("k", "v")]),
        item("quote\"", &[("k", ""), ("m", "1"), ("m", "2"), ("m", "3")]),
        item(
            "attributes",
            &[("attributes", "item"), ("item", "\u{1}\n€")],
        ),
    ] {
        let line = to_json(&original);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert_eq!(as_item(from_json(&line, None, true).unwrap()), original);
    }
}

#[test]
fn flat_objects_name_their_item() {
    let line = r#"{"isbn":"1","Year":1959,"In print":true,"Keyword":["a","b"],"Note":null}"#;
    let expected = item(
        "1",
        &[
            ("In print", "true"),
            ("Keyword", "a"),
            ("Keyword", "b"),
            ("Year", "1959"),
        ],
    );
    assert_eq!(
        as_item(from_json(line, Some("isbn"), true).unwrap()),
        expected
    );
}

#[test]
fn wrong_lines_say_what_is_wrong() {
    for (line, field, reason) in [
        ("", None, "not a JSON object"),
        ("[1]", None, "not a JSON object"),
        (r#"{"item":"a"}"#, None, "--item-name FIELD"),
        (
            r#"{"item":"a","attributes":{},"x":1}"#,
            None,
            "--item-name FIELD",
        ),
        (r#"{"name":"a"}"#, None, "no field \"item\""),
        (r#"{"item":"a","attributes":{}}"#, None, "has no value"),
        (
            r#"{"item":"","attributes":{"k":"v"}}"#,
            None,
            "name is empty",
        ),
        (
            r#"{"item":["a","b"],"attributes":{"k":"v"}}"#,
            None,
            "not one text",
        ),
        (r#"{"id":"a","k":{"v":1}}"#, Some("id"), "attribute \"k\""),
        (r#"{"id":"a","k":[["v"]]}"#, Some("id"), "arrays in arrays"),
    ] {
        let error = format!("{:#}", from_json(line, field, true).unwrap_err());
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn csv_survives_the_round_trip_in_both_forms() {
    let items = [
        item("a", &[("k", "1"), ("k", "2"), ("m", "x,y")]),
        item("b", &[("z", "\"q\"\nline")]),
    ];
    for separator in [None, Some('|')] {
        let mut columns = Columns::default();
        items.iter().for_each(|item| columns.widen(item));
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(columns.header(separator)).unwrap();
        for item in &items {
            writer
                .write_record(columns.row(item, separator).unwrap())
                .unwrap();
        }
        let text = writer.into_inner().unwrap();
        let mut reader = csv::Reader::from_reader(&text[..]);
        let header = Header::new(reader.headers().unwrap(), None).unwrap();
        for (record, item) in reader.records().zip(&items) {
            let put = header.read(&record.unwrap(), separator, true).unwrap();
            assert_eq!(as_item(put), *item);
        }
    }
}

#[test]
fn csv_that_does_not_fit_is_refused() {
    let mut columns = Columns::default();
    columns.widen(&item("a", &[("k", "1")]));
    assert!(columns.row(&item("b", &[("other", "1")]), None).is_err());
    assert!(
        columns
            .row(&item("b", &[("k", "1"), ("k", "2")]), None)
            .is_err()
    );
    assert!(columns.row(&item("b", &[("k", "1|2")]), Some('|')).is_err());
    let header = Header::new(&vec!["k", "id"].into(), Some("id")).unwrap();
    assert_eq!(
        as_item(header.read(&vec!["v", "a"].into(), None, true).unwrap()),
        item("a", &[("k", "v")])
    );
    assert!(
        header
            .read(&vec!["v", "a", "more"].into(), None, true)
            .is_err()
    );
    assert!(header.read(&vec!["", "a"].into(), None, true).is_err());
    assert!(header.read(&vec!["v", ""].into(), None, true).is_err());
    assert!(Header::new(&vec!["k"].into(), Some("id")).is_err());
}
