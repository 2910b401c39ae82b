//! The attributes of a queue that its owner sets.

use fader_chain::ChainId;
use serde_json::{Map, Value as Json, json};

use crate::CollectionId;
use crate::catalog::AccountId;
use crate::policy::Policy;
use crate::sqs::command::Pairs;
use crate::sqs::error::{Code, Error};
use crate::sqs::limits::Limits;
use crate::sqs::message::Row;
use crate::sqs::wire::wire_fields;

/// What a queue is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) account: String,
    pub(crate) region: String,
    pub(crate) name: String,
    /// Under which receipt handles are made.
    pub(crate) secret: u128,
    pub(crate) created_ms: u64,
    pub(crate) modified_ms: u64,
    pub(crate) visibility_s: u64,
    pub(crate) message_bytes: u64,
    pub(crate) retention_s: u64,
    pub(crate) delay_s: u64,
    pub(crate) wait_s: u64,
    pub(crate) policy: Option<String>,
    pub(crate) redrive: Option<Redrive>,
    pub(crate) redrive_allow: Option<RedriveAllow>,
    pub(crate) fifo: Option<Fifo>,
    pub(crate) kms_key: Option<String>,
    pub(crate) kms_reuse_s: u64,
    pub(crate) is_encrypted: bool,
    pub(crate) tags: Pairs,
}
wire_fields!(Settings {
    account,
    region,
    name,
    secret,
    created_ms,
    modified_ms,
    visibility_s,
    message_bytes,
    retention_s,
    delay_s,
    wait_s,
    policy,
    redrive,
    redrive_allow,
    fifo,
    kms_key,
    kms_reuse_s,
    is_encrypted,
    tags,
});
impl Row for Settings {}

/// Where dead letters go, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redrive {
    pub(crate) arn: String,
    pub(crate) max_receives: u32,
    /// Where that queue was when the policy was set.
    pub(crate) place: Option<(ChainId, CollectionId)>,
}
wire_fields!(Redrive {
    arn,
    max_receives,
    place
});

impl Redrive {
    /// The name of the dead-letter queue.
    pub(crate) fn queue(&self) -> &str {
        name_in(&self.arn).unwrap_or_default()
    }
}

/// Which queues may name it as their dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedriveAllow {
    pub(crate) permission: String,
    pub(crate) sources: Vec<String>,
}
wire_fields!(RedriveAllow {
    permission,
    sources
});

/// What a FIFO queue has beside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fifo {
    pub(crate) is_content_based: bool,
    /// Whether deduplication ids are those of a group; else of the queue.
    pub(crate) is_group_scope: bool,
    pub(crate) is_per_group: bool,
}
wire_fields!(Fifo {
    is_content_based,
    is_group_scope,
    is_per_group
});

/// The queue's name in an ARN of SQS.
pub fn name_in(arn: &str) -> Option<&str> {
    let mut parts = arn.strip_prefix("arn:aws:sqs:")?.splitn(3, ':').skip(2);
    parts.next().filter(|name| !name.is_empty())
}

/// The account in an ARN of SQS.
pub fn account_in(arn: &str) -> Option<&str> {
    arn.strip_prefix("arn:aws:sqs:")?.split(':').nth(1)
}

/// Attributes that are set, in the order in which AWS shows them.
const NAMES: [&str; 16] = [
    "VisibilityTimeout",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "DelaySeconds",
    "ReceiveMessageWaitTimeSeconds",
    "Policy",
    "RedrivePolicy",
    "RedriveAllowPolicy",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "SqsManagedSseEnabled",
    "FifoQueue",
    "ContentBasedDeduplication",
    "DeduplicationScope",
    "FifoThroughputLimit",
    "QueueArn",
];

/// The times of a queue of which nothing is said, in seconds, as AWS documents them.
pub const NEW_QUEUE: Times = Times {
    visibility_s: 30,
    retention_s: 345_600,
    delay_s: 0,
    wait_s: 0,
};

/// The times of a queue, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a received message is hidden from other receivers.
    pub visibility_s: u64,
    /// How long a message is kept.
    pub retention_s: u64,
    /// How long a message is hidden after it is sent.
    pub delay_s: u64,
    /// How long a receive waits for messages.
    pub wait_s: u64,
}

impl Settings {
    /// Those of a queue of which nothing is said.
    pub(crate) fn new(
        account: &AccountId,
        region: &str,
        name: &str,
        secret: u128,
        now_ms: u64,
        limits: &Limits,
    ) -> Self {
        Settings {
            account: account.0.clone(),
            region: region.to_owned(),
            name: name.to_owned(),
            secret,
            created_ms: now_ms,
            modified_ms: now_ms,
            visibility_s: NEW_QUEUE.visibility_s,
            message_bytes: limits.message_bytes as u64,
            retention_s: NEW_QUEUE.retention_s,
            delay_s: NEW_QUEUE.delay_s,
            wait_s: NEW_QUEUE.wait_s,
            policy: None,
            redrive: None,
            redrive_allow: None,
            fifo: name.ends_with(".fifo").then(Fifo::default),
            kms_key: None,
            kms_reuse_s: 300,
            is_encrypted: true,
            tags: Vec::new(),
        }
    }

