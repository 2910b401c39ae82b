//! From parameters to a command. What the command's type leaves optional stays so: services judge
//! it.

use fader_services::catalog::AccountId;
use fader_services::sqs::command::{
    AddPermission, Attribute, CancelMessageMoveTask, ChangeMessageVisibility, Command, CreateQueue,
    DeleteEntry, DeleteMessage, GetQueueAttributes, List, ListMessageMoveTasks, Named,
    PeekMessages, ReceiveMessage, RemovePermission, SendEntry, SendMessage, SetQueueAttributes,
    StartMessageMoveTask, TagQueue, UntagQueue, Value, VisibilityEntry,
};
use fader_services::sqs::{Code, Error, account_in, name_in, split_task_handle};

use super::action::Action;
use super::node::Node;

/// A request that is understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Whose queue it is about; `None`: the caller's.
    pub(crate) owner: Option<AccountId>,
    /// What is asked.
    pub(crate) command: Command,
}

/// Reads the parameters of an action. `path` is that of the request, which may be the queue's.
pub(crate) fn parse(
    action: Action,
    node: Node<'_>,
    path: &str,
    mode: Option<u8>,
    arrived_ms: u64,
) -> Result<Parsed, Error> {
    let of_caller = |command| {
        Ok(Parsed {
            owner: None,
            command,
        })
    };
    match action {
        Action::CreateQueue => of_caller(Command::CreateQueue(CreateQueue {
            queue: queue_name(node)?,
            attributes: node.pairs("Attributes", "Attribute", "Name")?,
            tags: node.pairs("tags", "Tag", "Key")?,
            mode,
        })),
        Action::ListQueues => of_caller(Command::ListQueues(List {
            queue: node.text("QueueNamePrefix")?.unwrap_or_default(),
            max_results: node.number("MaxResults")?,
            next_token: node.text("NextToken")?,
        })),
        Action::GetQueueUrl => Ok(Parsed {
            owner: node.text("QueueOwnerAWSAccountId")?.map(AccountId),
            command: Command::GetQueueUrl(Named {
                queue: queue_name(node)?,
            }),
        }),
        Action::StartMessageMoveTask => start(node),
        Action::CancelMessageMoveTask => cancel(node),
        Action::ListMessageMoveTasks => {
            let source_arn = required(node, "SourceArn")?;
            let (owner, queue) = of_arn(&source_arn, "SourceArn")?;
            Ok(Parsed {
                owner,
                command: Command::ListMessageMoveTasks(ListMessageMoveTasks {
                    queue,
                    source_arn,
                    max_results: node.number("MaxResults")?,
                }),
            })
        }
        _ => {
            let (owner, queue) = queue_of(node, path)?;
            let command = of_queue(action, node, queue, arrived_ms)?;
            Ok(Parsed { owner, command })
        }
    }
}

/// An action on a queue that is named by its URL.
fn of_queue(
    action: Action,
    node: Node<'_>,
    queue: String,
    arrived_ms: u64,
) -> Result<Command, Error> {
    Ok(match action {
        Action::AddPermission => Command::AddPermission(AddPermission {
            queue,
            label: required(node, "Label")?,
            accounts: node.texts("AWSAccountIds", "AWSAccountId")?,
            actions: node.texts("Actions", "ActionName")?,
        }),
        Action::RemovePermission => Command::RemovePermission(RemovePermission {
            queue,
            label: required(node, "Label")?,
        }),
        Action::DeleteQueue => Command::DeleteQueue(Named { queue }),
        Action::PurgeQueue => Command::PurgeQueue(Named { queue }),
        Action::ListQueueTags => Command::ListQueueTags(Named { queue }),
        Action::GetQueueAttributes => Command::GetQueueAttributes(GetQueueAttributes {
            queue,
            names: node.texts("AttributeNames", "AttributeName")?,
        }),
        Action::SetQueueAttributes => Command::SetQueueAttributes(SetQueueAttributes {
            queue,
            attributes: node.pairs("Attributes", "Attribute", "Name")?,
        }),
        Action::ListDeadLetterSourceQueues => Command::ListDeadLetterSourceQueues(List {
            queue,
            max_results: node.number("MaxResults")?,
            next_token: node.text("NextToken")?,
        }),
        Action::TagQueue => Command::TagQueue(TagQueue {
            queue,
            tags: node.pairs("Tags", "Tag", "Key")?,
        }),
        Action::UntagQueue => Command::UntagQueue(UntagQueue {
            queue,
            keys: node.texts("TagKeys", "TagKey")?,
        }),
        Action::PeekMessages => Command::PeekMessages(PeekMessages {
            queue,
            after: node
                .text("After")?
                .and_then(|after| after.parse().ok())
                .unwrap_or(0),
            max_messages: node.number("MaxNumberOfMessages")?,
        }),
        _ => return of_messages(action, node, queue, arrived_ms),
    })
}

