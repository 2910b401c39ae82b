//! The limits of services by name: the file's `[limits]`, which may raise those of SimpleDB, and
//! `[limits.sqs]`, which may change those of SQS.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use fader_services::request::Limits;
use fader_services::{simpledb, sqs};
use serde::Deserialize;

/// What the file says of limits.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Given {
    #[serde(default)]
    sqs: BTreeMap<String, u64>,
    #[serde(flatten)]
    simpledb: BTreeMap<String, u64>,
}

impl Given {
    /// Whether it says something of a limit, by the name that [`list`] has.
    pub(super) fn has(&self, name: &str) -> bool {
        match name.strip_prefix(SQS) {
            Some(name) => self.sqs.contains_key(name),
            None => self.simpledb.contains_key(name),
        }
    }
}

/// What the names of limits of SQS begin with.
const SQS: &str = "sqs.";

/// One limit: its name in the file, the thing that it bounds, and how to read and set it.
struct Limit<L> {
    name: &'static str,
    meaning: &'static str,
    get: fn(&L) -> u64,
    set: fn(&mut L, u64),
}

/// A limit that is a `u64`.
macro_rules! wide {
    ($name:literal, $field:ident, $meaning:literal) => {
        Limit {
            name: $name,
            meaning: $meaning,
            get: |l| l.$field,
            set: |l, value| l.$field = value,
        }
    };
}

/// A limit that is a `usize`.
macro_rules! narrow {
    ($name:literal, $field:ident, $meaning:literal) => {
        Limit {
            name: $name,
            meaning: $meaning,
            get: |l| l.$field as u64,
            set: |l, value| l.$field = usize::try_from(value).unwrap_or(usize::MAX),
        }
    };
}

const LIMITS: [Limit<simpledb::Limits>; 14] = [
    wide!(
        "domains-per-account",
        domains_per_account,
        "domains of one account"
    ),
    wide!(
        "domain-bytes",
        domain_bytes,
        "bytes of the item names, distinct attribute names and values of a domain"
    ),
    wide!(
        "domain-pairs",
        domain_pairs,
        "pairs of attribute name and value of a domain"
    ),
    narrow!(
        "item-pairs",
        item_pairs,
        "pairs of attribute name and value of an item"
    ),
    narrow!(
        "text-bytes",
        text_bytes,
        "bytes of an item name, an attribute name or a value"
    ),
    narrow!(
        "submitted-attributes",
        submitted_attributes,
        "attributes in one PutAttributes or DeleteAttributes"
    ),
    narrow!(
        "submitted-items",
        submitted_items,
        "items in one BatchPutAttributes or BatchDeleteAttributes"
    ),
    narrow!(
        "requested-attributes",
        requested_attributes,
        "attributes named in one GetAttributes or Select"
    ),
    narrow!("page-items", page_items, "items in one page of Select"),
    narrow!(
        "page-items-default",
        page_items_default,
        "items in one page of a Select without LIMIT"
    ),
    narrow!(
        "page-bytes",
        page_bytes,
        "bytes of the names and values in one page of Select"
    ),
    narrow!(
        "select-comparisons",
        select_comparisons,
        "comparisons in one Select expression"
    ),
    narrow!(
        "select-attributes",
        select_attributes,
        "different attributes in one Select expression"
    ),
    narrow!(
        "expression-bytes",
        expression_bytes,
        "bytes of a Select or Query expression"
    ),
];

const OF_SQS: [Limit<sqs::Limits>; 17] = [
    wide!(
        "queues-per-account",
        queues_per_account,
        "queues of one account; AWS has no limit"
    ),
    wide!(
        "recreate-s",
        recreate_s,
        "seconds after the deletion of a queue in which its name stays taken"
    ),
    wide!(
        "purge-s",
        purge_s,
        "seconds after a purge in which the queue is not purged again"
    ),
    narrow!(
        "message-bytes",
        message_bytes,
        "bytes of a message's body with its attributes, and of a batch's messages together"
    ),
    narrow!("batch-entries", batch_entries, "entries of one batch"),
    narrow!(
        "receive-messages",
        receive_messages,
        "messages of one receive"
    ),
    wide!("wait-s", wait_s, "seconds of the longest long poll"),
    wide!(
        "visibility-s",
        visibility_s,
        "seconds of the longest visibility timeout, from the receive on"
    ),
    wide!("delay-s", delay_s, "seconds of the longest delay"),
    wide!(
        "in-flight",
        in_flight,
        "messages of one queue that are in flight"
    ),
    narrow!(
        "message-attributes",
        message_attributes,
        "attributes of one message"
    ),
    narrow!("tags", tags, "tags of one queue"),
    narrow!("policy-bytes", policy_bytes, "bytes of a policy"),
    narrow!(
        "statement-actions",
        statement_actions,
        "actions of a statement that AddPermission writes"
    ),
    wide!(
        "deduplication-s",
        deduplication_s,
        "seconds for which a deduplication id is remembered"
    ),
    wide!(
        "moves-per-second",
        moves_per_second,
        "messages that a move task moves in a second"
    ),
    narrow!(
        "page-queues",
        page_queues,
        "queues, or sources of a dead-letter queue, in one page"
    ),
];
/// The longest poll that a node lets wait.
const WAIT_S_MAX: u64 = 20;

/// AWS's limits with those that are given in their place.
///
/// # Errors
/// For a name that is no limit, and of SimpleDB for a value below AWS's: programs rely on those.
pub(super) fn changed(given: &Given) -> Result<Limits> {
    let mut limits = Limits::default();
    for (name, value) in &given.simpledb {
        let limit = find(&LIMITS, "limits", name)?;
        let least = (limit.get)(&limits.simpledb);
        if *value < least {
            bail!("[limits] {name} = {value} is below SimpleDB's {least}; it can only be raised");
        }
        (limit.set)(&mut limits.simpledb, *value);
    }
    for (name, value) in &given.sqs {
        let limit = find(&OF_SQS, "limits.sqs", name)?;
        if name == "wait-s" && WAIT_S_MAX < *value {
            bail!("[limits.sqs] wait-s = {value} is above {WAIT_S_MAX}");
        }
        (limit.set)(&mut limits.sqs, *value);
    }
    Ok(limits)
}

fn find<'a, L>(limits: &'a [Limit<L>], table: &str, name: &str) -> Result<&'a Limit<L>> {
    let Some(limit) = limits.iter().find(|limit| limit.name == name) else {
        let names: Vec<&str> = limits.iter().map(|limit| limit.name).collect();
        bail!("[{table}] knows no `{name}`; it knows {}", names.join(", "));
    };
    Ok(limit)
}

/// Every limit's name and the thing that it bounds.
pub(super) fn meanings() -> Vec<(String, &'static str)> {
    let simpledb = LIMITS.iter().map(|it| (it.name.to_owned(), it.meaning));
    let of_sqs = OF_SQS.iter();
    let of_sqs = of_sqs.map(|it| (format!("{SQS}{}", it.name), it.meaning));
    simpledb.chain(of_sqs).collect()
}

/// Every limit's name and value.
pub(super) fn list(limits: &Limits) -> Vec<(String, u64)> {
    let simpledb = LIMITS.iter();
    let simpledb = simpledb.map(|it| (it.name.to_owned(), (it.get)(&limits.simpledb)));
    let of_sqs = OF_SQS.iter();
    let of_sqs = of_sqs.map(|it| (format!("{SQS}{}", it.name), (it.get)(&limits.sqs)));
    simpledb.chain(of_sqs).collect()
}
