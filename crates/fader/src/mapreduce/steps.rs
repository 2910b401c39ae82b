//! `fader mapreduce run --job FILE`: jobs one by one, each on the output of the one before.
//!
//! ```toml
//! [[step]]
//! program = "word-count"
//! input = ["file://books/**"]
//!
//! [[step]]
//! program = "top"
//! arguments = ["10"]
//! reduces = 1
//! ```
//!
//! A step has the flags of `run` as keys. The last one makes the output; the others have theirs
//! beside it, `-step-1` and so on, where they stay. A step whose output is complete is not run
//! again: an interrupted run goes on with the first that is not.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{FromArgMatches, Parser};
use fader_mapreduce::Definition;
use serde::Deserialize;
use toml::Value;

use super::definition::{Details, url};
use crate::failure;

/// The program of a step that runs executables.
const STREAMING: &str = "streaming";

/// A job of several.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) definition: Definition,
    /// The URL of its output.
    pub(super) output: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    step: Vec<Given>,
}

/// A step as its file has it.
#[derive(Deserialize)]
struct Given {
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    /// The flags of a job.
    #[serde(flatten)]
    details: toml::Table,
}

#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    details: Details,
}

/// The steps that a file names, the last of which makes `output`.
///
/// # Errors
/// When the file cannot be read, or a step cannot be: the error says which.
pub(super) fn read(path: &Path, output: &str) -> Result<Vec<Step>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    steps(&text, output).with_context(|| path.display().to_string())
}

fn steps(text: &str, output: &str) -> Result<Vec<Step>> {
    let File { step: given } = toml::from_str(text)?;
    let last = given.len();
    if last == 0 {
        return failure::invalid("it has no [[step]]");
    }
    let output = url(output)?;
    let mut steps: Vec<Step> = Vec::new();
    for (number, given) in (1..).zip(given) {
        let before = steps.last().map(|step| step.output.as_str());
        let output = match number == last {
            true => output.clone(),
            false => beside(&output, number),
        };
        let step = step(&given, before, output);
        steps.push(step.with_context(|| format!("step {number}"))?);
    }
    Ok(steps)
}

fn step(given: &Given, before: Option<&str>, output: String) -> Result<Step> {
    let mut flags: Vec<String> = before.iter().map(|url| format!("--input={url}")).collect();
    flags.extend(words(&given.details)?);
    let command = <Flags as clap::CommandFactory>::command();
    let details = command
        .try_get_matches_from(flags)
        .and_then(|matches| Flags::from_arg_matches(&matches))
        .map_err(|error| anyhow::anyhow!("{}", reason(&error)))?
        .details;
    let definition = match given.program.as_str() {
        STREAMING => streaming(given, &details)?,
        program => details.of(program, &given.arguments)?,
    };
    Ok(Step { definition, output })
}

/// A step of executables, with the arguments of Hadoop Streaming but for input and output.
fn streaming(given: &Given, details: &Details) -> Result<Definition> {
    if let Some(name) = given
        .details
        .keys()
        .find(|name| !matches!(name.as_str(), "input" | "work"))
    {
        return failure::invalid(format_args!(
            "{name} is no key of a streaming step: its arguments have all but input and work"
        ));
    }
    let mut arguments = given.arguments.clone();
    // Hadoop's parser wants both; they are those of the step.
    arguments.extend(["-input", "/", "-output", "/"].map(str::to_owned));
    let job = fader_streaming::parse(&arguments, &|path: &str| std::fs::read(path))?;
    let inputs: Result<Vec<String>> = details.input.iter().map(|input| url(input)).collect();
    Ok(Definition {
        inputs: inputs?,
        work: details.work.as_deref().map(url).transpose()?,
        ..job.definition
    })
}

/// The output of a step that is not the last: beside the last one's.
fn beside(output: &str, number: usize) -> String {
    let (place, query) = match output.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (output, String::new()),
    };
    format!("{}-step-{number}{query}", place.trim_end_matches('/'))
}

/// The command line that says what a table says.
fn words(table: &toml::Table) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for (name, value) in table {
        let values = match value {
            Value::Array(values) => values.clone(),
            value => vec![value.clone()],
        };
        for value in values {
            words.push(match value {
                Value::String(text) => format!("--{name}={text}"),
                Value::Integer(number) => format!("--{name}={number}"),
                Value::Boolean(true) => format!("--{name}"),
                Value::Boolean(false) => continue,
                _ => {
                    return failure::invalid(format_args!(
                        "{name} is a text, a number, true, or a list of texts"
                    ));
                }
            });
        }
    }
    Ok(words)
}

/// The first line of what a command line's parser says.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests;