/// An action on messages.
fn of_messages(
    action: Action,
    node: Node<'_>,
    queue: String,
    arrived_ms: u64,
) -> Result<Command, Error> {
    let entries = |name: &str| node.list("Entries", name);
    Ok(match action {
        Action::ReceiveMessage => Command::ReceiveMessage(receive(node, queue, arrived_ms)?),
        Action::SendMessage => Command::SendMessage(SendMessage {
            queue,
            is_batch: false,
            entries: vec![send_entry(node)?],
        }),
        Action::SendMessageBatch => Command::SendMessage(SendMessage {
            queue,
            is_batch: true,
            entries: each(entries("SendMessageBatchRequestEntry")?, send_entry)?,
        }),
        Action::DeleteMessage => Command::DeleteMessage(DeleteMessage {
            queue,
            is_batch: false,
            entries: vec![delete_entry(node)?],
        }),
        Action::DeleteMessageBatch => Command::DeleteMessage(DeleteMessage {
            queue,
            is_batch: true,
            entries: each(entries("DeleteMessageBatchRequestEntry")?, delete_entry)?,
        }),
        Action::ChangeMessageVisibility => {
            Command::ChangeMessageVisibility(ChangeMessageVisibility {
                queue,
                is_batch: false,
                entries: vec![visibility_entry(node)?],
            })
        }
        Action::ChangeMessageVisibilityBatch => {
            let all = entries("ChangeMessageVisibilityBatchRequestEntry")?;
            Command::ChangeMessageVisibility(ChangeMessageVisibility {
                queue,
                is_batch: true,
                entries: each(all, visibility_entry)?,
            })
        }
        _ => return Err(Error::new(Code::InvalidAction, "The action is not known.")),
    })
}

fn each<T>(nodes: Vec<Node<'_>>, read: fn(Node<'_>) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    nodes.into_iter().map(read).collect()
}

fn receive(node: Node<'_>, queue: String, arrived_ms: u64) -> Result<ReceiveMessage, Error> {
    let mut system_names = node.texts("AttributeNames", "AttributeName")?;
    let newer = "MessageSystemAttributeName";
    system_names.extend(node.texts("MessageSystemAttributeNames", newer)?);
    Ok(ReceiveMessage {
        queue,
        system_names,
        attribute_names: node.texts("MessageAttributeNames", "MessageAttributeName")?,
        max_messages: node.number("MaxNumberOfMessages")?,
        visibility_timeout: node.number("VisibilityTimeout")?,
        wait_seconds: node.number("WaitTimeSeconds")?,
        attempt_id: node.text("ReceiveRequestAttemptId")?,
        arrived_ms,
    })
}

fn send_entry(node: Node<'_>) -> Result<SendEntry, Error> {
    Ok(SendEntry {
        id: node.text("Id")?.unwrap_or_default(),
        body: node.text("MessageBody")?,
        delay_seconds: node.number("DelaySeconds")?,
        attributes: attributes(node, "MessageAttributes", "MessageAttribute")?,
        system_attributes: attributes(node, "MessageSystemAttributes", "MessageSystemAttribute")?,
        deduplication_id: node.text("MessageDeduplicationId")?,
        group_id: node.text("MessageGroupId")?,
    })
}

