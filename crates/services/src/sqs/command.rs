//! What is asked of queues: one type for both protocols.

mod messages;

pub use self::messages::{
    Attribute, ChangeMessageVisibility, DeleteEntry, DeleteMessage, PeekMessages, ReceiveMessage,
    SendEntry, SendMessage, Value, VisibilityEntry,
};
use crate::Mode;
use crate::forward::wire::Wire as _;
use crate::policy::Principal;
use crate::sqs::reply::Received;
use crate::sqs::wire::{wire_choice, wire_fields};

/// Names and values in the order in which they came.
pub type Pairs = Vec<(String, String)>;

/// A request to SQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks; the account of the context is the one whose queue it is about.
    pub caller: Caller,
    /// The region of the request, for ARNs.
    pub region: String,
    /// Randomness of this request: ids and secrets are derived from it.
    pub seed: u128,
    /// What is asked.
    pub command: Command,
}

wire_fields!(Request {
    caller,
    region,
    seed,
    command
});

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// As policies see it.
    pub principal: Principal,
    /// Whether it has only the rights that policies give it.
    pub is_granted_only: bool,
    /// The address that the request came from, for `aws:SourceIp`.
    pub source_ip: String,
    /// Whether it came over TLS, for `aws:SecureTransport`.
    pub is_secure: bool,
    /// The trace that the request is a part of, as its header `X-Amzn-Trace-Id` names it. It is
    /// that of all messages that it sends without one of their own.
    pub trace: Option<String>,
}

wire_fields!(Caller {
    principal,
    is_granted_only,
    source_ip,
    is_secure,
    trace,
});

impl Caller {
    /// One with all rights of its account.
    pub fn of(principal: Principal) -> Self {
        Caller {
            principal,
            is_granted_only: false,
            source_ip: String::new(),
            is_secure: false,
            trace: None,
        }
    }
}

/// What is asked. `queue` is a queue's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub enum Command {
    AddPermission(AddPermission),
    CancelMessageMoveTask(CancelMessageMoveTask),
    /// With the batch of that name.
    ChangeMessageVisibility(ChangeMessageVisibility),
    CreateQueue(CreateQueue),
    /// With the batch of that name.
    DeleteMessage(DeleteMessage),
    DeleteQueue(Named),
    GetQueueAttributes(GetQueueAttributes),
    GetQueueUrl(Named),
    ListDeadLetterSourceQueues(List),
    ListMessageMoveTasks(ListMessageMoveTasks),
    ListQueueTags(Named),
    ListQueues(List),
    PurgeQueue(Named),
    ReceiveMessage(ReceiveMessage),
    RemovePermission(RemovePermission),
    /// With the batch of that name.
    SendMessage(SendMessage),
    SetQueueAttributes(SetQueueAttributes),
    StartMessageMoveTask(StartMessageMoveTask),
    TagQueue(TagQueue),
    UntagQueue(UntagQueue),
    /// Fader's own: shows messages and receives none.
    PeekMessages(PeekMessages),
    /// Of a node alone: the messages of a receive that is committed.
    ShowReceived(Box<Received>),
}

wire_choice!(Command, "a command to SQS", {
    0 => AddPermission(it),
    1 => CancelMessageMoveTask(it),
    2 => ChangeMessageVisibility(it),
    3 => CreateQueue(it),
    4 => DeleteMessage(it),
    5 => DeleteQueue(it),
    6 => GetQueueAttributes(it),
    7 => GetQueueUrl(it),
    8 => ListDeadLetterSourceQueues(it),
    9 => ListMessageMoveTasks(it),
    10 => ListQueueTags(it),
    11 => ListQueues(it),
    12 => PurgeQueue(it),
    13 => ReceiveMessage(it),
    14 => RemovePermission(it),
    15 => SendMessage(it),
    16 => SetQueueAttributes(it),
    17 => StartMessageMoveTask(it),
    18 => TagQueue(it),
    19 => UntagQueue(it),
    20 => PeekMessages(it),
    21 => ShowReceived(it),
});

/// A queue alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct Named {
    pub queue: String,
}
wire_fields!(Named { queue });

/// Gives accounts the right to actions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct AddPermission {
    pub queue: String,
    pub label: String,
    pub accounts: Vec<String>,
    pub actions: Vec<String>,
}
wire_fields!(AddPermission {
    queue,
    label,
    accounts,
    actions
});

/// Takes a statement of that label out of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct RemovePermission {
    pub queue: String,
    pub label: String,
}
wire_fields!(RemovePermission { queue, label });

/// Creates a queue, or finds one that is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct CreateQueue {
    pub queue: String,
    pub attributes: Pairs,
    pub tags: Pairs,
    /// Fader's own: who may write.
    pub mode: Option<u8>,
}
wire_fields!(CreateQueue {
    queue,
    attributes,
    tags,
    mode
});

impl CreateQueue {
    /// The mode that is asked for.
    pub fn mode(&self) -> Option<Mode> {
        self.mode.and_then(Mode::from_byte)
    }
}

/// Changes attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct SetQueueAttributes {
    pub queue: String,
    pub attributes: Pairs,
}
wire_fields!(SetQueueAttributes { queue, attributes });

/// Reads attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct GetQueueAttributes {
    pub queue: String,
    pub names: Vec<String>,
}
wire_fields!(GetQueueAttributes { queue, names });

/// A page of queues: those of a prefix, or the sources of a dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct List {
    /// The prefix, or the dead-letter queue.
    pub queue: String,
    pub max_results: Option<i64>,
    pub next_token: Option<String>,
}
wire_fields!(List {
    queue,
    max_results,
    next_token
});

