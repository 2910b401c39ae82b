//! Runs the scripts of `testscripts/simpledb`, whose names say what each shows.
//!
//! ```text
//! create D | drop D | metadata D | domains [max=N] [after=last]
//! put D ITEM a=1 b@=2 [CONDITION]        b@= replaces
//! delete D ITEM a b=2 [CONDITION]        the whole item without attributes
//! batch-put D ITEM a=1 , ITEM ...        a comma stands alone: ','
//! batch-delete D ITEM a , ITEM ...
//! get D ITEM [NAME ...]
//! limit NAME=N                           lowers a limit
//! sweep N
//! CONDITION := if a=1 | unless a
//! ```
//!
//! With the tag `[changes]` a command shows what it changes.

use std::error::Error;

use goldenscript::{Argument, Command, Context, Runner};

use super::*;

struct Script {
    service: Service,
    last_token: Option<PageToken>,
}

impl Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        if command.name == "sweep" {
            let [Argument::Positional(batch)] = command.args.as_slice() else {
                panic!("sweep N")
            };
            return Ok(format!("{} keys\n", self.service.sweep(batch.parse()?)));
        }
        if command.name == "limit" {
            let limits = &mut self.service.limits;
            let texts = command.args.iter().map(text);
            texts.for_each(|text| set_limit(limits, &text));
            return Ok(String::new());
        }
        let request = self.request(command);
        let (outcome, changes) = self.service.run_with_changes(&request);
        check_integrity(&self.service.view);
        if let Ok(CostedReply {
            reply: Reply::Domains { next_token, .. },
            ..
        }) = &outcome
        {
            self.last_token.clone_from(next_token);
        }
        let mut output = show(&outcome);
        if context.tags.contains("changes") {
            changes
                .iter()
                .for_each(|change| output.push_str(&show_change(change)));
        }
        Ok(output)
    }
}

impl Script {
    fn request(&self, command: &Command) -> Request {
        let mut texts: Vec<String> = command.args.iter().map(text).collect();
        if command.name == "domains" {
            let number = |text: &String| text.strip_prefix("max=").map(|n| n.parse().unwrap());
            return Request::ListDomains {
                max_count: texts.iter().find_map(number),
                next_token: self
                    .last_token
                    .clone()
                    .filter(|_| texts.iter().any(|t| t == "after=last")),
            };
        }
        let domain = texts.remove(0);
        let expected = take_condition(&mut texts);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let items = || texts.split(|text| *text == ",");
        match command.name.as_str() {
            "create" => Request::CreateDomain {
                domain,
                mode: None,
                preference: None,
            },
            "drop" => Request::DeleteDomain { domain },
            "metadata" => Request::DomainMetadata { domain },
            "put" => Request::PutAttributes {
                domain,
                put: item_put(texts[0], &texts[1..]),
                expected,
            },
            "delete" => {
                let delete = item_delete(texts[0], &texts[1..]);
                Request::DeleteAttributes {
                    domain,
                    delete,
                    expected,
                }
            }
            "batch-put" => {
                let puts = items()
                    .map(|texts| item_put(texts[0], &texts[1..]))
                    .collect();
                Request::BatchPutAttributes { domain, puts }
            }
            "batch-delete" => {
                let deletes = items()
                    .map(|texts| item_delete(texts[0], &texts[1..]))
                    .collect();
                Request::BatchDeleteAttributes { domain, deletes }
            }
            "get" => Request::GetAttributes {
                domain,
                item: texts[0].to_owned(),
                names: texts[1..].iter().map(|name| (*name).to_owned()).collect(),
                consistent: true,
            },
            name => panic!("no command {name}"),
        }
    }
}

/// `NAME=N`.
pub(super) fn set_limit(limits: &mut Limits, text: &str) {
    let (name, value) = text.split_once('=').expect("limit NAME=N");
    let value = value.parse::<u64>().unwrap();
    match name {
        "domains" => limits.domains_per_account = value,
        "domain_bytes" => limits.domain_bytes = value,
        "domain_pairs" => limits.domain_pairs = value,
        "item_pairs" => limits.item_pairs = usize::try_from(value).unwrap(),
        "submitted_items" => limits.submitted_items = usize::try_from(value).unwrap(),
        "submitted_attributes" => limits.submitted_attributes = usize::try_from(value).unwrap(),
        "page_items_default" => limits.page_items_default = usize::try_from(value).unwrap(),
        _ => panic!("no limit {name}"),
    }
}

