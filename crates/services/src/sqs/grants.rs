//! Who may do what: the rights of the owner, and those that the policy of a queue gives.
//!
//! Invariants:
//! - QU-13 a request of another account, an unsigned one, and one of a key with granted rights only
//!   is served where the policy allows it. No request is served where it denies it.

use fader_chain::{Change, Guard};
use serde_json::{Value as Json, json};

use crate::View;
use crate::catalog::AccountId;
use crate::policy::{Ask, Policy, Principal, Verdict};
use crate::service::Context;
use crate::sqs::command::{AddPermission, RemovePermission, Request};
use crate::sqs::error::{Code, Error};
use crate::sqs::limits::Limits;
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::reply::Reply;
use crate::sqs::settings::Settings;

const LABEL_BYTES_MAX: usize = 80;

/// Actions that no policy gives to other accounts.
const OF_OWNER: [&str; 12] = [
    "AddPermission",
    "CancelMessageMoveTask",
    "CreateQueue",
    "DeleteQueue",
    "ListMessageMoveTasks",
    "ListQueues",
    "ListQueueTags",
    "RemovePermission",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
];

/// Actions that mend a policy: the owner may do them in spite of any.
const MENDING: [&str; 3] = [
    "GetQueueAttributes",
    "SetQueueAttributes",
    "RemovePermission",
];

/// Actions that a statement of AddPermission may name.
const GRANTED: [&str; 8] = [
    "*",
    "SendMessage",
    "ReceiveMessage",
    "DeleteMessage",
    "ChangeMessageVisibility",
    "GetQueueAttributes",
    "GetQueueUrl",
    "PurgeQueue",
];

/// Refuses a request that its caller may not make.
///
/// # Errors
/// AccessDenied.
pub(crate) fn check(settings: &Settings, request: &Request, terms: Terms<'_>) -> Result<(), Error> {
    let caller = &request.caller;
    let action = request.command.action();
    let is_owner = caller.principal.account() == Some(&settings.account);
    let is_free = is_owner && !caller.is_granted_only;
    if (is_free && (settings.policy.is_none() || MENDING.contains(&action)))
        || !terms.guards.has(Guard::QueuePolicy)
    {
        return Ok(());
    }
    let verdict = match &settings.policy {
        None => Verdict::Silent,
        Some(policy) => {
            let policy = Policy::parse(policy).map_err(|_| denied(settings))?;
            policy.evaluate(&ask(settings, request, terms.now_ms))
        }
    };
    let may = match verdict {
        Verdict::Denied => false,
        Verdict::Allowed => is_owner || !OF_OWNER.contains(&action),
        Verdict::Silent => is_free,
    };
    may.then_some(()).ok_or_else(|| denied(settings))
}

/// Refuses a request about no queue that is there, by one who has no rights of the account.
///
/// # Errors
/// AccessDenied.
pub(crate) fn check_owner(request: &Request, terms: Terms<'_>) -> Result<(), Error> {
    let caller = &request.caller;
    let is_owner = caller.principal.account() == Some(&terms.account.0);
    if (is_owner && !caller.is_granted_only) || !terms.guards.has(Guard::QueuePolicy) {
        return Ok(());
    }
    Err(Error::new(
        Code::AccessDenied,
        "Access to the resource is denied.",
    ))
}

fn denied(settings: &Settings) -> Error {
    let message = format!("Access to the resource {} is denied.", settings.arn());
    Error::new(Code::AccessDenied, message)
}

fn ask(settings: &Settings, request: &Request, now_ms: u64) -> Ask {
    let caller = &request.caller;
    let mut ask = Ask::new(
        caller.principal.clone(),
        &format!("sqs:{}", request.command.action()),
        &settings.arn(),
        now_ms,
    );
    ask.set("aws:SecureTransport", &caller.is_secure.to_string());
    if !caller.source_ip.is_empty() {
        ask.set("aws:SourceIp", &caller.source_ip);
    }
    ask
}

