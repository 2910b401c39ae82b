//! Flags and lines, read.

use serde_json::{Value, json};

use super::message::{Outgoing, line};
use super::settings::{pair, seconds};

#[test]
fn times_have_units_and_bare_numbers_are_seconds() {
    for (text, expected) in [
        ("30", 30),
        ("30s", 30),
        ("5m", 300),
        ("12h", 43_200),
        ("4d", 345_600),
    ] {
        assert_eq!(seconds(text), Ok(expected), "{text}");
    }
    for text in ["", "s", "-1s", "1.5h", "4w", "99999999999999999d", "1 s"] {
        assert!(seconds(text).is_err(), "{text}");
    }
    assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
    assert!(pair("=b").is_err() && pair("a").is_err());
}

#[test]
fn a_send_reads_the_output_of_a_receive() {
    let received = json!({
        "MessageId": "id",
        "ReceiptHandle": "handle",
        "Body": "one\ntwo",
        "Attributes": {
            "SentTimestamp": "17", "ApproximateReceiveCount": "2", "MessageGroupId": "7",
            "MessageDeduplicationId": "8", "SequenceNumber": "00000000000000000009",
        },
        "MessageAttributes": {
            "a": { "DataType": "Number", "StringValue": "1" },
            "b": { "DataType": "Binary.gif", "BinaryValue": "AP8=" },
        },
    });
    let printed = line(&received, true);
    assert!(printed.ends_with("}\n"));
    assert_eq!(
        serde_json::from_str::<Value>(&printed).unwrap(),
        json!({
            "id": "id", "body": "one\ntwo", "sent_ms": 17, "receives": 2, "group": "7",
            "deduplication_id": "8", "sequence": "00000000000000000009",
            "attributes": {
                "a": { "type": "Number", "value": "1" },
                "b": { "type": "Binary.gif", "value": "AP8=" },
            },
            "receipt_handle": "handle",
        })
    );
    let outgoing = Outgoing::of_json(&printed).unwrap();
    assert_eq!(
        outgoing.entry(3),
        json!({
            "Id": "3", "MessageBody": "one\ntwo", "MessageGroupId": "7",
            "MessageDeduplicationId": "8", "MessageAttributes": received["MessageAttributes"],
        })
    );
    assert_eq!(line(&received, false), "one\ntwo\n");
    for wrong in [
        "x",
        "[]",
        "{}",
        r#"{"body":1}"#,
        r#"{"body":"a","attributes":[]}"#,
        r#"{"body":"a","attributes":{"b":{"type":"String"}}}"#,
    ] {
        assert!(Outgoing::of_json(wrong).is_err(), "{wrong}");
    }
}
