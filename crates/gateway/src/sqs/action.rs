//! The actions of SQS.

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the names are AWS's own, but for PeekMessages, which is Fader's"
)]
pub(crate) enum Action {
    AddPermission,
    CancelMessageMoveTask,
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    CreateQueue,
    DeleteMessage,
    DeleteMessageBatch,
    DeleteQueue,
    GetQueueAttributes,
    GetQueueUrl,
    ListDeadLetterSourceQueues,
    ListMessageMoveTasks,
    ListQueueTags,
    ListQueues,
    PeekMessages,
    PurgeQueue,
    ReceiveMessage,
    RemovePermission,
    SendMessage,
    SendMessageBatch,
    SetQueueAttributes,
    StartMessageMoveTask,
    TagQueue,
    UntagQueue,
}

/// Every action with its name.
const NAMES: [(Action, &str); 24] = [
    (Action::AddPermission, "AddPermission"),
    (Action::CancelMessageMoveTask, "CancelMessageMoveTask"),
    (Action::ChangeMessageVisibility, "ChangeMessageVisibility"),
    (
        Action::ChangeMessageVisibilityBatch,
        "ChangeMessageVisibilityBatch",
    ),
    (Action::CreateQueue, "CreateQueue"),
    (Action::DeleteMessage, "DeleteMessage"),
    (Action::DeleteMessageBatch, "DeleteMessageBatch"),
    (Action::DeleteQueue, "DeleteQueue"),
    (Action::GetQueueAttributes, "GetQueueAttributes"),
    (Action::GetQueueUrl, "GetQueueUrl"),
    (
        Action::ListDeadLetterSourceQueues,
        "ListDeadLetterSourceQueues",
    ),
    (Action::ListMessageMoveTasks, "ListMessageMoveTasks"),
    (Action::ListQueueTags, "ListQueueTags"),
    (Action::ListQueues, "ListQueues"),
    (Action::PeekMessages, "PeekMessages"),
    (Action::PurgeQueue, "PurgeQueue"),
    (Action::ReceiveMessage, "ReceiveMessage"),
    (Action::RemovePermission, "RemovePermission"),
    (Action::SendMessage, "SendMessage"),
    (Action::SendMessageBatch, "SendMessageBatch"),
    (Action::SetQueueAttributes, "SetQueueAttributes"),
    (Action::StartMessageMoveTask, "StartMessageMoveTask"),
    (Action::TagQueue, "TagQueue"),
    (Action::UntagQueue, "UntagQueue"),
];

impl Action {
    /// The action of this name.
    pub(crate) fn named(name: &str) -> Option<Action> {
        let found = NAMES.iter().find(|(_, its)| *its == name);
        found.map(|(action, _)| *action)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}