/// Adds a statement that gives accounts the right to actions.
pub(crate) fn add(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &AddPermission,
) -> Result<(Reply, Vec<Change>), Error> {
    let mut queue = Queue::of(view, context)?;
    check(&queue.settings, request, Terms::new(view, context))?;
    check_permission(command, context.limits)?;
    let mut policy = document(&queue.settings)?;
    let arn = queue.settings.arn();
    let statements = statements(&mut policy)?;
    let label = &command.label;
    if statements
        .iter()
        .any(|it| it["Sid"].as_str() == Some(label))
    {
        return Err(Error::value(label, "Label", "Already exists."));
    }
    let principals = command.accounts.iter();
    let principals: Vec<String> = principals
        .map(|account| format!("arn:aws:iam::{account}:root"))
        .collect();
    let actions: Vec<String> = command
        .actions
        .iter()
        .map(|action| format!("SQS:{action}"))
        .collect();
    statements.push(json!({
        "Sid": label,
        "Effect": "Allow",
        "Principal": { "AWS": one_or_all(principals) },
        "Action": one_or_all(actions),
        "Resource": arn,
    }));
    put(&mut queue, &policy)?;
    Ok((Reply::Done, queue.finish()))
}

/// Takes the statement of a label away.
pub(crate) fn remove(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &RemovePermission,
) -> Result<(Reply, Vec<Change>), Error> {
    let mut queue = Queue::of(view, context)?;
    check(&queue.settings, request, Terms::new(view, context))?;
    let mut policy = document(&queue.settings)?;
    let statements = statements(&mut policy)?;
    let count = statements.len();
    statements.retain(|it| it["Sid"].as_str() != Some(&command.label));
    if statements.len() == count {
        let reason = "can't find label on existing policy.";
        return Err(Error::value(&command.label, "Label", reason));
    }
    put(&mut queue, &policy)?;
    Ok((Reply::Done, queue.finish()))
}

fn check_permission(command: &AddPermission, limits: &Limits) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let label = &command.label;
    if !(1..=LABEL_BYTES_MAX).contains(&label.len()) || !label.bytes().all(is_plain) {
        let reason = "A label has 1 to 80 alphanumeric characters, hyphens and underscores.";
        return Err(Error::value(label, "Label", reason));
    }
    if command.accounts.is_empty() {
        return Err(Error::missing("AWSAccountIds"));
    }
    if command.actions.is_empty() {
        return Err(Error::missing("Actions"));
    }
    let most = limits.statement_actions;
    if most < command.actions.len() {
        let count = command.actions.len();
        let message = format!("{count} Actions were found, maximum allowed is {most}.");
        return Err(Error::new(Code::OverLimit, message));
    }
    let mut accounts = command.accounts.iter();
    if let Some(account) = accounts.find(|account| !AccountId::is_valid(account)) {
        let reason = "Unable to verify.";
        return Err(Error::value(account, "PrincipalId", reason));
    }
    let is_known = |action: &&String| GRANTED.contains(&action.as_str());
    if let Some(action) = command.actions.iter().find(|action| !is_known(action)) {
        let reason = format!(
            "Only the queue owner is allowed to invoke this action, or it is \
                              none: the actions to grant are {}.",
            GRANTED.join(", ")
        );
        return Err(Error::value(
            &format!("SQS:{action}"),
            "ActionName",
            &reason,
        ));
    }
    Ok(())
}

fn one_or_all(mut all: Vec<String>) -> Json {
    match all.len() {
        1 => all.pop().into(),
        _ => all.into(),
    }
}

/// The policy of a queue, or an empty one.
fn document(settings: &Settings) -> Result<Json, Error> {
    match &settings.policy {
        Some(policy) => serde_json::from_str(policy).map_err(|_| Error::attribute("Policy")),
        None => Ok(json!({
            "Version": "2008-10-17",
            "Id": format!("{}/SQSDefaultPolicy", settings.arn()),
            "Statement": [],
        })),
    }
}

/// The statements, as a list.
fn statements(policy: &mut Json) -> Result<&mut Vec<Json>, Error> {
    let statement = &mut policy["Statement"];
    if statement.is_object() {
        *statement = Json::Array(vec![statement.take()]);
    }
    statement
        .as_array_mut()
        .ok_or_else(|| Error::attribute("Policy"))
}

fn put(queue: &mut Queue<'_>, policy: &Json) -> Result<(), Error> {
    let is_empty = policy["Statement"].as_array().is_some_and(Vec::is_empty);
    let text = if is_empty {
        String::new()
    } else {
        policy.to_string()
    };
    let mut settings = queue.settings.clone();
    settings.set("Policy", &text, queue.terms.limits)?;
    settings.modified_ms = queue.now_ms;
    queue.set(settings);
    Ok(())
}

impl Principal {
    /// As `SenderId` shows it.
    pub(crate) fn sender(&self) -> String {
        match self {
            Principal::Anonymous => "Anonymous".to_owned(),
            Principal::Account(account) => account.clone(),
            Principal::Key(key) => key.1.clone(),
        }
    }
}