    pub(crate) fn is_fifo(&self) -> bool {
        self.fifo.is_some()
    }

    pub(crate) fn arn(&self) -> String {
        format!("arn:aws:sqs:{}:{}:{}", self.region, self.account, self.name)
    }

    pub(crate) fn retention_ms(&self) -> u64 {
        self.retention_s * 1000
    }

    /// The value of an attribute that is set, or could be.
    ///
    /// # Errors
    /// InvalidAttributeName.
    pub(crate) fn show(&self, name: &str) -> Result<Option<String>, Error> {
        let fifo = self.fifo.as_ref();
        Ok(match name {
            "VisibilityTimeout" => Some(self.visibility_s.to_string()),
            "MaximumMessageSize" => Some(self.message_bytes.to_string()),
            "MessageRetentionPeriod" => Some(self.retention_s.to_string()),
            "DelaySeconds" => Some(self.delay_s.to_string()),
            "ReceiveMessageWaitTimeSeconds" => Some(self.wait_s.to_string()),
            "Policy" => self.policy.clone(),
            "RedrivePolicy" => self.redrive.as_ref().map(show_redrive),
            "RedriveAllowPolicy" => self.redrive_allow.as_ref().map(show_redrive_allow),
            "KmsMasterKeyId" => self.kms_key.clone(),
            "KmsDataKeyReusePeriodSeconds" => {
                self.kms_key.as_ref().map(|_| self.kms_reuse_s.to_string())
            }
            "SqsManagedSseEnabled" => Some(self.is_encrypted.to_string()),
            "FifoQueue" => fifo.map(|_| "true".to_owned()),
            "ContentBasedDeduplication" => fifo.map(|it| it.is_content_based.to_string()),
            "DeduplicationScope" => fifo.map(|it| scope(it).to_owned()),
            "FifoThroughputLimit" => fifo.map(|it| throughput(it).to_owned()),
            "QueueArn" => Some(self.arn()),
            _ => return Err(unknown(name)),
        })
    }

    /// All that [`Settings::show`] has.
    pub(crate) fn show_all(&self) -> Pairs {
        let shown = NAMES.iter().filter_map(|name| {
            let value = self.show(name).ok()??;
            Some(((*name).to_owned(), value))
        });
        shown.collect()
    }

    /// Sets an attribute. Of a redrive policy the place is to be found by the caller.
    ///
    /// # Errors
    /// InvalidAttributeName or InvalidAttributeValue.
    pub(crate) fn set(&mut self, name: &str, value: &str, limits: &Limits) -> Result<(), Error> {
        let whole = |least, most| number(name, value, least, most);
        match name {
            "VisibilityTimeout" => self.visibility_s = whole(0, limits.visibility_s)?,
            "MaximumMessageSize" => {
                self.message_bytes = whole(1024, limits.message_bytes as u64)?;
            }
            "MessageRetentionPeriod" => self.retention_s = whole(60, 1_209_600)?,
            "DelaySeconds" => self.delay_s = whole(0, limits.delay_s)?,
            "ReceiveMessageWaitTimeSeconds" => self.wait_s = whole(0, limits.wait_s)?,
            "Policy" => self.policy = policy(value, limits)?,
            "RedrivePolicy" => self.redrive = redrive(value)?,
            "RedriveAllowPolicy" => self.redrive_allow = redrive_allow(value)?,
            "KmsMasterKeyId" => {
                self.kms_key = Some(value.to_owned()).filter(|key| !key.is_empty());
                self.is_encrypted &= self.kms_key.is_none();
            }
            "KmsDataKeyReusePeriodSeconds" => self.kms_reuse_s = whole(60, 86_400)?,
            "SqsManagedSseEnabled" => self.is_encrypted = flag(name, value)?,
            _ => self.set_fifo(name, value)?,
        }
        Ok(())
    }

    fn set_fifo(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let fifo = self.fifo.as_mut().ok_or_else(|| unknown(name))?;
        match name {
            "FifoQueue" if value == "true" => {}
            "FifoQueue" => return Err(Error::attribute(name)),
            "ContentBasedDeduplication" => fifo.is_content_based = flag(name, value)?,
            "DeduplicationScope" => {
                fifo.is_group_scope = one_of(name, value, ["queue", "messageGroup"])?;
            }
            "FifoThroughputLimit" => {
                fifo.is_per_group = one_of(name, value, ["perQueue", "perMessageGroupId"])?;
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// Whether all that was set goes together.
    ///
    /// # Errors
    /// InvalidAttributeValue.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.fifo {
            Some(fifo) if fifo.is_per_group && !fifo.is_group_scope => {
                Err(Error::attribute("FifoThroughputLimit"))
            }
            _ => Ok(()),
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::new(
        Code::InvalidAttributeName,
        format!("Unknown Attribute {name}."),
    )
}

fn number(name: &str, value: &str, least: u64, most: u64) -> Result<u64, Error> {
    let number = value
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Error::attribute(name))
}

fn flag(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::attribute(name)),
    }
}

