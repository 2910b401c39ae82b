//! The flags that define a job.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_mapreduce::{BuiltIn, Codec, Format, Library as _, Pattern, Program, Shuffle};
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use crate::failure;

/// A program with its job.
#[derive(Args)]
pub(super) struct Definition {
    /// The program: one of those below.
    program: String,
    /// What the program is told.
    arguments: Vec<String>,
    #[command(flatten)]
    details: Details,
}

/// What a file of steps says instead of the command line.
pub(super) const FLAGS: [&str; 13] = [
    "program",
    "input",
    "format",
    "fields",
    "reduces",
    "split",
    "lease",
    "shards",
    "no_backups",
    "codec",
    "shuffle",
    "skip_bad",
    "work",
];

/// All of a job but its program.
#[derive(Args)]
pub(super) struct Details {
    /// A URL of input, with `*`, `?` and `**`; a folder stands for all in it. May be repeated.
    #[arg(long, value_name = "URL")]
    pub(super) input: Vec<String>,
    /// How input is cut into records.
    #[arg(long, value_name = "FORMAT", default_value = "lines")]
    format: FormatName,
    /// The fields of JSON, or columns of CSV or Parquet, that a record has, with commas between.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    fields: Vec<String>,
    /// The number of reduce tasks, and of parts.
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    reduces: u32,
    /// Bytes of input of a map task, about.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = bytes)]
    split: u64,
    /// After this time without a sign of life an attempt's task is given to another.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::dev::time)]
    lease: std::time::Duration,
    /// The number of domains that the rows of tasks are spread over.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    shards: u32,
    /// Never starts a second attempt beside one that takes long.
    #[arg(long)]
    no_backups: bool,
    /// How intermediate data is compressed: lz4 or zstd.
    #[arg(long, value_name = "CODEC", default_value = "lz4", value_parser = named::<Codec>)]
    codec: Codec,
    /// What carries pairs from map to reduce tasks: object, or queue (a queue for each partition).
    #[arg(long, value_name = "SHUFFLE", default_value = "object", value_parser = named::<Shuffle>)]
    shuffle: Shuffle,
    /// So many bad records of JSON or CSV of each task are left out and counted.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    skip_bad: u64,
    /// The URL below which the job keeps what only it reads; by default below the output.
    #[arg(long, value_name = "URL")]
    pub(super) work: Option<String>,
}

/// How input is cut into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// A record is a line.
    Lines,
    /// A record is a whole object.
    Whole,
    /// A record is a JSON object in a line.
    Json,
    /// A record is a row of a CSV file with a header.
    Csv,
    /// A record is a row of a Parquet file.
    Parquet,
}

impl Definition {
    /// The definition of the job.
    pub(super) fn of(&self) -> Result<fader_mapreduce::Definition> {
        self.details.of(&self.program, &self.arguments)
    }
}

/// Checks a definition, as far as that needs no cloud.
pub(super) fn check(definition: &fader_mapreduce::Definition, output: &str) -> Result<()> {
    definition.check()?;
    if definition.inputs.is_empty() {
        return failure::invalid("where is the input? say --input URL");
    }
    for input in &definition.inputs {
        let pattern = Pattern::parse(input)?;
        if is_inside(output, &pattern) {
            return failure::invalid(format_args!(
                "the output {output} is inside the input {input}: choose another"
            ));
        }
        if let Some(work) = definition
            .work
            .as_ref()
            .filter(|work| is_inside(work, &pattern))
        {
            return failure::invalid(format_args!(
                "the place {work} is inside the input {input}: choose another"
            ));
        }
    }
    Ok(())
}

impl Details {
    /// The definition of a job of this program.
    pub(super) fn of(
        &self,
        program: &str,
        arguments: &[String],
    ) -> Result<fader_mapreduce::Definition> {
        let program = Program {
            name: program.to_owned(),
            arguments: arguments.to_vec(),
        };
        BuiltIn.open(&program)?;
        let inputs: Result<Vec<String>> = self.input.iter().map(|input| url(input)).collect();
        let format = match self.format {
            FormatName::Lines => Format::Lines,
            FormatName::Whole => Format::Whole,
            FormatName::Json => Format::Json(self.fields.clone()),
            FormatName::Csv => Format::Csv(self.fields.clone()),
            FormatName::Parquet => Format::Parquet(self.fields.clone()),
        };
        if !self.fields.is_empty() && matches!(format, Format::Lines | Format::Whole) {
            return failure::invalid("--fields needs --format json, csv or parquet");
        }
        let definition = fader_mapreduce::Definition {
            format,
            reduces: self.reduces,
            shards: self.shards,
            lease_ms: u64::try_from(self.lease.as_millis())?,
            split_bytes: self.split,
            backups: !self.no_backups,
            codec: self.codec,
            shuffle: self.shuffle,
            skip_bad: self.skip_bad,
            work: self.work.as_deref().map(url).transpose()?,
            ..fader_mapreduce::Definition::new(program, inputs?)
        };
        definition.check()?;
        Ok(definition)
    }
}

/// Whether parts of an output would be input.
fn is_inside(output: &str, input: &Pattern) -> bool {
    let bare = |url: &str| {
        let url = url.split("?").next().unwrap_or_default();
        url.trim_end_matches('/').to_owned()
    };
    let (output, base) = (bare(output), bare(&input.base));
    let Some(below) = output.strip_prefix(&base) else {
        return false;
    };
    let is_folder = below.is_empty() || below.starts_with('/');
    let part = format!("{below}/part-00000");
    is_folder && input.matches(part.trim_start_matches('/'))
}

/// A URL as it is, or the URL of a path of this machine.
pub(super) fn url(text: &str) -> Result<String> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    if text.is_empty() {
        return failure::invalid("an empty path");
    }
    let path = Path::new(text);
    let path = match path.is_absolute() {
        true => path.to_owned(),
        false => std::env::current_dir()
            .context("the working folder")?
            .join(path),
    };
    let path = path
        .to_str()
        .context("the working folder's path is not UTF-8")?;
    Ok(format!("file://{path}"))
}

/// A value by its name in JSON.
pub(super) fn named<T: DeserializeOwned>(name: &str) -> Result<T, serde::de::value::Error> {
    T::deserialize(name.into_deserializer())
}

/// A number of bytes, such as 512MiB.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("", 0)];
    let parsed = units.into_iter().find_map(|(unit, shift)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(1 << shift).filter(|bytes| 0 < *bytes)
    });
    parsed.ok_or_else(|| format!("{text:?} is no size: write 65536, 512MiB or 2GiB"))
}

/// A word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests;