/// Adds tags.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct TagQueue {
    pub queue: String,
    pub tags: Pairs,
}
wire_fields!(TagQueue { queue, tags });

/// Removes tags.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct UntagQueue {
    pub queue: String,
    pub keys: Vec<String>,
}
wire_fields!(UntagQueue { queue, keys });

/// Begins to move all messages of a dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartMessageMoveTask {
    /// The dead-letter queue.
    pub queue: String,
    /// Its ARN, as given.
    pub source_arn: String,
    /// Where to; none: where each message came from.
    pub destination: Option<String>,
    /// The ARN of that, as given.
    pub destination_arn: Option<String>,
    /// How many in a second.
    pub max_per_second: Option<i64>,
}
wire_fields!(StartMessageMoveTask {
    queue,
    source_arn,
    destination,
    destination_arn,
    max_per_second,
});

/// Ends a move task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelMessageMoveTask {
    /// The dead-letter queue.
    pub queue: String,
    /// The task.
    pub task: String,
}
wire_fields!(CancelMessageMoveTask { queue, task });

/// Lists the newest move tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub struct ListMessageMoveTasks {
    pub queue: String,
    pub source_arn: String,
    pub max_results: Option<i64>,
}
wire_fields!(ListMessageMoveTasks {
    queue,
    source_arn,
    max_results
});

impl Command {
    /// The queue it is about; none of ListQueues.
    pub fn queue(&self) -> Option<&str> {
        Some(match self {
            Command::AddPermission(it) => &it.queue,
            Command::CancelMessageMoveTask(it) => &it.queue,
            Command::ChangeMessageVisibility(it) => &it.queue,
            Command::CreateQueue(it) => &it.queue,
            Command::DeleteMessage(it) => &it.queue,
            Command::DeleteQueue(it)
            | Command::GetQueueUrl(it)
            | Command::ListQueueTags(it)
            | Command::PurgeQueue(it) => &it.queue,
            Command::GetQueueAttributes(it) => &it.queue,
            Command::ListDeadLetterSourceQueues(it) => &it.queue,
            Command::ListMessageMoveTasks(it) => &it.queue,
            Command::ListQueues(_) => return None,
            Command::PeekMessages(it) => &it.queue,
            Command::ShowReceived(it) => &it.queue,
            Command::ReceiveMessage(it) => &it.queue,
            Command::RemovePermission(it) => &it.queue,
            Command::SendMessage(it) => &it.queue,
            Command::SetQueueAttributes(it) => &it.queue,
            Command::StartMessageMoveTask(it) => &it.queue,
            Command::TagQueue(it) => &it.queue,
            Command::UntagQueue(it) => &it.queue,
        })
    }

    /// The action, as policies name it: a batch needs the right to the single action.
    pub fn action(&self) -> &'static str {
        match self {
            Command::AddPermission(_) => "AddPermission",
            Command::CancelMessageMoveTask(_) => "CancelMessageMoveTask",
            Command::ChangeMessageVisibility(_) => "ChangeMessageVisibility",
            Command::CreateQueue(_) => "CreateQueue",
            Command::DeleteMessage(_) => "DeleteMessage",
            Command::DeleteQueue(_) => "DeleteQueue",
            Command::GetQueueAttributes(_) => "GetQueueAttributes",
            Command::GetQueueUrl(_) => "GetQueueUrl",
            Command::ListDeadLetterSourceQueues(_) => "ListDeadLetterSourceQueues",
            Command::ListMessageMoveTasks(_) => "ListMessageMoveTasks",
            Command::ListQueueTags(_) => "ListQueueTags",
            Command::ListQueues(_) => "ListQueues",
            Command::PurgeQueue(_) => "PurgeQueue",
            Command::ReceiveMessage(_) | Command::PeekMessages(_) | Command::ShowReceived(_) => {
                "ReceiveMessage"
            }
            Command::RemovePermission(_) => "RemovePermission",
            Command::SendMessage(_) => "SendMessage",
            Command::SetQueueAttributes(_) => "SetQueueAttributes",
            Command::StartMessageMoveTask(_) => "StartMessageMoveTask",
            Command::TagQueue(_) => "TagQueue",
            Command::UntagQueue(_) => "UntagQueue",
        }
    }

    /// Whether it may change state.
    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            Command::GetQueueAttributes(_)
                | Command::GetQueueUrl(_)
                | Command::ListDeadLetterSourceQueues(_)
                | Command::ListMessageMoveTasks(_)
                | Command::ListQueueTags(_)
                | Command::ListQueues(_)
                | Command::PeekMessages(_)
                | Command::ShowReceived(_)
        )
    }
}

impl Request {
    /// What a node asks for itself.
    pub(crate) fn of_node(command: Command) -> Self {
        Request {
            caller: Caller::of(Principal::Anonymous),
            region: String::new(),
            seed: 0,
            command,
        }
    }

    /// Notes when it came: long polls end by it.
    pub fn arrive(&mut self, now_ms: u64) {
        if let Command::ReceiveMessage(receive) = &mut self.command {
            receive.arrived_ms = now_ms;
        }
    }

    /// Bytes that it holds: those of its encoding.
    pub fn size(&self) -> usize {
        match &self.command {
            // What a long poll holds, without an encoding for each.
            Command::ReceiveMessage(it) => {
                let names = it.system_names.iter().chain(&it.attribute_names);
                it.queue.len() + names.map(String::len).sum::<usize>() + size_of::<Request>()
            }
            Command::SendMessage(it) => it.entries.iter().map(SendEntry::size).sum(),
            command => {
                let mut out = Vec::new();
                command.put(&mut out);
                out.len()
            }
        }
    }
}