/// Whether it is the second of two words.
fn one_of(name: &str, value: &str, words: [&str; 2]) -> Result<bool, Error> {
    let at = words.iter().position(|word| *word == value);
    at.map(|at| at == 1).ok_or_else(|| Error::attribute(name))
}

fn scope(fifo: &Fifo) -> &'static str {
    if fifo.is_group_scope {
        "messageGroup"
    } else {
        "queue"
    }
}

fn throughput(fifo: &Fifo) -> &'static str {
    if fifo.is_per_group {
        "perMessageGroupId"
    } else {
        "perQueue"
    }
}

fn policy(value: &str, limits: &Limits) -> Result<Option<String>, Error> {
    if value.is_empty() {
        return Ok(None);
    }
    if limits.policy_bytes < value.len() {
        return Err(Error::attribute("Policy"));
    }
    match Policy::parse(value) {
        Ok(_) => Ok(Some(value.to_owned())),
        Err(error) => Err(Error::new(
            Code::InvalidAttributeValue,
            format!("Invalid value for the parameter Policy. Reason: {error}"),
        )),
    }
}

fn object(name: &str, value: &str) -> Result<Option<Map<String, Json>>, Error> {
    if value.is_empty() {
        return Ok(None);
    }
    match serde_json::from_str(value) {
        Ok(Json::Object(object)) => Ok(Some(object)),
        _ => Err(Error::attribute(name)),
    }
}

fn redrive(value: &str) -> Result<Option<Redrive>, Error> {
    const NAME: &str = "RedrivePolicy";
    let Some(object) = object(NAME, value)? else {
        return Ok(None);
    };
    let refuse = |reason: &str| Error::value(value, NAME, reason);
    let arn = object.get("deadLetterTargetArn").and_then(Json::as_str);
    let arn = arn.ok_or_else(|| {
        refuse("Redrive policy does not contain mandatory attribute: deadLetterTargetArn.")
    })?;
    let count = match object.get("maxReceiveCount") {
        None => {
            let reason = "Redrive policy does not contain mandatory attribute: maxReceiveCount.";
            return Err(refuse(reason));
        }
        Some(Json::String(text)) => text.parse().ok(),
        Some(number) => number.as_u64(),
    };
    let count = count.and_then(|count| u32::try_from(count).ok());
    let max_receives = count
        .filter(|count| (1..=1000).contains(count))
        .ok_or_else(|| {
            refuse("Invalid value for maxReceiveCount: it must be between 1 and 1000.")
        })?;
    if name_in(arn).is_none() {
        return Err(refuse("Dead letter target does not exist."));
    }
    Ok(Some(Redrive {
        arn: arn.to_owned(),
        max_receives,
        place: None,
    }))
}

fn show_redrive(redrive: &Redrive) -> String {
    json!({
        "deadLetterTargetArn": redrive.arn,
        "maxReceiveCount": redrive.max_receives,
    })
    .to_string()
}

fn redrive_allow(value: &str) -> Result<Option<RedriveAllow>, Error> {
    const NAME: &str = "RedriveAllowPolicy";
    const SOURCES_MAX: usize = 10;
    let Some(object) = object(NAME, value)? else {
        return Ok(None);
    };
    let permission = object.get("redrivePermission").and_then(Json::as_str);
    let permission = permission.ok_or_else(|| Error::attribute(NAME))?;
    let refuse = |reason: &str| Error::value(value, NAME, reason);
    let sources: Vec<String> = match object.get("sourceQueueArns") {
        None => Vec::new(),
        Some(Json::Array(arns)) => {
            let arns = arns.iter().map(|arn| arn.as_str().map(str::to_owned));
            arns.collect::<Option<_>>()
                .ok_or_else(|| Error::attribute(NAME))?
        }
        Some(_) => return Err(Error::attribute(NAME)),
    };
    match permission {
        "allowAll" | "denyAll" if !sources.is_empty() => {
            return Err(refuse(
                "sourceQueueArns can be specified with byQueue only.",
            ));
        }
        "byQueue" if !(1..=SOURCES_MAX).contains(&sources.len()) => {
            return Err(refuse("byQueue needs 1 to 10 sourceQueueArns."));
        }
        "allowAll" | "denyAll" | "byQueue" => {}
        _ => return Err(Error::attribute(NAME)),
    }
    Ok(Some(RedriveAllow {
        permission: permission.to_owned(),
        sources,
    }))
}

fn show_redrive_allow(allow: &RedriveAllow) -> String {
    let mut shown = Map::new();
    shown.insert(
        "redrivePermission".to_owned(),
        allow.permission.clone().into(),
    );
    if !allow.sources.is_empty() {
        shown.insert("sourceQueueArns".to_owned(), allow.sources.clone().into());
    }
    Json::Object(shown).to_string()
}

impl RedriveAllow {
    /// Whether this queue may be a source.
    pub(crate) fn allows(&self, source_arn: &str) -> bool {
        match &*self.permission {
            "denyAll" => false,
            "byQueue" => self.sources.iter().any(|arn| arn == source_arn),
            _ => true,
        }
    }
}
