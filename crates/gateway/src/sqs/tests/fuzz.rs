//! Requests made of the words of SQS in any order and of any type. The result is an exact refusal
//! or a command, and nothing that is larger than what came.

use fader_services::policy::Principal;
use fader_services::service::Service as _;
use fader_services::sqs::{Caller, Request, Sqs};
use serde_json::{Map, Value as Json};

use super::*;

const ACTIONS: [&str; 24] = [
    "AddPermission",
    "CancelMessageMoveTask",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "CreateQueue",
    "DeleteMessage",
    "DeleteMessageBatch",
    "DeleteQueue",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueueTags",
    "ListQueues",
    "PeekMessages",
    "PurgeQueue",
    "ReceiveMessage",
    "RemovePermission",
    "SendMessage",
    "SendMessageBatch",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
];

/// Names of parameters in JSON, and parts of names in a form.
const WORDS: [&str; 34] = [
    "QueueUrl",
    "QueueName",
    "QueueOwnerAWSAccountId",
    "Attributes",
    "Attribute",
    "tags",
    "Tag",
    "Tags",
    "Key",
    "Name",
    "Value",
    "TagKeys",
    "TagKey",
    "Entries",
    "SendMessageBatchRequestEntry",
    "DeleteMessageBatchRequestEntry",
    "ChangeMessageVisibilityBatchRequestEntry",
    "Id",
    "MessageBody",
    "DelaySeconds",
    "MessageAttributes",
    "MessageAttribute",
    "MessageSystemAttributes",
    "DataType",
    "StringValue",
    "BinaryValue",
    "MessageGroupId",
    "ReceiptHandle",
    "VisibilityTimeout",
    "MaxNumberOfMessages",
    "AttributeNames",
    "SourceArn",
    "TaskHandle",
    "NextToken",
];

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(URL.to_owned()),
        Just("arn:aws:sqs:us-east-1:000000000001:jobs".to_owned()),
        Just("AP8=".to_owned()),
        Just("99999999999999999999".to_owned()),
        "[a-zA-Z0-9:/._=-]{0,20}",
        any::<String>(),
    ]
}

pub(super) fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        (0..20_i64).prop_map(Json::from),
        texts().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let pairs = proptest::collection::vec((0..WORDS.len(), inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Json::from),
            pairs.prop_map(object),
        ]
    })
}

fn object(pairs: Vec<(usize, Json)>) -> Json {
    let pairs = pairs.into_iter();
    let pairs: Map<String, Json> = pairs.map(|(at, it)| (WORDS[at].to_owned(), it)).collect();
    Json::Object(pairs)
}

fn forms() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        (0..WORDS.len()).prop_map(|at| WORDS[at].to_owned()),
        (0..4_u64).prop_map(|at| at.to_string()),
        any::<u64>().prop_map(|at| at.to_string()),
    ];
    let name = proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join("."));
    let value = "[a-zA-Z0-9%:/.+]{0,30}";
    let pairs = proptest::collection::vec((name, value), 0..12);
    pairs.prop_map(|pairs| {
        let pairs = pairs.into_iter();
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.join("&")
    })
}

/// A refusal that both protocols show, or a command no larger than what came.
fn check(parsed: Result<Parsed, Error>, came: usize) {
    match parsed {
        Ok(parsed) => {
            let request = Request {
                caller: Caller::of(Principal::Anonymous),
                region: String::new(),
                seed: 0,
                command: parsed.command,
            };
            let size = Sqs::size(&request);
            assert!(size <= came + 4096, "{size} bytes of {came}: {request:?}");
        }
        Err(refused) => {
            let json = error(Protocol::Json, &refused, ID);
            assert_eq!(refused.code.status() / 100, 4, "{refused}");
            serde_json::from_slice::<Json>(&json.body).unwrap();
            let query = error(Protocol::Query, &refused, ID);
            String::from_utf8(query.body).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn json_of_any_types_is_refused_or_is_a_command(
        at in 0..ACTIONS.len(),
        pairs in proptest::collection::vec((0..WORDS.len(), json()), 0..8),
        is_object in any::<bool>(),
        other in json(),
    ) {
        let action = Action::named(ACTIONS[at]).unwrap();
        let tree = if is_object { object(pairs) } else { other };
        let text = serde_json::to_vec(&tree).unwrap();
        let tree = serde_json::from_slice(&text).unwrap();
        check(parse(action, Node::Json(&tree), "/", None, 0), text.len());
    }

    #[test]
    fn a_form_of_any_names_is_refused_or_is_a_command(at in 0..ACTIONS.len(), text in forms()) {
        let action = Action::named(ACTIONS[at]).unwrap();
        if let Ok(parameters) = Parameters::read(b"", text.as_bytes(), 100) {
            match Form::read(&parameters) {
                Ok(form) => {
                    let parsed = parse(action, Node::Form(&form), "/000000000001/jobs", None, 0);
                    check(parsed, text.len());
                }
                Err(refused) => check(Err(refused), text.len()),
            }
        }
    }
}
