//! Both protocols of SQS: bytes to commands, replies to bytes.

use fader_services::catalog::AccountId;
use fader_services::sqs::command::{Attribute, Command, Value};
use fader_services::sqs::{Code, Entry, Error, Message, Page, Reply, Sent, Task};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::parse::{Parsed, parse};
use super::*;
use crate::parameters::Parameters;

mod fuzz;

const URL: &str = "http://localhost:8080/000000000001/jobs";
const ID: &str = "00000000-0000-4000-8000-000000000000";

fn by_json(action: Action, text: &str) -> Result<Parsed, Error> {
    let json = serde_json::from_str(text).unwrap();
    parse(action, Node::Json(&json), "/", None, 7)
}

fn by_form(action: Action, path: &str, text: &str) -> Result<Parsed, Error> {
    let parameters = Parameters::read(b"", text.as_bytes(), 1000).unwrap();
    let form = Form::read(&parameters).unwrap();
    parse(action, Node::Form(&form), path, None, 7)
}

#[test]
fn both_protocols_come_to_the_same_command() {
    for (action, json, form) in [
        (
            Action::CreateQueue,
            r#"{"QueueName":"q","Attributes":{"DelaySeconds":"5"},"tags":{"k":"v"}}"#,
            "QueueName=q&Attribute.1.Name=DelaySeconds&Attribute.1.Value=5&Tag.1.Key=k\
             &Tag.1.Value=v",
        ),
        (
            Action::SendMessage,
            r#"{"QueueUrl":"URL","MessageBody":"b","DelaySeconds":3,"MessageGroupId":"g",
                "MessageAttributes":{"a":{"DataType":"Binary","BinaryValue":"AP8="}},
                "MessageSystemAttributes":{"t":{"DataType":"String","StringValue":"x"}}}"#,
            "QueueUrl=URL&MessageBody=b&DelaySeconds=3&MessageGroupId=g\
             &MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=Binary\
             &MessageAttribute.1.Value.BinaryValue=AP8%3D&MessageSystemAttribute.1.Name=t\
             &MessageSystemAttribute.1.Value.DataType=String\
             &MessageSystemAttribute.1.Value.StringValue=x",
        ),
        (
            Action::SendMessageBatch,
            r#"{"QueueUrl":"URL","Entries":[{"Id":"a","MessageBody":"1"},
                {"Id":"b","MessageBody":"2","MessageDeduplicationId":"d"}]}"#,
            "QueueUrl=URL&SendMessageBatchRequestEntry.10.Id=b\
             &SendMessageBatchRequestEntry.10.MessageBody=2\
             &SendMessageBatchRequestEntry.10.MessageDeduplicationId=d\
             &SendMessageBatchRequestEntry.2.Id=a&SendMessageBatchRequestEntry.2.MessageBody=1",
        ),
        (
            Action::ReceiveMessage,
            r#"{"QueueUrl":"URL","MaxNumberOfMessages":5,"WaitTimeSeconds":20,
                "AttributeNames":["All"],"MessageAttributeNames":["a","b.*"],
                "ReceiveRequestAttemptId":"r"}"#,
            "QueueUrl=URL&MaxNumberOfMessages=5&WaitTimeSeconds=20&AttributeName.1=All\
             &MessageAttributeName.1=a&MessageAttributeName.2=b.*&ReceiveRequestAttemptId=r",
        ),
        (
            Action::ChangeMessageVisibilityBatch,
            r#"{"QueueUrl":"URL",
                "Entries":[{"Id":"a","ReceiptHandle":"h","VisibilityTimeout":0}]}"#,
            "QueueUrl=URL&ChangeMessageVisibilityBatchRequestEntry.1.Id=a\
             &ChangeMessageVisibilityBatchRequestEntry.1.ReceiptHandle=h\
             &ChangeMessageVisibilityBatchRequestEntry.1.VisibilityTimeout=0",
        ),
        (
            Action::AddPermission,
            r#"{"QueueUrl":"URL","Label":"l","AWSAccountIds":["1"],"Actions":["*"]}"#,
            "QueueUrl=URL&Label=l&AWSAccountId.1=1&ActionName.1=*",
        ),
        (
            Action::UntagQueue,
            r#"{"QueueUrl":"URL","TagKeys":["a","b"]}"#,
            "QueueUrl=URL&TagKey.1=a&TagKey.2=b",
        ),
    ] {
        let from_json = by_json(action, &json.replace("URL", URL)).unwrap();
        let from_form = by_form(action, "/", &form.replace("URL", URL)).unwrap();
        assert_eq!(from_json, from_form, "{action:?}");
    }
}