fn delete_entry(node: Node<'_>) -> Result<DeleteEntry, Error> {
    Ok(DeleteEntry {
        id: node.text("Id")?.unwrap_or_default(),
        receipt_handle: node.text("ReceiptHandle")?,
    })
}

fn visibility_entry(node: Node<'_>) -> Result<VisibilityEntry, Error> {
    Ok(VisibilityEntry {
        id: node.text("Id")?.unwrap_or_default(),
        receipt_handle: node.text("ReceiptHandle")?,
        visibility_timeout: node.number("VisibilityTimeout")?,
    })
}

fn attributes(node: Node<'_>, json: &str, query: &str) -> Result<Vec<Attribute>, Error> {
    let all = node.map(json, query, "Name")?;
    let read = all.into_iter().map(|(name, it)| {
        let lists = [
            ("StringListValues", "StringListValue"),
            ("BinaryListValues", "BinaryListValue"),
        ];
        let has_list = lists
            .iter()
            .any(|(json, query)| it.list(json, query).is_ok_and(|list| !list.is_empty()));
        let value = match (it.text("StringValue")?, it.bytes("BinaryValue")?) {
            _ if has_list => Value::List,
            (Some(text), _) => Value::Text(text),
            (None, Some(bytes)) => Value::Binary(bytes),
            (None, None) => Value::Missing,
        };
        Ok(Attribute {
            name,
            data_type: it.text("DataType")?.unwrap_or_default(),
            value,
        })
    });
    read.collect()
}

fn start(node: Node<'_>) -> Result<Parsed, Error> {
    let source_arn = required(node, "SourceArn")?;
    let (owner, queue) = of_arn(&source_arn, "SourceArn")?;
    let destination_arn = node.text("DestinationArn")?;
    let destination = destination_arn
        .as_ref()
        .map(|arn| of_arn(arn, "DestinationArn"));
    let destination = destination.transpose()?.map(|(_, name)| name);
    Ok(Parsed {
        owner,
        command: Command::StartMessageMoveTask(StartMessageMoveTask {
            queue,
            source_arn,
            destination,
            destination_arn,
            max_per_second: node.number("MaxNumberOfMessagesPerSecond")?,
        }),
    })
}

fn cancel(node: Node<'_>) -> Result<Parsed, Error> {
    let handle = required(node, "TaskHandle")?;
    let invalid = || {
        let message = "Value for parameter TaskHandle is invalid.";
        Error::new(Code::InvalidParameterValue, message)
    };
    let (task, arn) = split_task_handle(&handle).ok_or_else(invalid)?;
    let (owner, queue) = of_arn(&arn, "SourceArn")?;
    Ok(Parsed {
        owner,
        command: Command::CancelMessageMoveTask(CancelMessageMoveTask { queue, task }),
    })
}

/// The account and the name in an ARN.
fn of_arn(arn: &str, parameter: &str) -> Result<(Option<AccountId>, String), Error> {
    let (account, name) = account_in(arn).zip(name_in(arn)).ok_or_else(|| {
        let message =
            format!("The resource that you specified for the {parameter} parameter doesn't exist.");
        Error::new(Code::ResourceNotFound, message)
    })?;
    Ok((Some(AccountId(account.to_owned())), name.to_owned()))
}

/// The account and the name in the queue's URL: its last two parts. Its host is not judged: a queue
/// is reached by many names. A request without the parameter may go to the queue's path.
fn queue_of(node: Node<'_>, path: &str) -> Result<(Option<AccountId>, String), Error> {
    let url = node.text("QueueUrl")?;
    let url = url.as_deref().filter(|url| !url.is_empty()).unwrap_or(path);
    let mut parts = url.trim_end_matches('/').rsplit('/');
    match (parts.next(), parts.next()) {
        (Some(name), Some(account)) if !name.is_empty() && is_account(account) => {
            Ok((Some(AccountId(account.to_owned())), name.to_owned()))
        }
        _ => Err(Error::no_such_queue()),
    }
}

fn is_account(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn queue_name(node: Node<'_>) -> Result<String, Error> {
    required(node, "QueueName")
}

fn required(node: Node<'_>, name: &str) -> Result<String, Error> {
    node.text(name)?.ok_or_else(|| Error::missing(name))
}
