//! What becomes of the entries of a batch.

use serde_json::json;

use super::{Outgoing, judge};

fn pending(count: u64) -> Vec<(u64, Outgoing)> {
    let message = |number: u64| Outgoing {
        body: number.to_string(),
        ..Outgoing::default()
    };
    (1..=count)
        .map(|number| (number, message(number)))
        .collect()
}

#[test]
fn only_entries_that_failed_at_the_endpoint_are_sent_again() {
    let reply = json!({
        "Successful": [{ "Id": "0" }],
        "Failed": [
            { "Id": "1", "SenderFault": true, "Code": "InvalidMessageContents", "Message": "bad" },
            { "Id": "2", "SenderFault": false, "Code": "InternalError", "Message": "later" },
        ],
    });
    let (settled, again) = judge(&reply, pending(4), false);
    assert_eq!(
        settled,
        [
            (1, Ok(())),
            (2, Err("InvalidMessageContents: bad".to_owned())),
            (4, Err("the endpoint said nothing of it".to_owned())),
        ]
    );
    assert_eq!(
        again.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
        [3]
    );
    let (settled, again) = judge(&reply, pending(3), true);
    assert_eq!(settled[2], (3, Err("InternalError: later".to_owned())));
    assert!(again.is_empty());
}