#[test]
fn a_queue_is_named_by_its_url_with_any_host_or_by_the_path() {
    for url in [
        URL,
        "https://elsewhere/000000000001/jobs",
        "/000000000001/jobs/",
    ] {
        let parsed = by_json(Action::PurgeQueue, &format!(r#"{{"QueueUrl":"{url}"}}"#)).unwrap();
        assert_eq!(parsed.owner, Some(AccountId("000000000001".to_owned())));
        assert_eq!(parsed.command.queue(), Some("jobs"));
    }
    let parsed = by_form(Action::PurgeQueue, "/000000000001/jobs", "").unwrap();
    assert_eq!(parsed.command.queue(), Some("jobs"));
    for url in [
        "",
        "jobs",
        "http://",
        "http://host/",
        "http://host/a b/jobs",
    ] {
        let refused = by_json(Action::PurgeQueue, &format!(r#"{{"QueueUrl":"{url}"}}"#));
        assert_eq!(
            refused.unwrap_err().code,
            Code::QueueDoesNotExist,
            "{url:?}"
        );
    }
}

#[test]
fn wrong_types_and_bad_base64_are_malformed() {
    for text in [
        r#"{"QueueUrl":7}"#,
        r#"{"QueueUrl":"URL","MessageBody":{}}"#,
        r#"{"QueueUrl":"URL","MessageBody":"x","DelaySeconds":"soon"}"#,
        r#"{"QueueUrl":"URL","MessageBody":"x","DelaySeconds":1.5}"#,
        r#"{"QueueUrl":"URL","MessageBody":"x","MessageAttributes":[]}"#,
        r#"{"QueueUrl":"URL","MessageBody":"x",
            "MessageAttributes":{"a":{"DataType":"Binary","BinaryValue":"!"}}}"#,
    ] {
        let refused = by_json(Action::SendMessage, &text.replace("URL", URL)).unwrap_err();
        assert_eq!(refused.code, Code::MalformedInput, "{text}");
    }
    let entries = format!(r#"{{"QueueUrl":"{URL}","Entries":{{}}}}"#);
    let refused = by_json(Action::SendMessageBatch, &entries).unwrap_err();
    assert_eq!(refused.code, Code::MalformedInput);
    let missing = by_json(Action::CreateQueue, "{}").unwrap_err();
    assert_eq!(missing.code, Code::MissingParameter);
    let handle = by_json(Action::CancelMessageMoveTask, r#"{"TaskHandle":"x"}"#).unwrap_err();
    assert_eq!(handle.code, Code::InvalidParameterValue);
    let arn = by_json(Action::StartMessageMoveTask, r#"{"SourceArn":"x"}"#).unwrap_err();
    assert_eq!(arn.code, Code::ResourceNotFound);
    let deep = format!("{}=1", "a.".repeat(20));
    let parameters = Parameters::read(b"", deep.as_bytes(), 10).unwrap();
    assert_eq!(
        Form::read(&parameters).unwrap_err().code,
        Code::MalformedInput
    );
}

fn headers(all: &[(HeaderName, &str)]) -> HeaderMap {
    let all = all.iter();
    all.map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
        .collect()
}

#[test]
fn the_scope_then_the_target_then_the_version_choose_the_service() {
    let target = HeaderName::from_static("x-amz-target");
    let of_sqs = "AWS4-HMAC-SHA256 Credential=K/20261124/eu-west-1/sqs/aws4_request, Signature=0";
    let of_sdb = "AWS4-HMAC-SHA256 Credential=K/20261124/eu-west-1/sdb/aws4_request, Signature=0";
    let send = "AmazonSQS.SendMessage";
    let chosen = |all: &[(HeaderName, &str)], query: &str| {
        let parameters = Parameters::read(query.as_bytes(), b"", 100).unwrap();
        protocol_of(&headers(all), &parameters)
    };
    let json = Some((Protocol::Json, "eu-west-1".to_owned()));
    let query = Some((Protocol::Query, "eu-west-1".to_owned()));
    assert_eq!(
        chosen(&[(AUTHORIZATION, of_sqs), (target.clone(), send)], ""),
        json
    );
    assert_eq!(
        chosen(&[(AUTHORIZATION, of_sqs)], "Version=2009-04-15"),
        query
    );
    assert_eq!(
        chosen(&[(AUTHORIZATION, of_sdb)], "Version=2012-11-05"),
        None
    );
    let anywhere = |protocol| Some((protocol, "us-east-1".to_owned()));
    assert_eq!(
        chosen(&[(target.clone(), send)], ""),
        anywhere(Protocol::Json)
    );
    assert_eq!(chosen(&[(target, "Other.Do")], "Version=2012-11-05"), None);
    assert_eq!(chosen(&[], "Version=2012-11-05"), anywhere(Protocol::Query));
    assert_eq!(chosen(&[], "Version=2009-04-15"), None);
    let presigned = "X-Amz-Credential=K%2F20261124%2Feu-west-1%2Fsqs%2Faws4_request";
    assert_eq!(chosen(&[], presigned), query);
}

fn shown(protocol: Protocol, action: Action, it: Reply) -> String {
    let account = AccountId("000000000001".to_owned());
    let place = Place {
        scheme: "http",
        host: "localhost:8080",
        account: &account,
    };
    String::from_utf8(reply(protocol, action, &place, it, ID).body).unwrap()
}

fn sent() -> Sent {
    Sent {
        id: 0x0011_2233_4455_4677_8899_aabb_ccdd_eeff,
        md5_of_body: 1,
        md5_of_attributes: None,
        md5_of_system_attributes: None,
        sequence: Some(7),
    }
}

#[allow(clippy::too_many_lines, reason = "one reply of each kind")]
fn replies() -> Vec<(Action, Reply)> {
    let refused = Error::new(Code::InvalidMessageContents, "bad <text>");
    let message = Message {
        id: 1,
        handle: "h".to_owned(),
        md5_of_body: 2,
        body: "a & b\r".to_owned(),
        system: vec![("SenderId".to_owned(), "K".to_owned())],
        md5_of_attributes: Some(3),
        attributes: vec![
            Attribute {
                name: "t".to_owned(),
                data_type: "String".to_owned(),
                value: Value::Text("x".to_owned()),
            },
            Attribute {
                name: "b".to_owned(),
                data_type: "Binary".to_owned(),
                value: Value::Binary(vec![0, 255].into()),
            },
        ],
    };
    let task = Task {
        handle: None,
        status: "COMPLETED".to_owned(),
        source_arn: "arn".to_owned(),
        destination_arn: None,
        max_per_second: Some(5),
        moved: 1,
        to_move: 2,
        failure: None,
        started_ms: 3,
    };
    vec![
        (Action::DeleteQueue, Reply::Done),
        (Action::CreateQueue, Reply::Queue("jobs".to_owned())),
        (
            Action::ListQueues,
            Reply::Queues(Page {
                names: vec!["a".to_owned(), "b".to_owned()],
                next_token: Some("t".to_owned()),
            }),
        ),
        (
            Action::GetQueueAttributes,
            Reply::Pairs(vec![("DelaySeconds".to_owned(), "0".to_owned())]),
        ),
        (
            Action::ListQueueTags,
            Reply::Pairs(vec![("k".to_owned(), "v".to_owned())]),
        ),
        (
            Action::SendMessage,
            Reply::Sent(vec![Entry {
                id: String::new(),
                outcome: Ok(sent()),
            }]),
        ),
        (
            Action::SendMessageBatch,
            Reply::Sent(vec![
                Entry {
                    id: "a".to_owned(),
                    outcome: Ok(sent()),
                },
                Entry {
                    id: "b".to_owned(),
                    outcome: Err(refused),
                },
            ]),
        ),
        (Action::ReceiveMessage, Reply::Messages(Vec::new())),
        (Action::ReceiveMessage, Reply::Messages(vec![message])),
        (Action::ListMessageMoveTasks, Reply::Tasks(vec![task])),
        (Action::CancelMessageMoveTask, Reply::Cancelled(9)),
    ]
}

#[test]
fn replies_are_shown_in_json() {
    let all = replies().into_iter();
    let lines = all.map(|(action, it)| shown(Protocol::Json, action, it) + "\n");
    expect_test::expect_file!["snapshots/replies.json"].assert_eq(&lines.collect::<String>());
}

#[test]
fn replies_are_shown_in_xml_without_space_between_elements() {
    let all = replies().into_iter();
    let lines = all.map(|(action, it)| shown(Protocol::Query, action, it) + "\n");
    expect_test::expect_file!["snapshots/replies.xml"].assert_eq(&lines.collect::<String>());
}

#[test]
fn refusals_are_shown_in_both() {
    let mut lines = String::new();
    for protocol in [Protocol::Json, Protocol::Query] {
        for refused in [
            Error::no_such_queue(),
            Error::new(Code::InternalError, "a \u{1} & b"),
        ] {
            let body = error(protocol, &refused, ID).body;
            lines.push_str(&String::from_utf8(body).unwrap());
            lines.push('\n');
        }
    }
    expect_test::expect_file!["snapshots/refusals.txt"].assert_eq(&lines);
}

#[test]
fn of_a_name_that_comes_twice_the_last_value_counts() {
    let text =
        r#"{"QueueUrl":"URL","MessageBody":"first","Delay\u0053econds":7,"MessageBody":"last"}"#;
    let parsed = by_json(Action::SendMessage, &text.replace("URL", URL)).unwrap();
    let Command::SendMessage(send) = parsed.command else {
        panic!("it is a send");
    };
    assert_eq!(send.entries[0].body.as_deref(), Some("last"));
    assert_eq!(send.entries[0].delay_seconds, Some(7));
}

#[test]
fn attributes_come_in_order_of_name() {
    let text = r#"{"QueueUrl":"URL","MessageBody":"b","MessageAttributes":{
        "b":{"DataType":"String","StringValue":"2"},
        "a":{"DataType":"String","StringValue":"\ud83d\ude00\n"},
        "c":null,
        "b":{"DataType":"String","StringValue":"3"}}}"#;
    let parsed = by_json(Action::SendMessage, &text.replace("URL", URL)).unwrap();
    let Command::SendMessage(send) = parsed.command else {
        panic!("it is a send");
    };
    let all = send.entries[0].attributes.iter();
    let all: Vec<_> = all.map(|it| (it.name.as_str(), it.value.clone())).collect();
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(all, [("a", text("\u{1f600}\n")), ("b", text("3"))]);
}

proptest! {
    #[test]
    fn json_is_read_as_by_others(tree in fuzz::json()) {
        let text = serde_json::to_string(&tree).unwrap();
        let read: Json<'_> = serde_json::from_str(&text).unwrap();
        assert!(is_alike(&read, &tree), "{read:?} of {tree}");
    }

    #[test]
    fn no_json_panics(text in "[\\[\\]{}\":,a-zA-Z0-9. ]{0,120}", at in 0..24_usize) {
        let action = ["SendMessage", "ReceiveMessage", "CreateQueue", "AddPermission"][at % 4];
        let action = Action::named(action).unwrap();
        if let Ok(json) = serde_json::from_str(&text) {
            drop(parse(action, Node::Json(&json), "/", None, 0));
        }
    }

    #[test]
    fn no_form_panics(text in "[a-zA-Z0-9.=&%]{0,120}", at in 0..24_usize) {
        let action = ["SendMessageBatch", "ReceiveMessage", "CreateQueue", "TagQueue"][at % 4];
        let action = Action::named(action).unwrap();
        if let Ok(parameters) = Parameters::read(b"", text.as_bytes(), 100)
            && let Ok(form) = Form::read(&parameters)
        {
            drop(parse(action, Node::Form(&form), "/1/q", None, 0));
        }
    }

    #[test]
    fn any_message_of_an_error_is_carried(message in any::<String>()) {
        let refused = Error::new(Code::InvalidParameterValue, message);
        let json = error(Protocol::Json, &refused, ID).body;
        serde_json::from_slice::<serde_json::Value>(&json).unwrap();
        String::from_utf8(error(Protocol::Query, &refused, ID).body).unwrap();
    }
}

#[test]
fn every_action_is_found_by_its_name() {
    for name in [
        "SendMessage",
        "UntagQueue",
        "PeekMessages",
        "ListMessageMoveTasks",
    ] {
        assert_eq!(Action::named(name).unwrap().name(), name);
    }
    assert_eq!(Action::named("Nothing"), None);
    let parsed = by_json(
        Action::GetQueueUrl,
        r#"{"QueueName":"q","QueueOwnerAWSAccountId":"2"}"#,
    );
    let parsed = parsed.unwrap();
    assert!(matches!(parsed.command, Command::GetQueueUrl(_)));
    assert_eq!(parsed.owner, Some(AccountId("2".to_owned())));
}

fn is_alike(read: &Json<'_>, tree: &serde_json::Value) -> bool {
    match (read, tree) {
        (Json::Null, serde_json::Value::Null) | (Json::Flag, serde_json::Value::Bool(_)) => true,
        (Json::Number(read), serde_json::Value::Number(number)) => *read == number.as_i64(),
        (Json::Text(read), serde_json::Value::String(text)) => read == text,
        (Json::List(read), serde_json::Value::Array(all)) => {
            read.len() == all.len() && read.iter().zip(all).all(|(a, b)| is_alike(a, b))
        }
        (Json::Object(read), serde_json::Value::Object(all)) => {
            let is_same = |(name, it): (&str, &Json<'_>)| {
                all.get(name).is_some_and(|other| is_alike(it, other)) && read.get(name) == Some(it)
            };
            read.iter().count() == all.len() && read.iter().all(is_same)
        }
        _ => false,
    }
}