pub(super) fn text(argument: &Argument) -> String {
    match argument {
        Argument::KeyValue(key, value) => format!("{key}={value}"),
        Argument::Positional(value) => value.clone(),
        other => panic!("no such argument: {other:?}"),
    }
}

pub(super) fn take_condition(texts: &mut Vec<String>) -> Vec<Expected> {
    let Some(at) = texts
        .iter()
        .position(|text| text == "if" || text == "unless")
    else {
        return Vec::new();
    };
    let condition = texts.split_off(at);
    let (name, value) = match condition[1].split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (condition[1].as_str(), None),
    };
    let exists = (condition[0] == "unless").then_some(false);
    vec![Expected {
        name: Some(name.to_owned()),
        value,
        exists,
    }]
}

fn show(outcome: &Result<CostedReply, super::Error>) -> String {
    match outcome {
        Ok(CostedReply { reply, box_usage }) => format!("{}{box_usage}\n", show_reply(reply)),
        Err(error) => {
            format!("{} {error} ({})\n", error.code.status(), error.box_usage)
        }
    }
}

pub(super) fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Done => "done ".to_owned(),
        Reply::Domains { names, next_token } => {
            format!(
                "{names:?} {}",
                if next_token.is_some() {
                    "and more "
                } else {
                    ""
                }
            )
        }
        Reply::Metadata(metadata) => format!(
            "{} items of {} bytes, {} names of {}, {} values of {}, at {}s ",
            metadata.item_count,
            metadata.item_names_bytes,
            metadata.attribute_name_count,
            metadata.attribute_names_bytes,
            metadata.attribute_value_count,
            metadata.attribute_values_bytes,
            metadata.timestamp_s,
        ),
        Reply::Attributes(attributes) => show_pairs(attributes),
        Reply::Items { items, next_token } => {
            let item =
                |item: &Item| format!("{}({}) ", lossy(&item.name), show_pairs(&item.attributes));
            let mut shown: String = items.iter().map(item).collect();
            shown.push_str(if next_token.is_some() {
                "and more "
            } else {
                ""
            });
            shown
        }
        Reply::ItemNames { .. } | Reply::Plan(_) => unreachable!("no command asks for it"),
    }
}

fn show_pairs(attributes: &[Attribute]) -> String {
    attributes
        .iter()
        .map(|pair| format!("{}={} ", lossy(&pair.name), lossy(&pair.value)))
        .collect()
}

pub(super) fn show_change(change: &Change) -> String {
    let key = change.key();
    let name = format!(
        "{} {}",
        u64::from_be_bytes(key[..8].try_into().unwrap()),
        lossy_key(key)
    );
    match change {
        Change::Merge { ops, .. } => format!("  merge {name} {ops:?}\n"),
        Change::Put { value, .. } => format!("  put {name} {value:?}\n"),
        Change::Remove { .. } => format!("  remove {name}\n"),
        Change::Collect { entry, .. } => format!("  collect {name} {entry}\n"),
        Change::SetMode { mode, .. } => format!("  turn {name} {mode}\n"),
    }
}

fn lossy_key(key: &[u8]) -> String {
    key[8..].escape_ascii().to_string()
}

#[track_caller]
fn check(name: &str) {
    let mut script = Script {
        service: Service::new(),
        last_token: None,
    };
    goldenscript::run(&mut script, format!("testscripts/simpledb/{name}")).unwrap();
}

#[test]
fn domains_are_created_listed_and_deleted() {
    check("domains_are_created_listed_and_deleted");
}

#[test]
fn domain_names_have_a_shape() {
    check("domain_names_have_a_shape");
}

#[test]
fn items_are_sets_of_pairs() {
    check("items_are_sets_of_pairs");
}

#[test]
fn replace_clears_old_values_once() {
    check("replace_clears_old_values_once");
}

#[test]
fn deletes_are_idempotent() {
    check("deletes_are_idempotent");
}

#[test]
fn conditions_guard_writes() {
    check("conditions_guard_writes");
}

#[test]
fn batches_are_all_or_nothing() {
    check("batches_are_all_or_nothing");
}

/// It shows DELTA-1.
#[test]
fn limits_refuse_growth() {
    check("limits_refuse_growth");
}

#[test]
fn metadata_counts_exactly() {
    check("metadata_counts_exactly");
}

#[test]
fn changes_are_minimal() {
    check("changes_are_minimal");
}

#[test]
fn deleted_domains_are_swept() {
    check("deleted_domains_are_swept");
}
