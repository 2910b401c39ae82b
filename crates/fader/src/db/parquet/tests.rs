//! What is exported is imported again.

use serde_json::json;

use super::*;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn written(records: &[Map<String, Value>]) -> File {
    let mut columns = Columns::default();
    records.iter().for_each(|record| columns.see(record));
    let mut file = tempfile::tempfile().expect("a file");
    let mut writer = columns.writer(&mut file).expect("a schema");
    records
        .iter()
        .for_each(|record| writer.push(record).expect("it fits"));
    writer.finish().expect("a file");
    file
}

#[test]
fn records_come_back_with_their_types() {
    let records = [
        json!({"key": "a", "n": 1, "price": 2, "is": true, "mixed": 7, "long": i64::MAX}),
        json!({"key": "b", "n": -5, "price": 2.5, "mixed": "text"}),
        json!({"key": "c", "long": 1, "list": [1, {"a": null}]}),
        json!({}),
    ];
    let records = records.map(object);
    let read = rows(written(&records)).expect("readable");
    let read: Vec<_> = read
        .map(|line| (line.number, line.fields.expect("whole")))
        .collect();
    let expected = [
        json!({"key": "a", "n": 1, "price": 2.0, "is": true, "mixed": "7", "long": i64::MAX}),
        json!({"key": "b", "n": -5, "price": 2.5, "mixed": "text"}),
        json!({"key": "c", "long": 1, "list": "[1,{\"a\":null}]"}),
        json!({}),
    ];
    let expected: Vec<_> = (1..).zip(expected.map(object)).collect();
    assert_eq!(read, expected);
}

#[test]
fn integers_beside_doubles_stay_exact() {
    let records = [json!({"n": (1_i64 << 53) + 1}), json!({"n": 0.5})].map(object);
    let read: Vec<_> = rows(written(&records)).expect("readable").collect();
    let values: Vec<_> = read
        .into_iter()
        .map(|line| line.fields.expect("whole"))
        .collect();
    assert_eq!(values[0]["n"], json!("9007199254740993"));
    assert_eq!(values[1]["n"], json!("0.5"));
}

#[test]
fn an_export_without_records_is_a_file() {
    assert_eq!(rows(written(&[])).expect("readable").count(), 0);
}

#[test]
fn damage_names_the_row_group_and_counts_the_rows_that_are_lost() {
    let record = |n: u64| object(json!({"key": n, "text": format!("the text of {n}")}));
    let records: Vec<_> = (0..150_000).map(record).collect();
    let mut file = written(&records);
    let size = file.metadata().expect("a file").len();
    file.seek(SeekFrom::Start(size - size / 8)).expect("a file");
    file.write_all(&[0xFF; 256]).expect("a file");
    let lines: Vec<Line> = rows(file).expect("its footer is whole").collect();
    let bad: Vec<&Line> = lines.iter().filter(|line| line.fields.is_err()).collect();
    assert_eq!(bad.len(), 1);
    let error = bad[0].fields.as_ref().expect_err("it is damaged");
    assert!(error.to_string().starts_with("row group 1:"), "{error}");
    let all: u64 = lines.iter().map(|line| line.count).sum();
    assert_eq!(all, 150_000, "each row is read or counted");
}
