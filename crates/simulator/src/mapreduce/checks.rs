//! The promises of jobs, checked on an output.

use std::collections::BTreeMap;

use fader_cloud::model::Model;
use fader_history::check::{Fault, every_level, registers, search};
use fader_history::{Rules, object};
use fader_mapreduce::{Register, State, Success};

use super::program::MARK;
use crate::cloud::Failure;

/// States that a search for an order of one row's calls visits at most.
const EFFORT: usize = 200_000;

/// How often each promise was put to the test.
pub(super) type Claims = BTreeMap<&'static str, usize>;

/// The objects of an output, with their versions.
pub(super) type Versions = BTreeMap<String, String>;

pub(super) fn broken(guarantee: &'static str, text: impl Into<String>) -> Failure {
    Failure {
        guarantee,
        text: text.into(),
    }
}

/// How often each word occurs in an input, computed here and now.
fn count<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for word in texts.flat_map(str::split_ascii_whitespace) {
        *counts.entry(word.to_owned()).or_default() += 1;
    }
    counts
}

/// `_SUCCESS`, if it is there.
pub(super) fn success(model: &Model) -> Result<Option<Success>, Failure> {
    let Some(bytes) = model.object("_SUCCESS") else {
        return Ok(None);
    };
    let parsed = fader_mapreduce::read_success(&bytes);
    parsed
        .map(Some)
        .map_err(|error| broken("success", error.to_string()))
}

/// `_SUCCESS` is there only with all files that it names.
pub(super) fn is_whole(model: &Model, success: &Success) -> Result<(), Failure> {
    for file in &success.files {
        let body = model.object(&file.name);
        let is_right = body.is_some_and(|body| file.is_of(&body));
        if !is_right {
            return Err(broken(
                "last",
                format!("_SUCCESS names {}: {:?}", file.name, file),
            ));
        }
    }
    Ok(())
}

/// The output is that of a single thread on one of these inputs, and so are the counters.
pub(super) fn is_right(
    model: &Model,
    success: &Success,
    inputs: &[Vec<String>],
) -> Result<(), Failure> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for file in &success.files {
        let body = model.object(&file.name).unwrap_or_default();
        for line in String::from_utf8_lossy(&body).lines() {
            let (word, number) = line.split_once('\t').unwrap_or_default();
            let word = word.split(MARK).next().unwrap_or_default();
            *found.entry(word.to_owned()).or_default() += number.parse::<u64>().unwrap_or(0);
        }
    }
    let is_of = |input: &&Vec<String>| count(input.iter().map(String::as_str)) == found;
    let Some(input) = inputs.iter().find(is_of) else {
        return Err(broken(
            "bytes",
            format!("{found:?} is of none of {inputs:?}"),
        ));
    };
    let lines: u64 = input.iter().map(|text| text.lines().count() as u64).sum();
    let words: u64 = found.values().sum();
    for (name, number) in [("map input records", lines), ("map output records", words)] {
        let counted = success.counters.get(name).copied().unwrap_or_default();
        // Lines of several inputs may give the same words.
        let is_other = inputs.iter().any(|input| {
            let lines: u64 = input.iter().map(|text| text.lines().count() as u64).sum();
            name == "map input records" && lines == counted
        });
        if counted != number && !is_other {
            return Err(broken(
                "counters",
                format!("{name}: {counted}, not {number}"),
            ));
        }
    }
    Ok(())
}

/// A job that ended without an output left no part.
pub(super) fn has_no_output(model: &Model, register: &Register) -> Result<(), Failure> {
    let keys = model.object_keys();
    let parts = keys
        .iter()
        .filter(|key| key.starts_with("part") || *key == "_SUCCESS");
    let parts: Vec<&String> = parts.collect();
    match parts.is_empty() || register.state == State::Publishing {
        true => Ok(()),
        false => Err(broken(
            "end",
            format!("{:?}, and {parts:?}", register.state),
        )),
    }
}

/// Nothing is left but input, register and output.
pub(super) fn is_clean(model: &Model) -> Result<(), Failure> {
    let stays = ["in/", "part-", "_SUCCESS", "_fader/job"];
    let mut left = model.object_keys();
    left.retain(|key| !stays.iter().any(|prefix| key.starts_with(prefix)));
    match left.is_empty() {
        true => Ok(()),
        false => Err(broken("orphans", format!("{left:?}"))),
    }
}

/// The winners of rows are linearizable registers. It counts the calls that have an order.
///
/// `registers` takes a conditional put for a read and a write. That both act at one place is for
/// the search.
pub(super) fn are_linear(log: &object::Log) -> Result<usize, Failure> {
    let broken_by = |fault: Fault| broken("rows", fault.to_string());
    let rules = Rules::default();
    registers(log, &every_level, &rules).map_err(broken_by)?;
    let searched = search(log, &every_level, EFFORT, &rules).map_err(broken_by)?;
    match searched.given_up {
        0 => Ok(searched.ordered),
        calls => Err(broken("rows", format!("no verdict on {calls} calls"))),
    }
}
